"""What a worker does: build a network, show it a batch, ask proxies. It knows nothing of stores, strategies or other
workers.

A question is a list of blank records of one architecture and seed; the answer is the same records filled in.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import nn

from untrained.engine._sitting import Sitting
from untrained.engine.population import Population, at_once
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.rng import seed_for
from untrained.spaces import load_space
from untrained.types import Arch, Batch, Record, Task

Blanks = Sequence[Record]  # of one architecture and one seed: as far as they are known before anything is measured
Build = Callable[[Arch], nn.Module]


@dataclass(frozen=True)
class Job:
    """Everything a worker must know before its first question, in a form that can be sent to another process or
    machine: code by its name, samples by value, so that a worker needs no data set."""

    space: str
    proxies: tuple[str, ...]
    task: Task
    batches: Mapping[int, Batch]  # by seed
    device: str = "cpu"
    population: int | None = None  # networks to look at together; by default what the device is best at

    def on(self, slot: int) -> "Job":
        """The same job for one of several workers: those on GPUs take turns."""
        several = self.device == "cuda" and torch.cuda.device_count() > 1
        return replace(self, device=f"cuda:{slot % torch.cuda.device_count()}") if several else self

    def open(self) -> "Examiner":
        home, task, device = load_space(self.space), self.task, self.device
        judges = [load_proxy(name) for name in self.proxies]
        build = lambda arch: home.build(arch, task, device)  # noqa: E731
        return Examiner(build, judges, task.loss, self.batches, device, self.population)


@dataclass
class Examiner:
    """Builds networks and asks proxies. Samples are moved to the device once and stay there."""

    build: Build
    proxies: Sequence[Proxy]
    loss: str
    batches: Mapping[int, Batch]  # by seed; each proxy sees the first of the samples
    device: str = "cpu"
    population: int | None = None
    _moved: dict[int, Batch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        usable(self.device)
        told_apart(self.proxies)

    def __call__(self, blanks: Blanks) -> list[Record]:
        """The records that the blanks ask for. The network is built once, and all proxies share one probe of the
        largest batch; a small batch is the head of a large one, so no record depends on what else was asked."""
        return Sitting(self, blanks[0].arch, blanks[0].seed).asked(told_apart(self.proxies), blanks)

    def answers(self, questions: Sequence[Blanks]) -> Iterator[list[Record]]:
        """The answers to many questions, in order; networks are looked at together where that was asked for."""
        return self._together.answers(questions)

    @property
    def at_once(self) -> int:
        """How many questions it is good to ask at a time."""
        return at_once(self.population, self.device)

    @cached_property
    def _together(self) -> Population:
        return Population(self, told_apart(self.proxies), self.at_once)

    def network(self, arch: Arch, seed: int) -> nn.Module:
        """The network with weights that depend on the architecture and the seed alone, made on the device."""
        with random_state(seed_for("weights", arch.space, arch, seed)):
            return self.build(arch)

    def batch(self, seed: int) -> Batch:
        if seed not in self._moved:
            self._moved[seed] = self.batches[seed].to(self.device)
        return self._moved[seed]


def told_apart(proxies: Iterable[Proxy]) -> dict[str, Proxy]:
    """Proxies by what their records are filed under. Two under one name would get each other's scores."""
    found: dict[str, Proxy] = {}
    for proxy in proxies:
        if found.setdefault(proxy.measure, proxy) != proxy:
            raise UsageError(f"two different proxies are called {proxy.label}; rename one of them")
    return found


def usable(device: str) -> None:
    """Refuse a device that is not there: nothing is moved to the CPU in silence."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {device!r} cannot be used on this machine; try cpu, cuda or mps") from error

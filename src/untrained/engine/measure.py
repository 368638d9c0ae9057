"""What a worker does: build a network, show it a batch, ask proxies. It knows nothing of stores, strategies or other
workers.

A question is a list of score requests for one architecture and seed; the answer is one record per request.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import torch
from torch import nn

from untrained._quantities import show_value
from untrained.engine._sitting import Sitting
from untrained.engine.population import Population
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.rng import seed_for
from untrained.spaces import Counts, load_space
from untrained.types import FRESH, Arch, Batch, Record, ScoreRequest, Task

Requests = Sequence[ScoreRequest]  # all for one architecture, seed and kind of weights
Build = Callable[[Arch], nn.Module]
Count = Callable[[Arch], Counts | None]  # what is known of a network's size without counting
Warm = Callable[[nn.Module, Arch, int], None]  # changes the fresh weights of a network, given its name and the seed


class Start(Protocol):
    """Other weights for networks than fresh ones. It travels with the job, so it must hold what it needs."""

    @property
    def init(self) -> str:
        """Everything that decides these weights, as records are filed under."""
        ...

    @property
    def seconds(self) -> float:
        """What it took before the first network was asked for, all sittings together."""
        ...

    def open(self, supernet: Callable[[], Any], device: str) -> Warm:
        """Ready to work on a device; `supernet` makes that of the space."""
        ...


@dataclass(frozen=True)
class Job:
    """Everything a worker must know before its first question, in a form that can be sent to another process or
    machine: code by its name, samples by value, so that a worker needs no data set."""

    space: str
    proxies: tuple[str, ...]
    task: Task
    batches: Mapping[int, Batch]  # by seed
    device: str = "cpu"
    start: Start | None = None
    population: int = 1  # networks to look at together; many are meant for a GPU
    neighbours: int = 1  # workers that share a GPU and its memory, this one included
    measures: tuple[str, ...] = ()  # under which the answers of the proxies are filed

    def on(self, slot: int) -> "Job":
        """The same job for one of several workers: those on GPUs take turns."""
        several = self.device == "cuda" and torch.cuda.device_count() > 1
        return replace(self, device=f"cuda:{slot % torch.cuda.device_count()}") if several else self

    def open(self) -> "Examiner":
        usable(self.device)
        home, task, device = load_space(self.space), self.task, self.device
        judges = [load_proxy(name) for name in self.proxies]
        for name, judge, measure in zip(self.proxies, judges, self.measures, strict=False):
            if judge.measure != measure:
                raise UsageError(f"{name} has changed while it was in use; the same command begins anew with it")
        warm = self.start.open(lambda: home.supernet(task, device), device) if self.start else None
        build, count = partial(home.build, task=task, device=device), partial(home.counts, task=task)
        crowd = self.population, self.neighbours
        return Examiner(build, judges, task.loss, self.batches, device, warm, *crowd, count)


@dataclass
class Examiner:
    """Builds networks and asks proxies. Samples are moved to the device once and stay there."""

    build: Build
    proxies: Sequence[Proxy]
    loss: str
    batches: Mapping[int, Batch]  # by seed; each proxy sees the first of the samples
    device: str = "cpu"
    warm: Warm | None = None  # for records that do not ask for fresh weights
    population: int = 1
    neighbours: int = 1
    counts: Count = lambda arch: None  # nobody knows
    _moved: dict[int, Batch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        told_apart(self.proxies)

    def __call__(self, requests: Requests) -> list[Record]:
        """The records that the requests ask for. The network is built once, and all proxies share one probe of the
        largest batch; a small batch is the head of a large one, so no record depends on what else was asked."""
        return Sitting(self, requests[0]).asked(told_apart(self.proxies), requests)

    def answers(self, questions: Sequence[Requests]) -> Iterator[list[Record]]:
        """The answers to many questions, in order; networks are looked at together where that was asked for."""
        return self._together.answers(questions)

    @cached_property
    def _together(self) -> Population:
        return Population(self, told_apart(self.proxies), self.population)

    def network(self, arch: Arch, seed: int, init: str = FRESH) -> nn.Module:
        """The network with weights that depend on the architecture, the seed and `init` alone, made on the device."""
        usable(self.device)
        with random_state(seed_for("weights", arch.space, arch, seed)):
            model = self.build(arch)
        if init != FRESH and self.warm:
            self.warm(model, arch, seed)
        return model

    def batch(self, seed: int) -> Batch:
        if seed not in self._moved:
            self._moved[seed] = self.batches[seed].to(self.device)
        return self._moved[seed]


def told_apart(proxies: Iterable[Proxy]) -> dict[str, Proxy]:
    """Proxies by what their records are filed under. Two under one name would be taken for each other."""
    found: dict[str, Proxy] = {}
    for proxy in proxies:
        if found.setdefault(proxy.label, proxy) != proxy:
            raise UsageError(f"two different proxies are called {proxy.label}; rename one of them")
    return {proxy.measure: proxy for proxy in found.values()}


def usable(device: object) -> str:
    """The name of a device that this machine can compute on.

    Nothing is moved to the CPU in silence, so any other device is refused.

    Args:
        device: A name, such as `cuda:1`, or a `torch.device`.

    Raises:
        UsageError: One line with the devices that can be used here.
    """
    name = device_name(device)
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise _unusable(name) from error
    return name


def device_name(device: object) -> str:
    """The name of a device on which there could be numbers, whether or not this machine has it."""
    if not isinstance(device, str | torch.device):
        raise _unusable(device)
    name = str(device)
    try:
        kind = torch.device(name)
    except RuntimeError as error:
        raise _unusable(name) from error
    # torch counts one CPU only, and takes any number behind it; tensors on `meta` have no numbers.
    if kind.type == "meta" or (kind.type == "cpu" and kind.index is not None):
        raise _unusable(name)
    return name


def _unusable(device: object) -> UsageError:
    others = {"cuda": torch.cuda, "mps": torch.backends.mps}
    present = ["cpu", *(kind for kind, backend in others.items() if backend.is_available())]
    return UsageError(f"device {show_value(device)} cannot be used on this machine; try {' or '.join(present)}")

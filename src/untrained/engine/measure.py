"""What a worker does: build a network, show it a batch, ask proxies. It knows nothing of stores, strategies or other
workers.

A question is a list of blank records of one architecture and seed; the answer is the same records filled in.
"""

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from time import perf_counter
from typing import Any, Protocol

import torch
from torch import nn

from untrained.engine.faults import attempt
from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.rng import seed_for
from untrained.spaces import load_space
from untrained.types import FRESH, Arch, Batch, Failure, Record, Task

Blanks = Sequence[
    Record
]  # of one architecture, seed and kind of weights: as far as they are known before anything is measured
Build = Callable[[Arch], nn.Module]
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

    def on(self, slot: int) -> "Job":
        """The same job for one of several workers: those on GPUs take turns."""
        several = self.device == "cuda" and torch.cuda.device_count() > 1
        return replace(self, device=f"cuda:{slot % torch.cuda.device_count()}") if several else self

    def open(self) -> "Examiner":
        home, task, device = load_space(self.space), self.task, self.device
        judges = [load_proxy(name) for name in self.proxies]
        warm = self.start.open(lambda: home.supernet(task, device), device) if self.start else None
        return Examiner(lambda arch: home.build(arch, task, device), judges, task.loss, self.batches, device, warm)


@dataclass
class Examiner:
    """Builds networks and asks proxies. Samples are moved to the device once and stay there."""

    build: Build
    proxies: Sequence[Proxy]
    loss: str
    batches: Mapping[int, Batch]  # by seed; each proxy sees the first of the samples
    device: str = "cpu"
    warm: Warm | None = None  # for records that do not ask for fresh weights
    _moved: dict[int, Batch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        usable(self.device)
        told_apart(self.proxies)

    def __call__(self, blanks: Blanks) -> list[Record]:
        """The records that the blanks ask for. The network is built once, and all proxies share one probe of the
        largest batch; a small batch is the head of a large one, so no record depends on what else was asked."""
        sitting = _Sitting(self, blanks[0])
        judges = told_apart(self.proxies)
        answers = [sitting.ask(judges[blank.measure], blank) for blank in blanks]
        return sitting.closed(answers)

    def network(self, arch: Arch, seed: int, init: str = FRESH) -> nn.Module:
        """The network with weights that depend on the architecture, the seed and `init` alone, made on the device."""
        with random_state(seed_for("weights", arch.space, arch, seed)):
            model = self.build(arch)
        if init != FRESH and self.warm:
            self.warm(model, arch, seed)
        return model

    def batch(self, seed: int) -> Batch:
        if seed not in self._moved:
            self._moved[seed] = self.batches[seed].to(self.device)
        return self._moved[seed]


class _Sitting:
    """One network on the table."""

    def __init__(self, examiner: Examiner, blank: Record) -> None:
        self.examiner, self.seed, self.device = examiner, blank.seed, _Device(examiner.device)
        start = perf_counter()
        made = attempt(examiner.network, blank.arch, blank.seed, blank.init)
        self.device.wait()
        built = perf_counter()
        self.subject = made if isinstance(made, Failure) else attempt(self._moved, made)
        self.device.wait()
        self.build_seconds, self.transfer_seconds = built - start, perf_counter() - built
        self.probe: Probe | None = None

    def _moved(self, model: nn.Module) -> tuple[nn.Module, Batch]:
        return model.to(self.examiner.device), self.examiner.batch(self.seed)

    def ask(self, proxy: Proxy, blank: Record) -> Record:
        start = perf_counter()
        outcome: float | Failure
        if isinstance(self.subject, Failure):
            outcome, note = self.subject, ""
        else:
            with random_state(seed_for("score", blank.measure, blank.arch, blank.seed)):  # a proxy may draw at random
                outcome, note = self._score(proxy, *self.subject)
        value, error = (None, outcome) if isinstance(outcome, Failure) else (outcome, None)
        return replace(blank, value=value, error=error, note=note, measure_seconds=perf_counter() - start)

    def closed(self, answers: list[Record]) -> list[Record]:
        """The answers with the cost that they share."""
        build, transfer = self.build_seconds / len(answers), self.transfer_seconds / len(answers)
        peak = self.device.peak()
        return [replace(a, build_seconds=build, transfer_seconds=transfer, peak_bytes=peak) for a in answers]

    def _score(self, proxy: Proxy, model: nn.Module, batch: Batch) -> tuple[float | Failure, str]:
        """The score, and what must be said of it. Out of memory is tried once more on half of the samples, where fewer
        samples estimate the same number."""
        outcome = attempt(self._shared, proxy, model, batch)
        if not isinstance(outcome, Failure) or outcome.kind != "oom":
            return outcome, ""
        self.probe = None  # whatever was measured is let go
        self.device.free()
        whole = min(proxy.samples, len(batch))
        if not proxy.averages or whole < 2:
            return outcome, ""
        again = attempt(self._alone, proxy, model, Batch(batch.inputs[: whole // 2], batch.targets[: whole // 2]))
        self.device.free()
        if isinstance(again, Failure):
            return outcome, ""
        return again, f"out of memory on {whole} samples: measured on {whole // 2}"

    def _shared(self, proxy: Proxy, model: nn.Module, batch: Batch) -> float:
        """The score by the probe that all proxies share, made when first asked for."""
        self.probe = self.probe or self._look(model, batch)
        return _finite(proxy(self.probe))

    def _alone(self, proxy: Proxy, model: nn.Module, batch: Batch) -> float:
        return _finite(proxy(self._look(model, batch)))

    def _look(self, model: nn.Module, batch: Batch) -> Probe:
        return Probe(model, batch, loss=self.examiner.loss, seed=self.seed)


def told_apart(proxies: Iterable[Proxy]) -> dict[str, Proxy]:
    """Proxies by what their records are filed under. Two under one name would get each other's scores."""
    found: dict[str, Proxy] = {}
    for proxy in proxies:
        if found.setdefault(proxy.measure, proxy) != proxy:
            raise UsageError(f"two different proxies are called {proxy.label}; rename one of them")
    return found


def _finite(value: float) -> float:
    if isnan(value):
        raise Unscorable("nan", "the score is not a number")
    if not isfinite(value):
        raise Unscorable("inf", "the score is infinite")
    return value


class _Device:
    """The clock and the memory of a GPU; of the CPU there is nothing to say."""

    def __init__(self, device: str) -> None:
        self.cuda = torch.device(device) if torch.device(device).type == "cuda" else None
        if self.cuda:
            torch.cuda.reset_peak_memory_stats(self.cuda)

    def peak(self) -> int | None:
        return torch.cuda.max_memory_allocated(self.cuda) if self.cuda else None

    def wait(self) -> None:
        """Until the device has done what it was told, so that seconds are charged to whom they belong."""
        if self.cuda:
            torch.cuda.synchronize(self.cuda)

    def free(self) -> None:
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()


def usable(device: str) -> None:
    """Refuse a device that is not there: nothing is moved to the CPU in silence."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {device!r} cannot be used on this machine; try cpu, cuda or mps") from error

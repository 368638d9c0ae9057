"""One network on the table: built, moved, asked by proxies, and what that cost."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, isnan
from time import perf_counter
from typing import Protocol

import torch
from torch import nn

from untrained.engine.faults import attempt
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.proxies import Proxy
from untrained.rng import seed_for
from untrained.spaces import Counts
from untrained.types import Arch, Batch, Failure, Record, ScoreRequest


class Host(Protocol):
    """Who builds networks and has samples: an Examiner."""

    loss: str
    device: str
    neighbours: int

    def network(self, arch: Arch, seed: int, init: str) -> nn.Module: ...

    def batch(self, seed: int) -> Batch: ...

    @property
    def counts(self) -> Callable[[Arch], Counts | None]: ...


class Sitting:
    """One network on the table."""

    def __init__(self, examiner: Host, request: ScoreRequest, wait: bool = True) -> None:
        """Who does not `wait` charges the time that a GPU takes to draw weights to whoever waits for it next."""
        self.examiner, self.arch, self.seed = examiner, request.arch, request.seed
        self.device = Device(examiner.device)
        start = perf_counter()
        made = attempt(examiner.network, request.arch, request.seed, request.init)
        if wait:
            self.device.wait()
        built = perf_counter()
        self.subject = made if isinstance(made, Failure) else attempt(self._moved, made)
        if wait:
            self.device.wait()
        self.build_seconds, self.transfer_seconds = built - start, perf_counter() - built
        self.probe: Probe | None = None

    def _moved(self, model: nn.Module) -> tuple[nn.Module, Batch]:
        device = self.examiner.device
        return (model if _lies_on(model, device) else model.to(device)), self.examiner.batch(self.seed)

    def ask(self, proxy: Proxy, request: ScoreRequest) -> Record:
        """Score the network with one proxy."""
        start = perf_counter()
        outcome: float | Failure
        if isinstance(self.subject, Failure):
            outcome = self.subject
        else:
            # a proxy may draw random numbers
            with random_state(seed_for("score", request.measure, request.arch, request.seed)):
                outcome = self._score(proxy, *self.subject)
        return Record.of(request, outcome, measure_seconds=perf_counter() - start)

    def asked(
        self, judges: Mapping[str, Proxy], requests: Sequence[ScoreRequest], shared_seconds: float = 0.0
    ) -> list[Record]:
        """Score the network with every requested proxy.

        Building, moving and shared measurements are paid once per network, so each record carries an equal part.

        Args:
            judges: Proxies by measure.
            requests: What to measure. All of them are about this network.
            shared_seconds: Time that was spent on measurements that several proxies read.

        Returns:
            One record per request, in the same order.
        """
        count = len(requests)
        records = [self.ask(judges[request.measure], request) for request in requests]
        peak_bytes = self.device.peak()
        return [
            replace(
                record,
                build_seconds=self.build_seconds / count,
                transfer_seconds=self.transfer_seconds / count,
                measure_seconds=record.measure_seconds + shared_seconds / count,
                peak_bytes=peak_bytes,
            )
            for record in records
        ]

    def look(self) -> Probe | None:
        """The probe that all proxies share, made when first asked for; None where there is no network."""
        if self.probe is None and not isinstance(self.subject, Failure):
            self.probe = self._look(*self.subject)
        return self.probe

    def _score(self, proxy: Proxy, model: nn.Module, batch: Batch) -> float | Failure:
        """The score on the whole batch, or why there is none.

        There is no second attempt on fewer samples: its value would be filed as that of the whole batch. Running out of
        memory is a failure that another run tries again.
        """
        outcome = attempt(self._shared, proxy, model, batch)
        if isinstance(outcome, Failure) and outcome.kind == "oom":
            self.probe = None  # frees what was measured so far, so that the next proxy has room
            self.device.free()
        return outcome

    def _shared(self, proxy: Proxy, model: nn.Module, batch: Batch) -> float:
        """The score by the probe that all proxies share, made when first asked for."""
        self.probe = self.probe or self._look(model, batch)
        return finite(proxy(self.probe))

    def _look(self, model: nn.Module, batch: Batch) -> Probe:
        known = self.examiner.counts(self.arch)
        return Probe(model, batch, loss=self.examiner.loss, seed=self.seed, macs=known.flops if known else None)


def _lies_on(model: nn.Module, device: str) -> bool:
    """Whether nothing is to be moved; `model.to` takes a millisecond to find that out."""
    kind = torch.empty(0, device=device).device
    held = (tensor for m in model.modules() for tensor in (*m._parameters.values(), *m._buffers.values()))
    return all(tensor is None or tensor.device == kind for tensor in held)


def finite(value: float) -> float:
    if isnan(value):
        raise Unscorable("nan", "the score is not a number")
    if not isfinite(value):
        raise Unscorable("inf", "the score is infinite")
    return value


class Device:
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

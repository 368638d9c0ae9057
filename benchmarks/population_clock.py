"""Measure where the time goes when many networks are scored per pass, for `population.py`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any, ClassVar

import torch

from untrained.data import load_data
from untrained.engine.batched.batch_scorer import pause_garbage_collection
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.batched import plan
from untrained.probe.batched.plan import MeasurementPlan
from untrained.probe.batched.scheduler import RunStatistics
from untrained.probe.batched.signatures import SignatureCache
from untrained.probe.guard import random_state
from untrained.proxies import load_proxy
from untrained.spaces import Space
from untrained.types import Arch, Task

# Functions of `batched/plan.py`.
_TIMED = {
    "record": "record_tape",
    "run": "run_tapes",
    "conditions": "compute_slice_conditions",
}


class PurposeTimer:
    """Measures seconds per purpose; those of a nested purpose count only there.

    A GPU is synchronised before each reading of the clock.
    """

    PURPOSES: ClassVar = ("build", "record", "run", "conditions", "measure", "score")

    def __init__(self, device: str) -> None:
        self.device = device
        self.seconds = dict.fromkeys(self.PURPOSES, 0.0)

    @contextmanager
    def measure(self, purpose: str) -> Iterator[None]:
        start = self._now()
        before = sum(self.seconds.values())
        yield
        inside = sum(self.seconds.values()) - before
        self.seconds[purpose] += self._now() - start - inside

    def wrap_function(self, purpose: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call_and_measure(*args: Any, **kwargs: Any) -> Any:
            with self.measure(purpose):
                return function(*args, **kwargs)

        return call_and_measure

    def _now(self) -> float:
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        return perf_counter()


def profile_scoring(
    space: Space, task: Task, archs: Sequence[Arch], size: int, device: str
) -> tuple[PurposeTimer, RunStatistics]:
    """Score all networks in batches of `size` and measure the time, after one batch for warm-up."""
    dextr = load_proxy("dextr")
    batch = load_data("noise", task).batch(1, 0).to(device)

    def build_probe(arch: Arch) -> Probe:
        with random_state(0):
            return Probe(space.build(arch, task, device), batch)

    def score_probe(probe: Probe) -> None:
        with suppress(Unscorable):
            dextr(probe)

    timer = PurposeTimer(device)
    statistics = RunStatistics()
    signatures = SignatureCache()
    first = build_probe(archs[0])
    score_probe(first)
    measurement_plan = MeasurementPlan.from_probe(first)

    def score_batch(part: Sequence[Arch], statistics: RunStatistics) -> None:
        with pause_garbage_collection():
            with timer.measure("build"):
                probes = [build_probe(arch) for arch in part]
            if size > 1:
                with timer.measure("measure"):
                    measurement_plan.measure(probes, signatures, statistics)
            with timer.measure("score"):
                for probe in probes:
                    score_probe(probe)

    originals = {purpose: getattr(plan, name) for purpose, name in _TIMED.items()}
    try:
        for purpose, name in _TIMED.items():
            setattr(plan, name, timer.wrap_function(purpose, originals[purpose]))
        score_batch(archs[:size], RunStatistics())
        timer.seconds = dict.fromkeys(PurposeTimer.PURPOSES, 0.0)
        for start in range(0, len(archs), size):
            score_batch(archs[start : start + size], statistics)
    finally:
        for purpose, name in _TIMED.items():
            setattr(plan, name, originals[purpose])
    return timer, statistics

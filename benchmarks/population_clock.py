"""Where the time of a population goes, for `population.py`."""

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

_TIMED = {
    "write": "record_tape",
    "play": "run_tapes",
    "conditions": "compute_conditions",
}  # functions of `batched/plan.py`


class Clock:
    """Seconds by purpose, without what is charged to another purpose inside; a GPU is waited for before each look."""

    PARTS: ClassVar = ("build", "write", "play", "conditions", "tell", "ask")

    def __init__(self, device: str) -> None:
        self.device, self.seconds = device, dict.fromkeys(self.PARTS, 0.0)

    @contextmanager
    def on(self, purpose: str) -> Iterator[None]:
        start, before = self._now(), sum(self.seconds.values())
        yield
        inside = sum(self.seconds.values()) - before
        self.seconds[purpose] += self._now() - start - inside

    def timed(self, purpose: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.on(purpose):
                return function(*args, **kwargs)

        return wrapped

    def _now(self) -> float:
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        return perf_counter()


def profiled(
    space: Space, task: Task, archs: Sequence[Arch], size: int, device: str
) -> tuple[Clock, RunStatistics]:
    """Score all networks in populations of that size, by the clock; one population more beforehand, to get warm."""
    dextr = load_proxy("dextr")
    batch = load_data("noise", task).batch(1, 0).to(device)

    def built(arch: Arch) -> Probe:
        with random_state(0):
            return Probe(space.build(arch, task, device), batch)

    def ask(probe: Probe) -> None:
        with suppress(Unscorable):
            dextr(probe)

    clock, tally, known, first = Clock(device), RunStatistics(), SignatureCache(), built(archs[0])
    ask(first)
    look = MeasurementPlan.from_probe(first)

    def together(part: Sequence[Arch], tally: RunStatistics) -> None:
        with pause_garbage_collection():
            with clock.on("build"):
                probes = [built(arch) for arch in part]
            if size > 1:
                with clock.on("tell"):
                    look.measure(probes, known, tally)
            with clock.on("ask"):
                for probe in probes:
                    ask(probe)

    originals = {purpose: getattr(plan, name) for purpose, name in _TIMED.items()}
    try:
        for purpose, name in _TIMED.items():
            setattr(plan, name, clock.timed(purpose, originals[purpose]))
        together(archs[:size], RunStatistics())
        clock.seconds = dict.fromkeys(Clock.PARTS, 0.0)
        for start in range(0, len(archs), size):
            together(archs[start : start + size], tally)
    finally:
        for purpose, name in _TIMED.items():
            setattr(plan, name, originals[purpose])
    return clock, tally

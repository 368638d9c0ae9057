"""The limits of one search: the part of the space that keeps to them, latencies measured and remembered, and how the
best stand beside every limit.

Latencies are records like others, of a measure `latency(...)@1`, so a search that goes on later takes the same way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from time import perf_counter
from typing import Any

import torch

from untrained.engine.faults import attempt
from untrained.engine.measure import usable
from untrained.engine.store import Store
from untrained.errors import Unscorable
from untrained.probe.guard import random_state
from untrained.rng import generator, seed_for
from untrained.runs.ranking import Ranking
from untrained.spaces import Space
from untrained.strategies.latency import Gauge, LatencyModel, Stopwatch
from untrained.strategies.limits import Feasible, Limits, Pace, Size, pace
from untrained.types import Arch, Failure, Record, ScoreRequest, Task

LIMITS = tuple(field.name for field in fields(Limits))
TOP = 10  # of the ranking whose latency is measured
QUICK, CAREFUL = 30, 100  # runs of a measurement: while searching, and where it decides about a winner


@dataclass(frozen=True, slots=True)
class Kept:
    """A limit as it was typed, how many drawn architectures it turned down, and what the best has."""

    limit: str
    asked: str
    rejected: int
    value: float | None


class Clock:
    """Latencies on this machine, each measured once: what the store knows is not measured again."""

    def __init__(self, space: Space, task: Task, device: str, code: str = "") -> None:
        self._space, self._task, self.device = space, task, device
        self._code = code  # fingerprint of the user's code that defines the space
        self.store: Store | None = None
        self.question = ""
        self.records: dict[tuple[Arch, str], Record] = {}

    def remember(self, store: Store, question: str) -> None:
        """Read latencies from this store and write them to it, also those that were measured before."""
        self.store = store
        self.question = question
        store.add(self.records.values())
        store.add_to_question(question, self.records.values())

    def __call__(self, arch: Arch, runs: int) -> Record:
        stopwatch = Stopwatch(self.device, runs=runs)
        measure = f"latency(batch={stopwatch.batch},threads={stopwatch.threads},runs={runs})@1"
        if (arch, measure) not in self.records:
            request = ScoreRequest(arch, measure, self._task, 0, device=torch.device(self.device).type, code=self._code)
            record = self._known(request) or self._measured(request, stopwatch)
            self.records[arch, measure] = record
            if self.store is not None:
                self.store.add_to_question(self.question, [record])
        return self.records[arch, measure]

    def seconds(self, arch: Arch) -> float:
        record = self(arch, QUICK)
        if record.value is None:
            raise Unscorable("latency", str(record.error))
        return record.value

    def _known(self, request: ScoreRequest) -> Record | None:
        found = self.store.get(request.key) if self.store is not None else None
        return None if found is None or (found.error and found.error.passing) else found

    def _measured(self, request: ScoreRequest, stopwatch: Stopwatch) -> Record:
        usable(self.device)
        start = perf_counter()
        outcome = attempt(self._time, request.arch, stopwatch)
        record = Record.of(request, outcome, measure_seconds=perf_counter() - start)
        if self.store is not None:
            self.store.add([record])
        return record

    def _time(self, arch: Arch, stopwatch: Stopwatch) -> float:
        with random_state(seed_for("weights", arch.space, arch, 0)):
            network = self._space.build(arch, self._task)
        return stopwatch(network, self._task.input_shape).seconds


Rank = Callable[[list[Record]], Ranking]
Contenders = Callable[[Ranking, Sequence[Record]], Iterable[Arch]]


def _nobody(ranking: Ranking, records: Sequence[Record]) -> Iterable[Arch]:
    return ()


class Bounds:
    """The limits of a search as they were typed; `space` holds what keeps to them."""

    def __init__(self, space: Space, task: Task, asked: Mapping[str, str | None], code: str = "") -> None:
        self.asked = {name: str(said) for name, said in asked.items() if said is not None}
        self._limits, self._home, self._task = Limits.read(**self.asked), space, task
        self._pace = self._limits.max_latency
        self.clock = Clock(space, task, self._pace.device, code) if self._pace else None
        self.space = Feasible(space, self._limits, task, self._gauge(self.clock, self._pace))

    def _gauge(self, clock: Clock | None, limit: Pace | None) -> Any:
        if clock is None or limit is None:
            return None
        model = LatencyModel(lambda arch: Size(self._home, arch, self._task).probe.operations)
        gauge = Gauge(model, clock.seconds, limit)

        def seconds(arch: Arch) -> float:
            try:
                return gauge(arch)
            except Unscorable:  # what cannot be run here keeps to no limit of latency
                return inf

        return seconds

    def ready(self) -> None:
        """Refuse limits that cannot be kept, before anything is measured or written.

        Sizes are tried by drawing one architecture. Latency is not: measuring it belongs to the search.
        """
        if self.clock:
            usable(self.clock.device)
        sizes = replace(self._limits, max_latency=None)
        if sizes:
            Feasible(self._home, sizes, self._task).sample(generator("limits", self._home.name))

    def remember(self, store: Store, question: str) -> None:
        """From now on latencies are read from and written to the store, as part of the question of the run."""
        if self.clock:
            self.clock.remember(store, question)

    def settle(self, records: Sequence[Record], rank: Rank, others: Contenders = _nobody) -> None:
        """Measure the latency of every architecture that may win, carefully, from the first of the ranking down,
        until the ten best and all `others` keep to the limit of latency."""
        if self.clock is None:
            return
        measured = set[Arch]()
        while True:
            known = [*records, *self.clock.records.values()]
            ranking = rank(list({record.key: record for record in known}.values()))
            may_win = [standing.arch for standing in ranking.standings[:TOP]]
            may_win += others(ranking, known)
            new = next((arch for arch in may_win if arch not in measured), None)
            if new is None:
                return
            measured.add(new)
            self.clock(new, CAREFUL)

    def kept(self, best: Arch | None) -> list[dict[str, Any]]:
        """Every limit beside what the best has, as plain rows."""
        rejected = self.space.rejected
        rows = [Kept(name, said, rejected[name], self._value(name, best)) for name, said in self.asked.items()]
        return [asdict(row) for row in rows]

    def _value(self, limit: str, best: Arch | None) -> float | None:
        if best is None:
            return None
        if limit == "max_latency" and self.clock is not None:
            return self.clock(best, CAREFUL).value
        size: float = getattr(Size(self._home, best, self._task), limit.partition("_")[2])
        return size


def find_too_slow(records: Iterable[Record], max_latency: str | None) -> dict[Arch, Failure]:
    """Find the architectures that at least one measurement found slower than the limit, or that could not be run.

    Args:
        records: Records of any measures; latencies are those of measures `latency(...)`.
        max_latency: The limit as it was typed, such as `5ms@cpu`; None where there is none.
    """
    too_slow: dict[Arch, Failure] = {}
    if max_latency is None:
        return too_slow
    limit = pace(max_latency)
    for record in records:
        if not record.measure.startswith("latency("):
            continue
        if record.value is None:
            too_slow[record.arch] = Failure("latency", str(record.error))
        elif record.value > limit.seconds:
            too_slow[record.arch] = Failure("latency", f"{Pace(record.value, limit.device)}, over {limit}")
    return too_slow

"""`--max-latency`: measures and predicts the latencies that the limit of a search is applied to.

Only `LatencyLimit.is_exceeded_by` (config.py) compares a latency with the limit. It has four
callers:

1. During a search, `ConstrainedSpace` (limits.py) rejects slow candidates, so that a strategy never
   sees them. Their latency comes from `MaxLatency.estimate_seconds`: it is predicted if the
   prediction is far enough from the limit, and measured otherwise.
2. After a search, `MaxLatency.measure_finalists` measures the best with more forward passes, and
   `find_slow_archs` (runs/winner.py) removes those above the limit from the ranking.
3. `SearchLimits.measure_latency_within_limit` (search_limits.py) checks the substitutes of a
   contest (workflows/contest_entrants.py).
4. `describe_violation` (workflows/design_limits.py) checks the known designs for tables.

The known designs of a space are checked as candidates (1). The entries of a contest, apart from
substitutes, are checked as finalists (2).

Latency is measured on what a search delivers: an ONNX model in ONNX Runtime with one thread.
Without the extra `export`, on a GPU, or if the networks cannot be written as ONNX, it is measured
in torch. Strategies propose architectures between two batches of scores, so no worker computes
during a measurement.

A latency is a record like any other, with the measure `latency(runtime=...,machine=...)@2`, so a
resumed search makes the same decisions again. On hardware of another model it measures again,
because the limit is about the machine that the search runs on.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from math import inf
from time import perf_counter

import torch

from untrained.config import LatencyLimit
from untrained.engine.devices import check_device, describe_hardware
from untrained.engine.failures import catch_failure
from untrained.errors import Unscorable
from untrained.onnx_files import can_run_onnx
from untrained.probe.guard import random_state
from untrained.runs.ranking import Ranking
from untrained.runs.store import Store
from untrained.seeds import derive_seed
from untrained.spaces import Space
from untrained.strategies.latency import LatencyModel, LatencyTimer, Runtime
from untrained.strategies.limits import NetworkSize
from untrained.types import Arch, Failure, Record, ScoreRequest, Task

# Number of best architectures that are measured again after a search.
FINALISTS = 10
# Forward passes per round of a measurement (up to 3 rounds), during a search and for finalists.
SEARCH_RUNS = 30
FINAL_RUNS = 100
# Number of measurements before the first prediction.
_MIN_MEASUREMENTS = 16
# After this many measurements, a search only predicts. A measurement takes about half a second,
# most of it for writing the ONNX model, and whatever may win is measured at the end.
_MAX_MEASUREMENTS = 64

# Ranks records, without the architectures that are too slow.
RankFunction = Callable[[list[Record]], Ranking]
# Lists further architectures that may win, such as those that short trainings will compare.
ContendersFunction = Callable[[Ranking, Sequence[Record]], Iterable[Arch]]


class LatencyMeter:
    """Measures latencies on this machine. Those in the store are not measured again.

    All networks are measured in the same runtime, because latencies of two runtimes cannot be
    compared. The first network decides which one.

    Args:
        space: Builds the networks.
        task: What they are built for.
        device: Where they run.
        code: Fingerprint of the user's code that defines the space.

    Attributes:
        records: All latencies, by architecture and measure.
    """

    def __init__(self, space: Space, task: Task, device: str, code: str = "") -> None:
        self._space = space
        self._task = task
        self._code = code
        self._store: Store | None = None
        self._search_key = ""
        self._runtime: Runtime | None = None
        self.device = device
        self.records: dict[tuple[Arch, str], Record] = {}

    def use_store(self, store: Store, search_key: str) -> None:
        """Read latencies from a store and write new ones to it, also those measured before.

        Args:
            store: The store.
            search_key: The key of the search; the store lists the records of each key.
        """
        self._store = store
        self._search_key = search_key
        store.add(self.records.values())
        store.add_to_search(search_key, self.records.values())

    def measure(self, arch: Arch, runs: int) -> Record:
        """Measure the latency of an architecture, unless it was measured before.

        Args:
            arch: The architecture.
            runs: Number of forward passes per round (up to 3 rounds).

        Returns:
            A record with the latency in seconds, or with the failure.
        """
        if self._runtime is None:
            self._runtime = self._choose_runtime(arch, runs)
        request = self._make_request(arch, self._runtime, runs)
        measure = request.measure
        if (arch, measure) not in self.records:
            record = self._read_record(request)
            if record is None:
                timer = LatencyTimer(self.device, runtime=self._runtime, runs_per_round=runs)
                record = self._measure_now(request, timer)
            self.records[arch, measure] = record
            if self._store is not None:
                self._store.add_to_search(self._search_key, [record])
        return self.records[arch, measure]

    def measure_seconds(self, arch: Arch) -> float:
        """Return the latency of an architecture in seconds, in rounds of `SEARCH_RUNS` passes.

        Raises:
            Unscorable: The network cannot be run.
        """
        record = self.measure(arch, SEARCH_RUNS)
        if record.value is None:
            raise Unscorable("latency", str(record.error))
        return record.value

    def _make_request(self, arch: Arch, runtime: Runtime, runs: int) -> ScoreRequest:
        timer = LatencyTimer(self.device, runtime=runtime, runs_per_round=runs)
        options = f"runtime={runtime},batch={timer.batch},threads={timer.threads},runs={runs}"
        # Brackets and commas have a meaning in the name of a measure.
        machine = re.sub(r"[^A-Za-z0-9.]+", "-", describe_hardware(self.device)).strip("-")
        options += f",machine={machine}"
        device_type = torch.device(self.device).type
        measure = f"latency({options})@2"
        return ScoreRequest(arch, measure, self._task, 0, device=device_type, code=self._code)

    def _choose_runtime(self, arch: Arch, runs: int) -> Runtime:
        """Return the runtime for all networks, after trying it with the first one."""
        if torch.device(self.device).type != "cpu" or not can_run_onnx():
            return "torch"
        # A resumed search decides as before, and measures nothing again.
        runtimes: tuple[Runtime, Runtime] = ("onnx", "torch")
        for runtime in runtimes:
            if self._read_record(self._make_request(arch, runtime, runs)) is not None:
                return runtime
        for runtime in runtimes:
            timer = LatencyTimer(self.device, runtime=runtime, runs_per_round=1, warm_up=0)
            if not isinstance(catch_failure(self._time_arch, arch, timer), Failure):
                return runtime
        # The network itself cannot be run, which says nothing about the runtime.
        return "onnx"

    def _read_record(self, request: ScoreRequest) -> Record | None:
        """Read a latency from the store; None if it is missing or must be measured again."""
        if self._store is None:
            return None
        record = self._store.get(request.key)
        if record is None or not record.is_reusable:
            return None
        return record

    def _measure_now(self, request: ScoreRequest, timer: LatencyTimer) -> Record:
        """Measure a latency and store its record."""
        check_device(self.device)
        start = perf_counter()
        outcome = catch_failure(self._time_arch, request.arch, timer)
        record = Record.of(request, outcome, measure_seconds=perf_counter() - start)
        if self._store is not None:
            self._store.add([record])
        return record

    def _time_arch(self, arch: Arch, timer: LatencyTimer) -> float:
        with random_state(derive_seed("weights", arch.space, arch, 0)):
            network = self._space.build(arch, self._task)
        return timer.time_network(network, self._task.input_shape).seconds


class LatencyEstimator:
    """Returns latencies that are exact near the limit and predicted far from it.

    A prediction is used only if its distance from the limit is more than twice its error, or after
    `_MAX_MEASUREMENTS` measurements.

    Args:
        model: Makes the predictions.
        measure: Measures the latency of an architecture in seconds.
        limit: The limit.

    Attributes:
        measured: Number of measurements.
        predicted: Number of predictions that replaced a measurement.
    """

    def __init__(
        self, model: LatencyModel, measure: Callable[[Arch], float], limit: LatencyLimit
    ) -> None:
        self._model = model
        self._measure = measure
        self._limit = limit.seconds
        self.measured = 0
        self.predicted = 0

    def estimate_seconds(self, arch: Arch) -> float:
        """Return the measured or predicted latency of an architecture in seconds."""
        model = self._model
        if arch in model.observed:
            return model.observed[arch]
        prediction = None
        if len(model.observed) >= _MIN_MEASUREMENTS:
            prediction = model.predict(arch)
        can_measure = self.measured < _MAX_MEASUREMENTS
        if prediction is not None and (self._is_safe(prediction) or not can_measure):
            self.predicted += 1
            return prediction
        seconds = self._measure(arch)
        self.measured += 1
        model.observe(arch, seconds)
        return seconds

    def _is_safe(self, prediction: float) -> bool:
        """Return whether a prediction is far enough from the limit to replace a measurement."""
        relative_error = self._model.error or 0.0
        error = relative_error * max(prediction, self._limit)
        return abs(prediction - self._limit) > 2 * error


class MaxLatency:
    """Enforces the latency limit of one search.

    Args:
        space: The space.
        task: What networks are built for.
        limit: The limit.
        code: Fingerprint of the user's code that defines the space.

    Attributes:
        meter: Measures latencies and remembers them.
    """

    def __init__(self, space: Space, task: Task, limit: LatencyLimit, code: str = "") -> None:
        self.meter = LatencyMeter(space, task, limit.device, code)
        model = LatencyModel(lambda arch: NetworkSize(space, arch, task).probe.operations)
        self._estimator = LatencyEstimator(model, self.meter.measure_seconds, limit)

    def check_device(self) -> None:
        """Check that this machine has the device of the limit.

        Raises:
            UsageError: It has no such device.
        """
        check_device(self.meter.device)

    def estimate_seconds(self, arch: Arch) -> float:
        """Return the latency of an architecture; infinity if it cannot be run here."""
        try:
            return self._estimator.estimate_seconds(arch)
        except Unscorable:
            return inf

    def measure_finalists(
        self,
        records: Sequence[Record],
        rank: RankFunction,
        list_contenders: ContendersFunction | None = None,
    ) -> None:
        """Measure every architecture that may win, in rounds of `FINAL_RUNS` forward passes.

        The ranking changes when a finalist turns out to be too slow. So architectures are measured
        one by one, best first, and ranked again after each, until the first `FINALISTS` of the
        ranking and all contenders are measured.

        Args:
            records: Records of the search.
            rank: Ranks records, without the architectures that are too slow.
            list_contenders: Lists further architectures that may win.
        """
        measured: set[Arch] = set()
        while True:
            all_records = [*records, *self.meter.records.values()]
            unique_records = {record.key: record for record in all_records}
            ranking = rank(list(unique_records.values()))
            finalists = [standing.arch for standing in ranking.standings[:FINALISTS]]
            if list_contenders is not None:
                finalists += list_contenders(ranking, all_records)
            next_arch = next((arch for arch in finalists if arch not in measured), None)
            if next_arch is None:
                return
            measured.add(next_arch)
            self.meter.measure(next_arch, FINAL_RUNS)

    def measure_winner(self, arch: Arch) -> float | None:
        """Return the latency of the winner in seconds; None if it cannot be run.

        It is measured in rounds of `FINAL_RUNS` forward passes.
        """
        return self.meter.measure(arch, FINAL_RUNS).value

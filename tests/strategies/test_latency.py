"""Latency: the timer, the model that saves measurements, and the enforcement of `--max-latency`."""

import csv
import gzip
import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from tests.conftest import find_shared
from tests.records import make_record
from tests.strategies.toys import TASK, ten
from untrained import search
from untrained.config import LatencyLimit, Limits
from untrained.engine.devices import describe_hardware
from untrained.engine.executors.pool import PoolExecutor
from untrained.errors import UsageError
from untrained.onnx_files import measure_disagreement, open_onnx, write_traced_onnx
from untrained.probe.flops import Operation
from untrained.runs.ranking import rank_records
from untrained.runs.store import Store
from untrained.runs.winner import find_slow_archs
from untrained.spaces import load_space
from untrained.spaces.nasbench201 import make_arch_from_index
from untrained.strategies import latency as _latency
from untrained.strategies import max_latency as _max_latency
from untrained.strategies.latency import (
    Latency,
    LatencyModel,
    LatencyTimer,
    compute_leave_one_out_error,
)
from untrained.strategies.limits import ConstrainedSpace, NetworkSize
from untrained.strategies.max_latency import LatencyEstimator, LatencyMeter
from untrained.strategies.search_limits import SearchLimits
from untrained.types import Arch


class Slow(nn.Module):
    """A network that sleeps: ten times as long on every tenth call, 20 times on the first three."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.calls = 0
        self.call_conditions = set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        inference_mode = torch.is_inference_mode_enabled()
        condition = (tuple(x.shape), self.training, torch.get_num_threads(), inference_mode)
        self.call_conditions.add(condition)
        if self.calls <= 3:
            factor = 20
        elif self.calls % 10 == 0:
            factor = 10
        else:
            factor = 1
        time.sleep(self.seconds * factor)
        return x


# ------------------------------------------------------------------------------------- measuring


@pytest.mark.alone
def test_the_timer_leaves_out_slow_passes_after_a_warm_up():
    network = Slow(0.01)
    threads = torch.get_num_threads()
    result = LatencyTimer(batch=4, threads=1, runs_per_round=20, warm_up=3).time_network(
        network, (3, 5)
    )
    assert network.calls == 23
    assert network.call_conditions == {((4, 3, 5), False, 1, True)}
    assert 0.01 <= result.seconds < 0.08  # neither the first calls nor every tenth call counts
    assert result == Latency(
        result.seconds, batch=4, threads=1, device="cpu", runtime="torch", runs=20, warm_up=3
    )
    assert torch.get_num_threads() == threads


@pytest.mark.alone
def test_a_larger_network_takes_longer():
    small, large = (
        nn.Sequential(*(nn.Conv2d(8, 8, 3, padding=1) for _ in range(n))) for n in (1, 30)
    )
    timer = LatencyTimer(threads=1, runs_per_round=10)
    assert (
        timer.time_network(small, (8, 16, 16)).seconds * 3
        < timer.time_network(large, (8, 16, 16)).seconds
    )


def test_wrong_options_are_refused():
    with pytest.raises(UsageError, match="measure with torch or onnx"):
        LatencyTimer(runtime="tensorrt")
    with pytest.raises(UsageError, match="on the CPU"):
        LatencyTimer(runtime="onnx", device="cuda")


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_without_onnx_the_error_says_what_to_install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match="pip install onnx onnxscript onnxruntime"):
        LatencyTimer(runtime="onnx").time_network(nn.Linear(3, 2), (3,))


@pytest.mark.alone
def test_onnx_runtime_measures_in_evaluation_mode():
    pytest.importorskip("onnxruntime")
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.Dropout(0.5)).train()
    result = LatencyTimer(runtime="onnx", threads=1, runs_per_round=5, batch=3).time_network(
        network, (3, 8, 8)
    )
    assert result.runs in (5, 10, 15)
    assert result == Latency(
        result.seconds,
        batch=3,
        threads=1,
        device="cpu",
        runtime="onnx",
        runs=result.runs,
        warm_up=5,
    )
    assert 0 < result.seconds < 0.1
    assert not network.training


@pytest.mark.alone
def test_any_function_can_be_timed():
    calls = []
    result = LatencyTimer(runs_per_round=4, warm_up=2).time_function(
        lambda: (calls.append(0), time.sleep(0.002))
    )
    assert len(calls) == 6
    assert 0.002 <= result.seconds < 0.02


class FakeClock:
    """A clock that every forward pass advances by the next of some durations."""

    def __init__(self, durations: list[float]) -> None:
        self.durations = durations
        self.passes = 0
        self.seconds = 0.0

    def read(self) -> float:
        return self.seconds

    def run_pass(self) -> None:
        self.seconds += self.durations[self.passes]
        self.passes += 1


def time_with_fake_clock(monkeypatch, durations: list[float], runs: int) -> tuple[float, int]:
    """Return the latency and the number of passes of a function with these durations."""
    clock = FakeClock(durations)
    monkeypatch.setattr(_latency, "perf_counter", clock.read)
    result = LatencyTimer(runs_per_round=runs, warm_up=0).time_function(clock.run_pass)
    assert result.runs == clock.passes
    return result.seconds, clock.passes


def test_passes_that_other_processes_slow_down_do_not_count(monkeypatch):
    """Eight of ten passes take six times as long, so all are repeated, three times in total."""
    durations = [6.0, 1.0, 6.0, 6.0, 6.0, 6.0, 6.0, 1.0, 6.0, 6.0] * 3
    assert time_with_fake_clock(monkeypatch, durations, 10) == (1.0, 30)


def test_passes_are_repeated_until_the_machine_is_quiet(monkeypatch):
    """In the first round two of ten passes are fast. With the second, most passes are fast."""
    durations = [5.0] * 8 + [1.0] * 2 + [1.0] * 10 + [7.0] * 10
    assert time_with_fake_clock(monkeypatch, durations, 10) == (1.0, 20)


def test_equal_passes_are_not_repeated(monkeypatch):
    assert time_with_fake_clock(monkeypatch, [1.0, 1.25] * 5, 10) == (1.0, 10)


@pytest.mark.alone
def test_busy_processes_change_the_latency_in_onnx_runtime_by_less_than_half():
    """Four busy processes per measurement: more than the cores of a small machine."""
    pytest.importorskip("onnxruntime")
    layers = [nn.Conv2d(3, 16, 3, padding=1)]
    for _ in range(12):
        layers.append(nn.Conv2d(16, 16, 3, padding=1))
    network = nn.Sequential(*layers)
    timer = LatencyTimer(runtime="onnx", runs_per_round=20)
    quiet = []
    busy = []
    for _ in range(3):
        quiet.append(timer.time_network(network, (3, 64, 64)).seconds)
        processes = []
        for _ in range(4):
            processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        try:
            time.sleep(0.3)
            busy.append(timer.time_network(network, (3, 64, 64)).seconds)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    assert np.mean(busy) < 1.5 * np.mean(quiet)


def test_the_file_for_measuring_computes_what_the_network_computes(tmp_path):
    pytest.importorskip("onnxruntime")
    space = load_space("nasbench201(channels=2,cells=1)")
    network = space.build(make_arch_from_index(1462)).eval()
    inputs = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    write_traced_onnx(network, inputs, tmp_path / "network.onnx")
    run_onnx = open_onnx(tmp_path / "network.onnx", threads=1)
    assert measure_disagreement(network, run_onnx, inputs) < 1e-4


# ------------------------------------------------------------------------------------ predicting


def list_operations(arch: Arch) -> list[Operation]:
    """As many cheap and expensive operations as the choices of `ten` say."""
    cheap = sum(v for _, v in arch.genes[:5])
    expensive = sum(v for _, v in arch.genes[5:])
    return [Operation("cheap", 0, 8)] * cheap + [Operation("expensive", 1000, 8)] * expensive


def compute_seconds(arch: Arch) -> float:
    """A constant 2 ms, 0.1 ms per cheap and 1 ms per expensive operation."""
    return (
        2e-3 + 1e-4 * sum(v for _, v in arch.genes[:5]) + 1e-3 * sum(v for _, v in arch.genes[5:])
    )


def sample_archs(n: int, seed: int = 0) -> list[Arch]:
    rng = np.random.default_rng(seed)
    return [ten.sample(rng) for _ in range(n)]


def test_a_linear_law_is_learned_from_a_few_measurements():
    model = LatencyModel(list_operations)
    assert model.predict(sample_archs(1)[0]) is None
    for arch in sample_archs(8):
        model.observe(arch, compute_seconds(arch))
    for arch in sample_archs(20, seed=1):
        assert model.predict(arch) == pytest.approx(compute_seconds(arch), rel=1e-3)
    assert model.error < 1e-3


def test_noise_is_averaged_out_and_the_error_shows_it():
    rng = np.random.default_rng(0)
    measurements = {
        arch: compute_seconds(arch) * (1 + 0.1 * rng.normal()) for arch in sample_archs(40)
    }
    model = LatencyModel(list_operations)
    for arch, value in measurements.items():
        model.observe(arch, value)
    assert 0.06 < model.error < 0.15
    errors = [model.predict(arch) / compute_seconds(arch) - 1 for arch in sample_archs(50, seed=1)]
    assert np.sqrt(np.mean(np.square(errors))) < 0.06


@pytest.mark.parametrize("penalty", [1e-6, 0.1, 10.0])
def test_the_leave_one_out_error_equals_that_of_separate_fits(penalty):
    A = np.random.default_rng(0).random((9, 4))
    residuals = []
    for i in range(9):
        rest = np.delete(A, i, 0)
        w = np.linalg.solve(rest.T @ rest + penalty * np.eye(4), rest.T @ np.ones(8))
        residuals.append(1 - A[i] @ w)
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    assert compute_leave_one_out_error(U, s, penalty) == pytest.approx(
        np.sqrt(np.mean(np.square(residuals)))
    )


def test_an_operation_that_was_never_measured_has_no_prediction():
    model = LatencyModel(
        lambda arch: [
            *list_operations(arch),
            *([Operation("new", 1, 1)] if arch["c0"] == 3 else []),
        ]
    )
    for arch in sample_archs(20):
        if arch["c0"] != 3:
            model.observe(arch, compute_seconds(arch))
    measured, unmeasured = (
        next(a for a in sample_archs(50, seed=2) if (a["c0"] == 3) is new) for new in (False, True)
    )
    assert model.predict(measured) is not None
    assert model.predict(unmeasured) is None


@pytest.mark.data
@pytest.mark.parametrize("device", ["1080ti_1", "gold_6226", "fpga"])
def test_thirty_measurements_on_a_real_device_predict_the_others(device):
    """Latencies of NAS-Bench-201: 30 to learn from and 30 to test with."""
    ours, theirs = predict_latencies(device)
    assert np.sqrt(np.mean((ours / theirs - 1) ** 2)) < 0.08
    assert spearmanr(ours, theirs).statistic > 0.95


@cache
def count_operations(arch: Arch):
    space = load_space("nasbench201")
    return NetworkSize(space, arch, space.task).probe.operations


def predict_latencies(device: str):
    with gzip.open(find_shared("data", "nasbench201", "nb201_latency_ms.csv.gz"), "rt") as file:
        rows = {int(row["index"]): float(row[device]) for row in csv.DictReader(file)}
    indices = np.random.default_rng(0).choice(sorted(rows), 60, replace=False).tolist()
    model = LatencyModel(count_operations)
    for index in indices[:30]:
        model.observe(make_arch_from_index(index), rows[index])
    result = [model.predict(make_arch_from_index(index)) for index in indices[30:]]
    return np.array(result), np.array([rows[index] for index in indices[30:]])


# --------------------------------------------------------------------------------- under a limit


def test_predictions_save_measurements_far_from_the_limit_without_wrong_decisions():
    rng = np.random.default_rng(0)
    measured = []

    def measure(arch: Arch) -> float:
        measured.append(arch)
        return compute_seconds(arch) * (1 + 0.01 * rng.normal())

    limit = LatencyLimit(9e-3)
    estimator = LatencyEstimator(LatencyModel(list_operations), measure, limit)
    space = ConstrainedSpace(
        ten, Limits(max_latency=limit), TASK, latency=estimator.estimate_seconds
    )
    result = [space.sample(rng) for _ in range(300)]
    assert all(compute_seconds(arch) <= 1.05 * limit.seconds for arch in result)
    assert estimator.measured == len(measured) == len(set(measured))
    assert 16 <= estimator.measured < 0.3 * (estimator.measured + estimator.predicted)
    near = [arch for arch in measured[16:] if abs(compute_seconds(arch) / limit.seconds - 1) < 0.1]
    assert len(near) > 0.8 * len(measured[16:])  # after the first 16, only doubtful ones


def test_a_measured_architecture_is_not_measured_again():
    measured = []
    estimator = LatencyEstimator(
        LatencyModel(list_operations),
        lambda arch: measured.append(arch) or compute_seconds(arch),
        LatencyLimit(0.01),
    )
    arch = sample_archs(1)[0]
    assert (
        estimator.estimate_seconds(arch)
        == estimator.estimate_seconds(arch)
        == compute_seconds(arch)
    )
    assert measured == [arch]


def test_a_search_measures_at_most_64_architectures():
    """All latencies are near the limit, so every prediction would be doubtful."""
    rng = np.random.default_rng(0)
    estimator = LatencyEstimator(
        LatencyModel(list_operations),
        lambda arch: 0.01 * (1 + 0.2 * rng.random()),
        LatencyLimit(0.011),
    )
    archs = {*sample_archs(200)}
    for arch in archs:
        estimator.estimate_seconds(arch)
    assert estimator.measured == 64
    assert estimator.predicted == len(archs) - 64


def make_meter_with_runtimes(monkeypatch, failing: set[str]) -> tuple[LatencyMeter, list[str]]:
    """Return a meter in whose runtimes `failing` no network runs, and the list of attempts."""
    attempts = []

    def time_network(timer, network, input_shape):
        attempts.append(timer.runtime)
        if timer.runtime in failing:
            raise RuntimeError("unsupported")
        return Latency(0.001, 1, 1, "cpu", timer.runtime, timer.runs_per_round, timer.warm_up)

    monkeypatch.setattr(LatencyTimer, "time_network", time_network)
    return LatencyMeter(ten, TASK, "cpu"), attempts


@pytest.mark.parametrize(
    ("failing", "runtime"),
    [(set(), "onnx"), ({"onnx"}, "torch"), ({"onnx", "torch"}, "onnx")],
)
def test_the_first_network_decides_the_runtime_and_the_measure_names_it(
    monkeypatch, failing, runtime
):
    pytest.importorskip("onnxruntime")
    meter, attempts = make_meter_with_runtimes(monkeypatch, failing)
    first, second = sample_archs(2)
    monkeypatch.setattr(_max_latency, "describe_hardware", lambda device: "ARM, (R) 2")
    measure = f"latency(runtime={runtime},batch=1,threads=1,runs=7,machine=ARM-R-2)@2"
    for arch in (first, second):
        record = meter.measure(arch, 7)
        assert record.measure == measure
        assert (record.error is None) == (failing != {"onnx", "torch"})
    assert attempts[-2:] == [runtime, runtime]


def test_without_onnx_runtime_networks_are_measured_in_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    meter, attempts = make_meter_with_runtimes(monkeypatch, set())
    record = meter.measure(sample_archs(1)[0], 7)
    assert record.measure.startswith("latency(runtime=torch,batch=1,threads=1,runs=7,")
    assert attempts == ["torch"]


def test_a_resumed_search_on_another_machine_measures_again(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (arch,) = sample_archs(1)
    attempts_by_machine = []
    for machine in ("fast", "fast", "slow"):
        monkeypatch.setattr(_max_latency, "describe_hardware", lambda device, name=machine: name)
        meter, attempts = make_meter_with_runtimes(monkeypatch, set())
        with Store(tmp_path / "records.sqlite") as store:
            meter.use_store(store, "key")
            meter.measure(arch, 7)
        attempts_by_machine.append(attempts)
    assert attempts_by_machine == [["torch"], [], ["torch"]]


def test_the_hardware_of_the_cpu_is_named():
    assert describe_hardware("cpu") != ""
    assert describe_hardware("cpu") == describe_hardware("cpu:0")


@pytest.mark.parametrize("strategy", ["random", "evolution(population=4)"])
def test_no_worker_computes_while_a_latency_is_measured(tmp_path, monkeypatch, strategy):
    """Workers start after the first measurements, and get nothing to do during later ones."""
    events = []
    start_workers = PoolExecutor.__init__
    map_groups = PoolExecutor.map

    def record_start(executor, *args):
        events.append("start")
        start_workers(executor, *args)

    def record_map(executor, groups):
        events.append("busy")
        try:
            yield from map_groups(executor, groups)
        finally:
            events.append("idle")

    def record_measurement(meter, arch, timer):
        events.append("measure")
        return 0.001

    monkeypatch.setattr(PoolExecutor, "__init__", record_start)
    monkeypatch.setattr(PoolExecutor, "map", record_map)
    monkeypatch.setattr(LatencyMeter, "_time_arch", record_measurement)
    search(
        "nasbench201(channels=2,cells=1)",
        "params",
        strategy,
        data="noise",
        run=tmp_path / "run",
        budget=12,
        workers=2,
        limits={"latency": "5ms"},
    )
    assert events[0] == "measure"
    assert events.count("start") == 1
    is_busy = False
    for event in events:
        if event == "measure":
            assert not is_busy
        elif event != "start":
            is_busy = event == "busy"
    assert not is_busy
    assert events[-1] == "measure"  # the finalists


def test_finalists_are_measured_and_none_over_the_limit_stays(monkeypatch):
    """The slower half of 30 is over the limit. The best ten are measured from the first downwards, then
    the last three, as contenders. The next in the ranking replaces one that is too slow."""
    ranked = sample_archs(30)
    limit = float(np.median([compute_seconds(arch) for arch in ranked]))
    monkeypatch.setattr(
        _max_latency.LatencyMeter,
        "_time_arch",
        lambda clock, arch, stopwatch: compute_seconds(arch),
    )
    space = load_space("nasbench201")
    limits = SearchLimits(space, space.task, {"max_latency": f"{1e3 * limit}ms@cpu"})
    records = [
        make_record(arch, "naswot@1", space.task, 0, float(-i)) for i, arch in enumerate(ranked)
    ]

    def last_three(ranking, records):
        return [standing.arch for standing in ranking.standings[-3:]]

    def rank_fast(records):
        return rank_records(
            records, "naswot@1", True, excluded=find_slow_archs(records, f"{1e3 * limit}ms@cpu")
        )

    limits.measure_finalists(records, rank_fast, last_three)
    ranking = rank_fast([*records, *limits.max_latency.meter.records.values()])
    ranked_archs = [standing.arch for standing in ranking.standings]
    fast = [arch for arch in ranked if compute_seconds(arch) <= limit]
    assert [arch for arch in ranked_archs if arch in fast] == fast
    assert ranked_archs[:10] == fast[:10]
    assert ranked_archs[-3:] == fast[-3:]
    slow = {arch for arch, failure in ranking.failed if failure.kind == "latency"}
    assert slow == {*ranked} - {*ranked_archs}
    assert {arch for arch, _ in limits.max_latency.meter.records} == {
        *ranked_archs[:10],
        *ranked_archs[-3:],
        *slow,
    }


WAITING = """
import time
import untrained as ut
from torch import nn

class Wait(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x):
        time.sleep(0.01 * self.steps)
        for _ in range(self.steps):
            x = x + 1
        return x

@ut.space(task=ut.Task("noise", (3, 4, 4), 10))
def waiting(choose, task):
    steps, more = choose("steps", [2, 4, 6, 8]), choose("more", [0, 1, 2, 3])
    width = 10 * steps + more
    return lambda: nn.Sequential(Wait(steps), nn.Flatten(), nn.Linear(48, width), nn.Linear(width, task.num_classes))
"""
AGAIN = """
import json, sys
from statistics import median
from untrained.spaces import load_space
from untrained.strategies.latency import LatencyTimer
space, watch = load_space("./waiting.py:waiting"), LatencyTimer(runs_per_round=3, warm_up=1)
networks = {text: space.build(space.parse(text)) for text in sys.argv[1:]}
rounds = [{text: watch.time_network(net, (3, 4, 4)).seconds for text, net in networks.items()} for _ in range(5)]
print(json.dumps({text: median(found[text] for found in rounds) for text in networks}))
"""


@pytest.mark.alone
def test_every_finalist_keeps_the_limit_when_a_new_process_measures_it(tmp_path, monkeypatch):
    """Networks of 20, 40, 60 and 80 ms under a limit of 50 ms. The slowest have the most parameters,
    and parameters decide. The networks sleep, because a busy machine delays a sleeping process only a
    little. Rounds are spread over time, so that other work disturbs few of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_max_latency, "SEARCH_RUNS", 3)
    monkeypatch.setattr(_max_latency, "FINAL_RUNS", 5)
    # In ONNX, networks do not sleep.
    monkeypatch.setattr(_max_latency, "can_run_onnx", lambda: False)
    Path("waiting.py").write_text(WAITING)
    options = {"data": "noise", "run": "run", "budget": 6, "workers": 1}
    result = search("./waiting.py:waiting", "params", limits={"latency": "50ms@cpu"}, **options)
    winners = [
        str(standing.arch) for standing in result.ranking.standings[: _max_latency.FINALISTS]
    ]
    assert len(winners) >= 3
    assert result.run.limit_results[0]["rejected"] > 0  # half of the space is too slow
    output = subprocess.run(
        [sys.executable, "-c", AGAIN, *winners], capture_output=True, text=True, check=True
    ).stdout
    seconds_again = json.loads(output)
    assert set(seconds_again) == set(winners)
    assert max(seconds_again.values()) <= 1.15 * 0.05

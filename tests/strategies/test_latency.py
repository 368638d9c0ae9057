"""Latency: that a stopwatch tells slow from fast and says how it measured, and that a model spares measurements."""

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

from tests.conftest import shared
from tests.records import make_record
from tests.strategies.toys import TASK, ten
from untrained import search
from untrained.errors import UsageError
from untrained.probe.flops import Operation
from untrained.runs.ranking import rank_records
from untrained.spaces import load_space
from untrained.spaces.nasbench201 import from_index
from untrained.strategies import _bounds
from untrained.strategies._bounds import Bounds, find_too_slow
from untrained.strategies.latency import Gauge, Latency, LatencyModel, Stopwatch, _left_out
from untrained.strategies.limits import Feasible, Limits, Pace, Size
from untrained.types import Arch


class Slow(nn.Module):
    """Sleeps; every tenth call sleeps ten times as long, and the first calls longer still."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.calls, self.seen = seconds, 0, set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.add((tuple(x.shape), self.training, torch.get_num_threads(), torch.is_inference_mode_enabled()))
        time.sleep(self.seconds * (20 if self.calls <= 3 else 10 if self.calls % 10 == 0 else 1))
        return x


# ------------------------------------------------------------------------------------------------------- measuring


@pytest.mark.alone
def test_the_median_after_a_warm_up_is_measured_and_it_says_how():
    network, threads = Slow(0.01), torch.get_num_threads()
    found = Stopwatch(batch=4, threads=1, runs=20, warm_up=3)(network, (3, 5))
    assert network.calls == 23
    assert network.seen == {((4, 3, 5), False, 1, True)}
    assert 0.01 <= found.seconds < 0.08  # neither the slow first calls nor every tenth
    assert found == Latency(found.seconds, batch=4, threads=1, device="cpu", runtime="torch", runs=20, warm_up=3)
    assert torch.get_num_threads() == threads


@pytest.mark.alone
def test_a_larger_network_takes_longer():
    small, large = (nn.Sequential(*(nn.Conv2d(8, 8, 3, padding=1) for _ in range(n))) for n in (1, 30))
    watch = Stopwatch(threads=1, runs=10)
    assert watch(small, (8, 16, 16)).seconds * 3 < watch(large, (8, 16, 16)).seconds


def test_wrong_requests():
    with pytest.raises(UsageError, match="measure with torch or onnx"):
        Stopwatch(runtime="tensorrt")
    with pytest.raises(UsageError, match="on the CPU"):
        Stopwatch(runtime="onnx", device="cuda")


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_without_onnx_it_says_what_to_install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match="pip install onnx onnxscript onnxruntime"):
        Stopwatch(runtime="onnx")(nn.Linear(3, 2), (3,))


@pytest.mark.alone
def test_onnx_runtime_measures_the_network_in_evaluation_mode():
    pytest.importorskip("onnxruntime")
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.Dropout(0.5)).train()
    found = Stopwatch(runtime="onnx", threads=1, runs=5, batch=3)(network, (3, 8, 8))
    assert found == Latency(found.seconds, batch=3, threads=1, device="cpu", runtime="onnx", runs=5, warm_up=5)
    assert 0 < found.seconds < 0.1
    assert not network.training


@pytest.mark.alone
def test_whatever_runs_can_be_timed():
    calls = []
    found = Stopwatch(runs=4, warm_up=2).time(lambda: (calls.append(0), time.sleep(0.002)))
    assert len(calls) == 6
    assert 0.002 <= found.seconds < 0.02


# ------------------------------------------------------------------------------------------------------ predicting


def counted(arch: Arch) -> list[Operation]:
    """As many cheap and dear operations as the choices of `ten` say."""
    cheap, dear = sum(v for _, v in arch.genes[:5]), sum(v for _, v in arch.genes[5:])
    return [Operation("cheap", 0, 8)] * cheap + [Operation("dear", 1000, 8)] * dear


def seconds(arch: Arch) -> float:
    """2 ms whatever is run, 0.1 ms a cheap and 1 ms a dear one."""
    return 2e-3 + 1e-4 * sum(v for _, v in arch.genes[:5]) + 1e-3 * sum(v for _, v in arch.genes[5:])


def samples(n: int, seed: int = 0) -> list[Arch]:
    rng = np.random.default_rng(seed)
    return [ten.sample(rng) for _ in range(n)]


def test_a_linear_law_is_found_from_a_few_measurements():
    model = LatencyModel(counted)
    assert model.predict(samples(1)[0]) is None
    for arch in samples(8):
        model.observe(arch, seconds(arch))
    for arch in samples(20, seed=1):
        assert model.predict(arch) == pytest.approx(seconds(arch), rel=1e-3)
    assert model.error < 1e-3


def test_noise_is_averaged_away_and_the_error_tells_of_it():
    rng = np.random.default_rng(0)
    noisy = {arch: seconds(arch) * (1 + 0.1 * rng.normal()) for arch in samples(40)}
    model = LatencyModel(counted)
    for arch, value in noisy.items():
        model.observe(arch, value)
    assert 0.06 < model.error < 0.15
    fresh = [model.predict(arch) / seconds(arch) - 1 for arch in samples(50, seed=1)]
    assert np.sqrt(np.mean(np.square(fresh))) < 0.06


@pytest.mark.parametrize("penalty", [1e-6, 0.1, 10.0])
def test_the_error_of_leaving_one_out_is_that_of_fitting_without_it(penalty):
    A = np.random.default_rng(0).random((9, 4))
    residuals = []
    for i in range(9):
        rest = np.delete(A, i, 0)
        w = np.linalg.solve(rest.T @ rest + penalty * np.eye(4), rest.T @ np.ones(8))
        residuals.append(1 - A[i] @ w)
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    assert _left_out(U, s, penalty) == pytest.approx(np.sqrt(np.mean(np.square(residuals))))


def test_what_was_never_measured_is_not_guessed():
    model = LatencyModel(lambda arch: [*counted(arch), *([Operation("new", 1, 1)] if arch["c0"] == 3 else [])])
    for arch in samples(20):
        if arch["c0"] != 3:
            model.observe(arch, seconds(arch))
    known, unknown = (next(a for a in samples(50, seed=2) if (a["c0"] == 3) is new) for new in (False, True))
    assert model.predict(known) is not None
    assert model.predict(unknown) is None


@pytest.mark.data
@pytest.mark.parametrize("device", ["1080ti_1", "gold_6226", "fpga"])
def test_thirty_measurements_on_a_real_device_predict_the_others(device):
    """The table of NAS-Bench-201's latencies, 30 to learn from and 30 to judge by."""
    ours, theirs = _predictions(device)
    assert np.sqrt(np.mean((ours / theirs - 1) ** 2)) < 0.08
    assert spearmanr(ours, theirs).statistic > 0.95


@cache
def _operations(arch: Arch):
    space = load_space("nasbench201")
    return Size(space, arch, space.task).probe.operations


def _predictions(device: str):
    with gzip.open(shared("data", "nasbench201", "nb201_latency_ms.csv.gz"), "rt") as file:
        rows = {int(row["index"]): float(row[device]) for row in csv.DictReader(file)}
    chosen = np.random.default_rng(0).choice(sorted(rows), 60, replace=False).tolist()
    model = LatencyModel(_operations)
    for index in chosen[:30]:
        model.observe(from_index(index), rows[index])
    found = [model.predict(from_index(index)) for index in chosen[30:]]
    return np.array(found), np.array([rows[index] for index in chosen[30:]])


# -------------------------------------------------------------------------------------------------- under a limit


def test_measurements_are_spared_far_from_the_limit_and_no_decision_is_wrong():
    rng, spent = np.random.default_rng(0), []

    def measure(arch: Arch) -> float:
        spent.append(arch)
        return seconds(arch) * (1 + 0.01 * rng.normal())

    limit = Pace(9e-3)
    gauge = Gauge(LatencyModel(counted), measure, limit)
    space = Feasible(ten, Limits(max_latency=limit), TASK, latency=gauge)
    found = [space.sample(rng) for _ in range(300)]
    assert all(seconds(arch) <= 1.05 * limit.seconds for arch in found)
    assert gauge.measured == len(spent) == len(set(spent))
    assert 16 <= gauge.measured < 0.3 * (gauge.measured + gauge.predicted)
    near = [arch for arch in spent[16:] if abs(seconds(arch) / limit.seconds - 1) < 0.1]
    assert len(near) > 0.8 * len(spent[16:])  # after the first, those in doubt


def test_a_measured_architecture_is_not_measured_again():
    spent = []
    gauge = Gauge(LatencyModel(counted), lambda arch: spent.append(arch) or seconds(arch), Pace(0.01))
    arch = samples(1)[0]
    assert gauge(arch) == gauge(arch) == seconds(arch)
    assert spent == [arch]


def test_whoever_may_win_is_measured_and_nobody_over_the_limit_stays(monkeypatch):
    """Of 30 the slower half is over the limit. The ten best are measured from the first down, then the last three, whom
    a confirmation would train: whoever is too slow makes room for the next."""
    ranked = samples(30)
    limit = float(np.median([seconds(arch) for arch in ranked]))
    monkeypatch.setattr(_bounds.Clock, "_time", lambda clock, arch, stopwatch: seconds(arch))
    space = load_space("nasbench201")
    bounds = Bounds(space, space.task, {"max_latency": f"{1e3 * limit}ms@cpu"})
    records = [make_record(arch, "naswot@1", space.task, 0, float(-i)) for i, arch in enumerate(ranked)]

    def last_three(ranking, records):
        return [standing.arch for standing in ranking.standings[-3:]]

    def rank(some):
        return rank_records(some, "naswot@1", True, excluded=find_too_slow(some, f"{1e3 * limit}ms@cpu"))

    bounds.settle(records, rank, last_three)
    ranking = rank([*records, *bounds.clock.records.values()])
    left = [standing.arch for standing in ranking.standings]
    good = [arch for arch in ranked if seconds(arch) <= limit]
    assert [arch for arch in left if arch in good] == good
    assert left[:10] == good[:10]
    assert left[-3:] == good[-3:]
    slow = {arch for arch, failure in ranking.failed if failure.kind == "latency"}
    assert slow == {*ranked} - {*left}
    assert {arch for arch, _ in bounds.clock.records} == {*left[:10], *left[-3:], *slow}


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
from untrained.strategies.latency import Stopwatch
space, watch = load_space("./waiting.py:waiting"), Stopwatch(runs=3, warm_up=1)
networks = {text: space.build(space.parse(text)) for text in sys.argv[1:]}
rounds = [{text: watch(net, (3, 4, 4)).seconds for text, net in networks.items()} for _ in range(5)]
print(json.dumps({text: median(found[text] for found in rounds) for text in networks}))
"""


@pytest.mark.alone
def test_every_winner_keeps_to_a_limit_of_latency_when_a_fresh_process_measures_it(tmp_path, monkeypatch):
    """Networks of 20, 40, 60 and 80 ms under a limit of 50 ms; the slowest have the most parameters, which decide.
    They sleep, because a busy machine makes a sleeper late by a little, but one that computes by as much as it likes.
    Rounds are spread over time, so that a burst of other work hits no network in most of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_bounds, "QUICK", 3)
    monkeypatch.setattr(_bounds, "CAREFUL", 5)
    Path("waiting.py").write_text(WAITING)
    options = {"data": "noise", "run": "run", "budget": 6, "workers": 1}
    found = search("./waiting.py:waiting", "params", max_latency="50ms@cpu", **options)
    winners = [str(standing.arch) for standing in found.ranking.standings[: _bounds.TOP]]
    assert len(winners) >= 3
    assert found.run.limits[0]["rejected"] > 0  # half of the space is too slow
    shown = subprocess.run([sys.executable, "-c", AGAIN, *winners], capture_output=True, text=True, check=True).stdout
    again = json.loads(shown)
    assert set(again) == set(winners)
    assert max(again.values()) <= 1.15 * 0.05

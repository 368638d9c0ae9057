"""A run from a machine with a GPU, on a machine without one: it can be read, but not extended."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.strategies.helpers import drop_costs, read_values, search_tiny, tiny
from untrained import load_space
from untrained.config import ComputeConfig
from untrained.data import load_data
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.runs.store import Store
from untrained.seeds import make_generator
from untrained.strategies import max_latency as _max_latency
from untrained.strategies.supernets import as_constrained, make_mixed_supernet
from untrained.workflows.score_architectures import score_architectures

GPU = "cuda:77"  # a device that no machine has
NAMED = "nasbench201(channels=2,cells=1)"
AVAILABLE = [
    "cpu",
    *["cuda"] * torch.cuda.is_available(),
    *["mps"] * torch.backends.mps.is_available(),
]
MESSAGE = f"device 'cuda:77' cannot be used on this machine; try {' or '.join(AVAILABLE)}"


def change_device(folder: Path) -> Path:
    """Change a run folder as if its records had been measured on that GPU."""
    facts = json.loads((folder / "run.json").read_text())
    facts["config"]["compute"]["device"] = GPU
    (folder / "run.json").write_text(json.dumps(facts))
    relabel_records(folder / "records.sqlite")
    return folder


def relabel_records(store: Path) -> None:
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("UPDATE settings SET device = 'cuda'")


@pytest.mark.parametrize(
    ("space", "options"), [(tiny, {}), (NAMED, {"workers": 3}), (NAMED, {"time_limit": "9s"})]
)
def test_a_finished_run_is_read_without_its_device(run_folder, space, options):
    request = {"proxy": "naswot", "strategy": "evolution(population=4)", "space": space, "seeds": 2}
    here = search_tiny(run_folder, workers=1, **request)
    result = search_tiny(change_device(run_folder), device=GPU, **request, **options)
    assert [(s.arch, s.score) for s in result.ranking.standings] == [
        (s.arch, s.score) for s in here.ranking.standings
    ]
    assert {record.device for record in result.records} == {"cuda"}
    # No worker was started.
    assert (result.run.end_reason, result.run.workers) == (
        "budget",
        here.run.workers,
    )
    assert str(result.best) in result.report().read_text()


def test_a_run_that_needs_measurements_fails_in_one_line_and_keeps_its_records(run_folder):
    search_tiny(run_folder, budget=6)
    before = read_values(change_device(run_folder))
    with pytest.raises(UsageError) as caught:
        search_tiny(run_folder, budget=7, device=GPU)
    assert str(caught.value) == MESSAGE
    assert read_values(run_folder) == before


NEEDED: list[dict[str, Any]] = [
    {"device": GPU},
    {"device": GPU, "workers": 2},
    {"limits": {"latency": f"1s@{GPU}"}},
]


@pytest.mark.parametrize("options", NEEDED)
def test_a_new_run_fails_before_anything_is_sampled_or_written(run_folder, monkeypatch, options):
    monkeypatch.setattr(
        "untrained.strategies.limits.ConstrainedSpace.sample",
        lambda *_: pytest.fail("something was sampled"),
    )
    with pytest.raises(UsageError) as caught:
        search_tiny(run_folder, **options)
    assert str(caught.value) == MESSAGE
    assert not run_folder.exists()


def test_a_strategy_on_a_supernet_names_the_missing_device():
    with pytest.raises(UsageError) as caught:
        make_mixed_supernet(as_constrained(load_space(NAMED)), 0, GPU, "nasi")
    assert str(caught.value) == MESSAGE


def test_the_scores_of_a_study_are_read_without_their_device(tmp_path):
    """Bench, calibrate and reproduce read scores like this."""
    space = load_space(NAMED)
    archs = [space.sample(make_generator("study", i)) for i in range(4)]
    request: Any = NAMED, archs[:3], [load_proxy("params")], load_data("noise", space.task), (0,)
    store = tmp_path / "records.sqlite"
    here = score_architectures(*request, ComputeConfig(workers=1), store)
    relabel_records(store)
    there = score_architectures(*request, ComputeConfig(GPU, workers=2), store)
    assert [record.value for record in there.records] == [record.value for record in here.records]
    with pytest.raises(UsageError) as caught:
        score_architectures(NAMED, archs, *request[2:], ComputeConfig(GPU), store)
    assert str(caught.value) == MESSAGE
    with pytest.raises(UsageError):
        score_architectures(*request, ComputeConfig(GPU), tmp_path / "new" / "records.sqlite")
    assert not (tmp_path / "new").exists()


def test_stored_latencies_need_no_device(run_folder, monkeypatch):
    """Only a new measurement needs the device."""
    monkeypatch.setattr(
        _max_latency.LatencyTimer,
        "time_network",
        lambda self, network, shape: pytest.fail("measured again"),
    )
    options = {"limits": {"latency": "1s"}}
    with monkeypatch.context() as quick:
        quick.setattr(_max_latency.LatencyMeter, "_time_arch", lambda self, arch, stopwatch: 0.001)
        here = search_tiny(run_folder, budget=3, **options)
    monkeypatch.setattr(
        _max_latency, "check_device", lambda device: pytest.fail(f"checked {device}")
    )
    again = search_tiny(run_folder, budget=3, **options)
    assert drop_costs(again.records) == drop_costs(here.records)
    with Store(run_folder / "records.sqlite") as store:
        assert any(record.measure.startswith("latency(") for record in store)

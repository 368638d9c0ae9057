"""A run that was measured on a GPU, on a machine that has none: what is there can be read, nothing can be added."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.strategies.helpers import contents, find, timeless, tiny
from untrained import load_space
from untrained.data import load
from untrained.engine import Store
from untrained.errors import UsageError
from untrained.proxies import load_proxy
from untrained.rng import generator
from untrained.strategies import _bounds
from untrained.strategies._supernets import feasible, mixable
from untrained.studies._scores import Crew, scored

GPU = "cuda:77"  # a device that no machine has
NAMED = "nasbench201(channels=2,cells=1)"
THERE = ["cpu", *["cuda"] * torch.cuda.is_available(), *["mps"] * torch.backends.mps.is_available()]
SAID = f"device 'cuda:77' cannot be used on this machine; try {' or '.join(THERE)}"


def moved(folder: Path) -> Path:
    """The folder as if its records had been measured on that GPU."""
    facts = json.loads((folder / "run.json").read_text())
    facts["settings"]["device"] = GPU
    (folder / "run.json").write_text(json.dumps(facts))
    relabelled(folder / "records.sqlite")
    return folder


def relabelled(store: Path) -> None:
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("UPDATE settings SET device = 'cuda'")


@pytest.mark.parametrize(("space", "wishes"), [(tiny, {}), (NAMED, {"workers": 3}), (NAMED, {"time_limit": "9s"})])
def test_a_finished_run_is_read_where_its_device_is_not(run_folder, space, wishes):
    asked = {"proxy": "naswot", "strategy": "evolution(population=4)", "space": space, "seeds": 2}
    here = find(run_folder, workers=1, **asked)
    found = find(moved(run_folder), device=GPU, **asked, **wishes)
    assert [(s.arch, s.score) for s in found.ranking.standings] == [(s.arch, s.score) for s in here.ranking.standings]
    assert {record.device for record in found.records} == {"cuda"}
    assert (found.run.ended, found.run.workers) == ("budget", here.run.workers)  # nobody did any work
    assert str(found.best) in found.report().read_text()


def test_a_run_that_needs_measuring_fails_in_one_line_and_keeps_what_it_had(run_folder):
    find(run_folder, budget=6)
    before = contents(moved(run_folder))
    with pytest.raises(UsageError) as caught:
        find(run_folder, budget=7, device=GPU)
    assert str(caught.value) == SAID
    assert contents(run_folder) == before


NEEDED: list[dict[str, Any]] = [{"device": GPU}, {"device": GPU, "workers": 2}, {"max_latency": f"1s@{GPU}"}]


@pytest.mark.parametrize("wishes", NEEDED)
def test_a_new_run_fails_before_anything_is_drawn_or_written(run_folder, monkeypatch, wishes):
    monkeypatch.setattr("untrained.strategies.limits.Feasible.sample", lambda *_: pytest.fail("something was drawn"))
    with pytest.raises(UsageError) as caught:
        find(run_folder, **wishes)
    assert str(caught.value) == SAID
    assert not run_folder.exists()


def test_a_strategy_that_trains_a_supernet_says_what_it_lacks():
    with pytest.raises(UsageError) as caught:
        mixable(feasible(load_space(NAMED)), 0, GPU, "nasi")
    assert str(caught.value) == SAID


def test_the_scores_of_a_study_are_read_where_their_device_is_not(tmp_path):
    """Bench, calibrate and reproduce all ask this way."""
    space = load_space(NAMED)
    archs = [space.sample(generator("study", i)) for i in range(4)]
    asked: Any = NAMED, archs[:3], [load_proxy("params")], load("noise", space.task), (0,)
    kept = tmp_path / "records.sqlite"
    here = scored(*asked, Crew(workers=1), kept)
    relabelled(kept)
    there = scored(*asked, Crew(GPU, workers=2), kept)
    assert [record.value for record in there.records] == [record.value for record in here.records]
    with pytest.raises(UsageError) as caught:
        scored(NAMED, archs, *asked[2:], Crew(GPU), kept)
    assert str(caught.value) == SAID
    with pytest.raises(UsageError):
        scored(*asked, Crew(GPU), tmp_path / "new" / "records.sqlite")
    assert not (tmp_path / "new").exists()


def test_latencies_that_are_known_need_no_device(run_folder, monkeypatch):
    """Only those that must be measured do."""
    monkeypatch.setattr(_bounds.Stopwatch, "__call__", lambda self, network, shape: pytest.fail("was measured again"))
    known = {"max_latency": "1s"}
    with monkeypatch.context() as quick:
        quick.setattr(_bounds.Clock, "_time", lambda self, arch, stopwatch: 0.001)
        here = find(run_folder, budget=3, **known)
    monkeypatch.setattr(_bounds, "usable", lambda device: pytest.fail(f"asked for {device}"))
    again = find(run_folder, budget=3, **known)
    assert timeless(again.records) == timeless(here.records)
    with Store(run_folder / "records.sqlite") as store:
        assert any(record.measure.startswith("latency(") for record in store)

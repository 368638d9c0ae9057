"""Warm-up in searches, scores and benches: the records, the worker processes and the cost."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from torch import nn

import untrained
from tests.benchmarks.conftest import data_root as data_root
from tests.benchmarks.conftest import load_table as load_table
from tests.strategies.helpers import drop_costs, read_values
from tests.strategies.test_missing_device import GPU, change_device
from tests.training.helpers import (
    alone,
    checkpoints_equal,
    elastic,
    load_digits,
    make_layers,
    read_checkpoint,
)
from untrained import Probe, search
from untrained.cli.terminal.search_result import format_cost
from untrained.errors import UsageError
from untrained.runs.folder import choose_default_folder
from untrained.runs.store import Store
from untrained.training.warm_up import SupernetWeights
from untrained.types import Record
from untrained.workflows.bench import bench
from untrained.workflows.score import score_networks

WARM_UP = "20%(batch=64)"
# Number of batches of 64 in half of the training samples.
HALF = len(load_digits().parts["train"]) // 2 // 64


@untrained.proxy(samples=4)
def weight(probe: Probe) -> float:
    """The first weight: it differs between different weights."""
    return float(next(probe.model.parameters()).detach().flatten()[0])


def search_digits(folder, warm_up=WARM_UP, space=elastic, proxy=weight, **options):
    return search(
        space, proxy=proxy, budget=4, data="digits", run=folder, warm_up=warm_up, **options
    )


def map_values(records: list[Record], proxy: str = "weight") -> dict[str, float | None]:
    return {str(record.arch): record.value for record in records if record.proxy == proxy}


# ------------------------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize(
    ("space", "warm_up"),
    [(elastic, WARM_UP), (alone, WARM_UP), (elastic, "20%(paths=each,batch=64)")],
)
def test_the_store_keeps_warm_and_cold_records_apart(space, warm_up, run_folder):
    path = run_folder / "both.sqlite"
    archs = [space.parse(f"width={width}") for width in (2, 5)]
    cold = score_networks(archs, weight, "digits", space=space)
    warm = score_networks(archs, weight, "digits", space=space, warm_up=warm_up)
    assert all(a.value != b.value for a, b in zip(cold, warm, strict=True))
    assert {record.init for record in cold} == {"default"}
    (init,) = {record.init for record in warm}
    assert init.startswith("warm-up(20%,")
    with Store(path) as store:
        store.add(cold + warm)
        store.add(warm)
        assert sorted(map(repr, store)) == sorted(map(repr, cold + warm))


def test_a_run_folder_never_mixes_warm_and_cold_records(run_folder):
    result = search_digits(run_folder)
    with pytest.raises(
        UsageError, match=r"holds another run, with warm_up '20%\(batch=64\)' \(now ''\)"
    ):
        search_digits(run_folder, "")
    with pytest.raises(UsageError, match="holds another run"):
        search_digits(run_folder, "40%")
    assert {record.init for record in result.records} == {result.records[0].init}
    assert choose_default_folder(result.run.config) != choose_default_folder(
        search_digits(run_folder / "cold", "").run.config
    )
    assert "--warm-up '20%(batch=64)'" in result.run.to_command()


def test_a_finished_search_is_read_on_a_machine_without_its_device(run_folder):
    here = search_digits(run_folder)
    there = search_digits(change_device(run_folder), device=GPU)
    assert map_values(there.records) == map_values(here.records)
    assert there.run.warm_up_seconds == here.run.warm_up_seconds > 0


def test_candidates_are_scored_with_the_weights_of_the_checkpoint(run_folder):
    result = search_digits(run_folder)
    expected = float(read_checkpoint(run_folder)["supernet"]["body.1.weight"][0, 0])
    assert set(map_values(result.records).values()) == {expected}


def test_screening_scores_networks_that_are_not_warmed_up(run_folder):
    result = search_digits(run_folder, screen="l2_norm", keep="50%")
    inits = {record.proxy: record.init for record in result.records}
    assert inits["l2_norm"] == "default"
    screened = [record for record in result.records if record.proxy == "l2_norm"]
    cold = score_networks([record.arch for record in screened], "l2_norm", "digits", space=elastic)
    assert map_values(screened, "l2_norm") == map_values(cold, "l2_norm")
    assert inits["weight"].startswith("warm-up")


def test_a_candidate_that_diverges_is_a_failure_and_the_search_continues(run_folder):
    result = search_digits(run_folder, "100%(rate=1e30,batch=64)", alone)
    assert not result.ranking.standings
    assert {str(failure).partition(" at")[0] for _, failure in result.ranking.failed} == {
        "nan: its warm-up diverged"
    }


def test_data_without_labels_are_refused_before_anything_is_written(run_folder):
    with pytest.raises(
        UsageError, match="noise has no parts to train on; use data with labels, such as digits"
    ):
        search(elastic, proxy=weight, budget=2, data="noise", run=run_folder, warm_up="10%")
    assert not run_folder.exists()


def test_a_users_module_is_not_changed_and_every_seed_starts_from_it():
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 10))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    options = {"input_shape": (1, 4, 4), "warm_up": "10%"}
    first, second = score_networks(model, weight, "digits", seeds=2, **options)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert first.value != float(before["1.weight"][0, 0])
    assert score_networks(model, weight, "digits", **options)[0].value == first.value
    assert second.value != first.value  # another order of samples


# ------------------------------------------------------------------------------------------------------------- workers

HERE = Path(__file__).parents[2]
MINE = """
    from tests.training.helpers import alone, elastic
    import untrained

    @untrained.proxy(samples=4)
    def weight(probe):
        return float(next(probe.model.parameters()).detach().flatten()[0])
"""
KILLED = """
    import os, signal, sys
    from untrained import search
    from untrained.training import warm_up

    warm_up.CHECKPOINT_SECONDS = 0.0

    def watch(at):
        if at.stage == "warming up" and at.done == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    search("./mine.py:elastic", proxy="./mine.py:weight", budget=4, data="digits", run="killed", workers=1,
           warm_up="50%(batch=64)", on_progress=watch)
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "mine.py").write_text(dedent(MINE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{HERE}:{HERE / 'src'}")
    return tmp_path


@pytest.mark.parametrize("warm_up", [WARM_UP, "20%(paths=each,batch=64)"])
def test_worker_processes_give_the_records_of_this_process(project, warm_up):
    names = {"space": "./mine.py:elastic", "proxy": "./mine.py:weight"}
    here = search_digits("here", warm_up, **names, workers=1)
    elsewhere = search_digits("elsewhere", warm_up, **names, workers=2)
    assert drop_costs(list(elsewhere.records)) == drop_costs(list(here.records))
    assert all(record.value is not None for record in here.records)
    assert read_values(project / "here") == read_values(project / "elsewhere")


def test_a_search_killed_during_warm_up_resumes_to_the_same_weights(project):
    done = subprocess.run([sys.executable, "-c", dedent(KILLED)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert read_checkpoint(project / "killed")["step"] == 3
    options = {"space": "./mine.py:elastic", "proxy": "./mine.py:weight", "workers": 1}
    steps = []
    resumed = search_digits(
        "killed",
        "50%(batch=64)",
        **options,
        on_progress=lambda event: steps.append((event.stage, event.done, event.total)),
    )
    assert next(step for step in steps if step[0] == "warming up") == ("warming up", 3, HALF)
    expected = search_digits("whole", "50%(batch=64)", **options)
    assert checkpoints_equal(
        read_checkpoint(project / "killed"), read_checkpoint(project / "whole")
    )
    assert drop_costs(list(resumed.records)) == drop_costs(list(expected.records))


# ---------------------------------------------------------------------------------------------------------------- cost


def test_the_run_and_the_report_show_the_cost_of_the_warm_up(run_folder):
    result = search_digits(run_folder)
    facts = json.loads((run_folder / "run.json").read_text())
    assert 0 < facts["warm_up_seconds"] < facts["wall_seconds"]
    assert facts["config"]["warm_up"] == WARM_UP
    assert "warming up" in format_cost(replace(result.run, warm_up_seconds=1.0))
    page = result.report().read_text()
    assert "Warming up the supernet" in page
    assert "20%(batch=64)" in page
    again = search_digits(run_folder).run
    assert again.warm_up_seconds == facts["warm_up_seconds"]
    assert again.wall_seconds > facts["wall_seconds"]


def test_the_time_of_a_warm_up_is_counted_once_over_sessions(run_folder):
    """The first session warms up for 5 s and scores for 2 s; the second only scores, for 1 s."""
    run = search_digits(run_folder, "").run
    start = SupernetWeights({}, "warm-up(...)", 5.0)
    first = replace(run, wall_seconds=0.0).add_session([], 2.0, "interrupted", start.seconds)
    assert (first.wall_seconds, first.warm_up_seconds) == (7.0, 5.0)
    second = first.add_session([], 1.0, "budget", start.seconds)
    assert (second.wall_seconds, second.warm_up_seconds) == (8.0, 5.0)


def test_the_warm_up_time_of_each_candidate_is_in_its_record(run_folder):
    warm = search_digits(run_folder / "warm", "100%(batch=16)", alone)
    cold = search_digits(run_folder / "cold", "", alone)
    warm_seconds = sum(record.build_seconds for record in warm.records)
    cold_seconds = sum(record.build_seconds for record in cold.records)
    assert warm_seconds > 5 * cold_seconds  # about eighty steps each
    assert warm.run.warm_up_seconds == 0
    assert "Building and warming up networks" in warm.report().read_text()
    assert "Building networks" in cold.report().read_text()


@pytest.mark.data
def test_a_bench_warms_up_networks(load_table, data_root, tmp_path):
    load_table("nasbench201")
    options = {"samples": 3, "data": "digits", "data_root": data_root}
    space = "nasbench201(channels=2,cells=1)"
    warm = bench(
        space, "l2_norm", "cifar10", warm_up="2%(batch=8)", run=tmp_path / "warm", **options
    )
    cold = bench(space, "l2_norm", "cifar10", run=tmp_path / "cold", **options)
    scores = [
        next(row.scores for row in result.proxy_results if row.proxy == "l2_norm")
        for result in (warm, cold)
    ]
    assert scores[0] != scores[1]
    assert 0 < warm.cost["warm-up"] < warm.cost["total"]
    assert warm.settings["warm-up"] == "2%(batch=8)"
    assert "--warm-up '2%(batch=8)'" in warm.command
    assert read_checkpoint(tmp_path / "warm")["step"] == 3  # 25 or 26 digits


def test_the_toy_layers_have_the_expected_shapes():
    """The tests above rely on these shapes."""
    assert [tuple(p.shape) for p in make_layers(3).parameters()] == [(3, 16), (3,), (10, 3), (10,)]

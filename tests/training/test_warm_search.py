"""Warm-up in a search, a score and a bench: what the records say, who may do the work, and what it cost."""

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
from tests.benchmarks.conftest import known as known
from tests.strategies.helpers import drop_costs, read_values
from tests.strategies.test_missing_device import GPU, moved
from tests.training.helpers import alone, checkpoint, digits, elastic, layers, same
from untrained import Probe, search
from untrained.cli.terminal.search_result import format_cost
from untrained.errors import UsageError
from untrained.runs.folder import make_default_folder
from untrained.runs.store import Store
from untrained.training.warm_up import SupernetWeights
from untrained.types import Record
from untrained.workflows.bench import bench
from untrained.workflows.score import score_networks

SAID = "20%(batch=64)"
HALF = (
    len(digits().parts["train"]) // 2 // 64
)  # batches of 64 in half of what there is to learn from


@untrained.proxy(samples=4)
def weight(probe: Probe) -> float:
    """The first weight: another for other weights."""
    return float(next(probe.model.parameters()).detach().flatten()[0])


def find(folder, said=SAID, space=elastic, proxy=weight, **options):
    return search(space, proxy=proxy, budget=4, data="digits", run=folder, warm_up=said, **options)


def by(records: list[Record], proxy: str = "weight") -> dict[str, float | None]:
    return {str(record.arch): record.value for record in records if record.proxy == proxy}


# ------------------------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize(
    ("space", "said"), [(elastic, SAID), (alone, SAID), (elastic, "20%(paths=each,batch=64)")]
)
def test_a_warm_record_is_another_one_and_the_store_keeps_both_apart(space, said, run_folder):
    store = run_folder / "both.sqlite"
    archs = [space.parse(f"width={width}") for width in (2, 5)]
    cold = score_networks(archs, weight, "digits", space=space)
    warm = score_networks(archs, weight, "digits", space=space, warm_up=said)
    assert all(a.value != b.value for a, b in zip(cold, warm, strict=True))
    assert {record.init for record in cold} == {"default"}
    (init,) = {record.init for record in warm}
    assert init.startswith("warm-up(20%,")
    with Store(store) as kept:
        kept.add(cold + warm)
        kept.add(warm)
        assert sorted(map(repr, kept)) == sorted(map(repr, cold + warm))


def test_a_search_of_one_folder_never_mixes_warm_and_cold(run_folder):
    found = find(run_folder)
    with pytest.raises(
        UsageError, match=r"holds another run, with warm_up '20%\(batch=64\)' \(now ''\)"
    ):
        find(run_folder, "")
    with pytest.raises(UsageError, match="holds another run"):
        find(run_folder, "40%")
    assert {record.init for record in found.records} == {found.records[0].init}
    assert make_default_folder(found.run.config) != make_default_folder(
        find(run_folder / "cold", "").run.config
    )
    assert "--warm-up '20%(batch=64)'" in found.run.to_command()


def test_a_finished_search_is_read_where_the_device_of_its_supernet_is_not(run_folder):
    here = find(run_folder)
    there = find(moved(run_folder), device=GPU)
    assert by(there.records) == by(here.records)
    assert there.run.warm_up_seconds == here.run.warm_up_seconds > 0


def test_candidates_are_judged_with_the_weights_of_the_checkpoint(run_folder):
    found = find(run_folder)
    expected = float(checkpoint(run_folder)["supernet"]["body.1.weight"][0, 0])
    assert set(by(found.records).values()) == {expected}


def test_a_screen_looks_at_fresh_networks(run_folder):
    found = find(run_folder, screen="l2_norm", keep="50%")
    inits = {record.proxy: record.init for record in found.records}
    assert inits["l2_norm"] == "default"
    screened = [record for record in found.records if record.proxy == "l2_norm"]
    cold = score_networks([record.arch for record in screened], "l2_norm", "digits", space=elastic)
    assert by(screened, "l2_norm") == by(cold, "l2_norm")
    assert inits["weight"].startswith("warm-up")


def test_a_candidate_that_diverges_has_no_score_and_the_search_goes_on(run_folder):
    found = find(run_folder, "100%(rate=1e30,batch=64)", alone)
    assert not found.ranking.standings
    assert {str(failure).partition(" at")[0] for _, failure in found.ranking.failed} == {
        "nan: its warm-up diverged"
    }


def test_data_without_labels_are_refused_before_anything_is_written(run_folder):
    with pytest.raises(
        UsageError, match="noise has nothing to learn from; take data with labels, such as digits"
    ):
        search(elastic, proxy=weight, budget=2, data="noise", run=run_folder, warm_up="10%")
    assert not run_folder.exists()


def test_a_model_of_ones_own_is_not_touched_and_seeds_start_from_it_alike():
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 10))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ask = {"input_shape": (1, 4, 4), "warm_up": "10%"}
    first, second = score_networks(model, weight, "digits", seeds=2, **ask)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert first.value != float(before["1.weight"][0, 0])
    assert score_networks(model, weight, "digits", **ask)[0].value == first.value
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


@pytest.mark.parametrize("said", [SAID, "20%(paths=each,batch=64)"])
def test_processes_give_the_records_of_this_process(project, said):
    ask = {"space": "./mine.py:elastic", "proxy": "./mine.py:weight"}
    here = find("here", said, **ask, workers=1)
    elsewhere = find("elsewhere", said, **ask, workers=2)
    assert drop_costs(list(elsewhere.records)) == drop_costs(list(here.records))
    assert all(record.value is not None for record in here.records)
    assert read_values(project / "here") == read_values(project / "elsewhere")


def test_a_search_that_was_killed_while_warming_up_ends_with_the_same_weights(project):
    done = subprocess.run([sys.executable, "-c", dedent(KILLED)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert checkpoint(project / "killed")["step"] == 3
    ask = {"space": "./mine.py:elastic", "proxy": "./mine.py:weight", "workers": 1}
    steps = []
    found = find(
        "killed",
        "50%(batch=64)",
        **ask,
        on_progress=lambda at: steps.append((at.stage, at.done, at.total)),
    )
    assert next(step for step in steps if step[0] == "warming up") == ("warming up", 3, HALF)
    expected = find("whole", "50%(batch=64)", **ask)
    assert same(checkpoint(project / "killed"), checkpoint(project / "whole"))
    assert drop_costs(list(found.records)) == drop_costs(list(expected.records))


# ---------------------------------------------------------------------------------------------------------------- cost


def test_the_account_and_the_report_show_what_the_warm_up_cost(run_folder):
    found = find(run_folder)
    facts = json.loads((run_folder / "run.json").read_text())
    assert 0 < facts["warm_up_seconds"] < facts["wall_seconds"]
    assert facts["config"]["warm_up"] == SAID
    assert "warming up" in format_cost(replace(found.run, warm_up_seconds=1.0))
    page = found.report().read_text()
    assert "Warming up the supernet" in page
    assert "20%(batch=64)" in page
    again = find(run_folder).run
    assert again.warm_up_seconds == facts["warm_up_seconds"]
    assert again.wall_seconds > facts["wall_seconds"]


def test_sittings_are_charged_for_what_they_warmed_up_and_only_once(run_folder):
    """5 s of warm-up and 2 s of scoring; then a sitting that found the warm-up done, of 1 s."""
    run, start = find(run_folder, "").run, SupernetWeights({}, "warm-up(...)", 5.0)
    first = replace(run, wall_seconds=0.0).add_session([], 2.0, "interrupted", start.seconds)
    assert (first.wall_seconds, first.warm_up_seconds) == (7.0, 5.0)
    second = first.add_session([], 1.0, "budget", start.seconds)
    assert (second.wall_seconds, second.warm_up_seconds) == (8.0, 5.0)


def test_the_time_of_candidates_that_are_trained_is_in_their_records(run_folder):
    warm, cold = (
        find(run_folder / name, said, alone)
        for name, said in (("warm", "100%(batch=16)"), ("cold", ""))
    )
    spent, usual = (sum(record.build_seconds for record in found.records) for found in (warm, cold))
    assert spent > 5 * usual  # about eighty steps each
    assert warm.run.warm_up_seconds == 0
    pages = [found.report().read_text() for found in (warm, cold)]
    assert "Building and warming up networks" in pages[0]
    assert "Building networks" in pages[1]


@pytest.mark.data
def test_a_bench_warms_up_too(known, data_root, tmp_path):
    known("nasbench201")
    ask = {"samples": 3, "data": "digits", "data_root": data_root}
    space = "nasbench201(channels=2,cells=1)"
    found = bench(space, "l2_norm", "cifar10", warm_up="2%(batch=8)", run=tmp_path / "warm", **ask)
    cold = bench(space, "l2_norm", "cifar10", run=tmp_path / "cold", **ask)
    scores = [
        next(row.scores for row in each.proxy_results if row.proxy == "l2_norm")
        for each in (found, cold)
    ]
    assert scores[0] != scores[1]
    assert 0 < found.cost["warm-up"] < found.cost["total"]
    assert found.settings["warm-up"] == "2%(batch=8)"
    assert "--warm-up '2%(batch=8)'" in found.command
    assert checkpoint(tmp_path / "warm")["step"] == 3  # 25 or 26 digits


def test_layers_of_the_toy_supernet_are_those_of_its_candidates():
    """What the tests above rest on."""
    assert [tuple(p.shape) for p in layers(3).parameters()] == [(3, 16), (3,), (10, 3), (10,)]

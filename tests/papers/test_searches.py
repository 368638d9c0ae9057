"""Searches as experiments: kept in folders, made by several workers, and judged by tables."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tests.conftest import shared
from untrained.errors import UsageError
from untrained.papers import dextr_searches, nasi_searches, reproduce, searches
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.searches import Found, Hunt, searched
from untrained.spaces import load_space
from untrained.strategies.search import search
from untrained.studies._scores import Crew

SPACE = "nasbench201(channels=4,cells=1)"
HUNTS = [Hunt(SPACE, "random", "noise", seed) for seed in (3, 4)]
BEST = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
PLAIN = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|"


def effort(folder, **others):
    return ExperimentConfig(3, 1, folder, **others)


class Seen(dict):
    """Scores by proxy, and the architectures."""

    def __init__(self, scores, truth):
        super().__init__(scores)
        self.truth = truth


def found(cell, seconds=1.0, **others):
    return Found(load_space("nasbench201").parse(cell), seconds, {}, 1, (), **others)


def ended(folder, how):
    """Say of a run that it ended so."""
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended": how}))


# ------------------------------------------------------------------------------------------------ folders and workers


def test_a_search_of_an_experiment_is_the_search_of_that_seed(run_folder, tmp_path):
    alone = [search(SPACE, "params", "random", 1, "noise", seed=seed, run=tmp_path / str(seed)) for seed in (3, 4)]
    made = searched(effort(run_folder), HUNTS, "searches")
    assert [each.arch for each in made] == [each.best for each in alone]
    assert made[0].arch != made[1].arch
    assert [each.measured["params"] for each in made] == [each.ranking.standings[0].score for each in alone]
    assert [each.judged for each in made] == [1, 1]


def test_what_came_to_its_end_is_read_and_only_the_rest_is_made(run_folder, monkeypatch):
    told, asked = [], []

    def counted(**words):
        asked.append(words["seed"])
        return search(**words)

    monkeypatch.setattr(searches, "search", counted)
    first = searched(effort(run_folder, on_progress=told.append), HUNTS[:1], "searches")
    assert asked == [3]
    both = searched(effort(run_folder, on_progress=told.append), HUNTS, "searches")
    assert asked == [3, 4]
    assert both[0] == first[0]
    assert [(at.done, at.total, at.measured) for at in told] == [(0, 1, 0), (1, 1, 1), (1, 2, 0), (2, 2, 1)]
    ended(HUNTS[0].folder(effort(run_folder)), "interrupted")
    assert searched(effort(run_folder), HUNTS, "searches")[0].arch == first[0].arch
    assert asked == [3, 4, 3]
    more = searched(effort(run_folder), [replace(HUNTS[0], budget=2)], "searches")
    assert asked == [3, 4, 3, 3]
    assert more[0].judged == 2


def test_the_steps_of_strategies_are_told_as_parts_of_all_searches(run_folder):
    hunts = [replace(hunt, strategy="nasi(steps=2,batch=2,nu0=1e9)") for hunt in HUNTS]
    told = []
    searched(effort(run_folder, on_progress=told.append), hunts, "searches")
    steps = [(at.done, at.total) for at in told if at.stage == "searches: steps"]
    assert list(dict.fromkeys(steps)) == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert [at.done for at in told if at.stage == "searches"] == [0, 1, 2]
    assert len(told) == len(steps) + 3


def test_what_is_stopped_says_that_the_same_command_goes_on(run_folder, monkeypatch):
    def stopped(**words):
        result = search(**words)
        ended(result.run.folder, "interrupted")
        return replace(result, run=replace(result.run, ended="interrupted"))

    monkeypatch.setattr(searches, "search", stopped)
    with pytest.raises(UsageError, match="the same command goes on"):
        searched(effort(run_folder), HUNTS, "searches")
    assert not HUNTS[1].folder(effort(run_folder)).exists(), "nothing more is begun"


def test_other_settings_have_other_folders(tmp_path):
    others = [replace(HUNTS[0], seed=9), replace(HUNTS[0], strategy="local"), replace(HUNTS[0], data="digits"),
              replace(HUNTS[0], space="nasbench201"), replace(HUNTS[0], max_params="1M")]  # fmt: skip
    folders = {hunt.folder(effort(tmp_path)) for hunt in [HUNTS[0], *others]}
    folders.add(HUNTS[0].folder(effort(tmp_path, compute=Crew("cuda"))))
    assert len(folders) == 7
    moved = [replace(HUNTS[0], data=f"npz:{place}/cifar10.npz").folder(effort(tmp_path)) for place in ("/a", "b/c")]
    assert moved[0] == moved[1]


def test_two_workers_find_what_one_finds(run_folder, tmp_path):
    told = []
    made = searched(effort(run_folder, compute=Crew(workers=2), on_progress=told.append), HUNTS, "searches")
    assert [each.arch for each in made] == [each.arch for each in searched(effort(tmp_path), HUNTS, "searches")]
    assert [(at.done, at.workers) for at in told] == [(0, 2), (1, 2), (2, 2)]


def test_what_goes_wrong_elsewhere_is_told_in_one_line(run_folder):
    wrong = [replace(hunt, strategy="nasi(steps=0)") for hunt in HUNTS]
    with pytest.raises(UsageError, match=r"seed.*failed: nasi takes steps, batch and samples from 1 up"):
        searched(effort(run_folder, compute=Crew(workers=2)), wrong, "searches")


def test_a_search_ends_with_whoever_asked_for_it(run_folder):
    asked = replace(HUNTS[0], budget=10_000, proxy="dextr").asked(effort(run_folder))
    with subprocess.Popen(
        [sys.executable, "-m", "untrained.strategies._searcher"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            process.communicate(json.dumps(asked).encode() + b"\n", timeout=60)  # which closes its standard input
        finally:
            process.kill()
        assert process.returncode == 1


# --------------------------------------------------------------------------------------------------------- NASI


def test_a_mean_over_searches_has_an_interval_and_a_spread():
    """2, 4 and 6: mean 4, deviation 2, half-width 4.303 * 2 / sqrt(3)."""
    line = nasi_searches.over_runs("what", 5.0, [2.0, 4.0, 6.0])
    assert (line.ours, line.spread, line.note) == (4.0, 2.0, "")
    assert line.high - line.ours == line.ours - line.low == pytest.approx(4.303 * 2 / 3**0.5)
    partly = nasi_searches.over_runs("what", 5.0, [2.0, float("nan")], "cells")
    assert (partly.ours, partly.low, partly.note) == (2.0, None, "cells; 1 of 2 not in the table")
    assert nasi_searches.over_runs("what", 5.0, [float("nan")]).ours is None


def test_where_ever_more_steps_lead_worked_out_by_hand():
    """R of (x, p), (x, q), (y, p), (y, q) is 1, 2, 4, 9: y by 6.5 against 1.5, q by 5.5 against 2.5."""
    archs = [(("a", a), ("b", b)) for a in "xy" for b in "pq"]
    assert nasi_searches.means_of(np.array([1.0, 2.0, 4.0, 9.0]), archs)["a"] == {"x": 1.5, "y": 6.5}
    assert nasi_searches.leaning(np.array([1.0, 2.0, 4.0, 9.0]), archs) == (("a", "y"), ("b", "q"))
    assert nasi_searches.leaning(np.array([9.0, 2.0, 4.0, 1.0]), archs) == (("a", "x"), ("b", "p"))


def test_a_found_cell_is_the_most_wanted_if_no_choice_had_a_better_option():
    cell = found(BEST)
    wanted = {name: [[option, 0.5], ["avg_pool_3x3", 0.1]] for name, option in cell.arch.genes}
    assert nasi_searches.most_wanted(replace(cell, trace=[{"alpha": list(wanted.items())}]))
    wanted["2<-1"][1][1] = 0.6
    assert not nasi_searches.most_wanted(replace(cell, trace=[{"alpha": list(wanted.items())}]))


@pytest.mark.data
def test_the_table_judges_what_nasi_found(data_root, run_folder, monkeypatch):
    """All three accuracies of the two cells, as the publishers' file has them; and the means at random."""
    asked = []

    def hunted(effort, hunts, stage):
        asked.extend(hunts)
        return [found(BEST, 10.0), found(PLAIN, 20.0)]

    monkeypatch.setattr(nasi_searches, "searched", hunted)
    limits = nasi_searches.Limits({"with ever more steps": PLAIN}, {"skip_connect": 2.5}, 3)
    monkeypatch.setattr(nasi_searches, "with_ever_more_steps", lambda effort: limits)
    made = reproduce("nasi-table-4", samples=20_000, seeds=2, run=run_folder, data_root=data_root)
    assert [(hunt.strategy, hunt.seed) for hunt in asked] == [
        (f"nasi(steps={steps},batch=64)", seed) for steps in (100, 400) for seed in (0, 1)
    ]
    csv = pd.read_csv(shared("data", "nasbench201", "nb201_full.csv.gz"), dtype={"ops": str}).set_index("arch_str")
    columns = {"C10": "c10_test_200", "C100": "c100_test_200", "IN-16-120": "in16_test_200"}
    lines = {line.what: line for line in made.lines}
    for label, column in columns.items():
        for budget in ("T", "4T"):
            line = lines[f"NASI ({budget}), {label}"]
            assert line.ours == pytest.approx(csv.loc[[BEST, PLAIN], column].mean())
            assert line.spread == pytest.approx(csv.loc[[BEST, PLAIN], column].std())
        assert lines[f"at random, {label}"].ours == pytest.approx(csv[column].mean())
        convolutions = csv[csv.index.map(lambda cell: re.findall("[a-z]+_", cell).count("nor_") == 6)]
        assert lines[f"convolutions alone, {label}"].ours == pytest.approx(convolutions[column].mean())
        assert lines[f"with ever more steps, {label}"].ours == pytest.approx(csv.loc[PLAIN, column])
    assert lines["mean R with skip_connect on edge 3<-0"].ours == 2.5
    assert lines["NASI (4T), C100"].published == 71.20
    assert lines["NASI (T), search cost, s"].ours == 15.0


@pytest.mark.data
def test_a_ceiling_hides_the_few_cells_with_a_huge_t(data_root, run_folder, monkeypatch):
    """With a convolution on the first edge t is 3, and 1 without; but a skip there and on both edges behind it has 100.
    So the mean of t is 3 against 100 / 16 + 15 / 16 = 7.2, and no more than 3 of each counts below the ceiling of 3."""

    def looked(effort, proxies, place, cells):
        archs = [load_space("nasbench201").parse(cell) for cell in cells]
        first, *behind = [[dict(arch.genes)[edge] for arch in archs] for edge in ("1<-0", "2<-0", "2<-1")]
        huge = [all(option == "skip_connect" for option in options) for options in zip(first, *behind, strict=True)]
        t = np.where(huge, 100.0, np.where(np.array(first) == "nor_conv_3x3", 3.0, 1.0))
        return Seen({"nasi_batch": t[None]}, SimpleNamespace(archs=archs))

    monkeypatch.setattr(nasi_searches, "look", looked)
    limits = nasi_searches.with_ever_more_steps(ExperimentConfig(2000, 1, run_folder, data_root=data_root))
    chosen = {name: cell.split("~")[0] for name, cell in limits.cells.items()}
    assert limits.seen == 2000
    assert limits.edge.keys() == {"nor_conv_3x3", "nor_conv_1x1", "skip_connect", "avg_pool_3x3"}
    assert chosen["nu above 90 % of t"] == chosen["nu above 95 % of t"] == "|nor_conv_3x3"
    assert chosen["nu above 100 % of t"] == "|skip_connect"


# --------------------------------------------------------------------------------------------------------- Dextr


def test_the_cost_of_an_evolution_is_extrapolated(run_folder, monkeypatch):
    """2,000 networks in 864 s are 0.01 days; 100,000 would be 0.5."""
    start = load_space("mobilenetv2").sample(np.random.default_rng(0))
    best = Found(start, 864.0, {"params": 2e6, "flops": 449e6}, 2000, ())
    hunts = []
    monkeypatch.setattr(dextr_searches, "searched", lambda effort, asked, stage: hunts.extend(asked) or [best])
    made = reproduce("dextr-table-8-search", run=run_folder)
    assert (hunts[0].max_flops, hunts[0].budget, hunts[0].proxy) == ("450M", 2000, "dextr")
    assert [line.ours for line in made.lines] == pytest.approx([449.0, 2.0, 0.01, 0.5])
    assert [line.published for line in made.lines] == [457.0, None, None, 0.6]
    assert made.lines[0].note == str(start)

"""Searches of experiments: their folders, their workers, and accuracies from tables."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tests.conftest import find_shared
from untrained.config import ComputeConfig
from untrained.errors import Interrupted, UsageError
from untrained.papers import dextr_searches, nasi_searches, reproduce, searches
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.searches import SearchOutcome, SearchPlan, run_searches
from untrained.spaces import load_space
from untrained.workflows.search import run_search, search

SPACE = "nasbench201(channels=4,cells=1)"
PLANS = [SearchPlan(SPACE, "random", "noise", seed) for seed in (3, 4)]
BEST = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
PLAIN = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|"


def make_config(folder, **others):
    return ExperimentConfig(3, 1, folder, **others)


class SampleScores(dict):
    """Scores by proxy, and the architectures."""

    def __init__(self, scores, truth):
        super().__init__(scores)
        self.truth = truth


def make_outcome(cell, seconds=1.0, **others):
    return SearchOutcome(load_space("nasbench201").parse(cell), seconds, {}, 1, (), **others)


def set_ended(folder, how):
    """Change how a run ended."""
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended": how}))


# --- folders and workers ---


def test_search_of_experiment_equals_plain_search_with_its_seed(run_folder, tmp_path):
    alone = [
        search(SPACE, "params", "random", 1, "noise", seed=seed, run=tmp_path / str(seed))
        for seed in (3, 4)
    ]
    outcomes = run_searches(make_config(run_folder), PLANS, "searches")
    assert [each.arch for each in outcomes] == [each.best for each in alone]
    assert outcomes[0].arch != outcomes[1].arch
    assert [each.scores["params"] for each in outcomes] == [
        each.ranking.standings[0].score for each in alone
    ]
    assert [each.scored_count for each in outcomes] == [1, 1]


def test_finished_searches_are_read_and_others_run(run_folder, monkeypatch):
    events = []
    seeds = []

    def count_search(config, on_progress):
        seeds.append(config.seed)
        return run_search(config, on_progress)

    monkeypatch.setattr(searches, "run_search", count_search)
    first = run_searches(make_config(run_folder, on_progress=events.append), PLANS[:1], "searches")
    assert seeds == [3]
    both = run_searches(make_config(run_folder, on_progress=events.append), PLANS, "searches")
    assert seeds == [3, 4]
    assert both[0] == first[0]
    assert [(event.done, event.total, event.measured) for event in events] == [
        (0, 1, 0),
        (1, 1, 1),
        (1, 2, 0),
        (2, 2, 1),
    ]
    set_ended(PLANS[0].get_folder(make_config(run_folder)), "interrupted")
    assert run_searches(make_config(run_folder), PLANS, "searches")[0].arch == first[0].arch
    assert seeds == [3, 4, 3]
    more = run_searches(make_config(run_folder), [replace(PLANS[0], budget=2)], "searches")
    assert seeds == [3, 4, 3, 3]
    assert more[0].scored_count == 2


def test_steps_are_reported_as_part_of_all_searches(run_folder):
    plans = [replace(plan, strategy="nasi(steps=2,batch=2,nu0=1e9)") for plan in PLANS]
    events = []
    run_searches(make_config(run_folder, on_progress=events.append), plans, "searches")
    steps = [(event.done, event.total) for event in events if event.stage == "searches: steps"]
    assert list(dict.fromkeys(steps)) == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert [event.done for event in events if event.stage == "searches"] == [0, 1, 2]
    assert len(events) == len(steps) + 3


def test_interrupted_search_says_how_to_resume(run_folder, monkeypatch):
    def stop_search(config, on_progress):
        result = run_search(config, on_progress)
        set_ended(result.run.folder, "interrupted")
        return replace(result, run=replace(result.run, end_reason="interrupted"))

    monkeypatch.setattr(searches, "run_search", stop_search)
    with pytest.raises(Interrupted, match="the same command resumes"):
        run_searches(make_config(run_folder), PLANS, "searches")
    assert not PLANS[1].get_folder(make_config(run_folder)).exists(), "no other search is started"


def test_different_settings_have_different_folders(tmp_path):
    others = [replace(PLANS[0], seed=9), replace(PLANS[0], strategy="local"), replace(PLANS[0], data="digits"),
              replace(PLANS[0], space="nasbench201"), replace(PLANS[0], max_params="1M")]  # fmt: skip
    folders = {plan.get_folder(make_config(tmp_path)) for plan in [PLANS[0], *others]}
    folders.add(PLANS[0].get_folder(make_config(tmp_path, compute=ComputeConfig("cuda"))))
    assert len(folders) == 7
    moved = [
        replace(PLANS[0], data=f"npz:{place}/cifar10.npz").get_folder(make_config(tmp_path))
        for place in ("/a", "b/c")
    ]
    assert moved[0] == moved[1]


def test_two_workers_find_the_same_as_one(run_folder, tmp_path):
    events = []
    outcomes = run_searches(
        make_config(run_folder, compute=ComputeConfig(workers=2), on_progress=events.append),
        PLANS,
        "searches",
    )
    assert [each.arch for each in outcomes] == [
        each.arch for each in run_searches(make_config(tmp_path), PLANS, "searches")
    ]
    assert [(event.done, event.workers) for event in events] == [(0, 2), (1, 2), (2, 2)]


def test_failure_in_subprocess_is_reported_in_one_line(run_folder):
    wrong = [replace(plan, strategy="nasi(steps=0)") for plan in PLANS]
    with pytest.raises(
        UsageError, match=r"seed.*failed: steps, batch and samples of nasi must be at least 1"
    ):
        run_searches(make_config(run_folder, compute=ComputeConfig(workers=2)), wrong, "searches")


def test_search_process_ends_with_its_parent(run_folder):
    plan = replace(PLANS[0], budget=10_000, proxy="dextr")
    document = plan.to_search_config(make_config(run_folder)).to_document()
    with subprocess.Popen(
        [sys.executable, "-m", "untrained.workflows.search_process"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            # This closes the standard input, as the end of the parent process does.
            process.communicate(json.dumps(document).encode() + b"\n", timeout=60)
        finally:
            process.kill()
        assert process.returncode == 1


# --- NASI ---


def test_mean_over_searches_has_interval_and_spread():
    """2, 4 and 6 have the mean 4, the deviation 2 and the half-width 4.3027 * 2 / sqrt(3)."""
    line = nasi_searches.make_searches_line("what", 5.0, [2.0, 4.0, 6.0])
    assert (line.ours, line.spread, line.note) == (4.0, 2.0, "")
    assert line.high - line.ours == line.ours - line.low == pytest.approx(4.302652730 * 2 / 3**0.5)
    partly = nasi_searches.make_searches_line("what", 5.0, [2.0, float("nan")], "cells")
    assert (partly.ours, partly.low, partly.note) == (2.0, None, "cells; 1 of 2 not in the table")
    assert nasi_searches.make_searches_line("what", 5.0, [float("nan")]).ours is None


def test_best_options_worked_out_by_hand():
    """R of (x, p), (x, q), (y, p) and (y, q) is 1, 2, 4 and 9.

    The means are 6.5 for y and 1.5 for x, 5.5 for q and 2.5 for p.
    """
    archs = [(("a", a), ("b", b)) for a in "xy" for b in "pq"]
    assert nasi_searches.average_by_option(np.array([1.0, 2.0, 4.0, 9.0]), archs)["a"] == {
        "x": 1.5,
        "y": 6.5,
    }
    assert nasi_searches.choose_best_options(np.array([1.0, 2.0, 4.0, 9.0]), archs) == (
        ("a", "y"),
        ("b", "q"),
    )
    assert nasi_searches.choose_best_options(np.array([9.0, 2.0, 4.0, 1.0]), archs) == (
        ("a", "x"),
        ("b", "p"),
    )


def test_cell_is_most_likely_if_no_option_has_larger_logit():
    cell = make_outcome(BEST)
    logits = {name: [[option, 0.5], ["avg_pool_3x3", 0.1]] for name, option in cell.arch.genes}
    assert nasi_searches.is_most_likely(replace(cell, trace=[{"alpha": list(logits.items())}]))
    logits["2<-1"][1][1] = 0.6
    assert not nasi_searches.is_most_likely(replace(cell, trace=[{"alpha": list(logits.items())}]))


@pytest.mark.parametrize(
    ("limit", "batches"), [(None, (8, 16, 32, 64, 128)), (16, (8, 16)), (4, (4,))]
)
def test_a_trial_does_not_repeat_its_largest_batch_as_larger_ones(
    limit, batches, run_folder, monkeypatch
):
    strategies = []

    def return_outcomes(config, plans, stage):
        strategies.extend(plan.strategy for plan in plans)
        return []

    monkeypatch.setattr(nasi_searches, "run_searches", return_outcomes)
    monkeypatch.setattr(nasi_searches, "_read_errors", lambda outcomes, config: [6.0])
    lines = nasi_searches.table_8(make_config(run_folder, batch=limit)).lines
    # Once for each of the two spaces.
    assert strategies == [f"nasi(steps=100,batch={batch})" for batch in batches] * 2
    assert len(lines) == 10
    assert [line.ours for line in lines[:5]] == [6.0] * len(batches) + [None] * (5 - len(batches))
    for line in lines:
        assert (line.ours is None) == (line.note == f"a trial sees at most {limit} images")


@pytest.mark.data
def test_nasi_accuracies_come_from_the_table(data_root, run_folder, monkeypatch):
    """The accuracies of the two cells, and the means of random cells, equal the published file."""
    all_plans = []

    def return_outcomes(config, plans, stage):
        all_plans.extend(plans)
        return [make_outcome(BEST, 10.0), make_outcome(PLAIN, 20.0)]

    monkeypatch.setattr(nasi_searches, "run_searches", return_outcomes)
    limits = nasi_searches.ConvergedCells({"best by mean R": PLAIN}, {"skip_connect": 2.5}, 3)
    monkeypatch.setattr(nasi_searches, "find_converged_cells", lambda config: limits)
    gumbel_limit = nasi_searches.GumbelLimit(BEST, 4, 800)
    monkeypatch.setattr(nasi_searches, "find_gumbel_limit", lambda outcomes: gumbel_limit)
    outcomes = reproduce(
        "nasi-table-4", samples=20_000, seeds=2, run=run_folder, data_root=data_root
    )
    assert [(plan.strategy, plan.seed) for plan in all_plans] == [
        (f"nasi(steps={steps},batch=64)", seed) for steps in (100, 400) for seed in (0, 1)
    ]
    csv = pd.read_csv(
        find_shared("data", "nasbench201", "nb201_full.csv.gz"), dtype={"ops": str}
    ).set_index("arch_str")
    columns = {"C10": "c10_test_200", "C100": "c100_test_200", "IN-16-120": "in16_test_200"}
    lines = {line.what: line for line in outcomes.lines}
    for label, column in columns.items():
        for budget in ("T", "4T"):
            line = lines[f"NASI ({budget}), {label}"]
            assert line.ours == pytest.approx(csv.loc[[BEST, PLAIN], column].mean())
            assert line.spread == pytest.approx(csv.loc[[BEST, PLAIN], column].std())
        assert lines[f"random architectures, {label}"].ours == pytest.approx(csv[column].mean())
        convolutions = csv[
            csv.index.map(lambda cell: re.findall("[a-z]+_", cell).count("nor_") == 6)
        ]
        assert lines[f"convolutions only, {label}"].ours == pytest.approx(
            convolutions[column].mean()
        )
        best_line = lines[f"limit of straight-through Gumbel, {label}"]
        assert best_line.ours == pytest.approx(csv.loc[BEST, column])
        assert lines[f"best by mean R, {label}"].ours == pytest.approx(csv.loc[PLAIN, column])
    assert lines["edges whose operation in that limit is certain"].ours == 4
    assert lines["mean R with skip_connect on edge 3<-0"].ours == 2.5
    assert lines["NASI (4T), C100"].published == 71.20
    assert lines["NASI (T), search cost, s"].ours == 15.0


@pytest.mark.data
def test_a_lower_nu_ignores_the_few_cells_with_a_huge_t(data_root, run_folder, monkeypatch):
    """With a convolution on the first edge t is 3, and without it 1.

    But t is 100 with a skip there and on the two edges of the next node. So the mean of t is 3 for
    a convolution and 100 / 16 + 15 / 16 = 7.2 for a skip, unless nu limits t to 3.
    """

    def measure_sample(config, proxies, place, cells):
        archs = [load_space("nasbench201").parse(cell) for cell in cells]
        t = []
        for arch in archs:
            options = dict(arch.genes)
            if {options["1<-0"], options["2<-0"], options["2<-1"]} == {"skip_connect"}:
                t.append(100.0)
            else:
                t.append(3.0 if options["1<-0"] == "nor_conv_3x3" else 1.0)
        return SampleScores({"nasi_batch": np.array([t])}, SimpleNamespace(archs=archs))

    monkeypatch.setattr(nasi_searches, "measure_sample", measure_sample)
    limits = nasi_searches.find_converged_cells(
        ExperimentConfig(2000, 1, run_folder, data_root=data_root)
    )
    first_operations = {name: cell.split("~")[0] for name, cell in limits.cells.items()}
    assert limits.cell_count == 2000
    assert limits.edge_means.keys() == {
        "nor_conv_3x3",
        "nor_conv_1x1",
        "skip_connect",
        "avg_pool_3x3",
    }
    assert (
        first_operations["best operation by mean R, nu at percentile 90 of t"]
        == first_operations["best operation by mean R, nu at percentile 95 of t"]
        == "|nor_conv_3x3"
    )
    name = "best operation by mean R, nu at percentile 100 of t"
    assert first_operations[name] == "|skip_connect"


def test_limit_of_gumbel_is_the_operation_with_the_largest_mean_gradient():
    """On the first edge the second operation wins in both searches, on the others by chance."""
    edges = [name for name, _ in load_space("nasbench201").parse(BEST).genes]

    def make_searched(first, other):
        gradients = []
        for index, edge in enumerate(edges):
            values = first if index == 0 else other
            # none may not be chosen.
            operations = [("none", None), ("nor_conv_3x3", values[0]), ("skip_connect", values[1])]
            gradients.append((edge, operations))
        trace = [{"steps": [{}] * 400, "mean_gradient": gradients}]
        return replace(make_outcome(BEST), trace=trace)

    limit = nasi_searches.find_gumbel_limit(
        [make_searched((1.0, 2.0), (3.0, -1.0)), make_searched((1.0, 2.1), (-1.0, 2.0))]
    )
    assert limit.cell.startswith("|skip_connect~0|+|nor_conv_3x3~0|nor_conv_3x3~1|")
    # Differences of 1.0 and 1.1 have an interval of 1.05 +- 0.64; those of 4 and -3 contain 0.
    assert (limit.certain_edges, limit.steps) == (1, 800)


# --- Dextr ---


def test_cost_of_evolution_is_extrapolated(run_folder, monkeypatch):
    """2,000 networks take 864 s, which are 0.01 days; 100,000 would take 0.5 days."""
    start = load_space("mobilenetv2").sample(np.random.default_rng(0))
    best = SearchOutcome(start, 864.0, {"params": 2e6, "flops": 449e6}, 2000, ())
    plans = []
    monkeypatch.setattr(
        dextr_searches,
        "run_searches",
        lambda config, new_plans, stage: plans.extend(new_plans) or [best],
    )
    outcomes = reproduce("dextr-table-8-search", run=run_folder)
    assert (plans[0].max_flops, plans[0].budget, plans[0].proxy) == ("450M", 2000, "dextr")
    assert [line.ours for line in outcomes.lines] == pytest.approx([449.0, 2.0, 0.01, 0.5])
    assert [line.published for line in outcomes.lines] == [457.0, None, None, 0.6]
    assert outcomes.lines[0].note == str(start)

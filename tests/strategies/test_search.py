"""Search: which architecture is the best, and that the same call gives the same result."""

import sqlite3
import time
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from scipy.stats import rankdata

import untrained
from tests.strategies.helpers import (
    drop_costs,
    make_toy_record,
    make_weight_proxy,
    odd,
    read_values,
    search_tiny,
)
from untrained import Probe, search
from untrained.errors import UsageError
from untrained.runs.ranking import rank_records
from untrained.runs.store import Store
from untrained.runs.winner import read_winner


@pytest.mark.parametrize(("higher", "extreme"), [(True, max), (False, min)])
def test_the_best_has_the_best_score_in_the_direction_of_the_proxy(run_folder, higher, extreme):
    result = search_tiny(run_folder, make_weight_proxy(higher))
    scores = {r.arch: r.value for r in result.records if r.proxy == "weight"}
    assert len(set(scores.values())) == 6
    assert result.best == extreme(scores, key=scores.__getitem__)
    ranked = [standing.score for standing in result.ranking.standings]
    assert ranked == sorted(scores.values(), reverse=higher)
    assert result.run.higher_is_better is higher


def test_parameters_and_flops_accompany_every_score(run_folder):
    result = search_tiny(run_folder, make_weight_proxy())
    for arch in {r.arch for r in result.records}:
        values = {r.proxy: r.value for r in result.records if r.arch == arch}
        width = arch["width"]
        kernel = arch["kernel"]
        bias = arch["bias"] == "yes"
        assert values["params"] == 3 * width * kernel**2 + bias * width + 4 * (64 * width + 1)
        assert values["flops"] == 3 * width * kernel**2 * 64 + 4 * 64 * width
    assert [r.proxy for r in search_tiny(run_folder / "2", "params", 1).records] == [
        "params",
        "flops",
    ]


def test_failures_are_counted_and_never_ranked(run_folder):
    result = search_tiny(run_folder, odd, budget=16)
    assert {s.arch["width"] for s in result.ranking.standings} == {3, 5}
    assert {arch["width"] for arch, _ in result.ranking.failed} == {2, 4}
    assert len(result.ranking.standings) == len(result.ranking.failed) == 8  # the whole space
    assert {failure.kind for _, failure in result.ranking.failed} == {"nan"}
    assert result.best["width"] == 5


def test_equal_scores_keep_the_order_of_discovery(run_folder):
    constant = untrained.proxy()(lambda probe: 1.0)
    result = search_tiny(run_folder, constant)
    discovered = list(dict.fromkeys(r.arch for r in result.records))
    assert [standing.arch for standing in result.ranking.standings] == discovered


def test_a_proxy_of_ranks_with_options_has_a_winner(run_folder):
    result = search_tiny(run_folder, "te_nas(samples=2)")
    parts = ("te_nas_condition(samples=2)", "te_nas_regions(samples=2)")
    condition, regions = (
        {r.arch: r.value for r in result.records if r.proxy == part} for part in parts
    )
    shares = rankdata([-value for value in condition.values()]) + rankdata(list(regions.values()))
    best = list(condition)[shares.argmax()]
    assert sorted(shares)[-2] < shares.max()
    assert read_winner(run_folder).arch == result.best == best
    assert str(best) in result.report().read_text()


def test_a_search_without_any_score_has_a_report_and_no_best(run_folder):
    result = search_tiny(run_folder, untrained.proxy()(lambda probe: float("inf")))
    assert (len(result.ranking.standings), len(result.ranking.failed)) == (0, 6)
    with pytest.raises(UsageError, match="no architecture could be scored"):
        _ = result.best
    assert "infinite" in result.report().read_text()


def test_one_failed_seed_fails_the_architecture():
    records = [
        make_toy_record("a", 0, 9.0),
        make_toy_record("a", 1, None),
        make_toy_record("b", 0, 1.0),
        make_toy_record("b", 1, 3.0),
    ]
    ranking = rank_records(records, "m@1", higher_is_better=True)
    assert [(s.arch["a"], s.score, s.spread, s.seeds) for s in ranking.standings] == [
        ("b", 2.0, 2**0.5, 2)
    ]
    assert [(arch["a"], str(failure)) for arch, failure in ranking.failed] == [("a", "nan: seed 1")]
    assert rank_records(records, "another@1", True).standings == ()


def test_scores_are_mean_and_spread_over_seeds(run_folder):
    result = search_tiny(run_folder, make_weight_proxy(), budget=3, seeds=4, seed=7)
    with Store(run_folder / "records.sqlite") as store:
        stored = [r for r in store if r.proxy == "weight"]
    assert {r.seed for r in stored} == {7, 8, 9, 10}
    for standing in result.ranking.standings:
        values = [r.value for r in stored if r.arch == standing.arch]
        assert len(set(values)) == 4
        assert standing.score == pytest.approx(fmean(values), rel=1e-12)
        assert standing.spread == pytest.approx(stdev(values), rel=1e-12)


def test_one_seed_has_no_spread(run_folder):
    assert {standing.spread for standing in search_tiny(run_folder).ranking.standings} == {None}


def test_the_frame_holds_every_record(run_folder):
    result = search_tiny(run_folder, odd)
    frame = result.frame()
    assert len(frame) == len(result.records) == 18
    failed = frame[(frame.proxy == "odd") & frame.value.isna()]
    assert set(failed.error) == {"nan: the score is not a number"}
    assert list(frame.arch) == [str(r.arch) for r in result.records]


def test_the_text_and_the_notebook_table_of_a_result(run_folder):
    result = search_tiny(run_folder, "params", 3)
    lines = repr(result).splitlines()
    assert (
        lines[0] == f"Search of {result.run.config.space} with params on {result.run.config.data}"
    )
    assert lines[1] == "Ranking of 3 architectures"
    assert lines[2].endswith(str(result.best))
    assert lines[5:] == [f"best: {result.best}", f"run folder: {run_folder}"]
    html = result._repr_html_()
    assert "<caption>Ranking of 3 architectures</caption>" in html
    assert f"<td>{result.best}</td>" in html


def test_the_same_call_twice_gives_the_same_records_byte_for_byte(tmp_path):
    rows = []
    for name in ("a", "b"):
        search_tiny(tmp_path / name, "dextr", seeds=2)
        with sqlite3.connect(tmp_path / name / "records.sqlite") as db:
            columns = [column for _, column, *_ in db.execute("PRAGMA table_info(flat)")]
            compared = ", ".join(column for column in columns if not column.endswith("_seconds"))
            rows.append(list(db.execute(f"SELECT {compared} FROM flat ORDER BY place")))
        db.close()
    assert len(columns) - len(compared.split(", ")) == 3
    assert repr(rows[0]) == repr(rows[1])
    assert len(rows[0]) == 6 * 3 * 2


def test_another_seed_is_another_search(tmp_path):
    one, other = (search_tiny(tmp_path / str(seed), seed=seed) for seed in (0, 1))
    assert [r.arch for r in one.records] != [r.arch for r in other.records]


def test_a_larger_budget_continues_where_the_smaller_one_stopped(tmp_path):
    calls: list[int] = []

    @untrained.proxy()
    def count_parameters(probe: Probe) -> float:
        calls.append(1)
        return float(probe.params)

    search_tiny(tmp_path / "a", count_parameters, budget=5)
    assert len(calls) == 5
    grown = search_tiny(tmp_path / "a", count_parameters, budget=10)
    assert len(calls) == 10
    whole = search_tiny(tmp_path / "b", count_parameters, budget=10)
    assert drop_costs(grown.records) == drop_costs(whole.records)
    assert read_values(tmp_path / "a") == read_values(tmp_path / "b")
    assert grown.best == whole.best
    again = search_tiny(tmp_path / "a", count_parameters, budget=10)
    assert len(calls) == 20  # ten and ten: nothing was computed a second time
    assert again.records == grown.records


def test_the_time_of_a_run_is_the_sum_over_its_sessions(run_folder):
    first = search_tiny(run_folder, budget=1).run
    assert 0 < first.wall_seconds < 60
    replace(first, wall_seconds=1000.0).save()
    assert 1000 < search_tiny(run_folder, budget=2).run.wall_seconds < 1060


@pytest.mark.alone
def test_from_a_space_to_a_report_in_one_call(run_folder):
    """Sample, score, rank and report with a real space, proxy and data."""
    start = time.monotonic()
    result = search("nasbench201", "dextr", budget=4, run=run_folder)
    page = result.report().read_text()
    assert time.monotonic() - start < 20
    assert len(result.records) == 4 * 3
    assert len(result.ranking.standings) + len(result.ranking.failed) == 4
    best = max(
        (r for r in result.records if r.proxy == "dextr" and r.value is not None),
        key=lambda r: r.value,
    )
    assert result.best == best.arch == untrained.load_space("nasbench201").parse(str(best.arch))
    assert all(
        str(standing.arch) in page.replace("<wbr>", "") for standing in result.ranking.standings
    )
    assert "<svg" in page

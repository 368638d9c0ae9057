"""Search: what is best, and that the same call gives the same answer."""

import sqlite3
import time
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from scipy.stats import rankdata

import untrained
from tests.strategies.helpers import drop_costs, odd, proxy, read_values, record, search_tiny
from untrained import Probe, search
from untrained.errors import UsageError
from untrained.runs.ranking import rank_records
from untrained.runs.store import Store
from untrained.runs.winner import read_winner


@pytest.mark.parametrize(("higher", "extreme"), [(True, max), (False, min)])
def test_the_best_has_the_best_score_in_the_direction_of_the_proxy(run_folder, higher, extreme):
    found = search_tiny(run_folder, proxy(higher))
    scores = {r.arch: r.value for r in found.records if r.proxy == "weight"}
    assert len(set(scores.values())) == 6
    assert found.best == extreme(scores, key=scores.__getitem__)
    ranked = [standing.score for standing in found.ranking.standings]
    assert ranked == sorted(scores.values(), reverse=higher)
    assert found.run.higher_is_better is higher


def test_sizes_stand_beside_every_score(run_folder):
    found = search_tiny(run_folder, proxy())
    for arch in {r.arch for r in found.records}:
        by = {r.proxy: r.value for r in found.records if r.arch == arch}
        width, kernel, bias = arch["width"], arch["kernel"], arch["bias"] == "yes"
        assert by["params"] == 3 * width * kernel**2 + bias * width + 4 * (64 * width + 1)
        assert by["flops"] == 3 * width * kernel**2 * 64 + 4 * 64 * width
    assert [r.proxy for r in search_tiny(run_folder / "2", "params", 1).records] == [
        "params",
        "flops",
    ]


def test_what_failed_is_counted_and_never_ranked(run_folder):
    found = search_tiny(run_folder, odd, budget=16)
    assert {s.arch["width"] for s in found.ranking.standings} == {3, 5}
    assert {arch["width"] for arch, _ in found.ranking.failed} == {2, 4}
    assert len(found.ranking.standings) == len(found.ranking.failed) == 8  # the whole space
    assert {failure.kind for _, failure in found.ranking.failed} == {"nan"}
    assert found.best["width"] == 5


def test_equals_keep_the_order_of_discovery(run_folder):
    constant = untrained.proxy()(lambda probe: 1.0)
    found = search_tiny(run_folder, constant)
    discovered = list(dict.fromkeys(r.arch for r in found.records))
    assert [standing.arch for standing in found.ranking.standings] == discovered


def test_a_run_by_ranks_among_candidates_with_options_has_its_winner(run_folder):
    found = search_tiny(run_folder, "te_nas(samples=2)")
    parts = ("te_nas_condition(samples=2)", "te_nas_regions(samples=2)")
    condition, regions = (
        {r.arch: r.value for r in found.records if r.proxy == part} for part in parts
    )
    shares = rankdata([-value for value in condition.values()]) + rankdata(list(regions.values()))
    best = list(condition)[shares.argmax()]
    assert sorted(shares)[-2] < shares.max()
    assert read_winner(run_folder).arch == found.best == best
    assert str(best) in found.report().read_text()


def test_nothing_scored_has_no_best_and_still_a_report(run_folder):
    found = search_tiny(run_folder, untrained.proxy()(lambda probe: float("inf")))
    assert (len(found.ranking.standings), len(found.ranking.failed)) == (0, 6)
    with pytest.raises(UsageError, match="nothing could be scored"):
        _ = found.best
    assert "infinite" in found.report().read_text()


def test_one_failed_seed_fails_the_architecture():
    records = [record("a", 0, 9.0), record("a", 1, None), record("b", 0, 1.0), record("b", 1, 3.0)]
    ranking = rank_records(records, "m@1", higher_is_better=True)
    assert [(s.arch["a"], s.score, s.spread, s.seeds) for s in ranking.standings] == [
        ("b", 2.0, 2**0.5, 2)
    ]
    assert [(arch["a"], str(failure)) for arch, failure in ranking.failed] == [("a", "nan: seed 1")]
    assert rank_records(records, "another@1", True).standings == ()


def test_seeds_give_mean_and_spread_of_what_is_stored(run_folder):
    found = search_tiny(run_folder, proxy(), budget=3, seeds=4, seed=7)
    with Store(run_folder / "records.sqlite") as store:
        stored = [r for r in store if r.proxy == "weight"]
    assert {r.seed for r in stored} == {7, 8, 9, 10}
    for standing in found.ranking.standings:
        values = [r.value for r in stored if r.arch == standing.arch]
        assert len(set(values)) == 4
        assert standing.score == pytest.approx(fmean(values), rel=1e-12)
        assert standing.spread == pytest.approx(stdev(values), rel=1e-12)


def test_one_seed_has_no_spread(run_folder):
    assert {standing.spread for standing in search_tiny(run_folder).ranking.standings} == {None}


def test_the_frame_holds_every_record(run_folder):
    found = search_tiny(run_folder, odd)
    frame = found.frame()
    assert len(frame) == len(found.records) == 18
    failed = frame[(frame.proxy == "odd") & frame.value.isna()]
    assert set(failed.error) == {"nan: the score is not a number"}
    assert list(frame.arch) == [str(r.arch) for r in found.records]


def test_the_same_call_twice_gives_the_same_records_byte_for_byte(tmp_path):
    rows = []
    for name in ("a", "b"):
        search_tiny(tmp_path / name, "dextr", seeds=2)
        with sqlite3.connect(tmp_path / name / "records.sqlite") as db:
            columns = [column for _, column, *_ in db.execute("PRAGMA table_info(flat)")]
            kept = ", ".join(column for column in columns if not column.endswith("_seconds"))
            rows.append(list(db.execute(f"SELECT {kept} FROM flat ORDER BY place")))
        db.close()
    assert len(columns) - len(kept.split(", ")) == 3
    assert repr(rows[0]) == repr(rows[1])
    assert len(rows[0]) == 6 * 3 * 2


def test_another_seed_is_another_search(tmp_path):
    one, other = (search_tiny(tmp_path / str(seed), seed=seed) for seed in (0, 1))
    assert [r.arch for r in one.records] != [r.arch for r in other.records]


def test_a_larger_budget_goes_on_where_the_smaller_one_stopped(tmp_path):
    asked: list[int] = []

    @untrained.proxy()
    def count_parameters(probe: Probe) -> float:
        asked.append(1)
        return float(probe.params)

    search_tiny(tmp_path / "a", count_parameters, budget=5)
    assert len(asked) == 5
    grown = search_tiny(tmp_path / "a", count_parameters, budget=10)
    assert len(asked) == 10
    whole = search_tiny(tmp_path / "b", count_parameters, budget=10)
    assert drop_costs(grown.records) == drop_costs(whole.records)
    assert read_values(tmp_path / "a") == read_values(tmp_path / "b")
    assert grown.best == whole.best
    again = search_tiny(tmp_path / "a", count_parameters, budget=10)
    assert len(asked) == 20  # ten and ten: nothing was computed a second time
    assert again.records == grown.records


def test_the_cost_of_a_run_is_that_of_all_its_sittings(run_folder):
    first = search_tiny(run_folder, budget=1).run
    assert 0 < first.wall_seconds < 60
    replace(first, wall_seconds=1000.0).save()
    assert 1000 < search_tiny(run_folder, budget=2).run.wall_seconds < 1060


@pytest.mark.alone
def test_from_a_space_to_a_report_in_one_call(run_folder):
    """Sample, score, select, report, with the real space, proxy and data: the flow that every other test cuts up."""
    start = time.monotonic()
    found = search("nasbench201", "dextr", budget=4, run=run_folder)
    page = found.report().read_text()
    assert time.monotonic() - start < 20
    assert len(found.records) == 4 * 3
    assert len(found.ranking.standings) + len(found.ranking.failed) == 4
    best = max(
        (r for r in found.records if r.proxy == "dextr" and r.value is not None),
        key=lambda r: r.value,
    )
    assert found.best == best.arch == untrained.load_space("nasbench201").parse(str(best.arch))
    assert all(
        str(standing.arch) in page.replace("<wbr>", "") for standing in found.ranking.standings
    )
    assert "<svg" in page

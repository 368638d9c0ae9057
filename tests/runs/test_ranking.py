"""From records to a ranking: seeds, intervals, ties, and scores that exist among candidates only."""

from dataclasses import replace
from math import log, sqrt
from statistics import fmean, stdev

import pytest
from scipy import stats

from tests.records import make_record
from untrained.proxies import PROXIES, load_proxy
from untrained.runs.aggregates import compute_aggregates, compute_rank_fractions, expand_aggregates
from untrained.runs.ranking import (
    compute_margin,
    compute_t_quantile,
    is_tied,
    make_record_rows,
    rank_records,
)
from untrained.types import FAILURE_KINDS, Arch, Failure, Record, Task

TASK = Task("noise", (3, 8, 8), 4)


def record(arch: str, value: float | Failure, measure: str = "m@1", seed: int = 0) -> Record:
    failed = isinstance(value, Failure)
    return make_record(
        Arch("s", (("a", arch),)),
        measure,
        TASK,
        seed,
        None if failed else value,
        value if failed else None,
    )


def test_t_quantiles_equal_a_printed_table():
    """Student's t, 97.5 %, for 1, 2, 10, 16, 17 and 30 degrees of freedom, from a textbook."""
    printed = {1: 12.706, 2: 4.303, 10: 2.228, 16: 2.120, 17: 2.110, 30: 2.042}
    for freedom, t in printed.items():
        assert compute_t_quantile(freedom + 1) == pytest.approx(t, abs=5e-4)


def test_the_interval_of_a_mean_is_students():
    values = [1.0, 2.0, 4.0, 4.5]
    low, high = stats.t.interval(0.95, 3, loc=fmean(values), scale=stdev(values) / sqrt(4))
    assert compute_margin(values) == pytest.approx((high - low) / 2, rel=1e-9)
    assert compute_margin([1.0]) is None


def test_ties_are_decided_seed_by_seed():
    """Both go up and down together with the batch; their difference hardly moves, and is told from zero."""
    best = {0: 10.0, 1: 20.0, 2: 30.0}
    other = {0: 9.0, 1: 19.1, 2: 28.9}
    assert not is_tied(best, other)
    assert is_tied(best, {0: 11.0, 1: 12.0, 2: 29.0})
    assert not is_tied({0: 2.0}, {0: 1.0})  # one seed knows nothing, and marks nothing


def test_the_ranking_marks_what_seeds_cannot_tell_from_the_best():
    scores = {"best": (3.0, 3.2, 2.8), "close": (2.9, 3.3, 2.6), "far": (1.0, 1.1, 0.9)}
    records = [record(a, v, seed=s) for a, values in scores.items() for s, v in enumerate(values)]
    best, close, far = rank_records(records, "m@1", higher_is_better=True).standings
    assert [s.arch["a"] for s in (best, close, far)] == ["best", "close", "far"]
    assert (best.tied, close.tied, far.tied) == (False, True, False)
    assert best.margin == pytest.approx(stats.t.ppf(0.975, 2) * stdev(scores["best"]) / sqrt(3))
    assert not any(
        s.tied for s in rank_records(records[::3], "m@1", higher_is_better=True).standings
    )


def test_rows_carry_mean_deviation_and_number():
    found = make_record_rows(
        [record("a", 1.0, seed=0), record("a", 3.0, seed=1), record("b", Failure("nan"), seed=0)]
    )
    assert [(r["mean"], r["std"], r["n"]) for r in found] == [(2.0, sqrt(2), 2)] * 2 + [
        (None, None, 0)
    ]


def test_shares_are_ranks_with_ties_averaged():
    values = [3.0, 1.0, 3.0, 2.0]
    assert compute_rank_fractions(values, higher_is_better=True) == pytest.approx(
        stats.rankdata(values) / 4
    )
    assert compute_rank_fractions(values, higher_is_better=False)[1] == 1.0


def test_az_nas_is_the_sum_of_the_logarithms_of_four_ranks():
    judge = load_proxy("az_nas")
    table = {
        "x": (9.0, 0.2, -1.0, 5e6),
        "y": (8.0, 0.3, -2.0, 9e6),
        "z": (7.0, 0.1, Failure("unsupported"), 1e6),
    }
    parts = [PROXIES[name].measure for name in judge.parts]
    records = [
        record(a, v, m) for a, values in table.items() for m, v in zip(parts, values, strict=True)
    ]
    by_arch = {r.arch["a"]: r for r in compute_aggregates(records, judge)}
    expected = {"x": (2, 1, 2, 1), "y": (1, 2, 1, 2)}
    for arch, ranks in expected.items():
        assert by_arch[arch].value == pytest.approx(sum(log(r / 2) for r in ranks))
    # Its other parts are numbers, and it takes no place
    assert by_arch["z"].error == Failure("unsupported")


def test_te_nas_adds_ranks_and_turns_the_condition_number_around():
    judge = load_proxy("te_nas")
    condition, regions = (PROXIES[name].measure for name in judge.parts)
    values = {"low": (10.0, 50.0), "high": (100.0, 60.0)}
    records = [
        record(a, v, m)
        for a, pair in values.items()
        for m, v in zip((condition, regions), pair, strict=True)
    ]
    assert [r.value for r in compute_aggregates(records, judge)] == [1.0 + 0.5, 0.5 + 1.0]


def test_a_candidate_cut_off_from_its_input_takes_no_part_in_an_aggregate():
    judge = load_proxy("te_nas")
    cut = Failure("disconnected", "no path")
    parts = [PROXIES[name].measure for name in judge.parts]
    records = [record("cut", cut, m) for m in parts] + [record("good", 5.0, m) for m in parts]
    failed, good = compute_aggregates(records, judge)
    assert (failed.error, good.value) == (cut, 2.0)


@pytest.mark.parametrize("name", ["az_nas", "te_nas"])
@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_a_failed_part_makes_the_aggregate_failed(name, kind):
    judge = load_proxy(name)
    parts = [PROXIES[part].measure for part in judge.parts]
    why = Failure(kind, "the reason")
    for failed_part in parts:
        records = [record("failed", why if part == failed_part else 7.0, part) for part in parts]
        assert [(r.value, r.error) for r in compute_aggregates(records, judge)] == [(None, why)]
        good = [
            record(arch, value, part) for part in parts for arch, value in (("a", 1.0), ("b", 2.0))
        ]
        alone = {r.arch: r.value for r in compute_aggregates(good, judge)}
        beside = {
            r.arch: r.value for r in compute_aggregates(records + good, judge) if r.error is None
        }
        assert beside == alone  # a failed candidate has no say in the ranks of the others


def test_an_aggregate_repeats_the_notes_of_its_parts():
    judge = load_proxy("te_nas")
    condition, regions = (PROXIES[name].measure for name in judge.parts)
    noted = replace(record("a", 1.0, regions), note="measured on 4")
    assert [r.note for r in compute_aggregates([record("a", 1.0, condition), noted], judge)] == [
        "measured on 4"
    ]


def test_aggregates_are_measured_by_their_parts_each_once():
    asked = [load_proxy(name) for name in ("te_nas", "te_nas_regions", "params")]
    assert [p.name for p in expand_aggregates(asked)] == [
        "te_nas_regions",
        "params",
        "te_nas_condition",
    ]


def test_parts_that_look_at_samples_look_at_as_many_as_their_aggregate():
    asked = [load_proxy(name) for name in ("az_nas(samples=8)", "te_nas", "te_nas(samples=2)")]
    views = [
        "az_expressivity(samples=8)",
        "az_progressivity(samples=8)",
        "az_trainability(samples=8)",
        "flops",
    ]
    pairs = [
        [f"{name}{few}" for name in ("te_nas_condition", "te_nas_regions")]
        for few in ("", "(samples=2)")
    ]
    assert [p.label for p in expand_aggregates(asked)] == views + pairs[0] + pairs[1]
    measures = [f"{label}@1" for label in pairs[1]]
    values = {"worse": (9.0, 2.0), "better": (4.0, 3.0)}
    records = [
        record(a, v, m) for a, pair in values.items() for m, v in zip(measures, pair, strict=True)
    ]
    found = compute_aggregates(records, asked[2])
    assert [(r.measure, r.value) for r in found] == [
        ("te_nas(samples=2)@1", sum_) for sum_ in (0.5 + 0.5, 1.0 + 1.0)
    ]

"""From records to a ranking: seeds, intervals, ties, and aggregates, which compare all candidates."""

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


def make_toy_record(
    arch: str, value: float | Failure, measure: str = "m@1", seed: int = 0
) -> Record:
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


def test_the_interval_of_a_mean_is_students_t_interval():
    values = [1.0, 2.0, 4.0, 4.5]
    low, high = stats.t.interval(0.95, 3, loc=fmean(values), scale=stdev(values) / sqrt(4))
    assert compute_margin(values) == pytest.approx((high - low) / 2, rel=1e-9)
    assert compute_margin([1.0]) is None


def test_ties_are_decided_seed_by_seed():
    """Both scores vary with the seed in the same way, so their difference is significant."""
    best = {0: 10.0, 1: 20.0, 2: 30.0}
    other = {0: 9.0, 1: 19.1, 2: 28.9}
    assert not is_tied(best, other)
    assert is_tied(best, {0: 11.0, 1: 12.0, 2: 29.0})
    assert not is_tied({0: 2.0}, {0: 1.0})  # one seed has no interval


def test_the_ranking_marks_ties_with_the_best():
    scores = {"best": (3.0, 3.2, 2.8), "close": (2.9, 3.3, 2.6), "far": (1.0, 1.1, 0.9)}
    records = [
        make_toy_record(a, v, seed=s) for a, values in scores.items() for s, v in enumerate(values)
    ]
    best, close, far = rank_records(records, "m@1", higher_is_better=True).standings
    assert [s.arch["a"] for s in (best, close, far)] == ["best", "close", "far"]
    assert (best.tied, close.tied, far.tied) == (False, True, False)
    assert best.margin == pytest.approx(stats.t.ppf(0.975, 2) * stdev(scores["best"]) / sqrt(3))
    assert not any(
        s.tied for s in rank_records(records[::3], "m@1", higher_is_better=True).standings
    )


def test_the_text_of_a_ranking_lists_the_best_and_counts_the_rest():
    records = [make_toy_record(f"a{number}", float(number)) for number in range(12)]
    records.append(make_toy_record("broken", Failure("nan")))
    ranking = rank_records(records, "m@1", higher_is_better=True)
    lines = repr(ranking).splitlines()
    assert lines[0] == "Ranking of 12 architectures, the best 10; 1 failed"
    assert lines[1] == "   1  11  a=a11"
    assert lines[10] == "  10   2  a=a2"
    assert lines[11:] == ["  and 2 more"]


def test_the_text_of_a_ranking_has_margins_if_there_are_several_seeds():
    records = [make_toy_record("x", 1.0, seed=0), make_toy_record("x", 3.0, seed=1)]
    ranking = rank_records(records, "m@1", higher_is_better=True)
    assert repr(ranking).splitlines() == ["Ranking of 1 architecture", "  1  2 \u00b1 12.7  a=x"]


def test_a_notebook_shows_a_ranking_as_an_escaped_table():
    ranking = rank_records([make_toy_record("<b>", 0.5)], "m@1", higher_is_better=True)
    html = ranking._repr_html_()
    assert "<caption>Ranking of 1 architecture</caption>" in html
    assert "<tr><td>1</td><td>0.5</td><td>a=&lt;b&gt;</td></tr>" in html


def test_rows_have_mean_deviation_and_count():
    rows = make_record_rows(
        [
            make_toy_record("a", 1.0, seed=0),
            make_toy_record("a", 3.0, seed=1),
            make_toy_record("b", Failure("nan"), seed=0),
        ]
    )
    assert [(r["mean"], r["std"], r["n"]) for r in rows] == [(2.0, sqrt(2), 2)] * 2 + [
        (None, None, 0)
    ]


def test_rank_fractions_average_ties():
    values = [3.0, 1.0, 3.0, 2.0]
    assert compute_rank_fractions(values, higher_is_better=True) == pytest.approx(
        stats.rankdata(values) / 4
    )
    assert compute_rank_fractions(values, higher_is_better=False)[1] == 1.0


def test_az_nas_is_the_sum_of_the_logarithms_of_four_ranks():
    aggregate = load_proxy("az_nas")
    table = {
        "x": (9.0, 0.2, -1.0, 5e6),
        "y": (8.0, 0.3, -2.0, 9e6),
        "z": (7.0, 0.1, Failure("unsupported"), 1e6),
    }
    parts = [PROXIES[name].measure for name in aggregate.parts]
    records = [
        make_toy_record(a, v, m)
        for a, values in table.items()
        for m, v in zip(parts, values, strict=True)
    ]
    by_arch = {r.arch["a"]: r for r in compute_aggregates(records, aggregate)}
    expected = {"x": (2, 1, 2, 1), "y": (1, 2, 1, 2)}
    for arch, ranks in expected.items():
        assert by_arch[arch].value == pytest.approx(sum(log(r / 2) for r in ranks))
    # One part failed, so it has no rank.
    assert by_arch["z"].error == Failure("unsupported")


def test_te_nas_adds_ranks_and_prefers_low_condition_numbers():
    aggregate = load_proxy("te_nas")
    condition, regions = (PROXIES[name].measure for name in aggregate.parts)
    values = {"low": (10.0, 50.0), "high": (100.0, 60.0)}
    records = [
        make_toy_record(a, v, m)
        for a, pair in values.items()
        for m, v in zip((condition, regions), pair, strict=True)
    ]
    assert [r.value for r in compute_aggregates(records, aggregate)] == [1.0 + 0.5, 0.5 + 1.0]


def test_a_disconnected_candidate_has_no_rank_in_an_aggregate():
    aggregate = load_proxy("te_nas")
    disconnected = Failure("disconnected", "no path")
    parts = [PROXIES[name].measure for name in aggregate.parts]
    records = [make_toy_record("cut", disconnected, m) for m in parts] + [
        make_toy_record("good", 5.0, m) for m in parts
    ]
    failed, good = compute_aggregates(records, aggregate)
    assert (failed.error, good.value) == (disconnected, 2.0)


@pytest.mark.parametrize("name", ["az_nas", "te_nas"])
@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_a_failed_part_makes_the_aggregate_failed(name, kind):
    aggregate = load_proxy(name)
    parts = [PROXIES[part].measure for part in aggregate.parts]
    failure = Failure(kind, "the reason")
    for failed_part in parts:
        records = [
            make_toy_record("failed", failure if part == failed_part else 7.0, part)
            for part in parts
        ]
        assert [(r.value, r.error) for r in compute_aggregates(records, aggregate)] == [
            (None, failure)
        ]
        good = [
            make_toy_record(arch, value, part)
            for part in parts
            for arch, value in (("a", 1.0), ("b", 2.0))
        ]
        alone = {r.arch: r.value for r in compute_aggregates(good, aggregate)}
        with_failed = {
            r.arch: r.value
            for r in compute_aggregates(records + good, aggregate)
            if r.error is None
        }
        assert with_failed == alone  # a failed candidate does not affect the ranks of others


def test_an_aggregate_repeats_the_notes_of_its_parts():
    aggregate = load_proxy("te_nas")
    condition, regions = (PROXIES[name].measure for name in aggregate.parts)
    noted = replace(make_toy_record("a", 1.0, regions), note="measured on 4")
    assert [
        r.note for r in compute_aggregates([make_toy_record("a", 1.0, condition), noted], aggregate)
    ] == ["measured on 4"]


def test_every_part_of_the_aggregates_is_measured_once():
    proxies = [load_proxy(name) for name in ("te_nas", "te_nas_regions", "params")]
    assert [p.name for p in expand_aggregates(proxies)] == [
        "te_nas_regions",
        "params",
        "te_nas_condition",
    ]


def test_parts_use_as_many_samples_as_their_aggregate():
    proxies = [load_proxy(name) for name in ("az_nas(samples=8)", "te_nas", "te_nas(samples=2)")]
    az_nas_parts = [
        "az_expressivity(samples=8)",
        "az_progressivity(samples=8)",
        "az_trainability(samples=8)",
        "flops",
    ]
    te_nas_parts = [
        [f"{name}{few}" for name in ("te_nas_condition", "te_nas_regions")]
        for few in ("", "(samples=2)")
    ]
    assert [p.label for p in expand_aggregates(proxies)] == az_nas_parts + te_nas_parts[
        0
    ] + te_nas_parts[1]
    # The formula of the regions changed once, that of the condition number never.
    measures = ["te_nas_condition(samples=2)@1", "te_nas_regions(samples=2)@2"]
    values = {"worse": (9.0, 2.0), "better": (4.0, 3.0)}
    records = [
        make_toy_record(a, v, m)
        for a, pair in values.items()
        for m, v in zip(measures, pair, strict=True)
    ]
    aggregates = compute_aggregates(records, proxies[2])
    assert [(r.measure, r.value) for r in aggregates] == [
        ("te_nas(samples=2)@1+te_nas_regions@2", sum_) for sum_ in (0.5 + 0.5, 1.0 + 1.0)
    ]

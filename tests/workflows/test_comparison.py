"""Comparisons of scores with the truth, in cases computed by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.records import make_record
from untrained.benchmarks.comparison import (
    ProxyScores,
    collect_scores,
    collect_sizes,
    compare_with_truth,
    describe_baseline_on_scored_archs,
    sort_results,
)
from untrained.types import Arch, Failure, Task
from untrained.workflows.combination import combine_proxies

TRUTH = (10.0, 20.0, 30.0, 40.0, 50.0)
UP = ProxyScores("up", "about", "proxy", True, ((1.0, 2.0, 4.0, 3.0, 5.0),), cost=2.0)


def get_value(result, name: str = "spearman") -> float:
    estimate = result.statistics[name]
    assert estimate is not None
    return estimate.value


def test_statistics_equal_those_of_scipy():
    result = compare_with_truth(UP, TRUTH)
    assert get_value(result) == pytest.approx(stats.spearmanr(UP.by_seed[0], TRUTH).statistic)
    assert get_value(result, "kendall") == pytest.approx(
        stats.kendalltau(UP.by_seed[0], TRUTH).statistic
    )
    assert get_value(result, "pearson") == pytest.approx(
        stats.pearsonr(UP.by_seed[0], TRUTH).statistic
    )
    assert (result.n, result.failed, result.cost) == (5, 0, 2.0)


def test_scores_are_inverted_if_lower_is_better():
    down = replace(UP, higher_is_better=False)
    assert get_value(compare_with_truth(down, TRUTH)) == -get_value(compare_with_truth(UP, TRUTH))
    # It selects the first, which is the worst.
    assert get_value(compare_with_truth(down, TRUTH), "regret") == 40


def test_failures_are_counted_and_excluded_from_statistics():
    column = replace(UP, by_seed=((1.0, None, 3.0, 2.0, None),), failures={"nan": 1, "oom": 1})
    result = compare_with_truth(column, TRUTH)
    assert (result.n, result.failed) == (3, 2)
    assert get_value(result) == pytest.approx(stats.spearmanr([1, 3, 2], [10, 30, 40]).statistic)
    assert result.scores == (1.0, None, 3.0, 2.0, None)


def test_statistics_are_averaged_over_seeds():
    column = replace(UP, by_seed=((1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 2.0, 3.0, 5.0, 4.0)))
    estimate = compare_with_truth(column, TRUTH).statistics["spearman"]
    assert estimate is not None
    # One swap of neighbours: 1 - 6 * 2 / (5 * 24)
    assert estimate.value == pytest.approx((1.0 + 0.9) / 2)
    assert estimate.spread == pytest.approx(0.1 / 2**0.5)
    assert compare_with_truth(column, TRUTH).scores == (1.0, 2.0, 3.0, 4.5, 4.5)


def test_an_architecture_that_failed_on_one_seed_has_no_mean_unless_scores_are_partial():
    runs = ((1.0, 2.0, None), (3.0, None, None))
    assert replace(UP, by_seed=runs).means == (2.0, None, None)
    assert replace(UP, by_seed=runs, partial=True).means == (2.0, 2.0, None)


def test_the_baseline_is_described_on_the_architectures_that_the_best_proxy_ranks():
    """The proxy does not rank the first; the other sizes 3, 2, 4, 5 of 20, 30, 40, 50 have one swap: rho = 0.8."""
    size = compare_with_truth(
        ProxyScores("params", "", "baseline", True, ((1.0, 3.0, 2.0, 4.0, 5.0),)), TRUTH
    )
    some = compare_with_truth(replace(UP, by_seed=((None, 2.0, 3.0, 4.0, 5.0),)), TRUTH)
    assert (
        describe_baseline_on_scored_archs([some, size], TRUTH)
        == "On the 4 architectures that up can score, params has a rank correlation of 0.800."
    )
    assert describe_baseline_on_scored_archs([compare_with_truth(UP, TRUTH), size], TRUTH) == ""
    assert describe_baseline_on_scored_archs([some], TRUTH) == ""
    assert describe_baseline_on_scored_archs([size], TRUTH) == ""


def test_undefined_statistics_are_none_and_sorted_last():
    flat = compare_with_truth(replace(UP, proxy="flat", by_seed=((1.0,) * 5,)), TRUTH)
    assert set(flat.statistics.values()) == {None}
    worse = compare_with_truth(
        replace(UP, proxy="worse", by_seed=((5.0, 4.0, 3.0, 2.0, 1.0),)), TRUTH
    )
    assert [row.proxy for row in sort_results([flat, worse, compare_with_truth(UP, TRUTH)])] == [
        "up",
        "worse",
        "flat",
    ]
    assert flat.row()["spearman"] is None


def test_intervals_contain_their_value_and_rows_are_flat():
    row = compare_with_truth(UP, TRUTH).row()
    assert row["low"] <= row["spearman"] <= row["high"]
    assert (row["proxy"], row["n"], row["failed"]) == ("up", 5, 0)
    assert {"kendall", "kendall_low", "regret", "top_overlap", "precision_at_10"} <= set(row)
    assert {"ndcg", "top_5_overlap", "regret_at_10", "size_controlled_spread"} <= set(row)


def test_the_size_controlled_correlation_leaves_out_architectures_without_a_size():
    truth = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)
    scores = (2.0, 1.0, 4.0, 3.0, None, 9.0, 6.0, 8.0, 5.0, 7.0)
    params = (1.0, 3.0, 2.0, 4.0, 5.0, None, 8.0, 7.0, 6.0, 9.0)
    flops = (2.0, 1.0, 3.0, 5.0, 4.0, 6.0, 7.0, 9.0, 8.0, 10.0)
    columns = [
        ProxyScores("params", "", "baseline", True, (params,)),
        replace(UP, by_seed=(scores,)),
        ProxyScores("flops", "", "baseline", True, (flops,)),
    ]
    sizes = collect_sizes(columns)
    assert sizes == (params, flops)
    complete = [0, 1, 2, 3, 6, 7, 8, 9]
    ranks = []
    for column in (scores, truth, params, flops):
        ranks.append(stats.rankdata([column[index] for index in complete]))
    inverse = np.linalg.inv(np.corrcoef(ranks))
    expected = -inverse[0, 1] / (inverse[0, 0] * inverse[1, 1]) ** 0.5
    result = compare_with_truth(columns[1], truth, sizes=sizes)
    assert get_value(result, "size_controlled") == pytest.approx(expected)
    row = result.row()
    assert row["size_controlled_low"] <= row["size_controlled"] <= row["size_controlled_high"]
    # Sizes themselves have no such correlation, and neither has a proxy without known sizes.
    for column in (columns[0], columns[2]):
        assert compare_with_truth(column, truth, sizes=sizes).statistics["size_controlled"] is None
    assert compare_with_truth(columns[1], truth).statistics["size_controlled"] is None
    assert collect_sizes(columns[:2]) == ()


def test_scores_are_collected_by_seed():
    archs = [Arch("s", (("n", n),)) for n in range(2)]
    task = Task("d", (1,), 2)
    failure = Failure("nan", "")
    records = [make_record(archs[0], "p@1", task, 0, 1.0), make_record(archs[0], "p@1", task, 1, 2.0),
               make_record(archs[1], "p@1", task, 0, 3.0), make_record(archs[1], "p@1", task, 1, error=failure),
               make_record(archs[0], "q@1", task, 0, 9.0)]  # fmt: skip
    assert collect_scores(records, "p@1", archs, (0, 1)) == (((1.0, 3.0), (2.0, None)), {"nan": 1})


def test_combinations_add_ranks_and_count_redundant_proxies_once():
    a = replace(UP, proxy="a", by_seed=((1.0, 2.0, 3.0, 4.0, 5.0),), cost=1)
    twin = replace(UP, proxy="twin", by_seed=((10.0, 20.0, 30.0, 40.0, 50.0),), cost=2)
    b = replace(UP, proxy="b", by_seed=((1.0, 2.0, 5.0, 3.0, 4.0),), cost=3)
    c = replace(
        UP, proxy="c", higher_is_better=False, by_seed=((5.0, 2.0, None, 4.0, 1.0),), cost=4
    )
    whole, diverse = combine_proxies([a, twin, b, c])
    assert (whole.cost, whole.kind) == (10, "combination")
    # Ranks / 4 of a, twin, b, c. The third has no score by c, so it has no mean rank and no rank.
    expected = [
        (1 + 1 + 1 + 1) / 16,
        (2 + 2 + 2 + 3) / 16,
        (3 + 3 + 3 + 2) / 16,
        (4 + 4 + 4 + 4) / 16,
    ]
    first, second, third, fourth, fifth = whole.by_seed[0]
    assert third is None
    assert (first, second, fourth, fifth) == pytest.approx(tuple(expected))
    useless = replace(UP, proxy="useless", by_seed=((None,) * 5,))
    assert combine_proxies([a, twin, b, c, useless])[0].by_seed == whole.by_seed
    assert sum(name in diverse.about for name in ("a,", "twin")) == 1
    assert combine_proxies([a, b]) == []

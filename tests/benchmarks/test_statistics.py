"""Statistics: comparison with scipy, worked examples, and the coverage of intervals."""

from itertools import pairwise, permutations, product
from math import asin, pi
from time import process_time

import numpy as np
import pytest
from scipy import stats

from untrained.benchmarks.statistics import (
    STATISTICS,
    Statistic,
    _ScoredSample,
    bootstrap_interval,
    compute_ranks,
    compute_top_chances,
    count_top,
    kendall,
    ndcg,
    pearson,
    precision_at,
    regret,
    regret_at_10,
    size_controlled,
    spearman,
    top_5_overlap,
    top_overlap,
)

each = pytest.mark.parametrize("statistic", STATISTICS, ids=lambda statistic: statistic.name)


def make_samples() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of samples of several sizes and scales, with and without ties."""
    rng = np.random.default_rng(0)
    samples = []
    for n in (3, 4, 10, 57, 300):
        x = rng.normal(size=n)
        y = x + rng.normal(size=n)
        samples += [
            (x, y),
            (x.round(), y),
            (x.round(), y.round()),
            (1e9 + x, 1e-9 * y),
            (np.exp(20 * x), y),
            (-x, y),
        ]
    return [(x, y) for x, y in samples if np.ptp(x) > 0 and np.ptp(y) > 0]


@pytest.mark.parametrize(("x", "y"), make_samples())
def test_correlations_equal_those_of_scipy(x, y):
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert kendall(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    tolerance = 1e-6 if x.max() > 1e8 else 1e-12
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=tolerance)


def test_kendall_is_counted_in_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    x, y = rng.integers(50, size=(2, 400)).astype(float)
    monkeypatch.setattr("untrained.benchmarks.statistics._MAX_BLOCK_SIZE", 999)
    assert kendall(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("statistic", [spearman, kendall])
def test_rank_correlations_depend_on_ranks_only(statistic):
    x, y = np.random.default_rng(2).normal(size=(2, 40))
    assert statistic(np.exp(5 * x), y**3) == pytest.approx(statistic(x, y), abs=1e-12)
    assert statistic(-x, y) == pytest.approx(-statistic(x, y), abs=1e-12)


def test_correlations_worked_out_by_hand():
    """Ranks 1 2 3 4 against 1 2 4 3: 1 - 6 * 2 / (4 * 15); five pairs agree, one does not."""
    x = [1, 2, 3, 4]
    y = [10, 20, 40, 30]
    assert spearman(x, y) == pytest.approx(1 - 12 / 60)
    assert kendall(x, y) == pytest.approx((5 - 1) / 6)
    assert pearson(x, y) == pytest.approx(0.8)  # as these values are equally spaced


def test_tau_b_worked_out_by_hand():
    """Of six pairs one is tied in x and another one in y.

    So five are untied in each, and four are untied in both.
    """
    assert kendall([1, 1, 2, 3], [1, 2, 3, 3]) == pytest.approx(4 / 5)  # all four agree
    assert kendall([1, 1, 2, 3], [2, 3, 3, 1]) == pytest.approx((1 - 3) / 5)


# -------------------------------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    "values", [[3.0, 1.0, 1.0, 5.0, 9.0, 2.0], [4.0] * 5, [-np.inf, 2.0, -np.inf], [7.0], []]
)
def test_ranks_equal_those_of_scipy(values):
    assert compute_ranks(values).tolist() == stats.rankdata(values).tolist()


@pytest.mark.parametrize("k", range(1, 6))
def test_the_chance_to_be_among_the_best_is_the_share_of_sorted_orders(k):
    values = [2.0, 7.0, 7.0, 1.0, 7.0, 3.0]
    # All ways to sort the values; equal values may stand in any order.
    orders = []
    for order in permutations(range(6)):
        if all(values[a] >= values[b] for a, b in pairwise(order)):
            orders.append(order)
    expected = [sum(i in order[:k] for order in orders) / len(orders) for i in range(6)]
    assert compute_top_chances(values, k).tolist() == pytest.approx(expected)


def test_the_best_tenth_has_at_least_one_member():
    assert [count_top(count) for count in (1, 9, 16, 100)] == [1, 1, 2, 10]


# ----------------------------------------------------------------------------------------------------------- the best


def test_top_overlap_worked_out_by_hand():
    """Of twenty architectures the two best by score and the two best in truth share one."""
    truth = np.arange(20.0)
    scores = truth.copy()
    scores[18] = 0.5  # the second best gets a bad score
    scores[3] = 100  # a bad one gets the best score
    assert top_overlap(scores, truth) == pytest.approx(1 / 2)
    assert top_overlap(truth, truth) == 1
    assert top_overlap(-truth, truth) == 0


def test_equal_scores_share_the_last_place_among_the_best():
    """The two best of twenty count. By score one is first and four share the second place.

    One of these four is the second best in truth.
    """
    truth = np.arange(20.0)
    scores = np.where(truth >= 15, 1.0, 0.0)
    scores[19] = 2
    assert top_overlap(scores, truth) == pytest.approx((1 + 1 / 4) / 2)
    # 19 share two places, and one of the two best is among them.
    tied = np.append(np.zeros(19), -1.0)
    assert top_overlap(tied, truth) == pytest.approx(2 / 19 / 2)


def test_precision_at_k_worked_out_by_hand():
    """The best tenth of 30 architectures has three members."""
    truth = np.arange(30.0)
    scores = np.zeros(30)
    scores[[29, 27, 5, 6]] = [4, 2, 3, 1]
    assert precision_at(1)(scores, truth) == 1
    assert precision_at(2)(scores, truth) == pytest.approx(1 / 2)
    assert precision_at(4)(scores, truth) == pytest.approx(2 / 4)
    assert precision_at(100)(scores, truth) == pytest.approx(3 / 30)
    assert precision_at(4, top=0.9)(scores, truth) == 1


def test_regret_is_the_distance_of_the_choice_from_the_best():
    assert regret([1, 2, 3, 0], [90, 94, 91.5, 80]) == pytest.approx(94 - 91.5)
    assert regret([1, 4, 3, 0], [90, 94, 91.5, 80]) == 0
    # Among equal scores the mean counts.
    assert regret([1, 3, 3, 0], [90, 94, 91, 80]) == pytest.approx(94 - (94 + 91) / 2)


def test_top_5_overlap_counts_the_best_twentieth():
    """Of forty architectures the two best by score and the two best in truth share one."""
    truth = np.arange(40.0)
    scores = truth.copy()
    scores[38] = 0.5
    assert top_5_overlap(scores, truth) == pytest.approx(1 / 2)
    # Four share the places; the two best are among them.
    assert top_5_overlap(np.where(truth >= 36, 1.0, 0.0), truth) == pytest.approx(2 / 4)


def test_regret_of_the_ten_highest_scores_worked_out_by_hand():
    truth = np.arange(30.0)
    assert regret_at_10(truth, truth) == 0
    # The ten highest scores belong to the ten worst.
    assert regret_at_10(-truth, truth) == 29 - 9
    scores = -truth
    scores[25] = 0.5
    assert regret_at_10(scores, truth) == 29 - 25
    # With ten architectures or fewer the best is always among them.
    assert regret_at_10([3, 1, 2], [1, 2, 3]) == 0


def test_of_equal_scores_at_the_border_of_the_ten_highest_the_worst_count():
    """Eight are ahead. Four share the last two places, and the two worst of these take them."""
    truth = np.array([*range(8), 20.0, 10.0, 30.0, 15.0, *range(-8, 0)])
    scores = np.array([*[2.0] * 8, *[1.0] * 4, *[0.0] * 8])
    assert regret_at_10(scores, truth) == 30 - 15
    # If they are not at the border, all of them count.
    assert regret_at_10(np.append(scores[:12], [0.0] * 8), truth) == 30 - 15
    scores[:2] = 0
    assert regret_at_10(scores, truth) == 0


def compute_ndcg_by_all_orders(x: list[float], y: list[float]) -> float:
    """Return nDCG as the mean over all orders in which the scores do not increase."""
    gains = [(value - min(y)) / (max(y) - min(y)) for value in y]
    values = []
    for order in permutations(range(len(x))):
        if all(x[a] >= x[b] for a, b in pairwise(order)):
            value = sum(gains[i] / np.log2(place + 1) for place, i in enumerate(order, 1))
            values.append(value)
    ideal = sum(gain / np.log2(p + 1) for p, gain in enumerate(sorted(gains, reverse=True), 1))
    return float(np.mean(values) / ideal)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1.0, 2.0, 3.0], [10.0, 30.0, 20.0]),
        ([5.0, 1.0, 1.0, 1.0, 7.0, 7.0], [3.0, 9.0, 4.0, 4.0, -1.0, 2.0]),
        ([1.0, 1.0, 1.0, 2.0], [4.0, 4.0, 8.0, 0.0]),
    ],
)
def test_ndcg_is_the_mean_over_all_orders_of_equal_scores(x, y):
    assert ndcg(x, y) == pytest.approx(compute_ndcg_by_all_orders(x, y), abs=1e-12)


def test_ndcg_equals_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(11)
    for n in (5, 60, 300):
        x = rng.normal(size=n).round(1)
        y = (x + rng.normal(size=n)).round(1)
        gains = (y - y.min()) / np.ptp(y)
        assert ndcg(x, y) == pytest.approx(metrics.ndcg_score([gains], [x]), abs=1e-12)
        assert ndcg(y, y) == pytest.approx(1)


# ------------------------------------------------------------------------------------------------ size held fixed


def make_sized_sample(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, tuple]:
    """Return scores and truth that both depend on two correlated sizes, and the sizes."""
    rng = np.random.default_rng(seed)
    params = rng.normal(size=n)
    flops = params + 0.5 * rng.normal(size=n)
    quality = rng.normal(size=n)
    scores = params + 0.5 * quality + 0.5 * rng.normal(size=n)
    truth = flops + 0.5 * quality + 0.5 * rng.normal(size=n)
    return scores, truth, (np.exp(params), np.exp(flops))


def correlate_by_inverse(*columns: np.ndarray) -> float:
    """Return the partial correlation of the ranks of the first two columns, given the others."""
    inverse = np.linalg.inv(np.corrcoef([stats.rankdata(column) for column in columns]))
    return float(-inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1]))


def correlate_residuals(*columns: np.ndarray) -> float:
    """Return the correlation of what a linear fit to the other ranks leaves of the first two."""
    ranks = [stats.rankdata(column) for column in columns]
    design = np.column_stack([np.ones(len(ranks[0])), *ranks[2:]])
    residuals = []
    for column in ranks[:2]:
        coefficients = np.linalg.lstsq(design, column, rcond=None)[0]
        residuals.append(column - design @ coefficients)
    return float(stats.pearsonr(*residuals).statistic)


@pytest.mark.parametrize("n", [5, 12, 200])
@pytest.mark.parametrize("digits", [1, 9])
def test_the_size_controlled_correlation_equals_the_partial_correlation_of_ranks(n, digits):
    x, y, controls = make_sized_sample(n)
    x = x.round(digits)
    y = y.round(digits)
    value = size_controlled(x, y, controls)
    assert value == pytest.approx(correlate_by_inverse(x, y, *controls), abs=1e-9)
    assert value == pytest.approx(correlate_residuals(x, y, *controls), abs=1e-9)
    # Ranks do not change with a logarithm.
    assert size_controlled(x, y, np.log(controls)) == pytest.approx(value, abs=1e-12)


def test_the_size_controlled_correlation_is_undefined_for_sizes_and_without_controls():
    x, y, controls = make_sized_sample(50)
    assert size_controlled(x, y) is None
    for size in controls:
        assert size_controlled(size, y, controls) is None
        assert size_controlled(-np.log(size), y, controls) is None
        assert size_controlled(x, size, controls) is None
        rng = np.random.default_rng(0)
        assert bootstrap_interval(size_controlled, size, y, rng, controls=controls) is None
    # Four architectures leave one degree of freedom: scores and truth would agree perfectly.
    few = [control[:4] for control in controls]
    assert size_controlled(x[:4], y[:4], few) is None


def test_controls_of_equal_order_count_once_and_equal_values_do_not_count():
    x, y, (params, flops) = make_sized_sample(50)
    expected = correlate_by_inverse(x, y, params)
    assert size_controlled(x, y, (params, params**3)) == pytest.approx(expected, abs=1e-9)
    assert size_controlled(x, y, (params, np.ones(50))) == pytest.approx(expected, abs=1e-9)
    assert size_controlled(x, y, (np.ones(50), np.ones(50))) == pytest.approx(spearman(x, y))
    assert size_controlled(x, y, (params, flops)) != pytest.approx(expected, abs=1e-3)


def test_controls_must_be_finite_and_of_equal_length():
    with pytest.raises(ValueError, match="controls must be finite"):
        size_controlled([1, 2, 3], [1, 2, 3], [[1, 2, np.nan]])
    with pytest.raises(ValueError, match="3 scores and 2 values of a control"):
        size_controlled([1, 2, 3], [1, 2, 3], [[1, 2]])


@each
def test_other_statistics_ignore_controls(statistic):
    x, y, controls = make_sized_sample(50)
    assert statistic(x, y, controls) == statistic(x, y)


def test_the_interval_of_the_size_controlled_correlation_agrees_with_that_of_a_plain_loop():
    x, y, controls = make_sized_sample(80)
    rng = np.random.default_rng(6)
    ours = bootstrap_interval(size_controlled, x, y, rng, resamples=2000, controls=controls)
    expected = bootstrap_by_loop(size_controlled, x, y, 2000, controls)
    assert ours == pytest.approx(expected, abs=0.06)
    assert ours[0] <= size_controlled(x, y, controls) <= ours[1]


def test_random_scores_have_a_top_overlap_of_a_tenth():
    rng = np.random.default_rng(3)
    overlaps = [top_overlap(*rng.normal(size=(2, 200))) for _ in range(200)]
    assert np.mean(overlaps) == pytest.approx(0.1, abs=4 * np.std(overlaps) / 200**0.5)


# ------------------------------------------------------------------------------------------------------- not defined


@each
@pytest.mark.parametrize(
    ("x", "y"), [([1, 1, 1, 1], [1, 2, 3, 4]), ([1, 2, 3], [5, 5, 5]), ([1, 2], [1, 2]), ([], [])]
)
def test_an_undefined_statistic_is_none(statistic, x, y):
    assert statistic(x, y) is None
    assert bootstrap_interval(statistic, x, y, np.random.default_rng(0)) is None


@each
@pytest.mark.parametrize("missing", [np.nan, np.inf])
def test_missing_numbers_and_unequal_lengths_raise_an_error(statistic, missing):
    with pytest.raises(ValueError, match="leave failures out and count them"):
        statistic([1, 2, missing, 4], [1, 2, 3, 4])
    with pytest.raises(ValueError, match="3 scores and 4 true values"):
        statistic([1, 2, 3], [1, 2, 3, 4])


# --------------------------------------------------------------------------------------------------------- intervals


def bootstrap_by_loop(
    statistic: Statistic, x: np.ndarray, y: np.ndarray, resamples: int, controls: tuple = ()
) -> np.ndarray:
    """Return a bootstrap interval by a plain loop over resamples."""
    rng = np.random.default_rng(5)
    values = []
    for _ in range(resamples):
        resample = rng.integers(len(x), size=len(x))
        resampled_controls = [control[resample] for control in controls]
        value = statistic(x[resample], y[resample], resampled_controls)
        if value is not None:
            values.append(value)
    return np.quantile(values, (0.025, 0.975))


@each
def test_an_interval_agrees_with_that_of_a_plain_loop(statistic):
    """Both are estimates from 2,000 resamples; they differ by the noise of a quantile."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=60).round(1)
    y = (x + rng.normal(size=60)).round(1)
    ours = bootstrap_interval(statistic, x, y, np.random.default_rng(6), resamples=2000)
    # The regret of the ten highest scores jumps between differences of the few best truths.
    tolerance = 0.25 if statistic.name == "regret_at_10" else 0.06
    assert ours == pytest.approx(bootstrap_by_loop(statistic, x, y, 2000), abs=tolerance)
    assert ours[0] <= statistic(x, y) <= ours[1]


@pytest.mark.parametrize(
    "statistic", [*STATISTICS, size_controlled], ids=lambda statistic: statistic.name
)
def test_a_weight_counts_an_architecture_several_times(statistic):
    """Every column of weights gives the statistic of the resample that it describes."""
    x, y, controls = make_sized_sample(25)
    x = x.round(1)
    y = y.round(1)
    draws = np.random.default_rng(12).integers(25, size=(40, 25))
    weights = np.array([np.bincount(draw, minlength=25) for draw in draws], dtype=float).T
    sample = _ScoredSample.make(x, y, controls)
    expected = []
    for draw in draws:
        expected.append(statistic(x[draw], y[draw], [control[draw] for control in controls]))
    assert statistic.compute(sample, weights) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "statistic", [spearman, kendall, pearson], ids=lambda statistic: statistic.name
)
def test_a_resample_of_one_architecture_has_no_correlation(statistic):
    """Also if the mean of equal values differs from them by rounding."""
    x, y = np.random.default_rng(10).normal(size=(2, 49))
    assert np.isnan(statistic.compute(_ScoredSample.make(x, y), 49 * np.eye(49))).all()


@each
def test_the_interval_of_three_architectures_is_the_range_over_all_resamples(statistic):
    """Of 3^3 resamples of three architectures, three have one architecture and no value."""
    x = np.array([1.0, 2.5, 7.0])
    y = np.array([1.0, 3.7, 2.0])
    results = [statistic(x[list(draw)], y[list(draw)]) for draw in product(range(3), repeat=3)]
    assert results.count(None) == 3
    low, high = bootstrap_interval(statistic, x, y, np.random.default_rng(0), resamples=4000)
    values = [value for value in results if value is not None]
    assert {round(low, 9), round(high, 9)} <= {round(value, 9) for value in values}
    assert (low, high) == (pytest.approx(min(values)), pytest.approx(max(values)))


@each
@pytest.mark.parametrize("n", [4, 11])
def test_a_perfect_order_has_no_interval(statistic, n):
    """Every resample has the same order, so an interval would have no width.

    After one swap resamples differ.
    """
    x = np.arange(n, dtype=float)
    tied = np.minimum(x, n - 2)
    for y in (np.exp(x / 9), -x):
        assert bootstrap_interval(statistic, x, y, np.random.default_rng(0)) is None
        tied_y = np.sign(y[1] - y[0]) * tied
        assert bootstrap_interval(statistic, tied, tied_y, np.random.default_rng(0)) is None
    swapped = x.copy()
    swapped[[0, -1]] = swapped[[-1, 0]]
    low, high = bootstrap_interval(statistic, x, swapped, np.random.default_rng(0))
    # The ten best of about ten architectures are all of them.
    assert low < high or statistic.name in ("precision_at_10", "regret_at_10")


def test_an_interval_depends_on_the_generator_and_hardly_on_the_size_of_blocks(monkeypatch):
    x, y = np.random.default_rng(7).normal(size=(2, 50))
    first = bootstrap_interval(spearman, x, y, np.random.default_rng(1))
    assert bootstrap_interval(spearman, x, y, np.random.default_rng(1)) == first
    assert bootstrap_interval(spearman, x, y, np.random.default_rng(2)) != first
    monkeypatch.setattr("untrained.benchmarks.statistics._MAX_BLOCK_SIZE", 50 * 300)
    assert bootstrap_interval(spearman, x, y, np.random.default_rng(1)) == pytest.approx(
        first, abs=0.05
    )


@pytest.mark.parametrize(
    "statistic", [spearman, kendall, pearson], ids=lambda statistic: statistic.name
)
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_intervals_of_95_percent_cover_the_truth_in_90_to_98_percent_of_samples(statistic, rho):
    """Normal pairs with correlation rho have known rank correlations."""
    truth = {"spearman": 6 / pi * asin(rho / 2), "kendall": 2 / pi * asin(rho), "pearson": rho}[
        statistic.name
    ]
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(400):
        x, noise = rng.normal(size=(2, 100))
        low, high = bootstrap_interval(
            statistic, x, rho * x + (1 - rho**2) ** 0.5 * noise, rng, resamples=400
        )
        covered += low <= truth <= high
    assert 0.90 <= covered / 400 <= 0.98


def test_the_intervals_of_a_thousand_architectures_take_less_than_three_seconds():
    """The time is processor time, which does not depend on other processes."""
    rng = np.random.default_rng(9)
    y = rng.normal(size=1000)
    x = y + rng.normal(size=1000)
    start = process_time()
    for statistic in STATISTICS:
        low, high = bootstrap_interval(statistic, x, y, rng)
        assert low < high
    assert process_time() - start < 3


def test_statistics_have_names_directions_and_descriptions():
    assert [s.name for s in STATISTICS] == [
        "spearman", "kendall", "pearson", "top_overlap", "regret", "precision_at_10",
        "ndcg", "top_5_overlap", "regret_at_10",
    ]  # fmt: skip
    assert [s.name for s in STATISTICS if not s.higher_is_better] == ["regret", "regret_at_10"]
    assert [s.name for s in STATISTICS if s.needs_controls] == []
    assert size_controlled.needs_controls
    assert all(s.about.endswith(".") for s in (*STATISTICS, size_controlled))

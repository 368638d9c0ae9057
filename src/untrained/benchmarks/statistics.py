"""Statistics that say how well scores rank architectures, with confidence intervals.

    x  scores, oriented so that higher is better
    y  the ground truth, higher is better
    n  number of architectures
    z  controls: other properties of the architectures, whose influence a statistic removes
    w  how often each architecture counts, (n, R): one column per resample

Every statistic is implemented once, for columns of weights. A column of ones stands for the sample
itself, and each bootstrap resample is a column that says how often each architecture was drawn. So
a thousand resamples cost a few matrix products.

Equal values get the mean of their ranks. If equal values compete for the last places of a top
group, they share these places; `regret_at_10` assumes the worst case instead. A statistic that is
undefined (fewer than three architectures, or equal scores or equal true values only) is None, never
NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from untrained.formatting import format_percent

Floats = NDArray[np.float64]
Values = Sequence[float] | Floats
ScoreType = TypeVar("ScoreType", float, Floats)
WeightedStatistic = Callable[["_ScoredSample", Floats], Floats]

# The share of architectures that counts as the best.
TOP_SHARE = 0.1

# Largest number of elements in a temporary array.
_MAX_BLOCK_SIZE = 1 << 22
# With fewer architectures no statistic is defined.
_MIN_COUNT = 3
# With fewer architectures, a perfect or exactly reversed order gets no interval.
_MIN_COUNT_FOR_PERFECT_ORDER = 12
# A variance below this is zero up to rounding errors.
_MIN_VARIANCE = 1e-20
# If the norm of the deviations of ranks from their mean is below this, all ranks are equal.
_MIN_RANK_NORM = 1e-6
# If the controls leave less than this share of a variance unexplained, they determine the ranks.
_MIN_UNEXPLAINED_SHARE = 1e-9


def orient_score(score: ScoreType, higher_is_better: bool) -> ScoreType:
    """Return a score, or an array of scores, such that higher is better: unchanged or negated.

    All code that compares scores of both directions calls this function.
    """
    if higher_is_better:
        return score
    return -score


@dataclass(frozen=True)
class Statistic:
    """A statistic of scores and ground truth: `spearman(scores, truth)`.

    Attributes:
        name: Public name, also the key in results.
        about: What it means, in one sentence.
        compute: Computes it for every column of weights.
        higher_is_better: Whether a higher value means a better order.
        needs_controls: Whether it is defined only with controls. Other statistics ignore controls.
    """

    name: str
    about: str
    compute: WeightedStatistic
    higher_is_better: bool = True
    needs_controls: bool = False

    def __call__(
        self, scores: Values, truth: Values, controls: Sequence[Values] = ()
    ) -> float | None:
        """Return the statistic, or None if it is undefined.

        Args:
            scores: One score per architecture, oriented so that higher is better.
            truth: The ground truth of the same architectures; higher is better.
            controls: Properties of the same architectures that `size_controlled` holds fixed.

        Raises:
            ValueError: The lengths differ, or a value is not finite.
        """
        sample = _ScoredSample.make(scores, truth, controls)
        if not self.is_defined(sample):
            return None
        weights = np.ones((sample.n, 1))
        value = float(self.compute(sample, weights)[0])
        if np.isnan(value):
            return None
        return value

    def is_defined(self, sample: "_ScoredSample") -> bool:
        """Return whether the sample has what the statistic needs."""
        if self.needs_controls and not sample.has_enough_controls:
            return False
        return sample.is_defined


def compute_ranks(values: Values) -> Floats:
    """Return ranks from 1, the lowest value, to n, the highest.

    If higher is better, rank 1 is the worst. Equal values share the mean of their ranks.
    """
    array = np.asarray(values, dtype=np.float64)
    weights = np.ones((len(array), 1))
    return _SortedValues(array).compute_ranks(weights)[:, 0]


def compute_top_chances(values: Values, k: float) -> Floats:
    """Return the chance of each value to be among the `k` highest if ties are broken at random."""
    array = np.asarray(values, dtype=np.float64)
    weights = np.ones((len(array), 1))
    return _SortedValues(array).compute_top_chances(weights, k)[:, 0]


def count_top(count: int, share: float = TOP_SHARE) -> int:
    """Return how many of `count` architectures are the top share; at least one."""
    return max(1, round(share * count))


def bootstrap_interval(
    statistic: Statistic,
    scores: Values,
    truth: Values,
    rng: np.random.Generator,
    resamples: int = 1000,
    controls: Sequence[Values] = (),
) -> tuple[float, float] | None:
    """Return the 95 % percentile bootstrap interval over architectures.

    The intervals of the three correlations contain the true value in 90 to 98 % of the cases, for
    samples from a normal distribution with at least 12 architectures. Accelerated (BCa) and
    transformed (Fisher z) intervals were not better, so the simple one is used. For `regret` and
    `regret_at_10` the interval only says how much the choice of architectures matters: no resample
    contains a better architecture than the sample.

    Returns:
        Lower and upper end. None if the statistic is undefined, and for fewer than 12 architectures
        in perfect or exactly reversed order: all their resamples have the same order, so the
        interval would have no width.
    """
    values = bootstrap_statistic(statistic, scores, truth, rng, resamples, controls)
    if values is None:
        return None
    if len(scores) < _MIN_COUNT_FOR_PERFECT_ORDER and _ScoredSample.make(scores, truth).is_perfect:
        return None
    return percentile_interval(values)


def bootstrap_statistic(
    statistic: Statistic,
    scores: Values,
    truth: Values,
    rng: np.random.Generator,
    resamples: int = 1000,
    controls: Sequence[Values] = (),
) -> Floats | None:
    """Return the statistic of resamples, drawn with replacement.

    Generators in the same state draw the same resamples.

    Returns:
        One value per resample, NaN where it is undefined, for example if all values of a resample
        are equal; None if the statistic of the sample is undefined.
    """
    sample = _ScoredSample.make(scores, truth, controls)
    if not statistic.is_defined(sample):
        return None
    largest_block = max(1, _MAX_BLOCK_SIZE // sample.n)
    blocks = []
    for start in range(0, resamples, largest_block):
        block_size = min(largest_block, resamples - start)
        weights = _draw_resamples(sample.n, block_size, rng)
        blocks.append(statistic.compute(sample, weights))
    return np.concatenate(blocks)


def percentile_interval(values: Floats) -> tuple[float, float] | None:
    """Return the central 95 % of bootstrap values; None if more than half of them are NaN."""
    defined = np.sort(values[np.isfinite(values)])
    if len(defined) < len(values) / 2:
        return None
    low, high = np.quantile(defined, (0.025, 0.975))
    return float(low), float(high)


def _draw_resamples(n: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Return how often each of n architectures is drawn per resample, (n, resamples)."""
    drawn = rng.integers(n, size=(n, resamples))
    # A cell of the result is an architecture and a resample; count the draws of each cell.
    cells = drawn * resamples + np.arange(resamples)
    counts = np.bincount(cells.ravel(), minlength=n * resamples)
    return counts.reshape(n, resamples).astype(np.float64)


# ----------------------------------------------------------------------------------- samples


@dataclass(frozen=True, eq=False)
class _SortedValues:
    """Values, their ascending order, and the groups of equal values."""

    values: Floats

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Indices that sort the values."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def group_starts(self) -> NDArray[np.intp]:
        """Positions in the ascending order where groups of equal values begin."""
        ascending = self.values[self.order]
        differs_from_previous = np.append(True, ascending[1:] != ascending[:-1])
        # Without values there is no first group either.
        return np.flatnonzero(differs_from_previous[: len(ascending)])

    @cached_property
    def group_numbers(self) -> NDArray[np.intp]:
        """For each value the number of its group; group 0 has the lowest values."""
        group_sizes = np.diff(np.append(self.group_starts, len(self.values)))
        numbers = np.empty(len(self.values), dtype=np.intp)
        numbers[self.order] = np.repeat(np.arange(len(self.group_starts)), group_sizes)
        return numbers

    def sum_groups(self, columns: Floats) -> Floats:
        """Return the sum over each group of equal values, lowest group first, (groups, R)."""
        ordered = columns[self.order]
        if len(self.group_starts) == len(columns):
            return ordered
        return np.add.reduceat(ordered, self.group_starts)

    def compute_ranks(self, w: Floats) -> Floats:
        """Return the rank of each value; equal values share the mean of their ranks, (n, R)."""
        weights = self.sum_groups(w)
        ranks: Floats = np.cumsum(weights, axis=0) - (weights - 1) / 2
        return ranks[self.group_numbers]

    def compute_top_chances(self, w: Floats, k: float) -> Floats:
        """Return the chance of each value to be among the k highest, (n, R)."""
        weights = self.sum_groups(w)
        weight_above = weights.sum(0) - np.cumsum(weights, axis=0)
        chances: Floats = np.clip((k - weight_above) / np.maximum(weights, 1), 0, 1)
        return chances[self.group_numbers]


@dataclass(frozen=True, eq=False)
class _ScoredSample:
    """Scores x, ground truth y and controls z of the same architectures."""

    x: _SortedValues
    y: _SortedValues
    z: tuple[_SortedValues, ...] = ()

    @classmethod
    def make(
        cls, scores: Values, truth: Values, controls: Sequence[Values] = ()
    ) -> "_ScoredSample":
        x = np.asarray(scores, dtype=np.float64).ravel()
        y = np.asarray(truth, dtype=np.float64).ravel()
        if len(x) != len(y):
            raise ValueError(
                f"there are {len(x)} scores and {len(y)} true values; give one per score"
            )
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ValueError(
                "scores and ground truth must be finite; leave failures out and count them"
            )
        z = []
        for control in controls:
            values = np.asarray(control, dtype=np.float64).ravel()
            if len(values) != len(x):
                raise ValueError(
                    f"there are {len(x)} scores and {len(values)} values of a control; "
                    "give one per score"
                )
            if not np.isfinite(values).all():
                raise ValueError("controls must be finite; leave failures out and count them")
            z.append(_SortedValues(values))
        return cls(_SortedValues(x), _SortedValues(y), tuple(z))

    @property
    def n(self) -> int:
        return len(self.x.values)

    @property
    def is_defined(self) -> bool:
        """Whether there are enough architectures, with different scores and true values."""
        if self.n < _MIN_COUNT:
            return False
        return bool(np.ptp(self.x.values) > 0 and np.ptp(self.y.values) > 0)

    @property
    def has_enough_controls(self) -> bool:
        """Whether there are controls, and enough architectures to remove their influence.

        Every control takes one degree of freedom. With fewer architectures, the residuals of scores
        and truth would always agree or disagree perfectly.
        """
        return len(self.z) > 0 and self.n >= _MIN_COUNT + len(self.z)

    @property
    def is_perfect(self) -> bool:
        """Whether scores and ground truth have the same order, or exactly the reversed one."""
        x = self.x.group_numbers
        y = self.y.group_numbers
        return np.array_equal(x, y) or np.array_equal(x, y.max() - y)


# ------------------------------------------------------------------------------- correlation


def _compute_spearman(sample: _ScoredSample, w: Floats) -> Floats:
    return _correlate(sample.x.compute_ranks(w), sample.y.compute_ranks(w), w)


def _compute_pearson(sample: _ScoredSample, w: Floats) -> Floats:
    # Values are scaled and centred first, so that squares of very large or small ones are accurate.
    x = sample.x.values / np.ptp(sample.x.values)
    y = sample.y.values / np.ptp(sample.y.values)
    return _correlate((x - x.mean())[:, None], (y - y.mean())[:, None], w)


def _correlate(x: Floats, y: Floats, w: Floats) -> Floats:
    """Return cov(x, y) / (std x std y), weighted, per column."""
    dx = x - _sum_rows(w * x) / _sum_rows(w)
    dy = y - _sum_rows(w * y) / _sum_rows(w)
    wx = w * dx
    wy = w * dy
    return _divide(_dot_columns(wx, dy), np.sqrt(_dot_columns(wx, dx) * _dot_columns(wy, dy)))


def _compute_kendall(sample: _ScoredSample, w: Floats) -> Floats:
    """Return Kendall's tau-b.

    tau-b = (concordant - discordant) / sqrt(pairs untied in x * pairs untied in y)
    concordant - discordant = 1/2 sum_ij w_i w_j s_ij(x) s_ij(y), with s_ij the sign of a pair
    """
    x = sample.x.group_numbers
    y = sample.y.group_numbers
    # Weights are counts, which single precision represents exactly.
    w_single = w.astype(np.float32)
    agreement = np.zeros(w.shape[1])
    block_count = 1 + sample.n * sample.n // _MAX_BLOCK_SIZE
    for rows in np.array_split(np.arange(sample.n), block_count):
        signs = np.sign(x[rows, None] - x) * np.sign(y[rows, None] - y)
        agreement += _dot_columns(w[rows], signs.astype(np.float32) @ w_single)
    pairs = _sum_rows(w) ** 2
    untied_x = pairs - _sum_rows(sample.x.sum_groups(w) ** 2)
    untied_y = pairs - _sum_rows(sample.y.sum_groups(w) ** 2)
    return _divide(agreement, np.sqrt(untied_x * untied_y))


def _compute_controlled_spearman(sample: _ScoredSample, w: Floats) -> Floats:
    """Return the partial rank correlation of scores and ground truth, controls held fixed.

    With P the inverse of the matrix of rank correlations of x, y and the controls z, it is

        -P_xy / sqrt(P_xx P_yy)

    The inverse does not exist if two controls have the same order, such as parameters and FLOPs of
    linear layers. So the same number is computed from the covariance S that z does not explain,

        S_ab = C_ab - C_az pinv(C_zz) C_zb,  a and b in {x, y}
        S_xy / sqrt(S_xx S_yy)

    where C is the matrix of rank correlations. The pseudo-inverse counts controls of the same order
    once. The result is undefined if the controls determine the order of the scores or of the truth.
    """
    columns = []
    for values in (sample.x, sample.y, *sample.z):
        ranks = values.compute_ranks(w)
        deviations = ranks - _sum_rows(w * ranks) / _sum_rows(w)
        norm = np.sqrt(_dot_columns(w * deviations, deviations))
        # A control whose values are all equal explains nothing: its column stays 0.
        columns.append(deviations / np.where(norm > _MIN_RANK_NORM, norm, np.inf))
    size = len(columns)
    # One matrix per resample; rows and columns are x, y and the controls.
    C = np.empty((w.shape[1], size, size))
    for i in range(size):
        for j in range(i, size):
            product = _dot_columns(w * columns[i], columns[j])
            C[:, i, j] = product
            C[:, j, i] = product
    C_az = C[:, :2, 2:]
    inverse = np.linalg.pinv(C[:, 2:, 2:], rcond=_MIN_UNEXPLAINED_SHARE, hermitian=True)
    S = C[:, :2, :2] - C_az @ inverse @ C_az.transpose(0, 2, 1)
    S_xx = S[:, 0, 0]
    S_yy = S[:, 1, 1]
    is_defined = (S_xx > _MIN_UNEXPLAINED_SHARE) & (S_yy > _MIN_UNEXPLAINED_SHARE)
    variance = np.where(is_defined, S_xx * S_yy, 0)
    # Rounding errors may exceed the bounds of a correlation slightly.
    return np.clip(_divide(S[:, 0, 1], np.sqrt(variance)), -1, 1)


def _sum_rows(columns: Floats) -> Floats:
    total: Floats = columns.sum(0)
    return total


def _dot_columns(a: Floats, b: Floats) -> Floats:
    product: Floats = np.einsum("ir,ir->r", a, b)
    return product


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    """Divide; NaN where the denominator is 0, because all values of a resample are equal."""
    nan = np.full_like(denominator, np.nan)
    return np.divide(numerator, denominator, out=nan, where=denominator > _MIN_VARIANCE)


# ---------------------------------------------------------------------------------- the best


def _compute_overlap(sample: _ScoredSample, w: Floats, top: float) -> Floats:
    """Return the share of the best `top` by score that is in the best `top` by ground truth."""
    k = count_top(sample.n, top)
    top_by_score = sample.x.compute_top_chances(w, k)
    top_by_truth = sample.y.compute_top_chances(w, k)
    return _sum_rows(w * top_by_score * top_by_truth) / k


def _compute_precision(sample: _ScoredSample, w: Floats, k: int, top: float) -> Floats:
    """Return the share of the k best scores that is in the best `top` by ground truth."""
    selected = min(k, sample.n)
    top_by_score = sample.x.compute_top_chances(w, selected)
    top_by_truth = sample.y.compute_top_chances(w, count_top(sample.n, top))
    return _sum_rows(w * top_by_score * top_by_truth) / selected


def _compute_regret(sample: _ScoredSample, w: Floats) -> Floats:
    """Return the best ground truth minus that of the architecture with the best score."""
    best_by_truth = sample.y.compute_top_chances(w, 1)
    best_by_score = sample.x.compute_top_chances(w, 1)
    return _sum_rows(w * (best_by_truth - best_by_score) * sample.y.values[:, None])


def _compute_regret_at(sample: _ScoredSample, w: Floats, k: int) -> Floats:
    """Return the best ground truth minus the best one among the k highest scores."""
    # Highest scores first. Among equal scores the worst architectures come first, so they take the
    # last places among the k highest scores.
    order = np.lexsort((sample.y.values, -sample.x.values))
    ordered_weights = w[order]
    truth = sample.y.values[order][:, None]
    is_present = ordered_weights > 0
    weight_before = np.cumsum(ordered_weights, axis=0) - ordered_weights
    is_selected = is_present & (weight_before < k)
    best = np.where(is_present, truth, -np.inf).max(0)
    best_selected = np.where(is_selected, truth, -np.inf).max(0)
    regrets: Floats = best - best_selected
    return regrets


def _compute_ndcg(sample: _ScoredSample, w: Floats) -> Floats:
    """Return the normalised discounted cumulative gain over all places.

    DCG = sum over places p of gain / log2(p + 1), with gains from 0 (worst) to 1 (best)
    nDCG = DCG of the order by score / DCG of the order by ground truth
    """
    truth = sample.y.values[:, None]
    is_present = w > 0
    worst = np.where(is_present, truth, np.inf).min(0)
    best = np.where(is_present, truth, -np.inf).max(0)
    span = best - worst
    # Without different true values there are no gains, and the quotient below is undefined.
    gains = (truth - worst) / np.where(span > 0, span, np.inf)
    by_score = _sum_discounted_gains(sample.x, gains, w)
    by_truth = _sum_discounted_gains(sample.y, gains, w)
    return _divide(by_score, by_truth)


def _sum_discounted_gains(values: _SortedValues, gains: Floats, w: Floats) -> Floats:
    """Return DCG of the order by `values`; equal values share the mean gain of their places."""
    weights = values.sum_groups(w)
    weight_above = weights.sum(0) - np.cumsum(weights, axis=0)
    # A group takes the places below the groups above it. Weights are counts, so places are whole
    # numbers.
    places_above = weight_above.astype(np.intp)
    last_place = (weight_above + weights).astype(np.intp)
    places = np.arange(1, int(w.sum(0).max()) + 1)
    # Sum of the discounts of the first 0, 1, 2, ... places.
    discounts = np.append(0.0, np.cumsum(1 / np.log2(places + 1)))
    group_discounts = discounts[last_place] - discounts[places_above]
    mean_gains = values.sum_groups(w * gains) / np.maximum(weights, 1)
    return _sum_rows(mean_gains * group_discounts)


spearman = Statistic("spearman", "Correlation of ranks.", _compute_spearman)
kendall = Statistic(
    "kendall",
    "Kendall's tau-b: concordant minus discordant pairs, relative to the pairs without ties.",
    _compute_kendall,
)
pearson = Statistic("pearson", "Correlation of values.", _compute_pearson)
top_overlap = Statistic(
    "top_overlap",
    "Share of the best 10 % by score that are also in the best 10 % by ground truth.",
    partial(_compute_overlap, top=TOP_SHARE),
)
top_5_overlap = Statistic(
    "top_5_overlap",
    "Share of the best 5 % by score that are also in the best 5 % by ground truth.",
    partial(_compute_overlap, top=0.05),
)
ndcg = Statistic(
    "ndcg",
    "Normalised discounted cumulative gain; gains are the ground truth, scaled from 0 to 1.",
    _compute_ndcg,
)
regret = Statistic(
    "regret",
    "Ground truth of the best architecture minus that of the one with the best score.",
    _compute_regret,
    higher_is_better=False,
)
regret_at_10 = Statistic(
    "regret_at_10",
    "Ground truth of the best architecture minus the best ground truth among the ten highest "
    "scores; ties for tenth place are resolved against the proxy.",
    partial(_compute_regret_at, k=10),
    higher_is_better=False,
)
size_controlled = Statistic(
    "size_controlled",
    "Correlation of ranks with those of parameters and FLOPs held fixed.",
    _compute_controlled_spearman,
    needs_controls=True,
)


def precision_at(k: int, top: float = TOP_SHARE) -> Statistic:
    """Return the statistic: the share of the k best by score that is also in the best `top`."""
    about = (
        f"Share of the best {k} by score that are also in the best {format_percent(top, 0)} "
        "by ground truth."
    )
    return Statistic(f"precision_at_{k}", about, partial(_compute_precision, k=k, top=top))


# Statistics of scores and ground truth. `size_controlled` also needs the sizes of architectures.
STATISTICS = (
    spearman,
    kendall,
    pearson,
    top_overlap,
    regret,
    precision_at(10),
    ndcg,
    top_5_overlap,
    regret_at_10,
)

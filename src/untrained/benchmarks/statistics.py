"""How well scores tell good architectures from bad ones, and how sure that is.

    x  scores, oriented so that higher is better      y  the truth, higher is better      n  architectures
    w  how often each architecture counts, (n, R): one column for each of R samples

Every statistic is written once, for columns of weights. A column of ones is the sample itself; drawing n architectures
with replacement gives a column that says how often each was drawn. So a thousand resamples cost a few matrix products.
Ties share their places: in ranks, and at the edge of a top group. `ranks` and `among_best` are those of plain values.

A statistic that is not defined (fewer than three architectures, all scores or all truths equal) is None, never NaN.
Nothing here knows of networks or tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weighted = Callable[["_Sample", Floats], Floats]
_BLOCK = 1 << 22  # numbers in a temporary array
_LEAST = 3  # architectures below which nothing can be said
_FEW = 12  # below which a faultless order says little
TENTH = 0.1  # the share that counts as the best
_NO_SPREAD = 1e-20  # what rounding leaves of a variance of zero


@dataclass(frozen=True)
class Statistic:
    """A number for scores and truth: `spearman(scores, truth)`."""

    name: str
    about: str
    weighted: Weighted
    higher_is_better: bool = True

    def __call__(self, scores: Sequence[float] | Floats, truth: Sequence[float] | Floats) -> float | None:
        sample = _Sample.of(scores, truth)
        return float(self.weighted(sample, np.ones((sample.n, 1)))[0]) if sample.defined else None


def ranks(values: Sequence[float] | Floats) -> Floats:
    """1, 2, 3, ... from the lowest up; equal values share the mean of their ranks."""
    return _plain(values, _Ordered.ranks)


def among_best(values: Sequence[float] | Floats, k: float) -> Floats:
    """The chance of each value to be among the k highest when ties are broken at random: 1, 0, or a share of a tie."""
    return _plain(values, partial(_Ordered.in_top, k=k))


def tenth(count: int, share: float = TENTH) -> int:
    """How many the best tenth are, or another share."""
    return max(1, round(share * count))


def interval(
    statistic: Statistic,
    scores: Sequence[float] | Floats,
    truth: Sequence[float] | Floats,
    rng: np.random.Generator,
    resamples: int = 1000,
) -> tuple[float, float] | None:
    """The 95 % percentile bootstrap interval over architectures; None for a few of them in an order without a mistake,
    or exactly the wrong way round. Every resample of it is so too, and an interval without width would claim to know.

    For the three correlations of normal samples it covers the true value in 90 to 98 of 100 cases from 12 architectures
    up. Accelerated (BCa) and transformed (Fisher z) intervals did no better, so the plain one stays. For `regret` it
    says how much the choice of architectures matters and no more: no resample has a better best than the sample.
    """
    drawn = resampled(statistic, scores, truth, rng, resamples)
    if drawn is None or (len(scores) < _FEW and _Sample.of(scores, truth).faultless):
        return None
    return between(drawn)


def resampled(
    statistic: Statistic,
    scores: Sequence[float] | Floats,
    truth: Sequence[float] | Floats,
    rng: np.random.Generator,
    resamples: int = 1000,
) -> Floats | None:
    """The statistic of architectures drawn with replacement, again and again; equal generators draw the same ones. NaN
    where those drawn are all equal."""
    sample = _Sample.of(scores, truth)
    if not sample.defined:
        return None
    most = max(1, _BLOCK // sample.n)
    sizes = [min(most, resamples - done) for done in range(0, resamples, most)]
    return np.concatenate([statistic.weighted(sample, _resampled(sample.n, size, rng)) for size in sizes])


def between(drawn: Floats) -> tuple[float, float] | None:
    """The middle 95 % of what was drawn; None where half of it is not defined."""
    known = np.sort(drawn[np.isfinite(drawn)])
    if len(known) < len(drawn) / 2:
        return None
    low, high = np.quantile(known, (0.025, 0.975))
    return float(low), float(high)


def _resampled(n: int, resamples: int, rng: np.random.Generator) -> Floats:
    """How often each of n architectures is drawn when n are drawn with replacement."""
    drawn = rng.integers(n, size=(n, resamples)) * resamples + np.arange(resamples)
    return np.bincount(drawn.ravel(), minlength=n * resamples).reshape(n, resamples).astype(np.float64)


# ----------------------------------------------------------------------------------------------------------- samples


@dataclass(frozen=True, eq=False)
class _Ordered:
    """Values in ascending order, and where groups of equal ones begin and end."""

    values: Floats

    @cached_property
    def order(self) -> NDArray[np.intp]:
        return np.argsort(self.values, kind="stable")

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """The place where each group begins."""
        ascending = self.values[self.order]
        return np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)])

    @cached_property
    def group(self) -> NDArray[np.intp]:
        """The group of each value, in the values' own order; higher values have higher groups."""
        group = np.empty(len(self.values), dtype=np.intp)
        group[self.order] = np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.values))))
        return group

    def weights(self, w: Floats) -> Floats:
        """How much each group weighs, (groups, R)."""
        ordered = w[self.order]
        return ordered if len(self.starts) == len(w) else np.add.reduceat(ordered, self.starts)

    def ranks(self, w: Floats) -> Floats:
        """The rank of each value, equal ones sharing the mean of their places, (n, R)."""
        weights = self.weights(w)
        ranks: Floats = np.cumsum(weights, axis=0) - (weights - 1) / 2
        return ranks[self.group]

    def in_top(self, w: Floats, k: float) -> Floats:
        """The chance of each value to be among the k highest when ties are broken at random, (n, R)."""
        weights = self.weights(w)
        above = weights.sum(0) - np.cumsum(weights, axis=0)
        chances: Floats = np.clip((k - above) / np.maximum(weights, 1), 0, 1)
        return chances[self.group]


def _plain(values: Sequence[float] | Floats, of: Callable[[_Ordered, Floats], Floats]) -> Floats:
    """What is said of values that count once each."""
    found = np.asarray(values, dtype=np.float64)
    return of(_Ordered(found), np.ones((len(found), 1)))[:, 0]


@dataclass(frozen=True, eq=False)
class _Sample:
    x: _Ordered
    y: _Ordered

    @classmethod
    def of(cls, scores: Sequence[float] | Floats, truth: Sequence[float] | Floats) -> "_Sample":
        x, y = (np.asarray(values, dtype=np.float64).ravel() for values in (scores, truth))
        if len(x) != len(y):
            raise ValueError(f"{len(x)} scores and {len(y)} truths do not belong together")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ValueError("a missing number has no rank: leave failures out, and count them")
        return cls(_Ordered(x), _Ordered(y))

    @property
    def n(self) -> int:
        return len(self.x.values)

    @property
    def defined(self) -> bool:
        return self.n >= _LEAST and all(np.ptp(side.values) > 0 for side in (self.x, self.y))

    @property
    def faultless(self) -> bool:
        """Whether one order is the other, or the other reversed."""
        x, y = self.x.group, self.y.group
        return np.array_equal(x, y) or np.array_equal(x, y.max() - y)


# -------------------------------------------------------------------------------------------------------- correlation


def _spearman(sample: _Sample, w: Floats) -> Floats:
    return _correlation(sample.x.ranks(w), sample.y.ranks(w), w)


def _pearson(sample: _Sample, w: Floats) -> Floats:
    x, y = (side.values / np.ptp(side.values) for side in (sample.x, sample.y))
    return _correlation((x - x.mean())[:, None], (y - y.mean())[:, None], w)


def _correlation(x: Floats, y: Floats, w: Floats) -> Floats:
    """cov(x, y) / (std x std y), weighted, column by column."""
    dx, dy = (side - _sum(w * side) / _sum(w) for side in (x, y))
    wx, wy = w * dx, w * dy
    return _ratio(_dot(wx, dy), np.sqrt(_dot(wx, dx) * _dot(wy, dy)))


def _kendall(sample: _Sample, w: Floats) -> Floats:
    """tau-b: (concordant - discordant) / sqrt(pairs untied in x * pairs untied in y); with s_ij the sign of a pair,
    concordant - discordant = 1/2 sum_ij w_i w_j s_ij(x) s_ij(y)."""
    x, y, light = sample.x.group, sample.y.group, w.astype(np.float32)  # counts: exact in single precision
    agreeing = np.zeros(w.shape[1])
    for rows in np.array_split(np.arange(sample.n), 1 + sample.n * sample.n // _BLOCK):
        agree = np.sign(x[rows, None] - x) * np.sign(y[rows, None] - y)
        agreeing += _dot(w[rows], agree.astype(np.float32) @ light)
    untied = [_sum(w) ** 2 - _sum(side.weights(w) ** 2) for side in (sample.x, sample.y)]
    return _ratio(agreeing, np.sqrt(untied[0] * untied[1]))


def _sum(columns: Floats) -> Floats:
    total: Floats = columns.sum(0)
    return total


def _dot(a: Floats, b: Floats) -> Floats:
    product: Floats = np.einsum("ir,ir->r", a, b)
    return product


def _ratio(above: Floats, below: Floats) -> Floats:
    """NaN where a resample has no spread."""
    return np.divide(above, below, out=np.full_like(below, np.nan), where=below > _NO_SPREAD)


# ---------------------------------------------------------------------------------------------------------- the best


def _overlap(sample: _Sample, w: Floats, top: float) -> Floats:
    k = tenth(sample.n, top)
    return _sum(w * sample.x.in_top(w, k) * sample.y.in_top(w, k)) / k


def _precision(sample: _Sample, w: Floats, k: int, top: float) -> Floats:
    chosen = min(k, sample.n)
    return _sum(w * sample.x.in_top(w, chosen) * sample.y.in_top(w, tenth(sample.n, top))) / chosen


def _regret(sample: _Sample, w: Floats) -> Floats:
    return _sum(w * (sample.y.in_top(w, 1) - sample.x.in_top(w, 1)) * sample.y.values[:, None])


spearman = Statistic("spearman", "Correlation of ranks.", _spearman)
kendall = Statistic("kendall", "Pairs in the right order less pairs in the wrong one, tau-b.", _kendall)
pearson = Statistic("pearson", "Correlation of values.", _pearson)
top_overlap = Statistic(
    "top_overlap", "Share of the best 10 % by score that are among the best 10 %.", partial(_overlap, top=TENTH)
)
regret = Statistic("regret", "What the best by score falls short of the best of all.", _regret, higher_is_better=False)


def precision_at(k: int, top: float = TENTH) -> Statistic:
    """Of the k best by score, the share that belongs to the best 10 %."""
    about = f"Share of the best {k} by score that are among the best {top:.0%}."
    return Statistic(f"precision_at_{k}", about, partial(_precision, k=k, top=top))


STATISTICS = (spearman, kendall, pearson, top_overlap, regret, precision_at(10))

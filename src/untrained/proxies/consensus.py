"""Combine several proxies, with weights that are learnt from the space and not from accuracies.

The combined proxies are called members. All members score a reference sample, which consists of
random architectures of the space. It serves two purposes. First, each score is replaced by a
percentile, its position among the reference scores, so the consensus of an architecture does not
depend on the other candidates. Second, the rank correlations between the members give the weights:
a member that agrees with the anchors counts more, and one that contradicts them does not count. The
anchors are two of the members, the number of multiply-adds and MeCo, because on every known family
at least one of them ranks well (docs/results/consensus.md). The idea to estimate quality from
agreement comes from the spectral meta-learner (Parisi et al., PNAS 2014, arXiv:1303.3257).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from untrained.proxies import dextr, meco, naswot, near, size, synflow  # noqa: F401 - the members
from untrained.proxies.base import aggregate, register_proxy

# ZiCo is not a member: it would lower the mean rank correlation by 0.007
# (docs/results/consensus.md) and takes several times as long as all members together. NEAR, NASWOT
# and SWAP read the same samples, so they share one forward pass. NEAR comes first, because its pass
# also records the signs that the other two read. NEAR with 128 channels ranks as well as with 512
# and takes a fraction of the time.
MEMBERS = (
    "flops",
    "params",
    "near(width=128,samples=16)",
    "naswot(samples=16)",
    "swap",
    "dextr_conditions",
    "meco_opt",
    "logsynflow",
)
ANCHORS = ("flops", "meco_opt")
SIZE_MEMBERS = ("flops", "params")
# Weights of 50 and of 200 reference networks differ by less than 0.01 of rank correlation.
REFERENCE_SIZE = 64
# The smallest reference sample whose correlations are used.
MIN_REFERENCE = 8
# A member that failed on more than this share of the reference sample is left out.
MAX_FAILURE_SHARE = 0.5
# Largest distance beyond the ends of a scale, in units of its spread: a percentile of exactly 0
# would have no logarithm.
MAX_DISTANCE = 1e9
# The members that score a candidate must have at least this share of the total weight.
MIN_WEIGHT_SHARE = 0.5
# Number of random selections of members that `Consensus.resample_members` draws.
RESAMPLES = 2000

Floats = NDArray[np.float64]
# Scores of the reference architectures by member, NaN where a member failed.
ReferenceScores = Mapping[str, Sequence[float] | Floats]


@dataclass(frozen=True)
class PercentileScale:
    """Turns a score into its percentile among the reference scores, between 0 and 1.

    Attributes:
        scores: Distinct reference scores in ascending order.
        percentiles: Percentile of each of them.
        spread: Unit of distance beyond the ends of the scale.
    """

    scores: tuple[float, ...]
    percentiles: tuple[float, ...]
    spread: float

    @classmethod
    def fit(cls, reference: Sequence[float] | Floats) -> "PercentileScale":
        """Make the scale of a member from its reference scores, which must be finite."""
        values = np.asarray(reference, dtype=np.float64)
        scores, first_indices = np.unique(values, return_index=True)
        percentiles = _compute_ranks(values)[first_indices] / (len(values) + 1)
        lower_quartile, upper_quartile = np.quantile(values, [0.25, 0.75])
        spread = float(upper_quartile - lower_quartile)
        if spread == 0:
            spread = float(scores[-1] - scores[0])
        if spread == 0:
            spread = 1.0
        return cls(tuple(map(float, scores)), tuple(map(float, percentiles)), spread)

    def compute_percentile(self, score: float) -> float:
        """Return the percentile of a score.

        Between two reference scores it is interpolated. Beyond the ends it approaches 0 or 1
        without reaching it, so scores outside of the range of the reference sample can still be
        compared.
        """
        if score < self.scores[0]:
            distance = min(MAX_DISTANCE, (self.scores[0] - score) / self.spread)
            return self.percentiles[0] / (1 + distance)
        if score > self.scores[-1]:
            distance = min(MAX_DISTANCE, (score - self.scores[-1]) / self.spread)
            return 1 - (1 - self.percentiles[-1]) / (1 + distance)
        return float(np.interp(score, self.scores, self.percentiles))


@dataclass(frozen=True)
class Consensus:
    """The members with their scales and weights.

    Attributes:
        scales: Percentile scale of each member with a weight.
        weights: Weight of each of these members; they sum to 1.
        left_out: The other members, and why each has no weight.
        reference_size: Number of reference architectures.
        agreement: Mean rank correlation between all pairs of members with a weight; None if there
            is only one.
        explained_by_size: Share of the variance of the combined ranks that the ranks of the size
            members explain; None if they have no scores.
    """

    scales: Mapping[str, PercentileScale]
    weights: Mapping[str, float]
    left_out: Mapping[str, str]
    reference_size: int
    agreement: float | None = None
    explained_by_size: float | None = None

    @classmethod
    def fit(
        cls, reference: ReferenceScores, anchors: Sequence[str], size_members: Sequence[str] = ()
    ) -> "Consensus":
        """Learn scales and weights from a reference sample.

            w_j = max(0, mean of R[j, a] over the anchors a)

        R are the rank correlations between members on the reference sample. With fewer than
        `MIN_REFERENCE` architectures, or if no anchor is usable, all members have the same weight.
        An anchor is not usable if it failed on most architectures, or is constant.

        Args:
            reference: Scores of the reference architectures, such that higher is better.
            anchors: The members that the others are compared with.
            size_members: Members that only measure the size of a network.
        """
        columns = {name: np.asarray(column, np.float64) for name, column in reference.items()}
        count = len(columns[anchors[0]])
        left_out = _find_failed_members(columns)
        usable = {name: column for name, column in columns.items() if name not in left_out}
        names = list(usable)
        R = _correlate_members(usable)
        # A constant anchor says nothing about the others.
        usable_anchors = []
        for name in anchors:
            if name in usable and R[names.index(name), names.index(name)] > 0:
                usable_anchors.append(name)
        weights = {}
        if usable_anchors and count >= MIN_REFERENCE:
            anchor_indices = [names.index(name) for name in usable_anchors]
            anchor_text = " and ".join(usable_anchors)
            for j, name in enumerate(names):
                r = float(R[j, anchor_indices].mean())
                if r > 0:
                    weights[name] = r
                else:
                    left_out[name] = f"has a mean rank correlation of {r:.2f} with {anchor_text}"
        else:
            weights = dict.fromkeys(names, 1.0)
        total = sum(weights.values())
        scales = {}
        for name in weights:
            weights[name] /= total
            column = usable[name]
            scales[name] = PercentileScale.fit(column[~np.isnan(column)])

        fitted = cls(scales, weights, left_out, count)
        return replace(
            fitted,
            agreement=_compute_agreement(names, R, weights),
            explained_by_size=_explain_by_size(fitted, columns, size_members),
        )

    def score(self, scores: Mapping[str, float]) -> float | None:
        """Combine the scores of one architecture.

            exp( sum_j w_j ln(p_j) / sum_j w_j ),   p_j its percentile on member j

        Args:
            scores: Scores by member, such that higher is better. A member that failed is absent;
                its weight is then shared by the others.

        Returns:
            The weighted geometric mean of the percentiles, a number between 0 and 1. None if the
            members that failed have more than half of the total weight.
        """
        weighted_sum = 0.0
        weight_sum = 0.0
        for name, weight in self.weights.items():
            if name in scores:
                percentile = self.scales[name].compute_percentile(scores[name])
                weighted_sum += weight * log(percentile)
                weight_sum += weight
        if weight_sum < MIN_WEIGHT_SHARE:
            return None
        return exp(weighted_sum / weight_sum)

    def resample_members(self, networks: Sequence[Mapping[str, float]], seed: int = 0) -> Floats:
        """Score networks again, many times, with members that are drawn with replacement.

        The spread of the scores of a network shows how much they depend on the choice of members.
        In each draw, all networks are scored with the same members, so the networks can be compared
        within a row of the result.

        Args:
            networks: Scores by member of each network, as for `score`.
            seed: Seed of the draws.

        Returns:
            One row per draw and one column per network; NaN where a draw contains no member that
            scored the network.
        """
        names = list(self.weights)
        if not names:
            return np.full((RESAMPLES, len(networks)), np.nan)
        logs = np.zeros((len(networks), len(names)))
        has_score = np.zeros((len(networks), len(names)))
        for i, scores in enumerate(networks):
            for j, name in enumerate(names):
                if name in scores:
                    logs[i, j] = log(self.scales[name].compute_percentile(scores[name]))
                    has_score[i, j] = 1
        rng = np.random.default_rng(seed)
        draws = rng.multinomial(len(names), [1 / len(names)] * len(names), size=RESAMPLES)
        drawn_weights = draws * np.array([self.weights[name] for name in names])
        weight_sums = drawn_weights @ has_score.T
        weighted_sums = drawn_weights @ logs.T
        resampled = np.full(weight_sums.shape, np.nan)
        np.divide(weighted_sums, weight_sums, out=resampled, where=weight_sums > 0)
        return np.asarray(np.exp(resampled), dtype=np.float64)


@register_proxy
@aggregate(
    parts=MEMBERS,
    paper="untrained",
    aspects="expressivity, trainability, size",
    reference_size=REFERENCE_SIZE,
    version=3,
)
def consensus(reference: ReferenceScores) -> Consensus:
    """Geometric mean of the percentiles of a network on eight proxies, among random networks.

        exp( sum_j w_j ln(p_j) / sum_j w_j ),   w_j = max(0, (R[j, flops] + R[j, meco_opt]) / 2)
        p_j: percentile of the network on member j among the reference networks
        R: rank correlations between the members on the reference networks

    The members are FLOPs, parameters, NASWOT, SWAP, the condition numbers of Dextr, MeCo_opt,
    LogSynFlow and NEAR. The weights are learnt from 64 random networks of the space, without
    accuracies. If a member fails for a network, the score combines the other members.
    """
    return Consensus.fit(reference, ANCHORS, SIZE_MEMBERS)


def _find_failed_members(columns: Mapping[str, Floats]) -> dict[str, str]:
    """Return the members that failed on too many reference networks, each with the reason."""
    failed = {}
    for name, column in columns.items():
        count = len(column)
        failures = int(np.isnan(column).sum())
        # Without reference networks there are no failures, but no scores either.
        if failures > MAX_FAILURE_SHARE * count or count == 0:
            failed[name] = f"failed on {failures} of {count} reference networks"
    return failed


def _compute_ranks(values: Sequence[float] | Floats) -> Floats:
    """Return ranks 1, 2, 3, ... from the lowest; equal values share the mean of their ranks."""
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)
    mean_ranks = last_ranks - (counts - 1) / 2
    return np.asarray(mean_ranks[groups], dtype=np.float64)


def _correlate_members(columns: Mapping[str, Floats]) -> Floats:
    """Return Spearman's correlation of every pair of members on the networks that both scored.

    A constant column correlates with nothing, not even with itself.
    """
    names = list(columns)
    R = np.diag([float(np.nanmax(columns[name]) > np.nanmin(columns[name])) for name in names])
    for i, j in combinations(range(len(names)), 2):
        first = columns[names[i]]
        second = columns[names[j]]
        scored_by_both = ~(np.isnan(first) | np.isnan(second))
        x = _compute_ranks(first[scored_by_both])
        y = _compute_ranks(second[scored_by_both])
        if len(x) > 1 and x.std() > 0 and y.std() > 0:
            R[i, j] = np.corrcoef(x, y)[0, 1]
            R[j, i] = R[i, j]
    return R


def _compute_agreement(
    names: Sequence[str], R: Floats, weights: Mapping[str, float]
) -> float | None:
    members = [index for index, name in enumerate(names) if name in weights]
    pairs = [R[i, j] for i, j in combinations(members, 2)]
    if not pairs:
        return None
    return float(np.mean(pairs))


def _explain_by_size(
    fitted: Consensus, columns: Mapping[str, Floats], size_members: Sequence[str]
) -> float | None:
    """Return R^2 of a linear regression of the combined ranks on the ranks of the size members."""
    if not size_members:
        return None
    combined = []
    sizes = []
    for row in range(fitted.reference_size):
        scores = {}
        for name, column in columns.items():
            if not np.isnan(column[row]):
                scores[name] = float(column[row])
        score = fitted.score(scores)
        if score is not None and all(name in scores for name in size_members):
            combined.append(score)
            sizes.append([scores[name] for name in size_members])
    if len(combined) < MIN_REFERENCE:
        return None
    target = _compute_ranks(combined)
    if target.std() == 0:
        return None
    predictors = [np.ones(len(target))]
    for column in np.array(sizes).T:
        predictors.append(_compute_ranks(column))
    design = np.column_stack(predictors)
    coefficients = np.linalg.lstsq(design, target, rcond=None)[0]
    residuals = target - design @ coefficients
    return float(1 - residuals.var() / target.var())

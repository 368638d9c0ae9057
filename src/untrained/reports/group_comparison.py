"""Compare groups of networks that were selected in different ways and trained alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt
from statistics import fmean, variance

from untrained.formatting import format_fixed
from untrained.runs.ranking import compute_t_quantile
from untrained.seeds import make_generator
from untrained.types import REGRESSION

# A permutation test examines all splits of the results into two groups if there are at most this
# many, else this many random splits.
MAX_SPLITS = 20_000
# A wider interval of a difference, in percentage points, is not reported.
MAX_INTERVAL_WIDTH = 100.0


@dataclass(frozen=True)
class TrainedGroup:
    """Architectures that were selected in the same way, and the result of training each.

    Attributes:
        name: How they were selected: the name of a proxy, or `random`.
        about: Description of the selection in a few words.
        archs: The architectures.
        results: Accuracy, AUC or R2 of each in per cent; None where the training failed.
        reasons: Why there is no result, per architecture; empty where there is one. Runs of earlier
            versions have no reasons.
    """

    name: str
    about: str
    archs: tuple[str, ...]
    results: tuple[float | None, ...]
    reasons: tuple[str, ...] = ()

    @property
    def finished_results(self) -> list[float]:
        """Results of the trainings that did not fail."""
        return [value for value in self.results if value is not None]

    @property
    def finished_archs(self) -> set[str]:
        """The architectures whose trainings did not fail."""
        pairs = zip(self.archs, self.results, strict=True)
        return {arch for arch, result in pairs if result is not None}

    def is_comparable_with(self, other: "TrainedGroup") -> bool:
        """Return whether both groups have several results, and not of the same networks."""
        archs = self.finished_archs
        other_archs = other.finished_archs
        return min(len(archs), len(other_archs)) > 1 and archs != other_archs


@dataclass(frozen=True)
class Contrast:
    """The group of the proxy compared with another group.

    Attributes:
        against: Name of the other group.
        difference: Mean of the proxy's group minus mean of the other group.
        low: Lower end of the 95 % interval of the difference; None if a group has fewer than two
            results, or if the interval is wider than `MAX_INTERVAL_WIDTH`.
        high: Upper end of the interval.
        p: p-value of a permutation test, see `compute_permutation_p`; None if a group has fewer
            than two results.
        shared: Number of architectures that are in both groups.
    """

    against: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    shared: int

    def format_interval(self, scale: float = 1.0, decimals: int = 1) -> str:
        """Return the 95 % interval of the difference in the direction of the difference.

        A sentence says "4.0 points lower", so the interval in it is "2.0 to 6.0", not "-6.0 to
        -2.0". The text is empty if there is no interval.

        Args:
            scale: Factor of the bounds.
            decimals: Decimals of the bounds.
        """
        if self.low is None or self.high is None:
            return ""
        low = self.low
        high = self.high
        if self.difference < 0:
            low = -self.high
            high = -self.low
        return f"{format_fixed(scale * low, decimals)} to {format_fixed(scale * high, decimals)}"

    def describe(self, proxy: str, quality: str = "AUC") -> str:
        """Return the comparison and its conclusion in two sentences.

        Args:
            proxy: Name of the proxy.
            quality: What the results are: accuracy, AUC or R2.
        """
        selection = f"by {self.against}"
        if self.against == "random":
            selection = "at random"
        direction = "higher" if self.difference >= 0 else "lower"
        size = f"{abs(self.difference):.1f} points"
        interval = self.format_interval()
        if quality == REGRESSION.quality_title:
            # R2 is a number, not per cent.
            size = f"{abs(self.difference) / 100:.3f}"
            interval = self.format_interval(scale=0.01, decimals=3)
        text = (
            f"On average, the {quality} of the networks selected by {proxy} is {size} {direction} "
            f"than that of the networks selected {selection}"
        )
        remarks = []
        if interval:
            remarks.append(f"95 % confidence interval {interval}")
        if self.p is not None:
            remarks.append(f"p = {self.p:.2g}")
        if self.shared:
            verb = "is" if self.shared == 1 else "are"
            remarks.append(f"{self.shared} {verb} in both groups")
        if remarks:
            text += f" ({', '.join(remarks)})"
        return f"{text}. {self._conclude(proxy)}"

    def _conclude(self, proxy: str) -> str:
        other = self.against
        if other == "random":
            other = "chance"
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return f"With so few trainings, {proxy} does not differ significantly from {other}."
        if self.low > 0:
            return f"Here {proxy} is better than {other}."
        return f"Here {proxy} is worse than {other}."


def compare_groups(first: TrainedGroup, other: TrainedGroup) -> Contrast:
    """Compare the means of two groups, with a 95 % interval and a permutation test."""
    a = first.finished_results
    b = other.finished_results
    difference = fmean(a) - fmean(b)
    low = None
    high = None
    smaller = min(len(a), len(b))
    if smaller > 1:
        standard_error = sqrt(variance(a) / len(a) + variance(b) / len(b))
        half_width = compute_t_quantile(smaller) * standard_error
        if 2 * half_width <= MAX_INTERVAL_WIDTH:
            low = difference - half_width
            high = difference + half_width
    shared = len(first.finished_archs & other.finished_archs)
    return Contrast(other.name, difference, low, high, compute_permutation_p(a, b), shared)


def compute_permutation_p(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return the p-value of a permutation test of the difference of two means.

    All values are split into two groups of the same sizes in every possible way, or in many random
    ways. The p-value is the fraction of splits in which the means differ at least as much as in the
    original groups. It is None if a group has fewer than two values.
    """
    n = len(a)
    m = len(b)
    if min(n, m) < 2:
        return None
    values = [*a, *b]
    splits: list[set[int]] = []
    if comb(n + m, n) <= MAX_SPLITS:
        splits = [set(split) for split in combinations(range(n + m), n)]
    else:
        rng = make_generator("splits", n, m)
        for _ in range(MAX_SPLITS):
            splits.append(set(rng.permutation(n + m)[:n].tolist()))
    observed = abs(fmean(a) - fmean(b))
    total = sum(values)
    extreme_count = 0
    for split in splits:
        inside = sum(values[index] for index in split)
        difference = abs(inside / n - (total - inside) / m)
        # Rounding must not exclude the observed split itself.
        if difference >= observed - 1e-9:
            extreme_count += 1
    return extreme_count / len(splits)

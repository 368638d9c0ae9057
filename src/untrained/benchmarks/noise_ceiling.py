"""The noise ceiling: how well two trainings of the same networks agree.

An accuracy depends on the seed of the training, so no proxy ranks measured accuracies perfectly,
least of all among the best networks, whose accuracies differ by less than this noise. The
correlation of a proxy with one training can exceed that of two trainings with each other, since
only one side of the comparison is noisy. If all trainings are equally noisy, a perfect proxy
reaches about the square root of the correlation of two trainings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.statistics import TOP_SHARE, count_top, orient_score, spearman
from untrained.benchmarks.table import BenchmarkTable, Metric
from untrained.formatting import format_count
from untrained.types import Arch

# With fewer networks in the top group, their correlation is meaningless.
MIN_TOP_COUNT = 10


@dataclass(frozen=True)
class NoiseCeiling:
    """Agreement of two trainings of the same networks.

    Attributes:
        count: Number of networks that were trained at least twice.
        spearman: Rank correlation of the two results.
        top_spearman: The same within the best 10 % by the mean of all trainings; None if these
            networks are too few.
    """

    count: int
    spearman: float
    top_spearman: float | None

    def describe(self) -> str:
        """Return a short explanation for the reader of a benchmark."""
        text = (
            f"Noise ceiling: two trainings of the same {self.count:,} networks have a rank "
            f"correlation of {self.spearman:.3f}"
        )
        if self.top_spearman is not None:
            text += f", and of {self.top_spearman:.2f} within the best {100 * TOP_SHARE:.0f} %"
        text += "."
        if self.spearman > 0:
            text += (
                f" Against one training, a perfect proxy could reach about "
                f"{sqrt(self.spearman):.2f}, because only one side of that comparison is noisy."
            )
        return text


def measure_noise_ceiling(
    table: BenchmarkTable, metric: Metric, archs: Sequence[Arch | str]
) -> NoiseCeiling | None:
    """Compare the first two trainings of each architecture.

    Args:
        table: The table.
        metric: The metric that proxies are compared with.
        archs: The architectures of the comparison.

    Returns:
        The agreement of the two trainings; None if the table has no results of single seeds, if
        repeated results are copies, or if the correlation is undefined.
    """
    seed_metrics = table.list_seed_metrics(metric)
    if len(seed_metrics) < 2:
        return None
    results = np.array([table.read_values(archs, seed_metric) for seed_metric in seed_metrics])
    results = orient_score(results, metric.higher_is_better)
    is_repeated = np.isfinite(results).sum(0) >= 2
    results = results[:, is_repeated]
    if _are_copies(results):
        return None
    first, second = _take_first_two(results)
    overall = spearman(first, second)
    if overall is None:
        return None
    means = np.nanmean(results, axis=0)
    top_count = count_top(len(means))
    top_spearman = None
    if top_count >= MIN_TOP_COUNT:
        best = np.argsort(-means, kind="stable")[:top_count]
        top_spearman = spearman(first[best], second[best])
    return NoiseCeiling(len(means), overall, top_spearman)


def describe_repeated_rows(table: BenchmarkTable, metric: Metric) -> str:
    """Describe the architectures with several rows in a user's table; empty if there are none.

    Args:
        table: The table.
        metric: The metric that proxies are compared with. Every row has a value of it.
    """
    seed_metrics = table.list_seed_metrics(metric)
    if len(seed_metrics) < 2:
        return ""
    results = np.array([table.read_column(seed_metric) for seed_metric in seed_metrics])
    row_counts = np.isfinite(results).sum(0)
    is_repeated = row_counts >= 2
    repeated_count = int(is_repeated.sum())
    verb = "has" if repeated_count == 1 else "have"
    owner = "its" if repeated_count == 1 else "their"
    text = (
        f"The table has {int(row_counts.sum()):,} rows; "
        f"{format_count(repeated_count, 'architecture')} {verb} several rows, whose mean is "
        f"{owner} known result."
    )
    if _are_copies(results[:, is_repeated]):
        text += (
            " The rows of an architecture are identical, so they are probably copies and not "
            "several trainings: no noise ceiling is shown."
        )
    return text


def _are_copies(results: NDArray[np.float64]) -> bool:
    """Return whether all results of each network are equal.

    Args:
        results: One row per seed and one column per network, each with at least two results; NaN
            is missing.
    """
    if not results.size:
        return False
    return bool(np.all(np.nanmax(results, axis=0) == np.nanmin(results, axis=0)))


def _take_first_two(
    results: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and the second result of each network that has at least two.

    Args:
        results: One row per seed and one column per network; NaN is missing.
    """
    # A stable sort by "is missing" moves the results of each column to its top.
    order = np.argsort(np.isnan(results), axis=0, kind="stable")
    missing_last = np.take_along_axis(results, order, axis=0)
    return missing_last[0], missing_last[1]

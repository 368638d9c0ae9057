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
        The agreement of the two trainings; None if the table has no results of single seeds, or if
        the correlation is undefined.
    """
    seed_metrics = table.list_seed_metrics(metric)
    if len(seed_metrics) < 2:
        return None
    results = np.array([table.read_values(archs, seed_metric) for seed_metric in seed_metrics])
    results = orient_score(results, metric.higher_is_better)
    is_repeated = np.isfinite(results).sum(0) >= 2
    results = results[:, is_repeated]
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

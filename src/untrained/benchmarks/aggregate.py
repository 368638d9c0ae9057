"""Combine the scores of several proxies into one, without training.

Columns are scores of the same architectures by proxy, oriented so that higher is better. NaN marks
a failed architecture. Ranks run from 1, the worst, to n, the best; failures share the lowest ranks.
This module depends on neither proxies nor networks.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from untrained.benchmarks.statistics import Floats, compute_ranks

Columns = Mapping[str, ArrayLike]


def compute_relative_ranks(column: ArrayLike) -> Floats:
    """Return rank / n, which is 1 / n for the worst and 1 for the best.

    Equal scores get the mean of their ranks, and failures get the mean of the lowest ranks.
    """
    scores = np.asarray(column, dtype=np.float64)
    with_failures_last = np.where(np.isnan(scores), -np.inf, scores)
    return compute_ranks(with_failures_last) / len(scores)


def compute_mean_ranks(columns: Columns) -> Floats:
    """Return the mean relative rank over all m columns: (1/m) sum_j rank_j / n."""
    ranks = [compute_relative_ranks(column) for column in columns.values()]
    return np.asarray(np.mean(ranks, axis=0))


def compute_rank_correlations(columns: Columns) -> Floats:
    """Return Spearman's correlation of every pair of columns, in the order of the columns.

    The correlation with a constant column is 0.
    """
    ranks = np.array([compute_relative_ranks(column) for column in columns.values()])
    n = ranks.shape[1]
    mean_rank = (n + 1) / (2 * n)
    centred = ranks - mean_rank
    norms = np.linalg.norm(centred, axis=1)[:, None]
    unit_rows = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0)
    return np.asarray(unit_rows @ unit_rows.T)


def choose_diverse_columns(columns: Columns, limit: float = 0.8) -> list[str]:
    """Choose columns that do not repeat each other.

    The agreement of a column is the sum of its correlations with all others. Columns are considered
    by decreasing agreement. A column is chosen unless its correlation with a column chosen before
    exceeds `limit`, or its own agreement is not positive.

    Args:
        columns: Scores by proxy.
        limit: Largest allowed rank correlation between two chosen columns.

    Returns:
        Names of the chosen columns, in the order in which they were chosen.
    """
    names = list(columns)
    rho = compute_rank_correlations(columns)
    total_agreement = rho.sum(1) - rho.diagonal()
    chosen_indices: list[int] = []
    for index in np.argsort(-total_agreement, kind="stable"):
        if total_agreement[index] <= 0:
            continue
        if any(rho[index][other] > limit for other in chosen_indices):
            continue
        chosen_indices.append(int(index))
    return [names[index] for index in chosen_indices]

"""Several scores made into one, without any training: ranks are added, and who says the same twice counts once.

Columns are scores by proxy of the same architectures, oriented so that higher is better; NaN is a failure, which shares
the last place. Pure functions of columns: nothing here knows what a proxy or a network is.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from untrained.benchmarks.statistics import Floats, ranks

Columns = Mapping[str, ArrayLike]


def places(column: ArrayLike) -> Floats:
    """Rank / n, 1 for the best; equal scores share the mean of their ranks, failures that of the last ones."""
    scores = np.asarray(column, dtype=np.float64)
    return ranks(np.where(np.isnan(scores), -np.inf, scores)) / len(scores)


def mean_rank(columns: Columns) -> Floats:
    """(1/m) sum_j rank_j / n"""
    return np.asarray(np.mean([places(column) for column in columns.values()], axis=0))


def agreement(columns: Columns) -> Floats:
    """Spearman of all pairs, in the order of the columns; 0 with a column in which all are equal."""
    placed = np.array([places(column) for column in columns.values()])
    n = placed.shape[1]
    spread = placed - (n + 1) / (2 * n)
    length = np.linalg.norm(spread, axis=1)
    unit = np.divide(spread, length[:, None], out=np.zeros_like(spread), where=length[:, None] > 0)
    return np.asarray(unit @ unit.T)


def weakly_correlated(columns: Columns, limit: float = 0.8) -> list[str]:
    """Which columns to add: the one that agrees most with all others first, then, in that order, every one that agrees
    with none of those taken by more than `limit`. Columns that on the whole contradict the others are left out."""
    names, rho = list(columns), agreement(columns)
    consensus = rho.sum(1) - rho.diagonal()
    taken: list[int] = []
    for place in np.argsort(-consensus, kind="stable"):
        if consensus[place] > 0 and not _repeats(rho[place], taken, limit):
            taken.append(int(place))
    return [names[place] for place in taken]


def _repeats(rho: Floats, taken: Sequence[int], limit: float) -> bool:
    return any(rho[other] > limit for other in taken)

"""Ranks, and how far rankings agree: what pages compute on their own. scipy.stats takes a second to import.

Knows nothing of proxies or pages. A missing value is NaN here, and takes no part.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
TENTH = 0.1  # the share that counts as the best
_LEAST = 3  # points below which a correlation says nothing


def ranks(values: Sequence[float] | Floats) -> Floats:
    """1, 2, 3, ...; equal values share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    shared: Floats = (np.cumsum(count) - (count - 1) / 2)[place]
    return shared


def spearman(xs: Sequence[float] | Floats, ys: Sequence[float] | Floats) -> float | None:
    """Rank correlation, or None where it says nothing: fewer than three points, or all alike."""
    if len(xs) < _LEAST or np.ptp(xs) == 0 or np.ptp(ys) == 0:
        return None
    return float(np.corrcoef(ranks(xs), ranks(ys))[0, 1])


def tenth(count: int) -> int:
    """How many the best tenth are."""
    return max(1, round(TENTH * count))


def among_best(values: Sequence[float] | Floats, k: int) -> Floats:
    """The chance of each value to be among the k highest when ties are broken at random: 1, 0, or a share of a tie."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    above = len(values) - np.cumsum(count)
    chances: Floats = np.clip((k - above) / count, 0, 1)[place]
    return chances


def agreement(columns: Sequence[Floats]) -> list[list[float | None]]:
    """Rank correlation of each column with each, on the rows that both have; a symmetric table."""
    table: list[list[float | None]] = [[None] * len(columns) for _ in columns]
    for i, a in enumerate(columns):
        for j, b in enumerate(columns[: i + 1]):
            both = np.isfinite(a) & np.isfinite(b)
            table[i][j] = table[j][i] = spearman(a[both], b[both])
    return table


def alike_together(table: Sequence[Sequence[float | None]]) -> list[int]:
    """An order of rows in which alike ones are neighbours: groups are joined by their mean likeness, the most alike
    first, turned so that their most alike ends meet."""
    likeness = np.array([[value or 0.0 for value in row] for row in table], dtype=np.float64)
    groups = [[i] for i in range(len(table))]
    while len(groups) > 1:
        pairs = [(a, b) for b in range(len(groups)) for a in range(b)]
        a, b = max(pairs, key=lambda pair: likeness[np.ix_(groups[pair[0]], groups[pair[1]])].mean())
        second, first = groups.pop(b), groups.pop(a)
        turns = [(one, two) for one in (first, first[::-1]) for two in (second, second[::-1])]
        left, right = max(turns, key=lambda turn: likeness[turn[0][-1], turn[1][0]])
        groups.append(left + right)
    return groups[0] if groups else []

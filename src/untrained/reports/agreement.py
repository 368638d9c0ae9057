"""How far rankings agree, and an order in which alike ones are neighbours: what pages compute on their own.

Knows nothing of proxies or pages. A missing value is NaN here, and takes no part.
"""

from collections.abc import Sequence

import numpy as np

from untrained.benchmarks.statistics import Floats, spearman


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

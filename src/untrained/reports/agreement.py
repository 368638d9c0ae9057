"""Rank correlations between columns of scores, and an order that puts similar columns together.

Missing scores are NaN.
"""

from collections.abc import Sequence

import numpy as np

from untrained.benchmarks.statistics import Floats, spearman


def correlate_columns(columns: Sequence[Floats]) -> list[list[float | None]]:
    """Return the symmetric matrix of Spearman correlations, on rows that both columns have."""
    matrix: list[list[float | None]] = [[None] * len(columns) for _ in columns]
    for i, first in enumerate(columns):
        for j, second in enumerate(columns[: i + 1]):
            # A proxy may fail for some architectures; only those with both scores can be compared.
            both = np.isfinite(first) & np.isfinite(second)
            correlation = spearman(first[both], second[both])
            matrix[i][j] = correlation
            matrix[j][i] = correlation
    return matrix


def order_by_similarity(matrix: Sequence[Sequence[float | None]]) -> list[int]:
    """Return an order of rows in which similar ones are neighbours.

    This is hierarchical clustering with average linkage. When two groups are joined, each may be
    reversed so that their most similar ends meet.
    """
    similarity = np.zeros((len(matrix), len(matrix)))
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            # An undefined correlation counts as no relation.
            similarity[i, j] = value or 0.0
    groups = [[i] for i in range(len(matrix))]
    while len(groups) > 1:
        a, b = _find_closest_groups(groups, similarity)
        # b is larger than a. It is removed first, so that position a stays valid.
        second = groups.pop(b)
        first = groups.pop(a)
        groups.append(_join_groups(first, second, similarity))
    if not groups:
        return []
    return groups[0]


def _find_closest_groups(groups: list[list[int]], similarity: Floats) -> tuple[int, int]:
    """Return the positions of the two groups with the highest mean similarity."""
    closest = (0, 1)
    highest = None
    for b in range(len(groups)):
        for a in range(b):
            mean = similarity[np.ix_(groups[a], groups[b])].mean()
            if highest is None or mean > highest:
                highest = mean
                closest = (a, b)
    return closest


def _join_groups(first: list[int], second: list[int], similarity: Floats) -> list[int]:
    """Return both groups as one list, each reversed if that makes similar ends meet."""
    # Only four arrangements are possible, since neighbours inside a group stay neighbours.
    best = None
    joined: list[int] = []
    for left in (first, first[::-1]):
        for right in (second, second[::-1]):
            end_similarity = similarity[left[-1], right[0]]
            if best is None or end_similarity > best:
                best = end_similarity
                joined = left + right
    return joined

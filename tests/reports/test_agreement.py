"""Correlations between proxies equal scipy's, and similar proxies are neighbours."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from untrained.reports.agreement import correlate_columns, order_by_similarity


def test_correlations_are_symmetric_and_ignore_missing_scores() -> None:
    rng = np.random.default_rng(3)
    columns = list(rng.standard_normal((4, 40)))
    columns[1][5:9] = np.nan
    columns[2][8:20] = np.nan
    columns.append(np.full(40, np.nan))
    table = correlate_columns(columns)
    for i, a in enumerate(columns[:4]):
        assert table[i][i] == pytest.approx(1.0)
        for j, b in enumerate(columns[:4]):
            both = np.isfinite(a) & np.isfinite(b)
            assert table[i][j] == pytest.approx(
                float(stats.spearmanr(a[both], b[both]).statistic), abs=1e-12
            )
            assert table[i][j] == table[j][i]
    assert table[4] == [None] * 5


def test_similar_rows_are_neighbours() -> None:
    """Three shuffled families, 0.9 within and 0.1 between; and a chain, in which all neighbours can stay neighbours."""
    families = [0, 1, 2, 1, 0, 2, 2, 0, 1, 1]
    table = [[0.9 if a == b else 0.1 for b in families] for a in families]
    ordered = [families[i] for i in order_by_similarity(table)]
    assert sum(a != b for a, b in pairwise(ordered)) == 2
    chain = [[1 - abs(i - j) / 10 for j in (3, 0, 2, 4, 1)] for i in (3, 0, 2, 4, 1)]
    assert [(3, 0, 2, 4, 1)[i] for i in order_by_similarity(chain)] in (
        [0, 1, 2, 3, 4],
        [4, 3, 2, 1, 0],
    )
    assert order_by_similarity([]) == []
    assert order_by_similarity([[None]]) == [0]

"""Ranks and agreement against scipy, and against every way to break a tie."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy import stats

from untrained.reports._ranks import agreement, alike_together, among_best, ranks, spearman


def test_ranks_and_their_correlation_are_scipys() -> None:
    xs, ys = [3.0, 1.0, 1.0, 5.0, 9.0, 2.0], [1.0, 4.0, 1.0, 5.0, 6.0, 6.0]
    assert ranks(xs).tolist() == stats.rankdata(xs).tolist()
    assert spearman(xs, ys) == pytest.approx(float(stats.spearmanr(xs, ys).statistic), abs=1e-12)


@pytest.mark.parametrize(("xs", "ys"), [([1, 2], [1, 2]), ([1] * 5, range(5)), (range(5), [2] * 5), ([], [])])
def test_nothing_can_be_said_of_too_few_or_of_equals(xs: list[float], ys: list[float]) -> None:
    assert spearman(xs, ys) is None


@pytest.mark.parametrize("k", range(1, 6))
def test_the_chance_to_be_among_the_best_is_a_share_of_all_orders(k: int) -> None:
    values = [2.0, 7.0, 7.0, 1.0, 7.0, 3.0]
    orders = [o for o in permutations(range(6)) if all(values[a] >= values[b] for a, b in pairwise(o))]
    expected = [sum(i in order[:k] for order in orders) / len(orders) for i in range(6)]
    assert among_best(values, k).tolist() == pytest.approx(expected)


def test_agreement_is_symmetric_and_leaves_out_what_is_missing() -> None:
    rng = np.random.default_rng(3)
    columns = list(rng.standard_normal((4, 40)))
    columns[1][5:9] = np.nan
    columns[2][8:20] = np.nan
    columns.append(np.full(40, np.nan))
    table = agreement(columns)
    for i, a in enumerate(columns[:4]):
        assert table[i][i] == pytest.approx(1.0)
        for j, b in enumerate(columns[:4]):
            both = np.isfinite(a) & np.isfinite(b)
            assert table[i][j] == pytest.approx(float(stats.spearmanr(a[both], b[both]).statistic), abs=1e-12)
            assert table[i][j] == table[j][i]
    assert table[4] == [None] * 5


def test_alike_rows_stand_together() -> None:
    """Three families, shuffled: 0.9 within, 0.1 between; and a chain, whose neighbours can all stay neighbours."""
    families = [0, 1, 2, 1, 0, 2, 2, 0, 1, 1]
    table = [[0.9 if a == b else 0.1 for b in families] for a in families]
    seen = [families[i] for i in alike_together(table)]
    assert sum(a != b for a, b in pairwise(seen)) == 2
    chain = [[1 - abs(i - j) / 10 for j in (3, 0, 2, 4, 1)] for i in (3, 0, 2, 4, 1)]
    assert [(3, 0, 2, 4, 1)[i] for i in alike_together(chain)] in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0])
    assert alike_together([]) == []
    assert alike_together([[None]]) == [0]

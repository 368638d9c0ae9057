"""Several scores made into one: by hand, against scipy, and where it must help."""

import numpy as np
import pytest
from scipy import stats

from untrained.benchmarks.aggregate import (
    choose_diverse_columns,
    compute_mean_ranks,
    compute_rank_correlations,
    compute_relative_ranks,
)
from untrained.benchmarks.statistics import spearman

NAN = float("nan")


def noisy(seed: int, *scales: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A truth of 500 architectures, and scores that see it through so much noise."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=500)
    return truth, {f"p{i}": truth + scale * rng.normal(size=500) for i, scale in enumerate(scales)}


def test_places():
    assert compute_relative_ranks([10, 30, 20, 40]).tolist() == [1 / 4, 3 / 4, 2 / 4, 4 / 4]
    assert compute_relative_ranks([10, 30, 30, 40]).tolist() == [1 / 4, 2.5 / 4, 2.5 / 4, 4 / 4]
    assert compute_relative_ranks([NAN, 30, NAN, -1e9]).tolist() == [1.5 / 4, 4 / 4, 1.5 / 4, 3 / 4]
    x = np.random.default_rng(0).integers(9, size=50)
    assert np.allclose(compute_relative_ranks(x), stats.rankdata(x) / 50)


def test_sums_worked_out_by_hand():
    columns = {"a": [1, 2, 3], "b": [3, 1, 2]}
    assert compute_mean_ranks(columns) == pytest.approx([(1 + 3) / 6, (2 + 1) / 6, (3 + 2) / 6])


def test_agreement_is_spearman_and_nothing_with_a_constant():
    _, columns = noisy(1, 0.5, 1.0, 3.0)
    expected = stats.spearmanr(np.stack(list(columns.values())), axis=1).statistic
    assert np.allclose(compute_rank_correlations(columns), expected)
    found = compute_rank_correlations({**columns, "constant": np.ones(500)})
    assert found[-1].tolist() == [0, 0, 0, 0]


def test_who_says_the_same_twice_counts_once():
    """Three copies of one view outvote two others unless they are recognised as one."""
    truth, columns = noisy(2, 1.5, 1.5, 1.5)
    copies = {f"copy{k}": np.exp(columns["p0"]) + k for k in range(3)}
    everybody = {**columns, **copies}
    chosen = choose_diverse_columns(everybody)
    assert len(chosen) == 3
    assert {"p1", "p2"} < set(chosen)
    diverse = compute_mean_ranks({name: everybody[name] for name in chosen})
    assert spearman(diverse, truth) > spearman(compute_mean_ranks(everybody), truth) + 0.02


def test_independent_views_are_better_together():
    truth, columns = noisy(3, 1.0, 1.0, 1.0, 1.0)
    single = max(spearman(column, truth) for column in columns.values())
    assert spearman(compute_mean_ranks(columns), truth) > single + 0.05


def test_a_view_that_contradicts_all_others_is_left_out():
    _, columns = noisy(4, 1.0, 1.0, 1.0)
    assert "against" not in choose_diverse_columns({"against": -columns["p0"], **columns})


def test_the_limit_decides_and_the_order_of_columns_does_not():
    _, columns = noisy(5, 0.3, 0.3, 2.0)
    assert len(choose_diverse_columns(columns, limit=0.99)) == 3
    assert len(choose_diverse_columns(columns, limit=0.8)) == 2
    turned = dict(reversed(columns.items()))
    assert choose_diverse_columns(turned) == choose_diverse_columns(columns)
    assert (
        choose_diverse_columns({"p0": columns["p0"]}) == []
    )  # alone there is nobody to agree with

"""Aggregates of several scores: worked examples, comparison with scipy, and cases that improve."""

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


def make_noisy_scores(seed: int, *scales: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return true values of 500 architectures, and scores with added noise of these scales."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=500)
    return truth, {f"p{i}": truth + scale * rng.normal(size=500) for i, scale in enumerate(scales)}


def test_relative_ranks_worked_out_by_hand():
    assert compute_relative_ranks([10, 30, 20, 40]).tolist() == [1 / 4, 3 / 4, 2 / 4, 4 / 4]
    assert compute_relative_ranks([10, 30, 30, 40]).tolist() == [1 / 4, 2.5 / 4, 2.5 / 4, 4 / 4]
    assert compute_relative_ranks([NAN, 30, NAN, -1e9]).tolist() == [1.5 / 4, 4 / 4, 1.5 / 4, 3 / 4]
    x = np.random.default_rng(0).integers(9, size=50)
    assert np.allclose(compute_relative_ranks(x), stats.rankdata(x) / 50)


def test_mean_ranks_worked_out_by_hand():
    columns = {"a": [1, 2, 3], "b": [3, 1, 2]}
    assert compute_mean_ranks(columns) == pytest.approx([(1 + 3) / 6, (2 + 1) / 6, (3 + 2) / 6])


def test_rank_correlations_equal_those_of_scipy_and_are_zero_for_constants():
    _, columns = make_noisy_scores(1, 0.5, 1.0, 3.0)
    expected = stats.spearmanr(np.stack(list(columns.values())), axis=1).statistic
    assert np.allclose(compute_rank_correlations(columns), expected)
    correlations = compute_rank_correlations({**columns, "constant": np.ones(500)})
    assert correlations[-1].tolist() == [0, 0, 0, 0]


def test_copies_of_a_column_count_once():
    """Three copies of one column would outweigh two others."""
    truth, columns = make_noisy_scores(2, 1.5, 1.5, 1.5)
    copies = {f"copy{k}": np.exp(columns["p0"]) + k for k in range(3)}
    all_columns = {**columns, **copies}
    diverse_names = choose_diverse_columns(all_columns)
    assert len(diverse_names) == 3
    assert {"p1", "p2"} < set(diverse_names)
    diverse = compute_mean_ranks({name: all_columns[name] for name in diverse_names})
    assert spearman(diverse, truth) > spearman(compute_mean_ranks(all_columns), truth) + 0.02


def test_the_mean_of_independent_columns_is_better_than_each():
    truth, columns = make_noisy_scores(3, 1.0, 1.0, 1.0, 1.0)
    single = max(spearman(column, truth) for column in columns.values())
    assert spearman(compute_mean_ranks(columns), truth) > single + 0.05


def test_a_column_that_contradicts_all_others_is_left_out():
    _, columns = make_noisy_scores(4, 1.0, 1.0, 1.0)
    assert "against" not in choose_diverse_columns({"against": -columns["p0"], **columns})


def test_the_choice_depends_on_the_limit_and_not_on_the_order_of_columns():
    _, columns = make_noisy_scores(5, 0.3, 0.3, 2.0)
    assert len(choose_diverse_columns(columns, limit=0.99)) == 3
    assert len(choose_diverse_columns(columns, limit=0.8)) == 2
    reordered = dict(reversed(columns.items()))
    assert choose_diverse_columns(reordered) == choose_diverse_columns(columns)
    # A single column agrees with no other.
    assert choose_diverse_columns({"p0": columns["p0"]}) == []

"""The simulation of few trainings in benchmarks/few_trainings.py: noise, methods and summaries."""

import importlib.util
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy.stats import spearmanr

PATH = Path(__file__).parents[1] / "benchmarks" / "few_trainings.py"
spec = importlib.util.spec_from_file_location("few_trainings", PATH)
few_trainings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(few_trainings)


def make_pool(count: int = 60, noise: float = 0.5):
    """Candidates whose short trainings are exact, with members that know the accuracy roughly."""
    rng = np.random.default_rng(0)
    final = rng.normal(size=count)
    percentiles = np.column_stack([final + rng.normal(size=count) for _ in few_trainings.MEMBERS])
    weights = np.ones(len(few_trainings.MEMBERS))
    consensus = percentiles @ weights
    scores = {"consensus": consensus, "dextr": rng.normal(size=count)}
    scores["trace(samples=16)"] = rng.lognormal(size=count)
    scores["ntk_condition(samples=16)"] = rng.lognormal(size=count)
    for column, member in enumerate(few_trainings.MEMBERS):
        scores[member] = percentiles[:, column]
    features = few_trainings.standardise(np.column_stack([percentiles, consensus]))
    return few_trainings.Pool(scores, percentiles, weights, features, final, final, noise)


@pytest.mark.parametrize("agreement", [0.5, 0.8, 0.95])
def test_the_noise_gives_the_requested_rank_correlation(agreement):
    rng = np.random.default_rng(0)
    values = rng.exponential(size=20_000)
    noise = few_trainings.convert_agreement_to_noise(agreement)
    disturbed = few_trainings.disturb_order(values, noise, rng)
    assert sorted(disturbed) == sorted(values)
    assert spearmanr(values, disturbed).statistic == pytest.approx(agreement, abs=0.01)


@pytest.mark.parametrize("label", few_trainings.METHODS)
def test_more_exact_trainings_never_make_a_nested_method_worse(label):
    """All methods take a candidate for every budget; those that only add trainings cannot get worse."""
    pool = make_pool()
    choices = few_trainings.METHODS[label](pool, np.random.default_rng(0))
    assert sorted(choices) == list(few_trainings.BUDGETS)
    accuracies = [pool.final[choices[budget]] for budget in few_trainings.BUDGETS]
    restarts = ("Bayesian", "halving", "calibration", "HNAS")
    if label == "surrogate: ridge, spread first" or not any(word in label for word in restarts):
        assert accuracies[1:] == sorted(accuracies[1:])


def test_the_best_of_the_trained_is_taken():
    pool = make_pool()
    choices = few_trainings.train_top("consensus")(pool, np.random.default_rng(0))
    order = sorted(range(60), key=lambda index: -pool.scores["consensus"][index])
    assert choices[0] == order[0]
    for budget in few_trainings.BUDGETS[1:]:
        assert choices[budget] == max(order[:budget], key=lambda index: pool.final[index])


def test_hnas_without_trainings_takes_the_lowest_condition_number_per_gradient():
    pool = make_pool()
    ratios = pool.scores["ntk_condition(samples=16)"] / pool.scores["trace(samples=16)"]
    choices = few_trainings.search_by_hnas(pool, np.random.default_rng(0))
    assert choices[0] == np.argmin(ratios)


def test_hnas_never_trains_a_network_without_a_kernel(monkeypatch):
    pool = make_pool()
    pool.scores["ntk_condition(samples=16)"][10:] = np.nan
    monkeypatch.setattr(few_trainings, "BUDGETS", (0, 5, 10))
    choices = few_trainings.search_by_hnas(pool, np.random.default_rng(0))
    assert max(choices.values()) < 10
    # All ten are trained.
    assert choices[10] == np.argmax(pool.short[:10])


def test_a_correction_of_zero_leaves_the_order_of_consensus():
    """Short trainings that consensus explains wholly give no reason to deviate from it."""
    pool = make_pool()
    trained = list(range(10))
    predictions = few_trainings.predict_around_consensus(pool, trained)
    assert spearmanr(predictions, pool.scores["consensus"]).statistic > 0.9


def test_the_summary_has_means_and_paired_differences():
    results = {
        "consensus": {5: {"a": [1.0, 2.0, 3.0], "b": [3.0, 4.0, 5.0]}},
        "other": {5: {"a": [2.0, 3.0, 4.0], "b": [4.0, 5.0, 8.0]}},
    }
    summary = few_trainings.summarise(results)
    means = [2.0, 3.0, 4.0]
    margin = 1.96 * stdev(means) / sqrt(3)
    assert summary["consensus"]["5"]["mean"] == pytest.approx([fmean(means), margin], abs=1e-4)
    differences = [1.0, 1.0, 2.0]
    margin = 1.96 * stdev(differences) / sqrt(3)
    expected = [fmean(differences), margin]
    assert summary["other"]["5"]["minus consensus"] == pytest.approx(expected, abs=1e-4)


def test_a_method_is_compared_on_the_families_that_it_was_run_on():
    results = {
        "consensus": {5: {"a": [1.0, 2.0], "b": [3.0, 4.0]}},
        "other": {5: {"b": [5.0, 6.0]}},
    }
    summary = few_trainings.summarise(results)
    cells = summary["other"]["5"]
    assert "mean" not in cells
    assert "minus consensus" not in cells
    assert cells["own mean"][0] == pytest.approx(5.5)
    assert cells["own minus consensus"] == pytest.approx([2.0, 0.0])


def test_hnas_is_left_out_without_kernels():
    pool = make_pool()
    assert pool.has_kernels
    pool.scores["trace(samples=16)"][:] = np.nan
    assert not pool.has_kernels

"""The noise ceiling: two trainings of the same networks, in small cases and on published tables."""

import numpy as np
import pytest
from scipy import stats

from untrained.benchmarks.noise_ceiling import measure_noise_ceiling
from untrained.benchmarks.table import BenchmarkTable, Metric

ACCURACY = Metric("accuracy", "%", True)


def make_table(by_seed: np.ndarray, higher_is_better: bool = True) -> BenchmarkTable:
    """Make a table with one column per seed, and their mean."""
    mean = Metric("accuracy", "%", higher_is_better)
    columns = {mean: np.nanmean(by_seed, axis=0)}
    for seed, values in enumerate(by_seed):
        columns[Metric("accuracy", "%", higher_is_better, variant=f"seed{seed}")] = values.copy()
    archs = tuple(f"arch{index}" for index in range(by_seed.shape[1]))
    return BenchmarkTable.make("results", "space", archs, columns)


def test_two_trainings_are_compared_over_the_sample_and_within_the_best_tenth():
    rng = np.random.default_rng(0)
    quality = rng.normal(size=300)
    by_seed = quality + 0.3 * rng.normal(size=(2, 300))
    table = make_table(by_seed)
    ceiling = measure_noise_ceiling(table, ACCURACY, table.list_archs())
    assert ceiling is not None
    assert ceiling.count == 300
    assert ceiling.spearman == pytest.approx(stats.spearmanr(*by_seed).statistic)
    best = np.argsort(-by_seed.mean(0))[:30]
    expected = stats.spearmanr(by_seed[0][best], by_seed[1][best]).statistic
    assert ceiling.top_spearman == pytest.approx(expected)
    assert ceiling.top_spearman < ceiling.spearman
    assert ceiling.describe() == (
        f"Noise ceiling: two trainings of the same 300 networks have a rank correlation of "
        f"{ceiling.spearman:.3f}, and of {expected:.2f} within the best 10 %. "
        f"Against one training, a perfect proxy could reach about {ceiling.spearman**0.5:.2f}, "
        "because only one side of that comparison is noisy."
    )
    # The best have the lowest values if lower is better.
    mirrored = make_table(-by_seed, higher_is_better=False)
    metric = Metric("accuracy", "%", higher_is_better=False)
    assert measure_noise_ceiling(mirrored, metric, mirrored.list_archs()) == ceiling


def test_the_first_two_results_of_each_network_count():
    nan = np.nan
    by_seed = np.array(
        [
            [1.0, nan, 3.0, 4.0, nan],
            [2.0, 2.0, nan, 3.0, 9.0],
            [9.0, 1.0, 5.0, nan, nan],
        ]
    )
    table = make_table(by_seed)
    ceiling = measure_noise_ceiling(table, ACCURACY, table.list_archs())
    assert ceiling is not None
    assert (ceiling.count, ceiling.top_spearman) == (4, None)
    expected = stats.spearmanr([1, 2, 3, 4], [2, 1, 5, 3]).statistic
    assert ceiling.spearman == pytest.approx(expected)
    assert "within the best" not in ceiling.describe()
    # Only the architectures of the sample count.
    some = measure_noise_ceiling(table, ACCURACY, ["arch0", "arch1", "arch2"])
    assert some is not None
    assert some.count == 3


def test_there_is_no_ceiling_without_two_trainings():
    single = make_table(np.array([[1.0, 2.0, 3.0]]))
    assert measure_noise_ceiling(single, ACCURACY, single.list_archs()) is None
    nan = np.nan
    sparse = make_table(np.array([[1.0, nan, 3.0], [nan, 2.0, nan]]))
    assert measure_noise_ceiling(sparse, ACCURACY, sparse.list_archs()) is None


@pytest.mark.data
def test_trainings_of_nasbench201_agree_as_published(load_table):
    """About 0.986 over all networks with two seeds, and about 0.60 within the best tenth."""
    table = load_table("nasbench201")
    metric = table.find_metric("cifar10_test_200")
    ceiling = measure_noise_ceiling(table, metric, table.list_archs())
    assert ceiling is not None
    assert ceiling.count == 13_400
    assert ceiling.spearman == pytest.approx(0.986, abs=0.001)
    assert ceiling.top_spearman == pytest.approx(0.60, abs=0.01)
    validation = table.find_metric("cifar10_val_200")
    assert measure_noise_ceiling(table, validation, table.list_archs()) is None


@pytest.mark.data
def test_nasbench101_has_a_ceiling(load_table):
    table = load_table("nasbench101")
    metric = table.find_metric("cifar10_test_108")
    names = [seed_metric.name for seed_metric in table.list_seed_metrics(metric)]
    assert names == [f"cifar10_test_108_seed{seed}" for seed in range(3)]
    ceiling = measure_noise_ceiling(table, metric, table.list_archs())
    assert ceiling is not None
    assert 0 < ceiling.top_spearman < ceiling.spearman < 1

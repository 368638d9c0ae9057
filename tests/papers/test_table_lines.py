"""Lines of tables from measurements: worked examples of correlations, bounds and measurements."""

from math import exp, sqrt

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kendalltau, spearmanr
from torch import nn

from tests.conftest import find_shared
from untrained.benchmarks.statistics import spearman
from untrained.data import load_data
from untrained.papers import measurements
from untrained.papers.dextr import add_authors_variants, compute_swap_reg
from untrained.papers.experiment import ExperimentConfig
from untrained.papers.hnas_bounds import (
    BoundCase,
    compute_bound,
    fit_trade_off,
    make_bound_lines,
    make_held_out_lines,
    score_held_out,
    score_scenario,
)
from untrained.papers.hnas_cells import CELLS, compute_depth, compute_width
from untrained.papers.nasi import apply_constraint, randomise_labels
from untrained.papers.samples import (
    BenchmarkTask,
    Measurements,
    find_images,
    limit_samples,
    measure_sample,
)
from untrained.papers.table_lines import (
    describe_published_scores,
    find_rank,
    make_correlation_line,
    make_correlation_table,
    make_gain_line,
    make_mean_line,
    make_proxy_row,
    parse_table,
    split_into_bins,
)
from untrained.probe import Probe
from untrained.proxies import load_proxy
from untrained.reports.reproduction_result import TableLine
from untrained.spaces import load_space
from untrained.types import Batch

nan = float("nan")


def make_scores(*rows):
    return np.array(rows, dtype=np.float64)


# --- lines ---


def test_place_is_the_number_of_better_values_plus_one():
    values = {"a": 0.9, "b": 0.7, "c": 0.9, "d": None}
    assert [find_rank(values, label) for label in "abcd"] == [1, 3, 1, None]


def test_line_is_mean_over_seeds_without_missing_scores():
    x = make_scores([1, 2, 3, nan, 5], [3, 2, 1, 0, -1])
    line = make_correlation_line("x", 0.5, spearman, x, make_scores([10, 20, 30, 40, 50]))
    # The order is perfect on the first seed and reversed on the second.
    assert line.ours == pytest.approx((1 - 1) / 2)
    assert line.spread == pytest.approx(sqrt(2))
    assert line.difference == pytest.approx(-0.5)
    assert make_correlation_line("x", None, spearman, x, x).difference is None


def test_undefined_line_has_a_note():
    line = make_correlation_line(
        "x", 0.3, spearman, make_scores([1, 1, 1]), make_scores([1, 2, 3]), "2 singular"
    )
    assert (line.ours, line.difference, line.paper_in_interval) == (None, None, None)
    assert line.note == "2 singular; not defined on this sample"


def test_gain_compares_the_same_architectures():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(1, 200))
    before = truth + rng.normal(size=(1, 200))
    expected = spearmanr(truth[0], truth[0]).statistic - spearmanr(before[0], truth[0]).statistic
    line = make_gain_line("x", spearman, truth, before, truth)
    assert line.ours == pytest.approx(expected)
    assert line.low < expected < line.high
    # Both rank equally, so every resample agrees.
    again = make_gain_line("x", spearman, 2 * before, before, truth)
    assert (again.ours, again.low, again.high) == (0, 0, 0)
    without = before.copy()
    without[0, :100] = nan
    half = (
        spearmanr(truth[0, 100:], truth[0, 100:]).statistic
        - spearmanr(before[0, 100:], truth[0, 100:]).statistic
    )
    assert make_gain_line("x", spearman, truth, without, truth).ours == pytest.approx(half)
    two = make_gain_line(
        "x", spearman, np.concatenate([truth, before]), np.concatenate([before, before]), truth
    )
    assert two.ours == pytest.approx(expected / 2)
    assert (
        make_gain_line("x", spearman, truth, 0 * before, truth).note == "not defined on this sample"
    )


def test_mean_line_has_two_standard_errors():
    line = make_mean_line("x", 5.0, make_scores([2, 4, 6, nan]))
    assert line.ours == 4
    assert line.high - line.ours == pytest.approx(1.96 * 2 / sqrt(3))
    assert line.spread is None
    assert make_mean_line("x", 1.0, make_scores([1, 2, 3], [2, 3, 4])).spread == pytest.approx(
        sqrt(0.5)
    )
    assert make_mean_line("x", 1.0, make_scores([nan, nan])).ours is None


def test_a_line_tells_whether_the_published_number_is_in_the_interval():
    assert TableLine("x", 0.5, 0.4, 0.3, 0.6).paper_in_interval is True
    assert TableLine("x", 0.5, 0.4, 0.3, 0.45).paper_in_interval is False
    assert TableLine("x", None, 0.4, 0.3, 0.45).paper_in_interval is None


def test_a_table_is_parsed_with_missing_numbers():
    assert parse_table("\na/b  0.5 -0.25\nc  - 1\n") == {"a/b": (0.5, -0.25), "c": (None, 1.0)}


def test_bins_ascend_and_omit_missing_values():
    values = np.array([5.0, nan, 1.0, 3.0, 2.0, 4.0, 0.0])
    groups = split_into_bins(values)
    assert [values[group].tolist() for group in groups] == [[0, 1, 2], [3, 4, 5]]
    assert len(split_into_bins(np.arange(1000.0))) == 20


# --- bounds ---


def test_bound_of_corollary_2_by_hand():
    M = make_scores([1, 2, 4])
    kappa = make_scores([8, 8, 8])
    assert compute_bound(M).tolist() == [[1, 0.5, 0.25]]
    assert compute_bound(M, kappa).tolist() == [[8, 4, 2]]
    # nu is the largest M^2, 16. The median of |M^2 - nu| = 15, 12, 0 is 12.
    # The median of kappa / M is 4, so mu is 4 / 12.
    assert compute_bound(M, kappa, (1.0, 1.0)) == pytest.approx(make_scores([8 + 5, 4 + 4, 2]))
    # With the square, the median of (M^2 - nu)^2 is 144.
    square = compute_bound(M, kappa, (1.0, 1.0), "square")
    assert square == pytest.approx(make_scores([8 + 225 / 36, 4 + 4, 2]))
    assert np.isnan(
        compute_bound(make_scores([1, nan, 2]), make_scores([1, 1, 1]), (0.1, 1.0))
    ).tolist() == [[False, True, False]]


def test_scenario_scores_are_higher_for_better_networks():
    M = make_scores([1, 2, 4])
    kappa = make_scores([1, 10, 100])
    assert np.argsort(score_scenario("realizable", M, kappa)).tolist() == [[0, 1, 2]]
    assert np.argsort(score_scenario("condition", M, kappa)).tolist() == [[2, 1, 0]]


def test_trade_off_is_fitted_if_the_best_are_in_the_middle():
    """Accuracy is highest for medium M, so M itself does not rank, but a bound with a suitable nu does."""
    M = make_scores(np.linspace(1, 3, 41))
    reached = -np.abs(M**2 - np.quantile(M**2, 0.5))
    kappa = np.ones_like(M)
    cases = [BoundCase("C10", {"M": M}, kappa, reached, "1 singular")]
    numbers = {f"{how}/C10": (0.5,) for how in ("realizable", "non-realizable")}
    plain, traded = make_bound_lines(cases, cases[0], numbers, statistics=("Spearman",))
    assert abs(plain.ours) < 0.6
    assert traded.ours > 0.95
    assert fit_trade_off(M, kappa, reached)[1] == pytest.approx(0.5)
    assert (plain.what, plain.note, traded.note) == ("realizable, C10, M", "", "1 singular")


def test_without_base_every_row_has_its_own_trade_off():
    M = make_scores(np.linspace(1, 3, 41))
    low, high = (
        BoundCase(f"at {q}", {"M": M}, np.ones_like(M), -np.abs(M**2 - np.quantile(M**2, q)))
        for q in (0.25, 0.75)
    )
    numbers = {f"trade-off/at {q}": (0.5,) for q in (0.25, 0.75)}
    borrowed = make_bound_lines([low, high], low, numbers, ("trade-off",), ("Spearman",))
    own = make_bound_lines([low, high], None, numbers, ("trade-off",), ("Spearman",))
    assert [each.ours > 0.95 for each in borrowed] == [True, False]
    assert [each.ours > 0.95 for each in own] == [True, True]


@pytest.mark.parametrize("last", [False, True])
def test_dead_network_is_omitted_or_ranked_last_and_failed_one_is_omitted(last):
    M = make_scores([1.0, 2.0, 4.0, np.nan, 3.0])
    reached = make_scores([70.0, 60.0, 90.0, 10.0, 20.0])
    # The fourth is dead, the last has a singular kernel.
    kappa = make_scores([1.0, 1.0, 1.0, np.nan, np.nan])
    numbers = {f"{how}/C10": (0.5,) for how in ("realizable", "condition")}
    case = BoundCase("C10", {"M": M}, kappa, reached, rank_failures_last=last)
    plain, condition = make_bound_lines(
        [case], case, numbers, ("realizable", "condition"), ("Spearman",)
    )
    if last:
        expected = spearmanr([1, 2, 4, 0, 3], [70, 60, 90, 10, 20]).statistic
        expected_condition = spearmanr([1, 2, 4, 0], [70, 60, 90, 10]).statistic
    else:
        expected = spearmanr([1, 2, 4, 3], [70, 60, 90, 20]).statistic
        expected_condition = spearmanr([1, 2, 4], [70, 60, 90]).statistic
    assert plain.ours == pytest.approx(expected)
    assert condition.ours == pytest.approx(expected_condition)


def test_held_out_bound_is_fitted_to_the_other_half():
    """Accuracy is highest for medium M; every half shows it, so a bound fitted to one ranks the other."""
    rng = np.random.default_rng(0)
    M = make_scores(rng.uniform(1, 3, 200))
    kappa = np.ones_like(M)
    reached = -np.abs(M**2 - np.quantile(M**2, 0.5))
    scores = score_held_out("non-realizable", M, kappa, reached)
    judged = np.isfinite(scores[0])
    assert judged.sum() == 100
    assert spearmanr(scores[0][judged], reached[0][judged]).statistic > 0.95
    # The accuracies of the judged half are not seen.
    shuffled = reached.copy()
    shuffled[0, judged] = rng.permutation(shuffled[0, judged])
    again = score_held_out("non-realizable", M, kappa, shuffled)
    assert again == pytest.approx(scores, nan_ok=True)
    # The same half is held out for every metric.
    other = score_held_out("trade-off", 2 * M, kappa, reached)
    assert np.array_equal(np.isfinite(other[0]), judged)


def test_held_out_lines_have_both_forms_of_the_bound():
    M = make_scores(np.linspace(1, 3, 40))
    case = BoundCase("C10", {"M": M}, np.ones_like(M), M)
    numbers = {f"{how}/C10": (0.5,) for how in ("trade-off", "non-realizable")}
    lines = make_held_out_lines([case], numbers)
    assert [line.what for line in lines] == [
        "trade-off, C10, M, Spearman, held out",
        "non-realizable, C10, M, Spearman, held out",
        "trade-off, C10, M, Spearman, square, held out",
        "non-realizable, C10, M, Spearman, square, held out",
    ]
    assert all(line.alternative and line.published == 0.5 for line in lines)


# --- derived scores ---


def test_failures_rank_last_only_if_that_is_the_rule():
    scores = {"a": make_scores([3, nan, 1]), "b": make_scores([1, 2, nan])}
    for last in (False, True):
        measured = Measurements(scores, {}, {}, rank_failures_last=last)
        ranked = measured.rank_failures(scores["a"] * 10, "a", "b")
        # The second has no score by a, the third none by b; 10 is the lowest of the others.
        expected = [[30, 9, 9]] if last else [[30, nan, 10]]
        assert ranked == pytest.approx(np.array(expected), nan_ok=True)


def make_measurements(**columns):
    return Measurements(
        {name: make_scores(values) for name, values in columns.items()},
        {name: {} for name in columns},
        {},
    )


def test_swap_reg_prefers_large_networks():
    swap_reg = compute_swap_reg(make_measurements(swap=[10, 10, 10], params=[1e6, 2e6, 3e6]))
    sigma = (4e12 + 1e12 + 0) / 3
    assert swap_reg == pytest.approx(
        make_scores([10 * exp(-4e12 / sigma), 10 * exp(-1e12 / sigma), 10])
    )


def test_nasi_constraint_is_its_mean():
    assert np.isnan(apply_constraint(make_measurements(nasi_batch=[1, 2, 9]))).tolist() == [
        [False, False, True]
    ]


def test_published_variant_follows_ours():
    rows = add_authors_variants(
        [make_proxy_row("a", "zico", (1,)), make_proxy_row("b", "dextr", (2,))], "dextr"
    )
    assert [(each.label, each.proxies) for each in rows] == [
        ("a", ("zico",)), ("b", ("dextr",)), ("b, authors' code", ("dextr(variant=published)",)),
    ]  # fmt: skip


def test_trial_limits_the_samples_of_a_proxy():
    assert limit_samples("zico", None) == "zico"
    assert limit_samples("dextr", 4) == "dextr"
    assert (
        load_proxy(limit_samples("trace(reading=fixed)", 4)).label
        == "trace(reading=fixed,samples=4)"
    )


@pytest.mark.parametrize(
    ("name", "wide", "deep"),
    [("NASNet", 5, 2), ("AmoebaNet", 4, 4), ("DARTS", 3.5, 3), ("DEEP", 1.5, 5)],
)
def test_width_and_depth_of_cells(name, wide, deep):
    assert (compute_width(CELLS[name].normal), compute_depth(CELLS[name].normal)) == (wide, deep)


def test_random_labels_keep_the_images():
    source = load_data("digits", load_space("nasbench201").task)
    other = randomise_labels(source)
    assert torch.equal(other.batch(64).inputs, source.batch(64).inputs)
    assert (other.batch(64).targets == source.batch(64).targets).double().mean() < 0.4
    assert torch.equal(other.batch(8).targets, other.batch(64).targets[:8])


# --- measures ---


def make_linear(weight: list[list[float]]) -> nn.Module:
    layer = nn.Linear(len(weight[0]), len(weight), bias=False)
    layer.weight.data = torch.tensor(weight)
    return nn.Sequential(layer, nn.ReLU())


def test_share_of_large_layers_by_hand():
    """The layers have the outputs (3, 0.1) and (3, 0), which are large.

    With a tenth of the weights neither is. Containers count with `which=modules`.
    """
    image = Batch(torch.ones(1, 1), torch.zeros(1).long())
    for factor, share in ((1.0, 1.0), (0.1, 0.0)):
        model = make_linear([[3.0 * factor], [0.1 * factor]])
        assert measurements.share_of_large_layers(Probe(model, image)) == share
    mixed = nn.Sequential(make_linear([[0.5], [0.1]]), make_linear([[0.0, 0.0], [40.0, 0.0]]))
    assert measurements.share_of_large_layers(Probe(mixed, image)) == 0.5
    modules = load_proxy(f"{measurements.MODULE_NAME}:share_of_large_layers(which=modules)")
    # The last block and the whole network have the output of the last ReLU.
    assert modules(Probe(mixed, image)) == pytest.approx(4 / 7)


def test_initialisations_have_the_variance_of_their_rule():
    shape = torch.Size((8, 4, 3, 3))
    for how, variance in (("lecun", 1 / 36), ("xavier", 2 / 108), ("he", 2 / 36)):
        assert measurements.compute_initial_std(shape, how) == pytest.approx(sqrt(variance))


def test_initialisation_does_not_change_the_network():
    model = nn.Sequential(nn.Linear(3, 500), nn.ReLU(), nn.Linear(500, 2))
    before = [p.clone() for p in model.parameters()]
    batch = Batch(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    name = f"{measurements.MODULE_NAME}:with_initialisation(metric=l2_norm,rule="
    he = load_proxy(f"{name}he)")(Probe(model, batch))
    lecun = load_proxy(f"{name}lecun)")(Probe(model, batch))
    assert he / lecun == pytest.approx(sqrt(2))  # the same draws, twice the variance
    assert lecun == pytest.approx(sqrt(1500 / 3) + sqrt(1000 / 500), rel=0.1)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


def test_circle_of_linear_network_is_an_ellipse():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 5))
    path = measurements.project_circle_outputs(
        Probe(model, Batch(torch.randn(1, 3, 64, 64), torch.zeros(1).long())), points=8
    )
    assert path.shape == (8, 3)
    assert torch.allclose(path[:4], -path[4:], atol=1e-6)  # opposite angles, opposite outputs
    assert torch.allclose(path[:, 2], torch.zeros(8).double(), atol=1e-6)  # in a plane


# --- on a real table ---


@pytest.mark.data
def test_parameters_and_correlations_equal_the_table(data_root, run_folder):
    """Our `params` has the order of the column of the table, and correlations equal those of scipy."""
    config = ExperimentConfig(30, 1, run_folder, data_root=data_root)
    task = BenchmarkTask("NB201", dataset="cifar100")
    sample = measure_sample(config, ["params"], task)
    params = sample.truth.table.read_values(sample.truth.archs, "cifar100_params")
    assert spearmanr(sample["params"][0], params)[0] == pytest.approx(1)
    result = make_correlation_table(
        config, [task], [make_proxy_row("size", "params", (0.73, 0.55))], ("Spearman", "Kendall")
    )
    reached = sample.truth.table.read_values(sample.truth.archs, "cifar100_test_200")
    assert result.lines[0].ours == pytest.approx(spearmanr(params, reached)[0])
    assert result.lines[1].ours == pytest.approx(kendalltau(params, reached)[0])
    values = [(each.what, each.published) for each in result.lines]
    assert values == [("NB201, size, Spearman", 0.73), ("NB201, size, Kendall", 0.55)]
    assert "networks see digits and have 10 outputs" in result.deviations[0]
    assert np.array_equal(sample.read_accuracies_on("cifar100"), sample.accuracies)
    assert not np.array_equal(sample.read_accuracies_on("cifar10"), sample.accuracies)


@pytest.mark.data
def test_other_scores_of_the_table_are_in_the_note(data_root, run_folder):
    """Compared with the file that the table was imported from, which has no scores of `random`."""
    config = ExperimentConfig(3, 1, run_folder, data_root=data_root)
    task = BenchmarkTask("Scene", "transnas_micro", "class_scene")
    sample = measure_sample(config, ["random"], task)
    source = pd.read_csv(find_shared("data", "transnasbench101", "tnb101_micro_full.csv.gz"))
    scene = source[source.task == "class_scene"]
    expected = spearmanr(scene.synflow, scene.val_accuracy)[0]
    assert (
        describe_published_scores(sample, "synflow", spearman)
        == f"published scores {expected:.2f} (n = {len(scene):,})"
    )
    assert describe_published_scores(sample, "random", spearman) == ""


@pytest.mark.data
def test_sample_of_named_architectures_with_space_options(data_root, run_folder):
    cell = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|"
    config = ExperimentConfig(3, 1, run_folder, data_root=data_root)
    whole, half = (
        measure_sample(
            config,
            ["params"],
            BenchmarkTask("", f"nasbench201(channels={width})", "cifar10"),
            [cell],
        )
        for width in (16, 8)
    )
    assert whole["params"].tolist() == [[1_531_546.0]]
    assert half["params"][0, 0] < whole["params"][0, 0] / 3
    assert whole.truth.values == half.truth.values


def test_images_are_found_in_a_file_named_after_the_data_set(tmp_path):
    assert find_images("cifar100", tmp_path) is None
    np.savez(tmp_path / "cifar100.npz", x=np.zeros((4, 32, 32, 3), np.uint8), y=np.arange(4))
    assert find_images("cifar100", tmp_path) == f"npz:{tmp_path}/cifar100.npz"

"""Proxies that read forward passes, blocks and size, on networks small enough to work out: expected values from numpy.

Those that read gradients are in `test_proxies_gradients.py`; the authors' values on real networks in `golden/`.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log, pi, sqrt

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import kstest, rankdata
from torch import Tensor, nn

from tests.records import make_record
from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.proxies import aznas, load_proxy
from untrained.proxies.zen import amplification
from untrained.runs.aggregates import compute_aggregates
from untrained.types import Arch, Batch, Failure, Task

Array = NDArray[np.float64]


def score(name: str, model: nn.Module, inputs: Tensor, seed: int = 0) -> float:
    return load_proxy(name)(
        Probe(model, Batch(inputs, torch.zeros(len(inputs), dtype=torch.long)), seed=seed)
    )


def make_images(samples: int, channels: int = 3, side: int = 4) -> Tensor:
    return torch.randn(
        samples,
        channels,
        side,
        side,
        generator=torch.Generator().manual_seed(6),
        dtype=torch.float64,
    )


def make_network(*layers: nn.Module) -> nn.Sequential:
    """A network of float64 with its own random weights."""
    model = nn.Sequential(*layers).double()
    draw = torch.Generator().manual_seed(9)
    for p in model.parameters():
        p.data = torch.randn(p.shape, generator=draw, dtype=torch.float64)
    return model


HEAD = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3))


# ----------------------------------------------------------------------------------------------------- activation codes


def make_two_layers() -> tuple[nn.Module, Tensor, list[Array]]:
    """A convolution and a linear layer, each with a ReLU behind; the codes of six samples."""
    model = make_network(
        nn.Conv2d(3, 5, 1), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4), nn.ReLU(), nn.Linear(4, 3)
    )
    x = make_images(6)
    W1, b1, W2, b2 = (p.detach().numpy() for p in list(model.parameters())[:4])
    first = np.einsum("oi,nihw->nohw", W1[:, :, 0, 0], x.numpy()) + b1[:, None, None]
    second = np.maximum(first, 0).reshape(6, -1) @ W2.T + b2
    return model, x, [first.reshape(6, -1) > 0, second > 0]


def test_naswot_counts_the_neurons_on_which_two_samples_agree():
    model, x, codes = make_two_layers()
    z = np.concatenate(codes, 1)
    K = (z[:, None] == z[None]).sum(-1)
    assert score("naswot", model, x) == pytest.approx(np.linalg.slogdet(K)[1], rel=1e-12)
    assert K[0, 0] == 84


def test_naswot_reads_the_sign_before_any_nonlinearity():
    model, x, _ = make_two_layers()
    expected = score("naswot", model, x)
    model[4] = nn.Tanh()
    assert score("naswot", model, x) == expected
    model[4] = nn.GELU()
    assert score("naswot", model, x) == expected


class Gate(nn.Module):
    """Multiplies by the sigmoid of a parameter, which has no samples."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1, 5, 1, 1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 * self.gate.sigmoid()


@pytest.mark.parametrize("name", ["naswot", "swap", "te_nas_regions"])
def test_codes_do_not_contain_learned_gates(name):
    """The gate multiplies by 1, so it changes no other code."""
    model, x, _ = make_two_layers()
    gated = nn.Sequential(model[0], Gate(), *model[1:])
    assert score(name, gated, x) == score(name, model, x)


def test_swap_counts_patterns_of_neurons_of_feature_maps_across_samples():
    model, x, codes = make_two_layers()
    patterns = len(np.unique(codes[0].T, axis=0))  # the linear layer is no feature map
    assert patterns < len(np.unique(np.concatenate(codes, 1).T, axis=0))
    assert score("swap", model, x) == patterns
    assert score("swap", model[3:], torch.rand(6, 80).double()) <= 4  # of all where there are none


def test_swap_reg_prefers_networks_of_a_given_size():
    model, x, codes = make_two_layers()
    thousands = (3 * 5 + 5 + 80 * 4 + 4 + 4 * 3 + 3) / 1000
    expected = len(np.unique(codes[0].T, axis=0)) * exp(-((thousands - 0.5) ** 2) / 0.02)
    assert score("swap_reg(mu=0.5,sigma=0.02)", model, x) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(Unscorable, match="unsupported"):
        score("swap_reg(mu=1000.0,sigma=1.0)", model, x)


def test_te_nas_regions_counts_samples_with_different_codes():
    model = make_network(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():  # kinks at -1 and 1: three linear regions
        model[0].weight.copy_(torch.tensor([[1.0], [1.0]]))
        model[0].bias.copy_(torch.tensor([1.0, -1.0]))
    x = torch.tensor([[-3.0], [-2.0], [-0.5], [0.0], [0.5], [4.0]], dtype=torch.float64)
    assert score("te_nas_regions", model, x) == 3
    assert score("te_nas_regions", model, x[:4]) == 2
    with pytest.raises(Unscorable, match="singular"):
        score("naswot", model, x)


# ------------------------------------------------------------------------------------------------------------- channels


def sum_correlations(matrix: Array) -> float:
    return float(np.linalg.eigvalsh(np.corrcoef(matrix))[0])


def make_conv_net() -> tuple[nn.Module, Tensor]:
    return make_network(
        nn.Conv2d(3, 5, 3, padding=1), nn.BatchNorm2d(5), nn.GELU(), *HEAD
    ), make_images(1)


class FixedSize(nn.Module):
    """Raises an error for inputs of 64x64 pixels, the size of the circle of Dextr."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.layers = make_network(nn.Conv2d(3, 5, 3), nn.Tanh(), *HEAD)
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] == 64:
            raise self.error
        return self.layers(x)


def test_dextr_has_a_circle_of_the_size_of_the_data_only_if_the_network_requires_it():
    """Otherwise a machine with little memory would silently compute another score."""
    x = make_images(1, side=32)
    fixed = FixedSize(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert score("dextr_curvature", fixed, x) > 0
    for error in (torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("out of memory")):
        with pytest.raises(type(error), match="out of memory"):
            score("dextr_curvature", FixedSize(error), x)


def test_meco_sums_the_smallest_eigenvalues_of_channel_correlations():
    model, x = make_conv_net()
    with torch.no_grad():
        maps = [model.train()[: k + 1](x)[0].reshape(5, -1).numpy() for k in range(3)]
    lowest = [sum_correlations(m) for m in maps]
    assert lowest[0] == pytest.approx(lowest[1])  # a norm changes no correlation
    assert score("meco", model, x) == pytest.approx(sum(lowest), rel=1e-9)
    assert score("meco", nn.Sequential(model[:3], *model[3:]), x) == pytest.approx(
        sum(lowest), rel=1e-9
    )
    repeated = score("meco(variant=published)", nn.Sequential(model[:3], *model[3:]), x)
    # A container repeats the output of its last child.
    assert repeated == pytest.approx(sum(lowest) + lowest[2], rel=1e-9)


@pytest.mark.parametrize("name", ["meco", "meco_opt", "dextr_conditions", "near"])
@pytest.mark.parametrize("side", [1, 4])
def test_a_feature_map_that_is_not_finite_is_a_failure(name, side):
    """Also if the output is finite, and if there are more channels than positions."""
    model = make_network(nn.Conv2d(3, 5, 1), nn.Tanh(), *HEAD)
    with torch.no_grad():
        model[0].bias[0] = float("inf")
    x = make_images(1, side=side)
    assert model(x).isfinite().all()
    with pytest.raises(Unscorable, match="nan: a feature map is not finite"):
        score(name, model, x)


def test_meco_is_zero_for_more_channels_than_positions():
    """Centred rows of n positions span n - 1 dimensions, so that n rows are linearly dependent."""
    wide = torch.randn(9, 9, dtype=torch.float64)
    lowest = sum_correlations(wide.numpy())
    assert lowest == pytest.approx(0, abs=1e-12)
    # The convolution returns 9 channels of 3 x 3 positions, and so does the identity behind it.
    model = make_network(
        nn.Conv2d(3, 9, 3), nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(9, 3)
    )
    assert score("meco", model, make_images(1, side=5)) == pytest.approx(0, abs=1e-12)


def test_a_constant_channel_has_no_correlation_with_any():
    model, x = make_conv_net()
    with torch.no_grad():
        model[0].weight[2] = 0
    assert score("meco", model, x) == 0


@pytest.mark.parametrize("channels", [5, 8, 64])
def test_with_all_channels_the_sampled_proxies_equal_the_full_ones(channels):
    """Layers of five channels, outputs of three: nothing is left out, so nothing is scaled."""
    model, x = make_conv_net()
    for sampled, full in (("meco_opt", "meco"), ("dextr_opt", "dextr")):
        assert score(f"{sampled}(channels={channels})", model, x) == pytest.approx(
            score(full, model, x), rel=1e-9
        )


@pytest.mark.parametrize("channels", [2, 4, 8])
def test_meco_opt_scales_by_width_over_sampled_channels(channels):
    """Uncorrelated channels: any of them have the correlation matrix I, so a layer is worth C / c."""
    hadamard = np.array([[(-1) ** (i & j).bit_count() for j in range(16)] for i in range(16)])
    x = torch.from_numpy(hadamard[1:9].reshape(1, 8, 4, 4)).double()  # rows of mean zero
    model = nn.Sequential(nn.Identity(), nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert score("meco", model, x) == pytest.approx(2)
    assert score(f"meco_opt(channels={channels})", model, x) == pytest.approx(2 * 8 / channels)


def test_dextr_opt_scales_by_width_over_sampled_channels():
    """Orthogonal channels of one norm: r = 1 for any of them, A = ln(1 + sum_l C / c), and B as in Dextr."""
    x = torch.eye(16, dtype=torch.float64)[:8].reshape(1, 8, 4, 4)
    model = nn.Sequential(
        nn.Identity(), nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), Wave()
    )
    B = score("dextr_curvature", model, x)
    A = log(1 + 2 * 8 / 4 + 3 * 8 / 4)  # two maps; then columns, pooled, flat and waved: r = 1
    assert score("dextr_opt(channels=4)", model, x) == pytest.approx(A * B / (A + B), rel=1e-9)


def test_the_radius_of_the_text_is_the_root_of_the_number_of_inputs():
    """The output of a linear network moves on an ellipse of R times the size: kappa is 1 / R of the other."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4)).double()
    x = torch.randn(1, 3, 2, 2, dtype=torch.float64)
    kappa = exp(score("dextr_curvature", model, x)) - 1
    large_kappa = exp(score("dextr_curvature(radius=text)", model, x)) - 1
    assert large_kappa == pytest.approx(kappa / sqrt(12), rel=1e-9)
    A = score("dextr_conditions", model, x)
    B = log(1 + large_kappa)
    assert score("dextr(radius=text)", model, x) == pytest.approx(A * B / (A + B), rel=1e-9)


class Wave(nn.Module):
    """A nonlinearity, so that the output has a curvature."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(x)


# ------------------------------------------------------------------------------------------------------------------ zen


def make_norm_net() -> nn.Module:
    return make_network(
        nn.Conv2d(3, 4, 1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 5, 3),
        nn.BatchNorm2d(5),
        *HEAD,
    )


@pytest.mark.parametrize("variant", ["default", "published"])
def test_zen_corrects_for_the_variances_of_norms(variant):
    """Torch's own batch norm gives both: its divisor, and its running variance after the two inputs."""
    model = make_norm_net()
    x = make_images(8)
    there = x + 0.01 * make_images(8).flip(0)
    ours = amplification(
        Probe(model, Batch(x, x)).with_inputs(x),
        Probe(model, Batch(x, x)).with_inputs(there),
        variant,
    )
    trunk = model[:5].train()
    with torch.no_grad():
        first = model[0](x)
        here = trunk(x)
        second = model[3](
            model[2](
                nn.functional.batch_norm(first, None, None, *model[1].parameters(), training=True)
            )
        )
        delta = (here - trunk(there)).abs().sum((1, 2, 3)).mean()
    divided = [map_.var((0, 2, 3), unbiased=False).mean() for map_ in (first, second)]
    running = [norm.running_var.mean() for norm in (model[1], model[4])]
    scale = sum(0.5 * float(v.log()) for v in (divided if variant == "default" else running))
    assert ours == pytest.approx(float(delta.log()) + scale, rel=1e-9)


@pytest.mark.parametrize("gamma", [0.01, 0.1])
def test_zen_draws_gaussian_weights_and_inputs(gamma):
    """One channel behind a norm: the norm cancels, and what stays is gamma sum over positions of |w . e|, which for
    Gaussian w of n entries is gamma P sqrt(n) sqrt(2 / pi), P positions."""
    n = 2000
    P = 16
    model = nn.Sequential(
        nn.Conv2d(n, 1, 1), nn.BatchNorm2d(1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    x = torch.zeros(16, n, 4, 4)
    zen_score = score(f"zen(gamma={gamma},repeats=4)", model, x)
    assert zen_score == pytest.approx(log(gamma * P * sqrt(n) * sqrt(2 / pi)), abs=0.05)
    with torch.no_grad():
        model[0].weight.mul_(100)
    # Neither the weights nor the inputs matter.
    assert score(f"zen(gamma={gamma},repeats=4)", model, x + 1) == zen_score
    assert score(f"zen(gamma={gamma},repeats=4)", model, x, seed=1) != zen_score


# --------------------------------------------------------------------------------------------------------------- blocks


def make_two_blocks(*factors: float) -> nn.Module:
    """1x1 convolutions whose matrices are multiples of a rotation; each a block of its own."""
    rotation = torch.linalg.qr(
        torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    )[0]
    convs = [nn.Conv2d(4, 4, 1, bias=False).double() for _ in factors]
    for conv, factor in zip(convs, factors, strict=True):
        conv.weight.data = factor * rotation[:, :, None, None]
    trunk = nn.Sequential(*(nn.Sequential(conv, nn.Identity()) for conv in convs))
    return nn.Sequential(trunk, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def compute_entropies(maps: Sequence[Tensor]) -> list[float]:
    entropies = []
    for f in maps:
        covariance = np.cov(f.movedim(1, -1).reshape(-1, f.shape[1]).numpy().T, bias=True)
        p = np.linalg.eigvalsh(covariance) / np.trace(covariance)
        entropies.append(float(-(p * np.log(p + 1e-8)).sum()))
    return entropies


def test_az_expressivity_and_progressivity_are_entropies_of_channel_covariances():
    mixed = make_network(
        nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()), nn.Sequential(nn.Conv2d(5, 6, 1), nn.ReLU())
    )
    model = nn.Sequential(mixed, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = make_images(7)
    with torch.no_grad():
        s = compute_entropies([x, mixed[0](x), mixed(x)])
    assert score("az_expressivity", model, x) == pytest.approx(sum(s), rel=1e-9)
    assert score("az_progressivity", model, x) == pytest.approx(
        min(b - a for a, b in pairwise(s)), rel=1e-9
    )


@pytest.mark.parametrize("factors", [(1.5, 1.5), (0.25, 3.0), (1.0, 1.0)])
def test_az_trainability_is_how_far_spectral_norms_are_from_one(factors):
    """g_in^T g_out / P = W^T (g_out^T g_out / P), and the second factor tends to I: P = 16,384 random signs."""
    expected = np.mean([2 - c - 1 / c for c in factors])
    assert score(
        "az_trainability", make_two_blocks(*factors), make_images(16, 4, 32)
    ) == pytest.approx(expected, abs=0.05)


def test_a_block_that_returns_its_input_is_unsupported():
    model = make_two_blocks(2.0, 2.0)
    model[0][1] = nn.Sequential(nn.Identity(), nn.Identity())
    with pytest.raises(Unscorable, match="unsupported"):
        score("az_trainability", model, make_images(16, 4, 8))


def test_the_az_nas_score_is_the_sum_of_log_ranks():
    views = draw_columns(aznas.MEMBERS)
    expected = sum(np.log(rankdata(column) / 12) for column in views.values())
    np.testing.assert_allclose(compute_aggregate("az_nas", views), expected, rtol=1e-12)
    failed = {**views, "az_trainability": [None, None, *views["az_trainability"][2:]]}
    others = {name: column[2:] for name, column in views.items()}
    assert compute_aggregate("az_nas", failed) == [None, None, *compute_aggregate("az_nas", others)]


def test_the_te_nas_score_is_the_sum_of_ranks_where_a_low_condition_number_is_good():
    views = draw_columns(("te_nas_condition", "te_nas_regions"))
    condition, regions = (np.array(column) for column in views.values())
    expected = (rankdata(-condition) + rankdata(regions)) / 12
    np.testing.assert_allclose(compute_aggregate("te_nas", views), expected, rtol=1e-12)


def draw_columns(names: Sequence[str]) -> dict[str, list[float | None]]:
    """Draw scores of twelve candidates with six different values, so that there are ties."""
    draw = np.random.default_rng(0)
    return {name: draw.integers(0, 6, 12).astype(float).tolist() for name in names}


def compute_aggregate(name: str, views: dict[str, list[float | None]]) -> list[float | None]:
    task = Task("noise", (3, 8, 8), 5)
    records = []
    for part, column in views.items():
        for i, value in enumerate(column):
            arch = Arch("made up", (("i", i),), str(i))
            error = Failure("unsupported") if value is None else None
            records.append(make_record(arch, load_proxy(part).measure, task, 0, value, error))
    return [record.value for record in compute_aggregates(records, load_proxy(name))]


# ------------------------------------------------------------------------------------------------ size, sums and chance


class Branches(nn.Module):
    """Two paths from input to output, of one and of `longer` layers; a third path is not used."""

    def __init__(self, longer: int) -> None:
        super().__init__()
        self.short = nn.Linear(4, 4)
        self.long = nn.Sequential(
            *(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(longer))
        )
        self.nowhere = nn.Sequential(*(nn.Linear(4, 4) for _ in range(9)))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.nowhere(x)
        return self.head(self.short(x) + self.long(x))


@pytest.mark.parametrize("longer", [0, 1, 3])
def test_depth_is_the_longest_path(longer):
    assert score("depth", Branches(longer), torch.randn(2, 4)) == max(1, longer) + 1


def test_depth_counts_matrices_not_norms_or_functions():
    assert score("depth", make_norm_net(), make_images(2)) == 3
    assert score("depth", nn.Sequential(nn.ReLU(), nn.Flatten()), make_images(2)) == 0
    shared = nn.Linear(3, 3)
    # A layer that is used twice counts twice.
    assert score("depth", nn.Sequential(shared, nn.ReLU(), shared), torch.randn(2, 3)) == 2


def test_the_harmonic_mean_is_high_if_both_scores_are():
    """A linear layer 5 -> 3: 18 parameters, 15 multiply-adds."""
    layer = nn.Linear(5, 3)
    x = torch.randn(2, 5)
    assert score("harmonic_mean(a=params,b=flops)", layer, x) == pytest.approx(
        2 * 18 * 15 / (18 + 15)
    )
    assert score("harmonic_mean(a=flops,b=flops)", layer, x) == pytest.approx(15)
    with pytest.raises(UsageError, match="higher is better"):
        score("harmonic_mean(a=params,b=ntk_condition)", layer, x)
    with pytest.raises(Unscorable, match="positive"):
        score("harmonic_mean(a=params,b=depth)", nn.Sequential(nn.Flatten(), nn.PReLU()), x)


def test_random_depends_on_the_network_and_the_seed_alone():
    x = torch.randn(2, 3)
    scores = []
    for seed in range(200):
        torch.manual_seed(seed)
        model = nn.Linear(3, 2)
        scores.append(score("random", model, x))
        assert score("random", model, x) == scores[-1]
    assert len(set(scores)) == 200
    assert kstest(scores, "uniform").pvalue > 0.01
    assert score("random", model, x, seed=1) != scores[-1]

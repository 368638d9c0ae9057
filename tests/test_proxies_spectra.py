"""`vkdnw`, `near` and `wrcor` on small networks: expected values from loops over samples and layers, in float64.

Nothing here uses a probe for the expected values. The Fisher information itself is tested in
`probe/test_fisher.py`.
"""

from collections.abc import Callable
from itertools import pairwise
from math import log

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.proxies import load_proxy
from untrained.types import Batch

Array = NDArray[np.float64]
D = torch.float64


def make_network(*layers: nn.Module, seed: int = 9) -> nn.Sequential:
    """Make a network of float64 with random weights, those of norms included."""
    model = nn.Sequential(*layers).double()
    draw = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        p.data = torch.randn(p.shape, generator=draw, dtype=D)
    return model


def make_batch(*shape: int, classes: int = 3, seed: int = 6) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(*shape, generator=draw, dtype=D)
    return Batch(inputs, torch.randint(classes, shape[:1], generator=draw))


def score(name: str, model: nn.Module, batch: Batch, seed: int = 0) -> float:
    return load_proxy(name)(Probe(model, batch, seed=seed))


# --------------------------------------------------------------------------------------------------------------- VKDNW


def make_deep_network() -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels, next_channels in pairwise([3, 4, 5, 4]):
        layers += [nn.Conv2d(channels, next_channels, 3, padding=1), nn.GroupNorm(1, next_channels)]
        layers += [nn.SiLU()]
    return make_network(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def compute_fisher(model: nn.Module, batch: Batch) -> Array:
    """Return the Fisher information of the first entry of every parameter by one backward pass per sample and class."""
    parameters = list(model.parameters())
    information = np.zeros((len(parameters), len(parameters)))
    for x in batch.inputs:
        log_p = model(x[None])[0].log_softmax(0)
        for c in range(len(log_p)):
            gradients = torch.autograd.grad(log_p[c], parameters, retain_graph=True)
            s = np.array([gradient.flatten()[0].item() for gradient in gradients])
            information += log_p[c].exp().item() * np.outer(s, s) / len(batch)
    return information


def compute_decile_entropy(information: Array) -> float:
    deciles = np.percentile(np.linalg.eigvalsh(information), range(10, 100, 10))
    q = deciles / deciles.sum()
    return float(-(q * np.log(q)).sum())


def test_vkdnw_is_the_entropy_of_the_deciles_of_the_fisher_information():
    model = make_deep_network()
    batch = make_batch(9, 3, 5, 5)
    expected = compute_decile_entropy(compute_fisher(model, batch))
    assert score("vkdnw", model, batch) == pytest.approx(expected, rel=1e-8)
    # three convolutions and a linear layer
    assert score("vkdnw(variant=single)", model, batch) == pytest.approx(4 + expected, rel=1e-8)


def test_vkdnw_counts_trainable_layers_only():
    model = make_deep_network()
    model[0].requires_grad_(False)
    batch = make_batch(9, 3, 5, 5)
    entropy = score("vkdnw", model, batch)
    assert score("vkdnw(variant=single)", model, batch) == pytest.approx(3 + entropy)


def test_vkdnw_is_the_logarithm_of_nine_for_equal_eigenvalues():
    """Ten weights, each of which is the logit of an event of its own."""
    inputs = torch.eye(10, dtype=D)
    probe = Probe(Gains(), Batch(inputs, inputs), loss="bce")
    assert load_proxy("vkdnw")(probe) == pytest.approx(log(9), rel=1e-12)


class Gains(nn.Module):
    """Multiplies every input with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(1, dtype=D)) for _ in range(10))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x[:, k] * gain for k, gain in enumerate(self.gains)], 1)


@pytest.mark.parametrize("weights", [2, 5, 9, 11])
def test_vkdnw_reads_the_first_parameters(weights):
    """The network has 14 parameters."""
    model = make_deep_network()
    batch = make_batch(9, 3, 5, 5)
    expected = compute_decile_entropy(compute_fisher(model, batch)[:weights, :weights])
    assert score(f"vkdnw(weights={weights})", model, batch) == pytest.approx(expected, rel=1e-8)


def test_vkdnw_counts_weights_without_information_as_zero_eigenvalues():
    model = DeadBranch(make_deep_network())
    batch = make_batch(9, 3, 5, 5)
    information = compute_fisher(model, batch)
    assert (information[:2] == 0).all()
    expected = compute_decile_entropy(information)
    assert score("vkdnw", model, batch) == pytest.approx(expected, rel=1e-8)
    assert expected != pytest.approx(compute_decile_entropy(information[2:, 2:]), rel=1e-2)


class DeadBranch(nn.Module):
    """Adds a branch that is multiplied by zero."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Conv2d(3, 3, 3).double()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x) + 0 * self.branch(x).mean((2, 3))


def test_vkdnw_of_one_informative_direction_is_a_failure():
    """One sample and two classes give one direction, less than a tenth of all."""
    model = make_network(*(nn.Linear(4, 4) for _ in range(8)), nn.Linear(4, 2))
    with pytest.raises(Unscorable) as caught:
        score("vkdnw", model, make_batch(1, 4, classes=2))
    assert caught.value.kind == "singular"


def test_vkdnw_has_at_most_1024_weights():
    with pytest.raises(UsageError, match="weights must be"):
        load_proxy("vkdnw(weights=2000)")


def test_vkdnw_of_many_classes_is_close_to_the_exact_value():
    """With 40 outputs, 16 random combinations per seed scatter around the entropy of the exact matrix."""
    model = make_network(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 40))
    batch = make_batch(12, 6, classes=40)
    expected = compute_decile_entropy(compute_fisher(model, batch))
    scores = [score("vkdnw", model, batch, seed) for seed in range(40)]
    assert np.std(scores) > 0
    assert np.mean(scores) == pytest.approx(expected, abs=0.1)


# ---------------------------------------------------------------------------------------------------------------- NEAR


def compute_effective_rank(matrix: Array) -> float:
    s = np.linalg.svd(matrix, compute_uv=False)
    p = s[s > 0] / s.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def test_near_sums_the_effective_ranks_before_and_after_nonlinearities():
    """As many samples as the widest layer has outputs, so that all rows are read in narrow and wide layers."""
    model = make_network(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    batch = make_batch(8, 6)
    x = batch.inputs
    expected = 0.0
    for layer in model:
        x = layer(x)
        expected += compute_effective_rank(x.detach().numpy())
    assert score("near", model, batch) == pytest.approx(expected, rel=1e-6)


def list_windows(rows: Array, count: int, line: int) -> list[Array]:
    """Return all matrices of `count` contiguous rows that start at the beginning of a line."""
    starts = range(0, len(rows) - count + 1, line)
    return [rows[start : start + count] for start in starts]


def test_near_reads_contiguous_rows_of_feature_maps():
    """A convolution of four channels on maps of 3x3: four rows of 9 per sample, from a random line."""
    model = make_network(nn.Conv2d(2, 4, 1))
    batch = make_batch(3, 2, 3, 3)
    rows = []
    for feature_map in model(batch.inputs).detach().numpy():
        for line in range(3):
            for place in range(3):
                rows.append(feature_map[:, line, place])
    possible = [compute_effective_rank(window) for window in list_windows(np.array(rows), 4, 3)]
    seen = set()
    for seed in range(60):
        value = score("near", model, batch, seed)
        distances = [abs(value - rank) for rank in possible]
        assert min(distances) < 1e-6
        seen.add(int(np.argmin(distances)))
    assert seen == set(range(len(possible)))


def test_near_counts_weights_and_nonlinearities_but_no_other_modules():
    layers = [nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4)]
    expected = score("near", make_network(*layers), make_batch(4, 4))
    before = [nn.Identity(), layers[0], nn.Dropout()]
    after = [layers[1], nn.Unflatten(1, (2, 2)), nn.Flatten(), layers[2]]
    model = nn.Sequential(nn.Sequential(*before), nn.Sequential(*after))
    assert score("near", model, make_batch(4, 4)) == pytest.approx(expected, rel=1e-9)


def test_near_reads_channels_where_layers_have_them():
    """Tokens have features on the last axis, images on the second: the same numbers give the same matrices."""
    weight = torch.randn(5, 5, generator=torch.Generator().manual_seed(3), dtype=D)
    linear = make_network(nn.Linear(5, 5, bias=False), nn.Tanh())
    linear[0].weight.data = weight
    convolution = make_network(nn.Conv2d(5, 5, 1, bias=False), nn.Tanh())
    convolution[0].weight.data = weight[:, :, None, None]
    batch = make_batch(4, 5, 3, 2)
    tokens = Batch(batch.inputs.movedim(1, -1).contiguous(), batch.targets)
    expected = score("near", convolution, batch)
    assert score("near", linear, tokens) == pytest.approx(expected, rel=1e-9)


def test_near_counts_two_relus_of_the_same_tensor_once():
    model = make_network(TwoRelus(), nn.Linear(4, 4))
    batch = make_batch(4, 4)
    x = model[0].layer(batch.inputs).detach()
    rectified = x.clamp_min(0)
    last = model[1](2 * rectified).detach()
    expected = sum(compute_effective_rank(X.numpy()) for X in (x, rectified, last))
    assert score("near", model, batch) == pytest.approx(expected, rel=1e-6)


class TwoRelus(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.left = nn.ReLU()
        self.right = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        return self.left(x) + self.right(x)


@pytest.mark.parametrize("width", [1, 3, 7])
def test_near_reads_a_limited_number_of_channels(width):
    model = make_network(nn.Linear(6, 7))
    batch = make_batch(3, 6)
    rows = model(batch.inputs).detach().numpy()[:, :width]
    if width == 1:
        assert score("near(width=1)", model, batch) == pytest.approx(1)
    else:
        expected = compute_effective_rank(rows)
        assert score(f"near(width={width})", model, batch) == pytest.approx(expected, rel=1e-6)


def test_the_effective_rank_of_zeros_is_zero():
    model = make_network(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    batch = make_batch(4, 4)
    expected = score("near", nn.Sequential(model[0]), batch)
    model[1] = nn.Threshold(
        1e9, 0.0
    )  # everything becomes zero, and the last layer returns its bias
    x = model(batch.inputs).detach().numpy()
    assert compute_effective_rank(x) == pytest.approx(1)
    with pytest.raises(Unscorable, match="disconnected"):
        score("near", model, batch)
    residual = nn.Sequential(model[0], nn.Threshold(1e9, 0.0), AddInput(batch.inputs))
    assert score("near", residual, batch) == pytest.approx(expected, rel=1e-6)


class AddInput(nn.Module):
    """Adds the inputs of the network, so that its output depends on them."""

    def __init__(self, inputs: Tensor) -> None:
        super().__init__()
        self.inputs = inputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inputs[: len(x)]


# --------------------------------------------------------------------------------------------------------------- WRCor


class Cell(nn.Module):
    """ReLU, convolution, batch norm, and a second nonlinearity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.conv(F.relu(x))).tanh()


class CellNetwork(nn.Module):
    """A stem, three cells, and a last ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.cells = nn.Sequential(*(Cell(4) for _ in range(3)))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(self.stem(x)).relu().mean((2, 3)))


def run_by_hand(model: CellNetwork, x: Tensor) -> tuple[list[tuple[int, Tensor]], Tensor]:
    """Return the inputs of all nonlinearities, each with the number of complete cells, and the outputs."""
    responses = []
    x = model.stem(x)
    for place, cell in enumerate(model.cells):
        responses.append((place, x))
        convolved = cell.conv(F.relu(x))
        mean = convolved.mean((0, 2, 3), keepdim=True)
        variance = convolved.var((0, 2, 3), keepdim=True, unbiased=False)
        normed = (convolved - mean) / (variance + cell.norm.eps).sqrt()
        normed = normed * cell.norm.weight[:, None, None] + cell.norm.bias[:, None, None]
        responses.append((place, normed))
        x = x + normed.tanh()
    responses.append((len(model.cells), x))
    return responses, model.head(F.relu(x).mean((2, 3)))


def test_wrcor_is_the_log_determinant_of_weighted_correlations():
    model = CellNetwork()
    make_network(model)
    batch = make_batch(7, 3, 6, 6)
    responses, outputs = run_by_hand(model, batch.inputs)
    loss = F.cross_entropy(outputs, batch.targets)
    gradients = torch.autograd.grad(loss, [tensor for _, tensor in responses])
    K = np.zeros((7, 7))
    for (place, tensor), gradient in zip(responses, gradients, strict=True):
        for response in (tensor, gradient):
            rows = response.detach().flatten(1).numpy()
            K += 2**place * np.abs(np.corrcoef(rows))
    assert len(responses) == 7
    assert score("wrcor", model, batch) == pytest.approx(np.linalg.slogdet(K)[1], rel=1e-9)


def test_wrcor_of_a_network_without_cells_counts_every_layer_as_a_block():
    model = make_network(
        nn.Linear(5, 6), nn.ReLU(inplace=True), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)
    )
    batch = make_batch(6, 5)
    first = batch.inputs @ model[0].weight.T + model[0].bias
    second = first.clamp_min(0) @ model[2].weight.T + model[2].bias
    outputs = second.tanh() @ model[4].weight.T + model[4].bias
    loss = F.cross_entropy(outputs, batch.targets)
    g1, g2 = torch.autograd.grad(loss, [first, second])
    K = np.zeros((6, 6))
    for weight, response in ((2, first), (2, g1), (4, second), (4, g2)):
        rows = response.detach().numpy()
        # A ReLU may pass no gradient for a sample.
        if (rows.std(1) > 0).all():
            K += weight * np.abs(np.corrcoef(rows))
    assert score("wrcor", model, batch) == pytest.approx(np.linalg.slogdet(K)[1], rel=1e-9)


@pytest.mark.parametrize("place", [0, 1])
def test_wrcor_leaves_out_responses_that_are_constant_for_a_sample(place: int):
    """The first sample is zero, so that its first response is constant; biases make the second one vary."""
    model = make_network(
        nn.Linear(5, 6, bias=False), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)
    )
    batch = make_batch(6, 5)
    batch.inputs[place] = 0
    first = batch.inputs @ model[0].weight.T
    second = first.tanh() @ model[2].weight.T + model[2].bias
    loss = F.cross_entropy(second.tanh() @ model[4].weight.T + model[4].bias, batch.targets)
    g1, g2 = torch.autograd.grad(loss, [first, second])
    K = np.zeros((6, 6))
    for weight, response in ((2, g1), (4, second), (4, g2)):
        K += weight * np.abs(np.corrcoef(response.detach().numpy()))
    assert score("wrcor", model, batch) == pytest.approx(np.linalg.slogdet(K)[1], rel=1e-9)


def test_wrcor_of_equal_samples_is_singular():
    model = make_network(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
    batch = make_batch(6, 5)
    equal = Batch(batch.inputs[:1].repeat(6, 1), torch.zeros(6).long())
    with pytest.raises(Unscorable) as caught:
        score("wrcor", model, equal)
    assert caught.value.kind == "singular"


def test_wrcor_of_a_deep_network_does_not_overflow():
    """2^1500 is not a float64 number."""
    blocks: list[Callable[[], nn.Module]] = [lambda: nn.Linear(4, 4), nn.Tanh]
    layers = [make() for _ in range(1500) for make in blocks]
    model = nn.Sequential(*layers, nn.Linear(4, 3)).double()
    for layer in model[::2]:
        nn.init.orthogonal_(layer.weight)
        nn.init.zeros_(layer.bias)
    value = score("wrcor", model, make_batch(4, 4))
    assert value == pytest.approx(4 * 1500 * log(2), rel=0.05)

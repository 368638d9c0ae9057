"""Proxies that read gradients, on networks small enough to differentiate by hand: expected values come from numpy.

f(x) = W x + b with cross entropy: with p = softmax(f(x)) and e the label's unit vector, sample i has the loss gradient
g_i = (p_i - e_i) (x_i, 1)^T, the Jacobian I (x) (x_i, 1)^T, and the Hessian by which `hessian_gradient` multiplies.
"""

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tests.contracts.trace import capture_state, list_changes
from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.proxies import load_proxy
from untrained.proxies.pruning import weight_gradients
from untrained.spaces import load_space
from untrained.types import Batch

Array = NDArray[np.float64]
INPUTS = 5
CLASSES = 3
SAMPLES = 8


def score(name: str, model: nn.Module, batch: Batch, loss: str = "cross_entropy") -> float:
    return load_proxy(name)(Probe(model, batch, loss=loss))


def make_random_batch(
    samples: int = SAMPLES, inputs: int = INPUTS, classes: int = CLASSES
) -> Batch:
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(samples, inputs, generator=draw, dtype=torch.float64)
    return Batch(x, torch.arange(samples) * 7 % classes)


# ----------------------------------------------------------------------------------------------------- one linear layer


@dataclass
class Softmax:
    """The linear model on a batch, computed with numpy."""

    W: Array
    b: Array
    x: Array
    y: NDArray[np.int64]

    @property
    def p(self) -> Array:
        exp = np.exp(self.x @ self.W.T + self.b)
        return exp / exp.sum(1, keepdims=True)

    @property
    def residual(self) -> Array:
        """p - e, (samples, classes)"""
        return self.p - np.eye(len(self.W))[self.y]

    @property
    def g(self) -> Array:
        """Loss gradients by (W, b), (samples, classes, inputs + 1)."""
        return self.residual[:, :, None] * np.append(self.x, np.ones((len(self.x), 1)), 1)[:, None]

    @property
    def gw(self) -> Array:
        """Gradient of the mean loss by W."""
        return self.g.mean(0)[:, :-1]

    @property
    def theta(self) -> Array:
        return np.append(self.W, self.b[:, None], 1)

    @property
    def loss(self) -> float:
        return float(-np.log(self.p[np.arange(len(self.y)), self.y]).mean())

    @property
    def kernel(self) -> Array:
        """Tangent kernel of the label outputs: (x, 1) . (x', 1) within a class, 0 between classes."""
        return (self.y[:, None] == self.y) * (self.x @ self.x.T + 1)

    def hessian_gradient(self) -> Array:
        """H g over W: the derivative of gw along gw."""
        moved = self.x @ self.gw.T  # (samples, classes): how the outputs move
        dp = self.p * moved - self.p * (self.p * moved).sum(1, keepdims=True)
        return dp.T @ self.x / len(self.x)

    def part(self, start: int, stop: int) -> "Softmax":
        return Softmax(self.W, self.b, self.x[start:stop], self.y[start:stop])


@pytest.fixture
def linear() -> tuple[nn.Module, Batch, Softmax]:
    torch.manual_seed(5)
    model = nn.Linear(INPUTS, CLASSES).double()
    batch = make_random_batch()
    W, b = (p.detach().numpy() for p in model.parameters())
    return model, batch, Softmax(W, b, batch.inputs.numpy(), batch.targets.numpy())


def compute_norm(x: Array) -> float:
    return float(np.linalg.norm(x))


def compute_condition(K: Array) -> float:
    eigenvalues = np.linalg.eigvalsh(K)
    return float(eigenvalues[-1] / eigenvalues[0])


CLOSED_FORMS = {
    "grad_norm": lambda s: compute_norm(s.gw),
    "grad": lambda s: compute_norm(s.g.mean(0)),
    "snip": lambda s: np.abs(s.W * s.gw).sum(),
    "snip(variant=per_sample)": lambda s: np.abs((s.g * s.theta).sum((1, 2))).mean(),
    "plain": lambda s: (s.W * s.gw).sum(),
    "grasp": lambda s: -(s.W * s.hessian_gradient()).sum(),
    "fisher": lambda s: (
        INPUTS * (((s.x @ s.W.T + s.b) * s.residual / SAMPLES) ** 2).mean(0).sum() / 2
    ),
    "l2_norm": lambda s: compute_norm(s.W),
    "nasi_batch": lambda s: (s.g.mean(0) ** 2).sum(),
    "nasi_samples": lambda s: (s.g**2).sum(),
    "ntk_trace": lambda s: CLASSES * ((s.x**2).sum(1) + 1).sum(),
    "trace": lambda s: sqrt(((s.x**2).sum(1) + 1).mean()),
    "knas": lambda s: sqrt(abs(s.kernel.mean())),
    "ntk_condition": lambda s: compute_condition(s.kernel),
    "gradsign": lambda s: np.abs(np.sign(s.g).sum(0)).sum(),
    "te_nas_condition(samples=4)": lambda s: compute_condition(s.x[:4] @ s.x[:4].T + 1),
    "te_nas_condition(variant=published,samples=4)": lambda s: compute_condition(
        s.x[:4] @ s.x[:4].T
    ),  # no "weight" in a bias
    "synflow": lambda s: np.abs(s.W).sum(),  # dR/dW is the input, ones
    "logsynflow": lambda s: np.abs(s.W).sum() * log(2),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_on_a_linear_layer_the_score_is_its_closed_form(name, linear):
    model, batch, by_hand = linear
    assert score(name, model, batch) == pytest.approx(float(CLOSED_FORMS[name](by_hand)), rel=1e-9)


def compute_zico(parts: list[Softmax]) -> float:
    g = np.stack([part.gw for part in parts])
    return float(np.log((np.abs(g).mean(0) / g.std(0)).sum()))


def test_zico_is_mean_over_spread_of_the_batches(linear):
    model, batch, s = linear
    assert score("zico", model, batch) == pytest.approx(
        compute_zico([s.part(0, 4), s.part(4, 8)]), rel=1e-9
    )


@pytest.mark.parametrize(
    ("options", "l1", "l2", "l3"),
    [
        ("", 1, 1, 0),
        (",l2=0.0", 1, 0, 0),
        (",l2=50.0,l3=1.0", 1, 50, 1),
        (",l1=0.5,l2=2.0,l3=3.0", 0.5, 2, 3),
    ],
)
def test_frozen_sigeo_is_equation_7_with_the_same_weights_for_all_batches(
    linear, options, l1, l2, l3
):
    model, batch, s = linear
    parts = [s.part(2 * k, 2 * k + 2) for k in range(4)]
    fisher_rao = np.mean([(s.W * part.gw).sum() ** 2 for part in parts])
    expected = l1 * compute_zico(parts) + l2 * log(fisher_rao) - l3 * parts[-1].loss
    assert score(f"sigeo(variant=frozen{options})", model, batch) == pytest.approx(
        expected, rel=1e-9
    )


# From appendix E of the paper.
PRESETS = {
    "zero-shot": (1, 1, 0),
    "vision": (1, 50, 1),
    "recommendation": (1, 1, 1),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_weights_of_sigeo_have_presets(linear, preset):
    model, batch, _ = linear
    l1, l2, l3 = PRESETS[preset]
    assert score(f"sigeo(preset={preset})", model, batch) == score(
        f"sigeo(l1={l1},l2={l2},l3={l3})", model, batch
    )


@pytest.mark.parametrize("name", ["zico", "sigeo"])
def test_a_spread_between_batches_needs_two_batches(name):
    with pytest.raises(UsageError, match=rf"{name}\(batches=1\): batches must be .* from 2 to"):
        load_proxy(f"{name}(batches=1)")


def test_zico_is_the_special_case_of_frozen_sigeo(linear):
    model, batch, _ = linear
    two_batches = score("sigeo(variant=frozen,l2=0,l3=0,batches=2)", model, batch)
    assert two_batches == score("zico", model, batch)
    four_batches = score("sigeo(variant=frozen,preset=vision,l2=0,l3=0)", model, batch)
    assert four_batches == score("zico(batches=4)", model, batch)


def test_on_nasbench201_the_fisher_rao_norm_comes_from_three_shared_layers():
    """A batch norm cancels the scale of the weights before it, so weights . gradient is 0 there."""
    space = load_space("nasbench201(channels=8,cells=1)")
    draw = torch.Generator().manual_seed(0)
    arch = space.parse(
        "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"
    )
    with random_state(0):
        model = space.build(arch, space.task).double()
    batch = Batch(torch.randn(8, 3, 32, 32, generator=draw, dtype=torch.float64), torch.arange(8))
    probe = Probe(model, batch)
    products = {
        name: float((probe.weights[name] * g).sum()) for name, g in weight_gradients(probe).items()
    }
    # Stem, three cells, two residual blocks, classifier
    assert len(products) == 1 + 3 * 3 + 2 * 3 + 1
    nonzero_names = [name for name, product in products.items() if abs(product) > 1e-4]
    assert nonzero_names == [
        "cells.1.downsample.1.weight",
        "cells.3.downsample.1.weight",
        "classifier.weight",
    ]


def test_sigeo_uses_the_weights_of_the_model(linear):
    """With other weights, as after a warm-up, the score is ln FR - L_k of those weights."""
    model, batch, s = linear
    parts = [replace(s, W=2 * s.W).part(2 * k, 2 * k + 2) for k in range(4)]
    with torch.no_grad():
        model.weight.mul_(2)
    fisher_rao = np.mean([(part.W * part.gw).sum() ** 2 for part in parts])
    sigeo_score = score("sigeo(variant=frozen,preset=recommendation,l1=0)", model, batch)
    assert sigeo_score == pytest.approx(log(fisher_rao) - parts[-1].loss, rel=1e-9)


def test_sigeo_notebook_variant_sums_gradients_before_the_absolute_value(linear):
    model, batch, s = linear
    parts = [s.part(4 * k, 4 * k + 4) for k in range(2)]
    fisher_rao = abs((s.W * sum(part.gw for part in parts)).sum()) + 1e-5
    expected = compute_zico(parts) + log(fisher_rao)
    assert score("sigeo(variant=notebook,batches=2)", model, batch) == pytest.approx(
        expected, rel=1e-9
    )


# -------------------------------------------------------------------------------------- SiGeo along a path of weights


def make_network_with_norm() -> nn.Module:
    """A small network in train mode whose batch norm has buffers that are not the initial ones."""
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Linear(INPUTS, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, CLASSES)
    ).double()
    model[1].running_mean.normal_()
    model[0].weight.grad = torch.randn_like(model[0].weight)
    return model


def compute_moving_terms(batch: Batch, batches: int, step: float) -> tuple[float, float, float]:
    """Return ZiCo, the Fisher-Rao norm and the last loss by a plain training loop.

    The i-th gradient is taken at theta_i, the norm at theta_k.
    """
    model = make_network_with_norm().train()
    optimiser = torch.optim.SGD(model.parameters(), lr=step)
    weights = [model[0].weight, model[3].weight]
    size = len(batch) // batches
    gradients = []
    for k in range(batches):
        if k > 0:
            optimiser.step()
        optimiser.zero_grad()
        rows = slice(k * size, (k + 1) * size)
        loss = nn.functional.cross_entropy(model(batch.inputs[rows]), batch.targets[rows])
        loss.backward()
        gradients.append([weight.grad.clone() for weight in weights])
    zico = 0.0
    for layer in range(2):
        g = np.stack([by_layer[layer].numpy() for by_layer in gradients])
        zico += log((np.abs(g).mean(0) / g.std(0)).sum())
    # The model stands at theta_k: there is no step after the last batch.
    products = []
    for by_layer in gradients:
        products.append(
            sum(
                float((weight.detach() * g).sum())
                for weight, g in zip(weights, by_layer, strict=True)
            )
        )
    return zico, float(np.mean(np.square(products))), loss.item()


@pytest.mark.parametrize("step", [0.1, 0.5])
@pytest.mark.parametrize("batches", [2, 4])
def test_sigeo_takes_a_gradient_step_between_batches(batches, step):
    batch = make_random_batch(samples=16)
    zico, fisher_rao, loss = compute_moving_terms(batch, batches, step)
    expected = 0.5 * zico + 2 * log(fisher_rao) - 3 * loss
    options = f"batches={batches},step={step},l1=0.5,l2=2.0,l3=3.0"
    moving = score(f"sigeo({options})", make_network_with_norm(), batch)
    assert moving == pytest.approx(expected, rel=1e-9)
    frozen = score(f"sigeo(variant=frozen,{options})", make_network_with_norm(), batch)
    assert frozen != pytest.approx(expected, rel=1e-3)


def test_the_default_step_of_sigeo_is_a_tenth():
    batch = make_random_batch(samples=16)
    zico, fisher_rao, _ = compute_moving_terms(batch, 4, 0.1)
    sigeo_score = score("sigeo", make_network_with_norm(), batch)
    assert sigeo_score == pytest.approx(zico + log(fisher_rao), rel=1e-9)


def test_sigeo_with_steps_of_size_0_is_the_frozen_variant():
    batch = make_random_batch(samples=16)
    model = make_network_with_norm()
    for preset in PRESETS:
        moving = score(f"sigeo(step=0,preset={preset})", model, batch)
        assert moving == score(f"sigeo(variant=frozen,preset={preset})", model, batch)


def test_sigeo_restores_the_network_and_does_not_affect_other_proxies():
    batch = make_random_batch(samples=16)
    model = make_network_with_norm()
    names = (
        "sigeo(variant=frozen)",
        "zico",
        "grad_norm",
        "snip",
        "grasp",
        "nasi_batch",
        "l2_norm",
        "ntk_trace",
    )
    alone = {name: score(name, model, batch) for name in names}
    before = capture_state(model)
    moving = score("sigeo", model, batch)
    for moving_first in (True, False):
        probe = Probe(model, batch)
        if moving_first:
            assert load_proxy("sigeo")(probe) == moving
        assert {name: load_proxy(name)(probe) for name in names} == alone
        assert load_proxy("sigeo")(probe) == moving
    assert list_changes(before, capture_state(model)) == set()


def test_moving_weights_make_the_fisher_rao_norm_see_layers_before_a_batch_norm():
    """With fixed weights their products with the gradients are 0."""
    batch = make_random_batch(samples=16)
    probe = Probe(make_network_with_norm(), batch)
    for parts, sees_layer in (
        (probe.parts(4), False),
        (probe.parts_with_gradient_steps(4, 0.1), True),
    ):
        theta = parts[-1].weights["0.weight"]
        products = [float((theta * part.gradients["0.weight"]).sum()) for part in parts]
        # The epsilon of the norm leaves a small rest.
        assert any(abs(product) > 1e-3 for product in products) == sees_layer


def test_a_step_that_leaves_the_numbers_is_reported():
    batch = make_random_batch(samples=16)
    model = nn.Sequential(nn.Linear(INPUTS, CLASSES), nn.Linear(CLASSES, CLASSES)).float()
    batch = Batch(batch.inputs.float() * 1e15, batch.targets)
    with pytest.raises(Unscorable) as caught:
        score("sigeo(step=1000000)", model, batch)
    assert caught.value.kind == "nan"


def test_sigeo_refuses_a_negative_step():
    with pytest.raises(UsageError, match="step must be a number from 0 to 1e\\+06"):
        load_proxy("sigeo(step=-0.1)")


METRICS = ("grad", "grad_norm", "snip", "grasp", "trace", "knas", "fisher", "synflow")


@pytest.mark.parametrize("metric", METRICS)
def test_hnas_is_condition_over_metric_plus_distance_from_a_target(linear, metric):
    model, batch, s = linear
    kappa = compute_condition(s.kernel)
    M = abs(float(CLOSED_FORMS[metric](s)))
    mu = 0.3
    nu = 0.7
    values = {
        f"hnas(metric={metric})": kappa / M,
        f"hnas(metric={metric},mu={mu},nu={nu})": kappa / M + mu * abs(M**2 - nu),
        f"hnas(metric={metric},mu={mu},nu={nu},variant=published)": kappa / (M + 1e-6)
        + mu * abs(M**2 - nu**2),
        # The text of the paper: F(x) = x^2t with t = 1.
        f"hnas(metric={metric},mu={mu},nu={nu},variant=square)": kappa / M + mu * (M**2 - nu) ** 2,
    }
    for name, expected in values.items():
        assert score(name, model, batch) == pytest.approx(expected, rel=1e-9)


def test_other_losses_have_their_own_gradients(linear):
    """Mean squared error, (1 / classes) sum_c (f_c - t_c)^2, has the residual 2 (f - t) / classes."""
    model, batch, s = linear
    t = np.linspace(-1, 1, SAMPLES * CLASSES).reshape(SAMPLES, CLASSES)
    r = 2 * (s.x @ s.W.T + s.b - t) / CLASSES
    g = r[:, :, None] * np.append(s.x, np.ones((SAMPLES, 1)), 1)[:, None]
    real = Batch(batch.inputs, torch.from_numpy(t))
    assert score("nasi_batch", model, real, "mse") == pytest.approx(
        (g.mean(0) ** 2).sum(), rel=1e-9
    )
    assert score("nasi_samples", model, real, "mse") == pytest.approx((g**2).sum(), rel=1e-9)
    assert score("trace", model, real, "mse") == pytest.approx(  # no label: the sum of the outputs
        sqrt(CLASSES * ((s.x**2).sum(1) + 1).mean()), rel=1e-9
    )


def test_a_singular_kernel_is_a_failure(linear):
    model, batch, _ = linear
    twice = Batch(batch.inputs[[0, 1, 0]], batch.targets[[0, 1, 0]])
    for name in ("ntk_condition", "te_nas_condition", "hnas"):
        with pytest.raises(Unscorable, match="singular"):
            score(name, model, twice)


# ----------------------------------------------------------------------------------------------------- one hidden layer


def make_mlp(classes: int, hidden: int = 7) -> tuple[nn.Module, Array, Array, Array, Array]:
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(INPUTS, hidden), nn.ReLU(), nn.Linear(hidden, classes)).double()
    return model, *(p.detach().numpy() for p in model.parameters())


def compute_input_gradients(W1: Array, b1: Array, W2: Array, x: Array) -> Array:
    """Return the gradients of the summed outputs, 1^T W2 diag(W1 x + b1 > 0) W1, one row per sample."""
    return (W2.sum(0) * (x @ W1.T + b1 > 0)) @ W1


def test_jacob_cov_reads_the_eigenvalues_of_correlations_of_input_gradients():
    model, W1, b1, W2, _ = make_mlp(CLASSES)
    batch = make_random_batch(4)
    v = np.linalg.eigvalsh(np.corrcoef(compute_input_gradients(W1, b1, W2, batch.inputs.numpy())))
    expected = -(np.log(v + 1e-5) + 1 / (v + 1e-5)).sum()
    assert score("jacob_cov", model, batch) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("classes", [3, 100, 101])
def test_epe_nas_compares_input_gradients_within_a_class(classes):
    """Up to a hundred classes: the sum of |s_c|; more: all differences, each s_c divided by its number of samples."""
    model, W1, b1, W2, _ = make_mlp(classes)
    batch = make_random_batch(9, classes=3)
    rows = compute_input_gradients(W1, b1, W2, batch.inputs.numpy())
    y = batch.targets.numpy()
    counts = np.array([(y == c).sum() for c in range(3)])
    s = np.array([np.log(np.abs(np.corrcoef(rows[y == c])) + 1e-5).sum() for c in range(3)])
    many = sum(abs(a - b) for a in s / counts for b in s / counts) / 3
    assert score("epe_nas", model, batch) == pytest.approx(
        np.abs(s).sum() if classes <= 100 else many, rel=1e-9
    )


def test_fisher_weights_each_channel_by_its_fan_in():
    model, W1, b1, W2, b2 = make_mlp(CLASSES)
    batch = make_random_batch()
    a1 = batch.inputs.numpy() @ W1.T + b1
    a2 = np.maximum(a1, 0) @ W2.T + b2
    d2 = Softmax(W2, b2, np.maximum(a1, 0), batch.targets.numpy()).residual / SAMPLES
    d1 = (d2 @ W2) * (a1 > 0)
    expected = INPUTS * ((a1 * d1) ** 2).mean(0).sum() / 2 + 7 * ((a2 * d2) ** 2).mean(0).sum() / 2
    assert score("fisher", model, batch) == pytest.approx(expected, rel=1e-9)


def test_per_sample_proxies_read_all_parameters_and_all_outputs():
    """Also the weights of norms. Expected: one plain backward pass per sample, or per sample and output."""
    model, *_ = make_mlp(CLASSES)
    model.insert(1, nn.LayerNorm(7).double())
    batch = make_random_batch()
    outputs = model(batch.inputs)
    losses = nn.functional.cross_entropy(outputs, batch.targets, reduction="none")
    theta = nn.utils.parameters_to_vector(model.parameters())

    def gradients(values: Tensor) -> Tensor:
        rows = [
            torch.autograd.grad(value, list(model.parameters()), retain_graph=True)
            for value in values
        ]
        return torch.stack([nn.utils.parameters_to_vector(row) for row in rows])

    g = gradients(losses)
    expected = {
        "nasi_samples": g.square().sum(),
        "nasi_batch": g.mean(0).square().sum(),
        "gradsign": g.sign().sum(0).abs().sum(),
        "snip(variant=per_sample)": (g @ theta).abs().mean(),
        "ntk_trace": gradients(outputs.flatten()).square().sum(),
    }
    for name, value in expected.items():
        assert score(name, model, batch) == pytest.approx(value.item(), rel=1e-9), name


# -------------------------------------------------------------------------------------------------------- a convolution


def test_gradients_of_a_convolution_are_sums_over_positions():
    """One 1x1 convolution, pooled: f = W mean(x) is the linear layer on the mean of the positions."""
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Conv2d(INPUTS, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ).double()
    x = torch.randn(SAMPLES, INPUTS, 2, 2, dtype=torch.float64)
    y = make_random_batch().targets
    W, b = (p.detach().numpy() for p in model.parameters())
    s = Softmax(W.reshape(CLASSES, INPUTS), b, x.mean((2, 3)).numpy(), y.numpy())
    same = (
        "grad_norm",
        "grad",
        "snip",
        "grasp",
        "nasi_samples",
        "trace",
        "ntk_condition",
        "gradsign",
        "synflow",
        "fisher",
    )
    for name in same:
        assert score(name, model, Batch(x, y)) == pytest.approx(
            float(CLOSED_FORMS[name](s)), rel=1e-9
        ), name

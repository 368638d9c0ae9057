"""Measurements of one backward pass, compared with plain autograd on copies of the network, in float64."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from tests.probe.loops import D, Net, copy_with_batch_statistics, make_batch, randomise
from tests.probe.networks import FLAT, IMAGES, TOKENS, freeze, make_normed, make_transformer
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.types import Batch


def make_cnn(activation: nn.Module | None = None) -> nn.Module:
    """Make a CNN with a convolution directly before an in-place activation that keeps no value."""
    act = activation or nn.LeakyReLU(0.3, inplace=True)
    layers = [
        nn.Conv2d(3, 4, 3, 2, bias=False),
        nn.BatchNorm2d(4),
        act,
        nn.Conv2d(4, 6, 3, groups=2),
        act,
    ]
    return randomise(nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 3)))


def make_linear_on_tokens() -> nn.Module:
    return randomise(
        Net(
            lambda net, x: net.head(F.leaky_relu(net.a(x), 0.3, inplace=True)).sum(1),
            a=nn.Linear(6, 5),
            head=nn.Linear(5, 3),
        )
    )


def make_tied() -> nn.Module:
    return randomise(Net(lambda net, x: net.a(net.a(x).tanh())[:, :3], a=nn.Linear(6, 6)))


def make_unreached() -> nn.Module:
    return randomise(
        Net(lambda net, x: net.a(x), a=nn.Linear(6, 3), b=nn.Linear(6, 3), c=nn.LayerNorm(6))
    )


NETWORKS = {
    "a CNN": (make_cnn, IMAGES),
    "a frozen first layer": (lambda: freeze(make_cnn(), "0.weight", "1.weight", "1.bias"), IMAGES),
    "linear layers on tokens": (make_linear_on_tokens, TOKENS),
    "a layer twice": (make_tied, FLAT),
    "parameters that nothing reaches": (make_unreached, FLAT),
    "a transformer": (lambda: randomise(make_transformer()), TOKENS),
    "a normed CNN": (lambda: randomise(make_normed()), IMAGES),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_gradients_are_those_of_the_loss_in_train_mode_without_dropout(case):
    make, shape = NETWORKS[case]
    model = make()
    data = make_batch(*shape)
    copy = copy_with_batch_statistics(model)
    loss = F.cross_entropy(copy(data.inputs), data.targets)
    loss.backward()
    probe = Probe(model, data)
    assert probe.loss == pytest.approx(float(loss.detach()), rel=1e-12)
    expected = {
        n: p.grad if p.grad is not None else torch.zeros_like(p) for n, p in copy.named_parameters()
    }
    assert list(probe.gradients) == [
        name for name, p in model.named_parameters() if p.requires_grad
    ]
    for name, g in probe.gradients.items():
        torch.testing.assert_close(g, expected[name], rtol=1e-10, atol=1e-13)


# ------------------------------------------------------------------------------------------------------------- channels


def compute_saliencies(model: nn.Module, data: Batch) -> list[tuple[int, Tensor]]:
    """Return (fan-in, activation times gradient summed over positions) per call of a convolution or linear layer.

    Outputs are kept with `retain_grad`, so the network must not overwrite them.
    """
    model = copy_with_batch_statistics(model)
    outputs = []

    def keep_output(module: nn.Module, args: Any, output: Tensor) -> None:
        if module.weight.requires_grad:
            output.retain_grad()
            outputs.append((module, output))

    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(keep_output)
    F.cross_entropy(model(data.inputs), data.targets).backward()
    return [
        (module.weight[0].numel(), sum_positions(module, out))
        for module, out in outputs
        if out.grad is not None
    ]


def sum_positions(module: nn.Module, out: Tensor) -> Tensor:
    product = (out * out.grad).detach()
    if isinstance(module, nn.Conv2d):
        return product.sum((2, 3))
    return product.reshape(len(out), -1, out.shape[-1]).sum(1)


@pytest.mark.parametrize(
    "case", ["a CNN", "a frozen first layer", "linear layers on tokens", "a layer twice"]
)
def test_channels_are_activation_times_gradient_also_after_in_place_activations(case):
    make, shape = NETWORKS[case]
    model = make()
    data = make_batch(*shape)
    not_in_place = deepcopy(model)
    for module in not_in_place.modules():
        if isinstance(module, nn.LeakyReLU):
            module.inplace = False
    if case == "linear layers on tokens":
        not_in_place.function = lambda net, x: net.head(F.leaky_relu(net.a(x), 0.3)).sum(1)
    expected = compute_saliencies(not_in_place, data)
    # Gradients arrive from the last layer to the first
    channels = Probe(model, data).channel_saliency[::-1]
    assert [c.fan_in for c in channels] == [fan_in for fan_in, _ in expected]
    for ours, (_, theirs) in zip(channels, expected, strict=True):
        torch.testing.assert_close(ours.saliency, theirs, rtol=1e-10, atol=1e-13)


def test_projections_of_attention_are_linear_layers_among_the_channels():
    """With equal tokens, attention changes nothing, so value and output projections can be computed by hand."""
    attention = nn.MultiheadAttention(4, 2, batch_first=True, dtype=D)
    model = randomise(Net(lambda net, x: net.a(x, x, x)[0].sum(1), a=attention))
    x = torch.randn(3, 1, 4, dtype=D)
    y = torch.tensor([0, 1, 2])
    channels = Probe(model, Batch(x.expand(3, 2, 4), y)).channel_saliency
    # Out, value, key and query, however they are packed
    assert [c.fan_in for c in channels] == [4] * 4
    Wv = attention.in_proj_weight[8:].detach()
    bv = attention.in_proj_bias[8:].detach()
    value = (x[:, 0] @ Wv.T + bv).requires_grad_()
    out = (value @ attention.out_proj.weight.T + attention.out_proj.bias).detach().requires_grad_()
    (g_out,) = torch.autograd.grad(F.cross_entropy(2 * out, y), out)
    torch.testing.assert_close(channels[0].saliency, (out * g_out).detach())
    torch.testing.assert_close(
        channels[1].saliency, (value * (g_out @ attention.out_proj.weight)).detach()
    )


# -------------------------------------------------------------------------------------------------------------- hessian


@pytest.mark.parametrize("case", ["a CNN", "a transformer", "frozen"])
def test_the_hessian_times_the_weights_equals_a_hessian_vector_product(case):
    """Only for weights of layers, neither for biases nor for norms."""
    if case == "a transformer":
        model = randomise(make_transformer(activation="gelu"))
        data = make_batch(*TOKENS)
        names = [
            n for n, _ in model.named_parameters() if "proj" in n or "linear" in n or "head" in n
        ]
        names = [n for n in names if n.endswith("weight")]
    else:
        model = make_cnn(nn.SiLU())
        data = make_batch(*IMAGES)
        names = ["0.weight", "3.weight", "7.weight"]
    if case == "frozen":
        freeze(model, names.pop(0))
    copy = copy_with_batch_statistics(model)

    def loss(*matrices: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            out = functional_call(copy, dict(zip(names, matrices, strict=True)), (data.inputs,))
        return F.cross_entropy(out, data.targets)

    at = tuple(model.get_parameter(name).detach().clone().requires_grad_() for name in names)
    _, expected = torch.autograd.functional.hvp(loss, at, at)
    ours = Probe(model, data).hessian_weight_products
    assert sorted(ours) == sorted(names)
    for name, theirs in zip(names, expected, strict=True):
        torch.testing.assert_close(
            ours[name], theirs, rtol=1e-8, atol=1e-10 * float(theirs.abs().max())
        )


def test_a_loss_that_is_linear_in_the_weights_has_no_curvature():
    """L = mean of (w . x): H = 0, and a layer that nothing reaches has none either."""
    model = randomise(Net(lambda net, x: net.a(x) / 2, a=nn.Linear(6, 1), b=nn.Linear(6, 1)))
    data = Batch(make_batch(*FLAT).inputs, torch.full((4, 1), 0.5, dtype=D))
    curved = Probe(
        model, data, loss="mse"
    ).hessian_weight_products  # (w.x/2 - 1/2)^2: H = mean x x^T / 2
    x = data.inputs
    w = model.a.weight.detach()[0]
    torch.testing.assert_close(curved["a.weight"][0], x.T @ (x @ w) / 8)
    assert not curved["b.weight"].any()


# ------------------------------------------------------------------------------------------------------- by the inputs


def run_doubled_in_place(net: Any, x: Tensor) -> Tensor:
    return net.a(x.mul_(2)).tanh()


@pytest.mark.parametrize("case", ["a CNN", "in place", "a transformer"])
def test_the_jacobian_is_the_gradient_of_all_outputs_by_the_inputs(case):
    models = {
        "a CNN": make_cnn(),
        "in place": randomise(Net(run_doubled_in_place, a=nn.Linear(6, 3))),
        "a transformer": randomise(make_transformer()),
    }
    data = make_batch(*{"a CNN": IMAGES, "in place": FLAT, "a transformer": TOKENS}[case])
    before = data.inputs.clone()
    x = data.inputs.clone().requires_grad_()
    (expected,) = torch.autograd.grad(copy_with_batch_statistics(models[case])(x * 1).sum(), x)
    torch.testing.assert_close(
        Probe(models[case], data).jacobian, expected.flatten(1), rtol=1e-10, atol=1e-12
    )
    assert torch.equal(data.inputs, before)


def test_integer_inputs_have_no_derivative():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 3))
    probe = Probe(model, Batch(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, 1])))
    for measure in (
        lambda: probe.jacobian,
        lambda: probe.blocks,
        probe.flow,
        lambda: probe.circle_motion((2,)),
    ):
        with pytest.raises(Unscorable, match=r"unsupported: .* real-valued inputs"):
            measure()


# ----------------------------------------------------------------------------------------------------------------- flow


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("precision", [torch.float32, D])
def test_the_flow_equals_that_of_a_positive_copy_for_an_input_of_ones(norms, precision):
    """The copy has absolute values as parameters; its norms are removed or use the batch of one sample."""
    model = make_cnn().to(precision)
    positive = copy_with_batch_statistics(model).double()
    with torch.no_grad():
        for p in positive.parameters():
            p.abs_()
    if not norms:
        positive[1] = nn.Identity()
    positive(torch.ones(1, *IMAGES[1:], dtype=D)).sum().backward()
    data = make_batch(*IMAGES)
    flow = Probe(model, Batch(data.inputs.to(precision), data.targets)).flow(norms)
    assert list(flow) == ["0.weight", "3.weight", "7.weight"]
    for name, (W, g) in flow.items():
        theirs = positive.get_parameter(name)
        torch.testing.assert_close(W, theirs.detach(), rtol=0, atol=0)
        torch.testing.assert_close(g, theirs.grad, rtol=1e-12, atol=1e-13)


def test_the_flow_of_a_tied_layer_is_summed_over_its_uses():
    """R = sum |W| (|W| 1 + |b|) + |b|"""
    model = randomise(Net(lambda net, x: net.a(net.a(x)), a=nn.Linear(6, 6)))
    W, b = (p.detach().abs().requires_grad_() for p in model.a.parameters())
    (W @ (W.sum(1) + b) + b).sum().backward()
    ((name, (ours, g)),) = Probe(model, make_batch(*FLAT)).flow().items()
    assert name == "a.weight"
    torch.testing.assert_close(ours, W.detach())
    torch.testing.assert_close(g, W.grad)


# ----------------------------------------------------------------------------------------------------------- variances


def test_norm_variances_are_what_batch_norms_divide_by():
    model = make_cnn()
    data = make_batch(*IMAGES)
    (variance,) = Probe(model, data).norm_variances
    convolved = F.conv2d(data.inputs, model[0].weight.detach(), stride=2).movedim(1, 0).flatten(1)
    assert variance.entries == convolved.shape[1] == 4 * 3 * 3
    torch.testing.assert_close(
        variance.per_channel, ((convolved - convolved.mean(1, keepdim=True)) ** 2).mean(1)
    )


def test_norm_variances_are_in_call_order_and_include_functional_norms():
    def run(net: Any, x: Tensor) -> Tensor:
        x = F.batch_norm(3 * x, torch.zeros(6, dtype=D), torch.ones(6, dtype=D))
        return net.norm(net.norm(2 * x) * 5)

    model = Net(run, norm=nn.BatchNorm1d(6, eps=1e-30, dtype=D))
    data = make_batch(*FLAT)
    variances = [variance.per_channel for variance in Probe(model, data).norm_variances]
    v = data.inputs.var(0, unbiased=False)
    unit = 9 * v / (9 * v + 1e-5)  # the variance that the first one leaves
    for ours, expected in zip(
        variances, (9 * v, 4 * unit, torch.full((6,), 25.0, dtype=D)), strict=True
    ):
        torch.testing.assert_close(ours, expected)
    assert Probe(nn.Linear(6, 3, dtype=D), data).norm_variances == ()

"""What one backward pass measures, against plain autograd on plain copies of the network, in float64."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from tests.probe.loops import D, Net, batch, made, on_batch
from tests.probe.networks import FLAT, IMAGES, TOKENS, frozen, normed, transformer
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.types import Batch


def weight_and_bias(layer: str) -> tuple[str, str]:
    return f"{layer}.weight", f"{layer}.bias"


def cnn(activation: nn.Module | None = None) -> nn.Module:
    """A convolution right before an activation that overwrites what it says, and not only with zeros."""
    act = activation or nn.LeakyReLU(0.3, inplace=True)
    layers = [
        nn.Conv2d(3, 4, 3, 2, bias=False),
        nn.BatchNorm2d(4),
        act,
        nn.Conv2d(4, 6, 3, groups=2),
        act,
    ]
    return made(nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 3)))


def linear_on_tokens() -> nn.Module:
    return made(
        Net(
            lambda net, x: net.head(F.leaky_relu(net.a(x), 0.3, inplace=True)).sum(1),
            a=nn.Linear(6, 5),
            head=nn.Linear(5, 3),
        )
    )


def tied() -> nn.Module:
    return made(Net(lambda net, x: net.a(net.a(x).tanh())[:, :3], a=nn.Linear(6, 6)))


def unreached() -> nn.Module:
    return made(
        Net(lambda net, x: net.a(x), a=nn.Linear(6, 3), b=nn.Linear(6, 3), c=nn.LayerNorm(6))
    )


NETWORKS = {
    "a CNN": (cnn, IMAGES),
    "a frozen first layer": (lambda: frozen(cnn(), "0.weight", "1.weight", "1.bias"), IMAGES),
    "linear layers on tokens": (linear_on_tokens, TOKENS),
    "a layer twice": (tied, FLAT),
    "parameters that nothing reaches": (unreached, FLAT),
    "a transformer": (lambda: made(transformer()), TOKENS),
    "a normed CNN": (lambda: made(normed()), IMAGES),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_gradients_are_those_of_the_loss_in_train_mode_without_dropout(case):
    make, shape = NETWORKS[case]
    model, data = make(), batch(*shape)
    copy = on_batch(model)
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


def saliencies(model: nn.Module, data: Batch) -> list[tuple[int, Tensor]]:
    """(fan-in, activation times gradient summed over positions) of every call of a convolution or linear layer, in
    order: the outputs are held with `retain_grad`, so nothing may overwrite them."""
    model, said = on_batch(model), []

    def hold(module: nn.Module, args: Any, output: Tensor) -> None:
        if module.weight.requires_grad:
            output.retain_grad()
            said.append((module, output))

    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(hold)
    F.cross_entropy(model(data.inputs), data.targets).backward()
    return [
        (module.weight[0].numel(), _summed(module, out))
        for module, out in said
        if out.grad is not None
    ]


def _summed(module: nn.Module, out: Tensor) -> Tensor:
    product = (out * out.grad).detach()
    return (
        product.sum((2, 3))
        if isinstance(module, nn.Conv2d)
        else product.reshape(len(out), -1, out.shape[-1]).sum(1)
    )


@pytest.mark.parametrize(
    "case", ["a CNN", "a frozen first layer", "linear layers on tokens", "a layer twice"]
)
def test_channels_are_activation_times_gradient_also_after_in_place_activations(case):
    make, shape = NETWORKS[case]
    model, data = make(), batch(*shape)
    careful = deepcopy(model)
    for module in careful.modules():
        if isinstance(module, nn.LeakyReLU):
            module.inplace = False
    if case == "linear layers on tokens":
        careful.does = lambda net, x: net.head(F.leaky_relu(net.a(x), 0.3)).sum(1)
    expected = saliencies(careful, data)
    found = Probe(model, data).channels[::-1]  # gradients come by from the end
    assert [c.fan_in for c in found] == [fan_in for fan_in, _ in expected]
    for ours, (_, theirs) in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.saliency, theirs, rtol=1e-10, atol=1e-13)


def test_projections_of_attention_are_linear_layers_among_the_channels():
    """By hand: with uniform attention over equal tokens, value and output projections see each token as it is."""
    attention = nn.MultiheadAttention(4, 2, batch_first=True, dtype=D)
    model = made(Net(lambda net, x: net.a(x, x, x)[0].sum(1), a=attention))
    x, y = torch.randn(3, 1, 4, dtype=D), torch.tensor([0, 1, 2])
    found = Probe(model, Batch(x.expand(3, 2, 4), y)).channels
    assert [c.fan_in for c in found] == [
        4
    ] * 4  # out, value, key and query, however they are packed
    Wv, bv = attention.in_proj_weight[8:].detach(), attention.in_proj_bias[8:].detach()
    value = (x[:, 0] @ Wv.T + bv).requires_grad_()
    out = (value @ attention.out_proj.weight.T + attention.out_proj.bias).detach().requires_grad_()
    (g_out,) = torch.autograd.grad(F.cross_entropy(2 * out, y), out)
    torch.testing.assert_close(found[0].saliency, (out * g_out).detach())
    torch.testing.assert_close(
        found[1].saliency, (value * (g_out @ attention.out_proj.weight)).detach()
    )


# -------------------------------------------------------------------------------------------------------------- hessian


@pytest.mark.parametrize("case", ["a CNN", "a transformer", "frozen"])
def test_the_hessian_times_the_weights_equals_a_hessian_vector_product(case):
    """Over the weights of layers alone: neither biases nor norms take part."""
    if case == "a transformer":
        model, data = made(transformer(activation="gelu")), batch(*TOKENS)
        names = [
            n for n, _ in model.named_parameters() if "proj" in n or "linear" in n or "head" in n
        ]
        names = [n for n in names if n.endswith("weight")]
    else:
        model, data = cnn(nn.SiLU()), batch(*IMAGES)
        names = ["0.weight", "3.weight", "7.weight"]
    if case == "frozen":
        frozen(model, names.pop(0))
    copy = on_batch(model)

    def loss(*matrices: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            out = functional_call(copy, dict(zip(names, matrices, strict=True)), (data.inputs,))
        return F.cross_entropy(out, data.targets)

    at = tuple(model.get_parameter(name).detach().clone().requires_grad_() for name in names)
    _, expected = torch.autograd.functional.hvp(loss, at, at)
    ours = Probe(model, data).hessian_weights
    assert sorted(ours) == sorted(names)
    for name, theirs in zip(names, expected, strict=True):
        torch.testing.assert_close(
            ours[name], theirs, rtol=1e-8, atol=1e-10 * float(theirs.abs().max())
        )


def test_a_loss_that_is_linear_in_the_weights_has_no_curvature():
    """L = mean of (w . x): H = 0, and a layer that nothing reaches has none either."""
    model = made(Net(lambda net, x: net.a(x) / 2, a=nn.Linear(6, 1), b=nn.Linear(6, 1)))
    data = Batch(batch(*FLAT).inputs, torch.full((4, 1), 0.5, dtype=D))
    curved = Probe(model, data, loss="mse").hessian_weights  # (w.x/2 - 1/2)^2: H = mean x x^T / 2
    x, w = data.inputs, model.a.weight.detach()[0]
    torch.testing.assert_close(curved["a.weight"][0], x.T @ (x @ w) / 8)
    assert not curved["b.weight"].any()


# ------------------------------------------------------------------------------------------------------- by the inputs


def doubled_in_place(net: Any, x: Tensor) -> Tensor:
    return net.a(x.mul_(2)).tanh()


@pytest.mark.parametrize("case", ["a CNN", "in place", "a transformer"])
def test_the_jacobian_is_the_gradient_of_all_outputs_by_the_inputs(case):
    models = {
        "a CNN": cnn(),
        "in place": made(Net(doubled_in_place, a=nn.Linear(6, 3))),
        "a transformer": made(transformer()),
    }
    data = batch(*{"a CNN": IMAGES, "in place": FLAT, "a transformer": TOKENS}[case])
    before = data.inputs.clone()
    x = data.inputs.clone().requires_grad_()
    (expected,) = torch.autograd.grad(on_batch(models[case])(x * 1).sum(), x)
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
        lambda: probe.circle_jet((2,)),
    ):
        with pytest.raises(Unscorable, match=r"unsupported: .* real-valued inputs"):
            measure()


# ----------------------------------------------------------------------------------------------------------------- flow


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("precision", [torch.float32, D])
def test_the_flow_equals_that_of_a_positive_copy_for_an_input_of_ones(norms, precision):
    """A copy whose parameters are absolute values and whose norms are gone, or read the batch of one."""
    model = cnn().to(precision)
    positive = on_batch(model).double()
    with torch.no_grad():
        for p in positive.parameters():
            p.abs_()
    if not norms:
        positive[1] = nn.Identity()
    positive(torch.ones(1, *IMAGES[1:], dtype=D)).sum().backward()
    data = batch(*IMAGES)
    found = Probe(model, Batch(data.inputs.to(precision), data.targets)).flow(norms)
    assert list(found) == ["0.weight", "3.weight", "7.weight"]
    for name, (W, g) in found.items():
        theirs = positive.get_parameter(name)
        torch.testing.assert_close(W, theirs.detach(), rtol=0, atol=0)
        torch.testing.assert_close(g, theirs.grad, rtol=1e-12, atol=1e-13)


def test_the_flow_of_a_tied_layer_is_summed_over_its_uses():
    """R = sum |W| (|W| 1 + |b|) + |b|"""
    model = made(Net(lambda net, x: net.a(net.a(x)), a=nn.Linear(6, 6)))
    W, b = (p.detach().abs().requires_grad_() for p in model.a.parameters())
    (W @ (W.sum(1) + b) + b).sum().backward()
    ((name, (ours, g)),) = Probe(model, batch(*FLAT)).flow().items()
    assert name == "a.weight"
    torch.testing.assert_close(ours, W.detach())
    torch.testing.assert_close(g, W.grad)


# ----------------------------------------------------------------------------------------------------------- variances


def test_norm_variances_are_what_batch_norms_divide_by():
    model, data = cnn(), batch(*IMAGES)
    (heard,) = Probe(model, data).norm_variances
    said = F.conv2d(data.inputs, model[0].weight.detach(), stride=2).movedim(1, 0).flatten(1)
    assert heard.entries == said.shape[1] == 4 * 3 * 3
    torch.testing.assert_close(heard.channels, ((said - said.mean(1, keepdim=True)) ** 2).mean(1))


def test_norm_variances_are_in_call_order_and_include_functional_norms():
    def does(net: Any, x: Tensor) -> Tensor:
        x = F.batch_norm(3 * x, torch.zeros(6, dtype=D), torch.ones(6, dtype=D))
        return net.norm(net.norm(2 * x) * 5)

    model, data = Net(does, norm=nn.BatchNorm1d(6, eps=1e-30, dtype=D)), batch(*FLAT)
    found = [variance.channels for variance in Probe(model, data).norm_variances]
    v = data.inputs.var(0, unbiased=False)
    unit = 9 * v / (9 * v + 1e-5)  # the variance that the first one leaves
    for ours, expected in zip(
        found, (9 * v, 4 * unit, torch.full((6,), 25.0, dtype=D)), strict=True
    ):
        torch.testing.assert_close(ours, expected)
    assert Probe(nn.Linear(6, 3, dtype=D), data).norm_variances == ()

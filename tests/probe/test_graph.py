"""One forward pass, many backward passes: all first derivatives share a graph, and none feels the others."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from tests.probe.loops import D, Net, batch, made
from tests.probe.networks import FLAT, normed
from tests.probe.test_views import DATA, bits, counted
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.graph import forward
from untrained.probe.norms import Statistics, batch_norm

FIRST: dict[str, Callable[[Probe], object]] = {
    "loss": lambda p: (p.loss, p.gradients, p.channels),
    "jacobian": lambda p: p.jacobian,
    "blocks": lambda p: (p.blocks.features, p.blocks.passes),
    "cross": lambda p: p.kernel("label").gram(),
    "fixed": lambda p: p.kernel("sum", "all", "fixed").gram(),
    "exact": lambda p: p.kernel("sum", "all", "exact").gram(),
}


def test_all_first_derivatives_of_a_batch_take_one_forward():
    model = made(normed())
    seen, probe = counted(model), Probe(model, DATA)
    for measure in FIRST.values():
        measure(probe)
    assert seen == [12, 2]  # the batch, and two samples that tell on which axis samples lie


@pytest.mark.parametrize("first", FIRST)
def test_no_backward_pass_feels_another(first):
    """Each after each other, to the last bit as on a probe of its own."""
    model = made(normed())
    alone = {name: bits(measure(Probe(model, DATA))) for name, measure in FIRST.items()}
    for name in (name for name in FIRST if name != first):
        probe = Probe(model, DATA)
        FIRST[first](probe)
        assert bits(FIRST[name](probe)) == alone[name], name
        assert bits(FIRST[first](probe)) == alone[first], name  # nor is it added to afterwards


def test_one_graph_is_kept_and_rows_further_on_keep_none():
    model = made(normed())
    seen, probe = counted(model), Probe(model, DATA)
    probe.first(6).jacobian, probe.parts(2)[1].gradients, probe.first(6).gradients
    assert seen == [6, 6]
    probe.first(4).jacobian, probe.first(6).blocks
    assert seen == [6, 6, 4, 6]


def test_a_pass_that_fails_half_way_leaves_the_graph_as_it_was():
    """What was to be heard is heard no more, and statistics are no longer constants."""
    model = made(normed())
    probe, usual = Probe(model, DATA), Probe(model, DATA)

    def fails(*_: object) -> None:
        raise Unscorable("unsupported", "half way")

    with probe.watching():
        graph = probe._graph()
    with pytest.raises(Unscorable, match="half way"):
        graph.gradients(graph.outputs.sum(), graph.ends, fixed=True, hear=fails)
    assert bits(probe.gradients) == bits(usual.gradients)


@pytest.mark.parametrize("affine", [(), ("weight",), ("bias",), ("weight", "bias")])
def test_a_norm_is_that_of_torch_whatever_it_is_scaled_by(affine):
    """Forward and backward as `F.batch_norm` in train mode; with constant statistics, as in evaluation mode."""
    draw = torch.Generator().manual_seed(0)
    x, g = torch.randn(2, 5, 3, 4, generator=draw, dtype=D)
    parts = {name: nn.Parameter(torch.randn(3, generator=draw, dtype=D)) for name in affine}
    model = Net(lambda net, x: F.batch_norm(x, None, None, **dict(net.named_parameters()), training=True), **parts)
    graph = forward(model, model, x)
    sources = [graph.inputs, *parts.values()]
    mean, var = x.mean((0, 2)), x.var((0, 2), unbiased=False)
    for fixed, statistics in ((False, (None, None)), (True, (mean, var))):
        leaf = x.clone().requires_grad_()
        expected = F.batch_norm(leaf, *statistics, **parts, training=not fixed)
        torch.testing.assert_close(graph.outputs, expected)
        theirs = torch.autograd.grad((expected * g).sum(), [leaf, *parts.values()])
        for ours, grad in zip(graph.gradients((graph.outputs * g).sum(), sources, fixed=fixed), theirs, strict=True):
            torch.testing.assert_close(ours, grad)


# ------------------------------------------------------------------------------------------------ along the weights


@pytest.mark.parametrize("affine", [(), ("weight",), ("weight", "bias")])
def test_the_second_derivative_of_a_norm_is_that_of_torch(affine):
    """d/dx and d/dg of v . dL/dx, dL/dy = g."""
    draw = torch.Generator().manual_seed(0)
    x, g, v = (t.requires_grad_() for t in torch.randn(3, 5, 3, 4, generator=draw, dtype=D).unbind())
    parts = {name: torch.randn(3, generator=draw, dtype=D) for name in affine}
    found = []
    for norm in (F.batch_norm, partial(batch_norm, Statistics())):
        (dx,) = torch.autograd.grad(norm(3 * x + 1, None, None, **parts, training=True), x, g, create_graph=True)
        found.append(torch.autograd.grad((dx * v.detach()).sum(), [x, g]))
    torch.testing.assert_close(found[1], found[0])


def by_keyword(net: Any, x: Tensor) -> Tensor:
    return F.linear(F.linear(x, weight=net.a.weight, bias=net.a.bias).tanh(), net.b.weight, bias=net.b.bias)


def by_product(net: Any, x: Tensor) -> Tensor:
    return (x @ net.a.weight.mT + net.a.bias).tanh() @ net.b.weight.mT


def by_each_other(net: Any, x: Tensor) -> Tensor:
    return F.linear(net.b(net.a(x).tanh()), F.linear(net.b.weight, net.b.weight))


@pytest.mark.parametrize("does", [by_keyword, by_product, by_each_other])
def test_the_hessian_times_the_weights_is_right_however_weights_are_used(does):
    model, data = made(Net(does, a=nn.Linear(6, 5), b=nn.Linear(5, 3))), batch(*FLAT)
    names = ("a.weight", "b.weight")

    def loss(*matrices: Tensor) -> Tensor:
        return F.cross_entropy(
            functional_call(model, dict(zip(names, matrices, strict=True)), (data.inputs,)), data.targets
        )

    at = tuple(model.get_parameter(name).detach() for name in names)
    _, expected = torch.autograd.functional.hvp(loss, at, at)
    for name, theirs in zip(names, expected, strict=True):
        torch.testing.assert_close(Probe(model, data).hessian_weights[name], theirs)


def test_grasp_of_weights_that_nothing_reaches_is_disconnected():
    model = made(Net(lambda net, x: x[:, :3] * net.scale, a=nn.Linear(6, 3), scale=nn.Parameter(torch.ones(3))))
    with pytest.raises(Unscorable, match="disconnected: the loss does not depend on any weight"):
        Probe(model, batch(*FLAT)).hessian_weights  # noqa: B018

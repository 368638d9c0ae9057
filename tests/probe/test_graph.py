"""All derivatives share the graph of one forward pass, and backward passes do not affect each other."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.probe.loops import D, Net, make_batch, randomise
from tests.probe.networks import FLAT, TOKENS, make_normed, make_transformer
from tests.probe.test_views import DATA, count_forward_samples, to_comparable
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.graph import record_graph
from untrained.probe.norms import NormBackwardSettings, apply_batch_norm
from untrained.types import Batch

FIRST: dict[str, Callable[[Probe], object]] = {
    "loss": lambda p: (p.loss, p.gradients, p.channel_saliency),
    "jacobian": lambda p: p.jacobian,
    "blocks": lambda p: (p.blocks.features, p.blocks.gradient_pairs),
    "cross": lambda p: p.kernel("label").gram(),
    "fixed": lambda p: p.kernel("sum", "all", "fixed").gram(),
    "exact": lambda p: p.kernel("sum", "all", "exact").gram(),
    "hessian": lambda p: p.hessian_weight_products,
    "codes": lambda p: [
        (code.signs, code.is_feature_map, code.relu_module_count) for code in p.codes
    ],
}


def test_all_derivatives_of_a_batch_share_one_forward_pass():
    model = randomise(make_normed())
    sample_counts = count_forward_samples(model)
    probe = Probe(model, DATA)
    for measure in FIRST.values():
        measure(probe)
    # The batch, and two samples that show which axis is the batch axis
    assert sample_counts == [
        12,
        2,
    ]


@pytest.mark.parametrize("first", FIRST)
def test_backward_passes_do_not_affect_each_other(first):
    """In any order, each result equals that of a separate probe bit for bit."""
    model = randomise(make_normed())
    alone = {name: to_comparable(measure(Probe(model, DATA))) for name, measure in FIRST.items()}
    for name in (name for name in FIRST if name != first):
        probe = Probe(model, DATA)
        FIRST[first](probe)
        assert to_comparable(FIRST[name](probe)) == alone[name], name
        # Nothing is added to it afterwards
        assert to_comparable(FIRST[first](probe)) == alone[first], name


def run_attention(net: Any, x: Tensor) -> Tensor:
    q, k, v = net.a(x).chunk(3, -1)
    return net.b(F.gelu(F.scaled_dot_product_attention(q, k, v))).sum(1)


def make_two_layers(function: Callable[..., Tensor]) -> nn.Module:
    return Net(function, a=nn.Linear(6, 5), b=nn.Linear(5, 3))


CODED = {  # and the forwards of the gradient, then the codes
    "attention": (lambda: make_transformer(activation="gelu"), 1),
    "fused attention": (lambda: Net(run_attention, a=nn.Linear(6, 18), b=nn.Linear(6, 3)), 2),
    "in place": (
        lambda: make_two_layers(lambda net, x: net.b((net.a(x) * 2).sigmoid_()).sum(1)),
        2,
    ),
    "ReLU in place": (
        lambda: make_two_layers(lambda net, x: net.b((net.a(x) * 2).relu_()).sum(1)),
        1,
    ),
    "smooth": (lambda: make_two_layers(lambda net, x: net.b(F.silu(net.a(x)).sigmoid()).sum(1)), 1),
}


@pytest.mark.parametrize("case", CODED)
def test_codes_of_a_graph_equal_those_of_a_pass_without_graph(case):
    """In single precision, where torch has the most kernels to choose from."""
    make, forwards = CODED[case]
    model = randomise(make()).float()
    data = make_batch(*TOKENS)
    data = Batch(data.inputs.float(), data.targets)
    alone = Probe(model, data)
    probe = Probe(model, data)
    sample_counts = count_forward_samples(model)
    assert probe.gradients
    assert probe.codes
    assert len(sample_counts) == forwards
    assert to_comparable(FIRST["codes"](probe)) == to_comparable(FIRST["codes"](alone))


def test_channels_of_later_rows_equal_those_of_a_separate_probe():
    model = randomise(make_normed())
    part = Probe(model, DATA).parts(2)[1]
    assert part.gradients
    own = Probe(model, part.batch)
    assert part.channel_saliency
    assert to_comparable(part.channel_saliency) == to_comparable(own.channel_saliency)


def test_one_graph_is_kept_and_none_of_later_rows():
    model = randomise(make_normed())
    sample_counts = count_forward_samples(model)
    probe = Probe(model, DATA)
    probe.first(6).jacobian, probe.parts(2)[1].gradients, probe.first(6).gradients
    assert sample_counts == [6, 6]
    probe.first(4).jacobian, probe.first(6).blocks
    assert sample_counts == [6, 6, 4, 6]


def test_a_graph_is_kept_beside_one_of_a_quarter_of_its_rows():
    model = randomise(make_normed())
    sample_counts = count_forward_samples(model)
    probe = Probe(model, DATA)
    probe.jacobian, probe.first(3).jacobian, probe.blocks, probe.first(3).blocks
    assert sample_counts == [12, 3]
    probe.first(4).jacobian, probe.gradients
    assert sample_counts == [12, 3, 4, 12]


def test_a_failed_backward_pass_leaves_the_graph_unchanged():
    """Its callbacks are removed, and statistics of norms are no longer constant."""
    model = randomise(make_normed())
    probe = Probe(model, DATA)
    expected = Probe(model, DATA)

    def fail(*_: object) -> None:
        raise Unscorable("unsupported", "half way")

    with probe.scoring_mode():
        graph = probe._get_graph()
    with pytest.raises(Unscorable, match="half way"):
        graph.gradients(
            graph.outputs.sum(), graph.start_edges, constant_batch_statistics=True, on_gradient=fail
        )
    assert to_comparable(probe.gradients) == to_comparable(expected.gradients)


@pytest.mark.parametrize("affine", [(), ("weight",), ("bias",), ("weight", "bias")])
def test_batch_norm_equals_that_of_torch_for_any_scale(affine):
    """Forward and backward as `F.batch_norm` in train mode; with constant statistics, as in evaluation mode."""
    draw = torch.Generator().manual_seed(0)
    x, g = torch.randn(2, 5, 3, 4, generator=draw, dtype=D)
    parts = {name: nn.Parameter(torch.randn(3, generator=draw, dtype=D)) for name in affine}
    model = Net(
        lambda net, x: F.batch_norm(x, None, None, **dict(net.named_parameters()), training=True),
        **parts,
    )
    graph = record_graph(model, model, x)
    sources = [graph.inputs, *parts.values()]
    mean = x.mean((0, 2))
    var = x.var((0, 2), unbiased=False)
    for fixed, statistics in ((False, (None, None)), (True, (mean, var))):
        leaf = x.clone().requires_grad_()
        expected = F.batch_norm(leaf, *statistics, **parts, training=not fixed)
        torch.testing.assert_close(graph.outputs, expected)
        theirs = torch.autograd.grad((expected * g).sum(), [leaf, *parts.values()])
        for ours, grad in zip(
            graph.gradients((graph.outputs * g).sum(), sources, constant_batch_statistics=fixed),
            theirs,
            strict=True,
        ):
            torch.testing.assert_close(ours, grad)


# ------------------------------------------------------------------------------------------------ along the weights


@pytest.mark.parametrize("affine", [(), ("weight",), ("weight", "bias")])
def test_the_second_derivative_of_batch_norm_equals_that_of_torch(affine):
    """d/dx and d/dg of v . dL/dx, dL/dy = g."""
    draw = torch.Generator().manual_seed(0)
    x, g, v = (
        t.requires_grad_() for t in torch.randn(3, 5, 3, 4, generator=draw, dtype=D).unbind()
    )
    parts = {name: torch.randn(3, generator=draw, dtype=D) for name in affine}
    derivatives = []
    for norm in (
        F.batch_norm,
        lambda *args, **kwargs: apply_batch_norm(NormBackwardSettings(), *args, **kwargs)[0],
    ):
        (dx,) = torch.autograd.grad(
            norm(3 * x + 1, None, None, **parts, training=True), x, g, create_graph=True
        )
        derivatives.append(torch.autograd.grad((dx * v.detach()).sum(), [x, g]))
    torch.testing.assert_close(derivatives[1], derivatives[0])


def run_by_keyword(net: Any, x: Tensor) -> Tensor:
    return F.linear(
        F.linear(x, weight=net.a.weight, bias=net.a.bias).tanh(), net.b.weight, bias=net.b.bias
    )


def run_by_product(net: Any, x: Tensor) -> Tensor:
    return (x @ net.a.weight.mT + net.a.bias).tanh() @ net.b.weight.mT


def run_by_each_other(net: Any, x: Tensor) -> Tensor:
    return F.linear(net.b(net.a(x).tanh()), F.linear(net.b.weight, net.b.weight))


def run_by_attention(net: Any, x: Tensor) -> Tensor:
    """By default torch runs this with a kernel that can be differentiated only once."""
    q = net.a(x).view(1, 1, len(x), -1)
    out: Tensor = net.b(F.scaled_dot_product_attention(q, q, q)[0, 0])
    return out


@pytest.mark.parametrize(
    "function", [run_by_keyword, run_by_product, run_by_each_other, run_by_attention]
)
def test_the_hessian_times_the_weights_is_right_for_every_use_of_weights(function):
    model = randomise(Net(function, a=nn.Linear(6, 5), b=nn.Linear(5, 3)))
    data = make_batch(*FLAT)
    names = ("a.weight", "b.weight")

    def loss(*matrices: Tensor) -> Tensor:
        return F.cross_entropy(
            functional_call(model, dict(zip(names, matrices, strict=True)), (data.inputs,)),
            data.targets,
        )

    at = tuple(model.get_parameter(name).detach() for name in names)
    with sdpa_kernel(SDPBackend.MATH):
        _, expected = torch.autograd.functional.hvp(loss, at, at)
    for name, theirs in zip(names, expected, strict=True):
        torch.testing.assert_close(Probe(model, data).hessian_weight_products[name], theirs)


def test_grasp_of_weights_without_gradient_is_disconnected():
    model = randomise(
        Net(
            lambda net, x: x[:, :3] * net.scale,
            a=nn.Linear(6, 3),
            scale=nn.Parameter(torch.ones(3)),
        )
    )
    with pytest.raises(Unscorable, match="disconnected: the loss does not depend on any weight"):
        Probe(model, make_batch(*FLAT)).hessian_weight_products  # noqa: B018

"""Sign codes: every pointwise nonlinearity is read once per call, by the signs of its input."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.probe.loops import Net, make_batch
from tests.probe.networks import FLAT, IMAGES, TOKENS
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.codes import NONLINEARITIES, SignCode
from untrained.spaces import load_space
from untrained.types import Batch

MODULES = [
    nn.ReLU(), nn.ReLU(inplace=True), nn.ReLU6(), nn.LeakyReLU(), nn.PReLU(), nn.RReLU(), nn.ELU(), nn.SELU(),
    nn.CELU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.SiLU(inplace=True), nn.Mish(), nn.Hardswish(), nn.Hardtanh(),
    nn.Hardsigmoid(), nn.Sigmoid(), nn.Tanh(), nn.Softplus(), nn.Softsign(), nn.Tanhshrink(), nn.Softshrink(),
    nn.Hardshrink(), nn.LogSigmoid(), nn.Threshold(0.1, 0.0),
]  # fmt: skip
FUNCTIONS = [
    F.relu, torch.relu, Tensor.relu, Tensor.relu_, lambda x: F.relu(x, inplace=True), lambda x: F.relu(input=x),
    F.leaky_relu, F.gelu, F.silu, lambda x: F.silu(x, inplace=True), torch.sigmoid, Tensor.sigmoid_, Tensor.tanh,
    torch.tanh_, F.elu, F.elu_, F.hardtanh, F.softplus, F.mish, F.logsigmoid,
]  # fmt: skip


def read_codes(model: nn.Module, data: Batch) -> tuple[SignCode, ...]:
    return Probe(model, data).codes


@pytest.mark.parametrize("activation", MODULES, ids=str)
def test_a_module_is_read_once_by_the_signs_of_its_input(activation):
    data = make_batch(*IMAGES)
    (code,) = read_codes(nn.Sequential(nn.Identity(), activation.double(), nn.AvgPool2d(2)), data)
    assert torch.equal(code.signs, data.inputs.flatten(1) > 0)
    assert code.signs.any()
    assert not code.signs.all()
    assert code.is_feature_map


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_read_once_by_the_signs_of_its_input(function):
    data = make_batch(*FLAT)
    (code,) = read_codes(Net(lambda net, x: function(x * 1)), data)
    assert torch.equal(code.signs, data.inputs > 0)
    assert not code.is_feature_map
    assert code.relu_module_count == 0


def test_codes_are_in_call_order_and_read_before_inputs_are_overwritten():
    def run(net: Any, x: Tensor) -> Tensor:
        x = torch.relu_(x - 0.5)
        return net.act((net.act(x - 0.1) * 3).sub_(1)).flatten(1)

    data = make_batch(*TOKENS)
    x = data.inputs
    first = (x - 0.5).clamp_min(0)
    second = first - 0.1
    third = 3 * F.gelu(second) - 1
    codes = read_codes(Net(run, act=nn.GELU()), data)
    assert len(codes) == 3
    for code, before in zip(codes, (x - 0.5, second, third), strict=True):
        assert torch.equal(code.signs, before.flatten(1) > 0)


def test_zero_is_not_positive_and_samples_of_one_number_are_samples():
    (code,) = read_codes(
        nn.Tanh(), Batch(torch.tensor([-1.0, 0.0, 2.0]), torch.zeros(3, dtype=torch.long))
    )
    assert code.signs.tolist() == [[False], [False], [True]]


@pytest.mark.parametrize("has_graph", [False, True])
def test_nonlinearities_of_inputs_without_samples_are_left_out(has_graph):
    """A gate that is learnt has no samples, also if it has as many entries as there are samples."""
    data = make_batch(*FLAT)
    samples = len(data)

    def run(net: Any, x: Tensor) -> Tensor:
        gates = torch.sigmoid(net.per_feature), torch.tanh(net.scalar), F.relu(net.per_sample)
        hidden = torch.relu(x * 1)
        return hidden * gates[0] * gates[1] * gates[2].sum()

    net = Net(
        run,
        per_feature=nn.Parameter(torch.ones(data.inputs.shape[1], dtype=torch.float64)),
        scalar=nn.Parameter(torch.ones((), dtype=torch.float64)),
        per_sample=nn.Parameter(torch.ones(samples, 1, dtype=torch.float64)),
    )
    probe = Probe(net, data)
    if has_graph:
        assert probe.gradients
    (code,) = probe.codes
    assert torch.equal(code.signs, data.inputs > 0)


def test_a_transformer_is_read_in_its_feed_forward_layers():
    """Softmax, sine and multiplication are not pointwise nonlinearities of neurons."""
    layer = nn.TransformerEncoderLayer(
        6, 2, 8, batch_first=True, activation="gelu", norm_first=True
    ).double()
    data = make_batch(*TOKENS)
    entered = []
    layer.linear1.register_forward_hook(
        lambda module, args, output: entered.append(output.detach())
    )
    (code,) = read_codes(nn.Sequential(layer, nn.Softmax(-1)), data)
    assert torch.equal(code.signs, entered[0].flatten(1) > 0)


def test_batch_norm_before_a_nonlinearity_uses_batch_statistics():
    data = make_batch(*FLAT)
    (code,) = read_codes(nn.Sequential(nn.BatchNorm1d(6), nn.ReLU()).double().eval(), data)
    assert torch.equal(code.signs, data.inputs > data.inputs.mean(0))


@pytest.mark.parametrize(
    "model",
    [
        nn.Linear(6, 3),
        nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)),
        Net(lambda net, x: x.softmax(1) * x.sin()),
    ],
)
def test_a_network_without_nonlinearity_is_unsupported(model):
    with pytest.raises(Unscorable, match="unsupported: the network has no pointwise nonlinearity"):
        read_codes(model.double(), make_batch(*FLAT))


# --------------------------------------------------------------------------------------- modules with ReLU in the name


class ReLUThen(nn.Sequential):
    """Like NAS-Bench-201's ReLUConvBN: the class has ReLU in its name, and so has its first child."""


class ThenReLU(nn.Sequential):
    """Its input is not the input of its ReLU."""


class FunctionalReLU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (nn.Sequential(nn.Linear(6, 6), nn.ReLU()), [1]),
        (ReLUThen(nn.ReLU(), nn.Linear(6, 6)), [2]),
        (ReLUThen(ReLUThen(nn.LeakyReLU()), nn.Linear(6, 6)), [3]),
        (ThenReLU(nn.Linear(6, 6), nn.ReLU()), [1]),
        (nn.Sequential(FunctionalReLU(), nn.Linear(6, 6), nn.GELU(), nn.PReLU()), [1, 0, 1]),
        (ReLUThen(nn.ReLU(), nn.ReLU()), [2, 1]),
        (Net(lambda net, x: net.a(x) + net.b(x), a=nn.ReLU(), b=ReLUThen(nn.ReLU())), [1, 2]),
        (
            nn.Sequential(nn.Tanh(), ReLUThen(nn.Linear(6, 6), nn.Tanh()), nn.ReLU(inplace=True)),
            [0, 0, 1],
        ),
    ],
)
def test_modules_named_after_a_relu_that_take_the_same_input_are_counted(model, named):
    assert [
        code.relu_module_count for code in read_codes(model.double(), make_batch(*FLAT))
    ] == named


def test_in_nasbench201_the_relu_of_an_edge_is_counted_twice_and_the_last_once():
    """ReLUConvBN and its ReLU count; the last activation is alone in its Sequential."""
    space = load_space("nasbench201").with_options(channels=4, cells=1)
    conv = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|none~1|none~2|"
    codes = read_codes(space.build(space.parse(conv)), make_batch_32())
    edges = 3 * 2
    blocks = 2 * 2
    assert sorted(code.relu_module_count for code in codes) == [1] + [2] * (edges + blocks)


def make_batch_32() -> Batch:
    data = make_batch(2, 3, 32, 32)
    return Batch(data.inputs.float(), data.targets)


def test_every_nonlinearity_is_registered_under_all_names():
    for f in (
        F.relu,
        torch.relu,
        Tensor.relu,
        Tensor.relu_,
        torch.relu_,
        F.relu_,
        F.gelu,
        F.silu,
        Tensor.tanh_,
    ):
        assert f in NONLINEARITIES
    assert (
        not {torch.softmax, F.softmax, torch.mul, torch.sin, F.dropout, Tensor.exp} & NONLINEARITIES
    )


@pytest.mark.parametrize("space", ["nasbench201", "mobilenetv2", "autoformer_tiny"])
def test_codes_of_a_pass_for_features_equal_those_of_a_pass_of_their_own(space):
    model = load_space(space)
    arch = model.sample(2)
    network = model.build(arch)
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(3, *model.task.input_shape, generator=draw)
    batch = Batch(inputs, torch.zeros(3, dtype=torch.long))
    alone = Probe(network, batch).codes
    shared_probe = Probe(network, batch)
    assert shared_probe.features
    passes = count_passes(network)
    shared = shared_probe.codes
    assert not passes, "the network ran once more"
    for code, expected in zip(shared, alone, strict=True):
        assert torch.equal(code.signs, expected.signs)
        assert code.is_feature_map == expected.is_feature_map
        assert code.relu_module_count == expected.relu_module_count


def count_passes(network: nn.Module) -> list[object]:
    """Return a list to which every pass through the network appends."""
    passes: list[object] = []
    network.register_forward_pre_hook(lambda module, args: passes.append(module))
    return passes


def test_codes_are_read_again_if_a_feature_is_overwritten():
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    network.append(Net(lambda net, x: x.mul_(-1).flatten(1)))
    draw = torch.Generator().manual_seed(0)
    batch = Batch(torch.randn(4, 3, 5, 5, generator=draw), torch.zeros(4, dtype=torch.long))
    alone = Probe(network, batch).codes
    probe = Probe(network, batch)
    assert probe.features
    for code, expected in zip(probe.codes, alone, strict=True):
        assert torch.equal(code.signs, expected.signs)

"""One probe, shared work: views of the first samples and of parts measure once what several proxies ask for."""

import gc
from collections.abc import Callable
from weakref import ref

import pytest
import torch
from torch import Tensor, nn

from tests.probe.loops import Net, batch, made
from tests.probe.networks import FLAT, frozen, normed, transformer
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import load_proxy
from untrained.types import Batch

DATA = batch(12, 3, 7, 7)


def count_forward_samples(model: nn.Module) -> list[int]:
    """Grows by the number of samples of every forward pass."""
    seen: list[int] = []
    model.register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
    return seen


def test_the_first_samples_are_a_view_of_the_batch():
    probe = Probe(made(normed()), DATA, loss="mse", seed=7)
    view = probe.first(5)
    assert torch.equal(view.batch.inputs, DATA.inputs[:5])
    assert torch.equal(view.batch.targets, DATA.targets[:5])
    assert view.batch.inputs.data_ptr() == DATA.inputs.data_ptr()
    assert (view.model, view.loss_name, view.seed) == (probe.model, "mse", 7)


def test_first_returns_all_samples_if_there_are_fewer():
    probe = Probe(made(normed()), DATA)
    assert probe.first(12) is probe.first(10**6) is probe


def test_probes_of_the_same_rows_are_the_same_object():
    probe = Probe(made(normed()), DATA)
    half = probe.first(6)
    assert probe.first(6) is half
    assert half.first(6) is half.first(9) is half
    assert probe.parts(2)[0] is half
    assert probe.parts(4)[0] is half.parts(2)[0] is probe.first(3)
    second = probe.parts(2)[1]
    assert (
        probe.parts(4)[2] is second.first(3) is second.parts(2)[0]
    )  # rows 6 to 8, however they are reached
    assert second.parts(3)[1] is not half.parts(3)[1]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12])
def test_parts_are_equal_batches_in_order(count):
    size = 12 // count
    parts = Probe(made(normed()), DATA).parts(count)
    assert [len(part.batch) for part in parts] == [size] * count
    for k, part in enumerate(parts):
        assert torch.equal(part.batch.inputs, DATA.inputs[k * size : (k + 1) * size])
        assert torch.equal(part.batch.targets, DATA.targets[k * size : (k + 1) * size])


def test_more_parts_than_samples_are_unsupported():
    with pytest.raises(
        Unscorable, match="unsupported: 13 batches need at least 13 samples, not 12"
    ):
        Probe(made(normed()), DATA).parts(13)


MEASURES: dict[
    str, tuple[Callable[[Probe], object], int]
] = {  # and how many forwards each takes alone
    "outputs": (lambda p: p.outputs, 1),
    "features": (
        lambda p: (p.features, p.outputs, p.last_map),
        2,
    ),  # once more with copies: a ReLU works in place
    "codes": (lambda p: p.codes, 1),
    "variances": (lambda p: p.norm_variances, 1),
    "loss": (lambda p: (p.loss, p.gradients, p.channels), 1),
    "hessian": (lambda p: p.hessian_weights, 1),
    "jacobian": (lambda p: p.jacobian, 1),
    "blocks": (lambda p: (p.blocks.features, p.blocks.passes), 1),
    "exact kernel": (
        lambda p: (p.kernel("loss", "all", "exact"), p.kernel("loss", "all", "exact")),
        1,
    ),
    "size": (lambda p: (p.macs, p.params, p.weights), 1),
    "flow": (lambda p: (p.flow(), p.flow(True)), 2),
    "jet": (lambda p: (p.circle_jet((3, 7, 7)), p.circle_jet((3, 7, 7))), 1),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_measurement_is_taken_once_for_all_views_of_the_same_rows(name):
    measure, forwards = MEASURES[name]
    model = made(normed())
    seen = count_forward_samples(model)
    probe = Probe(model, DATA)
    for view in (probe.first(6), probe.parts(2)[0], probe.first(9).first(6), probe.first(6)):
        measure(view)
    assert len(seen) == forwards
    measure(probe.parts(2)[1])
    assert len(seen) == 2 * forwards + (
        name in ("loss", "hessian")
    )  # two backward passes, and no graph is kept here


def test_a_network_with_in_place_functions_is_run_twice_at_most():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(100, 3)
    ).double()
    seen = count_forward_samples(model)
    probe = Probe(model, DATA)
    probe.gradients, probe.channels, probe.loss, probe.jacobian  # noqa: B018
    assert seen == [12, 12]


@pytest.mark.parametrize("name", ["outputs", "loss", "jacobian", "codes", "variances", "blocks"])
def test_a_view_measures_the_same_as_a_separate_probe(name):
    """Batch norm reads the rows of the view, not of the batch it is cut from."""
    measure, _ = MEASURES[name]
    view, own = Probe(made(normed()), DATA).parts(3)[1], Probe(made(normed()), rows(4, 8))
    assert bits(measure(view)) == bits(measure(own))
    assert bits(measure(view)) != bits(measure(Probe(made(normed()), rows(0, 4))))


def rows(start: int, stop: int) -> Batch:
    return Batch(DATA.inputs[start:stop].clone(), DATA.targets[start:stop].clone())


def bits(value: object) -> object:
    """Comparable with ==, to the last bit."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [bits(v) for v in value]
    if isinstance(value, dict):
        return {key: bits(v) for key, v in value.items()}
    return [bits(getattr(value, slot)) for slot in _fields(value)] if _fields(value) else value


def _fields(value: object) -> list[str]:
    return list(getattr(value, "__dataclass_fields__", ()))


# ------------------------------------------------------------------------------------------------------------ connected


def test_a_network_with_different_outputs_is_connected():
    model = made(normed())
    seen = count_forward_samples(model)
    probe = Probe(model, DATA)
    probe.gradients  # noqa: B018
    probe.require_connected()
    assert seen == [12]  # outputs of an earlier pass are used


@pytest.mark.parametrize(
    "does", [lambda net, x: net.a(x * 0), lambda net, x: net.a(torch.ones_like(x))]
)
@pytest.mark.parametrize("samples", [1, 4])
def test_a_network_that_ignores_its_input_is_disconnected(does, samples):
    probe = Probe(made(Net(does, a=nn.Linear(6, 3))), batch(samples, 6))
    with pytest.raises(Unscorable, match="disconnected: the output does not depend on the input"):
        probe.require_connected()


@pytest.mark.parametrize(
    "inputs", [torch.zeros(1, 6), torch.ones(4, 6), torch.tensor([[1, 2, 3, 4, 5, 6]])]
)
def test_equal_samples_do_not_make_a_network_disconnected(inputs):
    """A batch of one sample, of copies, or of words: another input is drawn."""
    model = (
        nn.Linear(6, 3)
        if inputs.is_floating_point()
        else nn.Sequential(nn.Embedding(7, 2), nn.Flatten())
    )
    seen = count_forward_samples(model)
    Probe(model, Batch(inputs, torch.zeros(len(inputs), dtype=torch.long))).require_connected()
    assert seen[-1] == 2  # the first sample, and another


def test_a_motion_along_a_circle_proves_connection():
    model = made(Net(lambda net, x: net.a(x), a=nn.Linear(6, 3)))
    seen, probe = count_forward_samples(model), Probe(model, batch(1, 6))
    probe.circle_jet((6,))
    probe.require_connected()
    assert len(seen) == 1


# -------------------------------------------------------------------------------------------------------------- weights


def test_weights_are_those_of_convolutions_linear_layers_and_projections():
    names = {"layer.self_attn.in_proj_weight", "layer.self_attn.out_proj.weight"}
    names |= {"layer.linear1.weight", "layer.linear2.weight", "head.weight"}
    assert set(Probe(frozen(transformer(), "head.weight"), DATA).weights) == names
    narrow = nn.MultiheadAttention(6, 2, kdim=3, vdim=4)
    assert set(Probe(narrow, DATA).weights) == {
        f"{part}_weight" for part in ("q_proj", "k_proj", "v_proj")
    } | {"out_proj.weight"}
    with pytest.raises(Unscorable, match="no convolution and no linear layer"):
        Probe(nn.LayerNorm(6), DATA).weights  # noqa: B018


def test_with_gaussian_weights_is_a_copy_with_gaussian_weights_and_no_biases():
    model = made(
        nn.Sequential(nn.Conv2d(3, 40, 3), nn.BatchNorm2d(40), nn.Flatten(), nn.Linear(1000, 3))
    )
    before = {name: p.clone() for name, p in model.state_dict().items()}
    copies = [
        Probe(model, DATA, seed=3).with_gaussian_weights(torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    for name, p in model.state_dict().items():
        assert torch.equal(p, before[name])
    first, same, other = (copy.model for copy in copies)
    assert first is not model
    assert copies[0].seed == 3
    for name in ("0.weight", "3.weight"):
        W = first.get_parameter(name)
        assert float(W.detach().mean()) == pytest.approx(0, abs=0.1)
        assert float(W.detach().std()) == pytest.approx(1, abs=0.1)
        assert torch.equal(W, same.get_parameter(name))
        assert not torch.equal(W, other.get_parameter(name))
    assert not first.get_parameter("0.bias").any()
    assert torch.equal(first.get_parameter("1.weight"), before["1.weight"])  # a norm keeps its own


def test_gaussian_weights_include_the_biases_of_attention():
    layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
    copy = (
        Probe(made(layer), batch(4, 4, 6))
        .with_gaussian_weights(torch.Generator().manual_seed(0))
        .model
    )
    assert not copy.self_attn.in_proj_bias.any()
    assert not copy.self_attn.out_proj.bias.any()
    assert copy.norm1.bias.any()


def test_a_probe_on_other_inputs_has_the_same_network():
    model = made(nn.Linear(6, 3))
    probe = Probe(model, batch(*FLAT), seed=5).with_inputs(torch.zeros(2, 6, dtype=torch.float64))
    assert (probe.model, probe.seed) == (model, 5)
    torch.testing.assert_close(probe.outputs, model.bias.detach().expand(2, 3))


def test_a_probe_is_released_without_references():
    """It holds activations of whole batches; a ring of references would keep them until Python looks for rings."""
    model, batch = (
        nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)),
        torch.randn(8, 3, 2, 2),
    )
    probe = Probe(model, Batch(batch, torch.arange(8) % 3))
    for name in ("grad_norm", "zico(samples=8)", "trace", "az_expressivity", "dextr", "grasp"):
        load_proxy(name)(probe)
    gone = [ref(probe), ref(probe.parts(2)[1])]
    gc.disable()
    try:
        del probe
        assert [there() for there in gone] == [None, None]
    finally:
        gc.enable()

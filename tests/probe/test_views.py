"""Views of a probe share measurements: what several proxies need of the same samples is measured once."""

import gc
from collections.abc import Callable
from weakref import ref

import pytest
import torch
from torch import Tensor, nn

from tests.probe.loops import Net, make_batch, randomise
from tests.probe.networks import FLAT, freeze, make_normed, make_transformer
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.proxies import load_proxy
from untrained.types import Batch

DATA = make_batch(12, 3, 7, 7)


def count_forward_samples(model: nn.Module) -> list[int]:
    """Return a list that grows by the number of samples of every forward pass."""
    sample_counts: list[int] = []
    model.register_forward_pre_hook(lambda module, args: sample_counts.append(len(args[0])))
    return sample_counts


def test_the_first_samples_are_a_view_of_the_batch():
    probe = Probe(randomise(make_normed()), DATA, loss="mse", seed=7)
    view = probe.first(5)
    assert torch.equal(view.batch.inputs, DATA.inputs[:5])
    assert torch.equal(view.batch.targets, DATA.targets[:5])
    assert view.batch.inputs.data_ptr() == DATA.inputs.data_ptr()
    assert (view.model, view.loss_name, view.seed) == (probe.model, "mse", 7)


def test_first_returns_all_samples_if_there_are_fewer():
    probe = Probe(randomise(make_normed()), DATA)
    assert probe.first(12) is probe.first(10**6) is probe


def test_probes_of_the_same_rows_are_the_same_object():
    probe = Probe(randomise(make_normed()), DATA)
    half = probe.first(6)
    assert probe.first(6) is half
    assert half.first(6) is half.first(9) is half
    assert probe.parts(2)[0] is half
    assert probe.parts(4)[0] is half.parts(2)[0] is probe.first(3)
    second = probe.parts(2)[1]
    # Rows 6 to 8, however they are reached
    assert probe.parts(4)[2] is second.first(3) is second.parts(2)[0]
    assert second.parts(3)[1] is not half.parts(3)[1]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12])
def test_parts_are_equal_batches_in_order(count):
    size = 12 // count
    parts = Probe(randomise(make_normed()), DATA).parts(count)
    assert [len(part.batch) for part in parts] == [size] * count
    for k, part in enumerate(parts):
        assert torch.equal(part.batch.inputs, DATA.inputs[k * size : (k + 1) * size])
        assert torch.equal(part.batch.targets, DATA.targets[k * size : (k + 1) * size])


def test_more_parts_than_samples_are_unsupported():
    with pytest.raises(
        Unscorable, match="unsupported: 13 batches need at least 13 samples, not 12"
    ):
        Probe(randomise(make_normed()), DATA).parts(13)


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
    "loss": (lambda p: (p.loss, p.gradients, p.channel_saliency), 1),
    "hessian": (lambda p: p.hessian_weight_products, 1),
    "jacobian": (lambda p: p.jacobian, 1),
    "blocks": (lambda p: (p.blocks.features, p.blocks.gradient_pairs), 1),
    "exact kernel": (
        lambda p: (p.kernel("loss", "all", "exact"), p.kernel("loss", "all", "exact")),
        1,
    ),
    "size": (lambda p: (p.macs, p.params, p.weights), 1),
    "flow": (lambda p: (p.flow(), p.flow(True)), 2),
    "jet": (lambda p: (p.circle_motion((3, 7, 7)), p.circle_motion((3, 7, 7))), 1),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_measurement_is_taken_once_for_all_views_of_the_same_rows(name):
    measure, forwards = MEASURES[name]
    model = randomise(make_normed())
    sample_counts = count_forward_samples(model)
    probe = Probe(model, DATA)
    for view in (probe.first(6), probe.parts(2)[0], probe.first(9).first(6), probe.first(6)):
        measure(view)
    assert len(sample_counts) == forwards
    measure(probe.parts(2)[1])
    # Two backward passes, and no graph is kept here
    assert len(sample_counts) == 2 * forwards + (name in ("loss", "hessian"))


def test_a_network_with_in_place_functions_is_run_twice_at_most():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(100, 3)
    ).double()
    sample_counts = count_forward_samples(model)
    probe = Probe(model, DATA)
    probe.gradients, probe.channel_saliency, probe.loss, probe.jacobian  # noqa: B018
    assert sample_counts == [12, 12]


@pytest.mark.parametrize("name", ["outputs", "loss", "jacobian", "codes", "variances", "blocks"])
def test_a_view_measures_the_same_as_a_separate_probe(name):
    """Batch norm uses the rows of the view, not all rows of the batch."""
    measure, _ = MEASURES[name]
    view = Probe(randomise(make_normed()), DATA).parts(3)[1]
    own = Probe(randomise(make_normed()), select_rows(4, 8))
    assert to_comparable(measure(view)) == to_comparable(measure(own))
    assert to_comparable(measure(view)) != to_comparable(
        measure(Probe(randomise(make_normed()), select_rows(0, 4)))
    )


def select_rows(start: int, stop: int) -> Batch:
    return Batch(DATA.inputs[start:stop].clone(), DATA.targets[start:stop].clone())


def to_comparable(value: object) -> object:
    """Convert to lists and dictionaries that can be compared with ==, bit for bit."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [to_comparable(v) for v in value]
    if isinstance(value, dict):
        return {key: to_comparable(v) for key, v in value.items()}
    return (
        [to_comparable(getattr(value, slot)) for slot in list_fields(value)]
        if list_fields(value)
        else value
    )


def list_fields(value: object) -> list[str]:
    return list(getattr(value, "__dataclass_fields__", ()))


# ------------------------------------------------------------------------------------------------------------ connected


def test_a_network_with_different_outputs_is_connected():
    model = randomise(make_normed())
    sample_counts = count_forward_samples(model)
    probe = Probe(model, DATA)
    probe.gradients  # noqa: B018
    probe.require_connected()
    assert sample_counts == [12]  # outputs of an earlier pass are used


@pytest.mark.parametrize(
    "function", [lambda net, x: net.a(x * 0), lambda net, x: net.a(torch.ones_like(x))]
)
@pytest.mark.parametrize("samples", [1, 4])
def test_a_network_that_ignores_its_input_is_disconnected(function, samples):
    probe = Probe(randomise(Net(function, a=nn.Linear(6, 3))), make_batch(samples, 6))
    with pytest.raises(Unscorable, match="disconnected: the output does not depend on the input"):
        probe.require_connected()


@pytest.mark.parametrize(
    "inputs", [torch.zeros(1, 6), torch.ones(4, 6), torch.tensor([[1, 2, 3, 4, 5, 6]])]
)
def test_equal_samples_do_not_make_a_network_disconnected(inputs):
    """For a batch of one sample, of copies, or of token indices, another input is drawn."""
    model = (
        nn.Linear(6, 3)
        if inputs.is_floating_point()
        else nn.Sequential(nn.Embedding(7, 2), nn.Flatten())
    )
    sample_counts = count_forward_samples(model)
    Probe(model, Batch(inputs, torch.zeros(len(inputs), dtype=torch.long))).require_connected()
    assert sample_counts[-1] == 2  # the first sample and a drawn one


def test_a_jet_along_a_circle_proves_connection():
    model = randomise(Net(lambda net, x: net.a(x), a=nn.Linear(6, 3)))
    sample_counts = count_forward_samples(model)
    probe = Probe(model, make_batch(1, 6))
    probe.circle_motion((6,))
    probe.require_connected()
    assert len(sample_counts) == 1


# -------------------------------------------------------------------------------------------------------------- weights


def test_weights_are_those_of_convolutions_linear_layers_and_projections():
    names = {"layer.self_attn.in_proj_weight", "layer.self_attn.out_proj.weight"}
    names |= {"layer.linear1.weight", "layer.linear2.weight", "head.weight"}
    assert set(Probe(freeze(make_transformer(), "head.weight"), DATA).weights) == names
    narrow = nn.MultiheadAttention(6, 2, kdim=3, vdim=4)
    assert set(Probe(narrow, DATA).weights) == {
        f"{part}_weight" for part in ("q_proj", "k_proj", "v_proj")
    } | {"out_proj.weight"}
    with pytest.raises(Unscorable, match="no convolution and no linear layer"):
        Probe(nn.LayerNorm(6), DATA).weights  # noqa: B018


def test_with_gaussian_weights_is_a_copy_with_gaussian_weights_and_no_biases():
    model = randomise(
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
        Probe(randomise(layer), make_batch(4, 4, 6))
        .with_gaussian_weights(torch.Generator().manual_seed(0))
        .model
    )
    assert not copy.self_attn.in_proj_bias.any()
    assert not copy.self_attn.out_proj.bias.any()
    assert copy.norm1.bias.any()


def test_a_probe_on_other_inputs_has_the_same_network():
    model = randomise(nn.Linear(6, 3))
    probe = Probe(model, make_batch(*FLAT), seed=5).with_inputs(
        torch.zeros(2, 6, dtype=torch.float64)
    )
    assert (probe.model, probe.seed) == (model, 5)
    torch.testing.assert_close(probe.outputs, model.bias.detach().expand(2, 3))


def test_a_probe_is_released_without_references():
    """A probe holds activations; a reference cycle would keep them until the garbage collector runs."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    inputs = torch.randn(8, 3, 2, 2)
    probe = Probe(model, Batch(inputs, torch.arange(8) % 3))
    for name in ("grad_norm", "zico(samples=8)", "trace", "az_expressivity", "dextr", "grasp"):
        load_proxy(name)(probe)
    references = [ref(probe), ref(probe.parts(2)[1])]
    gc.disable()
    try:
        del probe
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()

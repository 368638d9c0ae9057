"""Every rule of per-sample gradients compared with a loop over samples, in float64, one layer at a time.

The network is `weighting * tanh(layer(gain * x))`: with the gain a gradient flows through the layer, with the weighting
the entries of its output differ.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from tests.probe.loops import (
    Net,
    assert_same_kernel,
    check_kernels,
    compute_alone,
    make_batch,
    randomise,
)
from untrained.probe import Probe, kernels, sample_gradients
from untrained.types import Batch

P = nn.Parameter
# torch warns once per process.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")


@pytest.fixture
def forbid_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the pass would fall back to one backward pass per sample."""
    monkeypatch.setattr(
        kernels, "_compute_sample_by_sample", lambda *_: pytest.fail("one backward pass per sample")
    )


def weight_entries(out: Tensor) -> Tensor:
    """Weight every entry of a sample's output differently, the same for every sample."""
    return out.tanh() * torch.linspace(-1, 2, out[0].numel(), dtype=out.dtype).reshape(
        1, *out.shape[1:]
    )


def add_gain(shape: tuple[int, ...], layer: nn.Module) -> nn.Module:
    gain = P(torch.empty(1, *shape[1:]))
    return randomise(
        Net(lambda net, x: weight_entries(net.layer(net.gain * x)), gain=gain, layer=layer)
    )


CONVOLUTIONS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "1d": (lambda: nn.Conv1d(4, 6, 3), (3, 4, 9)),
    "1d, stride, dilation, padding": (
        lambda: nn.Conv1d(4, 6, 3, stride=2, padding=3, dilation=2),
        (3, 4, 9),
    ),
    "1d, same, even kernel": (lambda: nn.Conv1d(4, 6, 4, padding="same"), (3, 4, 9)),
    "2d": (lambda: nn.Conv2d(4, 6, 3, padding=1), (3, 4, 6, 5)),
    "2d, no bias": (lambda: nn.Conv2d(4, 6, 3, bias=False), (3, 4, 6, 5)),
    "2d, uneven": (lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (0, 2), (1, 2)), (3, 4, 6, 5)),
    "2d, same, dilated": (
        lambda: nn.Conv2d(4, 6, (2, 3), padding="same", dilation=(1, 2)),
        (3, 4, 6, 5),
    ),
    "2d, valid": (lambda: nn.Conv2d(4, 6, 3, 2, padding="valid"), (3, 4, 6, 5)),
    "2d, groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, stride=2, padding=1), (3, 4, 6, 5)),
    "2d, depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4, dilation=2, padding=2), (3, 4, 6, 5)),
    "2d, circular": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), (3, 4, 6, 5)),
    "2d, one sample": (lambda: nn.Conv2d(4, 6, 3), (1, 4, 6, 5)),
    "3d": (lambda: nn.Conv3d(2, 4, 3, stride=(1, 2, 1), padding=1, groups=2), (3, 2, 4, 5, 3)),
    "3d, same": (lambda: nn.Conv3d(2, 3, (1, 2, 3), padding="same"), (3, 2, 4, 5, 3)),
    "1d transposed": (lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, output_padding=1), (3, 4, 5)),
    "2d transposed": (lambda: nn.ConvTranspose2d(4, 6, 3), (3, 4, 3, 4)),
    "2d transposed, groups": (
        lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2, dilation=2),
        (3, 4, 3, 4),
    ),
    "2d transposed, depthwise": (
        lambda: nn.ConvTranspose2d(4, 4, 2, 2, groups=4, bias=False),
        (3, 4, 3, 4),
    ),
    "3d transposed": (
        lambda: nn.ConvTranspose3d(2, 3, 2, (2, 1, 2), dilation=(1, 2, 1)),
        (3, 2, 2, 3, 2),
    ),
}
OTHERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(5, 4), (3, 5)),
    "linear, no bias": (lambda: nn.Linear(5, 4, bias=False), (3, 5)),
    "linear on tokens": (lambda: nn.Linear(5, 4), (3, 7, 5)),
    "linear on a grid": (lambda: nn.Linear(5, 4), (3, 2, 4, 5)),
    "layer norm": (lambda: nn.LayerNorm(5), (3, 5)),
    "layer norm on tokens": (lambda: nn.LayerNorm(5, eps=0.1), (3, 7, 5)),
    "layer norm of whole samples": (lambda: nn.LayerNorm((7, 5)), (3, 7, 5)),
    "layer norm without bias": (lambda: nn.LayerNorm(5, bias=False), (3, 2, 7, 5)),
    "group norm": (lambda: nn.GroupNorm(2, 4, eps=0.1), (3, 4, 6, 5)),
    "group norm on features": (lambda: nn.GroupNorm(2, 4), (3, 4)),
    "group norm of volumes": (lambda: nn.GroupNorm(1, 4), (3, 4, 2, 3, 2)),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True, eps=0.1), (3, 4, 6, 5)),
    "instance norm of series": (lambda: nn.InstanceNorm1d(4, affine=True), (3, 4, 9)),
    "rms norm": (lambda: nn.RMSNorm(5), (3, 7, 5)),
    "rms norm of whole samples": (lambda: nn.RMSNorm((7, 5), eps=0.1), (3, 7, 5)),
}


@pytest.mark.usefixtures("forbid_fallback")
@pytest.mark.parametrize("reading", ["cross", "fixed"])
@pytest.mark.parametrize("case", CONVOLUTIONS | OTHERS)
def test_a_layer_gives_the_gradients_of_a_loop_over_samples(case, reading):
    layer, shape = (CONVOLUTIONS | OTHERS)[case]
    model = add_gain(shape, layer())
    data = make_batch(*shape)
    check_kernels(model, data, reading)


def test_an_instance_norm_on_running_statistics_is_computed_sample_by_sample():
    """In evaluation mode, which scoring uses, it normalises with constants; there is no rule for that."""
    model = add_gain((3, 4, 6, 5), nn.InstanceNorm2d(4, affine=True, track_running_stats=True))
    data = make_batch(3, 4, 6, 5)
    check_kernels(model, data)


@st.composite
def draw_convolution(
    draw: Any,
) -> tuple[Callable[..., Tensor], tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Draw a functional convolution, the shapes of its input and weight, and its settings."""
    d = draw(st.integers(1, 3))
    some = st.integers(1, 3) | st.tuples(*[st.integers(1, 3)] * d)
    transposed = draw(st.booleans())
    groups = draw(st.sampled_from([1, 2, 4]))
    more = groups * draw(st.integers(1, 2))
    settings = {
        "stride": draw(some),
        "dilation": draw(some),
        "groups": groups,
        "padding": draw(st.integers(0, 2)),
    }
    if not transposed and draw(st.booleans()):
        settings["padding"] = draw(st.sampled_from(["same", "valid"]))
        settings["stride"] = 1 if settings["padding"] == "same" else settings["stride"]
    if transposed and settings["dilation"] == 2:
        settings["output_padding"] = 1
    kernel = draw(st.tuples(*[st.integers(1, 3)] * d))
    name = f"conv_transpose{d}d" if transposed else f"conv{d}d"
    weight = (4, more // groups, *kernel) if transposed else (more, 4 // groups, *kernel)
    return getattr(F, name), (draw(st.integers(1, 3)), 4, *(7,) * d), weight, settings


@settings(derandomize=True, deadline=None, max_examples=60)
@given(draw_convolution())
def test_any_convolution_gives_the_gradients_of_a_loop_over_samples(case):
    function, inputs, weight, options = case
    model = randomise(Net(lambda net, x: weight_entries(function(net.gain * x, net.weight, **options)),
                     gain=P(torch.empty(1, *inputs[1:])), weight=P(torch.empty(weight))))  # fmt: skip
    data = make_batch(*inputs)
    check_kernels(model, data)


def test_positional_arguments_of_a_transposed_convolution_may_be_some_or_all():
    """(input, weight, bias, stride, padding, output_padding, groups, dilation): any of them by place or by name."""
    places = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "dilation": 2}
    data = make_batch(3, 4, 6)
    for count in range(len(places) + 1):
        by_place = list(places.values())[:count]
        by_name = dict(list(places.items())[count:])
        model = randomise(Net(lambda net, x, a=by_place, k=by_name: weight_entries(F.conv_transpose1d(x, net.w, None, *a, **k)),
                         w=P(torch.empty(4, 3, 3))))  # fmt: skip
        check_kernels(model, data)


# ----------------------------------------------------------------------------------------------------------- embeddings

WORDS = torch.tensor([[0, 3, 3, 6], [2, 2, 2, 2], [6, 5, 0, 1]])


def make_embedding(**options: Any) -> nn.Module:
    table = nn.Embedding(7, 5, **options)
    return randomise(Net(lambda net, x: weight_entries(net.table(x.long()).cumsum(1)), table=table))


def make_word_batch(index: Tensor = WORDS) -> Batch:
    return Batch(index, torch.zeros(len(index), dtype=torch.long))


@pytest.mark.usefixtures("forbid_fallback")
@pytest.mark.parametrize("padding_idx", [None, 0, 2, -1])
def test_an_embedding_gives_the_gradients_of_a_loop_over_samples(padding_idx):
    model = make_embedding(padding_idx=padding_idx)
    check_kernels(model, make_word_batch())
    rows = compute_alone(model, make_word_batch())
    # The padding has no gradient
    assert (padding_idx is None) == bool(rows["table.weight"][:, padding_idx or 0].any())


def test_a_negative_padding_index_counts_from_the_end():
    def run(net: Any, x: Tensor) -> Tensor:
        return weight_entries(F.embedding(x, net.w, padding_idx=-1))

    model = randomise(Net(run, w=P(torch.empty(7, 5))))
    check_kernels(model, make_word_batch())


def test_single_words_are_samples_too():
    """The gradient of sum_d c_d tanh(sum_(e <= d) W_we) for word w is computed by hand."""
    model = make_embedding()
    W = model.table.weight.detach()
    rows = torch.zeros(3, 7, 5, dtype=torch.float64)
    c = torch.linspace(-1, 2, 5, dtype=W.dtype)
    for i, word in enumerate(WORDS[:, 1]):
        rows[i, word] = (c * (1 - W[word].cumsum(0).tanh() ** 2)).flip(0).cumsum(0).flip(0)
    assert_same_kernel(
        Probe(model, make_word_batch(WORDS[:, 1])).kernel("sum", "all"),
        {"table.weight": rows},
        model,
    )


# -------------------------------------------------------------------------------------------------- parameters by hand

BY_HAND: dict[str, tuple[Callable[[Any, Tensor], Tensor], dict[str, tuple[int, ...]], tuple[int, ...]]] = {
    "positions": (lambda net, x: x + net.p, {"p": (1, 7, 5)}, (3, 7, 5)),
    "positions on the left": (lambda net, x: net.p + x, {"p": (7, 5)}, (3, 7, 5)),
    "positions shared by channels": (lambda net, x: torch.add(x, net.p, alpha=2), {"p": (7, 1)}, (3, 7, 5)),
    "a sum by name": (lambda net, x: torch.add(input=x, other=net.p), {"p": (7, 1)}, (3, 7, 5)),
    "a product by name": (lambda net, x: torch.mul(input=x, other=net.p), {"p": (7, 1)}, (3, 7, 5)),
    "a single number": (lambda net, x: x + net.p, {"p": ()}, (3, 7, 5)),
    "layer scale": (lambda net, x: x + net.p * x.tanh(), {"p": (5,)}, (3, 7, 5)),
    "channel scale": (lambda net, x: x.mul(net.p), {"p": (4, 1, 1)}, (3, 4, 6, 5)),
    "a scale on the right": (lambda net, x: torch.multiply(x, net.p), {"p": (1, 4, 1, 1)}, (3, 4, 6, 5)),
    "class token": (lambda net, x: torch.cat([net.p.expand(len(x), -1, -1), x], 1), {"p": (1, 1, 5)}, (3, 7, 5)),
    "a flat class token": (lambda net, x: torch.cat([net.p.expand(len(x), 2, 5), x], 1), {"p": (5,)}, (3, 7, 5)),
    "class token and positions": (
        lambda net, x: torch.cat([net.p.expand(len(x), -1, -1), x], 1) + net.q,
        {"p": (1, 1, 5), "q": (1, 8, 5)},
        (3, 7, 5)),
    "scaled and shifted by one parameter": (lambda net, x: (x * net.p + net.p) * net.p, {"p": (5,)}, (3, 7, 5)),
}  # fmt: skip


@pytest.mark.usefixtures("forbid_fallback")
@pytest.mark.parametrize("reading", ["cross", "fixed"])
@pytest.mark.parametrize("case", BY_HAND)
def test_a_parameter_of_a_user_gives_the_gradients_of_a_loop_over_samples(case, reading):
    function, shapes, shape = BY_HAND[case]
    parameters = {name: P(torch.empty(size)) for name, size in shapes.items()}
    layer = Net(lambda net, x: function(net, x).cumsum(1), **parameters)
    model = add_gain(shape, layer)
    data = make_batch(*shape)
    check_kernels(model, data, reading)


# --------------------------------------------------------------------------------------------------------------- pieces


@pytest.mark.usefixtures("forbid_fallback")
@pytest.mark.parametrize("entries", [1, 31, 64, 10**6])
@pytest.mark.parametrize(
    "case", ["linear", "tied linear", "embedding", "embedding tied with the head"]
)
def test_large_matrices_are_computed_in_pieces_with_the_same_result(case, entries, monkeypatch):
    """Of 3 samples and rows of 5 entries, 64 entries hold four rows, and 31 two."""
    monkeypatch.setattr(sample_gradients, "MAX_PIECE_ENTRIES", entries)
    linear = nn.Linear(5, 5)
    data = make_word_batch() if "embedding" in case else make_batch(3, 6, 5)
    models = {
        "linear": Net(lambda net, x: net.a(x).tanh().sum(1), a=linear),
        "tied linear": Net(lambda net, x: net.a(net.a(x).tanh()).sum(1), a=linear),
        "embedding": make_embedding(),
        "embedding tied with the head": Net(
            lambda net, x: F.linear(net.table(x).tanh(), net.table.weight).sum(1),
            table=nn.Embedding(7, 5),
        ),
    }
    model = randomise(models[case])
    assert (
        len(list(sample_gradients.split_rows(torch.empty(7, 5), 3)))
        == {1: 7, 31: 4, 64: 2, 10**6: 1}[entries]
    )
    check_kernels(model, data)

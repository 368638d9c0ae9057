"""Multiply-adds of functions without a formula in torch; expected values are computed by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.flops import FlopCounter
from untrained.types import Batch
from untrained.workflows.score import score_networks

STEPS = 16
INPUTS = 64
HIDDEN = 128
CLASSES = 5
OPTIONS: list[dict[str, Any]] = [
    {},
    {"bidirectional": True},
    {"num_layers": 3},
    {"bidirectional": True, "num_layers": 2},
]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Recurrent(nn.Module):
    """A recurrent network and a linear layer on its last step."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.batch_first = options.get("batch_first", False)
        self.layers = getattr(nn, kind)(INPUTS, HIDDEN, **options)
        width = options.get("proj_size") or HIDDEN
        self.head = nn.Linear(width * (2 if options.get("bidirectional") else 1), CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        answers, _ = self.layers(x if self.batch_first else x.transpose(0, 1))
        return self.head(answers[:, -1] if self.batch_first else answers[-1])


def probe_of(model: nn.Module, *shape: int, device: str = "cpu") -> Probe:
    inputs = torch.zeros(2, *shape, device=device)
    return Probe(model.to(device), Batch(inputs, torch.zeros(2, dtype=torch.long, device=device)))


def count_by_hand(
    kind: str, layers: int = 1, bidirectional: bool = False, proj_size: int = 0
) -> int:
    """A step of a layer multiplies its input and its state by one matrix per gate, and its state by the projection."""
    directions = 2 if bidirectional else 1
    state = proj_size or HIDDEN
    total = 0
    width = INPUTS
    for _ in range(layers):
        gates = GATES[kind] * HIDDEN * (width + state)
        projection = proj_size * HIDDEN
        total += STEPS * directions * (gates + projection)
        width = directions * state
    return total + directions * state * CLASSES


def test_an_lstm_is_counted():
    model = Recurrent("LSTM", batch_first=True)
    assert 16 * 4 * 128 * (64 + 128) + 128 * 5 == 1_573_504
    assert probe_of(model, STEPS, INPUTS).macs == 1_573_504


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"bidirectional": True}, {"num_layers": 3}, {"bidirectional": True, "num_layers": 2}],
)
@pytest.mark.parametrize("kind", GATES)
def test_recurrent_networks_are_counted_by_the_matrices_of_their_gates(kind, options, batch_first):
    model = Recurrent(kind, batch_first=batch_first, **options)
    layers = options.get("num_layers", 1)
    expected = count_by_hand(kind, layers, options.get("bidirectional", False))
    assert probe_of(model, STEPS, INPUTS).macs == expected
    assert probe_of(model, STEPS, INPUTS, device="meta").macs == expected


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_an_lstm_with_projections_is_counted():
    model = Recurrent("LSTM", proj_size=32, num_layers=2, bidirectional=True)
    expected = count_by_hand("LSTM", layers=2, bidirectional=True, proj_size=32)
    assert probe_of(model, STEPS, INPUTS).macs == expected
    assert probe_of(model, STEPS, INPUTS, device="meta").macs == expected


@pytest.mark.parametrize("proj_size", [0, 32])
def test_the_gpu_function_of_an_lstm_has_the_same_count(proj_size):
    """`_cudnn_rnn` works on the meta device too."""
    layers = nn.LSTM(
        INPUTS, HIDDEN, num_layers=2, bidirectional=True, proj_size=proj_size, device="meta"
    )
    inputs = torch.zeros(STEPS, 1, INPUTS, device="meta")
    hidden = torch.zeros(4, 1, proj_size or HIDDEN, device="meta")
    cell = torch.zeros(4, 1, HIDDEN, device="meta")
    weights = layers._flat_weights
    lstm = 2  # cudnn's number of this mode
    with FlopCounter() as counter:
        torch.ops.aten._cudnn_rnn(
            inputs,
            weights,
            weight_stride0=len(weights) // 4,
            weight_buf=None,
            hx=hidden,
            cx=cell,
            mode=lstm,
            hidden_size=HIDDEN,
            proj_size=proj_size,
            num_layers=2,
            batch_first=False,
            dropout=0.0,
            train=False,
            bidirectional=True,
            batch_sizes=[],
            dropout_state=None,
        )
    state = proj_size or HIDDEN
    assert counter.float_operations == 2 * (
        count_by_hand("LSTM", 2, True, proj_size) - 2 * state * CLASSES
    )


class Applied(nn.Module):
    """A function of the input and of one parameter."""

    def __init__(self, function: Any, *shape: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


PRODUCTS = {
    # each on one sample of shape (6, 4)
    "matrix times vector": (lambda x, w: x[0] @ w, (4,), 6 * 4),
    "dot product": (lambda x, w: (x[0, 0] @ w)[None], (4,), 4),
    "added matrix times vector": (lambda x, w: torch.addmv(x[0, :, 0], x[0], w), (4,), 6 * 4),
    "in place": (lambda x, w: x.new_zeros(6, 3).addmm_(x[0], w), (4, 3), 6 * 4 * 3),
    "sum of products": (
        lambda x, w: torch.addbmm(x.new_zeros(6, 3), x, w[None]),
        (4, 3),
        6 * 4 * 3,
    ),
    "convolution over time": (
        lambda x, w: torch.conv_tbc(x.transpose(0, 1), w, w.new_zeros(5)),
        (3, 4, 5),
        4 * 3 * 4 * 5,
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_without_a_formula_in_torch_are_counted(name):
    function, shape, expected = PRODUCTS[name]
    assert probe_of(Applied(function, *shape), 6, 4).macs == expected


def test_a_network_whose_maps_shrink_to_one_position_is_counted():
    """Its batch norm has no variance for a single sample, which is what is counted otherwise."""
    norm = nn.BatchNorm2d(5)
    model = nn.Sequential(nn.Conv2d(3, 5, 3), norm, nn.Flatten(), nn.Linear(5, 2))
    probe = probe_of(model, 3, 3, 3)
    assert probe.macs == 3 * 5 * 9 + 5 * 2
    assert probe.depth == 2


def test_a_bilinear_layer_counts_as_two_products():
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Bilinear(4, 3, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x[:, :4], x[:, 4:])

    assert probe_of(Pair(), 7).macs == 5 * (4 * 3 + 4)


def test_a_transformer_layer_is_counted_without_its_fused_kernel():
    """In evaluation mode torch runs one fused function, which has no formula."""
    tokens = 6
    width = 8
    inner = 16
    model = nn.TransformerEncoderLayer(width, 2, dim_feedforward=inner, batch_first=True).eval()
    projections = 4 * tokens * width * width
    attention = 2 * tokens * tokens * width
    perceptron = 2 * tokens * width * inner
    enabled = torch.backends.mha.get_fastpath_enabled()
    assert probe_of(model, tokens, width).macs == projections + attention + perceptron
    assert torch.backends.mha.get_fastpath_enabled() == enabled


UNKNOWN = {
    "_cdist_forward": Applied(lambda x, w: torch.cdist(x, w[None]), 3, 4),
    "_fft_r2c": Applied(lambda x, w: torch.fft.rfft(x).real * w, 3),
    "linalg_matrix_exp": Applied(lambda x, w: x @ torch.matrix_exp(w), 4, 4),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_function_without_a_formula_is_unsupported(name):
    with pytest.raises(Unscorable) as caught:
        _ = probe_of(UNKNOWN[name], 6, 4).macs
    assert (caught.value.kind, name in caught.value.detail) == ("unsupported", True)


@pytest.mark.filterwarnings("ignore:torch")  # quantised tensors are deprecated, and still in use
def test_a_quantised_layer_is_unsupported():
    model = torch.ao.quantization.quantize_dynamic(
        nn.Sequential(nn.Flatten(), nn.Linear(24, 3)), {nn.Linear}
    )
    flops, params = score_networks(model, ("flops", "params"), torch.zeros(2, 6, 4))
    assert flops.error is not None
    assert (flops.error.kind, "quantized::linear_dynamic" in flops.error.detail) == (
        "unsupported",
        True,
    )
    assert params.error is not None
    assert (params.error.kind, "quantised" in params.error.detail) == ("unsupported", True)


@pytest.mark.parametrize("proxy", ["snip", "synflow", "l2_norm", "trace", "depth"])
@pytest.mark.parametrize("kind", GATES)
def test_proxies_of_weight_matrices_refuse_recurrent_layers(kind, proxy):
    inputs = torch.randn(4, STEPS, INPUTS)
    (record,) = score_networks(
        Recurrent(kind, batch_first=True), (proxy,), (inputs, torch.arange(4))
    )
    assert record.error is not None
    assert (record.error.kind, kind in record.error.detail) == ("unsupported", True)


FREE = {
    "embedding": nn.Embedding(7, 3),
    "embedding bag": nn.EmbeddingBag(7, 3),
}


@pytest.mark.parametrize("name", FREE)
def test_look_ups_have_no_multiply_adds(name):
    inputs = torch.zeros(2, 4, dtype=torch.long)
    assert Probe(FREE[name], Batch(inputs, torch.zeros(2, dtype=torch.long))).macs == 0

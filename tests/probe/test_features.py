"""Measurements of a Probe besides jets: feature maps, their condition numbers, outputs, loss, gradients and size.

Each expected value is computed by hand, by plain autograd or by an SVD in float64.
"""

from math import exp, log
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.features import Feature, compute_inverse_conditions
from untrained.types import Batch

D = torch.float64


def make_batch(*shape: int, dtype: torch.dtype = torch.float32, classes: int = 3) -> Batch:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(*shape, dtype=dtype, generator=draw)
    return Batch(inputs, torch.randint(classes, (shape[0],), generator=draw))


def make_feature(matrix: Tensor) -> Feature:
    return Feature(matrix[None], "")


def count_calls(model: nn.Module, batch: Batch) -> list[tuple[str, int, int]]:
    return [(f.name, f.calls, f.leaf_calls) for f in Probe(model, batch).features]


# ------------------------------------------------------------------------------------------------------------- features


def test_each_tensor_is_kept_once_with_its_multiplicity():
    """Sequential(                            the root returns what 3 returns
    0: Sequential(                     returns what 0.1 returns
        0.0: Conv2d                    1st tensor
        0.1: Sequential(0.1.0: ReLU))  2nd tensor, returned by 0.1.0, 0.1 and 0
    1: Dropout                         is off: the 2nd tensor once more, by a leaf
    2: Flatten                         3rd tensor
    3: Linear)                         4th tensor, returned by 3 and the root"""
    inner = nn.Sequential(nn.Conv2d(2, 3, 1), nn.Sequential(nn.ReLU()))
    model = nn.Sequential(inner, nn.Dropout(0.5), nn.Flatten(), nn.Linear(12, 3))
    assert count_calls(model, make_batch(1, 2, 2, 2)) == [
        ("0.0", 1, 1),
        ("0.1.0", 4, 2),
        ("2", 1, 1),
        ("3", 2, 1),
    ]


def test_a_module_called_twice_gives_two_features():
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.Tanh(), layer)
    batch = make_batch(1, 4)
    features = Probe(model, batch).features
    assert [(f.name, f.calls, f.leaf_calls) for f in features] == [
        ("0", 1, 1),
        ("1", 1, 1),
        ("0", 2, 1),
    ]
    first = batch.inputs @ layer.weight.T + layer.bias
    torch.testing.assert_close(features[0].tensor, first.detach())
    torch.testing.assert_close(
        features[2].tensor, (first.tanh() @ layer.weight.T + layer.bias).detach()
    )


def test_modules_that_return_their_input_count_as_calls():
    """The identity returns the same tensor object as the layer before, and so does the root."""
    assert count_calls(nn.Sequential(nn.Linear(4, 3), nn.Identity()), make_batch(1, 4)) == [
        ("0", 3, 2)
    ]


def test_in_place_functions_do_not_destroy_features():
    conv = nn.Conv2d(2, 3, 1)
    model = nn.Sequential(conv, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(12, 3))
    batch = make_batch(1, 2, 2, 2)
    before, after, *_ = probe_features = Probe(model, batch).features
    expected = conv(batch.inputs).detach()
    assert expected.min() < 0
    assert torch.equal(before.tensor, expected)
    assert torch.equal(after.tensor, expected.clamp_min(0))
    assert [(f.name, f.calls, f.leaf_calls) for f in probe_features] == [
        ("0", 1, 1),
        ("1", 1, 1),
        ("2", 1, 1),
        ("3", 2, 1),
    ]


class ReluTwice(nn.Module):
    """Two ReLUs of a sum, which a function without a module overwrites in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ReLU()
        self.second = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        total = x + 1
        first = self.first(total)
        total.sub_(2)
        return first + self.second(total)


def test_relus_are_two_features_if_their_input_is_overwritten_in_between():
    batch = make_batch(2, 6)
    features = Probe(ReluTwice(), batch).features
    assert [(f.name, f.calls) for f in features] == [("first", 1), ("second", 1), ("", 1)]
    x = batch.inputs
    assert torch.equal(features[0].tensor, (x + 1).clamp_min(0))
    assert torch.equal(features[1].tensor, (x - 1).clamp_min(0))


def test_a_relu_may_receive_its_input_by_name():
    model = nn.Module()
    model.relu = nn.ReLU()
    model.forward = lambda x: model.relu(input=x)
    batch = make_batch(2, 6)
    (feature,) = Probe(model, batch).features
    assert torch.equal(feature.tensor, batch.inputs.clamp_min(0))


class Mixed(nn.Module):
    """Children that return a tuple, a dictionary, whole numbers and nothing."""

    class _Returns(nn.Module):
        def __init__(self, what: Any) -> None:
            super().__init__()
            self.what = what

        def forward(self, x: Tensor) -> Any:
            return self.what(x)

    def __init__(self) -> None:
        super().__init__()
        self.pair = self._Returns(lambda x: (x + 1, x + 2))
        self.record = self._Returns(lambda x: {"first": x + 3, "second": x + 4})
        self.index = self._Returns(lambda x: x.argmax(1))
        self.nothing = self._Returns(lambda x: None)
        self.total = self._Returns(lambda x: x.sum())

    def forward(self, x: Tensor) -> Tensor:
        for child in (self.pair, self.record, self.index, self.nothing, self.total):
            child(x)
        return x * 2


def test_the_main_tensor_of_a_module_is_its_first_real_valued_one():
    batch = make_batch(1, 4)
    features = Probe(Mixed(), batch).features
    assert [f.name for f in features] == ["pair", "record", ""]
    for feature, expected in zip(
        features, (batch.inputs + 1, batch.inputs + 3, batch.inputs * 2), strict=True
    ):
        assert torch.equal(feature.tensor, expected)


@pytest.mark.parametrize(
    ("shape", "matrix"),
    [
        ((2, 3, 4, 5), (3, 20)),
        ((2, 7, 4), (7, 4)),
        ((2, 6), (6, 1)),
        ((2,), (1, 1)),
        ((1, 2, 3, 2, 2), (2, 12)),
    ],
)
def test_the_matrix_is_the_first_sample(shape, matrix):
    tensor = torch.randn(shape)
    assert Feature(tensor, "").matrix().shape == matrix
    assert torch.equal(Feature(tensor, "").matrix().flatten(), tensor[0].flatten())


# ----------------------------------------------------------------------------------------------------------- conditions


def compute_by_svd(matrix: Tensor) -> float:
    values = torch.linalg.svdvals(matrix.double())
    return float(values[-1] / values[0]) if values[0] > 0 else 0.0


@settings(derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 9), st.booleans(), st.integers(0, 99)),
        min_size=1,
        max_size=6,
    )
)
def test_inverse_conditions_are_those_of_the_svd(cases):
    """Many shapes at once, equal ones among them, some of rank one; squaring in float64 turns zero into 1e-7."""
    matrices = []
    for rows, columns, deficient, seed in cases:
        draw = torch.Generator().manual_seed(seed)
        full = torch.randn(rows, columns, dtype=D, generator=draw)
        matrices.append(full[:, :1] @ full[:1] if deficient else full)
    ratios = compute_inverse_conditions([make_feature(matrix) for matrix in matrices])
    assert ratios.dtype == D
    assert ratios.tolist() == pytest.approx(
        [compute_by_svd(matrix) for matrix in matrices], abs=1e-7
    )


@pytest.mark.parametrize("shape", [(16, 1024), (64, 16), (40, 40)])
def test_inverse_conditions_are_accurate_for_single_precision(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    assert float(compute_inverse_conditions([make_feature(matrix)])) == pytest.approx(
        compute_by_svd(matrix), rel=1e-8
    )


@pytest.mark.parametrize(
    ("matrix", "ratio"),
    [
        ([[3.0, 0.0], [0.0, 4.0]], 3 / 4),
        ([[0.0, 5.0, 0.0], [2.0, 0.0, 0.0]], 2 / 5),
        ([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]], 3 / 4),
        ([[1.0, 2.0], [2.0, 4.0]], 0),
        ([[0.0, 0.0], [0.0, 0.0]], 0),
        ([[1.0], [-2.0], [7.0]], 1),  # one column has one singular value
        ([[-1e-30]], 1),
        ([[0.0], [0.0]], 0),
    ],
)
def test_inverse_conditions_equal_those_computed_by_hand(matrix, ratio):
    assert float(compute_inverse_conditions([make_feature(torch.tensor(matrix))])) == pytest.approx(
        ratio, abs=1e-7
    )


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (2, 3), (16, 256)])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_feature_that_is_not_finite_has_no_condition(shape, bad):
    matrix = torch.ones(shape)
    matrix[0, 0] = bad
    try:
        outcome = str(float(compute_inverse_conditions([make_feature(matrix)])))
    except Unscorable as reason:
        outcome = reason.kind
    assert outcome == "nan"


def test_a_probe_reads_the_conditions_of_its_features():
    model = nn.Sequential(nn.Conv2d(2, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3)).double()
    probe = Probe(model, make_batch(2, 2, 3, 3, dtype=D))
    expected = [compute_by_svd(f.tensor[0].reshape(f.tensor.shape[1], -1)) for f in probe.features]
    assert len(expected) == 4
    assert probe.inverse_conditions(probe.features).tolist() == pytest.approx(expected, abs=1e-8)


# --------------------------------------------------------------------------------------------- outputs, loss, gradients


def make_smooth_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)).double()


def test_outputs_loss_and_gradients_are_those_of_plain_autograd():
    model = make_smooth_network()
    batch = make_batch(5, 2, 4, 4, dtype=D)
    probe = Probe(model, batch)
    loss = F.cross_entropy(model(batch.inputs), batch.targets)
    loss.backward()
    torch.testing.assert_close(probe.outputs, model(batch.inputs).detach(), rtol=1e-12, atol=0)
    assert probe.loss == pytest.approx(float(loss.detach()), rel=1e-12)
    assert list(probe.gradients) == ["0.weight", "0.bias", "3.weight", "3.bias"]
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(probe.gradients[name], parameter.grad, rtol=1e-12, atol=1e-15)
        assert not probe.gradients[name].requires_grad


def test_gradients_are_of_trainable_parameters_and_zero_where_the_loss_does_not_reach():
    model = make_smooth_network()
    model[0].weight.requires_grad_(False)
    model.unused = nn.Linear(2, 2).double()
    model.forward = lambda x: nn.Sequential.forward(model[:4], x)
    gradients = Probe(model, make_batch(2, 2, 4, 4, dtype=D)).gradients
    assert list(gradients) == ["0.bias", "3.weight", "3.bias", "unused.weight", "unused.bias"]
    assert torch.equal(gradients["unused.weight"], torch.zeros(2, 2, dtype=D))
    assert gradients["3.weight"].abs().sum() > 0


def make_linear(weight: list[list[float]]) -> nn.Module:
    model = nn.Linear(2, len(weight), bias=False).double()
    model.weight.data = torch.tensor(weight, dtype=D)
    return model


@pytest.mark.parametrize(
    ("loss", "targets", "expected"),
    [  # outputs are (1, 2) and (0, -1)
        ("cross_entropy", torch.tensor([1, 0]), (log(1 + exp(-1)) + log(1 + exp(-1))) / 2),
        ("mse", torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=D), (0 + 4 + 0 + 1) / 4),
        (
            "bce",
            torch.ones(2, 2, dtype=D),
            (log(1 + exp(-1)) + log(1 + exp(-2)) + log(2) + log(1 + exp(1))) / 4,
        ),
    ],
)
def test_losses_equal_those_computed_by_hand(loss, targets, expected):
    inputs = torch.tensor([[1.0, 2.0], [0.0, -1.0]], dtype=D)
    assert Probe(
        make_linear([[1, 0], [0, 1]]), Batch(inputs, targets), loss=loss
    ).loss == pytest.approx(expected, rel=1e-12)


def test_batch_norm_uses_batch_statistics_and_keeps_its_buffers():
    """y = gamma (x - mean) / sqrt(var + eps) + beta over the samples, also in a model in evaluation mode."""
    model = nn.BatchNorm1d(2).double().eval()
    model.running_mean.fill_(100.0)
    model.running_var.fill_(9.0)
    model.weight.data = torch.tensor([2.0, 3.0], dtype=D)
    model.bias.data = torch.tensor([0.5, -0.5], dtype=D)
    x = torch.tensor([[1.0, 10.0], [3.0, 20.0]], dtype=D)  # means 2 and 15, variances 1 and 25
    n = torch.tensor([[-1 / (1 + 1e-5) ** 0.5, -5 / (25 + 1e-5) ** 0.5]], dtype=D)
    expected = torch.cat([n, -n]) * model.weight.detach() + model.bias.detach()
    for mode in (False, True):
        probe = Probe(model.train(mode), Batch(x, torch.tensor([0, 1])))
        torch.testing.assert_close(probe.outputs, expected, rtol=1e-12, atol=0)
        torch.testing.assert_close(probe.features[0].tensor, expected, rtol=1e-12, atol=0)
        assert probe.loss == pytest.approx(
            float(F.cross_entropy(expected, torch.tensor([0, 1]))), rel=1e-12
        )
    assert (model.running_mean == 100).all()
    assert (model.running_var == 9).all()
    assert model.num_batches_tracked == 0


class AlwaysDrops(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.9, training=True)


@pytest.mark.parametrize(
    "dropout",
    [
        nn.Dropout(0.9),
        nn.Dropout(0.9, inplace=True),
        nn.AlphaDropout(0.9),
        nn.Dropout1d(0.9),
        AlwaysDrops(),
    ],
)
def test_dropout_is_off(dropout):
    torch.manual_seed(0)
    first = nn.Linear(4, 8)
    last = nn.Linear(8, 3)
    batch = make_batch(2, 4)
    probe = Probe(nn.Sequential(first, dropout, last).train(), batch)
    assert torch.equal(probe.outputs, last(first(batch.inputs)).detach())
    assert probe.loss == pytest.approx(
        float(F.cross_entropy(probe.outputs, batch.targets)), rel=1e-6
    )


class WrappedOutput(nn.Module):
    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.wrap = wrap

    def forward(self, x: Tensor) -> Any:
        return self.wrap(x, self.layer(x))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda features, logits: logits,
        lambda features, logits: (features, logits),
        lambda features, logits: [features, logits],
        lambda features, logits: {"logits": logits, "features": features},
        lambda features, logits: SimpleNamespace(loss=None, logits=logits),
    ],
    ids=["tensor", "tuple", "list", "dictionary", "record"],
)
def test_logits_are_read_from_the_output_of_a_model(wrap):
    model = WrappedOutput(wrap)
    batch = make_batch(2, 4)
    probe = Probe(model, batch)
    logits = model.layer(batch.inputs)
    torch.testing.assert_close(probe.outputs, logits.detach())
    assert probe.loss == pytest.approx(
        float(F.cross_entropy(logits, batch.targets).detach()), rel=1e-6
    )
    _, velocity, _ = probe.circle_motion((4,))
    torch.testing.assert_close(velocity, (model.layer.weight @ probe.plane((4,))[1][0]).detach())


@pytest.mark.parametrize(
    "answer", [None, "text", (), {"scores": torch.zeros(1)}, [torch.zeros(1), None]]
)
def test_a_model_without_logits_is_unsupported(answer):
    with pytest.raises(Unscorable, match=type(answer).__name__) as caught:
        Probe(WrappedOutput(lambda x, logits: answer), make_batch(2, 4)).outputs  # noqa: B018
    assert caught.value.kind == "unsupported"


def test_measurements_are_taken_once():
    class Counts(nn.Module):
        runs = 0

        def forward(self, x: Tensor) -> Tensor:
            self.runs += 1
            return x * 2

    model = Counts()
    probe = Probe(model, make_batch(1, 4))
    for _ in range(3):
        (
            probe.features,
            probe.outputs,
            probe.inverse_conditions(probe.features),
            probe.macs,
            probe.circle_motion((4,)),
        )
    assert model.runs == 3  # one for features and outputs, one for the count, one for the jet


# ----------------------------------------------------------------------------------------------------------------- size


def test_size_equals_that_computed_by_hand():
    """Conv 3 -> 8, 3x3, stride 2 on 10x12 gives 5x6: 8 (3 3 3) 5 6 multiply-adds. Linear 8 -> 5: 40. Biases, norms,
    activations and poolings do not count; the batch does not either."""
    layers = [
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    model = nn.Sequential(*layers, nn.Linear(8, 5))
    probe = Probe(model, make_batch(4, 3, 10, 12))
    assert probe.macs == 8 * 27 * 30 + 8 * 5
    assert probe.params == (8 * 27 + 8) + (8 + 8) + (8 * 5 + 5)


def test_grouped_convolutions_and_shared_and_frozen_parameters_are_counted():
    """Depthwise 4 -> 4, 3x3 on 6x6 padded: 4 (1 3 3) 36. A layer used twice multiplies twice and is counted once."""
    pointwise = nn.Conv2d(4, 4, 1, bias=False)
    model = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), pointwise, pointwise)
    probe = Probe(model, make_batch(1, 4, 6, 6))
    assert probe.macs == 4 * 9 * 36 + 2 * 16 * 36
    assert probe.params == 4 * 9 + 16
    model[0].requires_grad_(False)
    assert Probe(model, make_batch(1, 4, 6, 6)).params == 16


@pytest.mark.parametrize("training", [True, False])
def test_attention_has_the_same_count_on_every_kernel(training):
    """T tokens of d: queries, keys, values and projection 4 T d^2, scores and mixing 2 T^2 d, feed-forward 2 T d h."""
    T = 5
    d = 8
    h = 12
    model = nn.TransformerEncoderLayer(d, 2, h, batch_first=True).train(training)
    probe = Probe(model, make_batch(3, T, d))
    assert probe.macs == 4 * T * d * d + 2 * T * T * d + 2 * T * d * h
    assert probe.params == (4 * d * d + 4 * d) + (2 * d * h + h + d) + 4 * d

"""`Probe.all_features`: the outputs of modules and of functions, with the values before activations."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.probe import Probe
from untrained.types import Batch


def make_batch(*shape: int) -> Batch:
    draw = torch.Generator().manual_seed(0)
    return Batch(torch.randn(*shape, generator=draw), torch.arange(shape[0]) % 3)


class Mixed(nn.Module):
    """A module activation, a functional one, one in place, a skip, and a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        skipped = x
        x = F.gelu(self.layer(x))
        x = torch.relu_(self.layer(x))
        x = x + skipped
        return self.head(torch.cat([x, skipped], dim=1))


def test_modules_and_functions_are_there_in_call_order():
    batch = make_batch(4, 6)
    model = Mixed()
    features = Probe(model, batch).all_features
    assert [(f.name, f.function, f.calls, f.leaf_calls) for f in features] == [
        ("stem.0", "linear", 1, 1),
        ("stem.1", "relu", 2, 1),  # returned by the ReLU and by the container
        ("layer", "linear", 1, 1),
        ("", "gelu", 0, 0),
        ("layer", "linear", 1, 1),
        ("", "relu_", 0, 0),
        ("", "add", 0, 0),
        ("", "cat", 0, 0),
        ("head", "linear", 2, 1),
    ]
    x = batch.inputs
    with torch.no_grad():
        first = model.stem[0](x)
        skipped = first.clamp_min(0)
        second = model.layer(skipped)
        after_gelu = F.gelu(second)
        third = model.layer(after_gelu)
        added = third.clamp_min(0) + skipped
        joined = torch.cat([added, skipped], dim=1)
        expected = [
            *(first, skipped, second, after_gelu, third, third.clamp_min(0), added, joined),
            model.head(joined),
        ]
    for feature, tensor in zip(features, expected, strict=True):
        torch.testing.assert_close(feature.tensor, tensor)


def test_an_activation_has_its_input_even_if_it_works_in_place():
    features = Probe(Mixed(), make_batch(4, 6)).all_features
    activations = [feature for feature in features if feature.before is not None]
    assert [feature.function for feature in activations] == ["relu", "gelu", "relu_"]
    relu, gelu, in_place = activations
    for feature in (relu, in_place):
        assert feature.before is not None
        assert feature.before.min() < 0
        assert torch.equal(feature.tensor, feature.before.clamp_min(0))
    assert gelu.before is not None
    torch.testing.assert_close(gelu.tensor, F.gelu(gelu.before))
    # Each input is the output of the layer before, which has an entry of its own.
    layers = [feature.tensor for feature in features if feature.function == "linear"]
    for activation, layer in zip(activations, layers[:3], strict=True):
        assert activation.before is not None
        assert torch.equal(activation.before, layer)


def test_the_entries_of_modules_are_those_of_features():
    """Without functions and without ReLUs in several branches, both have the same multiplicities."""
    inner = nn.Sequential(nn.Conv2d(2, 3, 1), nn.Sequential(nn.ReLU()))
    model = nn.Sequential(inner, nn.Dropout(0.5), nn.Flatten(), nn.Linear(12, 3), nn.Identity())
    probe = Probe(model, make_batch(2, 2, 2, 2))
    complete = [feature for feature in probe.all_features if feature.calls]
    for feature, other in zip(probe.features, complete, strict=True):
        assert (feature.name, feature.calls, feature.leaf_calls) == (
            *(other.name, other.calls, other.leaf_calls),
        )
        assert torch.equal(feature.tensor, other.tensor)


class Branches(nn.Module):
    """Two ReLU modules that read the same tensor, a list of parts, and a function of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ReLU()
        self.second = nn.ReLU()
        self.gate = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate)
        left, right = (self.first(x) + self.second(x)).chunk(2, dim=1)
        return left * gate + right * gate


def test_activations_of_branches_and_parts_of_a_tensor_are_all_there():
    features = Probe(Branches(), make_batch(4, 6)).all_features
    assert [(f.name, f.function, f.calls) for f in features] == [
        ("first", "relu", 1),
        ("second", "relu", 1),
        ("", "add", 0),
        ("", "chunk", 0),
        ("", "chunk", 0),
        ("", "mul", 0),
        ("", "mul", 0),
        ("", "add", 1),
    ]


def test_the_network_stays_as_it_was():
    model = Mixed().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    probe = Probe(model, make_batch(4, 6))
    assert probe.all_features is probe.all_features
    assert torch.equal(probe.all_features[-1].tensor, probe.outputs)
    assert model.training
    assert not model._forward_hooks
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])

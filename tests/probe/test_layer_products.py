"""Products of per-sample gradients by the factors of a layer equal those of the gradients."""

import pytest
import torch
from torch import Tensor, nn

from untrained.probe import Probe
from untrained.probe.layer_products import LayerFactors
from untrained.types import Batch

SAMPLES = 5


def make_network(layer: nn.Module, shape: tuple[int, ...]) -> tuple[nn.Module, Batch]:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(SAMPLES, *shape, generator=draw, dtype=torch.float64)
    torch.manual_seed(1)
    network = nn.Sequential(layer, nn.Tanh(), nn.Flatten(1), nn.LazyLinear(3)).double()
    network(inputs)
    return network, Batch(inputs, torch.tensor([0, 1, 2, 0, 1]))


def differentiate_samples(network: nn.Module, batch: Batch) -> list[Tensor]:
    """Return the gradient of every sample's label output by all parameters."""
    rows = []
    for x, label in zip(batch.inputs, batch.targets, strict=True):
        gradients = torch.autograd.grad(network(x[None])[0, label], list(network.parameters()))
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return rows


LAYERS = {
    "linear": (nn.Linear(12, 30), (12,)),
    "linear on tokens": (nn.Linear(40, 30), (3, 40)),
    "linear on images": (nn.Linear(40, 30), (2, 1, 40)),
    "convolution": (nn.Conv2d(16, 20, 3, padding=1), (16, 2, 2)),
    "convolution without bias": (nn.Conv2d(16, 20, (3, 2), stride=(2, 1), bias=False), (16, 4, 3)),
    "dilated convolution": (nn.Conv2d(16, 20, 3, padding=(2, 1), dilation=(2, 1)), (16, 2, 2)),
    "grouped convolution": (nn.Conv2d(16, 20, 3, padding=1, groups=2), (16, 2, 2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_kernel_equals_that_of_gradients_of_single_samples(name, monkeypatch):
    used = []
    compute_gram = LayerFactors.compute_gram
    monkeypatch.setattr(
        LayerFactors, "compute_gram", lambda self: used.append(self) or compute_gram(self)
    )
    network, batch = make_network(*LAYERS[name])
    K = Probe(network, batch).kernel("label").gram()
    rows = torch.stack(differentiate_samples(network, batch))
    torch.testing.assert_close(K, (rows @ rows.mT).detach(), rtol=1e-10, atol=1e-12)
    # The last layer always has one position.
    assert len(used) == (1 if "grouped" in name else 2)


@pytest.mark.parametrize("name", LAYERS)
def test_norms_equal_those_of_gradients_of_single_outputs(name):
    network, batch = make_network(*LAYERS[name])
    trace = Probe(network, batch).kernel("all", "all", "fixed").trace()
    expected = 0.0
    for output in range(3):
        labels = torch.full((SAMPLES,), output)
        rows = differentiate_samples(network, Batch(batch.inputs, labels))
        expected += float(sum(row.square().sum() for row in rows))
    assert trace == pytest.approx(expected, rel=1e-10)


def test_a_layer_that_is_used_twice_is_summed_before_it_is_multiplied():
    torch.manual_seed(0)
    layer = nn.Linear(12, 12)
    network = nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(12, 3)).double()
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(SAMPLES, 12, generator=draw, dtype=torch.float64)
    batch = Batch(inputs, torch.tensor([0, 1, 2, 0, 1]))
    rows = torch.stack(differentiate_samples(network, batch))
    K = Probe(network, batch).kernel("label").gram()
    torch.testing.assert_close(K, (rows @ rows.mT).detach(), rtol=1e-10, atol=1e-12)


def test_blocks_of_samples_give_the_same_products(monkeypatch):
    network, batch = make_network(*LAYERS["convolution"])
    whole = Probe(network, batch).kernel("label").gram()
    monkeypatch.setattr("untrained.probe.layer_products._MAX_ENTRIES", 1)
    in_blocks = Probe(network, batch).kernel("label").gram()
    torch.testing.assert_close(in_blocks, whole, rtol=1e-12, atol=0)


def test_a_frozen_weight_leaves_the_gradient_of_the_bias():
    network, batch = make_network(*LAYERS["linear"])
    network[0].weight.requires_grad_(False)
    kernel = Probe(network, batch).kernel("label")
    assert set(kernel.grams) == {"0.bias", "3.weight", "3.bias"}

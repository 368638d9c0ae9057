"""The space of Accel-NASBench: published sizes of all networks, layers, drawing."""

from math import prod

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from tests.conftest import find_shared
from untrained.spaces import load_space
from untrained.spaces.core.inverted_residual import InvertedResidual
from untrained.spaces.core.layers import SqueezeExcitation
from untrained.spaces.mnasnet import plan_layers
from untrained.types import Arch, Task

space = load_space("mnasnet")
IMAGENET = Task("imagenet", (3, 224, 224), 1000)


def count_norms_and_pools(arch: Arch) -> int:
    """What the published multiply-adds contain beside convolutions and the classifier.

    Every element that enters a batch norm counts 4; a global pooling counts 1 per element that it
    reads and 1 per mean that it returns.
    """
    side = 112
    norm_elements = 32 * side**2
    pool_operations = 0
    for plan in plan_layers(arch):
        if plan.expansion > 1:
            norm_elements += plan.hidden * side**2
        side //= plan.stride
        norm_elements += plan.hidden * side**2
        if plan.squeeze:
            pool_operations += plan.hidden * (side**2 + 1)
        norm_elements += plan.cout * side**2
    norm_elements += 1280 * side**2
    pool_operations += 1280 * (side**2 + 1)
    return 4 * norm_elements + pool_operations


@pytest.mark.data
def test_parameters_and_multiply_adds_of_all_published_networks():
    table = pd.read_csv(find_shared("data", "accel_nasbench", "accel_nasbench.csv.gz"))
    assert len(table) == 5_138
    for row in table.itertuples():
        arch = space.parse(row.arch)
        counts = space.counts(arch, IMAGENET)
        assert counts.params == round(row.params_m * 1e6)
        published_flops = round(row.macs_m * 1e6)
        assert counts.flops + count_norms_and_pools(arch) == published_flops


@pytest.mark.data
def test_the_text_of_an_architecture_is_that_of_the_table():
    table = pd.read_csv(find_shared("data", "accel_nasbench", "accel_nasbench.csv.gz"))
    for text in table["arch"][:100]:
        assert str(space.parse(text)) == text


def test_the_size_is_the_product_of_all_choices():
    options = [
        len(decision.options) for decision in space.list_decisions(lambda _, options: options[0])
    ]
    assert space.size == prod(options)


def test_the_input_is_added_where_stride_and_widths_allow_it():
    network = space.build(space.sample(seed=0), Task("noise", (3, 32, 32), 10))
    for layer in network.layers:
        convs = [module for module in layer.modules() if isinstance(module, nn.Conv2d)]
        strides = {conv.stride for conv in convs}
        assert isinstance(layer, InvertedResidual)
        keeps_shape = strides == {(1, 1)} and convs[0].in_channels == convs[-1].out_channels
        assert layer.adds_input == keeps_shape


def test_squeeze_and_excitation_scales_channels_by_its_formula():
    torch.manual_seed(0)
    layer = SqueezeExcitation(6, 2).double()
    x = torch.randn(3, 6, 4, 5, dtype=torch.float64)

    def apply_linear(conv: nn.Conv2d, vectors: Tensor) -> Tensor:
        return vectors @ conv.weight[:, :, 0, 0].T + conv.bias

    means = x.mean((2, 3))
    gates = torch.sigmoid(apply_linear(layer.expand, apply_linear(layer.reduce, means).relu()))
    torch.testing.assert_close(layer(x), x * gates[:, :, None, None])

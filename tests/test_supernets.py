"""Supernets of NAS-Bench-201 and -1Shot1: mixtures worked out by hand, and whose weights a subnet has.

That subnets are the built networks is a contract of every space: contracts/test_spaces.py.
"""

import numpy as np
import pytest
import torch
from torch import nn

from untrained.spaces import load_space
from untrained.spaces._spec101 import OPS, channels
from untrained.spaces._supernet import lend, mixed, uniform
from untrained.spaces.nasbench1shot1 import spec_of
from untrained.types import Task

TASK = Task("noise", (3, 8, 8), 4)
GOOD = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_3x3~2|"


# ---------------------------------------------------------------------------------------------------------- tools


def test_a_mixture_is_a_weighted_sum_and_skips_what_has_no_weight():
    asked = []
    branches = [lambda x, k=k: asked.append(k) or k * x for k in (1.0, 2.0, 3.0)]
    x = torch.ones(2)
    assert mixed(torch.tensor([0.5, 0.0, 0.25]), branches, x).tolist() == [0.5 + 0.75] * 2
    assert asked == [1.0, 3.0]
    weights = torch.tensor([0.5, 0.0, 0.25], requires_grad=True)
    mixed(weights, branches, x).sum().backward()
    assert weights.grad.tolist() == [2.0, 4.0, 6.0]  # also of the one that weighs nothing
    assert mixed(torch.zeros(3), branches, x).tolist() == [0.0, 0.0]
    assert uniform({"a": 4})["a"].tolist() == [0.25] * 4


def test_lent_weights_are_leading_entries_of_the_same_memory():
    full, small = (
        nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)),
    )
    lend(full, small)
    torch.testing.assert_close(small[0].weight, full[0].weight[:3, :2])
    with torch.no_grad():
        small[0].weight.zero_()
        full[1].bias.fill_(7)
    assert full[0].weight[:3, :2].abs().sum() == 0
    assert full[0].weight.abs().sum() > 0
    assert small[1].bias.tolist() == [7.0] * 3
    small(torch.randn(5, 2, 4, 4))  # statistics are shared too
    assert full[1].running_mean[:3].abs().min() > 0
    assert full[1].running_mean[3:].tolist() == [0.0] * 3
    same = nn.Conv2d(4, 6, 3)
    lend(full[0], same)
    assert same.weight is full[0].weight


# -------------------------------------------------------------------------------------------------- NAS-Bench-201


def test_a_one_hot_mixture_is_the_subnet_and_a_mixture_depends_on_its_weights():
    space = load_space("nasbench201(channels=4,cells=1)")
    torch.manual_seed(0)
    supernet, x = space.supernet(TASK).eval(), torch.randn(2, 3, 8, 8)
    arch = space.parse(GOOD)
    even = supernet(x)
    for name, ops in supernet.options.items():
        supernet.mixture[name] = torch.tensor([float(op == arch[name]) for op in ops])
    torch.testing.assert_close(supernet(x), supernet.subnet(arch)(x))
    assert not torch.allclose(supernet(x), even)


def test_the_weights_of_a_mixture_have_gradients():
    space = load_space("nasbench201(channels=4,cells=1)")
    supernet = space.supernet(TASK)
    for name in supernet.options:
        supernet.mixture[name] = torch.full((5,), 0.2, requires_grad=True)
    supernet(torch.randn(2, 3, 8, 8)).square().sum().backward()
    for weights in supernet.mixture.values():
        none, *others = weights.grad.tolist()
        assert none == 0  # the operation is a zero
        assert all(others)


def test_the_size_of_the_supernet():
    """Every edge holds a 1x1 and a 3x3 convolution with their norms: 73,306 parameters without any edge, and six times
    5 (16^2 + 32^2 + 64^2) (9 + 1) + 2 * 5 (16 + 32 + 64) 2 more."""
    supernet = load_space("nasbench201").supernet(device="meta")
    edge = 5 * (16**2 + 32**2 + 64**2) * 10 + 2 * 5 * (16 + 32 + 64) * 2
    assert sum(p.numel() for p in supernet.parameters()) == 73_306 + 6 * edge
    assert list(supernet.options) == list(supernet.mixture)


def test_subnets_have_the_very_parameters_of_the_supernet():
    space = load_space("nasbench201(channels=4,cells=1)")
    supernet = space.supernet(TASK)
    ours = set(map(id, supernet.parameters()))
    arch = space.parse(GOOD)
    assert set(map(id, supernet.subnet(arch).parameters())) <= ours
    assert supernet.subnet(arch).training
    assert not supernet.eval().subnet(arch).training


# ---------------------------------------------------------------------------------------------- NAS-Bench-1Shot1


@pytest.mark.parametrize("part", ["s1", "s2", "s3"])
def test_a_subnet_has_leading_channels_of_its_vertices(part):
    """14 channels divide unevenly among three, so widths differ from vertex to vertex."""
    space = load_space(f"nasbench1shot1_{part}(channels=14,stacks=1,cells=1,members=tight)")
    torch.manual_seed(0)
    supernet, rng = space.supernet(TASK), np.random.default_rng(0)
    for _ in range(10):
        arch = space.sample(rng)
        cell, full, spec = supernet.subnet(arch).layers[1], supernet.layers[1], spec_of(arch)
        used = sorted(int(name[2:]) for name, _ in arch.genes if name.startswith("op"))
        widths = channels(spec, 14, 14)
        for place, node in enumerate(used, 1):
            if (op := arch[f"op{node}"]) != "maxpool3x3":
                ours, w = full.ops[node - 1][OPS.index(op)][0].weight, widths[place]
                torch.testing.assert_close(cell.ops[str(place)][0].weight, ours[:w, :w])


def test_the_mixture_of_1shot1_depends_on_every_choice():
    space = load_space("nasbench1shot1_s1(channels=8,stacks=2,cells=1)")
    supernet = space.supernet(TASK)
    assert {name: len(options) for name, options in supernet.options.items()} == {
        "parents1": 1,
        "parents2": 1,
        "parents3": 3,
        "parents4": 6,
        "parents_out": 10,
        **{f"op{node}": 3 for node in range(1, 5)},
    }
    for name, weights in supernet.mixture.items():
        supernet.mixture[name] = weights.clone().requires_grad_()
    out = supernet(torch.randn(2, 3, 8, 8))
    assert out.shape == (2, 4)
    out.square().sum().backward()
    assert all(weights.grad.abs().min() > 0 for weights in supernet.mixture.values())
    assert all(p.grad is not None for p in supernet.parameters())

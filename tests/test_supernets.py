"""Supernets of NAS-Bench-201 and -1Shot1: mixtures computed by hand, and weights of subnets.

The contract of all spaces (contracts/test_spaces.py) tests that subnets equal built networks.
"""

import numpy as np
import pytest
import torch
from torch import nn

from untrained.spaces import load_space
from untrained.spaces.core.supernet import make_uniform_mixture, mix_branches, share_weights
from untrained.spaces.nasbench1shot1.space import get_spec
from untrained.spaces.nasbench101.graph import OPS, compute_channels
from untrained.types import Task

TASK = Task("noise", (3, 8, 8), 4)
GOOD = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_3x3~2|"


# ---------------------------------------------------------------------------------------------------------- tools


def test_a_mixture_is_a_weighted_sum_and_skips_branches_of_weight_zero():
    called = []
    branches = [lambda x, k=k: called.append(k) or k * x for k in (1.0, 2.0, 3.0)]
    x = torch.ones(2)
    assert mix_branches(torch.tensor([0.5, 0.0, 0.25]), branches, x).tolist() == [0.5 + 0.75] * 2
    assert called == [1.0, 3.0]
    weights = torch.tensor([0.5, 0.0, 0.25], requires_grad=True)
    mix_branches(weights, branches, x).sum().backward()
    assert weights.grad.tolist() == [2.0, 4.0, 6.0]  # also for the branch of weight zero
    assert mix_branches(torch.zeros(3), branches, x).tolist() == [0.0, 0.0]
    assert make_uniform_mixture({"a": 4})["a"].tolist() == [0.25] * 4


def test_shared_weights_are_views_of_the_leading_entries():
    full = nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6))
    small = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))
    share_weights(full, small)
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
    share_weights(full[0], same)
    assert same.weight is full[0].weight


# -------------------------------------------------------------------------------------------------- NAS-Bench-201


def test_a_one_hot_mixture_equals_the_subnet():
    space = load_space("nasbench201(channels=4,cells=1)")
    torch.manual_seed(0)
    supernet = space.supernet(TASK).eval()
    x = torch.randn(2, 3, 8, 8)
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


def test_the_supernet_has_the_expected_number_of_parameters():
    """Every edge holds a 1x1 and a 3x3 convolution with their norms: 73,306 parameters without any edge, and six times
    5 (16^2 + 32^2 + 64^2) (9 + 1) + 2 * 5 (16 + 32 + 64) 2 more."""
    supernet = load_space("nasbench201").supernet(device="meta")
    edge = 5 * (16**2 + 32**2 + 64**2) * 10 + 2 * 5 * (16 + 32 + 64) * 2
    assert sum(p.numel() for p in supernet.parameters()) == 73_306 + 6 * edge
    assert list(supernet.options) == list(supernet.mixture)


def test_subnets_have_the_same_parameter_objects_as_the_supernet():
    space = load_space("nasbench201(channels=4,cells=1)")
    supernet = space.supernet(TASK)
    ours = set(map(id, supernet.parameters()))
    arch = space.parse(GOOD)
    assert set(map(id, supernet.subnet(arch).parameters())) <= ours
    assert supernet.subnet(arch).training
    assert not supernet.eval().subnet(arch).training


# ---------------------------------------------------------------------------------------------- NAS-Bench-1Shot1


@pytest.mark.parametrize("part", ["s1", "s2", "s3"])
def test_a_subnet_has_the_leading_channels_of_its_vertices(part):
    """14 channels divide unevenly among three, so widths differ from vertex to vertex."""
    space = load_space(f"nasbench1shot1_{part}(channels=14,stacks=1,cells=1,members=tight)")
    torch.manual_seed(0)
    supernet = space.supernet(TASK)
    rng = np.random.default_rng(0)
    for _ in range(10):
        arch = space.sample(rng)
        cell = supernet.subnet(arch).layers[1]
        full = supernet.layers[1]
        spec = get_spec(arch)
        used = sorted(int(name[2:]) for name, _ in arch.genes if name.startswith("op"))
        widths = compute_channels(spec, 14, 14)
        for place, node in enumerate(used, 1):
            if (op := arch[f"op{node}"]) != "maxpool3x3":
                ours = full.ops[node - 1][OPS.index(op)][0].weight
                w = widths[place]
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

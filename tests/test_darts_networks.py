"""Networks of DARTS genotypes without reference data: any input size, blocks, drop path."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.genotypes import CONVS, SKIPS, TASK, darts, repeat_operation, small
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import Space, load_space
from untrained.spaces.core.layers import FactorizedReduce, Zero, drop_path
from untrained.spaces.darts.genotype import Wiring
from untrained.spaces.darts.network import CellPosition, WiredCell
from untrained.types import Batch, Task


def build_network(space: Space, text: str = CONVS, task: Task = TASK) -> nn.Module:
    torch.manual_seed(0)
    return space.build(space.parse(text), task)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 17, 23), (4, 8, 9)])
@pytest.mark.parametrize("stem", ["cifar", "tiny_imagenet", "imagenet", "imagenet_search"])
@pytest.mark.parametrize("name", ["darts", "darts_nasi"])
def test_networks_accept_any_input_size(name: str, stem: str, shape: tuple[int, ...]):
    space = load_space(f"{name}(channels=4,cells=4,stem={stem},auxiliary=True)")
    x = torch.randn(2, *shape)
    task = Task("noise", shape, 7)
    for model in (build_network(space, SKIPS, task), space.supernet(task)):
        auxiliary_logits, logits = model(x)
        assert auxiliary_logits.shape == logits.shape == (2, 7)
        (auxiliary_logits.sum() + logits.sum()).backward()
        assert model.eval()(x).shape == (2, 7)


def test_a_probe_uses_the_main_logits_of_a_network_with_an_auxiliary_tower():
    model = build_network(small.with_options(auxiliary=True))
    batch = Batch(torch.randn(4, 3, 8, 8), torch.zeros(4, dtype=torch.long))
    with torch.no_grad():
        auxiliary_logits, logits = model(batch.inputs)
    assert torch.equal(Probe(model, batch).outputs, logits)
    assert not torch.equal(auxiliary_logits, logits)


@pytest.mark.parametrize("options", ["pooled=True", "pooled=False"])
def test_maps_are_halved_by_pooling_or_by_strides(options: str):
    sizes = []
    model = build_network(load_space(f"darts_nasi(channels=4,cells=3,{options})"))
    for part in model.cells:
        part.register_forward_hook(lambda _, __, out: sizes.append(out.shape[1:]))
    model(torch.randn(2, 3, 8, 8))
    assert sizes == [(16, 8, 8), (32, 4, 4), (64, 2, 2)]


def test_the_factorised_reduction_equals_that_of_darts_for_even_sizes():
    block = FactorizedReduce(6, 4).eval()
    x = torch.randn(2, 6, 8, 10)
    even, odd = (
        F.conv2d(part, conv.weight, stride=2)
        for part, conv in ((x.relu(), block.conv_1), (x.relu()[:, :, 1:, 1:], block.conv_2))
    )
    torch.testing.assert_close(block(x), torch.cat([even, odd], 1) / (1 + 1e-5) ** 0.5)
    assert block(torch.randn(2, 6, 7, 5)).shape == (2, 4, 4, 3)


def test_a_gradient_of_zeros_flows_through_the_operation_none():
    x = torch.randn(2, 3, 5, 5, requires_grad=True)
    out = Zero(2)(x)
    assert out.shape == (2, 3, 3, 3)
    out.sum().backward()
    assert not out.any()
    assert not x.grad.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stem": "cifra"}, "no stem is called 'cifra'; did you mean cifar"),
        ({"operations": "s7"}, "no set of operations is called 's7'"),
        ({"channels": 1}, "at least 2 channels and 1 cell"),
        ({"drop_path": 1.0}, "drop_path must be at least 0 and less than 1"),
    ],
)
def test_wrong_options_are_rejected(options: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        darts.with_options(**options).sample(np.random.default_rng(0))


# ------------------------------------------------------------------------------------------------------------ drop path


def test_drop_path_keeps_the_mean_and_drops_whole_samples():
    torch.manual_seed(0)
    out = drop_path(torch.ones(4000, 2, 3, 3), 0.25)
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert torch.equal(out, out[:, :1, :1, :1].expand_as(out))
    assert out.mean().item() == pytest.approx(1, abs=0.05)


def build_cell(op: str) -> WiredCell:
    position = CellPosition((6, 6), 6, "normal", after_reduction=False, stride=1)
    return WiredCell(Wiring(tuple(repeat_operation(op)), (2,)), position).eval()


def test_drop_path_acts_on_each_edge_independently():
    """Node 2 is the sum of two pooled inputs a and b, each zero or doubled: 0, 2a, 2b or 2a + 2b in every sample."""
    torch.manual_seed(0)
    pooling = build_cell("avg_pool_3x3")
    s0 = torch.randn(64, 6, 4, 4)
    s1 = torch.randn(64, 6, 4, 4)
    with torch.no_grad():
        a = pooling.edges[0](pooling.preprocess0(s0))
        b = pooling.edges[1](pooling.preprocess1(s1))
        torch.testing.assert_close(pooling(s0, s1, 0.0), a + b)
        out = pooling(s0, s1, 0.5)
    kinds = set()
    for i in range(64):
        (kind,) = (
            k
            for k in product((0, 2), repeat=2)
            if torch.allclose(out[i], k[0] * a[i] + k[1] * b[i], atol=1e-6)
        )
        kinds.add(kind)
    assert len(kinds) == 4


def test_drop_path_does_not_apply_to_identities():
    skipping = build_cell("skip_connect")
    s0 = torch.randn(8, 6, 4, 4)
    s1 = torch.randn(8, 6, 4, 4)
    assert torch.equal(skipping(s0, s1, 0.9), skipping(s0, s1, 0.0))


def test_drop_path_applies_in_training_only_and_can_be_changed():
    model = build_network(small.with_options(drop_path=0.5))
    x = torch.randn(8, 3, 8, 8)
    assert not torch.equal(model(x), model(x))
    model.drop_path = 0.0
    assert torch.equal(model(x), model(x))
    model.drop_path = 0.9
    plain = build_network(small)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model.eval()(x), plain.eval()(x))

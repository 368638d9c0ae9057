"""A copied block equals, to the last bit, the block that would have been constructed."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from untrained.seeds import make_generator
from untrained.spaces import block_templates, load_space
from untrained.spaces.block_templates import copy_from_template, find_template
from untrained.spaces.core.layers import FactorizedReduce, ReLUConvBN


@pytest.fixture(autouse=True)
def _no_templates():
    block_templates._record_template.cache_clear()
    yield
    block_templates._record_template.cache_clear()


def make_blocks(make: Any, *args: Any, times: int = 3) -> tuple[list[nn.Module], Tensor]:
    """Make blocks from one random state; return them and the state afterwards."""
    torch.manual_seed(5)
    return [make(*args) for _ in range(times)], torch.random.get_rng_state()


def assert_same(ours: nn.Module, theirs: nn.Module) -> None:
    assert repr(ours) == repr(theirs)
    assert [set(vars(m)) for m in ours.modules()] == [set(vars(m)) for m in theirs.modules()]
    for kind in ("named_parameters", "named_buffers"):
        mine = dict(getattr(ours, kind)())
        other = dict(getattr(theirs, kind)())
        assert list(mine) == list(other)
        for name, tensor in mine.items():
            assert torch.equal(tensor, other[name])
            assert (type(tensor), tensor.requires_grad) == (
                type(other[name]),
                other[name].requires_grad,
            )


class Cut(nn.Module):
    """Has random weights, one of them changed afterwards, constants and a frozen weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 2)
        self.again = nn.Linear(2, 2)
        nn.init.trunc_normal_(self.layer.weight, std=0.5)
        self.again.weight.requires_grad_(False)
        self.register_buffer("steps", torch.arange(width))


@pytest.mark.parametrize(
    ("make", "args"), [(ReLUConvBN, (4, 6, 3)), (FactorizedReduce, (4, 6)), (Cut, (3,))]
)
def test_copies_have_the_weights_and_random_state_of_construction(make, args):
    expected, state = make_blocks(make, *args)
    copies, state_after = make_blocks(copy_from_template(make), *args)
    assert block_templates._record_template.cache_info().hits == 2
    assert torch.equal(state_after, state)
    for ours, theirs in zip(copies, expected, strict=True):
        assert_same(ours, theirs)


def test_copies_share_no_mutable_state():
    one, other = make_blocks(copy_from_template(ReLUConvBN), 2, 2, 1, times=2)[0]
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    one.register_forward_hook(lambda *_: None)
    one.append(nn.Tanh())
    one.eval()
    for tensor in one.state_dict().values():
        tensor.fill_(7)
    assert (len(other), len(other._forward_hooks), other.training) == (3, 0, True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())
    assert (
        int(make_blocks(copy_from_template(ReLUConvBN), 2, 2, 1)[0][0][2].num_batches_tracked) == 0
    )


def test_tensors_of_a_block_are_no_views_of_each_other():
    """They may share a storage, but writing into one does not change the versions of the others."""
    block = make_blocks(copy_from_template(ReLUConvBN), 2, 3, 1)[0][-1]
    norm = block[2]
    tensors = [
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        norm.num_batches_tracked,
    ]
    for count, tensor in enumerate(tensors, start=5):
        before = [other._version for other in tensors]
        with torch.no_grad():
            tensor.fill_(count)
        assert [other._version - old for other, old in zip(tensors, before, strict=True)] == [
            int(other is tensor) for other in tensors
        ]
        assert tensor.is_leaf
        assert not tensor._is_view()
    assert [tensor.tolist() for tensor in tensors] == [
        [5.0] * 3,
        [6.0] * 3,
        [7.0] * 3,
        [8.0] * 3,
        9,
    ]


def set_stride(block: Any) -> None:
    block[1].stride = (2, 2)


CHANGES = {
    "nothing": lambda block: block.eval(),
    "another module": lambda block: block.__setitem__(0, nn.GELU()),
    "one more": lambda block: block.append(nn.ReLU()),
    "one less": lambda block: block.__delitem__(2),
    "a setting": set_stride,
    "a hook": lambda block: block[1].register_forward_hook(lambda *_: None),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_block_has_no_template(what):
    one, other = make_blocks(copy_from_template(ReLUConvBN), 2, 2, 1, times=2)[0]
    assert find_template(one) is not None
    assert find_template(one) is find_template(other)
    CHANGES[what](one)
    assert (find_template(one) is find_template(other)) == (what == "nothing")
    assert find_template(ReLUConvBN(2, 2, 1)) is None


class Orthogonal(nn.Linear):
    def reset_parameters(self) -> None:
        nn.init.orthogonal_(self.weight)
        nn.init.zeros_(self.bias)


class Reading(nn.Linear):
    """One tensor is computed from another one that is random."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight)
        with torch.no_grad():
            self.bias.copy_(self.weight[:, 0])


class Partly(nn.Linear):
    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.normal_(self.weight[0])
        nn.init.zeros_(self.bias)


class Holding(nn.Linear):
    """Has an attribute that copies may not be able to share."""

    def __init__(self, *args: int) -> None:
        super().__init__(*args)
        self.notes = object()


@pytest.mark.parametrize("make", [Orthogonal, Reading, Partly, Holding])
def test_blocks_that_cannot_be_copied_are_constructed(make, monkeypatch):
    monkeypatch.setattr(
        block_templates._BlockTemplate, "make_block", lambda _: pytest.fail("copied")
    )
    expected, state = make_blocks(make, 3, 3)
    copies, state_after = make_blocks(copy_from_template(make), 3, 3)
    assert torch.equal(state_after, state)
    for ours, theirs in zip(copies, expected, strict=True):
        assert_same(ours, theirs)


def test_a_block_is_made_on_the_current_device():
    make = copy_from_template(ReLUConvBN)
    make(2, 2, 1)
    with torch.device("meta"):
        assert all(tensor.is_meta for tensor in make(2, 2, 1).state_dict().values())


@pytest.mark.parametrize(
    "name", ["nasbench201(channels=4,cells=1)", "darts(channels=4,cells=3)", "autoformer_tiny"]
)
def test_networks_of_spaces_have_the_weights_of_construction(name, monkeypatch):
    space = load_space(name)
    arch = space.sample(make_generator("stamp", name))
    torch.manual_seed(2)
    copied = space.build(arch)
    assert block_templates._record_template.cache_info().hits
    block_templates._record_template.cache_clear()
    monkeypatch.setattr(block_templates._BlockTemplate, "make", lambda *_: None)
    torch.manual_seed(2)
    assert_same(copied, space.build(arch))

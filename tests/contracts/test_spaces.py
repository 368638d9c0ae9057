"""One contract for every registered space and for spaces of a user.

Samples are valid, mutations change them, strings survive parsing, networks run at two sizes and are scored, a seed
determines the weights, drawings render, and subnets of a supernet equal built networks. A new space is tested as soon
as it is registered. Tests use options that make networks small where a space has them.
"""

from inspect import signature
from math import isfinite
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import untrained
from tests.test_own_space import MINE
from untrained.drawings.draw import draw_diagram
from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.spaces import SPACES, Space, load_space
from untrained.types import Arch, Batch, Task
from untrained.workflows.score import score_networks

# Options that make a network smaller, where a space has them.
SMALL = {
    "channels": 8,
    "cells": 3,
    "blocks": 3,
}
SIDES = (2, 3)  # times 16 pixels, or times 32 where the default images are large
OTHER_OPTIONS = SMALL | {
    "relative_position": False,
    "class_token": True,
    "patch": 8,
    "no_reslink": True,
    "no_BN": True,
}
OTHER_OPTIONS |= {"stem": "imagenet", "pooled": False, "stacks": 2, "members": "tight"}
CLASSES = 7
_user: dict[str, Space] = {}
exec(MINE, _user)


@untrained.space(task=Task("rows", (6,), CLASSES), size=12)
def rows(choose: Any, task: Task) -> nn.Module:
    """Networks for rows of numbers."""
    (columns,) = task.input_shape
    width = choose("width", (4, 6, 8, 12))
    activation = choose("activation", (nn.ReLU, nn.Tanh, nn.GELU))
    return nn.Sequential(
        nn.Linear(columns, width), activation(), nn.Linear(width, task.num_classes)
    )


_user["rows"] = rows
NAMES = [*SPACES, "mynet", "rows"]
SPACES_WITH_SUPERNET = [name for name in SPACES if SPACES[name].has_supernet]
contract = pytest.mark.parametrize("name", NAMES)


def load_small_space(name: str) -> Space:
    """Return the space with options that make its networks small."""
    return configure(name, SMALL)


def configure(name: str, options: dict[str, Any]) -> Space:
    """Return the space with those of the options that it has."""
    space = _user[name] if name in _user else load_space(name)
    offered = signature(space.network).parameters
    accepted = {option: value for option, value in options.items() if option in offered}
    return space.with_options(**accepted) if accepted else space


def make_task(space: Space, side: int = SIDES[0]) -> Task:
    """Return a task with small inputs that the networks of a space accept."""
    if space.task.vocabularies:  # a table: two dense columns and 2 * side columns of identifiers
        return Task("noise", (2 + 2 * side,), CLASSES, vocabularies=(5, 9) * side)
    if space.task.is_table:  # rows of numbers
        return Task("noise", (4 * side,), CLASSES)
    channels, default_side = space.task.input_shape[:2]
    pixels = side * (32 if default_side > 100 else 16)
    return Task("noise", (channels, pixels, pixels), CLASSES)


def sample_archs(space: Space, n: int) -> list[Arch]:
    rng = np.random.default_rng(0)
    return [space.sample(rng) for _ in range(n)]


def compute_output(network: nn.Module, x: Tensor) -> Tensor:
    """Return the logits; some networks return them with other outputs."""
    out = network(x)
    return out[0] if isinstance(out, tuple) else out


def assert_member(space: Space, arch: Arch) -> None:
    """Assert that the architecture survives printing and parsing, and that its choices are allowed."""
    assert arch.space == space.name
    assert space.parse(str(arch)) == space.make_arch(arch.genes) == arch
    assert str(space.parse(str(arch))) == str(arch)
    assert "\n" not in str(arch)


class NoMemory(torch.overrides.TorchFunctionMode):
    """A context in which a tensor with memory is a failure."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        assert not isinstance(out, Tensor) or out.is_meta
        return out


@contract
def test_samples_are_valid_and_depend_on_the_generator(name):
    space = load_small_space(name)
    archs = sample_archs(space, 20)
    for arch in archs:
        assert_member(space, arch)
    assert sample_archs(space, 20) == archs
    assert len(set(archs)) > 5
    assert space.sample(seed=7) == space.sample(np.random.default_rng(7))


@contract
def test_mutants_differ_and_are_valid(name):
    space = load_small_space(name)
    rng = np.random.default_rng(1)
    for parent in sample_archs(space, 5):
        line = [parent]
        for _ in range(5):
            line.append(space.mutate(line[-1], rng))
            assert line[-1] != line[-2]
            assert_member(space, line[-1])
    assert space.mutate(parent, seed=2) == space.mutate(parent, np.random.default_rng(2))


@contract
def test_children_of_two_parents_are_valid(name):
    space = load_small_space(name)
    rng = np.random.default_rng(3)
    first, *others = sample_archs(space, 6)
    for other in others:
        assert_member(space, space.cross(first, other, rng))
    assert space.cross(first, first, rng) == first


@contract
@pytest.mark.parametrize("side", SIDES)
def test_networks_run_forward_and_backward(name, side):
    space = load_small_space(name)
    task = make_task(space, side)
    torch.manual_seed(0)
    for arch in sample_archs(space, 2):
        model = space.build(arch, task)
        out = compute_output(model, torch.randn(2, *task.input_shape))
        assert out.shape == (2, CLASSES)
        assert out.isfinite().all()
        nn.functional.cross_entropy(out, torch.tensor([0, 1])).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert any(gradient.abs().sum() > 0 for gradient in gradients)
        assert all(gradient.isfinite().all() for gradient in gradients)


@contract
def test_dextr_and_params_score_a_sample(name):
    """A network without a path from input to output fails as `disconnected`; then the next sample is scored."""
    space = load_small_space(name)
    task = make_task(space)
    for arch in sample_archs(space, 5):
        options = {
            "space": space.with_task(task),
            "input_shape": task.input_shape,
            "num_classes": CLASSES,
        }
        dextr, params = score_networks(arch, ("dextr", "params"), "noise", **options)
        model = space.build(arch, task, device="meta")
        assert params.value == sum(p.numel() for p in model.parameters())
        if dextr.value is not None:
            assert isfinite(dextr.value)
            return
        assert dextr.error is not None
        assert dextr.error.kind == "disconnected"
    pytest.fail("dextr scored none of five")


SPACES_WITH_COUNTS = []
for _name in SPACES:
    if SPACES[_name].hooks.counts:
        SPACES_WITH_COUNTS += [_name, configure(_name, OTHER_OPTIONS).name]


@pytest.mark.parametrize("name", dict.fromkeys(SPACES_WITH_COUNTS))
def test_counts_by_formula_are_exact(name):
    """Compare with the counts of the network on the meta device; the images are not square."""
    space = load_space(name)
    rng = np.random.default_rng(4)
    for side in SIDES:
        channels, height, width = make_task(space, side).input_shape
        task = Task("noise", (channels + 1, height, 2 * width), CLASSES)
        for arch in (space.sample(rng), space.mutate(space.sample(rng), rng)):
            batch = Batch(
                torch.empty(1, *task.input_shape, device="meta"),
                torch.zeros(1, device="meta").long(),
            )
            probe = Probe(space.build(arch, task, device="meta"), batch)
            counts = space.counts(arch, task)
            assert counts[:2] == (probe.params, probe.macs)
            assert counts.memory in (None, probe.memory)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("nasbench201", (3, 4, 4)),
        ("nasbench201", (3, 34, 32)),
        ("nats_size", (3, 4, 4)),
        ("nats_size", (3, 32, 33)),
        ("nasbench101", (3, 4, 4)),
        ("darts(stem=imagenet)", (3, 32, 32)),
        ("mobilenetv2", (3, 1, 1)),
        ("mobilenetv2(use_se=True)", (3, 64, 64)),
        ("zen_resnet(use_se=True)", (3, 64, 64)),
    ],
)
def test_there_are_no_counts_if_a_network_does_not_accept_the_input(name, shape):
    space = load_space(name)
    task = Task("noise", shape, CLASSES)
    arch = sample_archs(space, 1)[0]
    assert space.counts(arch, task) is None
    batch = Batch(torch.empty(1, *shape, device="meta"), torch.zeros(1, device="meta").long())
    # Some of these networks accept two samples, which are counted if one is not accepted.
    with pytest.raises((Unscorable, RuntimeError)):
        Probe(space.build(arch, task, device="meta"), batch)._count_operations(copies=1)


@contract
def test_a_seed_determines_the_weights(name):
    space = load_small_space(name)
    arch = sample_archs(space, 1)[0]
    task = make_task(space)

    def build_weights(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return space.build(arch, task).state_dict()

    first = build_weights(0)
    again = build_weights(0)
    other = build_weights(1)
    assert list(first) == list(again)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@contract
def test_sampling_and_mutation_allocate_nothing(name):
    """Sampling and mutation work where every tensor with memory is a failure; building does not."""
    space = load_small_space(name)
    rng = np.random.default_rng(0)
    with NoMemory():
        arch = space.mutate(space.sample(rng), rng)
    with NoMemory(), pytest.raises(AssertionError):
        space.build(arch, make_task(space))


@contract
def test_a_drawing_renders(name):
    space = load_small_space(name)
    for arch in sample_archs(space, 3):
        root = ElementTree.fromstring(draw_diagram(space.draw(arch)))
        assert root.tag in ("svg", "div") or root.tag.endswith("}svg")
        assert any(text.text for text in root.iter() if text.text)


@contract
def test_a_space_has_a_description_and_a_size(name):
    space = load_small_space(name)
    assert space.about.endswith(".")
    assert name in ("mynet", "mobilenetv2", "zen_resnet") or (space.size or 0) > 1


@pytest.mark.parametrize("name", SPACES_WITH_SUPERNET)
def test_a_subnet_equals_the_built_network_with_the_weights_of_the_supernet(name):
    space = load_small_space(name)
    task = make_task(space)
    torch.manual_seed(0)
    supernet = space.supernet(task)
    x = torch.randn(2, *task.input_shape)
    for arch in sample_archs(space, 2):
        subnet = supernet.subnet(arch).eval()
        built = space.build(arch, task).eval()
        built.load_state_dict(subnet.state_dict())
        before = compute_output(subnet, x)
        torch.testing.assert_close(before, compute_output(built, x))
        with torch.no_grad():
            for parameter in supernet.parameters():
                parameter.mul_(1.5)
        assert not torch.allclose(compute_output(subnet, x), before)  # the weights are shared
        torch.testing.assert_close(compute_output(built, x), before)


@pytest.mark.parametrize("name", SPACES_WITH_SUPERNET)
def test_training_a_subnet_trains_the_supernet(name):
    space = load_small_space(name)
    task = make_task(space)
    torch.manual_seed(0)
    supernet = space.supernet(task)
    x = torch.randn(4, *task.input_shape)
    y = torch.arange(4)
    arch = sample_archs(space, 1)[0]
    first = supernet.subnet(arch).train()
    optimiser = torch.optim.SGD(first.parameters(), lr=0.1)
    nn.functional.cross_entropy(compute_output(first, x), y).backward()
    optimiser.step()
    second = supernet.subnet(arch)
    for new_weight, weight in zip(second.parameters(), first.parameters(), strict=True):
        if weight.ndim > 1:  # a subnet may have its own norm weights
            torch.testing.assert_close(new_weight, weight)

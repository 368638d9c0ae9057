"""NAS-Bench-201 against its published strings, indices and sizes."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import find_shared
from tests.golden.reference import list_golden_cells
from tests.golden.spaces import run_and_count
from tests.test_spaces import find_marked_column, seeds
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import load_space
from untrained.spaces.nasbench201 import find_official_index, make_arch_from_index
from untrained.types import Arch, Batch, Task

OPS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
nb201 = load_space("nasbench201")
six_ops = st.lists(st.sampled_from(OPS), min_size=6, max_size=6)


def format_official(ops: list[str]) -> str:
    """Return the string in the notation of the authors."""
    return "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*ops)


def list_ops(arch: Arch) -> list[str]:
    return [str(op) for _, op in arch.genes]


def measure_size(text: str, device: str = "meta") -> tuple[int, int]:
    """Return parameters and multiply-adds on CIFAR-10; by default on the meta device, which computes nothing."""
    batch = Batch(torch.zeros(1, 3, 32, 32, device=device), torch.zeros(1, device=device))
    probe = Probe(nb201.build(nb201.parse(text), device=device), batch)
    return probe.params, probe.macs


# -------------------------------------------------------------------------------------------------------------- strings


@settings(derandomize=True)
@given(six_ops)
def test_parsing_and_printing_are_inverse(ops):
    arch = nb201.parse(format_official(ops))
    assert list_ops(arch) == ops
    assert str(arch) == format_official(ops)
    assert nb201.parse(str(arch)) == arch


GOOD = format_official(
    ["nor_conv_3x3", "none", "skip_connect", "avg_pool_3x3", "nor_conv_1x1", "none"]
)
DAMAGE = {
    "empty": ("", 0),
    "no first bar": (GOOD[1:], 0),
    "space in front": (" " + GOOD, 0),
    "unknown operation": (GOOD.replace("skip_connect", "skip"), GOOD.index("skip_connect")),
    "unknown first operation": (GOOD.replace("nor_conv_3x3", "nor_conv_7x7"), 1),
    "wrong source": (GOOD.replace("skip_connect~1", "skip_connect~0"), GOOD.index("~1")),
    "no tilde": (GOOD.replace("skip_connect~1", "skip_connect1"), GOOD.index("skip_connect")),
    "no plus": (GOOD.replace("|+|", "|", 1), GOOD.index("|+")),
    "an edge too few": (GOOD.replace("|none~2|", "|"), GOOD.index("none~2")),
    "an edge too many": (GOOD + "none~3|", len(GOOD)),
    "a node too many": (GOOD + "+|none~0|", len(GOOD)),
    "cut in the middle": (GOOD[:30], GOOD.rindex("|", 0, 30) + 1),
    "no last bar": (GOOD[:-1], len(GOOD) - 1),
    "space behind": (GOOD + " ", len(GOOD)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_an_error_marks_the_position_in_a_malformed_string(name):
    text, column = DAMAGE[name]
    with pytest.raises(UsageError, match=f"at position {column}\n") as caught:
        nb201.parse(text)
    assert find_marked_column(str(caught.value)) == column
    assert str(caught.value).split("\n")[1] == f"  {text}"


@settings(derandomize=True)
@given(six_ops, st.data())
def test_a_damaged_character_is_marked_within_its_token(ops, data):
    good = format_official(ops)
    at = data.draw(st.integers(0, len(good) - 1))
    with pytest.raises(UsageError) as caught:
        nb201.parse(good[:at] + "#" + good[at + 1 :])
    token = next(t for t in re.finditer(r"\|\+|\||\w+~\d", good) if t.start() <= at < t.end())
    assert token.start() <= find_marked_column(str(caught.value)) <= at


def test_the_error_lists_the_possible_operations():
    with pytest.raises(UsageError) as caught:
        nb201.parse("|conv~0|")
    assert all(op in str(caught.value) for op in OPS)


# ------------------------------------------------------------------------------------------------- the set of all cells


def test_iteration_gives_all_cells_once():
    archs = list(nb201)
    assert (
        nb201.size
        == len(archs)
        == len(set(archs))
        == len({str(arch) for arch in archs})
        == 5**6
        == 15_625
    )
    assert str(archs[0]) == format_official(["none"] * 6)
    assert str(archs[-1]) == format_official(["avg_pool_3x3"] * 6)


@pytest.mark.parametrize(
    ("index", "text"),
    [  # the first one the authors list, and the most accurate one on CIFAR-10
        (
            0,
            "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|",
        ),
        (
            6111,
            "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|",
        ),
    ],
)
def test_published_indices_lead_to_their_cells(index, text):
    assert str(make_arch_from_index(index)) == text
    assert find_official_index(nb201.parse(text)) == index


@pytest.mark.data
def test_the_official_index_maps_both_ways():
    table = pd.read_csv(
        find_shared("data", "nasbench201", "nb201_full.csv.gz"), usecols=["index", "arch_str"]
    )
    assert len(table) == 15_625
    for index, text in zip(table["index"].tolist(), table["arch_str"], strict=True):
        assert str(make_arch_from_index(index)) == text
        assert find_official_index(nb201.parse(text)) == index


@pytest.mark.parametrize("index", [-1, 15_625])
def test_an_index_outside_the_benchmark_is_rejected(index):
    with pytest.raises(UsageError, match="0 to 15624"):
        make_arch_from_index(index)


def test_an_architecture_by_index_equals_the_parsed_one():
    assert make_arch_from_index(7) == nb201.parse(str(make_arch_from_index(7)))
    assert make_arch_from_index(7) in set(nb201)


# ------------------------------------------------------------------------------------------------------------- networks


@pytest.mark.parametrize("edges", range(7))
def test_each_3x3_edge_adds_its_parameters(edges):
    """Published: 73,306 parameters without any, 1,531,546 with all six.

    An edge has five convolutions and batch norms in each of the three stages:
    5 (16^2 + 32^2 + 64^2) 9 + 5 (16 + 32 + 64) 2 = 243,040 parameters.
    """
    params, _ = measure_size(format_official(["nor_conv_3x3"] * edges + ["none"] * (6 - edges)))
    assert params == 73_306 + 243_040 * edges
    assert edges != 6 or params == 1_531_546


@pytest.mark.data
def test_sizes_of_the_golden_architectures_are_the_official_ones():
    for text, metrics in list_golden_cells():
        flops, params = metrics["A.flops_params_M_official"]
        ours = measure_size(text)
        assert ours[0] == metrics["A.params"] == round(params * 1e6)
        # The official counter adds the ten biases of the head
        assert ours[1] + 10 == round(flops * 1e6)
    assert measure_size(text, "cpu") == ours


def count_other_operations(side: int, text: str) -> int:
    """Count the other operations of the official counter.

    Per entry it counts 2 for batch norm, 1 for ReLU, k^2 for pooling, and (n + 1)^2 for global pooling of n x n.
    """
    # Entries of an edge in the three stages.
    a = 16 * side**2
    b = 32 * (side // 2) ** 2
    c = 64 * (side // 4) ** 2
    norms = a + 2 * b + 2 * c + c  # stem, two residual blocks, head
    relus = (a + b) + (b + c) + c
    pools = 4 * (a // 4 + b // 4) + 64 * (side // 4 + 1) ** 2
    convolutions = text.count("nor_conv")
    poolings = text.count("avg_pool")
    return 2 * norms + relus + pools + 5 * (a + b + c) * (3 * convolutions + 9 * poolings)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "side", "classes"),
    [("cifar10", 32, 10), ("cifar100", 32, 100), ("ImageNet16-120", 16, 120)],
)
def test_sizes_equal_those_of_all_measured_networks(task, side, classes):
    """NAS-Bench-Suite-Zero measured 1,386 networks.

    All edges of a cell have equal tensors, so the order of the operations does not matter: one network per order
    is enough.
    """
    table = pd.read_csv(find_shared("data", "nasbench201", "nb201_zc12_subset.csv.gz"))
    table = table[table["task"] == task].drop_duplicates("index")
    assert len(table) == 1_386
    ours: dict[tuple[str, ...], tuple[int, int]] = {}
    for index, params, flops in zip(table["index"], table["params"], table["flops"], strict=True):
        arch = make_arch_from_index(index)
        kind = tuple(sorted(list_ops(arch)))
        if kind not in ours:
            model = nb201.build(arch, Task(task, (3, side, side), classes))
            ours[kind] = (
                sum(p.numel() for p in model.parameters()),
                run_and_count(model, torch.zeros(1, 3, side, side))[1],
            )
        assert ours[kind][0] == round(params * 1e6)
        # The table has seven digits.
        assert ours[kind][1] + count_other_operations(side, str(arch)) == pytest.approx(
            flops * 1e6, rel=1e-6
        )


@pytest.mark.parametrize(
    ("options", "shape", "classes", "width"),
    [
        ({"channels": 8, "cells": 1}, (1, 20, 28), 7, 32),
        ({"channels": 5, "cells": 2}, (4, 16, 16), 1, 20),
        ({}, (3, 32, 32), 120, 64),
    ],
)
def test_networks_can_have_any_size(options, shape, classes, width):
    space = nb201.with_options(**options)
    task = Task("noise", shape, classes)
    model = space.build(space.parse(GOOD), task)
    assert model(torch.randn(2, *shape)).shape == (2, classes)
    assert model.classifier.weight.shape == (classes, width)  # 4 C channels at the end
    cells = [module for module in model.cells if hasattr(module, "edges")]
    assert len(cells) == 3 * options.get("cells", 5)


def test_with_options_does_not_change_the_space_itself():
    small = nb201.with_options(channels=8).with_options(cells=1)
    assert dict(small.options) == {"channels": 8, "cells": 1}
    assert nb201.options == ()
    assert small.name == "nasbench201(channels=8,cells=1)"


def test_the_same_cell_with_other_options_is_another_architecture():
    small = load_space("nasbench201(channels=8,cells=1)")
    arch = small.parse(GOOD)
    assert arch != nb201.parse(GOOD)
    assert str(arch) == GOOD
    assert load_space(arch.space).build(arch).classifier.in_features == 4 * 8


def test_an_unknown_option_is_rejected():
    with pytest.raises(UsageError, match="channels"):
        nb201.with_options(chanels=8)


def test_a_cell_computes_its_definition():
    """Node 1 = pool(x), node 2 = 0 x + node 1, node 3 = x + pool(node 1) + node 2; the pool of a constant is itself."""
    text = format_official(
        ["avg_pool_3x3", "none", "skip_connect", "skip_connect", "avg_pool_3x3", "skip_connect"]
    )
    space = nb201.with_options(channels=2, cells=1)
    cell = space.build(space.parse(text)).cells[0]
    x = torch.full((1, 2, 4, 4), 0.7)
    torch.testing.assert_close(cell(x), 3 * x)


# ------------------------------------------------------------------------------------------------------------- sampling


@settings(derandomize=True)
@given(six_ops, seeds)
def test_mutation_changes_exactly_one_edge(ops, seed):
    parent = nb201.parse(format_official(ops))
    child = nb201.mutate(parent, np.random.default_rng(seed))
    assert sum(a != b for a, b in zip(list_ops(child), ops, strict=True)) == 1
    assert nb201.parse(str(child)) == child
    assert list_ops(parent) == ops


def test_mutation_reaches_every_neighbour():
    parent = nb201.parse(GOOD)
    rng = np.random.default_rng(0)
    assert len({nb201.mutate(parent, rng) for _ in range(500)}) == 6 * 4


def test_samples_depend_on_the_generator_and_cover_every_edge():
    first, again = (
        [nb201.sample(rng) for _ in range(100)] for rng in map(np.random.default_rng, (3, 3))
    )
    assert first == again
    assert {(name, op) for arch in first for name, op in arch.genes} == {
        (name, op) for name, _ in first[0].genes for op in OPS
    }
    assert [nb201.sample(np.random.default_rng(4)) for _ in range(2)] != first[:2]

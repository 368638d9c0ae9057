"""Spaces: NAS-Bench-201 against its published strings, indices and sizes; what follows from a user's own function."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import untrained
from tests.conftest import shared
from tests.golden.reference import architectures
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import SPACES, load_space
from untrained.spaces.nasbench201 import from_index, index_of
from untrained.types import Arch, Batch, Task

OPS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
nb201 = load_space("nasbench201")
six_ops = st.lists(st.sampled_from(OPS), min_size=6, max_size=6)
seeds = st.integers(0, 2**32)


def official(ops: list[str]) -> str:
    """The string as the benchmark's authors write it."""
    return "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*ops)


def ops_of(arch: Arch) -> list[str]:
    return [str(op) for _, op in arch.genes]


def size_of(text: str, device: str = "meta") -> tuple[int, int]:
    """Parameters and multiply-adds at CIFAR-10; counting needs no numbers, so by default none are computed."""
    batch = Batch(torch.zeros(1, 3, 32, 32, device=device), torch.zeros(1, device=device))
    probe = Probe(nb201.build(nb201.parse(text), device=device), batch)
    return probe.params, probe.macs


# ----------------------------------------------------------------------------------------------- NAS-Bench-201: strings


@settings(derandomize=True)
@given(six_ops)
def test_parsing_and_printing_are_inverse(ops):
    arch = nb201.parse(official(ops))
    assert ops_of(arch) == ops
    assert str(arch) == official(ops)
    assert nb201.parse(str(arch)) == arch


GOOD = official(["nor_conv_3x3", "none", "skip_connect", "avg_pool_3x3", "nor_conv_1x1", "none"])
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


def marked(message: str) -> int:
    """The column under which the arrow of an error message stands."""
    _, text, arrow = message.split("\n")
    assert text.startswith("  ")
    assert arrow.endswith("^")
    assert arrow[:-1].strip() == ""
    return len(arrow) - 1 - 2  # both lines are indented by two


@pytest.mark.parametrize("name", DAMAGE)
def test_a_malformed_string_is_marked_where_it_goes_wrong(name):
    text, column = DAMAGE[name]
    with pytest.raises(UsageError, match=f"at position {column}\n") as caught:
        nb201.parse(text)
    assert marked(str(caught.value)) == column
    assert str(caught.value).split("\n")[1] == f"  {text}"


@settings(derandomize=True)
@given(six_ops, st.data())
def test_a_damaged_character_is_marked_within_its_token(ops, data):
    good = official(ops)
    at = data.draw(st.integers(0, len(good) - 1))
    with pytest.raises(UsageError) as caught:
        nb201.parse(good[:at] + "#" + good[at + 1 :])
    token = next(t for t in re.finditer(r"\|\+|\||\w+~\d", good) if t.start() <= at < t.end())
    assert token.start() <= marked(str(caught.value)) <= at


def test_the_error_lists_what_could_stand_there():
    with pytest.raises(UsageError) as caught:
        nb201.parse("|conv~0|")
    assert all(op in str(caught.value) for op in OPS)


# ---------------------------------------------------------------------------------- NAS-Bench-201: the set of all cells


def test_iteration_gives_all_cells_once():
    archs = list(nb201)
    assert nb201.size == len(archs) == len(set(archs)) == len({str(arch) for arch in archs}) == 5**6 == 15_625
    assert str(archs[0]) == official(["none"] * 6)
    assert str(archs[-1]) == official(["avg_pool_3x3"] * 6)


@pytest.mark.parametrize(
    ("index", "text"),
    [  # the first one the authors list, and the most accurate one on CIFAR-10
        (0, "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|"),
        (6111, "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"),
    ],
)
def test_published_indices(index, text):
    assert str(from_index(index)) == text
    assert index_of(nb201.parse(text)) == index


@pytest.mark.data
def test_the_official_index_maps_both_ways():
    table = pd.read_csv(shared("data", "nasbench201", "nb201_full.csv.gz"), usecols=["index", "arch_str"])
    assert len(table) == 15_625
    for index, text in zip(table["index"].tolist(), table["arch_str"], strict=True):
        assert str(from_index(index)) == text
        assert index_of(nb201.parse(text)) == index


@pytest.mark.parametrize("index", [-1, 15_625])
def test_an_index_outside_the_benchmark_is_refused(index):
    with pytest.raises(UsageError, match="0 to 15624"):
        from_index(index)


def test_a_found_architecture_equals_the_parsed_one():
    assert from_index(7) == nb201.parse(str(from_index(7)))
    assert from_index(7) in set(nb201)


# ---------------------------------------------------------------------------------------------- NAS-Bench-201: networks


@pytest.mark.parametrize("edges", range(7))
def test_each_3x3_edge_adds_its_parameters(edges):
    """Published: 73,306 without any, 1,531,546 with all six. An edge holds five convolutions and batch norms in each of
    the three stages: 5 (16^2 + 32^2 + 64^2) 9 + 5 (16 + 32 + 64) 2 = 243,040."""
    params, _ = size_of(official(["nor_conv_3x3"] * edges + ["none"] * (6 - edges)))
    assert params == 73_306 + 243_040 * edges
    assert edges != 6 or params == 1_531_546


@pytest.mark.data
def test_sizes_of_the_golden_architectures_are_the_official_ones():
    for text, metrics in architectures():
        flops, params = metrics["A.flops_params_M_official"]
        ours = size_of(text)
        assert ours[0] == metrics["A.params"] == round(params * 1e6)
        assert ours[1] + 10 == round(flops * 1e6)  # the official counter adds the ten biases of the head
    assert size_of(text, "cpu") == ours


@pytest.mark.data
def test_sizes_agree_with_the_published_table():
    """The table's FLOPs are multiply-adds and what else its counter counts, per entry: 2 for batch norm, 1 for ReLU,
    k^2 for pooling to that entry, and (8 + 1)^2 for the global pooling of 8x8."""
    E = 16 * 32**2 + 32 * 16**2 + 64 * 8**2  # entries of one edge, all stages
    norms = 16 * 32**2 + 2 * 32 * 16**2 + 2 * 64 * 8**2 + 64 * 8**2  # stem, two residual blocks, head
    relus = (16 * 32**2 + 32 * 16**2) + (32 * 16**2 + 64 * 8**2) + 64 * 8**2
    pools = 4 * (16 * 16**2 + 32 * 8**2) + 81 * 64
    table = pd.read_csv(shared("data", "nasbench201", "nb201_full.csv.gz")).iloc[::800]
    assert len(table) == 20
    for text, params, flops in zip(table["arch_str"], table["params_c10_M"], table["flops_c10_M"], strict=True):
        convolutions, poolings = text.count("nor_conv"), text.count("avg_pool")
        others = 2 * norms + relus + pools + 5 * E * (3 * convolutions + 9 * poolings)
        ours = size_of(text)
        assert ours[0] == round(params * 1e6)
        assert ours[1] + others == round(flops * 1e6)


@pytest.mark.parametrize(
    ("options", "shape", "classes", "width"),
    [
        ({"channels": 8, "cells": 1}, (1, 20, 28), 7, 32),
        ({"channels": 5, "cells": 2}, (4, 16, 16), 1, 20),
        ({}, (3, 32, 32), 120, 64),
    ],
)
def test_networks_of_any_size(options, shape, classes, width):
    space = nb201.configured(**options)
    task = Task("noise", shape, classes)
    model = space.build(space.parse(GOOD), task)
    assert model(torch.randn(2, *shape)).shape == (2, classes)
    assert model.classifier.weight.shape == (classes, width)  # 4 C channels at the end
    cells = [module for module in model.cells if hasattr(module, "edges")]
    assert len(cells) == 3 * options.get("cells", 5)


def test_configuring_leaves_the_space_itself_alone():
    small = nb201.configured(channels=8).configured(cells=1)
    assert dict(small.options) == {"channels": 8, "cells": 1}
    assert nb201.options == ()
    assert small.name == "nasbench201(channels=8,cells=1)"


def test_the_same_cell_in_another_configuration_is_another_architecture_and_finds_its_way_home():
    small = load_space("nasbench201(channels=8,cells=1)")
    arch = small.parse(GOOD)
    assert arch != nb201.parse(GOOD)
    assert str(arch) == GOOD
    assert load_space(arch.space).build(arch).classifier.in_features == 4 * 8


def test_an_unknown_configuration_is_refused():
    with pytest.raises(UsageError, match="channels"):
        nb201.configured(chanels=8)


def test_a_cell_computes_its_definition():
    """Node 1 = pool(x), node 2 = 0 x + node 1, node 3 = x + pool(node 1) + node 2; the pool of a constant is itself."""
    text = official(["avg_pool_3x3", "none", "skip_connect", "skip_connect", "avg_pool_3x3", "skip_connect"])
    space = nb201.configured(channels=2, cells=1)
    cell = space.build(space.parse(text)).cells[0]
    x = torch.full((1, 2, 4, 4), 0.7)
    torch.testing.assert_close(cell(x), 3 * x)


# ---------------------------------------------------------------------------------------------- NAS-Bench-201: sampling


@settings(derandomize=True)
@given(six_ops, seeds)
def test_mutation_changes_exactly_one_edge(ops, seed):
    parent = nb201.parse(official(ops))
    child = nb201.mutate(parent, np.random.default_rng(seed))
    assert sum(a != b for a, b in zip(ops_of(child), ops, strict=True)) == 1
    assert nb201.parse(str(child)) == child
    assert ops_of(parent) == ops


def test_mutation_reaches_every_neighbour():
    parent, rng = nb201.parse(GOOD), np.random.default_rng(0)
    assert len({nb201.mutate(parent, rng) for _ in range(500)}) == 6 * 4


def test_samples_follow_the_generator_and_cover_every_edge():
    first, again = ([nb201.sample(rng) for _ in range(100)] for rng in map(np.random.default_rng, (3, 3)))
    assert first == again
    assert {(name, op) for arch in first for name, op in arch.genes} == {
        (name, op) for name, _ in first[0].genes for op in OPS
    }
    assert [nb201.sample(np.random.default_rng(4)) for _ in range(2)] != first[:2]


# ------------------------------------------------------------------------------------------------ a user's own function


@untrained.space(task=Task("noise", (3, 8, 8), 5))
def tower(choose, task):
    """One to three blocks, plain or separable; only separable ones have a kernel size."""
    depth = choose("depth", (1, 2, 3))
    width = choose("width", (4, 8))
    layers: list[nn.Module] = [nn.Conv2d(task.input_shape[0], width, 1)]
    for i in range(depth):
        if choose(f"kind{i}", ("plain", "separable")) == "separable":
            kernel = choose(f"kernel{i}", (3, 5))
            layers.append(nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width))
        layers += [nn.Conv2d(width, width, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes))


ALL_TOWERS = list(tower)


def test_enumeration_follows_branches_and_loops():
    """A block is plain or separable with one of two kernels, 3 ways: 2 widths (3 + 3^2 + 3^3) = 78."""
    assert len(ALL_TOWERS) == len(set(ALL_TOWERS)) == 2 * (3 + 3**2 + 3**3)
    assert str(ALL_TOWERS[0]) == "depth=1,width=4,kind0=plain"
    assert ALL_TOWERS[-1].genes[:4] == (("depth", 3), ("width", 8), ("kind0", "separable"), ("kernel0", 5))


def test_samples_are_members_and_reach_every_depth():
    rng = np.random.default_rng(0)
    samples = {tower.sample(rng) for _ in range(60)}
    assert samples <= set(ALL_TOWERS)
    assert {arch["depth"] for arch in samples} == {1, 2, 3}


@pytest.mark.parametrize("arch", ALL_TOWERS, ids=str)
def test_pairs_are_parsed_back(arch):
    assert tower.parse(str(arch)) == arch
    assert str(tower.parse(str(arch))) == str(arch)


@settings(derandomize=True)
@given(st.sampled_from(ALL_TOWERS), seeds)
def test_mutation_with_dependent_choices(parent, seed):
    """One choice changes; those that both have keep their value; new ones are drawn, obsolete ones dropped."""
    child = tower.mutate(parent, np.random.default_rng(seed))
    assert child in set(ALL_TOWERS)
    before, after = dict(parent.genes), dict(child.genes)
    assert sum(before[name] != after[name] for name in before.keys() & after.keys()) == 1


def test_a_choice_that_no_longer_fits_is_drawn_anew():
    @untrained.space
    def grouped(choose, task):
        width = choose("width", (2, 4))
        groups = choose("groups", (1, 2) if width == 2 else (4,))
        return nn.Conv2d(width, width, 1, groups=groups)

    rng = np.random.default_rng(0)
    wide = grouped.parse("width=4,groups=4")
    assert {str(grouped.mutate(wide, rng)) for _ in range(30)} == {"width=2,groups=1", "width=2,groups=2"}
    narrow = grouped.parse("width=2,groups=1")
    assert {str(grouped.mutate(narrow, rng)) for _ in range(30)} == {"width=2,groups=2", "width=4,groups=4"}


def test_a_network_is_built_with_the_choices_and_the_task():
    arch = tower.parse("depth=2,width=4,kind0=separable,kernel0=5,kind1=plain")
    model = tower.build(arch, Task("noise", (1, 9, 7), 6))
    assert [layer.kernel_size for layer in model if isinstance(layer, nn.Conv2d)] == [(1, 1), (5, 5), (1, 1), (1, 1)]
    assert model(torch.randn(2, 1, 9, 7)).shape == (2, 6)


def test_nothing_is_allocated_before_building():
    devices: list[str] = []

    @untrained.space
    def watched(choose, task):
        model = nn.Linear(2, choose("width", (3, 4)))
        devices.append(model.weight.device.type)
        return model

    arch = watched.mutate(watched.parse(str(watched.sample(np.random.default_rng(0)))), np.random.default_rng(0))
    assert [*watched]
    assert set(devices) == {"meta"}
    assert watched.build(arch).weight.device.type == "cpu"


def test_options_of_any_kind_are_parsed_back_as_themselves():
    @untrained.space
    def odd(choose, task):
        kernel = choose("kernel", ("3", "5"))  # text that looks like a number
        rate = choose("rate", (0.001, 2.0, 3))
        norm = choose("norm", ("None", "batch"))
        assert isinstance(kernel, str)
        assert isinstance(norm, str)
        return nn.Linear(int(kernel), int(rate) + 1)

    archs = list(odd)
    assert len(archs) == 2 * 3 * 2
    for arch in archs:
        assert odd.parse(str(arch)) == arch
        assert [type(value) for _, value in odd.parse(str(arch)).genes] == [type(value) for _, value in arch.genes]
    assert odd.parse("kernel=3, rate=1e-3, norm=batch")["rate"] == 0.001
    assert odd.build(odd.parse("kernel=3,rate=3.0,norm=batch")).weight.shape == (4, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("depth=1,width=4", "'kind0'; it can be one of plain, separable"),
        ("depth=4,width=4,kind0=plain", "'depth' is 4, but it can only be one of 1, 2, 3"),
        ("depth=1,width=4,kind0=plain,kind1=plain", "no choice 'kind1'"),
        ("depth=1,width=4,width=8,kind0=plain", "says 'width' twice"),
        ("depth=1,with=4,kind0=plain", "'width'; it can be one of 4, 8"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(text, says):
    with pytest.raises(UsageError, match=says):
        tower.parse(text)


@pytest.mark.parametrize(
    ("text", "column"),
    [("depth", 0), ("depth=1,width", 8), ("depth=1,,kind0=plain", 8), ("depth=1,width=4,=plain", 16), ("", 0)],
)
def test_malformed_pairs_are_marked(text, column):
    with pytest.raises(UsageError, match="expected name=value") as caught:
        tower.parse(text)
    assert marked(str(caught.value)) == column


def test_a_choice_made_twice_is_refused():
    @untrained.space
    def twice(choose, task):
        return nn.Linear(choose("width", (1, 2)), choose("width", (1, 2)))

    with pytest.raises(UsageError, match="'width' is made twice"):
        twice.sample(np.random.default_rng(0))


def test_a_choice_without_options_is_refused():
    @untrained.space
    def empty(choose, task):
        return nn.Linear(choose("width", ()), 1)

    with pytest.raises(UsageError, match="'width' has no options"):
        empty.sample(np.random.default_rng(0))


def test_a_space_without_choices_has_one_member_and_no_mutants():
    @untrained.space
    def fixed(choose, task):
        return nn.Linear(choose("width", (2,)), 1)

    assert [str(arch) for arch in fixed] == ["width=2"]
    with pytest.raises(UsageError, match="no choice that could change"):
        fixed.mutate(next(iter(fixed)), np.random.default_rng(0))


# ------------------------------------------------------------------------------------------------------------- the door


def test_an_unknown_space_lists_the_near_names():
    with pytest.raises(UsageError, match="no space is called 'nasbench210'; did you mean nasbench201"):
        load_space("nasbench210")
    with pytest.raises(UsageError, match=r"there are: .*nasbench201"):
        load_space("xyz")


def test_every_registered_space_is_named_like_its_function():
    for name, space in SPACES.items():
        assert space.name == name == space.network.__name__
        assert space.about.endswith(".")


MINE = """
import untrained
from torch import nn

@untrained.space
def mynet(choose, task):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, choose("width", (2, 3))))

def helper(choose, task):
    pass
"""


def test_a_space_in_a_file(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    space = load_space(f"{file}:mynet")
    answer: Tensor = space.build(space.parse("width=3"))(torch.zeros(1, 3, 2, 2))
    assert answer.shape == (1, 3)
    assert load_space(space) is space
    with pytest.raises(UsageError, match=r"is not a space; put @untrained\.space above"):
        load_space(f"{file}:helper")
    with pytest.raises(UsageError, match="did you mean mynet"):
        load_space(f"{file}:mynt")
    with pytest.raises(UsageError, match="there is no file"):
        load_space(f"{tmp_path}/other.py:mynet")

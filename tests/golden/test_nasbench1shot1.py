"""NAS-Bench-1Shot1 equals the official code and tables: sizes, networks, cells with accuracies."""

from typing import Any

import pandas as pd
import pytest

from tests.conftest import find_shared
from tests.golden.spaces import check_network, read_golden_file
from untrained.errors import UsageError
from untrained.spaces import load_space
from untrained.spaces.nasbench1shot1.space import get_spec
from untrained.spaces.nasbench101.graph import CellSpec, compute_hash, find_canonical_form
from untrained.spaces.nasbench101.space import format_spec
from untrained.types import Task

PARTS = ("S1", "S2", "S3")


def load_part(name: str, **options: Any):
    return load_space(f"nasbench1shot1_{name.lower()}").with_options(**options)


def make_spec_of_entry(entry: dict[str, Any], prefix: str = "") -> CellSpec:
    return CellSpec(tuple(map(tuple, entry[f"{prefix}matrix"])), tuple(entry[f"{prefix}ops"]))


@pytest.mark.data
@pytest.mark.parametrize("name", PARTS)
def test_the_listed_cells_are_the_published_ones(name):
    info = read_golden_file()["nasbench1shot1"][name]["info"]
    space = load_part(name, channels=2, cells=1)
    archs = list(space)
    matrices = {str(arch).split("+")[0] for arch in archs}
    assert len(matrices) == info["adj_without_loose_ends_distinct"]
    assert space.size == len(archs) == len(set(archs)) == info["labelled_without_loose_ends"]
    assert (
        len({find_canonical_form(get_spec(arch)) for arch in archs})
        == info["hash_unique_without_loose_ends"]
    )


@pytest.mark.data
@pytest.mark.parametrize("name", PARTS)
def test_the_number_of_cells_with_loose_ends_is_the_official_one(name):
    info = read_golden_file()["nasbench1shot1"][name]["info"]
    space = load_part(name, members="loose")
    assert space.size == info["archs_with_loose_ends_labelled"]
    if space.size < 20_000:
        assert len(list(space)) == space.size


@pytest.mark.parametrize(("name", "matrices", "cells"), [("S1", 66, 3_702), ("S2", 190, 12_474)])
def test_the_number_of_all_cells_without_loose_ends_is_right(name, matrices, cells):
    """Compared with the cells with loose ends, reduced to the nodes that reach the output."""
    space = load_part(name, members="tight")
    archs = list(space)
    assert space.size == len(archs) == len(set(archs)) == cells
    assert len({str(arch).split("+")[0] for arch in archs}) == matrices
    if name == "S1":
        loose = load_part(name, members="loose")
        used = {_keep_reachable(dict(arch.genes)) for arch in loose}
        assert len(used) == cells


def _keep_reachable(genes: dict[str, Any]) -> tuple[Any, ...]:
    """Return the genes of the nodes that are reachable from the output."""
    reachable = []
    queue = ["parents_out"]
    while queue:
        name = queue.pop()
        reachable += [
            (name, genes[name]),
            (name.replace("parents", "op"), genes.get(name.replace("parents", "op"))),
        ]
        queue += [f"parents{node}" for node in genes[name].split("+") if node != "0"]
    return tuple(sorted(set(reachable)))


@pytest.mark.data
@pytest.mark.parametrize("name", PARTS)
def test_networks_equal_the_official_ones(name):
    """Cells of the official sampler, which also samples cells that are not listed."""
    entries = read_golden_file()["nasbench1shot1"][name]["archs"]
    assert len(entries) == 11
    for entry in entries:
        space = load_part(name, members="loose" if "loose_ends=True" in entry["name"] else "tight")
        task = Task("cifar10", tuple(entry["input_shape"][1:]), entry["num_classes"])
        arch = space.parse(format_spec(make_spec_of_entry(entry)))
        assert get_spec(arch) == make_spec_of_entry(entry, "pruned_")
        assert compute_hash(get_spec(arch)) == entry["hash"]
        check_network(space.build(arch, task), entry)


@pytest.mark.data
def test_cells_with_published_accuracies_are_members():
    table = pd.read_csv(
        find_shared("data", "nasbench101", "nb101_1shot1_spaces12.csv.gz"), dtype=str
    )
    assert len(table) == 6_096
    cells = set()
    members = {"1": set(), "2": set()}
    for number, matrix, ops in zip(table["space"], table["matrix"], table["ops"], strict=True):
        arch = load_part(f"S{number}").parse(f"{matrix}+{ops}")
        assert str(arch).split("+")[0].replace("/", "") == matrix
        members[number].add(arch)
        cells.add(find_canonical_form(get_spec(arch)))
    assert [len(archs) for archs in members.values()] == [2_487, 3_609]
    assert members["1"] == set(load_part("S1"))
    assert len(cells) == 5_385


def test_the_error_for_an_unlisted_cell_names_the_option_that_allows_it():
    """Nodes 1 and 2 both read only the input and feed the output, so there is no chain."""
    text = f"{'0110001/0000001/0000001/' + '0000000/' * 3}0000000+input,{'maxpool3x3,' * 5}output"
    with pytest.raises(UsageError, match=r"do not form a chain.*members=tight"):
        load_part("S2").parse(text)
    assert get_spec(load_part("S2", members="tight").parse(text)).edge_count == 5


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "0111000/0001001/0000000/0000001/0000000/0000000/0000000",
            "'parents3' is '0\\+1', but it can only be one of",
        ),
        (
            "0100001/0000011/0000000/0000000/0000000/0000001/0000000",
            "7 vertices in use, but here a cell has 6",
        ),
        ("010001/000001/000000/000000/000000/000000", "'parents_out' is '0\\+1', but"),
        ("0100/0010/0001/0000", "4 vertices in use"),
    ],
)
def test_cells_of_other_spaces_are_rejected(rows, message):
    """In space 3 node 3 has one parent.

    In space 2 the vertex before the output is unused, and the output has three parents.
    """
    n = rows.count("/") + 1
    space = load_part("S3" if "parents3" in message else "S2")
    with pytest.raises(UsageError, match=message):
        space.parse(f"{rows}+input,{'maxpool3x3,' * (n - 2)}output")


def test_unknown_members_are_rejected():
    with pytest.raises(UsageError, match="called 'all'; available: listed, loose, tight"):
        next(iter(load_part("S1", members="all")))
    with pytest.raises(UsageError, match="called 'all'; available: listed, loose, tight"):
        _ = load_part("S1", members="all").size

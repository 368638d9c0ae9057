"""NAS-Bench-101 equals the official code: networks, pruning, channels, hashes, isomorphism, counts."""

from typing import Any

import pandas as pd
import pytest

from tests.conftest import find_shared
from tests.golden.spaces import check_network, read_golden_file
from untrained.errors import UsageError
from untrained.spaces import load_space
from untrained.spaces.nasbench101.graph import (
    CellSpec,
    compute_channels,
    compute_hash,
    enumerate_specs,
    find_canonical_form,
    prune_spec,
)
from untrained.spaces.nasbench101.network import NASBench101
from untrained.spaces.nasbench101.space import compute_arch_hash, format_spec, get_spec
from untrained.types import Task

pytestmark = pytest.mark.data
space = load_space("nasbench101")


def list_entries() -> list[dict[str, Any]]:
    return read_golden_file()["nasbench101"]["archs"]


def make_spec_of_entry(entry: dict[str, Any], prefix: str = "") -> CellSpec:
    return CellSpec(tuple(map(tuple, entry[f"{prefix}matrix"])), tuple(entry[f"{prefix}ops"]))


def test_pruning_hash_and_channels_equal_the_official_ones():
    valid = [entry for entry in list_entries() if entry["valid"]]
    assert len(valid) == 17
    for entry in valid:
        cell = prune_spec(make_spec_of_entry(entry))
        first = entry["vertex_channels_stack1_first_cell"]
        assert cell == make_spec_of_entry(entry, "pruned_")
        assert compute_hash(cell) == compute_hash(find_canonical_form(cell)) == entry["hash"]
        assert list(compute_channels(cell, first[0], first[-1])) == first


def test_networks_in_any_order_of_vertices_equal_the_official_ones():
    """Also the cell with ten edges, which is not in the space, and one with a stem of 16 channels."""
    for entry in (entry for entry in list_entries() if entry["valid"]):
        task = Task("cifar10", tuple(entry["input_shape"][1:]), entry["num_classes"])
        channels = entry["vertex_channels_stack1_first_cell"][0]
        check_network(NASBench101(prune_spec(make_spec_of_entry(entry)), task, channels), entry)


def test_networks_of_the_space_have_the_official_parameters():
    """Tested if the vertices are in canonical order, or have equal widths so that no order matters."""
    built = 0
    for entry in list_entries():
        if entry["valid"] and "10 edges" not in entry["name"]:
            arch = space.parse(format_spec(make_spec_of_entry(entry)))
            assert compute_arch_hash(arch) == entry["hash"]
            widths = entry["vertex_channels_stack1_first_cell"]
            if (
                get_spec(arch) == make_spec_of_entry(entry, "pruned_")
                or len(set(widths[1:-1])) <= 1
            ):
                built += 1
                small = space.with_options(channels=widths[0])
                model = small.build(
                    small.parse(str(arch)),
                    Task("cifar10", (3, 32, 32), entry["num_classes"]),
                    "meta",
                )
                assert sum(p.numel() for p in model.parameters()) == entry["params"]
    assert built == 15


def test_an_invalid_cell_is_rejected():
    invalid = {
        entry["name"]: entry
        for entry in list_entries()
        if not entry["valid"] or "10 edges" in entry["name"]
    }
    for name, entry in invalid.items():
        with pytest.raises(UsageError, match="10 edges" if "10 edges" in name else "no path"):
            space.parse(format_spec(make_spec_of_entry(entry)))
    assert len(invalid) == 2


def test_isomorphic_cells_are_equal():
    pairs = read_golden_file()["nasbench101"]["isomorphism"]
    assert len(pairs) == 8
    for pair in pairs:
        a, b = (space.parse(format_spec(make_spec_of_entry(pair[side]))) for side in "ab")
        assert (a == b) == (str(a) == str(b)) == pair["equal"]
        assert [compute_arch_hash(a), compute_arch_hash(b)] == [
            pair["a"]["hash"],
            pair["b"]["hash"],
        ]


def test_the_number_of_cells_with_up_to_six_vertices_is_the_official_one():
    """For seven vertices see benchmarks/nasbench101_count.py."""
    canonical_cells = set()
    labelled = 0
    for count in read_golden_file()["nasbench101_counts"]["counts"][:5]:
        for cell in enumerate_specs(count["max_vertices"]):
            labelled += 1
            canonical_cells.add(find_canonical_form(cell))
        assert labelled == count["cumulative_labelled"]
        assert len(canonical_cells) == count["cumulative_unique_hashes"]


def test_our_canonical_order_of_vertices_is_that_of_the_benchmark():
    """All cells of a public table, which have the order of the benchmark's file, stay unchanged."""
    table = pd.read_csv(
        find_shared("data", "nasbench101", "nb101_zen_10250_noacc.csv.gz"), dtype=str
    ).dropna()
    assert len(table) == 8_644
    for matrix, ops in zip(table["matrix"], table["ops"], strict=True):
        rows = [matrix[7 * i : 7 * i + 7] for i in range(7)]
        arch = space.parse(f"{matrix}+{ops}")
        assert str(arch).startswith("/".join(rows) + "+input,")

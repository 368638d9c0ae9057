"""NAS-Bench-101: parsing, sampling, mutation. Networks, hashes and counts are in golden/test_nasbench101.py."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.test_spaces import find_marked_column, seeds
from untrained.errors import UsageError
from untrained.spaces import load_space
from untrained.spaces.nasbench101.graph import (
    MAX_EDGES,
    OPS,
    CellSpec,
    find_used_vertices,
    sample_spec,
    select_vertices,
)
from untrained.spaces.nasbench101.space import format_spec, get_spec
from untrained.types import Task

space = load_space("nasbench101")
A, B, M = OPS
CHAIN = "/".join("0" * i + "1" + "0" * (7 - i) for i in range(1, 8))
GOOD = f"0110/0001/0001/0000+input,{A},{M},output"


def sample_arch(seed: int):
    return space.sample(np.random.default_rng(seed))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(seeds)
def test_samples_are_pruned_and_within_limits_and_survive_parsing(seed):
    arch = sample_arch(seed)
    spec = get_spec(arch)
    assert spec.edge_count <= MAX_EDGES
    assert find_used_vertices(spec.matrix) == list(range(len(spec.ops)))
    assert len(spec.ops) <= 7
    assert space.parse(str(arch)) == arch
    assert str(arch) == format_spec(spec)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(seeds)
def test_every_order_of_the_vertices_is_the_same_architecture(seed):
    arch = sample_arch(seed)
    spec = get_spec(arch)
    last = len(spec.ops) - 1
    for inner in permutations(range(1, last)):
        other = select_vertices(spec, (0, *inner, last))
        if all(i < j for i, row in enumerate(other.matrix) for j, edge in enumerate(row) if edge):
            assert space.parse(format_spec(other)) == arch


def test_unused_vertices_are_pruned():
    idle = f"01010/00000/00001/00001/00000+input,{A},{B},{M},output"  # 1 feeds nothing, nothing feeds 2
    assert str(space.parse(idle)) == f"010/001/000+input,{M},output"


def test_digits_of_public_tables_are_parsed():
    assert space.parse("0110000100010000+0421") == space.parse(GOOD)
    assert space.parse("0100+01") == space.parse("01/00+input,output")


DAMAGE = {
    "": (0, "'+'"),
    "0110/0001/0001/0000": (19, "'+'"),
    f"0110/001/0001/0000+input,{A},{M},output": (5, "4 digits"),
    f"0110/0001/0021/0000+input,{A},{M},output": (10, "4 digits"),
    f"0110/0001/0001/0000+input,{A},conv5x5,output": (20 + len(f"input,{A},"), "maxpool3x3"),
    f"0110/0001/0001/0000+{A},{A},{M},output": (20, "input"),
    f"0110/0001/0001/0000+input,{A},{M},{M}": (20 + len(f"input,{A},{M},"), "output"),
    "0100+07": (6, "0 to 4"),
    "0100+00": (6, "output"),
    "010+01": (0, "2 x 2"),
}


@pytest.mark.parametrize("text", DAMAGE)
def test_an_error_marks_the_position_in_a_malformed_string(text):
    column, expected = DAMAGE[text]
    with pytest.raises(UsageError) as caught:
        space.parse(text)
    assert expected in str(caught.value).split("\n")[0]
    assert find_marked_column(str(caught.value)) == column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"0110/0001/0001+input,{A},{M},output", "square"),
        (f"0110/1001/0001/0000+input,{A},{M},output", "above the diagonal"),
        (f"0110/0001/0000/0000+input,{A},{M},output", None),
        (f"0110/0000/0000/0000+input,{A},{M},output", "no path"),
        (
            f"{'/'.join('0' * i + '1' + '0' * (7 - i) for i in range(1, 8))}/00000000+input,{f'{A},' * 6}output",
            "8 vertices",
        ),
        (f"01111/00111/00011/00001/00000+input,{A},{A},{A},output", "10 edges .* 9 are allowed"),
    ],
)
def test_invalid_cells_are_rejected(text, message):
    if message is None:
        # A single dead end is only pruned.
        assert get_spec(space.parse(text)).ops == (
            "input",
            A,
            "output",
        )
        return
    with pytest.raises(UsageError, match=message):
        space.parse(text)


def test_mutation_reaches_smaller_and_larger_cells():
    rng = np.random.default_rng(0)
    start = space.parse(GOOD)
    mutants = {space.mutate(start, rng) for _ in range(300)}
    assert start not in mutants
    assert {2, 3, 4, 5, 6} <= {len(get_spec(arch).ops) for arch in mutants}
    assert space.parse(GOOD.replace(M, B)) in mutants  # one operation changed


def test_all_cells_are_sampled_with_equal_probability():
    """64,542 of 423,624 cells have fewer than seven vertices, so 304.7 +- 16.1 of 2,000 samples should."""
    rng = np.random.default_rng(0)
    specs = [get_spec(space.sample(rng)) for _ in range(2000)]
    small = sum(len(spec.ops) < 7 for spec in specs)
    assert abs(small - 2000 * 64_542 / 423_624) < 4 * 16.1
    assert len(set(specs)) > 1980  # 2000^2 / 2 / 423,624 = 4.7 pairs are expected to be equal
    assert {op for spec in specs for op in spec.ops} == {"input", "output", *OPS}


def test_small_cells_are_sampled_with_equal_probability():
    """The seven cells of up to three vertices appear equally often: 7,000 draws, 1,000 +- 29.3 each."""
    specs = [sample_spec(np.random.default_rng(seed), max_vertices=3) for seed in range(7000)]
    counts = [specs.count(spec) for spec in set(specs)]
    assert len(counts) == 7
    assert all(abs(count - 1000) < 4.5 * 29.3 for count in counts)


def test_a_cell_computes_its_definition():
    """Two pools of the projected input are concatenated and the projected input is added. With projections that copy,
    each half of the output has the first channels of the input, plus the input itself."""
    text = f"0111/0001/0001/0000+input,{M},{M},output"
    small = space.with_options(channels=4, stacks=1, cells=1)
    cell = small.build(small.parse(text), Task("noise", (3, 8, 8), 2)).eval().layers[1]
    with torch.no_grad():
        for name, block in cell.project.items():
            block[0].weight.copy_(
                torch.eye(4)[: (4 if name == "3" else 2)].reshape(-1, 4, 1, 1) * (1 + 1e-5) ** 0.5
            )
    x = torch.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 5, 5)
    torch.testing.assert_close(
        cell(x)[0, :, 2, 2], torch.tensor([0.0, 1.0, 0.0, 1.0]) + torch.arange(4.0)
    )


def test_a_spec_lists_its_neighbours():
    spec = CellSpec(((0, 1, 1), (0, 0, 1), (0, 0, 0)), ("input", A, "output"))
    assert (spec.sources(2), spec.targets(0), spec.edge_count) == ([0, 1], [1, 2], 3)

"""Choices and notation of DARTS, without reference data. Official values are in golden/test_darts.py."""

from math import comb, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import untrained
from tests.genotypes import CONVS, ENAS_LIKE, SKIPS, darts, format_genotype, nasi, repeat_operation
from untrained.errors import UsageError
from untrained.spaces import Space

seeds = st.integers(0, 2**32 - 1)


# ------------------------------------------------------------------------------------------------------------ choices


@pytest.mark.parametrize(
    ("options", "each"),
    [
        ({}, 7),
        ({"operations": "hnas"}, 6),
        ({"operations": "s1"}, 2),
        ({"operations": "s3"}, 2),
        ({"operations": "s6"}, 1),
    ],
)
def test_the_size_is_the_number_of_combinations(options: dict[str, str], each: int):
    """A node with k earlier states has k(k-1)/2 pairs of sources and two operations; there are nodes 2 to 5 and two
    cells. No two combinations are the same cell, because sources are in ascending order."""
    space = darts.with_options(**options) if options else darts
    for index in (0, -1):
        decisions = space.list_decisions(lambda _, options, index=index: options[index])
        assert prod(len(decision.options) for decision in decisions) == space.size
    assert space.size == (1 * 3 * 6 * 10 * each**8) ** 2


def test_the_size_of_nasi():
    """The same wiring, and two different operations per node."""
    decisions = nasi.list_decisions(lambda _, options: options[0])
    assert (
        prod(len(decision.options) for decision in decisions)
        == nasi.size
        == (180 * (7 * 6) ** 4) ** 2
    )
    assert darts.size == 1037664180**2  # about 10^18, as the DARTS paper says


def test_nasi_samples_different_operations_and_parses_equal_ones():
    rng = np.random.default_rng(0)
    for arch in (nasi.sample(rng) for _ in range(100)):
        assert all(
            arch[f"{cell}{n}_op0"] != arch[f"{cell}{n}_op1"]
            for cell in ("normal", "reduce")
            for n in range(2, 6)
        )
    assert str(nasi.parse(CONVS)) == CONVS


def test_samples_reach_every_pair_of_sources_and_every_operation():
    rng = np.random.default_rng(0)
    archs = [darts.sample(rng) for _ in range(300)]
    assert len(set(archs)) == 300
    for node in range(2, 6):
        assert len({arch[f"normal{node}_inputs"] for arch in archs}) == comb(node, 2)
        assert len({arch[f"reduce{node}_op1"] for arch in archs}) == 7
    assert {arch["normal_concat"] for arch in archs} == {"2,3,4,5"}


@settings(derandomize=True, max_examples=50)
@given(seeds)
def test_mutation_changes_one_operation_or_the_sources_of_one_node(seed: int):
    rng = np.random.default_rng(seed)
    parent = darts.sample(rng)
    child = darts.mutate(parent, rng)
    assert darts.parse(str(child)) == child
    assert sum(a != b for a, b in zip(parent.genes, child.genes, strict=True)) == 1


@settings(derandomize=True, max_examples=50)
@given(seeds)
def test_a_child_has_every_gene_from_one_of_its_parents(seed: int):
    rng = np.random.default_rng(seed)
    a = darts.sample(rng)
    b = darts.sample(rng)
    child = darts.cross(a, b, rng)
    assert all(gene in (*a.genes, *b.genes) for gene in child.genes)


def test_published_cells_outside_of_the_space_have_close_mutants():
    parent = darts.parse(ENAS_LIKE)
    rng = np.random.default_rng(0)
    for child in (darts.mutate(parent, rng) for _ in range(20)):
        assert child["normal_nodes"] == 5
        assert child["reduce_concat"] == "2,4,6"
        assert str(child).count("sep_conv_7x7") >= 9
        assert darts.parse(str(child)) == child


def test_additional_values_are_parsed_but_never_sampled():
    @untrained.space
    def ratios(choose, task):
        return nn.Linear(1, int(choose("ratio", (3, 4), not_sampled=(2,))))

    assert [str(arch) for arch in ratios] == ["ratio=3", "ratio=4"]
    old = ratios.parse("ratio=2")
    rng = np.random.default_rng(0)
    assert ratios.build(old).out_features == 2
    assert {ratios.sample(rng)["ratio"] for _ in range(20)} == {3, 4}
    assert {ratios.mutate(old, rng)["ratio"] for _ in range(20)} == {3, 4}
    assert {ratios.cross(old, old, rng)["ratio"] for _ in range(20)} == {2}
    with pytest.raises(UsageError, match="it can only be one of 3, 4, 2"):
        ratios.parse("ratio=5")


# ------------------------------------------------------------------------------------------------------------- notation


@settings(derandomize=True, max_examples=50)
@given(seeds, st.sampled_from([darts, nasi]))
def test_genotypes_survive_printing_and_parsing(seed: int, space: Space):
    arch = space.sample(np.random.default_rng(seed))
    assert space.parse(str(arch)) == arch
    assert str(space.parse(str(arch))) == str(arch)


def test_the_order_of_the_two_edges_of_a_node_has_no_meaning():
    edges = repeat_operation("skip_connect")
    edges[2:4] = [("sep_conv_3x3", 2), ("dil_conv_5x5", 1)]
    swapped = [*edges[:2], edges[3], edges[2], *edges[4:]]
    assert darts.parse(format_genotype(edges)) == darts.parse(format_genotype(swapped))
    # The lower source comes first.
    assert str(darts.parse(format_genotype(edges))) == format_genotype(swapped)
    twice = [("sep_conv_5x5", 0), ("max_pool_3x3", 0)] * 4
    assert darts.parse(format_genotype(twice)) == darts.parse(format_genotype(twice[::-1]))


def test_the_concatenation_is_written_as_a_range_or_a_list():
    edges = repeat_operation("none")
    assert darts.parse(format_genotype(edges, concat="[2, 3, 4, 5]")) == darts.parse(
        format_genotype(edges)
    )
    arch = darts.parse(format_genotype(edges, concat="[5, 3, 4]"))
    assert str(arch) == format_genotype(edges, concat="range(3, 6)")
    assert str(darts.parse(ENAS_LIKE)).count("concat=[2, 4, 6]") == 2
    assert darts.parse(SKIPS.replace(", ", ",\n   ")) == darts.parse(SKIPS)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        (SKIPS.replace("Genotype", "Genome"), 0, r"Genotype\(normal="),
        (SKIPS.replace("reduce_concat", "reduced"), 0, r"Genotype\(normal="),
        (SKIPS[:-1], 8, r"Genotype\(normal="),
        ("", 0, r"Genotype\(normal="),
        (
            SKIPS.replace("skip_connect", "skip", 1),
            SKIPS.index("skip_connect") - 1,
            "one of none, max_pool_3x3",
        ),
        (SKIPS.replace("0), ", "2), ", 1), SKIPS.index("('"), "a source below 2"),
        (SKIPS.replace("('skip_connect', 0), ", "", 1), SKIPS.index("[("), "8 or 10 edges"),
        (
            SKIPS.replace("range(2, 6)", "range(2, 7)", 1),
            SKIPS.index("range"),
            r"range\(2, 6\) or a list",
        ),
        (
            SKIPS.replace("range(2, 6)", "range(0, 10**9)", 1),
            SKIPS.index("range"),
            r"range\(2, 6\) or a list",
        ),
        (
            SKIPS.replace("range(2, 6)", "[2, 2]", 1),
            SKIPS.index("range"),
            r"range\(2, 6\) or a list",
        ),
        (SKIPS.replace("range(2, 6)", "[]", 1), SKIPS.index("range"), r"range\(2, 6\) or a list"),
        (
            SKIPS.replace("range(2, 6)", "list(range(2, 6))", 1),
            SKIPS.index("range"),
            r"range\(2, 6\) or a list",
        ),
        (SKIPS.replace("'skip_connect'", "print('ha')", 1), SKIPS.index("('"), "'sep_conv_3x3', 0"),
    ],
)
def test_an_error_marks_the_position_in_malformed_genotypes(text: str, position: int, message: str):
    with pytest.raises(UsageError, match=message) as caught:
        darts.parse(text)
    # Two spaces of indentation, then the arrow
    assert len(str(caught.value).splitlines()[-1]) - 1 == position + 2


def test_no_text_is_evaluated(capsys: pytest.CaptureFixture[str]):
    for text in (
        "Genotype(normal=print('ha'))",
        "print('ha')",
        "Genotype(**{print('ha'): 1})",
        "(" * 5000,
        "\0",
    ):
        with pytest.raises(UsageError):
            darts.parse(text)
    assert capsys.readouterr().out == ""


def test_a_drawing_has_both_cells_and_their_outputs():
    diagram = darts.draw(darts.parse(ENAS_LIKE))
    assert [name for name, _ in diagram.parts] == ["normal", "reduce"]
    cell = diagram.parts[0][1]
    assert len(cell.nodes) == 2 + 5 + 1
    assert [edge for edge in cell.edges if edge[1] == 7] == [(2, 7, ""), (4, 7, ""), (6, 7, "")]
    assert cell.edges[0] == (0, 2, "avg_pool_3x3")

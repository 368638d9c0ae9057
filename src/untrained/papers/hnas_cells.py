"""HNAS (Shu et al.), Table 2: width, depth, trace norm and condition number of published cells.

Width and depth of a cell are those of "Understanding Architectures Learnt by Cell-based NAS" (Shu
et al., ICLR 2020): the width of a node is the share of its edges that come from the cell's inputs,
and the width of a cell the sum over its nodes; its depth is the longest path from an input to the
output, in edges.
"""

import numpy as np

from untrained.data import load_data
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas import PAPER
from untrained.papers.hnas_bounds import KAPPA
from untrained.papers.samples import (
    Measurements,
    describe_substitute,
    find_cifar10,
    measure_archs,
)
from untrained.papers.table_lines import make_seeds_line, parse_table
from untrained.reports.reproduction_result import TableLine
from untrained.spaces import load_space
from untrained.spaces.darts.genotype import Edge, Genotype, Wiring

SPACE = "darts(cells=5)"  # what the authors' code scores: 16 channels, 5 cells

_OPERATIONS = {
    "sep3": "sep_conv_3x3",
    "sep5": "sep_conv_5x5",
    "sep7": "sep_conv_7x7",
    "dil3": "dil_conv_3x3",
    "dil5": "dil_conv_5x5",
    "max": "max_pool_3x3",
    "avg": "avg_pool_3x3",
    "skip": "skip_connect",
}


def _parse_cell(text: str, concat: str) -> Wiring:
    """Read a cell such as `sep3:0 skip:1 ...`, with two edges per node.

    Args:
        text: The edges, operation and source.
        concat: The nodes that are concatenated to the output, one digit each.
    """
    edges: list[Edge] = []
    for word in text.split():
        operation, source = word.split(":")
        edges.append((_OPERATIONS.get(operation, operation), int(source)))
    return Wiring(tuple(edges), tuple(int(node) for node in concat))


def _make_separable_cell(sources: str) -> Wiring:
    """Return a cell of separable convolutions on these sources."""
    return _parse_cell(" ".join(f"sep3:{source}" for source in sources), "2345")


CELLS = {
    "NASNet": Genotype(
        _parse_cell("sep5:1 sep3:0 sep5:0 sep3:0 avg:1 skip:0 avg:0 avg:0 sep3:1 skip:1", "23456"),
        _parse_cell("sep5:1 sep7:0 max:1 sep7:0 avg:1 sep5:0 skip:3 avg:2 sep3:2 max:1", "456"),
    ),
    "AmoebaNet": Genotype(
        _parse_cell("avg:0 max:1 sep3:0 sep5:2 sep3:0 avg:3 sep3:1 skip:1 skip:0 avg:1", "456"),
        _parse_cell(
            "avg:0 sep3:1 max:0 sep7:2 sep7:0 avg:1 max:0 max:1 conv_7x1_1x7:0 sep3:5", "346"
        ),
    ),
    "ENAS": Genotype(
        _parse_cell("sep3:1 skip:1 sep5:1 skip:0 avg:0 sep3:1 sep3:0 avg:1 sep5:1 avg:0", "23456"),
        _parse_cell("sep5:0 avg:1 sep3:1 avg:1 sep3:1 avg:1 sep5:4 avg:1 sep3:5 sep5:0", "236"),
    ),
    "DARTS": Genotype(
        _parse_cell("sep3:0 sep3:1 sep3:0 sep3:1 sep3:1 skip:0 skip:0 dil3:2", "2345"),
        _parse_cell("max:0 max:1 skip:2 max:1 max:0 skip:2 skip:2 max:1", "2345"),
    ),
    "SNAS": Genotype(
        _parse_cell("sep3:0 sep3:1 skip:0 dil3:1 skip:0 skip:1 skip:0 sep3:1", "2345"),
        _parse_cell("max:0 max:1 skip:2 max:1 max:1 skip:2 dil5:2 max:0", "2345"),
    ),
    "WIDE": Genotype(_make_separable_cell("01010101"), _make_separable_cell("01010101")),
    # Every node reads the two before it.
    "DEEP": Genotype(_make_separable_cell("01122334"), _make_separable_cell("01122334")),
}

# width, depth, M_Trace, kappa
TABLE_2 = parse_table("""
NASNet     5.0 2   31 118
AmoebaNet  4.0 4   36 110
ENAS       5.0 2   36  98
DARTS      3.5 3   33 122
SNAS       4.0 2   31 126
WIDE       4.0 2   27 141
DEEP       1.5 5  131 209
""")


def compute_width(cell: Wiring) -> float:
    """Return the width of a cell in units of its channels."""
    return sum(source < 2 for _, source in cell.edges) / 2


def compute_depth(cell: Wiring) -> int:
    """Return the number of edges of the longest path from an input to the output."""
    depths = {0: 0, 1: 0}  # of the nodes; 0 and 1 are the inputs
    for node in cell.nodes:
        depths[node] = 1 + max(depths[source] for _, source in cell.edges_into(node))
    return 1 + max(depths[node] for node in cell.concat)


@experiment(
    "hnas-table-2",
    PAPER,
    "Width, depth, trace norm and condition number of published cells",
    "",
    (),
    samples=7,
    seeds=10,
    better="",
)
def table_2(config: ExperimentConfig) -> Findings:
    """Table 2: width and depth of the normal cells of NASNet, AmoebaNet, ENAS, DARTS, SNAS, and of
    the widest and the deepest cell of the space of DARTS; M_Trace and the condition number of their
    networks, mean and standard deviation."""
    space = load_space(SPACE)
    data = find_cifar10(config)
    source = load_data(data, space.task, config.data_root)
    archs = [space.make_arch(cells.genes) for cells in CELLS.values()]
    measurements = measure_archs(config, ["trace", KAPPA], SPACE, archs, source, "cells")
    lines = []
    for index, (name, numbers) in enumerate(TABLE_2.items()):
        published_width, published_depth, published_trace, published_kappa = numbers
        normal = CELLS[name].normal
        lines += [
            TableLine(f"{name}, width", published_width, compute_width(normal)),
            TableLine(f"{name}, depth", published_depth, compute_depth(normal)),
            _make_cell_line(f"{name}, M_Trace", published_trace, measurements, "trace", index),
            _make_cell_line(f"{name}, kappa", published_kappa, measurements, KAPPA, index),
        ]
    deviations = (
        describe_substitute(data),
        "Networks have 16 channels and 5 cells, as the authors' code scores them; the spread is "
        f"over {config.seeds} initialisations and batches.",
        "The paper does not say which operations its widest and deepest cells have. Ours have "
        "separable 3x3 convolutions in both kinds of cells; of the operations that we tried, these "
        "come closest to its M_Trace.",
    )
    return Findings(tuple(lines), deviations)


def _make_cell_line(
    what: str, published: float | None, measurements: Measurements, proxy: str, index: int
) -> TableLine:
    """Average the scores of one cell over seeds; a note counts the seeds without a score."""
    values = measurements[proxy][:, index]
    failed = int((~np.isfinite(values)).sum())
    note = ""
    if failed:
        note = f"{failed} of {len(values)} seeds without a value"
    return make_seeds_line(what, published, values, note)

"""HNAS (Shu et al.), Table 2: wiring, trace norm and condition number of published cells.

Width and depth of a cell are those of "Understanding Architectures Learnt by Cell-based NAS" (Shu et al., ICLR 2020):
a node is as wide as the share of its edges that come from the cell's inputs, and a cell as wide as its nodes together;
its depth is the longest path from an input to the output, in edges.
"""

import numpy as np

from untrained.data import load
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas import PAPER
from untrained.papers.hnas_bounds import KAPPA
from untrained.papers.samples import images_of, measure
from untrained.papers.table_lines import grid
from untrained.reports.reproduction_facts import TableLine
from untrained.spaces import load_space
from untrained.spaces.darts.genotype import Edge, Genotype, Wiring

SPACE = "darts(cells=5)"  # what the authors' code scores: 16 channels, 5 cells


def _cell(written: str, concat: str) -> Wiring:
    """`sep3:0 skip:1 ...`, two edges a node, and the nodes that are joined to the output."""
    edges: list[Edge] = [(_OPS.get(op, op), int(source)) for op, source in (e.split(":") for e in written.split())]
    return Wiring(tuple(edges), tuple(map(int, concat)))


_OPS = {"sep3": "sep_conv_3x3", "sep5": "sep_conv_5x5", "sep7": "sep_conv_7x7", "dil3": "dil_conv_3x3",
        "dil5": "dil_conv_5x5", "max": "max_pool_3x3", "avg": "avg_pool_3x3", "skip": "skip_connect"}  # fmt: skip


def _wired(sources: str) -> Wiring:
    """Separable convolutions on these sources."""
    return _cell(" ".join(f"sep3:{source}" for source in sources), "2345")


CELLS = {
    "NASNet": Genotype(
        _cell("sep5:1 sep3:0 sep5:0 sep3:0 avg:1 skip:0 avg:0 avg:0 sep3:1 skip:1", "23456"),
        _cell("sep5:1 sep7:0 max:1 sep7:0 avg:1 sep5:0 skip:3 avg:2 sep3:2 max:1", "456"),
    ),
    "AmoebaNet": Genotype(
        _cell("avg:0 max:1 sep3:0 sep5:2 sep3:0 avg:3 sep3:1 skip:1 skip:0 avg:1", "456"),
        _cell("avg:0 sep3:1 max:0 sep7:2 sep7:0 avg:1 max:0 max:1 conv_7x1_1x7:0 sep3:5", "346"),
    ),
    "ENAS": Genotype(
        _cell("sep3:1 skip:1 sep5:1 skip:0 avg:0 sep3:1 sep3:0 avg:1 sep5:1 avg:0", "23456"),
        _cell("sep5:0 avg:1 sep3:1 avg:1 sep3:1 avg:1 sep5:4 avg:1 sep3:5 sep5:0", "236"),
    ),
    "DARTS": Genotype(
        _cell("sep3:0 sep3:1 sep3:0 sep3:1 sep3:1 skip:0 skip:0 dil3:2", "2345"),
        _cell("max:0 max:1 skip:2 max:1 max:0 skip:2 skip:2 max:1", "2345"),
    ),
    "SNAS": Genotype(
        _cell("sep3:0 sep3:1 skip:0 dil3:1 skip:0 skip:1 skip:0 sep3:1", "2345"),
        _cell("max:0 max:1 skip:2 max:1 max:1 skip:2 dil5:2 max:0", "2345"),
    ),
    "WIDE": Genotype(_wired("01010101"), _wired("01010101")),
    "DEEP": Genotype(_wired("01122334"), _wired("01122334")),  # every node reads the two before it
}

# width, depth, M_Trace, kappa
TABLE_2 = grid("""
NASNet     5.0 2   31 118
AmoebaNet  4.0 4   36 110
ENAS       5.0 2   36  98
DARTS      3.5 3   33 122
SNAS       4.0 2   31 126
WIDE       4.0 2   27 141
DEEP       1.5 5  131 209
""")


def width(cell: Wiring) -> float:
    return sum(source < 2 for _, source in cell.edges) / 2


def depth(cell: Wiring) -> int:
    reach = {0: 0, 1: 0}
    for node in cell.nodes:
        reach[node] = 1 + max(reach[source] for _, source in cell.edges_into(node))
    return 1 + max(reach[node] for node in cell.concat)


@experiment("hnas-table-2", PAPER, "Width, depth, trace norm and condition number of published cells", "", (),
      samples=7, seeds=10)  # fmt: skip
def table_2(effort: ExperimentConfig) -> Findings:
    """Table 2: width and depth of the normal cells of NASNet, AmoebaNet, ENAS, DARTS, SNAS, and of the widest and the
    deepest cell of DARTS's space; M_Trace and the condition number of their networks, mean and standard deviation."""
    home = load_space(SPACE)
    shown = images_of("cifar10", effort.data_root) or "digits"
    source = load(shown, home.task, effort.data_root)
    archs = [home.make_arch(cells.genes) for cells in CELLS.values()]
    found = measure(effort, ["trace", KAPPA], SPACE, archs, source, "cells")
    lines = []
    for k, (name, numbers) in enumerate(TABLE_2.items()):
        normal = CELLS[name].normal
        lines += [
            TableLine(f"{name}, width", numbers[0], width(normal)),
            TableLine(f"{name}, depth", numbers[1], depth(normal)),
        ]
        for label, proxy, number in (("M_Trace", "trace", numbers[2]), ("kappa", KAPPA, numbers[3])):
            values = found[proxy][:, k][np.isfinite(found[proxy][:, k])]
            mean = float(values.mean()) if len(values) else None
            spread = float(values.std(ddof=1)) if len(values) > 1 else None
            failed = len(found[proxy]) - len(values)
            note = f"{failed} of {len(found[proxy])} seeds without a value" if failed else ""
            lines.append(TableLine(f"{name}, {label}", number, mean, spread=spread, note=note))
    told = [f"Networks look at {shown}, since CIFAR-10 is not under the data root."] if shown == "digits" else []
    return Findings(tuple(lines), (
        *told,
        "Networks have 16 channels and 5 cells, as the authors' code scores them; the spread is over "
        f"{effort.seeds} initialisations and batches.",
        "The paper does not say which operations its widest and deepest cell have. Ours are separable 3x3 convolutions "
        "in both kinds of cells: of those that were tried they come nearest to its M_Trace.",
    ))  # fmt: skip

"""Cells of DARTS that Dextr and NASI find (Dextr, Figure 4; NASI, Figure 5).

Both figures are drawings, so the text of the papers does not contain the cells. We compare numbers
that the papers state about the networks, and describe the cells that we find.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from untrained.data import load_data
from untrained.papers.dextr import PAPER as DEXTR_PAPER
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas_cells import compute_depth, compute_width
from untrained.papers.nasi import PAPER as NASI_PAPER
from untrained.papers.samples import (
    describe_substitute,
    describe_trial,
    find_cifar10,
    limit_samples,
    measure_archs,
)
from untrained.papers.searches import SearchPlan, run_searches
from untrained.papers.table_lines import make_seeds_line
from untrained.reports.reproduction_result import Curve, Plot, TableLine
from untrained.spaces import load_space
from untrained.spaces.darts.genotype import Genotype, Wiring
from untrained.strategies.limits import NetworkSize
from untrained.types import Arch, Task

DARTS = "darts"  # the space that Dextr searches
DARTS_NASI = "darts_nasi"  # the space that NASI searches
DARTS_CIFAR = "darts(channels=36,cells=20)"  # the network that NASI trains
CIFAR10 = Task("cifar10", (3, 32, 32), 10)
CURVATURE = "dextr_curvature"
KINDS_OF_OPERATIONS = {
    "separable": "sep_conv",
    "dilated": "dil_conv",
    "pooling": "pool",
    "skip": "skip_connect",
}

# Curvature of the winner by the proxy of the search (appendix A.8).
DEXTR_FIGURE_4 = {"dextr": 1.2e8, "zico": 7.7e7, "meco": 5.8e7}
# Options of NASI, and parameters of its network for CIFAR-10 in millions (Table 1).
NASI_FIGURE_5: dict[str, tuple[dict[str, object], float]] = {
    "fix": ({"nu": "fixed", "nu0": 100}, 3.9),
    "ada": ({"nu": "adaptive", "nu0": 500}, 3.7),
}
NASI_STEPS = 100
NASI_BATCH = 64


@dataclass(frozen=True)
class SearchWinners:
    """The winners of the searches with one method.

    Attributes:
        label: Name of the method.
        archs: One architecture per search.
    """

    label: str
    archs: tuple[Arch, ...]

    @property
    def genotypes(self) -> tuple[Genotype, ...]:
        """The cells of each architecture."""
        return tuple(Genotype.from_genes(arch.genes) for arch in self.archs)


def count_operations(cell: Wiring) -> dict[str, int]:
    """Count the edges of a cell by kind of operation."""
    counts = {}
    for kind, part in KINDS_OF_OPERATIONS.items():
        counts[kind] = sum(part in operation for operation, _ in cell.edges)
    return counts


def make_cell_lines(winners: SearchWinners) -> list[TableLine]:
    """Describe the cells that a method finds by means over its searches."""
    lines = []
    for name in ("normal", "reduce"):
        cells = [genotype[name] for genotype in winners.genotypes]
        counts = [count_operations(cell) for cell in cells]
        mean_counts = []
        for kind in KINDS_OF_OPERATIONS:
            mean_counts.append(f"{fmean(count[kind] for count in counts):.1f} {kind}")
        distinct = fmean(len({operation for operation, _ in cell.edges}) for cell in cells)
        width = fmean(compute_width(cell) for cell in cells)
        depth = fmean(compute_depth(cell) for cell in cells)
        cell_name = name
        if name == "reduce":
            cell_name = "reduction"
        note = f"width {width:.1f}, depth {depth:.1f}; of 8 edges {', '.join(mean_counts)}"
        what = f"{winners.label}, {cell_name} cell, different operations"
        lines.append(TableLine(what, None, distinct, note=note))
    return lines


def make_operations_plot(winners_by_method: Sequence[SearchWinners], title: str) -> Plot:
    """Return a chart of the mean number of edges by kind of operation, in normal cells."""
    curves = []
    # Curves need numbers on the horizontal axis, so kinds of operations are numbered.
    numbers = tuple(float(number) for number in range(1, 1 + len(KINDS_OF_OPERATIONS)))
    for winners in winners_by_method:
        counts = [count_operations(genotype.normal) for genotype in winners.genotypes]
        means = []
        for kind in KINDS_OF_OPERATIONS:
            means.append(fmean(count[kind] for count in counts))
        curves.append(Curve(winners.label, numbers, tuple(means)))
    numbered_kinds = []
    for number, kind in enumerate(KINDS_OF_OPERATIONS, 1):
        numbered_kinds.append(f"{number} {kind}")
    return Plot(title, ", ".join(numbered_kinds), "edges of 8", tuple(curves))


@experiment(
    "dextr-figure-4",
    DEXTR_PAPER,
    "Cells of DARTS found by Dextr, ZiCo and MeCo",
    "",
    needs=(),
    samples=3,
    seeds=3,
    better="",
)
def dextr_figure_4(config: ExperimentConfig) -> Findings:
    """Figure 4: the cells that Zero-Cost-PT finds in DARTS by Dextr, ZiCo and MeCo; the network of
    Dextr has the largest curvature, and its cells have the most different operations."""
    data = find_cifar10(config)
    winners_by_method = []
    for proxy in DEXTR_FIGURE_4:
        operations = limit_samples(proxy, config.batch)
        strategy = f"zerocost_pt(preset=dextr,proposals=1,operations={operations})"
        plans = [SearchPlan(DARTS, strategy, data, seed) for seed in range(config.seeds)]
        outcomes = run_searches(config, plans, f"search by {proxy}")
        archs = tuple(outcome.arch for outcome in outcomes)
        winners_by_method.append(SearchWinners(proxy, archs))
    # Several searches may find the same architecture.
    distinct_archs: dict[Arch, None] = {}
    for winners in winners_by_method:
        distinct_archs.update(dict.fromkeys(winners.archs))
    all_archs = list(distinct_archs)
    source = load_data(data, load_space(DARTS).task, config.data_root)
    # All networks are compared with the same seed.
    measurements = measure_archs(
        replace(config, seeds=1), [CURVATURE], DARTS, all_archs, source, "curvature"
    )
    # The proxy is ln(1 + kappa).
    values = np.expm1(measurements[CURVATURE][0])
    kappa = dict(zip(all_archs, values.tolist(), strict=True))
    lines = []
    for winners in winners_by_method:
        curvatures = np.array([kappa[arch] for arch in winners.archs])
        published = DEXTR_FIGURE_4[winners.label]
        what = f"{winners.label}, curvature of the found networks"
        lines.append(make_seeds_line(what, published, curvatures, str(winners.archs[0])))
        lines += make_cell_lines(winners)
    deviations = (
        "The paper does not say at which points, resolution and width it measures the curvature, "
        "so only the order of the three can be compared.",
        f"Every number is the mean of {config.seeds} searches, each with one proposal and its own "
        "supernet; edges are chosen by naswot, as in the search of Dextr. ZiCo has two batches of "
        "64.",
        describe_substitute(data, "Supernets"),
        describe_trial(config, "supernets"),
    )
    plot = make_operations_plot(winners_by_method, "Operations of the normal cells")
    return Findings(tuple(lines), deviations, (plot,))


@experiment(
    "nasi-figure-5",
    NASI_PAPER,
    "Cells of DARTS found by NASI-FIX and NASI-ADA",
    "",
    needs=(),
    samples=3,
    seeds=5,
    better="",
)
def nasi_figure_5(config: ExperimentConfig) -> Findings:
    """Figure 5: the cells that NASI finds in the reduced space of DARTS with a fixed and with an
    adaptive threshold; their networks for CIFAR-10 have 3.9 and 3.7 M parameters (Table 1)."""
    data = find_cifar10(config)
    batch = min(NASI_BATCH, config.batch or NASI_BATCH)
    space = load_space(DARTS_CIFAR)
    lines = []
    winners_by_method = []
    for label, (options, published) in NASI_FIGURE_5.items():
        arguments = {"steps": NASI_STEPS, "batch": batch, "mu": 2} | options
        text = ",".join(f"{name}={value}" for name, value in arguments.items())
        strategy = f"nasi({text})"
        plans = [SearchPlan(DARTS_NASI, strategy, data, seed) for seed in range(config.seeds)]
        outcomes = run_searches(config, plans, f"NASI, {label}")
        winners = SearchWinners(label, tuple(outcome.arch for outcome in outcomes))
        winners_by_method.append(winners)
        sizes = []
        for arch in winners.archs:
            network_size = NetworkSize(space, space.parse(str(arch)), CIFAR10)
            sizes.append(network_size.params / 1e6)
        what = f"{label}, parameters of the network for CIFAR-10, M"
        lines.append(make_seeds_line(what, published, np.array(sizes), str(winners.archs[0])))
        lines += make_cell_lines(winners)
    deviations = (
        f"Every number is the mean of {config.seeds} searches of {NASI_STEPS} steps with batches "
        f"of {batch}; mu is 2, nu fixed at 100 or adaptive from 500, as in the paper.",
        "Networks for CIFAR-10 have 36 channels and 20 cells and are counted without their "
        "auxiliary tower. They are not trained.",
        describe_substitute(data, "Supernets"),
        describe_trial(config, "supernets"),
    )
    plot = make_operations_plot(winners_by_method, "Operations of the normal cells")
    return Findings(tuple(lines), deviations, (plot,))

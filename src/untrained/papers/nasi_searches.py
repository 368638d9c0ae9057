"""NASI (Shu et al., ICLR 2022): its searches of NAS-Bench-201 and NAS-Bench-1Shot1, judged by the tables.

Every run is a search by its own seed: another supernet, other samples of architectures and images. What it finds is
looked up, nothing is trained. A cell of NAS-Bench-1Shot1 is the most wanted of those that the paper of that benchmark
lists, since the table knows no others; how often it is the most wanted of all is said.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from untrained.benchmarks import open_table
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.nasi import NO_S3, PAPER, TABLES, WIDTH
from untrained.papers.samples import Place, Scores, images_of, look
from untrained.papers.searches import Found, Hunt, searched
from untrained.papers.table_lines import grid, mean_line
from untrained.reports.reproduction_facts import Curve, Plot, TableLine
from untrained.rng import generator
from untrained.runs.ranking import margin
from untrained.spaces import load_space
from untrained.types import Genes

T = 100  # steps
EPOCH = 782  # mini-batches of 64 in the 50,000 training images of CIFAR-10
BATCH = 64
NB201 = "nasbench201"  # what is searched
TABLE = "nasbench201"  # where cells are looked up, also in trials that search something smaller
SPACES = {"S1": "nasbench1shot1_s1", "S2": "nasbench1shot1_s2"}
SETS = {"C10": "cifar10", "C100": "cifar100", "IN-16-120": "ImageNet16-120"}
EPOCHS = {NB201: 200} | dict.fromkeys(TABLES, 108)  # of the trainings that the tables know
KINDS = {"standard": {}, "random label": {"labels": "random"}, "random data": {"inputs": "noise"}}
WIDTHS = (2, 4, 8, 16, 32)
BATCHES = (8, 16, 32, 64, 128)
SHARES = (25, 50, 75, 90, 95, 99, 100)  # of cells whose t a nu lies above

# test accuracy on the three data sets, then GPU seconds
TABLE_4 = grid("""
T   93.08 69.51 40.87  30
4T  93.55 71.20 44.84 120
""")
TABLE_2 = {"standard": (7.3, 7.2), "random label": (6.8, 7.0), "random data": (6.6, 7.5)}
TABLE_6 = grid("""
S1  7.0 8.3 8.0 7.3 6.5
S2  7.3 8.0 7.3 7.3 7.0
""")
TABLE_8 = grid("""
S1  6.8 6.7 6.7 6.0 7.0
S2  6.9 7.3 7.1 7.2 6.8
""")

ONE_EPOCH = (
    f"A search of NAS-Bench-1Shot1 takes {T} steps, as the paper's searches of DARTS do; there it has one epoch, which "
    f"is {EPOCH} steps: nasi-figure-2 has both."
)
CELLS = (
    "The table of a space of NAS-Bench-1Shot1 holds the cells that its paper lists, and the search answers with the "
    "most wanted of them."
)
SETTINGS = "mu is 1 and nu adaptive from 1000 on all spaces; of NAS-Bench-201 the paper does not say either."


def hunted(effort: ExperimentConfig, space: str, stage: str, **options: Any) -> list[Found]:
    """What NASI finds in a space, one search a seed."""
    data = images_of("cifar10", effort.data_root) or "digits"
    typed = {"steps": T, "batch": BATCH} | options
    typed["batch"] = min(typed["batch"], effort.batch or typed["batch"])
    strategy = f"nasi({','.join(f'{name}={value}' for name, value in typed.items())})"
    return searched(effort, [Hunt(space, strategy, data, seed) for seed in range(effort.seeds)], stage)


def reached(found: Sequence[Found], dataset: str, effort: ExperimentConfig) -> list[float]:
    """Test accuracy by the table of the space."""
    table = open_table(found[0].arch.space.partition("(")[0], effort.data_root)
    metric = table.metric(dataset=dataset, split="test", epochs=EPOCHS[table.name])
    return [float(value) for value in table.values([each.arch for each in found], metric)]


def over_runs(what: str, published: float | None, values: Sequence[float], note: str = "") -> TableLine:
    """Mean over searches, its 95 % interval, and their standard deviation; those without a value take no part."""
    known = [value for value in values if np.isfinite(value)]
    unknown = f"{len(values) - len(known)} of {len(values)} not in the table" if len(known) < len(values) else ""
    note = "; ".join(filter(None, (note, unknown)))
    if not known:
        return TableLine(what, published, None, note=note)
    mean, half = fmean(known), margin(known)
    if half is None:
        return TableLine(what, published, mean, note=note)
    return TableLine(what, published, mean, mean - half, mean + half, stdev(known), note)


def at_random(space: str, dataset: str, effort: ExperimentConfig) -> Scores:
    """Test accuracy of random architectures of a table, (1, architectures)."""
    table = open_table(space.partition("(")[0], effort.data_root)
    every = table.column(table.metric(dataset=dataset, split="test", epochs=EPOCHS[table.name]))
    known = every[np.isfinite(every)]
    return generator("at random", table.name, dataset).permutation(known)[None, : effort.samples]


def of_convolutions(dataset: str, effort: ExperimentConfig) -> Scores:
    """Test accuracy of the 64 cells of NAS-Bench-201 whose every edge is a convolution, (1, 64)."""
    table = open_table(TABLE, effort.data_root)
    cells = [cell for cell in table.archs() if cell.count("nor_conv") == 6]
    return table.values(cells, table.metric(dataset=dataset, split="test", epochs=EPOCHS[TABLE]))[None]


def most_wanted(found: Found) -> bool:
    """Whether no choice of the architecture had an option with a larger logit."""
    logits = {name: dict(options) for name, options in found.trace[-1]["alpha"]}
    return all(logits[name][option] == max(logits[name].values()) for name, option in found.arch.genes)


def _wanted(found: Sequence[Found]) -> str:
    return f"{sum(map(most_wanted, found))} of {len(found)} are the most wanted of all cells"


def _deviations(effort: ExperimentConfig, *said: str) -> tuple[str, ...]:
    shown = images_of("cifar10", effort.data_root)
    return (
        *said,
        SETTINGS,
        "" if shown else "Supernets look at digits, since CIFAR-10 is not under the data root.",
        f"Supernets look at no more than {effort.batch} samples: this is a trial." if effort.batch else "",
    )


@experiment("nasi-table-4", PAPER, "NASI's searches of NAS-Bench-201", "test accuracy, %", seeds=10)
def table_4(effort: ExperimentConfig) -> Findings:
    """Table 4: test accuracy on the three data sets of NAS-Bench-201 of what NASI finds with a budget of T (30 seconds)
    and of four times that, mean and standard deviation over four searches."""
    lines: list[TableLine] = []
    for label, steps in (("T", T), ("4T", 4 * T)):
        found = hunted(effort, NB201, f"NASI ({label})", steps=steps)
        for (column, dataset), number in zip(SETS.items(), TABLE_4[label], strict=False):
            lines.append(over_runs(f"NASI ({label}), {column}", number, reached(found, dataset, effort)))
        seconds = [each.seconds for each in found]
        lines.append(over_runs(f"NASI ({label}), search cost, s", TABLE_4[label][-1], seconds))
    for column, dataset in SETS.items():
        lines.append(mean_line(f"at random, {column}", None, at_random(NB201, dataset, effort)))
        lines.append(mean_line(f"convolutions alone, {column}", None, of_convolutions(dataset, effort)))
    limits = with_ever_more_steps(effort)
    lines += [line for name, cell in limits.cells.items() for line in _limit(name, cell, effort)]
    lines += [
        TableLine(f"mean R with {option} on edge 3<-0", None, mean) for option, mean in sorted(limits.edge.items())
    ]
    return Findings(tuple(lines), _deviations(
        effort,
        f"T is {T} steps with {BATCH} images and 4T four times as many; the paper tells T in seconds on a GTX 1080 Ti.",
        "Every search looks at CIFAR-10, and what it finds is judged on all three data sets; the paper does not say "
        "whether it searches on each.",
        "The operation that answers zero is left out, as the paper does on DARTS.",
        "Convolutions alone: the mean of the 64 cells whose every edge is a convolution.",
        "With ever more steps a search tends to the operation of each edge with which R is largest on average, and "
        f"adaptive nu to the mean of t: both read from t of {limits.seen:,} cells, each alone.",
        "Of other nu the cells to which searches tend are told likewise: nu above so many of these t.",
    ))  # fmt: skip


def _limit(name: str, cell: str, effort: ExperimentConfig) -> list[TableLine]:
    """What the table knows of a cell that searches tend to."""
    table = open_table(TABLE, effort.data_root)
    known = [table.value(cell, table.metric(dataset=dataset, split="test", epochs=200)) for dataset in SETS.values()]
    return [TableLine(f"{name}, {column}", None, value, note=cell) for column, value in zip(SETS, known, strict=True)]


@dataclass(frozen=True)
class Limits:
    """Where searches of NAS-Bench-201 tend to."""

    cells: dict[str, str]  # by what nu is
    edge: dict[str, float]  # mean of R with each operation on the edge from a cell's input to its output, adaptive nu
    seen: int  # cells that all this was read from


def with_ever_more_steps(effort: ExperimentConfig) -> Limits:
    """Read from t of single cells; R is min(t, nu), since mu is 1, and adaptive nu tends to the mean of t."""
    table, space = open_table(TABLE, effort.data_root), load_space(TABLE)
    cells = [cell for cell in table.archs() if "none" not in cell]
    some = generator("cells", table.name).permutation(cells)[: effort.samples].tolist()
    sample = look(replace(effort, seeds=1), ["nasi_batch"], Place("NB201", TABLE, "cifar10"), some)
    t, archs = sample["nasi_batch"][0], [arch.genes for arch in sample.truth.archs]
    nus = {"with ever more steps": float(t.mean())}
    nus |= {f"nu above {share} % of t": float(np.percentile(t, share)) for share in SHARES}
    tended = {name: str(space.make_arch(leaning(np.minimum(t, nu), archs))) for name, nu in nus.items()}
    return Limits(tended, means_of(np.minimum(t, t.mean()), archs)["3<-0"], len(some))


def leaning(R: Scores, archs: Sequence[Genes]) -> Genes:
    """What maximises Eq. 16, which Eq. 18 estimates: at alpha_0 the gradient of the mean of R towards an option is
    p (mean of R with that option - mean of R), so it is the best option of each choice by the mean of R."""
    return tuple((name, max(some, key=lambda option: some[option])) for name, some in means_of(R, archs).items())


def means_of(R: Scores, archs: Sequence[Genes]) -> dict[str, dict[Any, float]]:
    """The mean of R with each option of each choice."""
    genes = [dict(arch) for arch in archs]
    return {
        name: {
            option: float(R[[gene[name] == option for gene in genes]].mean())
            for option in dict.fromkeys(gene[name] for gene in genes)
        }
        for name in genes[0]
    }


@experiment("nasi-figure-2", PAPER, "NASI's searches of NAS-Bench-1Shot1", "test error, %", TABLES, seeds=10)
def figure_2(effort: ExperimentConfig) -> Findings:
    """Figure 2: test error on CIFAR-10 of what NASI finds in the spaces of NAS-Bench-1Shot1 with a budget of one epoch,
    mean and standard error over ten searches; it lies below that of random search."""
    lines: list[TableLine] = []
    pictures: list[Plot] = []
    for label, space in SPACES.items():
        budgets = {T: f"{T} steps", EPOCH: "one epoch"}
        means: list[float] = []
        for steps, said in budgets.items():
            found = hunted(effort, _wide(space, WIDTH), f"{label}, {said}", steps=steps)
            lines.append(over_runs(f"{label}, NASI, {said}", None, _errors(found, effort), _wanted(found)))
            means.append(lines[-1].ours or float("nan"))
        chance = 100 - at_random(space, "cifar10", effort)
        lines.append(mean_line(f"{label}, at random", None, chance))
        x = tuple(steps / EPOCH for steps in budgets)
        curves = (Curve("NASI", x, tuple(means)), Curve("at random", x, (float(chance.mean()),) * len(x)))
        pictures.append(Plot(label, "search budget, epochs", "test error, %", curves, True))
    said = "The paper draws a picture and tells no numbers; of the other algorithms only chance is here."
    return Findings(tuple(lines), _deviations(effort, said, NO_S3, CELLS), tuple(pictures))


@experiment("nasi-table-2", PAPER, "NASI's searches with random labels and with random data", "test error, %",
      (NB201, *TABLES), seeds=5)  # fmt: skip
def table_2(effort: ExperimentConfig) -> Findings:
    """Table 2: test error on CIFAR-10 of what NASI finds in the spaces of NAS-Bench-1Shot1 and in DARTS, with the true
    labels and images, with random labels, and with Gaussian noise instead of images; five searches each."""
    lines: list[TableLine] = []
    for kind, options in KINDS.items():
        for (label, space), number in zip(SPACES.items(), TABLE_2[kind], strict=True):
            found = hunted(effort, _wide(space, WIDTH), f"{label}, {kind}", **options)
            lines.append(over_runs(f"{label}, {kind}", number, _errors(found, effort), _wanted(found)))
        found = hunted(effort, NB201, f"NB201, {kind}", **options)
        lines.append(over_runs(f"NB201, {kind}", None, _errors(found, effort)))
    darts = "The column DARTS is left out, whose cells would have to be trained; NAS-Bench-201 is added."
    return Findings(tuple(lines), _deviations(effort, ONE_EPOCH, NO_S3, darts, CELLS))


@experiment("nasi-table-6", PAPER, "NASI's searches with supernets of other widths", "test error, %", TABLES, seeds=5)
def table_6(effort: ExperimentConfig) -> Findings:
    """Table 6: test error on CIFAR-10 of what NASI finds in the spaces of NAS-Bench-1Shot1 with supernets that begin
    with 2 to 32 channels."""
    lines: list[TableLine] = []
    for label, space in SPACES.items():
        for channels, number in zip(WIDTHS, TABLE_6[label], strict=True):
            what = f"{label}, N = {channels}"
            if channels < 4:
                lines.append(TableLine(what, number, None, note="its four nodes would share fewer than four channels"))
                continue
            found = hunted(effort, _wide(space, channels), what)
            lines.append(over_runs(what, number, _errors(found, effort), _wanted(found)))
    width = "N counts the channels of a cell, which its nodes share; the paper does not say what it counts."
    return Findings(tuple(lines), _deviations(effort, ONE_EPOCH, NO_S3, CELLS, width))


@experiment("nasi-table-8", PAPER, "NASI's searches with other batch sizes", "test error, %", TABLES, seeds=5)
def table_8(effort: ExperimentConfig) -> Findings:
    """Table 8: test error on CIFAR-10 of what NASI finds in the spaces of NAS-Bench-1Shot1 with mini-batches of 8 to
    128 images."""
    lines: list[TableLine] = []
    for label, space in SPACES.items():
        for batch, number in zip(BATCHES, TABLE_8[label], strict=True):
            found = hunted(effort, _wide(space, WIDTH), f"{label}, b = {batch}", batch=batch)
            lines.append(over_runs(f"{label}, b = {batch}", number, _errors(found, effort), _wanted(found)))
    return Findings(tuple(lines), _deviations(effort, ONE_EPOCH, NO_S3, CELLS))


def _errors(found: Sequence[Found], effort: ExperimentConfig) -> list[float]:
    return [100 - accuracy for accuracy in reached(found, "cifar10", effort)]


def _wide(space: str, channels: int) -> str:
    """The space with networks that begin with so many channels."""
    return f"{space[:-1]},channels={channels})" if space.endswith(")") else f"{space}(channels={channels})"

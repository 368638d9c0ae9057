"""NASI (Shu et al., ICLR 2022): what the trace norm of the tangent kernel says, and how well it is approximated.

Space S3 of NAS-Bench-1Shot1 is left out: its accuracies were not obtainable. Its searches are in `nasi_searches.py`.
"""

import numpy as np
import torch

from untrained.benchmarks.statistics import pearson
from untrained.data import Source, load
from untrained.data._source import random_labels
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import Place, Sample, Scores, look, measure
from untrained.papers.table_lines import Row, binned, correlations, grid, line, row
from untrained.reports.reproduction_facts import Curve, Plot, TableLine
from untrained.types import Batch

PAPER = "NASI (Shu et al.)"
TABLES = ("nasbench1shot1_s1", "nasbench1shot1_s2")
WIDTH = 16  # first channels of NAS-Bench-1Shot1's search networks; the benchmark itself trains 128
PLACES = tuple(Place(label, f"nasbench1shot1_s{k}(channels={WIDTH})", "cifar10") for k, label in ((1, "S1"), (2, "S2")))
BATCHES = (4, 8, 16, 32, 64, 128)
NO_S3 = "Space S3 is left out: we have no accuracies of it."
MOST = 4096  # labels drawn, so that a small batch is the head of a large one
SAMPLE = "The paper takes all architectures of a space; ours is a sample."
NARROW = f"Networks begin with {WIDTH} channels; the paper does not say how many its correlations take."

TABLE_3 = grid("""
snip     -0.49 -0.39  -0.62 -0.49
grasp     0.41  0.33   0.54  0.42
synflow  -0.52 -0.42  -0.45 -0.40
naswot    0.21  0.16   0.32  0.24
nasi      0.62  0.44   0.74  0.53
""")

TABLE_7 = grid("""
S1  0.74 0.80 0.84 0.83 0.85 0.86  0.88
S2  0.82 0.87 0.90 0.89 0.91 0.91  0.92
""")

FIGURE_1 = {"labels": {"S1": 1.00, "S2": 1.00}, "data": {"S1": 0.94, "S2": 0.95}}


def conditioned(sample: Sample) -> Scores:
    """t(A) of Eq. 12 where t(A) <= nu, its mean over the sample; the others take no part, as in Eq. 8."""
    t = sample["nasi_batch"]
    known = np.isfinite(t)
    nu = np.where(known, t, 0).sum(1, keepdims=True) / np.maximum(known.sum(1, keepdims=True), 1)
    return np.where(t <= nu, t, np.nan)


@experiment("nasi-table-3", PAPER, "NASI's metric beside others on NAS-Bench-1Shot1", "rank correlation", TABLES)
def table_3(effort: ExperimentConfig) -> Findings:
    """Table 3: Spearman and Kendall correlation of metrics with test accuracy on CIFAR-10 in the spaces of
    NAS-Bench-1Shot1; NASI's own among architectures that satisfy its constraint."""
    rows = [row(name, name, published) for name, published in TABLE_3.items() if name != "nasi"]
    rows.append(Row("NASI (conditioned)", ("nasi_batch",), conditioned, TABLE_3["nasi"], "half of the sample or so"))
    found = correlations(effort, PLACES, rows, ("Spearman", "Kendall"))
    constraint = (
        "The constraint of NASI is t(A) <= nu, nu the mean of t over the sample; the paper does not say its nu."
    )
    return Findings(found.lines, (*found.deviations, NO_S3, NARROW, constraint, SAMPLE))


@experiment("nasi-table-7", PAPER, "Approximations of the trace norm", "Pearson", TABLES, samples=500)
def table_7(effort: ExperimentConfig) -> Findings:
    """Table 7: Pearson correlation of the exact trace norm of the tangent kernel with its approximations: the gradient
    of one mini-batch of 4 to 128 samples (Eq. 12), and the sum of squared sample gradients (Eq. 11)."""
    approximations = {f"b = {size}": f"nasi_batch(samples={size})" for size in BATCHES} | {"sum": "nasi_samples"}
    exact = "ntk_trace(samples=64)"
    lines: list[TableLine] = []
    deviations: list[str] = []
    for place in PLACES:
        sample = look(effort, [*approximations.values(), exact], place)
        deviations += sample.deviations
        for (label, name), number in zip(approximations.items(), TABLE_7[place.label], strict=True):
            said = sample.failed(name, exact)
            lines.append(line(f"{place.label}, {label}", number, pearson, sample[name], sample[exact], said))
    exactly = "The exact trace norm is over all outputs of 64 samples, batch statistics held constant."
    return Findings(tuple(lines), (*deviations, NO_S3, NARROW, exactly, SAMPLE))


@experiment(
    "nasi-figure-1", PAPER, "The trace norm with random labels and with random data", "Pearson", TABLES, samples=500
)
def figure_1(effort: ExperimentConfig) -> Findings:
    """Figure 1: the approximated trace norm of architectures of NAS-Bench-1Shot1 on CIFAR-10 against the same with
    random labels, and with Gaussian noise instead of images."""
    lines: list[TableLine] = []
    pictures: list[Plot] = []
    deviations: list[str] = []
    for place in PLACES:
        sample = look(effort, ["nasi_batch"], place)
        true, truth = sample["nasi_batch"], sample.truth
        noise = load("noise", sample.source.task, effort.data_root)
        for what, source in (("labels", relabelled(sample.source)), ("data", noise)):
            stage = f"{place.label}, random {what}"
            other = measure(effort, ["nasi_batch"], truth.space, truth.archs, source, stage)["nasi_batch"]
            lines.append(line(stage, FIGURE_1[what][place.label], pearson, other, true, sample.failed("nasi_batch")))
            both = np.isfinite(true[0]) & np.isfinite(other[0])
            points = Curve(place.label, tuple(true[0][both].tolist()), tuple(other[0][both].tolist()))
            pictures.append(Plot(stage, "t(A), as it is", f"t(A), random {what}", (points,)))
        deviations += sample.deviations
    return Findings(tuple(lines), (*deviations, NO_S3, NARROW, SAMPLE), tuple(pictures))


def relabelled(source: Source) -> Source:
    """The same images with random labels."""

    def draw(samples: int, generator: torch.Generator) -> Batch:
        images = source.draw(samples, generator).inputs
        return Batch(images, random_labels(MOST, source.task, generator)[:samples])

    return Source(source.task, draw)


@experiment("nasi-figure-3", PAPER, "Test error along the trace norm", "", TABLES)
def figure_3(effort: ExperimentConfig) -> Findings:
    """Figure 3: mean test error of architectures of NAS-Bench-1Shot1 grouped by their approximated trace norm: it falls
    to a minimum and then rises."""
    lines: list[TableLine] = []
    pictures: list[Plot] = []
    deviations: list[str] = []
    for place in PLACES:
        sample = look(effort, ["nasi_batch"], place)
        t, error = sample["nasi_batch"][0], 100 - sample.reached[0]
        groups = binned(t)
        x, y = (tuple(float(values[group].mean()) for group in groups) for values in (t, error))
        lines.append(
            TableLine(f"{place.label}, place of the least error, of {len(groups)} bins", None, 1.0 + int(np.argmin(y)))
        )
        lines.append(TableLine(f"{place.label}, least error of all architectures, %", None, float(error.min())))
        lines.append(TableLine(f"{place.label}, mean error of the bin of the largest norm, %", None, y[-1]))
        pictures.append(Plot(place.label, "t(A), mean of a bin", "test error, %", (Curve("mean", x, y),), True))
        deviations += sample.deviations
    own = "Bins hold equally many architectures; the paper does not say how it cuts. It gives no numbers."
    return Findings(tuple(lines), (*deviations, NO_S3, NARROW, own, SAMPLE), tuple(pictures))

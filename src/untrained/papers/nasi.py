"""NASI (Shu et al., ICLR 2022): the trace norm of the tangent kernel and its approximations.

Space S3 of NAS-Bench-1Shot1 is left out, because its accuracies are not available to us. The
searches are in `nasi_searches.py`.
"""

import numpy as np
import torch

from untrained.benchmarks.statistics import pearson
from untrained.data import DataSource, load_data
from untrained.data.source import draw_random_labels
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import (
    BenchmarkTask,
    Sample,
    Scores,
    measure_archs,
    measure_sample,
)
from untrained.papers.table_lines import (
    BINS_NOTE,
    CorrelationRow,
    make_correlation_line,
    make_correlation_table,
    make_points,
    make_proxy_row,
    parse_table,
    split_into_bins,
)
from untrained.reports.reproduction_result import Curve, Plot, TableLine
from untrained.types import Batch

PAPER = "NASI (Shu et al.)"
TABLES = ("nasbench1shot1_s1", "nasbench1shot1_s2")
# Initial channels of the networks that we score; the networks of the benchmark itself have 128.
WIDTH = 16
TASKS = (
    BenchmarkTask("S1", f"nasbench1shot1_s1(channels={WIDTH})", "cifar10"),
    BenchmarkTask("S2", f"nasbench1shot1_s2(channels={WIDTH})", "cifar10"),
)
BATCH_SIZES = (4, 8, 16, 32, 64, 128)
MAX_LABELS = 4096  # random labels that are drawn; a batch uses the first ones
NO_S3_NOTE = "Space S3 is left out: we have no accuracies for it."
SAMPLE_NOTE = "The paper uses all architectures of a space; we use a sample."
WIDTH_NOTE = (
    f"Networks start with {WIDTH} channels; the paper does not say how many it uses for its "
    "correlations."
)

TABLE_3 = parse_table("""
snip     -0.49 -0.39  -0.62 -0.49
grasp     0.41  0.33   0.54  0.42
synflow  -0.52 -0.42  -0.45 -0.40
naswot    0.21  0.16   0.32  0.24
nasi      0.62  0.44   0.74  0.53
""")

TABLE_7 = parse_table("""
S1  0.74 0.80 0.84 0.83 0.85 0.86  0.88
S2  0.82 0.87 0.90 0.89 0.91 0.91  0.92
""")

FIGURE_1 = {"labels": {"S1": 1.00, "S2": 1.00}, "data": {"S1": 0.94, "S2": 0.95}}


def apply_constraint(sample: Sample) -> Scores:
    """Return t(A) of Eq. 12 for architectures with t(A) <= nu (Eq. 8), and NaN for all others.

    nu is the mean of t over the sample.
    """
    t = sample["nasi_batch"]
    finite = np.isfinite(t)
    # Missing scores are excluded from the mean. At least 1 avoids a division by zero.
    counts = np.maximum(finite.sum(1, keepdims=True), 1)
    nu = np.where(finite, t, 0).sum(1, keepdims=True) / counts
    return np.where(t <= nu, t, np.nan)


@experiment(
    "nasi-table-3",
    PAPER,
    "NASI's metric compared with others on NAS-Bench-1Shot1",
    "rank correlation",
    TABLES,
)
def table_3(config: ExperimentConfig) -> Findings:
    """Table 3: Spearman and Kendall correlation of metrics with test accuracy on CIFAR-10 in the
    spaces of NAS-Bench-1Shot1; NASI's own among architectures that satisfy its constraint."""
    rows = []
    for name, published in TABLE_3.items():
        if name != "nasi":
            rows.append(make_proxy_row(name, name, published))
    nasi_row = CorrelationRow(
        "NASI (conditioned)",
        ("nasi_batch",),
        apply_constraint,
        TABLE_3["nasi"],
        "about half of the sample",
    )
    rows.append(nasi_row)
    findings = make_correlation_table(config, TASKS, rows, ("Spearman", "Kendall"))
    constraint_note = (
        "The constraint of NASI is t(A) <= nu with nu the mean of t over the sample; the paper "
        "does not give its nu."
    )
    notes = (NO_S3_NOTE, WIDTH_NOTE, constraint_note, SAMPLE_NOTE)
    return Findings(findings.lines, (*findings.deviations, *notes))


@experiment(
    "nasi-table-7", PAPER, "Approximations of the trace norm", "Pearson", TABLES, samples=500
)
def table_7(config: ExperimentConfig) -> Findings:
    """Table 7: Pearson correlation of the exact trace norm of the tangent kernel with its
    approximations: the gradient of one mini-batch of 4 to 128 samples (Eq. 12), and the sum of
    squared sample gradients (Eq. 11)."""
    approximations = {f"b = {size}": f"nasi_batch(samples={size})" for size in BATCH_SIZES}
    approximations["sum"] = "nasi_samples"
    exact = "ntk_trace(samples=64)"
    lines: list[TableLine] = []
    deviations: list[str] = []
    for task in TASKS:
        sample = measure_sample(config, [*approximations.values(), exact], task)
        deviations += sample.deviations
        numbers = TABLE_7[task.label]
        for (label, name), number in zip(approximations.items(), numbers, strict=True):
            what = f"{task.label}, {label}"
            note = sample.describe_failures(name, exact)
            line = make_correlation_line(what, number, pearson, sample[name], sample[exact], note)
            lines.append(line)
    exact_note = (
        "The exact trace norm is over all outputs of 64 samples, with constant batch statistics."
    )
    notes = (NO_S3_NOTE, WIDTH_NOTE, exact_note, SAMPLE_NOTE)
    return Findings(tuple(lines), (*deviations, *notes))


@experiment(
    "nasi-figure-1",
    PAPER,
    "The trace norm with random labels and with random data",
    "Pearson",
    TABLES,
    samples=500,
)
def figure_1(config: ExperimentConfig) -> Findings:
    """Figure 1: the approximated trace norm of architectures of NAS-Bench-1Shot1 on CIFAR-10,
    compared with that on random labels and that on Gaussian noise instead of images."""
    proxy = "nasi_batch"
    lines: list[TableLine] = []
    plots: list[Plot] = []
    deviations: list[str] = []
    for task in TASKS:
        sample = measure_sample(config, [proxy], task)
        truth = sample.truth
        original = sample[proxy]
        note = sample.describe_failures(proxy)
        noise = load_data("noise", sample.source.task, config.data_root)
        sources = {"labels": randomise_labels(sample.source), "data": noise}
        for kind, source in sources.items():
            what = f"{task.label}, random {kind}"
            measurements = measure_archs(config, [proxy], truth.space, truth.archs, source, what)
            random_scores = measurements[proxy]
            number = FIGURE_1[kind][task.label]
            line = make_correlation_line(what, number, pearson, random_scores, original, note)
            lines.append(line)
            points = make_points(task.label, original[0], random_scores[0])
            plots.append(
                Plot(what, "t(A), true labels and images", f"t(A), random {kind}", (points,))
            )
        deviations += sample.deviations
    notes = (NO_S3_NOTE, WIDTH_NOTE, SAMPLE_NOTE)
    return Findings(tuple(lines), (*deviations, *notes), tuple(plots))


def randomise_labels(source: DataSource) -> DataSource:
    """Return the same images with random labels."""

    def draw_batch(samples: int, generator: torch.Generator) -> Batch:
        images = source.draw(samples, generator).inputs
        # The number of labels is constant, so a larger batch starts with the smaller one.
        labels = draw_random_labels(MAX_LABELS, source.task, generator)
        return Batch(images, labels[:samples])

    return DataSource(source.task, draw_batch)


@experiment("nasi-figure-3", PAPER, "Test error as a function of the trace norm", "", TABLES)
def figure_3(config: ExperimentConfig) -> Findings:
    """Figure 3: mean test error of architectures of NAS-Bench-1Shot1 grouped by their approximated
    trace norm: it falls to a minimum and then rises."""
    lines: list[TableLine] = []
    plots: list[Plot] = []
    deviations: list[str] = []
    for task in TASKS:
        sample = measure_sample(config, ["nasi_batch"], task)
        # Architectures are put into bins by their scores with the first seed.
        t = sample["nasi_batch"][0]
        errors = 100 - sample.accuracies[0]
        bins = split_into_bins(t)
        mean_norms = tuple(float(t[members].mean()) for members in bins)
        mean_errors = tuple(float(errors[members].mean()) for members in bins)
        best_bin = 1.0 + int(np.argmin(mean_errors))
        label = task.label
        lines += [
            TableLine(f"{label}, bin of the smallest error, of {len(bins)} bins", None, best_bin),
            TableLine(
                f"{label}, smallest error of all architectures, %", None, float(errors.min())
            ),
            TableLine(
                f"{label}, mean error of the bin of the largest norm, %", None, mean_errors[-1]
            ),
        ]
        curve = Curve("mean", mean_norms, mean_errors)
        plots.append(Plot(label, "t(A), mean of a bin", "test error, %", (curve,), joined=True))
        deviations += sample.deviations
    notes = (NO_S3_NOTE, WIDTH_NOTE, BINS_NOTE, SAMPLE_NOTE)
    return Findings(tuple(lines), (*deviations, *notes), tuple(plots))

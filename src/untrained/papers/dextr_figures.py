"""Dextr (Asthana et al.): its figures.

The paper gives few numbers for its figures, so the docstrings of the experiments state what it
claims. The right half of Figure 1a shows trainings and is left out.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from untrained.benchmarks import open_table
from untrained.benchmarks.statistics import spearman
from untrained.engine.worker import Worker
from untrained.papers import measurements
from untrained.papers.dextr import NB201, NB301, PAPER, TABLES, TRANSNAS, VARIANT_NOTE
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import BenchmarkTask, Sample, Scores, measure_sample
from untrained.papers.table_lines import make_correlation_line, make_points, make_seeds_line
from untrained.probe import Probe
from untrained.proxies.meco import list_counted_features
from untrained.reports.reproduction_result import Curve, Plot, TableLine
from untrained.spaces import load_space

NB201_VALIDATION = BenchmarkTask("NB201-cf10", metric="cifar10_val_200")
CONDITIONS = "dextr_conditions(variant=published)"
CURVATURE = "dextr_curvature"

# Accuracy and mean Dextr of the worst and of the best network.
FIGURE_2 = {56.19: 1.32, 89.90: 2.34}
FIGURE_2_SPREADS = (0.01, 0.05)  # smallest and largest standard deviation over images and circles

FIGURE_5_TASKS = (
    BenchmarkTask("NB101", "nasbench101", metric="cifar10_val_108"),
    NB201_VALIDATION,
    NB301,
    *TRANSNAS,
)


def find_nearest_archs(
    config: ExperimentConfig, metric: str, targets: Sequence[float]
) -> tuple[str, ...]:
    """Return, for each target, the architecture of NAS-Bench-201 whose metric is nearest to it."""
    table = open_table("nasbench201", config.data_root)
    values = table.read_column(metric)
    archs = table.list_archs()
    nearest = []
    for target in targets:
        index = int(np.nanargmin(np.abs(values - target)))
        nearest.append(archs[index])
    return tuple(nearest)


def make_probe(config: ExperimentConfig, sample: Sample, index: int) -> Probe:
    """Return a probe of one architecture of a sample, built with seed 0, on a single image."""
    task = sample.source.task
    space = load_space(sample.truth.space)
    device = config.compute.device
    batches = {0: sample.source.batch(1)}
    # A worker of the engine initialises the weights, so this is the network that was scored.
    worker = Worker(lambda arch: space.build(arch, task, device), (), task.loss, batches, device)
    network = worker.build_network(sample.truth.archs[index], 0).to(device)
    return Probe(network, worker.get_batch(0), loss=task.loss, seed=0)


def _make_average_line(what: str, published: float | None, values: Scores) -> TableLine:
    return make_seeds_line(what, published, values, missing_note="no seed gave a value")


@experiment(
    "dextr-figure-1a",
    PAPER,
    "Linear independence of features against validation accuracy",
    "Spearman",
)
def figure_1a(config: ExperimentConfig) -> Findings:
    """Figure 1a, left: the sum of inverse condition numbers of feature maps (FMI) rises with
    validation accuracy on NAS-Bench-201, CIFAR-10."""
    sample = measure_sample(config, [CONDITIONS], NB201_VALIDATION)
    # The proxy is ln(1 + FMI).
    fmi = np.expm1(sample[CONDITIONS])
    line = make_correlation_line(
        "FMI and validation accuracy",
        None,
        spearman,
        fmi,
        sample.accuracies,
        sample.describe_failures(CONDITIONS),
    )
    points = make_points("", fmi[0], sample.accuracies[0])
    plot = Plot("FMI and accuracy", "FMI", "validation accuracy, %", (points,))
    deviations = (
        *sample.deviations,
        "FMI is the sum over all modules, including containers, as in the authors' code.",
        "The paper gives no number.",
    )
    return Findings((line,), deviations, (plot,))


@experiment(
    "dextr-figure-1b",
    PAPER,
    "Outputs along a circle on their principal components",
    "curvature",
    samples=6,
)
def figure_1b(config: ExperimentConfig) -> Findings:
    """Figure 1b: outputs of six networks as the input runs along a circle, on three principal
    components: those of good networks are more curved."""
    target_accuracies = (55.0, 65.0, 75.0, 92.0, 93.0, 94.0)
    archs = find_nearest_archs(config, "cifar10_test_200", target_accuracies)
    sample = measure_sample(config, [CURVATURE], NB201[0], archs)
    lines = []
    plots = []
    for index, accuracy in enumerate(sample.truth.values):
        name = f"{accuracy:.1f} %"
        # The proxy is ln(1 + kappa).
        kappa = np.expm1(sample[CURVATURE][:, index])
        lines.append(_make_average_line(f"kappa of the network with {name}", None, kappa))
        path = measurements.project_circle_outputs(make_probe(config, sample, index)).tolist()
        path.append(path[0])  # closes the curve
        curve = Curve(name, tuple(point[0] for point in path), tuple(point[1] for point in path))
        plot = Plot(
            f"Network with {name}", "first component", "second component", (curve,), joined=True
        )
        plots.append(plot)
    deviations = (
        *sample.deviations,
        "We selected the six networks by their accuracies; the paper does not name its networks "
        "and gives no numbers.",
        "The plots show two of the three components.",
    )
    return Findings(tuple(lines), deviations, tuple(plots))


@experiment(
    "dextr-figure-2",
    PAPER,
    "Stability of Dextr over images and circles",
    "Dextr",
    samples=10,
    seeds=10,
    better="",
)
def figure_2(config: ExperimentConfig) -> Findings:
    """Figure 2: mean and standard deviation of Dextr over 10 images and 10 circles, for 10 networks
    of NAS-Bench-201 between 50 and 90 % accuracy: the deviation is small, and the mean rises with
    accuracy."""
    published_variant = "dextr(variant=published)"
    targets = np.linspace(min(FIGURE_2), max(FIGURE_2), 10).tolist()
    archs = find_nearest_archs(config, "cifar10_test_200", targets)
    sample = measure_sample(config, [published_variant, "dextr"], NB201[0], archs)
    lines = []
    curves = []
    for label, proxy in (("authors' code", published_variant), ("ours", "dextr")):
        network_lines = []
        for index, (target, accuracy) in enumerate(zip(targets, sample.truth.values, strict=True)):
            what = f"{label}, network with {accuracy:.1f} %"
            published = FIGURE_2.get(round(target, 2))
            line = _make_average_line(what, published, sample[proxy][:, index])
            # Scores of our own variant have another scale than those of the paper.
            network_lines.append(replace(line, alternative=proxy == "dextr"))
        lines += network_lines
        for line in _make_spread_lines(label, network_lines):
            lines.append(replace(line, alternative=proxy == "dextr"))
        means = sample[proxy].mean(0, keepdims=True)
        what = f"{label}, Spearman of mean and accuracy"
        lines.append(make_correlation_line(what, None, spearman, means, sample.accuracies))
        curves.append(make_points(label, sample.accuracies[0], means[0]))
    plot = Plot(
        "Mean Dextr of ten networks", "test accuracy, %", "Dextr", tuple(curves), joined=True
    )
    deviations = (
        *sample.deviations,
        "Each of our seeds changes the weights, the image and the circle; the paper keeps the "
        "weights.",
        "We selected ten networks with accuracies between the two that the paper names.",
        VARIANT_NOTE,
    )
    return Findings(tuple(lines), deviations, (plot,))


def _make_spread_lines(label: str, network_lines: Sequence[TableLine]) -> list[TableLine]:
    """Return the smallest and the largest standard deviation; no lines with a single seed."""
    spreads = [line.spread for line in network_lines if line.spread is not None]
    if not spreads:
        return []
    smallest, largest = FIGURE_2_SPREADS
    return [
        TableLine(f"{label}, smallest standard deviation", smallest, min(spreads)),
        TableLine(f"{label}, largest standard deviation", largest, max(spreads)),
    ]


@experiment("dextr-figure-3", PAPER, "Inverse condition number layer by layer", "1 / c", samples=3)
def figure_3(config: ExperimentConfig) -> Findings:
    """Figure 3: the inverse condition number of every layer's feature map, in a network with
    89.43 % validation accuracy and in one with 63 %: the feature maps of the better network are
    closer to linearly independent."""
    archs = find_nearest_archs(config, "cifar10_val_200", (89.43, 63.0))
    sample = measure_sample(config, [CONDITIONS], NB201_VALIDATION, archs)
    lines = []
    curves = []
    for index, accuracy in enumerate(sample.truth.values):
        probe = make_probe(config, sample, index)
        features = []
        for feature, _ in list_counted_features(probe, "default"):
            # A feature map with a single position has no condition number.
            if feature.matrix().shape[1] > 1:
                features.append(feature)
        inverse_conditions = probe.inverse_conditions(features).tolist()
        name = f"{accuracy:.1f} %"
        mean = float(np.mean(inverse_conditions))
        layer_count = len(inverse_conditions)
        lines.append(TableLine(f"network with {name}, mean over {layer_count} layers", None, mean))
        fmi = np.expm1(sample[CONDITIONS][:, index])
        lines.append(_make_average_line(f"network with {name}, FMI", None, fmi))
        layer_numbers = tuple(float(number) for number in range(1, layer_count + 1))
        curves.append(Curve(name, layer_numbers, tuple(inverse_conditions)))
    title = "Linear independence of each layer's output"
    plot = Plot(title, "layer", "1 / c", tuple(curves), joined=True)
    deviations = (
        *sample.deviations,
        "We selected the two networks with the accuracies nearest to those that the paper names; "
        "it gives no other numbers.",
        "Layers are leaf modules in call order; those with a single position have no condition "
        "number and are left out.",
    )
    return Findings(tuple(lines), deviations, (plot,))


@experiment(
    "dextr-figure-5", PAPER, "Dextr against validation accuracy on six tasks", "Spearman", TABLES
)
def figure_5(config: ExperimentConfig) -> Findings:
    """Figure 5: scatter plots of Dextr and validation accuracy on NAS-Bench-101, -201, -301 and
    TransNAS-Bench-101 micro: both rise together."""
    lines: list[TableLine] = []
    plots: list[Plot] = []
    deviations: list[str] = []
    for task in FIGURE_5_TASKS:
        sample = measure_sample(config, ["dextr"], task)
        scores = sample["dextr"]
        note = sample.describe_failures("dextr")
        line = make_correlation_line(task.label, None, spearman, scores, sample.accuracies, note)
        lines.append(line)
        points = make_points("", scores[0], sample.accuracies[0])
        plots.append(Plot(task.label, "Dextr", "validation accuracy, %", (points,)))
        deviations += sample.deviations
    deviations.append("The paper gives no numbers for these plots.")
    return Findings(tuple(lines), tuple(deviations), tuple(plots))

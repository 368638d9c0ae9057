"""Dextr (Asthana et al.): its figures. The paper prints few numbers beside them; what it claims is told in words.

Figure 1a (right) shows trainings and is left out.
"""

from collections.abc import Sequence

import numpy as np

from untrained.benchmarks import open_table
from untrained.benchmarks.statistics import spearman
from untrained.engine.measure import Examiner
from untrained.papers import measurements
from untrained.papers.dextr import NB201, NB301, OURS, PAPER, TABLES, TRANSNAS
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import Place, Sample, Scores, look
from untrained.papers.table_lines import line
from untrained.probe import Probe
from untrained.proxies.meco import count_features
from untrained.reports.reproduction_facts import Curve, Plot, TableLine
from untrained.spaces import load_space

VALIDATED = Place("NB201-cf10", metric="cifar10_val_200")
CONDITIONS, CURVATURE = "dextr_conditions(variant=published)", "dextr_curvature"


def nearest(effort: ExperimentConfig, metric: str, wanted: Sequence[float]) -> tuple[str, ...]:
    """For each number, the architecture of NAS-Bench-201 whose metric comes nearest to it."""
    table = open_table("nasbench201", effort.data_root)
    values, archs = table.column(metric), table.archs()
    return tuple(archs[int(np.nanargmin(np.abs(values - number)))] for number in wanted)


def probed(effort: ExperimentConfig, sample: Sample, place: int) -> Probe:
    """The network of an architecture as the engine builds it with seed 0, looking at one image."""
    task, home, device = sample.source.task, load_space(sample.truth.space), effort.compute.device
    batches = {0: sample.source.batch(1)}
    examiner = Examiner(lambda arch: home.build(arch, task, device), (), task.loss, batches, device)
    return Probe(examiner.network(sample.truth.archs[place], 0).to(device), examiner.batch(0), loss=task.loss, seed=0)


@experiment("dextr-figure-1a", PAPER, "Linear independence of features against validation accuracy", "Spearman")
def figure_1a(effort: ExperimentConfig) -> Findings:
    """Figure 1a, left: the sum of inverse condition numbers of feature maps (FMI) rises with validation accuracy on
    NAS-Bench-201, CIFAR-10."""
    sample = look(effort, [CONDITIONS], VALIDATED)
    fmi = np.expm1(sample[CONDITIONS])
    found = line("FMI and validation accuracy", None, spearman, fmi, sample.reached, sample.failed(CONDITIONS))
    picture = Plot("FMI and accuracy", "FMI", "validation accuracy, %", (_dots("", fmi[0], sample.reached[0]),))
    counts = "FMI is the sum over all modules, containers too, as in the authors' code."
    return Findings((found,), (*sample.deviations, counts, "The paper gives no number."), (picture,))


def _dots(name: str, x: Scores, y: Scores) -> Curve:
    known = np.isfinite(x) & np.isfinite(y)
    return Curve(name, tuple(x[known].tolist()), tuple(y[known].tolist()))


@experiment("dextr-figure-1b", PAPER, "Outputs along a circle on their principal components", "curvature", samples=6)
def figure_1b(effort: ExperimentConfig) -> Findings:
    """Figure 1b: outputs of six networks as the input runs along a circle, on three principal components: those of good
    networks are more curved."""
    wanted = (55.0, 65.0, 75.0, 92.0, 93.0, 94.0)
    archs = nearest(effort, "cifar10_test_200", wanted)
    sample = look(effort, [CURVATURE], NB201[0], archs)
    lines, curves = [], []
    for k, reached in enumerate(sample.truth.values):
        name = f"{reached:.1f} %"
        kappa = np.expm1(sample[CURVATURE][:, k])
        lines.append(_over_seeds(f"kappa of the network with {name}", None, kappa))
        path = measurements.circle(probed(effort, sample, k))
        closed = [*path.tolist(), path[0].tolist()]
        curves.append(Curve(name, tuple(p[0] for p in closed), tuple(p[1] for p in closed)))
    pictures = tuple(
        Plot(f"Network with {curve.name}", "first component", "second component", (curve,), True) for curve in curves
    )
    own = "The six networks are ours, nearest to given accuracies: the paper names none, and gives no numbers."
    return Findings(tuple(lines), (*sample.deviations, own, "Two of the three components are drawn."), pictures)


def _over_seeds(what: str, published: float | None, values: Scores) -> TableLine:
    good = values[np.isfinite(values)]
    if not len(good):
        return TableLine(what, published, None, note="no seed gave a value")
    return TableLine(what, published, float(good.mean()), spread=float(good.std(ddof=1)) if len(good) > 1 else None)


FIGURE_2 = {56.19: 1.32, 89.90: 2.34}  # accuracy: mean Dextr, of the worst and of the best network
SPREAD = (0.01, 0.05)


@experiment("dextr-figure-2", PAPER, "Stability of Dextr over images and circles", "Dextr", samples=10, seeds=10)
def figure_2(effort: ExperimentConfig) -> Findings:
    """Figure 2: mean and standard deviation of Dextr over 10 images and 10 circles, for 10 networks of NAS-Bench-201
    between 50 and 90 % of accuracy: the deviation is small, and the mean rises with accuracy."""
    name = "dextr(variant=published)"
    wanted = np.linspace(min(FIGURE_2), max(FIGURE_2), 10).tolist()
    sample = look(effort, [name, "dextr"], NB201[0], nearest(effort, "cifar10_test_200", wanted))
    lines, curves = [], []
    for called, proxy in (("as coded", name), ("ours", "dextr")):
        found = [
            _over_seeds(f"{called}, network with {reached:.1f} %", FIGURE_2.get(round(target, 2)), sample[proxy][:, k])
            for k, (target, reached) in enumerate(zip(wanted, sample.truth.values, strict=True))
        ]
        spreads = [each.spread for each in found if each.spread is not None]
        if spreads:
            found.append(TableLine(f"{called}, smallest standard deviation", SPREAD[0], min(spreads)))
            found.append(TableLine(f"{called}, largest standard deviation", SPREAD[1], max(spreads)))
        means = sample[proxy].mean(0, keepdims=True)
        found.append(line(f"{called}, Spearman of mean and accuracy", None, spearman, means, sample.reached))
        lines += found
        curves.append(_dots(called, sample.reached[0], means[0]))
    picture = Plot("Mean Dextr of ten networks", "test accuracy, %", "Dextr", tuple(curves), True)
    weights = "Our seeds draw other weights as well as another image and circle; the paper keeps the weights."
    chosen = "The ten networks are ours, nearest to ten accuracies between those that the paper names."
    return Findings(tuple(lines), (*sample.deviations, weights, chosen, OURS), (picture,))


@experiment("dextr-figure-3", PAPER, "Inverse condition number layer by layer", "1 / c", samples=3)
def figure_3(effort: ExperimentConfig) -> Findings:
    """Figure 3: the inverse condition number of every layer's feature map, in a network with 89.43 % validation
    accuracy and in one with 63 %: the better one's layers are more independent."""
    wanted = (89.43, 63.0)
    sample = look(effort, [CONDITIONS], VALIDATED, nearest(effort, "cifar10_val_200", wanted))
    lines, curves = [], []
    for k, reached in enumerate(sample.truth.values):
        probe = probed(effort, sample, k)
        features = [feature for feature, _ in count_features(probe, "default") if feature.matrix().shape[1] > 1]
        r = probe.inverse_conditions(features).tolist()
        name = f"{reached:.1f} %"
        lines.append(TableLine(f"network with {name}, mean over {len(r)} layers", None, float(np.mean(r))))
        lines.append(_over_seeds(f"network with {name}, FMI", None, np.expm1(sample[CONDITIONS][:, k])))
        curves.append(Curve(name, tuple(float(i) for i in range(1, len(r) + 1)), tuple(r)))
    picture = Plot("Linear independence of each layer's output", "layer", "1 / c", tuple(curves), True)
    own = "The two networks are ours, nearest to the accuracies that the paper names; it gives no other numbers."
    layers = "Layers are leaf modules in call order; what has one position has no condition and is left out."
    return Findings(tuple(lines), (*sample.deviations, own, layers), (picture,))


FIGURE_5 = (
    Place("NB101", "nasbench101", metric="cifar10_val_108"),
    VALIDATED,
    NB301,
    *TRANSNAS,
)


@experiment("dextr-figure-5", PAPER, "Dextr against validation accuracy on six tasks", "Spearman", TABLES)
def figure_5(effort: ExperimentConfig) -> Findings:
    """Figure 5: scatter plots of Dextr and validation accuracy on NAS-Bench-101, -201, -301 and TransNAS-Bench-101
    micro: both rise together."""
    lines: list[TableLine] = []
    pictures: list[Plot] = []
    deviations: list[str] = []
    for place in FIGURE_5:
        sample = look(effort, ["dextr"], place)
        lines.append(line(place.label, None, spearman, sample["dextr"], sample.reached, sample.failed("dextr")))
        dots = _dots("", sample["dextr"][0], sample.reached[0])
        pictures.append(Plot(place.label, "Dextr", "validation accuracy, %", (dots,)))
        deviations += sample.deviations
    return Findings(tuple(lines), (*deviations, "The paper gives no numbers beside these plots."), tuple(pictures))

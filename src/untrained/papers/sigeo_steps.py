"""SiGeo (Zhou et al., arXiv:2311.13169) without a warm-up: frozen and moving weights compared.

"Moving" weights change by a gradient step between the batches, "frozen" ones do not. Definition 1
takes the i-th gradient at theta_i and the norm at theta_k, so an optimiser step is taken between
the batches. With frozen weights theta . grad is 0 for every weight before a batch norm. This
experiment measures what the steps change, on small networks of NAS-Bench-201, so that it runs on a
CPU.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import BenchmarkTask, Sample, Scores, measure_sample
from untrained.papers.sigeo import PAPER
from untrained.papers.sigeo_warmup import FR_WEIGHTS, FROZEN, STEP, STEPS, TERMS, ZICO
from untrained.papers.table_lines import make_correlation_line, make_gain_line
from untrained.reports.reproduction_result import TableLine

SMALL_NETWORKS = "nasbench201(channels=8,cells=1)"
DATASETS = {"CF10": "cifar10", "CF100": "cifar100", "IMGNT": "ImageNet16-120"}


@experiment(
    "sigeo-table-2-steps",
    PAPER,
    "SiGeo without a warm-up, with frozen and with moving weights",
    "Spearman",
    samples=300,
)
def table_2_steps(config: ExperimentConfig) -> Findings:
    """Table 2, continued: Spearman correlation of ln FR alone, of ZiCo and of SiGeo with test
    accuracy on NAS-Bench-201, for several sizes of the step between the batches and several weights
    of ln FR, and the difference between SiGeo and ZiCo."""
    task = BenchmarkTask("NB201", SMALL_NETWORKS, "cifar10")
    names = {}
    for step, term in product(STEPS, ("ratio", "norm")):
        names[step, term] = f"sigeo({TERMS[term]},step={step:g})"
    sample = measure_sample(config, [*names.values(), ZICO], task)
    terms = {key: sample[name] for key, name in names.items()}
    lines = _make_step_lines(sample, terms)
    for label, dataset in DATASETS.items():
        lines += _make_gain_lines(label, sample, terms, sample.read_accuracies_on(dataset))
    deviations = (
        *sample.deviations,
        "Networks have 8 channels and one cell per stage instead of 16 and five; accuracies are "
        "those of the full networks. All see CIFAR-10.",
        "ln FR alone is the second term of SiGeo. A step of 0 means frozen weights; other values "
        f"are learning rates of a gradient step between the four batches of 64 ({STEP:g} is the "
        "default).",
        "SiGeo is the sum of l1 = 1 times its first term and the weight times ln FR, without the "
        "loss; the paper has a weight of 1 without a warm-up. ZiCo has two batches of 128, SiGeo's "
        "first term four of 64.",
        "In Table 2 of the paper SiGeo minus ZiCo is 0.04 on CIFAR-10, 0.04 on CIFAR-100 and 0.01 "
        "on ImageNet16-120.",
    )
    return Findings(tuple(lines), deviations)


def _make_step_lines(sample: Sample, terms: Mapping[tuple[float, str], Scores]) -> list[TableLine]:
    """Correlate ZiCo and each term with the accuracies on CIFAR-10."""
    note = sample.describe_failures(ZICO)
    lines = [
        make_correlation_line("zico", None, spearman, sample[ZICO], sample.accuracies, note),
    ]
    for step in STEPS:
        for term, description in (("norm", "ln FR alone"), ("ratio", "first term alone")):
            what = f"{description}, step {step:g}"
            scores = terms[step, term]
            lines.append(make_correlation_line(what, None, spearman, scores, sample.accuracies))
    what = f"ln FR alone, step {STEP:g} minus frozen"
    lines.append(
        make_gain_line(
            what, spearman, terms[STEP, "norm"], terms[FROZEN, "norm"], sample.accuracies
        )
    )
    spreads = {term: float(np.nanstd(terms[STEP, term])) for term in ("ratio", "norm")}
    lines.append(TableLine("standard deviation of the first term", None, spreads["ratio"]))
    lines.append(TableLine("standard deviation of ln FR", None, spreads["norm"]))
    return lines


def _make_gain_lines(
    label: str,
    sample: Sample,
    terms: Mapping[tuple[float, str], Scores],
    accuracies: Scores,
    step_sizes: Sequence[float] = (FROZEN, STEP),
) -> list[TableLine]:
    """Compare SiGeo with ZiCo, and with its own first term, on a data set."""
    lines = []
    for step in step_sizes:
        kind = "moving" if step else "frozen"
        ratio = terms[step, "ratio"]
        what = f"{label}, first term ({kind}) minus zico"
        lines.append(make_gain_line(what, spearman, ratio, sample[ZICO], accuracies))
        for weight in FR_WEIGHTS:
            sigeo = ratio + weight * terms[step, "norm"]
            what = f"{label}, sigeo ({kind}, weight {weight:g})"
            lines.append(make_correlation_line(what, None, spearman, sigeo, accuracies))
            what = f"{label}, sigeo ({kind}, weight {weight:g}) minus zico"
            lines.append(make_gain_line(what, spearman, sigeo, sample[ZICO], accuracies))
    return lines

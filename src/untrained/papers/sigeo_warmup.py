"""SiGeo (Zhou et al., arXiv:2311.13169), Table 3: candidates are trained briefly and then scored.

Its other experiments with a warm-up are about recommenders (Figures 3 and 4, Tables 1 and 5;
`sigeo_ctr.py`).

The three terms of SiGeo are measured separately, so its score is known for any weights:

    SiGeo = l1 ratio + l2 norm + l3 loss        ratio = sum_l ln ||mu_l / sigma_l||_1
                                                norm = ln FR, loss = -L_k
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.data import TRAIN, DataSource, load_data
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.measurements import MODULE_NAME
from untrained.papers.samples import (
    MIN_SAMPLES,
    BenchmarkTask,
    Measurements,
    Sample,
    Scores,
    find_cifar10,
    measure_archs,
    measure_sample,
)
from untrained.papers.sigeo import PAPER
from untrained.papers.table_lines import (
    STATISTICS,
    make_correlation_line,
    make_gain_line,
    parse_table,
)
from untrained.papers.warm_up_levels import WarmUpLevels
from untrained.proxies.sigeo import PRESETS
from untrained.reports.reproduction_result import TableLine
from untrained.spaces import load_space
from untrained.training.warm_up import CandidateWarmUp, WarmUp
from untrained.types import Task

LEVELS = (0, 10, 20, 40)  # per cent of the training images
TRAINING_IMAGES = 45_000  # of CIFAR-10, without the validation images
BATCH = 128
ZICO = "zico(samples=256)"  # two batches of 128, as in its authors' scripts
STEP = 0.1  # learning rate of the steps between the batches of SiGeo
FROZEN = 0.0  # with this learning rate the weights stay as they are
STEPS = (FROZEN, 0.01, 0.03, STEP, 0.3)  # compared on `ABLATION_SPACE`
FR_WEIGHTS = (1.0, 10.0, 50.0, 200.0)  # compared at every level
TERMS = {"ratio": "l1=1,l2=0,l3=0", "norm": "l1=0,l2=1,l3=0", "loss": "l1=0,l2=0,l3=1"}
ABLATION_SPACE = "NB201"
ABLATION_LABEL = "NB201-CF10"  # in descriptions of lines


class SpacePlan(NamedTuple):
    """The table of a space, and the share of `ExperimentConfig.samples` that is scored."""

    task: BenchmarkTask
    share: float = 1.0


# The share is smaller for spaces with larger networks.
PLANS = {
    "NB101": SpacePlan(BenchmarkTask("NB101-CF10", "nasbench101", "cifar10"), share=0.2),
    "NB201": SpacePlan(BenchmarkTask("NB201-CF10", dataset="cifar10")),
    "NB301": SpacePlan(BenchmarkTask("NB301-CF10", "darts", "cifar10", "nasbench301"), share=0.2),
}
# Columns of the table: label, space, data set of the accuracies.
COLUMNS = (
    ("NB101-CF10", "NB101", "cifar10"),
    ("NB201-CF10", "NB201", "cifar10"),
    ("NB201-CF100", "NB201", "cifar100"),
    ("NB201-IMGNT", "NB201", "ImageNet16-120"),
    ("NB301-CF10", "NB301", "cifar10"),
)
# Spearman and Kendall, column by column
TABLE_3 = parse_table("""
zico/0    0.63 0.46  0.74 0.54  0.78 0.58  0.79 0.60  0.50 0.35
zico/10   0.63 0.46  0.78 0.58  0.81 0.61  0.80 0.60  0.51 0.36
zico/20   0.64 0.46  0.77 0.57  0.81 0.62  0.79 0.59  0.51 0.36
zico/40   0.64 0.46  0.78 0.58  0.80 0.61  0.79 0.59  0.52 0.36
sigeo/0   0.63 0.46  0.78 0.58  0.82 0.62  0.80 0.61  0.50 0.35
sigeo/10  0.68 0.48  0.83 0.64  0.85 0.66  0.85 0.67  0.53 0.37
sigeo/20  0.69 0.51  0.84 0.65  0.87 0.69  0.86 0.68  0.55 0.40
sigeo/40  0.70 0.52  0.83 0.64  0.88 0.70  0.87 0.69  0.56 0.41
""")


@dataclass(frozen=True)
class SpaceScores:
    """Scores of the architectures of a space at every level.

    Attributes:
        sample: The architectures and their accuracies.
        zico: Scores of ZiCo by level.
        terms: Terms of SiGeo by level, size of the step between its batches, and name.
        failures: Descriptions of networks without a score, by level.
    """

    sample: Sample
    zico: Mapping[int, Scores]
    terms: Mapping[tuple[int, float, str], Scores]
    failures: Mapping[int, str]

    @property
    def step_sizes(self) -> tuple[float, ...]:
        """The sizes of the step that were measured."""
        return tuple(dict.fromkeys(step for _, step, _ in self.terms))

    def compute_sigeo(
        self, level: int, step: float = STEP, weights: Sequence[float] | None = None
    ) -> Scores:
        """Return SiGeo at a level; by default with the weights of the paper for that level."""
        if weights is None:
            preset = "vision" if level else "zero-shot"
            weights = PRESETS[preset]
        score = np.zeros_like(self.zico[level])
        for weight, term in zip(weights, TERMS, strict=True):
            # A term with weight 0 is skipped, since 0 times a missing value would be missing.
            if weight:
                score = score + weight * self.terms[level, step, term]
        return score


def _make_call(level: int, metric: str) -> str:
    """Return the name of the proxy that measures a metric at a level."""
    if level == 0:
        return metric
    return f"{MODULE_NAME}:at_level(level={level},metric={metric})"


def _make_metrics(step_sizes: Sequence[float]) -> dict[tuple[float, str], str]:
    """Return the proxies of the terms of SiGeo."""
    metrics = {}
    for step in step_sizes:
        for term, weights in TERMS.items():
            metrics[step, term] = f"sigeo({weights},step={step:g})"
    return metrics


def measure_space(
    config: ExperimentConfig, task: BenchmarkTask, step_sizes: Sequence[float]
) -> SpaceScores:
    """Score a sample of a space at every level.

    Args:
        config: Number of architectures and seeds, folder, device.
        task: The table.
        step_sizes: Sizes of the step between the batches of SiGeo.
    """
    metrics = _make_metrics(step_sizes)
    sample = measure_sample(config, [*metrics.values(), ZICO], task)
    names = []
    for level in LEVELS[1:]:
        # The metrics of one level are scored one after the other, because they share gradients.
        names += [_make_call(level, metric) for metric in (*metrics.values(), ZICO)]
    warmed_up = measure_archs(
        config,
        names,
        sample.truth.space,
        sample.truth.archs,
        sample.source,
        f"{task.label} after a warm-up",
        make_warm_up_levels(sample.truth.space, sample.source, config.batch),
    )
    zico = {}
    terms = {}
    failures = {}
    for level in LEVELS:
        measured: Measurements = warmed_up if level else sample
        zico[level] = measured[_make_call(level, ZICO)]
        failures[level] = measured.describe_failures(_make_call(level, ZICO))
        for (step, term), metric in metrics.items():
            terms[level, step, term] = measured[_make_call(level, metric)]
    return SpaceScores(sample, zico, terms, failures)


def make_warm_up_levels(space: str, source: DataSource, batch: int | None) -> WarmUpLevels:
    """Return a warm-up to the highest level, which keeps the weights at every level."""
    images = len(source.parts[TRAIN])
    warm_ups = {}
    for level in LEVELS[1:]:
        warm_ups[level] = WarmUp.parse(format_warm_up(level, images, batch), source)
    steps = {level: warm_up.steps for level, warm_up in warm_ups.items()}
    candidate = warm_ups[max(LEVELS)].prepare_weights(load_space(space), seed=0, device="cpu")
    assert isinstance(candidate, CandidateWarmUp)
    return WarmUpLevels(candidate, steps)


@experiment(
    "sigeo-table-3",
    PAPER,
    "SiGeo and ZiCo after four levels of warm-up",
    "rank correlation",
    ("nasbench201", "nasbench101", "nasbench301"),
    samples=500,
)
def table_3(config: ExperimentConfig) -> Findings:
    """Table 3: Spearman and Kendall correlation with test accuracy after every candidate was
    trained on 0, 10, 20 and 40 % of the data: that of SiGeo grows, that of ZiCo hardly changes."""
    images = _count_images(config)
    lines: list[TableLine] = []
    deviations: list[str] = []
    scores: dict[str, SpaceScores] = {}
    for name, plan in PLANS.items():
        samples = max(MIN_SAMPLES, round(plan.share * config.samples))
        step_sizes = STEPS if name == ABLATION_SPACE else (FROZEN, STEP)
        scores[name] = measure_space(replace(config, samples=samples), plan.task, step_sizes)
        deviations += scores[name].sample.deviations
    for column, (label, space, dataset) in enumerate(COLUMNS):
        accuracies = _read_accuracies(scores[space].sample, space, dataset)
        lines += _make_column_lines(label, column, scores[space], accuracies)
    lines += _make_term_lines(scores[ABLATION_SPACE])
    lines += _make_ablation_lines(scores[ABLATION_SPACE])
    deviations += [
        describe_levels(images),
        "The warm-up is one pass of SGD (Nesterov 0.9, rate 0.1, decay 5e-4, gradients clipped at "
        "norm 5, batches of 128) over a random part of the training images; the paper does not "
        "describe its warm-up. Each network is trained once, to 40 %, and scored on the way.",
        f"SiGeo has four batches of 64, with a gradient step of {STEP:g} between them, and the "
        "weights 1, 1, 0 without and 1, 50, 1 with a warm-up; frozen is SiGeo without these steps. "
        "ZiCo has two batches of 128, as in its authors' scripts.",
        "Lines with other weights or steps are computed from the three terms of SiGeo, which are "
        "measured separately.",
        "All networks see CIFAR-10, also for the accuracies on CIFAR-100 and ImageNet16-120, whose "
        "training images are not available.",
        f"NAS-Bench-101 and NAS-Bench-301 have {100 * PLANS['NB101'].share:g} % as many "
        "architectures as NAS-Bench-201, because their networks are larger.",
    ]
    return Findings(tuple(lines), tuple(deviations))


def _read_accuracies(sample: Sample, space: str, dataset: str) -> Scores:
    """Return the accuracies of the architectures on a data set, (1, architectures)."""
    if space == "NB201":
        return sample.read_accuracies_on(dataset)
    return sample.accuracies


def _make_column_lines(
    label: str, column: int, scores: SpaceScores, accuracies: Scores
) -> list[TableLine]:
    """Return the lines of a column: both methods at all levels, and their differences."""
    lines = []
    for level in LEVELS:
        values = scores.zico[level]
        lines += _make_method_lines(label, column, "zico", level, scores, values, accuracies)
    for level in LEVELS:
        values = scores.compute_sigeo(level)
        lines += _make_method_lines(label, column, "sigeo", level, scores, values, accuracies)
    for level in LEVELS:
        values = scores.compute_sigeo(level, FROZEN)
        name = "sigeo frozen"
        for line in _make_method_lines(label, column, name, level, scores, values, accuracies):
            lines.append(replace(line, alternative=True))
    return lines + _make_difference_lines(label, scores, accuracies)


def _make_method_lines(
    label: str,
    column: int,
    method: str,
    level: int,
    scores: SpaceScores,
    values: Scores,
    accuracies: Scores,
) -> list[TableLine]:
    """Correlate the scores of a method at a level with the accuracies of a column.

    Args:
        label: Label of the column.
        column: Number of the column.
        method: "zico", "sigeo", or a variant such as "sigeo frozen".
        level: The level.
        scores: All scores of the space, which have the descriptions of failures.
        values: The scores of the method at this level.
        accuracies: The accuracies of the column.
    """
    # Variants are compared with the numbers of the method itself.
    row = f"{method.partition(' ')[0]}/{level}"
    numbers = TABLE_3[row][2 * column : 2 * column + 2]
    lines = []
    for name, number in zip(("Spearman", "Kendall"), numbers, strict=True):
        what = f"{label}, {method}, {level} %, {name}"
        note = scores.failures[level]
        line = make_correlation_line(what, number, STATISTICS[name], values, accuracies, note)
        lines.append(line)
    return lines


def _make_difference_lines(label: str, scores: SpaceScores, accuracies: Scores) -> list[TableLine]:
    """Compare SiGeo with ZiCo at every level, and each of them with itself without a warm-up."""
    lines = []
    for level in LEVELS:
        sigeo_at_level = scores.compute_sigeo(level)
        what = f"{label}, sigeo minus zico, {level} %, Spearman"
        lines.append(make_gain_line(what, spearman, sigeo_at_level, scores.zico[level], accuracies))
        if level:
            for method, after, before in (
                ("sigeo", sigeo_at_level, scores.compute_sigeo(0)),
                ("zico", scores.zico[level], scores.zico[0]),
            ):
                what = f"{label}, {method}, {level} %, Spearman, gain over no warm-up"
                lines.append(make_gain_line(what, spearman, after, before, accuracies))
    return lines


def _make_term_lines(scores: SpaceScores) -> list[TableLine]:
    """Correlate each term of SiGeo alone, with moving and with frozen weights."""
    lines = []
    for step in (STEP, FROZEN):
        kind = "moving" if step else "frozen"
        for term in TERMS:
            for level in LEVELS:
                what = f"{ABLATION_LABEL}, {term} alone, {kind}, {level} %, Spearman"
                values = scores.terms[level, step, term]
                lines.append(
                    make_correlation_line(what, None, spearman, values, scores.sample.accuracies)
                )
    return lines


def _make_ablation_lines(scores: SpaceScores) -> list[TableLine]:
    """Vary the size of the step and the weight of the Fisher-Rao norm."""
    lines = []
    for level in LEVELS:
        loss_weight = 1.0 if level else 0.0
        for step in scores.step_sizes:
            for fr_weight in FR_WEIGHTS:
                values = scores.compute_sigeo(level, step, (1.0, fr_weight, loss_weight))
                what = f"{ABLATION_LABEL}, step {step:g}, weight {fr_weight:g}, {level} %, Spearman"
                lines.append(
                    make_correlation_line(what, None, spearman, values, scores.sample.accuracies)
                )
    return lines


def _count_images(config: ExperimentConfig) -> int:
    """Return the number of training images that are available."""
    source = load_data(find_cifar10(config), Task("cifar10", (3, 32, 32), 10), config.data_root)
    return len(source.parts[TRAIN])


def _has_enough_images(images: int) -> bool:
    """Return whether this many images are enough for the largest level, as a share of CIFAR-10."""
    return 100 * images >= max(LEVELS) * TRAINING_IMAGES


def describe_levels(images: int) -> str:
    """Describe what levels are shares of; empty if all training images of CIFAR-10 are there."""
    if images == TRAINING_IMAGES:
        return ""
    if _has_enough_images(images):
        return (
            f"Of CIFAR-10 {images:,} images for training are available; levels are still shares "
            f"of its {TRAINING_IMAGES:,}."
        )
    return (
        f"Levels are shares of {images:,} images, since no more are available: far fewer steps "
        "than in the paper."
    )


def format_warm_up(level: int, images: int, batch: int | None) -> str:
    """Return the warm-up of a level as text for `--warm-up`.

    Args:
        level: Per cent of CIFAR-10, or of the available images if these are too few.
        images: Number of available images.
        batch: Largest batch of a trial. A trial with smaller batches has as many steps, so it sees
            a smaller share of the images.
    """
    size = min(BATCH, batch or BATCH)
    # With fewer images the share is larger, so that the number of steps is the paper's.
    base_images = TRAINING_IMAGES if _has_enough_images(images) else images
    share = level * base_images / images * size / BATCH
    return f"{share:g}%(paths=each,batch={size})"

"""SiGeo (Zhou et al., arXiv:2311.13169), Table 3: candidates are trained briefly and then scored.

Its other experiments with a warm-up are about recommenders (Figures 3 and 4, Tables 1 and 5;
`sigeo_ctr.py`).
"""

from collections.abc import Mapping

from untrained.benchmarks.statistics import spearman
from untrained.data import TRAIN, load_data
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import BenchmarkTask, Sample, find_images, measure_sample
from untrained.papers.sigeo import PAPER
from untrained.papers.table_lines import (
    STATISTICS,
    make_correlation_line,
    make_gain_line,
    parse_table,
)
from untrained.proxies.sigeo import PRESETS
from untrained.reports.reproduction_result import TableLine
from untrained.types import Task

NB201 = BenchmarkTask("NB201-CF10", dataset="cifar10")
LEVELS = (0, 10, 20, 40)  # per cent of the training images
TRAINING_IMAGES = 45_000  # of CIFAR-10, without the validation images
BATCH = 128
FR_WEIGHT = PRESETS["vision"][1]  # the weight of ln FR after a warm-up
ZICO = "zico(batches=4,samples=256)"
TABLE_3 = parse_table("""
zico/0    0.74 0.54
zico/10   0.78 0.58
zico/20   0.77 0.57
zico/40   0.78 0.58
sigeo/0   0.78 0.58
sigeo/10  0.83 0.64
sigeo/20  0.84 0.65
sigeo/40  0.83 0.64
""")


@experiment(
    "sigeo-table-3",
    PAPER,
    "SiGeo and ZiCo after four levels of warm-up",
    "rank correlation",
    samples=100,
)
def table_3(config: ExperimentConfig) -> Findings:
    """Table 3, NAS-Bench-201, CIFAR-10: Spearman and Kendall correlation with test accuracy after
    every candidate was trained on 0, 10, 20 and 40 % of the data: that of SiGeo grows, that of ZiCo
    hardly."""
    # Every level has the same architectures, since samples are drawn with a fixed seed.
    images = _count_images(config)
    samples: dict[int, Sample] = {}
    deviations: list[str] = []
    for level in LEVELS:
        warm_up = format_warm_up(level, images, config.batch) if level else ""
        sample = measure_sample(config, [_choose_sigeo(level), ZICO], NB201, warm_up=warm_up)
        samples[level] = sample
        deviations += sample.deviations
    lines = [
        *_make_level_lines("sigeo", samples),
        *_make_level_lines("zico", samples),
        *_make_term_lines(samples),
    ]
    deviations += [
        describe_levels(images),
        "The warm-up is one pass of SGD (Nesterov 0.9, rate 0.1, decay 5e-4, batches of 128) over "
        "a random part of the training images; the paper does not describe its warm-up.",
        "Both proxies use four batches of 64. The weights of SiGeo are 1, 1, 0 without and 1, 50, "
        "1 with a warm-up.",
        "A gain of SiGeo may therefore come from its weights and not from the warm-up. The last "
        "lines separate the two causes: without a warm-up SiGeo minus ZiCo is ln FR, which gives "
        "the score with weights 1, 50, 0; after one it is 50 ln FR minus the loss, which "
        "represents the FR norm alone.",
        "NAS-Bench-201 with CIFAR-10 only: the training images of the other four columns are not "
        "available.",
    ]
    return Findings(tuple(lines), tuple(deviations))


def _choose_sigeo(level: int) -> str:
    """Return SiGeo with the weights for a level of warm-up."""
    return "sigeo(preset=vision)" if level else "sigeo"


def _choose_proxy(label: str, level: int) -> str:
    return ZICO if label == "zico" else _choose_sigeo(level)


def _make_level_lines(label: str, samples: Mapping[int, Sample]) -> list[TableLine]:
    """Return the lines of the paper's table, and the gain of each level."""
    lines = []
    # The gain of a level is measured against the same architectures without a warm-up.
    scores_before = samples[0].get_oriented_scores(_choose_proxy(label, 0))
    for level, sample in samples.items():
        proxy = _choose_proxy(label, level)
        scores = sample.get_oriented_scores(proxy)
        note = sample.describe_failures(proxy)
        level_label = f"{label}, {level} % warm-up"
        numbers = TABLE_3[f"{label}/{level}"]
        for name, number in zip(("Spearman", "Kendall"), numbers, strict=True):
            what = f"{level_label}, {name}"
            statistic = STATISTICS[name]
            lines.append(
                make_correlation_line(what, number, statistic, scores, sample.accuracies, note)
            )
        if level:
            what = f"{level_label}, Spearman, gain over no warm-up"
            lines.append(make_gain_line(what, spearman, scores, scores_before, sample.accuracies))
    return lines


def _make_term_lines(samples: Mapping[int, Sample]) -> list[TableLine]:
    """Separate the gain of a warm-up from the gain of other weights.

    Without a warm-up SiGeo minus ZiCo is ln FR; after one it is 50 ln FR minus the loss.
    """
    accuracies = samples[0].accuracies
    sigeo = {}
    zico = {}
    norms = {}
    for level, sample in samples.items():
        sigeo[level] = sample.get_oriented_scores(_choose_sigeo(level))
        zico[level] = sample.get_oriented_scores(ZICO)
        norms[level] = sigeo[level] - zico[level]
    # SiGeo without a warm-up, but with the weight that it has after one.
    reweighted = zico[0] + FR_WEIGHT * norms[0]
    what = "sigeo with weights 1, 50, 0, 0 % warm-up, Spearman"
    lines = [make_correlation_line(what, None, spearman, reweighted, accuracies)]
    for level in samples:
        sigeo_label = f"sigeo, {level} % warm-up, Spearman"
        norm_label = f"FR norm alone, {level} % warm-up, Spearman"
        what = f"{sigeo_label} minus that of zico"
        lines.append(make_gain_line(what, spearman, sigeo[level], zico[level], accuracies))
        lines.append(make_correlation_line(norm_label, None, spearman, norms[level], accuracies))
        if level:
            what = f"{norm_label}, gain over no warm-up"
            lines.append(make_gain_line(what, spearman, norms[level], norms[0], accuracies))
            what = f"{sigeo_label} minus that of weights 1, 50, 0 without warm-up"
            lines.append(make_gain_line(what, spearman, sigeo[level], reweighted, accuracies))
    return lines


def _count_images(config: ExperimentConfig) -> int:
    """Return the number of training images that are available."""
    name = find_images("cifar10", config.data_root) or "digits"
    source = load_data(name, Task("cifar10", (3, 32, 32), 10), config.data_root)
    return len(source.parts[TRAIN])


def _has_enough_images(images: int) -> bool:
    """Return whether this many images are enough for the largest level, as a share of CIFAR-10."""
    return 100 * images >= max(LEVELS) * TRAINING_IMAGES


def describe_levels(images: int) -> str:
    """Return a sentence about the meaning of levels if CIFAR-10 is not complete."""
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
    whole = TRAINING_IMAGES if _has_enough_images(images) else images
    share = level * whole / images * size / BATCH
    return f"{share:g}%(paths=each,batch={size})"

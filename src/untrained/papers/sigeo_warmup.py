"""SiGeo (Zhou et al., arXiv:2311.13169), Table 3: candidates that are trained a little before they are judged.

Its other experiments after a warm-up are about recommenders (Figures 3 and 4, Tables 1 and 5; sigeo_ctr.py).
"""

from collections.abc import Mapping

from untrained.benchmarks.statistics import spearman
from untrained.data import TRAIN, load
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import Place, Sample, images_of, look
from untrained.papers.sigeo import PAPER
from untrained.papers.table_lines import STATISTICS, gain_line, grid, line
from untrained.proxies.sigeo import PRESETS
from untrained.reports.reproduction_facts import TableLine
from untrained.types import Task

PLACE = Place("NB201-CF10", dataset="cifar10")
LEVELS = (0, 10, 20, 40)  # per cent of the images to learn from
IMAGES = 45_000  # that CIFAR-10 has of them
BATCH = 128
HEAVY = PRESETS["vision"][1]  # the weight of ln FR after a warm-up
ZICO = "zico(batches=4,samples=256)"
TABLE_3 = grid("""
zico/0    0.74 0.54
zico/10   0.78 0.58
zico/20   0.77 0.57
zico/40   0.78 0.58
sigeo/0   0.78 0.58
sigeo/10  0.83 0.64
sigeo/20  0.84 0.65
sigeo/40  0.83 0.64
""")


@experiment("sigeo-table-3", PAPER, "SiGeo and ZiCo after four levels of warm-up", "rank correlation", samples=100)
def table_3(effort: ExperimentConfig) -> Findings:
    """Table 3, NAS-Bench-201, CIFAR-10: Spearman and Kendall correlation with test accuracy after every candidate was
    trained on 0, 10, 20 and 40 % of the data: that of SiGeo grows, that of ZiCo hardly."""
    images = _at_hand(effort)
    samples = {level: _judged(effort, level, images) for level in LEVELS}
    lines = (*_compared("sigeo", samples), *_compared("zico", samples), *_apart(samples))
    return Findings(lines, (
        *(said for sample in samples.values() for said in sample.deviations),
        _levels(images),
        "The warm-up is one pass of SGD (Nesterov 0.9, rate 0.1, decay 5e-4, batches of 128) over a random part of the "
        "images to learn from; the paper does not say what its own is.",
        "Both look at four batches of 64; weights of SiGeo are 1, 1, 0 without and 1, 50, 1 with a warm-up.",
        "So a gain of SiGeo may be that of other weights. The last lines tell them apart: without a warm-up SiGeo less "
        "ZiCo is ln FR, which gives the score with weights 1, 50, 0; after one it is 50 ln FR less the loss, "
        "which stands for the FR norm alone.",
        "NAS-Bench-201 with CIFAR-10 only: of the other four columns the images to train on are not at hand.",
    ))  # fmt: skip


def _judged(effort: ExperimentConfig, level: int, images: int) -> Sample:
    warm_up = _warm_up(level, images, effort.batch) if level else ""
    return look(effort, list(_proxies(level).values()), PLACE, warm_up=warm_up)


def _proxies(level: int) -> dict[str, str]:
    """What to type for each."""
    return {"sigeo": "sigeo(preset=vision)" if level else "sigeo", "zico": ZICO}


def _compared(label: str, samples: Mapping[int, Sample]) -> list[TableLine]:
    """The lines of the paper's table, and what each level gains."""
    lines = []
    for level, sample in samples.items():
        proxy, called = _proxies(level)[label], f"{label}, {level} % warm-up"
        for name, number in zip(("Spearman", "Kendall"), TABLE_3[f"{label}/{level}"], strict=True):
            scores, failed = sample.better(proxy), sample.failed(proxy)
            lines.append(line(f"{called}, {name}", number, STATISTICS[name], scores, sample.reached, failed))
        if level:
            before = samples[0].better(_proxies(0)[label])
            what = f"{called}, Spearman above that without"
            lines.append(gain_line(what, spearman, sample.better(proxy), before, sample.reached))
    return lines


def _apart(samples: Mapping[int, Sample]) -> list[TableLine]:
    """What the terms of SiGeo have to do with it, and the weights, which change with the warm-up."""
    reached, both = samples[0].reached, {k: [*map(s.better, _proxies(k).values())] for k, s in samples.items()}
    norms = {level: ours - zico for level, (ours, zico) in both.items()}  # ln FR, then 50 ln FR less the loss
    heavy = both[0][1] + HEAVY * norms[0]
    lines = [line("sigeo with weights 1, 50, 0, 0 % warm-up, Spearman", None, spearman, heavy, reached)]
    for level, (ours, zico) in both.items():
        what, norm = f"{level} % warm-up, Spearman", f"FR norm alone, {level} % warm-up, Spearman"
        lines.append(gain_line(f"sigeo, {what} above that of zico", spearman, ours, zico, reached))
        lines.append(line(norm, None, spearman, norms[level], reached))
        if level:
            lines.append(gain_line(f"{norm} above that without", spearman, norms[level], norms[0], reached))
            above = f"sigeo, {what} above that of weights 1, 50, 0 without"
            lines.append(gain_line(above, spearman, ours, heavy, reached))
    return lines


def _at_hand(effort: ExperimentConfig) -> int:
    """How many images there are to learn from."""
    name = images_of("cifar10", effort.data_root) or "digits"
    return len(load(name, Task("cifar10", (3, 32, 32), 10), effort.data_root).parts[TRAIN])


def _enough(images: int) -> bool:
    return 100 * images >= max(LEVELS) * IMAGES


def _levels(images: int) -> str:
    """What must be said where CIFAR-10 is not whole."""
    if images == IMAGES:
        return ""
    if not _enough(images):
        return f"Levels are shares of {images:,} images, since no more are at hand: far fewer steps than in the paper."
    return f"Of CIFAR-10 {images:,} images to learn from are at hand; levels are still shares of its {IMAGES:,}."


def _warm_up(level: int, images: int, batch: int | None) -> str:
    """What to type for so many per cent of CIFAR-10, or of the images at hand where these are too few. A trial with
    smaller batches has as many steps, so it sees a smaller share."""
    size, whole = min(BATCH, batch or BATCH), IMAGES if _enough(images) else images
    return f"{level * whole / images * size / BATCH:g}%(paths=each,batch={size})"

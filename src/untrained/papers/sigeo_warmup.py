"""SiGeo (Zhou et al., arXiv:2311.13169), Table 3: candidates that are trained a little before they are judged.

Its other experiments after a warm-up are about recommenders (Figures 3 and 4, Tables 1 and 5; sigeo_ctr.py).
"""

from untrained.data import TRAIN, load
from untrained.papers._item import Effort, Findings, Line, item
from untrained.papers._lines import STATISTICS, gain_line, grid, line
from untrained.papers._sample import Place, Scores, images_of, look
from untrained.papers.sigeo import PAPER
from untrained.types import Task

PLACE = Place("NB201-CF10", dataset="cifar10")
LEVELS = (0, 10, 20, 40)  # per cent of the images to learn from
IMAGES = 45_000  # that CIFAR-10 has of them
BATCH = 128
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


@item("sigeo-table-3", PAPER, "SiGeo and ZiCo after four levels of warm-up", "rank correlation", samples=100)
def table_3(effort: Effort) -> Findings:
    """Table 3, NAS-Bench-201, CIFAR-10: Spearman and Kendall correlation with test accuracy after every candidate was
    trained on 0, 10, 20 and 40 % of the data: that of SiGeo grows, that of ZiCo hardly."""
    images = _at_hand(effort)
    lines: dict[str, list[Line]] = {"sigeo": [], "zico": []}
    cold: dict[str, Scores] = {}
    told: list[str] = []
    for level in LEVELS:
        proxies = {"sigeo": "sigeo(preset=vision)" if level else "sigeo", "zico": ZICO}
        warm_up = _warm_up(level, images, effort.batch) if level else ""
        sample = look(effort, list(proxies.values()), PLACE, warm_up=warm_up)
        told += sample.deviations
        for label, proxy in proxies.items():
            better, failed = sample.better(proxy), sample.failed(proxy)
            for k, name in enumerate(("Spearman", "Kendall")):
                what, number = f"{label}, {level} % warm-up, {name}", TABLE_3[f"{label}/{level}"][k]
                lines[label].append(line(what, number, STATISTICS[name], better, sample.reached, failed))
            before = cold.setdefault(label, better)
            if level:
                what = f"{label}, {level} % warm-up, Spearman above that without"
                lines[label].append(gain_line(what, STATISTICS["Spearman"], better, before, sample.reached))
    return Findings((*lines["sigeo"], *lines["zico"]), (
        *told,
        _levels(images),
        "The warm-up is one pass of SGD (Nesterov 0.9, rate 0.1, decay 5e-4, batches of 128) over a random part of the "
        "images to learn from; the paper does not say what its own is.",
        "Both look at four batches of 64; weights of SiGeo are 1, 1, 0 without and 1, 50, 1 with a warm-up.",
        "NAS-Bench-201 with CIFAR-10 only: of the other four columns the images to train on are not at hand.",
    ))  # fmt: skip


def _at_hand(effort: Effort) -> int:
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

"""SiGeo (Zhou et al., arXiv:2311.13169), Table 3: candidates that are trained a little before they are judged.

Its other experiments after a warm-up are about recommenders (Figures 3 and 4, Tables 1 and 5; sigeo_ctr.py).
"""

from untrained.papers._item import Effort, Findings, Line, item
from untrained.papers._lines import STATISTICS, grid, line
from untrained.papers._sample import Place, look
from untrained.papers.sigeo import PAPER

PLACE = Place("NB201-CF10", dataset="cifar10")
LEVELS = (0, 10, 20, 40)  # per cent of the training images
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
    lines: list[Line] = []
    told: list[str] = []
    for level in LEVELS:
        sigeo = "sigeo(preset=vision)" if level else "sigeo"
        sample = look(effort, [ZICO, sigeo], PLACE, warm_up=_warm_up(level, effort.batch) if level else "")
        told += sample.deviations
        for label, proxy in (("zico", ZICO), ("sigeo", sigeo)):
            for k, name in enumerate(("Spearman", "Kendall")):
                what, number = f"{label}, {level} % warm-up, {name}", TABLE_3[f"{label}/{level}"][k]
                better = sample.better(proxy)
                lines.append(line(what, number, STATISTICS[name], better, sample.reached, sample.failed(proxy)))
    return Findings(tuple(sorted(lines, key=lambda each: each.what.partition(",")[0], reverse=True)), (
        *told,
        "The warm-up is one pass of SGD (Nesterov 0.9, rate 0.1, decay 5e-4, batches of 128) over a random part of the "
        "images to learn from; the paper does not say what its own is.",
        "Both look at four batches of 64; weights of SiGeo are 1, 1, 0 without and 1, 50, 1 with a warm-up.",
        "NAS-Bench-201 with CIFAR-10 only: of the other four columns the images to train on are not at hand.",
    ))  # fmt: skip


def _warm_up(level: int, batch: int | None) -> str:
    """What to type for it. A trial with smaller batches has as many steps, so it sees a smaller share."""
    size = min(BATCH, batch or BATCH)
    return f"{level * size / BATCH:g}%(paths=each,batch={size})"

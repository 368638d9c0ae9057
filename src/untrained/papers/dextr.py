"""Dextr (Asthana et al.): tables and figures about how its score relates to accuracy.

Its searches (Tables 2, 3, 8) are in `dextr_searches.py`. Its Tables 6 and 7 need the NATS-Bench size space, of which we
have no table.
"""

import numpy as np

from untrained.papers import measurements
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import Place, Sample, Scores, look
from untrained.papers.table_lines import Row, correlations, grid, mean_line, row
from untrained.reports.reproduction_facts import TableLine

PAPER = "Dextr (Asthana et al.)"
TABLES = ("nasbench201", "nasbench101", "nasbench301", "transnas")
NB201 = (
    Place("NB201-cf10", dataset="cifar10"),
    Place("NB201-cf100", dataset="cifar100"),
    Place("NB201-ImNet120", dataset="ImageNet16-120"),
)
NB101 = Place("NB101", "nasbench101", "cifar10")
NB301 = Place("NB301", "darts", "cifar10", "nasbench301")
TRANSNAS = tuple(
    Place(f"TNB-{name}", "transnas_micro", task)
    for name, task in (("Object", "class_object"), ("Scene", "class_scene"), ("Jigsaw", "jigsaw"))
)
EVERYWHERE = (*TRANSNAS, NB101, *NB201, NB301)  # in the order of Table 1

OURS = (
    "Dextr is ours: leaf modules once a call, all output coordinates, float64; beside it stands the variant of the "
    "authors' code (every module, ten random coordinates)."
)

TABLE_1 = grid("""
grasp     -0.22 -0.43 -0.12  0.27 0.39 0.46 0.45  0.34
fisher     0.44 -0.13  0.30 -0.28 0.40 0.46 0.42 -0.28
grad_norm  0.39 -0.33  0.36 -0.24 0.42 0.49 0.47 -0.04
snip       0.45 -0.14  0.41 -0.19 0.43 0.49 0.48 -0.05
synflow    0.48  0.27  0.47  0.31 0.74 0.76 0.75  0.18
params     0.45  0.32  0.44  0.38 0.72 0.73 0.69  0.46
zico       0.50  0.70  0.52  0.41 0.76 0.79 0.77  0.49
meco       0.58  0.62  0.45  0.57 0.89 0.88 0.85  0.43
swap_reg   0.48  0.67  0.47  0.49 0.88 0.90 0.87  0.49
dextr      0.53  0.75  0.55  0.65 0.90 0.91 0.87  0.44
""")

TABLE_4 = grid("""
dextr_conditions  0.88 0.89 0.85
zico              0.76 0.79 0.77
dextr_curvature   0.51 0.49 0.51
zen               0.33 0.34 0.38
harmonic_mean     0.44 0.44 0.47
dextr             0.90 0.91 0.87
""")


def swap_reg(sample: Sample) -> Scores:
    """SWAP exp(-(P - mu)^2 / sigma), P parameters: mu is the largest P, sigma the mean of (P - mu)^2."""
    size = sample["params"]
    short = (size - np.nanmax(size)) ** 2
    return np.asarray(sample["swap"] * np.exp(-short / max(float(np.nanmean(short)), 1.0)))


def published_beside(rows: list[Row], *names: str) -> list[Row]:
    """Rows and, after each of these names, the same by the authors' code."""
    told: list[Row] = []
    for each in rows:
        told.append(each)
        if each.needs[0] in names:
            told.append(row(f"{each.label}, as coded", f"{each.needs[0]}(variant=published)", each.published))
    return told


@experiment("dextr-table-1", PAPER, "Rank correlation of ten proxies with accuracy on eight tasks", "Spearman", TABLES,
      seeds=3)  # fmt: skip
def table_1(effort: ExperimentConfig) -> Findings:
    """Table 1: Spearman correlation of proxies with accuracy on TransNAS-Bench-101 micro, NAS-Bench-101, -201 and -301.
    All values but those of Dextr and MeCo are taken from the SWAP paper."""
    rows = [row(name, name, published) for name, published in TABLE_1.items() if name != "swap_reg"]
    rows = published_beside(rows, "dextr", "meco")
    rows.insert(-2, Row("swap_reg", ("swap", "params"), swap_reg, TABLE_1["swap_reg"]))
    found = correlations(effort, EVERYWHERE, rows)
    return Findings(found.lines, (
        *found.deviations,
        OURS,
        "The paper draws 1,000 architectures of NAS-Bench-Suite-Zero; ours are drawn from our tables.",
        "SWAP's mu and sigma are not published for these spaces: mu is the largest number of parameters in the "
        "sample, sigma the mean squared distance from it.",
        "TransNAS-Bench-101 and NAS-Bench-301 have validation accuracy only.",
    ))  # fmt: skip


@experiment("dextr-table-4", PAPER, "The halves of Dextr beside Zen, ZiCo and their harmonic mean", "Spearman")
def table_4(effort: ExperimentConfig) -> Findings:
    """Table 4: Spearman correlation of ln(1 + sum of inverse condition numbers), of ln(1 + curvature), of proxies of
    the same kind, and of combinations, on NAS-Bench-201."""
    rows = [row(name, name, published) for name, published in TABLE_4.items()]
    found = correlations(effort, NB201, published_beside(rows, "dextr_conditions", "dextr_curvature", "zen", "dextr"))
    own = "Zen with one repeat of 16 noise images, ZiCo with two batches of 64."
    return Findings(found.lines, (*found.deviations, OURS, own))


TABLE_5 = {NB101: 99.18, NB201[0]: 90.01, NB301: 99.51}


@experiment("dextr-table-5", PAPER, "Layers with a largest singular value of at least 1", "%", TABLES[:3])
def table_5(effort: ExperimentConfig) -> Findings:
    """Table 5: mean share of layers whose feature map of a CIFAR-10 image has a largest singular value of at least 1,
    as Lemma 1 supposes, over 1,000 networks of NAS-Bench-101, -201 and -301."""
    kinds = {kind: f"{measurements.NAME}:large_layers(which={kind})" for kind in ("modules", "leaves")}
    lines: list[TableLine] = []
    deviations: list[str] = []
    for place, published in TABLE_5.items():
        sample = look(effort, list(kinds.values()), place)
        lines += [
            mean_line(f"{place.label}, all {kind}", published, 100 * sample[name], sample.failed(name))
            for kind, name in kinds.items()
        ]
        deviations += sample.deviations
    counted = "The paper does not say what it counts as a layer: all modules, as its code hooks, or leaf modules alone."
    return Findings(
        tuple(lines), (*deviations, counted, "A feature map of zeros, behind a none edge, counts as small.")
    )

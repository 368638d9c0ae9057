"""SiGeo (Zhou et al., arXiv:2311.13169): correlation of its score with accuracy, without warm-up.

The other experiments include training and are in `sigeo_figures.py` (two-layer networks),
`sigeo_warmup.py` (scores after a warm-up), `sigeo_ctr.py` (recommenders) and `sigeo_resnet.py`.
"""

from dataclasses import replace

from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import BenchmarkTask
from untrained.papers.table_lines import make_correlation_table, make_proxy_row, parse_table

PAPER = "SiGeo (Zhou et al.)"
TASKS = (
    BenchmarkTask("NB101-CF10", "nasbench101", "cifar10"),
    BenchmarkTask("NB201-CF10", dataset="cifar10"),
    BenchmarkTask("NB201-CF100", dataset="cifar100"),
    BenchmarkTask("NB201-IMGNT", dataset="ImageNet16-120"),
    BenchmarkTask("NB301-CF10", "darts", "cifar10", "nasbench301"),
)

TABLE_2 = parse_table("""
epe_nas     0.00  0.00   0.70  0.52   0.60  0.43   0.33  0.23   0.00  0.00
fisher     -0.28 -0.20   0.50  0.37   0.54  0.40   0.48  0.36  -0.28 -0.19
flops       0.36  0.25   0.69  0.50   0.71  0.52   0.67  0.48   0.42  0.29
grad_norm  -0.25 -0.17   0.58  0.42   0.63  0.47   0.57  0.42  -0.04 -0.03
grasp       0.27  0.18   0.51  0.35   0.54  0.38   0.55  0.39   0.34  0.23
jacob_cov  -0.29 -0.20   0.75  0.57   0.71  0.54   0.71  0.54  -0.04 -0.03
l2_norm     0.50  0.35   0.68  0.49   0.72  0.52   0.69  0.50   0.45  0.31
naswot      0.31  0.21   0.77  0.58   0.80  0.62   0.77  0.59   0.47  0.32
params      0.37  0.25   0.72  0.54   0.73  0.55   0.69  0.52   0.46  0.31
plain      -0.32 -0.22  -0.26 -0.18  -0.21 -0.14  -0.22 -0.15  -0.32 -0.22
snip       -0.19 -0.14   0.58  0.43   0.63  0.47   0.57  0.42  -0.05 -0.03
synflow     0.31  0.21   0.73  0.54   0.76  0.57   0.75  0.56   0.18  0.12
zen         0.59  0.42   0.35  0.27   0.35  0.28   0.39  0.29   0.43  0.30
zico        0.63  0.46   0.74  0.54   0.78  0.58   0.79  0.60   0.50  0.35
sigeo       0.63  0.46   0.78  0.58   0.82  0.62   0.80  0.61   0.50  0.35
""")

# Proxies whose name differs from that of their row.
PROXIES = {"zico": "zico(samples=256)"}
VARIANTS = {
    "sigeo frozen": "sigeo(variant=frozen)",
    "sigeo notebook": "sigeo(variant=notebook)",
    "sigeo recommender code": "sigeo(variant=published)",
}


@experiment(
    "sigeo-table-2",
    PAPER,
    "Rank correlation of fifteen proxies with accuracy, zero-shot",
    "rank correlation",
    ("nasbench201", "nasbench101", "nasbench301"),
    seeds=3,
)
def table_2(config: ExperimentConfig) -> Findings:
    """Table 2: Spearman and Kendall correlation of proxies with test accuracy on NAS-Bench-101,
    -201 and -301, without warm-up."""
    rows = []
    for name, published in TABLE_2.items():
        rows.append(make_proxy_row(name, PROXIES.get(name, name), published))
    for label, proxy in VARIANTS.items():
        rows.append(replace(make_proxy_row(label, proxy, TABLE_2["sigeo"]), alternative=True))
    findings = make_correlation_table(
        config,
        TASKS,
        rows,
        ("Spearman", "Kendall"),
        differences=[("sigeo", "zico"), *((label, "zico") for label in VARIANTS)],
        rank_labels=("sigeo", "zico"),
    )
    deviations = (
        *findings.deviations,
        "SiGeo is our implementation of Definition 1: weights 1, 1, 0 and four batches of 64, with "
        "a gradient step of 0.1 between them. `sigeo frozen` is the same without the steps. `sigeo "
        "notebook` is the authors' code for images. `sigeo recommender code` is their code for "
        "clicks, which reads one coordinate per layer. ZiCo has two batches of 128, as in its "
        "authors' scripts.",
        "The paper does not say how many architectures it uses; we use a sample of our tables.",
    )
    return Findings(findings.lines, deviations)

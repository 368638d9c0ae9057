"""Dextr (Asthana et al.): tables of the correlation of its score with accuracy.

The searches (Tables 2, 3 and 8) are in `dextr_searches.py`. Tables 6 and 7 need the size search
space of NATS-Bench, for which we have no table.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from untrained.papers import measurements
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import BenchmarkTask, Sample, Scores, measure_sample
from untrained.papers.table_lines import (
    CorrelationRow,
    make_correlation_table,
    make_mean_line,
    make_proxy_row,
    parse_table,
)
from untrained.reports.reproduction_result import TableLine

PAPER = "Dextr (Asthana et al.)"
TABLES = ("nasbench201", "nasbench101", "nasbench301", "transnas")
NB201 = (
    BenchmarkTask("NB201-cf10", dataset="cifar10"),
    BenchmarkTask("NB201-cf100", dataset="cifar100"),
    BenchmarkTask("NB201-ImNet120", dataset="ImageNet16-120"),
)
NB101 = BenchmarkTask("NB101", "nasbench101", "cifar10")
NB301 = BenchmarkTask("NB301", "darts", "cifar10", "nasbench301")
TRANSNAS = (
    BenchmarkTask("TNB-Object", "transnas_micro", "class_object"),
    BenchmarkTask("TNB-Scene", "transnas_micro", "class_scene"),
    BenchmarkTask("TNB-Jigsaw", "transnas_micro", "jigsaw"),
)
ALL_TASKS = (*TRANSNAS, NB101, *NB201, NB301)  # in the order of Table 1

VARIANT_NOTE = (
    "Dextr is our implementation: leaf modules once per call, all output coordinates, float64. "
    'Rows with "authors\' code" are the variant of the authors: every module, ten random '
    "coordinates."
)

DARTS = BenchmarkTask("DARTS", "darts", "cifar10", "darts1000")
ACCEL = BenchmarkTask("Accel-NASBench", "mnasnet", benchmark="accel_nasbench")

TABLE_1 = parse_table("""
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

TABLE_4 = parse_table("""
dextr_conditions  0.88 0.89 0.85
zico              0.76 0.79 0.77
dextr_curvature   0.51 0.49 0.51
zen               0.33 0.34 0.38
harmonic_mean     0.44 0.44 0.47
dextr             0.90 0.91 0.87
""")

TABLE_5 = {NB101: 99.18, NB201[0]: 90.01, NB301: 99.51}


def compute_swap_reg(sample: Sample) -> Scores:
    """Return SWAP exp(-(P - mu)^2 / sigma), where P is the number of parameters.

    mu is the largest P of the sample, sigma the mean of (P - mu)^2.
    """
    P = sample["params"]
    squares = (P - np.nanmax(P)) ** 2
    # At least 1, so that networks of equal size do not divide by zero.
    sigma = max(float(np.nanmean(squares)), 1.0)
    return np.asarray(sample["swap"] * np.exp(-squares / sigma))


def add_authors_variants(rows: list[CorrelationRow], *names: str) -> list[CorrelationRow]:
    """Insert, after each row of these proxies, a row with the variant of the authors' code."""
    all_rows: list[CorrelationRow] = []
    for row in rows:
        all_rows.append(row)
        proxy = row.proxies[0]
        if proxy in names:
            variant = f"{proxy}(variant=published)"
            variant_row = make_proxy_row(f"{row.label}, authors' code", variant, row.published)
            all_rows.append(replace(variant_row, alternative=True))
    return all_rows


@experiment(
    "dextr-table-1",
    PAPER,
    "Rank correlation of ten proxies with accuracy on eight tasks",
    "Spearman",
    TABLES,
    seeds=3,
)
def table_1(config: ExperimentConfig) -> Findings:
    """Table 1: Spearman correlation of proxies with accuracy on TransNAS-Bench-101 micro,
    NAS-Bench-101, -201 and -301. All values except those of Dextr and MeCo are taken from the SWAP
    paper."""
    rows = []
    for name, published in TABLE_1.items():
        if name != "swap_reg":
            rows.append(make_proxy_row(name, name, published))
    rows = add_authors_variants(rows, "dextr", "meco")
    # swap_reg is computed from two proxies. In the paper it comes before Dextr, whose two rows are
    # the last ones here.
    swap_row = CorrelationRow("swap_reg", ("swap", "params"), compute_swap_reg, TABLE_1["swap_reg"])
    rows.insert(-2, swap_row)
    findings = make_correlation_table(
        config,
        ALL_TASKS,
        rows,
        differences=[("dextr", label) for label in ("params", "zico", "meco", "swap_reg")],
        rank_labels=("dextr",),
    )
    deviations = (
        *findings.deviations,
        VARIANT_NOTE,
        "The paper samples 1,000 architectures of NAS-Bench-Suite-Zero; ours are sampled from our "
        "tables.",
        "SWAP's mu and sigma are not published for these spaces: mu is the largest number of "
        "parameters in the sample, sigma the mean squared distance from it.",
        "TransNAS-Bench-101 and NAS-Bench-301 have validation accuracy only.",
    )
    return Findings(findings.lines, deviations)


@experiment(
    "dextr-table-4",
    PAPER,
    "The two terms of Dextr compared with Zen, ZiCo and their harmonic mean",
    "Spearman",
    seeds=3,
)
def table_4(config: ExperimentConfig) -> Findings:
    """Table 4: Spearman correlation of ln(1 + sum of inverse condition numbers), of
    ln(1 + curvature), of proxies of the same kind, and of combinations, on NAS-Bench-201."""
    rows = [make_proxy_row(name, name, published) for name, published in TABLE_4.items()]
    rows = add_authors_variants(rows, "dextr_conditions", "dextr_curvature", "zen", "dextr")
    for name in ("dextr_curvature", "dextr"):
        label = f"{name}, radius as in the paper's text"
        row = make_proxy_row(label, f"{name}(radius=text)", TABLE_4[name])
        rows.append(replace(row, alternative=True))
    findings = make_correlation_table(
        config,
        NB201,
        rows,
        # Differences to the condition numbers alone show what the curvature adds.
        differences=[
            ("dextr", "dextr_conditions"),
            ("dextr, authors' code", "dextr_conditions, authors' code"),
            ("dextr, radius as in the paper's text", "dextr_conditions"),
            ("dextr", "zico"),
        ],
        rank_labels=("dextr", "dextr_conditions"),
    )
    notes = (
        VARIANT_NOTE,
        "Zen with one repeat of 16 noise images, ZiCo with two batches of 64.",
        "The circle of the curvature has radius 1, as in the authors' code; in the text it is the "
        "square root of the number of inputs, 110.9.",
    )
    return Findings(findings.lines, (*findings.deviations, *notes))


@experiment(
    "dextr-table-4-tables",
    PAPER,
    "The two terms of Dextr on all benchmarks",
    "Spearman",
    (*TABLES, "darts1000", "accel_nasbench"),
)
def table_4_on_all_tables(config: ExperimentConfig) -> Findings:
    """Table 4, continued: the paper compares Dextr with its two terms on NAS-Bench-201 alone. This
    experiment repeats the comparison on all tables and shows what the curvature adds."""
    tasks = (*ALL_TASKS, DARTS, ACCEL)
    names = ("dextr_conditions", "dextr_curvature", "dextr", "params", "flops", "zico", "meco_opt")
    rows = []
    for name in names:
        published = _list_published_values(name, tasks)
        # Published numbers are counted in Tables 1 and 4, so these rows do not count.
        rows.append(replace(make_proxy_row(name, name, published), alternative=True))
    findings = make_correlation_table(
        config,
        tasks,
        rows,
        differences=[
            ("dextr", "dextr_conditions"),
            ("dextr", "params"),
            ("dextr_conditions", "params"),
            ("dextr", "zico"),
            ("dextr", "meco_opt"),
        ],
    )
    notes = (
        VARIANT_NOTE,
        "Published numbers are those of Tables 1 and 4. The paper has neither the 1,000 trained "
        "DARTS networks nor Accel-NASBench.",
        "TransNAS-Bench-101 and NAS-Bench-301 have validation accuracy only.",
    )
    return Findings(findings.lines, (*findings.deviations, *notes))


def _list_published_values(name: str, tasks: Sequence[BenchmarkTask]) -> tuple[float | None, ...]:
    """Return the numbers of a proxy in Table 1, or in Table 4 if Table 1 has none, one per task."""
    value_by_label: dict[str, float | None] = {}
    for table, columns in ((TABLE_4, NB201), (TABLE_1, ALL_TASKS)):
        for task, value in zip(columns, table.get(name, ()), strict=False):
            value_by_label[task.label] = value
    return tuple(value_by_label.get(task.label) for task in tasks)


@experiment(
    "dextr-table-5",
    PAPER,
    "Layers with a largest singular value of at least 1",
    "%",
    TABLES[:3],
    better="",
)
def table_5(config: ExperimentConfig) -> Findings:
    """Table 5: mean share of layers whose feature map of a CIFAR-10 image has a largest singular
    value of at least 1, as Lemma 1 assumes, over 1,000 networks of NAS-Bench-101, -201 and -301."""
    # The paper does not define "layer", so both readings are measured.
    proxies = {}
    for kind in ("modules", "leaves"):
        proxies[kind] = f"{measurements.MODULE_NAME}:share_of_large_layers(which={kind})"
    lines: list[TableLine] = []
    deviations: list[str] = []
    for task, published in TABLE_5.items():
        sample = measure_sample(config, list(proxies.values()), task)
        for kind, proxy in proxies.items():
            what = f"{task.label}, all {kind}"
            note = sample.describe_failures(proxy)
            line = make_mean_line(what, published, 100 * sample[proxy], note)
            # The authors' code counts all modules, so leaf modules are the variant.
            lines.append(replace(line, alternative=kind == "leaves"))
        deviations += sample.deviations
    deviations += [
        "The paper does not say what it counts as a layer: all modules, as its code does, or "
        "leaf modules only.",
        "A feature map of zeros, after an edge with the operation none, counts as small.",
    ]
    return Findings(tuple(lines), tuple(deviations))

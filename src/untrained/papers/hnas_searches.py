"""HNAS (Shu et al.): its searches on NAS-Bench-201 (Tables 3, 7, 14, 15 and 16).

A pool of `samples` architectures of the table, 8,192 by default, is measured once. Every search
sees the pool in a different order and reads 20 validation accuracies from the table. The searches
of DARTS (Tables 8 and 9) train on CIFAR and ImageNet and are left out.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas import GRADIENT_METRICS, NASWOT_NOTE, NB201, OTHER_METRICS, PAPER
from untrained.papers.hnas_bounds import CODE_NOTE, KAPPA
from untrained.papers.samples import Scores, measure_sample
from untrained.papers.table_lines import PublishedTable, parse_table
from untrained.papers.table_searches import (
    QUERIES,
    SEARCH_COUNT,
    VALIDATION,
    Algorithm,
    MeasuredTable,
    compare_algorithms,
    make_accuracy_lines,
    make_hnas_search,
)
from untrained.proxies.hnas import bound, choose_mu_and_nu
from untrained.reports.reproduction_result import TableLine
from untrained.strategies.best_of_pool import BestOfPool
from untrained.strategies.evolution import Evolution
from untrained.strategies.hnas import PRESETS
from untrained.strategies.random import RandomSearch
from untrained.types import Arch

POOL_SIZE = 8192  # architectures that are measured once and shared by all searches
PROXY_BUDGET = 1000  # architectures that a search scores by a proxy if it has no queries
GRID_SIDE = 21  # values of mu, and of nu, on the grid of `make_grid_lines`
KNAS = {"KNAS": OTHER_METRICS["KNAS"]}

# mean and standard deviation on C10, C100 and IN-16
TABLE_14 = parse_table("""
Grad     94.04 0.21  71.75 1.04  45.91 0.88
SNIP     93.94 0.02  71.49 0.11  46.07 0.14
GraSP    94.13 0.13  72.59 0.82  46.24 0.38
Trace    94.07 0.10  72.30 0.70  45.93 0.37
KNAS     94.19 0.06  72.94 0.52  46.31 0.38
Fisher   93.28 0.73  69.42 1.36  42.85 2.09
SynFlow  94.13 0.00  72.50 0.00  45.47 0.00
NASWOT   92.10 0.62  66.81 0.32  39.26 0.72
Optimal  94.37 -     73.51 -     47.31 -
""")

TABLE_7 = parse_table("""
REA  93.92 0.30  71.84 0.99  45.15 0.89
RS   93.70 0.36  71.04 1.07  44.57 1.25
""")

TABLE_16 = parse_table("""
Grad/EI    94.04 0.21  71.75 1.04  45.91 0.88
Grad/UCB   94.05 0.18  72.04 1.18  45.81 0.88
Trace/EI   94.07 0.10  72.30 0.70  45.93 0.37
Trace/UCB  94.10 0.16  72.48 0.95  46.30 0.17
""")

# Numbers of the training-free variant, which has no standard deviations.
TABLE_15 = (93.50, None, 69.78, None, 43.73, None)

SEARCHES_NOTE = (
    f"Every number is the mean of {SEARCH_COUNT} searches, with their standard deviation as "
    "spread; the paper has 5 searches. All searches read the same measurements (one "
    "initialisation, one batch), so they differ only in the order in which they see the "
    "architectures and in Bayesian optimisation. Where the spread is 0, all searches selected the "
    "same architecture."
)
UNITS_NOTE = (
    "nu is a quantile of M^2 in the pool, and mu is relative to its medians, so that both mean "
    "the same for every metric. The paper takes nu^2 up to 5000^2 and mu from 10^-4 to 1, "
    "whatever the metric: hnas(preset=nasbench201)."
)
POOL_NOTE = (
    "The paper samples 40,000 architectures with replacement, nearly the whole space; our pool is "
    "the sample."
)
NETWORKS_NOTE = (
    "The authors' networks have biases before norms, which dominate M_Trace where a convolution "
    "has a constant input, and their kappa may be negative in float32; ours have neither. The "
    "effect was not measured."
)
BELOW_PAPER_NOTE = (
    'Where HNAS is below the paper, compare it with its row "with the best mu and nu". That row is '
    "the architecture with the best validation accuracy among the first queries of "
    f"{GRID_SIDE * GRID_SIDE} pairs of mu and nu on a grid. Where HNAS equals it, no mu and nu "
    "give a better result with these scores; where HNAS is worse, the good pairs are too rare to "
    f"be found with {QUERIES} queries."
)
COMMON_NOTES = (SEARCHES_NOTE, POOL_NOTE, UNITS_NOTE, NETWORKS_NOTE, CODE_NOTE)


def measure_table(config: ExperimentConfig, *names: str) -> MeasuredTable:
    """Measure the pool that all searches share."""
    return MeasuredTable(measure_sample(config, names, NB201))


def make_hnas_searches(metrics: Mapping[str, str]) -> dict[str, Algorithm]:
    """Return a search by HNAS for each metric, by label."""
    return {f"HNAS ({label})": make_hnas_search(metric) for label, metric in metrics.items()}


def label_as_hnas(rows: PublishedTable) -> PublishedTable:
    """Label published rows like the searches of `make_hnas_searches`."""
    return {f"HNAS ({label})": numbers for label, numbers in rows.items()}


def make_optimum_lines(table: MeasuredTable) -> list[TableLine]:
    """Return the best test accuracies of the whole table, also of those outside the pool."""
    all_archs = [table.space.space.parse(text) for text in table.sample.truth.table.list_archs()]
    best = np.nanmax(table.read_test_accuracies(all_archs), axis=1, keepdims=True)
    return make_accuracy_lines("Best of the table", best, TABLE_14["Optimal"])


def make_random_search(queries: int) -> Algorithm:
    """Return random search with queries of the validation accuracy."""

    def run_random_search(table: MeasuredTable, rng: np.random.Generator) -> list[Arch]:
        return table.search_with_queries(RandomSearch(table.space, rng), queries)

    return run_random_search


def make_evolution(queries: int) -> Algorithm:
    """Return regularised evolution (REA) as in NAS-Bench-201.

    The population has ten architectures. In every step the best one has a child, and the oldest one
    is removed.
    """

    def run_evolution(table: MeasuredTable, rng: np.random.Generator) -> list[Arch]:
        fitness = table.read_accuracy
        strategy = Evolution(table.space, rng, fitness, population=10, tournament=10, children=1)
        return table.search_with_queries(strategy, queries)

    return run_evolution


def make_best_of_pool(proxy: str) -> Algorithm:
    """Return a search that queries the best architectures of a pool by a proxy, best first."""

    def run_best_of_pool(table: MeasuredTable, rng: np.random.Generator) -> list[Arch]:
        # A trial may have measured fewer architectures than the pool needs.
        pool_size = min(8000, table.space.size)
        strategy = BestOfPool(
            table.space,
            rng,
            score_pool=table.read_scores,
            pool_fitness=table.make_fitness(proxy),
            pool=pool_size,
            top=min(QUERIES, pool_size),
        )
        return table.search_with_queries(strategy, QUERIES)

    return run_best_of_pool


def make_random_search_by_proxy(proxy: str) -> Algorithm:
    """Return a search that takes the best random architecture by a proxy, without queries."""

    def run_random_search(table: MeasuredTable, rng: np.random.Generator) -> list[Arch]:
        return table.search_by_proxy(RandomSearch(table.space, rng), proxy, PROXY_BUDGET)

    return run_random_search


def make_evolution_by_proxy(proxy: str) -> Algorithm:
    """Return evolution by a proxy, without queries."""

    def run_evolution(table: MeasuredTable, rng: np.random.Generator) -> list[Arch]:
        strategy = Evolution(table.space, rng, table.make_fitness(proxy))
        return table.search_by_proxy(strategy, proxy, PROXY_BUDGET)

    return run_evolution


def make_grid_lines(table: MeasuredTable, metrics: Mapping[str, str]) -> list[TableLine]:
    """Return the best result that HNAS could reach with any mu and nu of a grid.

    For each pair (mu, nu) of the grid, this takes the architecture with the lowest bound, which
    HNAS would query first, and reports the one with the best validation accuracy.
    """
    plan = PRESETS[""]
    sample = table.sample
    archs = sample.truth.archs
    kappa = sample[KAPPA].mean(0)
    validation = sample.truth.table.read_values(archs, VALIDATION)
    # The square that HNAS searches: nu by quantile, mu on a logarithmic scale.
    quantiles = np.linspace(0, 1, GRID_SIDE)
    shares = np.logspace(plan.min_log_mu, plan.max_log_mu, GRID_SIDE)
    lines = []
    for label, metric in metrics.items():
        M = np.abs(sample[metric].mean(0))
        # In a small trial there may be no network with both a metric and a condition number.
        if not np.isfinite(bound(M, kappa, 0.0, 0.0)).any():
            continue
        first_choices = set()
        for quantile, share in product(quantiles, shares):
            mu, nu = choose_mu_and_nu(M, kappa, float(share), float(quantile))
            first_choices.add(int(np.nanargmin(bound(M, kappa, mu, nu))))
        # Sorted, so that ties do not depend on the order of a set.
        best = max(sorted(first_choices), key=lambda index: validation[index])
        accuracies = table.read_test_accuracies([archs[best]])
        lines += make_accuracy_lines(f"HNAS ({label}) with the best mu and nu", accuracies)
    return lines


@experiment(
    "hnas-table-3", PAPER, "Searches on NAS-Bench-201", "test accuracy, %", samples=POOL_SIZE
)
def table_3(config: ExperimentConfig) -> Findings:
    """Table 3: test accuracy of the winners of HNAS on the three data sets of NAS-Bench-201, with
    20 queries of the validation accuracy on CIFAR-10. Searches by dextr and random search with as
    many queries are added."""
    metrics = GRADIENT_METRICS | KNAS
    table = measure_table(config, *metrics.values(), KAPPA, "dextr")
    algorithms = make_hnas_searches(metrics)
    published = label_as_hnas(TABLE_14)
    # The default ranges of mu and nu were chosen on this table, so the row with the paper's ranges
    # counts as the reproduction.
    own_ranges = []
    for name, metric in metrics.items():
        label = f"HNAS ({name}), the paper's ranges"
        algorithms[label] = make_hnas_search(metric, preset="nasbench201")
        published[label] = TABLE_14[name]
        own_ranges.append(f"HNAS ({name})")
    algorithms |= {
        "best_of_pool (dextr), the 20 best of 8,000": make_best_of_pool("dextr"),
        "dextr alone, best of 1,000": make_random_search_by_proxy("dextr"),
        "dextr alone, evolution of 1,000": make_evolution_by_proxy("dextr"),
        "Random search, 20 queries": make_random_search(QUERIES),
    }
    lines = compare_algorithms(table, algorithms, published, alternatives=own_ranges)
    lines += make_grid_lines(table, metrics)
    lines += make_optimum_lines(table)
    rows_note = (
        "Rows without a published number are not in the paper; that of KNAS is from its Table 14."
    )
    deviations = (*table.sample.deviations, BELOW_PAPER_NOTE, *COMMON_NOTES, rows_note)
    return Findings(tuple(lines), deviations)


@experiment(
    "hnas-table-7",
    PAPER,
    "Queries of HNAS and of searches by training",
    "test accuracy, %",
    samples=POOL_SIZE,
)
def table_7(config: ExperimentConfig) -> Findings:
    """Table 7: test accuracy reached by regularised evolution with 102 queries of the validation
    accuracy, by random search with 106, and by HNAS with 20."""
    table = measure_table(config, *GRADIENT_METRICS.values(), KAPPA)
    algorithms = {
        "REA, 102 queries": make_evolution(102),
        "RS, 106 queries": make_random_search(106),
    }
    algorithms |= make_hnas_searches(GRADIENT_METRICS)
    published = label_as_hnas(TABLE_14)
    published["REA, 102 queries"] = TABLE_7["REA"]
    published["RS, 106 queries"] = TABLE_7["RS"]
    lines = compare_algorithms(table, algorithms, published)
    lines += make_optimum_lines(table)
    deviations = (
        *table.sample.deviations,
        *COMMON_NOTES,
        "REINFORCE (103 queries) is left out. REA has a population and tournaments of 10, and "
        "one child at a time.",
        "All query the accuracy after 12 epochs within the sample; the paper takes its "
        "numbers of RS and REA from other publications.",
    )
    return Findings(tuple(lines), deviations)


@experiment(
    "hnas-table-14", PAPER, "HNAS with eight metrics", "test accuracy, %", samples=POOL_SIZE
)
def table_14(config: ExperimentConfig) -> Findings:
    """Table 14: test accuracy of the winners of HNAS on NAS-Bench-201 by gradient metrics, and by
    four other metrics."""
    metrics = GRADIENT_METRICS | OTHER_METRICS
    table = measure_table(config, *metrics.values(), KAPPA)
    lines = compare_algorithms(table, make_hnas_searches(metrics), label_as_hnas(TABLE_14))
    lines += make_optimum_lines(table)
    return Findings(tuple(lines), (*table.sample.deviations, *COMMON_NOTES, NASWOT_NOTE))


@experiment(
    "hnas-table-15",
    PAPER,
    "HNAS and its training-free variant",
    "test accuracy, %",
    samples=POOL_SIZE,
    seeds=3,
)
def table_15(config: ExperimentConfig) -> Findings:
    """Table 15: test accuracy of the architecture with the least kappa / M_Trace, which is found
    without training, beside that of the winner of HNAS."""
    trace = GRADIENT_METRICS["Trace"]
    table = measure_table(config, trace, KAPPA)
    sample = table.sample
    lines = make_winner_lines(table, np.abs(sample[trace]), sample[KAPPA])
    label = "HNAS (Trace) with UCB"
    algorithms = {label: make_hnas_search("trace", acquisition="ucb")}
    lines += compare_algorithms(table, algorithms, {label: TABLE_16["Trace/UCB"]})
    lines += make_optimum_lines(table)
    notes = (
        "The paper's numbers of HNAS are those of its Table 16 with UCB, so ours have that "
        "acquisition.",
        "Every seed has its own weights and batch. The published number is compared with the "
        "winner by the mean of M and of kappa over the seeds; rows of a seed show how much the "
        "winner depends on them. Notes give the cell, its M and its kappa.",
        "The mean of the ten smallest is that of the ten architectures with the least kappa / M.",
    )
    return Findings(tuple(lines), (*sample.deviations, *COMMON_NOTES, *notes))


def make_winner_lines(table: MeasuredTable, M: Scores, kappa: Scores) -> list[TableLine]:
    """Return the accuracies of the architectures with the least kappa / M.

    Args:
        table: The architectures and their accuracies.
        M: The metric, (seeds, architectures).
        kappa: The condition numbers, (seeds, architectures).
    """
    rows = {"kappa / M_Trace": (M.mean(0), kappa.mean(0))}
    for seed in range(len(M)):
        rows[f"kappa / M_Trace, seed {seed}"] = (M[seed], kappa[seed])
    lines = []
    for label, (metric, condition) in rows.items():
        bounds = bound(metric, condition, mu=0.0, nu=0.0)
        finite_count = int(np.isfinite(bounds).sum())
        # Missing bounds come last.
        order = np.argsort(bounds)[:finite_count]
        winners = [table.sample.truth.archs[index] for index in order[:1]]
        published = TABLE_15 if label == "kappa / M_Trace" else ()
        note = ""
        if winners:
            best = order[0]
            note = f"{winners[0]}, M {metric[best]:.3g}, kappa {condition[best]:.3g}"
        for line in make_accuracy_lines(label, table.read_test_accuracies(winners), published):
            lines.append(replace(line, note=note))
        first_ten = [table.sample.truth.archs[index] for index in order[:10]]
        means = table.read_test_accuracies(first_ten)
        lines += make_accuracy_lines(f"{label}, mean of the ten smallest", means)
    return lines


@experiment(
    "hnas-table-16",
    PAPER,
    "HNAS with two acquisition functions",
    "test accuracy, %",
    samples=POOL_SIZE,
)
def table_16(config: ExperimentConfig) -> Findings:
    """Table 16: test accuracy of the winners of HNAS on NAS-Bench-201, by expected improvement and
    by the upper confidence bound."""
    table = measure_table(config, GRADIENT_METRICS["Grad"], GRADIENT_METRICS["Trace"], KAPPA)
    algorithms: dict[str, Algorithm] = {}
    published: PublishedTable = {}
    for name, acquisition in product(("Grad", "Trace"), ("EI", "UCB")):
        label = f"HNAS ({name}) with {acquisition}"
        metric = GRADIENT_METRICS[name]
        algorithms[label] = make_hnas_search(metric, acquisition=acquisition.lower())
        published[label] = TABLE_16[f"{name}/{acquisition}"]
    lines = compare_algorithms(table, algorithms, published)
    # An upper limit for every search.
    lines += make_optimum_lines(table)
    return Findings(tuple(lines), (*table.sample.deviations, *COMMON_NOTES))

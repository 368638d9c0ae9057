"""HNAS (Shu et al.): the progress of its searches on NAS-Bench-201 (Figures 2 and 5)."""

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas import GRADIENT_METRICS, PAPER
from untrained.papers.hnas_bounds import KAPPA
from untrained.papers.hnas_searches import (
    COMMON_NOTES,
    POOL_SIZE,
    make_best_of_pool,
    make_evolution,
    make_hnas_searches,
    make_optimum_lines,
    make_random_search,
    measure_table,
)
from untrained.papers.table_searches import (
    DATASETS,
    QUERIES,
    SEARCH_COUNT,
    MeasuredTable,
    make_hnas_strategy,
    repeat_search,
)
from untrained.proxies.hnas import bound
from untrained.reports.reproduction_result import Curve, Plot, TableLine
from untrained.seeds import make_generator
from untrained.types import Arch


@experiment(
    "hnas-figure-2",
    PAPER,
    "Test error by the number of queries",
    "test error, %",
    samples=POOL_SIZE,
    better="lower",
)
def figure_2(config: ExperimentConfig) -> Findings:
    """Figure 2: mean test error of the best architecture so far on three data sets, by the number
    of queries, for HNAS (Trace), random search, regularised evolution, and a search that queries
    the best architectures by M_Trace."""
    table = measure_table(config, GRADIENT_METRICS["Trace"], KAPPA)
    algorithms = make_hnas_searches({"Trace": "trace"})
    algorithms["Zero-cost (Trace)"] = make_best_of_pool("trace")
    algorithms["REA"] = make_evolution(QUERIES)
    algorithms["RS"] = make_random_search(QUERIES)
    # By label: means and standard deviations over searches, both (data sets, queries).
    errors = {}
    for label, algorithm in algorithms.items():
        errors[label] = _compute_errors(table, repeat_search(table, label, algorithm))
    smallest_errors = []
    for line in make_optimum_lines(table):
        if line.ours is None:
            smallest_errors.append(float("nan"))
        else:
            smallest_errors.append(100 - line.ours)
    lines = []
    plots = []
    for index, dataset in enumerate(DATASETS):
        curves = []
        longest_queries: tuple[float, ...] = ()
        for label, (means, deviations) in errors.items():
            queries = _number_queries(len(means[index]))
            curves.append(Curve(label, queries, tuple(means[index].tolist())))
            longest_queries = max(longest_queries, queries, key=len)
            for query in _choose_queries(len(means[index])):
                what = f"{label}, {dataset}, {query} queries"
                mean = float(means[index, query - 1])
                spread = float(deviations[index, query - 1])
                lines.append(TableLine(what, None, mean, spread=spread))
        # A horizontal line as long as the longest curve.
        constant = (smallest_errors[index],) * len(longest_queries)
        curves.append(Curve("best of the table", longest_queries, constant))
        plots.append(Plot(dataset, "queries", "test error, %", tuple(curves), joined=True))
    axis_note = (
        "The paper plots curves over search budgets and gives no numbers; ours are over queries. "
        "REINFORCE is left out."
    )
    return Findings(
        tuple(lines), (*table.sample.deviations, *COMMON_NOTES, axis_note), tuple(plots)
    )


def _compute_errors(
    table: MeasuredTable, searches: list[list[Arch]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of test errors over searches, (data sets, queries)."""
    # A search that starts with failures has fewer incumbents than queries.
    shortest = min(len(incumbents) for incumbents in searches)
    rows = []
    for incumbents in searches:
        rows.append(100 - table.read_test_accuracies(incumbents[:shortest]))
    errors = np.array(rows)
    return errors.mean(0), errors.std(0, ddof=1)


def _number_queries(count: int) -> tuple[float, ...]:
    return tuple(float(number) for number in range(1, count + 1))


def _choose_queries(count: int) -> list[int]:
    """Return the numbers of queries to report: a quarter, a half and all of them."""
    return sorted({count // 4, count // 2, count} - {0})


@experiment(
    "hnas-figure-5",
    PAPER,
    "Progress of the bound during Bayesian optimisation",
    "Spearman",
    samples=POOL_SIZE,
)
def figure_5(config: ExperimentConfig) -> Findings:
    """Figure 5: correlation of the test error on CIFAR-10 with its bound (M_Trace), step by step.
    mu and nu are those that gave the best validation accuracy so far."""
    table = measure_table(config, GRADIENT_METRICS["Trace"], KAPPA)
    searches = []
    for run in range(SEARCH_COUNT):
        searches.append(_correlate_bounds(table, make_generator("search", "HNAS (Trace)", run)))
    shortest = min(len(correlations) for correlations in searches)
    correlations = np.array([search[:shortest] for search in searches])
    mean = correlations.mean(0)
    spread = correlations.std(0, ddof=1)
    lines = []
    for query in _choose_queries(shortest):
        value = float(mean[query - 1])
        if np.isfinite(value):
            what = f"after {query} queries"
            lines.append(TableLine(what, None, value, spread=float(spread[query - 1])))
    curves = []
    # A curve with gaps would be drawn wrongly, so it is left out.
    if np.isfinite(mean).all():
        curves.append(Curve("mean", _number_queries(shortest), tuple(mean.tolist())))
    title = "Correlation of the bound with test error"
    plot = Plot(title, "queries", "Spearman", tuple(curves), joined=True)
    deviations = (
        *table.sample.deviations,
        *COMMON_NOTES,
        "The paper shows one curve and gives no numbers.",
    )
    return Findings(tuple(lines), deviations, (plot,))


def _correlate_bounds(table: MeasuredTable, rng: np.random.Generator) -> list[float]:
    """Run one search and return the correlation of the best bound so far after every query."""
    sample = table.sample
    strategy = make_hnas_strategy(table, rng, "trace")
    table.search_with_queries(strategy)
    # The correlation is over all measured architectures, not only over those that were queried.
    M = sample["trace"].mean(0)
    kappa = sample[KAPPA].mean(0)
    errors = 100 - sample.accuracies[0]
    best = None
    correlations = []
    for step in strategy.trace:
        if best is None or _is_better(step.value, best.value):
            best = step
        values = bound(M, kappa, best.mu, best.nu)
        finite = np.isfinite(values)
        correlation = spearman(values[finite], errors[finite])
        correlations.append(np.nan if correlation is None else correlation)
    return correlations


def _is_better(value: float | None, best: float | None) -> bool:
    """Return whether a validation accuracy exceeds the best so far; None is below all."""
    if value is None:
        return False
    return best is None or value > best

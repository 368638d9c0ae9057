"""HNAS (Shu et al.): how its searches on NAS-Bench-201 go on, query by query (Figures 2 and 5)."""

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas import FAMILY, PAPER
from untrained.papers.hnas_bounds import KAPPA
from untrained.papers.hnas_searches import (
    OURS,
    POOL,
    evolution,
    ground,
    hybrids,
    optimum,
    random_search,
    screen,
)
from untrained.papers.table_searches import QUERIES, RUNS, SETS, Ground, bayesian, runs
from untrained.proxies.hnas import bound
from untrained.reports.reproduction_facts import Curve, Plot, TableLine
from untrained.rng import generator
from untrained.types import Arch


@experiment("hnas-figure-2", PAPER, "Test error by the number of queries", "test error, %", samples=POOL)
def figure_2(effort: ExperimentConfig) -> Findings:
    """Figure 2: mean test error on the three data sets of what HNAS (Trace), random search, regularised evolution, and
    queries of the best by M_Trace have found after so many queries."""
    here = ground(effort, FAMILY["Trace"], KAPPA)
    algorithms = hybrids({"Trace": "trace"}) | {
        "Zero-cost (Trace)": screen("trace"),
        "REA": evolution(QUERIES),
        "RS": random_search(QUERIES),
    }
    found = {label: _errors(here, runs(here, label, search)) for label, search in algorithms.items()}
    least = 100 - np.array([line.ours for line in optimum(here)], dtype=float)
    lines, pictures = [], []
    for place, dataset in enumerate(SETS):
        curves = [Curve(label, _steps(mean[place]), tuple(mean[place].tolist())) for label, (mean, _) in found.items()]
        longest = max((curve.x for curve in curves), key=len)
        curves.append(Curve("best of the table", longest, (float(least[place]),) * len(longest)))
        pictures.append(Plot(dataset, "queries", "test error, %", tuple(curves), joined=True))
        for label, (mean, spread) in found.items():
            for step in sorted({len(mean[place]) // 4, len(mean[place]) // 2, len(mean[place])} - {0}):
                what = f"{label}, {dataset}, {step} queries"
                lines.append(TableLine(what, None, float(mean[place, step - 1]), spread=float(spread[place, step - 1])))
    note = "The paper draws curves without numbers along search budgets; ours are along queries. REINFORCE is left out."
    return Findings(tuple(lines), (*here.sample.deviations, *OURS, note), tuple(pictures))


def _errors(here: Ground, found: list[list[Arch]]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of test errors over searches, (data sets, queries)."""
    shortest = min(map(len, found))
    errors = np.array([100 - here.tests(archs[:shortest]) for archs in found])
    return errors.mean(0), errors.std(0, ddof=1)


def _steps(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(step) for step in range(1, len(values) + 1))


@experiment("hnas-figure-5", PAPER, "What Bayesian optimisation does to the bound", "Spearman", samples=POOL)
def figure_5(effort: ExperimentConfig) -> Findings:
    """Figure 5: correlation of test error on CIFAR-10 with the bound on it (M_Trace), whose mu and nu are those of the
    best validation accuracy so far, step by step."""
    here = ground(effort, FAMILY["Trace"], KAPPA)
    courses = [_course(here, generator("search", "HNAS (Trace)", run)) for run in range(RUNS)]
    shortest = min(map(len, courses))
    every = np.array([course[:shortest] for course in courses])
    mean, spread = every.mean(0), every.std(0, ddof=1)
    lines = [
        TableLine(f"after {step} queries", None, float(mean[step - 1]), spread=float(spread[step - 1]))
        for step in sorted({shortest // 4, shortest // 2, shortest} - {0})
        if np.isfinite(mean[step - 1])
    ]
    curves = (Curve("mean", _steps(mean), tuple(mean.tolist())),) if np.isfinite(mean).all() else ()
    picture = Plot("Correlation of the bound with test error", "queries", "Spearman", curves, joined=True)
    note = "The paper draws one curve without numbers."
    return Findings(tuple(lines), (*here.sample.deviations, *OURS, note), (picture,))


def _course(here: Ground, rng: np.random.Generator) -> list[float]:
    """The correlation after every query of one search."""
    sample = here.sample
    strategy = bayesian(here, rng, "trace")
    here.validated(strategy)
    M, kappa = sample["trace"].mean(0), sample[KAPPA].mean(0)
    course = []
    for asked in range(1, len(strategy.trace) + 1):
        best = max(strategy.trace[:asked], key=lambda query: -np.inf if query.value is None else query.value)
        values = bound(M, kappa, best.mu, best.nu)
        good = np.isfinite(values)
        found = spearman(values[good], 100 - sample.reached[0][good])
        course.append(np.nan if found is None else found)
    return course

"""HNAS's two bounds on the generalisation error, as scores of samples.

    M  a metric of gradients, higher is better            kappa  condition number of the tangent kernel
    realizable        1 / M                               (Corollary 1)
    non-realizable    kappa / M + mu |M^2 - nu|           (Corollary 2, Eq. 7), lower is better

Metrics differ by many orders of magnitude, so mu and nu are told without units: nu is a quantile of M^2, and mu makes
the median of the second term so many times that of the first. Two such numbers mean the same for every metric.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.statistics import spearman
from untrained.papers.samples import Measured, Scores
from untrained.papers.table_lines import STATISTICS, line
from untrained.proxies import hnas
from untrained.reports.reproduction_facts import TableLine

QUANTILES = tuple(np.linspace(0.05, 1.0, 20).tolist())
SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
Trade = tuple[float, float]  # the share of mu, the quantile of nu

SCENARIOS = ("realizable", "trade-off", "condition", "non-realizable")  # of Table 5: both terms apart, and together
BOTH = ("realizable", "non-realizable")
TRADED, CONDITIONED = ("trade-off", "non-realizable"), ("condition", "non-realizable")
KAPPA = "ntk_condition"
FITTED = (
    f"mu and nu are those of {len(SHARES) * len(QUANTILES)} pairs that rank the sample best, as the paper finds its "
    f"own by hundreds of steps of Bayesian optimisation; ours are relative to the median of kappa / M and to the "
    f"quantiles of M^2."
)
CODED = (
    "M_Grad and M_SNIP are those of the authors' code (zero-cost-nas: a sum of norms by layer, a sum over weights), "
    "M_GraSP its absolute value; kappa is computed in float64, and a singular kernel is a failure. A network that no "
    "gradient reaches has M = 0, so its bound is infinite and it counts last."
)


@dataclass(frozen=True)
class Case:
    """One row of a table: the metrics of a sample, its condition numbers, and what it reaches."""

    label: str
    metrics: Mapping[str, Scores]
    kappa: Scores
    reached: Scores
    note: str = ""  # how many have no condition number

    @property
    def dead(self) -> NDArray[np.bool_]:
        """Which networks no gradient reaches, seed by seed: nothing could be measured of them."""
        return np.asarray(np.isnan([self.kappa, *self.metrics.values()]).all(0))


def case(label: str, metrics: Mapping[str, str], sample: Measured, reached: Scores) -> Case:
    """A case of one measurement; GraSP counts by its absolute value."""
    found = {name: np.abs(sample[proxy]) for name, proxy in metrics.items()}
    return Case(label, found, sample[KAPPA], reached, sample.failed(KAPPA))


def bound(M: Scores, kappa: Scores | float = 1.0, trade: Trade | None = None) -> Scores:
    """kappa / M + mu |M^2 - nu|; lower is better, NaN where something is missing."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = kappa / M
        if trade is None or not np.isfinite(first).any():
            return np.asarray(first)
        mu, nu = hnas.trade(M, kappa, *trade)
        return np.asarray(hnas.bound(M, kappa, mu, nu))


def fitted(M: Scores, kappa: Scores, reached: Scores) -> Trade:
    """The trade-off that ranks best, by the mean over seeds."""

    def agreement(trade: Trade) -> float:
        found = [spearman(*_finite(-row, reached[0])) for row in bound(M, kappa, trade)]
        return float(np.mean([value for value in found if value is not None] or [-1.0]))

    return max(product(SHARES, QUANTILES), key=agreement)


def _finite(x: Scores, y: Scores) -> tuple[Scores, Scores]:
    both = np.isfinite(x) & np.isfinite(y)
    return x[both], y[both]


def scenario(name: str, M: Scores, kappa: Scores, trade: Trade | None = None) -> Scores:
    """The bound of a scenario, turned so that higher is better; `trade` where it has one."""
    return -bound(M, _kappa(name, kappa), trade)


def _kappa(scenario: str, kappa: Scores) -> Scores:
    """The condition number where the scenario has one, and else one."""
    return kappa if scenario in CONDITIONED else np.ones_like(kappa)


def _last(scores: Scores, dead: NDArray[np.bool_]) -> Scores:
    """The dead behind all others."""
    return np.where(dead, np.nanmin(scores, initial=np.inf) - 1.0, scores)


def judged(
    cases: Sequence[Case],
    base: Case | None,
    published: Mapping[str, tuple[float | None, ...]],
    scenarios: Sequence[str] = BOTH,
    statistics: Sequence[str] = ("Spearman", "Kendall"),
) -> list[TableLine]:
    """Lines of a table whose rows are scenario/case and whose columns are metrics, statistic by statistic. Trade-offs
    are those of the base case, or where there is none each row's own."""
    lines = []
    for how, each in product(scenarios, cases):
        home = base or each
        trades = {}
        if how in TRADED:
            trades = {name: fitted(M, _kappa(how, home.kappa), home.reached) for name, M in home.metrics.items()}
        numbers = iter(published[f"{how}/{each.label}"])
        for statistic, (name, M) in product(statistics, each.metrics.items()):
            what = f"{how}, {each.label}, {name}" + (f", {statistic}" if len(statistics) > 1 else "")
            scores = _last(scenario(how, M, each.kappa, trades.get(name)), each.dead)
            note = each.note if how in CONDITIONED else ""
            lines.append(line(what, next(numbers), STATISTICS[statistic], scores, each.reached, note))
    return lines

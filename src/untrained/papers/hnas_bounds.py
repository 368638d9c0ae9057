"""The two bounds of HNAS on the generalisation error, as scores of samples.

    M      a metric of gradients, higher is better
    kappa  condition number of the tangent kernel
    realizable        1 / M                               (Corollary 1)
    non-realizable    kappa / M + mu |M^2 - nu|           (Corollary 2, Eq. 7), lower is better
    square            kappa / M + mu (M^2 - nu)^2         the text of the paper

Metrics differ by many orders of magnitude, so mu and nu are expressed relative to the metric: nu as
a quantile of M^2, and mu as the ratio of the medians of the second and the first term. A pair of
values then has the same meaning for every metric.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.statistics import spearman
from untrained.papers.samples import Measurements, Scores, rank_last
from untrained.papers.table_lines import STATISTICS, make_correlation_line
from untrained.proxies import hnas
from untrained.reports.reproduction_result import TableLine
from untrained.seeds import make_generator

# The values of mu and nu that are tried, relative to the metric (`choose_mu_and_nu`).
NU_QUANTILES = tuple(np.linspace(0.05, 1.0, 20).tolist())
MU_SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
TradeOff = tuple[float, float]  # one of `MU_SHARES` and one of `NU_QUANTILES`

# The rows of Table 5: the two terms of the bound separately and together.
SCENARIOS = ("realizable", "trade-off", "condition", "non-realizable")
BOTH_BOUNDS = ("realizable", "non-realizable")
WITH_TRADE_OFF = ("trade-off", "non-realizable")
WITH_KAPPA = ("condition", "non-realizable")
KAPPA = "ntk_condition"
FITTED_NOTE = (
    f"mu and nu are the best of {len(MU_SHARES) * len(NU_QUANTILES)} pairs for ranking the sample; "
    "the paper finds them with hundreds of steps of Bayesian optimisation. Ours are relative to "
    "the median of kappa / M and to the quantiles of M^2."
)
CODE_NOTE = (
    "M_Grad and M_SNIP are those of the authors' code (zero-cost-nas: a sum of norms per layer, a "
    "sum over weights), M_GraSP is its absolute value; kappa is computed in float64, and a "
    "singular kernel is a failure."
)


@dataclass(frozen=True)
class BoundCase:
    """One row of a table.

    Attributes:
        label: Its name in the table.
        metrics: Scores of the gradient metrics by name.
        kappa: Condition numbers.
        accuracies: Accuracies of the networks.
        note: How many networks have no condition number.
        rank_failures_last: Whether networks without any score rank last; else they are left out.
    """

    label: str
    metrics: Mapping[str, Scores]
    kappa: Scores
    accuracies: Scores
    note: str = ""
    rank_failures_last: bool = False

    @property
    def lacks_all_scores(self) -> NDArray[np.bool_]:
        """Whether a network has no score at all, because no gradient reaches it.

        The shape is (seeds, architectures).
        """
        return np.asarray(np.isnan([self.kappa, *self.metrics.values()]).all(0))


def make_bound_case(
    label: str,
    metrics: Mapping[str, str],
    measurements: Measurements,
    accuracies: Scores,
) -> BoundCase:
    """Collect the scores of the metrics, of which the bounds use absolute values.

    Args:
        label: Name of the row.
        metrics: Names of the metrics in the table, and the proxies that compute them.
        measurements: The scores.
        accuracies: Accuracies of the same architectures.
    """
    # GraSP may be negative, and the bounds need positive metrics.
    metric_scores = {name: np.abs(measurements[proxy]) for name, proxy in metrics.items()}
    note = measurements.describe_failures(KAPPA)
    return BoundCase(
        label,
        metric_scores,
        measurements[KAPPA],
        accuracies,
        note,
        measurements.rank_failures_last,
    )


def compute_bound(
    M: Scores,
    kappa: Scores | float = 1.0,
    trade_off: TradeOff | None = None,
    variant: str = "default",
) -> Scores:
    """Return kappa / M + mu |M^2 - nu|; lower is better, NaN where a score is missing.

    Without a trade-off, return the first term alone.
    """
    # A metric of 0 gives an infinite bound, as intended.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first_term = kappa / M
        if trade_off is None or not np.isfinite(first_term).any():
            return np.asarray(first_term)
        mu, nu = hnas.choose_mu_and_nu(M, kappa, *trade_off, variant)
        return np.asarray(hnas.bound(M, kappa, mu, nu, variant))


def fit_trade_off(
    M: Scores, kappa: Scores, accuracies: Scores, variant: str = "default"
) -> TradeOff:
    """Return the trade-off whose bound ranks the sample best, by the mean over seeds."""

    def correlate(trade_off: TradeOff) -> float:
        values = []
        for row in compute_bound(M, kappa, trade_off, variant):
            finite = np.isfinite(row) & np.isfinite(accuracies[0])
            value = spearman(-row[finite], accuracies[0][finite])
            if value is not None:
                values.append(value)
        # A trade-off whose bounds are all infinite or missing must not win.
        return float(np.mean(values or [-1.0]))

    return max(product(MU_SHARES, NU_QUANTILES), key=correlate)


def score_scenario(
    name: str,
    M: Scores,
    kappa: Scores,
    trade_off: TradeOff | None = None,
    variant: str = "default",
) -> Scores:
    """Return the bound of a scenario, negated so that higher is better."""
    return -compute_bound(M, _select_kappa(name, kappa), trade_off, variant)


def _select_kappa(scenario: str, kappa: Scores) -> Scores:
    """Return the condition numbers if the scenario uses them, or else ones."""
    if scenario in WITH_KAPPA:
        return kappa
    return np.ones_like(kappa)


def score_held_out(
    name: str, M: Scores, kappa: Scores, accuracies: Scores, variant: str = "default"
) -> Scores:
    """Return the bound of a scenario on one half of the architectures, fitted to the other half.

    Scores of the half that mu and nu are fitted to are missing. The halves are random, and the same
    for all metrics and scenarios.
    """
    count = M.shape[1]
    order = make_generator("held out", count).permutation(count)
    fitted_half = order[: count // 2]
    kappa = _select_kappa(name, kappa)
    trade_off = fit_trade_off(
        M[:, fitted_half], kappa[:, fitted_half], accuracies[:, fitted_half], variant
    )
    scores = -compute_bound(M, kappa, trade_off, variant)
    scores[:, fitted_half] = np.nan
    return scores


def make_held_out_lines(
    cases: Sequence[BoundCase],
    published: Mapping[str, tuple[float | None, ...]],
    scenarios: Sequence[str] = WITH_TRADE_OFF,
) -> list[TableLine]:
    """Return Spearman correlations on the half of the architectures that bounds are not fitted to.

    Args:
        cases: The rows of the table, for each scenario.
        published: Numbers of the paper, as in `make_bound_lines`.
        scenarios: The bounds; only those with a trade-off are fitted.
    """
    lines = []
    for variant, suffix in (("default", "held out"), ("square", "square, held out")):
        for scenario, case in product(scenarios, cases):
            numbers = iter(published[f"{scenario}/{case.label}"])
            for name, M in case.metrics.items():
                what = f"{scenario}, {case.label}, {name}, Spearman, {suffix}"
                scores = score_held_out(scenario, M, case.kappa, case.accuracies, variant)
                line = make_correlation_line(
                    what, next(numbers), spearman, scores, case.accuracies, case.note
                )
                lines.append(replace(line, alternative=True))
    return lines


def make_bound_lines(
    cases: Sequence[BoundCase],
    base: BoundCase | None,
    published: Mapping[str, tuple[float | None, ...]],
    scenarios: Sequence[str] = BOTH_BOUNDS,
    statistics: Sequence[str] = ("Spearman", "Kendall"),
) -> list[TableLine]:
    """Correlate bounds with accuracies.

    Args:
        cases: The rows of the table, for each scenario.
        base: The case that trade-offs are fitted to; None to fit every row to itself.
        published: Numbers of the paper, by `SCENARIO/CASE`: statistic by statistic, and for each
            statistic metric by metric.
        scenarios: The bounds.
        statistics: The correlations.

    Returns:
        One line per scenario, case, statistic and metric, in this order.
    """
    lines = []
    for scenario, case in product(scenarios, cases):
        # Rows that share a trade-off can be compared with each other.
        fitted_case = base or case
        trade_offs = {}
        if scenario in WITH_TRADE_OFF:
            kappa = _select_kappa(scenario, fitted_case.kappa)
            for name, M in fitted_case.metrics.items():
                trade_offs[name] = fit_trade_off(M, kappa, fitted_case.accuracies)
        note = case.note if scenario in WITH_KAPPA else ""
        # Published rows list the metrics for the first statistic, then for the second.
        numbers = iter(published[f"{scenario}/{case.label}"])
        for statistic, (name, M) in product(statistics, case.metrics.items()):
            what = f"{scenario}, {case.label}, {name}"
            if len(statistics) > 1:
                what = f"{what}, {statistic}"
            scores = score_scenario(scenario, M, case.kappa, trade_offs.get(name))
            if case.rank_failures_last:
                scores = rank_last(scores, case.lacks_all_scores)
            line = make_correlation_line(
                what, next(numbers), STATISTICS[statistic], scores, case.accuracies, note
            )
            lines.append(line)
    return lines

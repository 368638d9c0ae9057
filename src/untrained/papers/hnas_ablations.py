"""HNAS (Shu et al.), appendix C.6: its bounds by initialisation, batch size and width."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.papers import measurements
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas import GRADIENT_METRICS, NB201, PAPER, SAMPLE_NOTE
from untrained.papers.hnas_bounds import (
    BOTH_BOUNDS,
    CODE_NOTE,
    FITTED_NOTE,
    KAPPA,
    BoundCase,
    make_bound_case,
    make_bound_lines,
    score_scenario,
)
from untrained.papers.samples import BenchmarkTask, Scores, measure_sample
from untrained.papers.table_lines import make_gain_line, parse_table
from untrained.reports.reproduction_result import TableLine

INITIALISATIONS = {"LeCun": "lecun", "Xavier": "xavier", "He": "he"}
TORCH_LABEL = "default of torch"
BATCH_SIZES = (4, 8, 16, 32, 64)
WIDTHS = (4, 8, 16, 32)

TABLE_10 = parse_table("""
realizable/LeCun       0.637 0.639 0.566 0.538  0.469 0.472 0.400 0.387
realizable/Xavier      0.608 0.627 0.449 0.465  0.445 0.463 0.316 0.334
realizable/He          0.609 0.615 0.340 0.460  0.446 0.454 0.242 0.334
non-realizable/LeCun   0.750 0.748 0.686 0.697  0.559 0.556 0.501 0.512
non-realizable/Xavier  0.676 0.685 0.615 0.635  0.493 0.501 0.442 0.460
non-realizable/He      0.607 0.611 0.505 0.569  0.436 0.439 0.358 0.407
""")

TABLE_11 = parse_table("""
M:4       0.737 0.741 0.671 0.684  0.547 0.550 0.487 0.501
M:8       0.739 0.743 0.676 0.689  0.549 0.552 0.492 0.506
M:16      0.747 0.748 0.685 0.690  0.556 0.556 0.499 0.507
M:32      0.750 0.748 0.687 0.690  0.558 0.556 0.502 0.506
M:64      0.750 0.748 0.686 0.697  0.559 0.556 0.501 0.512
kappa:4   0.578 0.585 0.569 0.509  0.416 0.421 0.402 0.362
kappa:8   0.597 0.603 0.591 0.542  0.429 0.433 0.419 0.386
kappa:16  0.628 0.633 0.620 0.582  0.462 0.455 0.442 0.414
kappa:32  0.663 0.666 0.645 0.621  0.479 0.481 0.462 0.445
kappa:64  0.750 0.748 0.686 0.697  0.559 0.556 0.501 0.512
""")

TABLE_12 = parse_table("""
M:4       0.744 0.746 0.688 0.732  0.550 0.552 0.499 0.539
M:8       0.750 0.753 0.707 0.744  0.556 0.559 0.515 0.550
M:16      0.753 0.753 0.728 0.750  0.558 0.559 0.535 0.556
M:32      0.755 0.756 0.736 0.752  0.560 0.562 0.543 0.558
kappa:4   0.755 0.756 0.736 0.752  0.560 0.562 0.543 0.558
kappa:8   0.720 0.722 0.700 0.709  0.529 0.531 0.512 0.522
kappa:16  0.698 0.700 0.677 0.681  0.511 0.514 0.492 0.498
kappa:32  0.686 0.688 0.664 0.664  0.501 0.503 0.481 0.484
""")


@experiment("hnas-table-10", PAPER, "Both bounds under three initialisations", "rank correlation")
def table_10(config: ExperimentConfig) -> Findings:
    """Table 10: correlation of test error with both bounds, NAS-Bench-201, CIFAR-10, with weights
    drawn by the rules of LeCun, Xavier (Glorot) and He."""
    proxies = {}
    for label, rule in INITIALISATIONS.items():
        for metric in (*GRADIENT_METRICS.values(), KAPPA):
            options = f"metric={metric},rule={rule}"
            proxies[label, metric] = f"{measurements.MODULE_NAME}:with_initialisation({options})"
    default_proxies = [*GRADIENT_METRICS.values(), KAPPA]
    sample = measure_sample(config, [*proxies.values(), *default_proxies], NB201)
    # One case per rule, in the order of the table.
    cases = []
    for label in INITIALISATIONS:
        metrics = {}
        for name, metric in GRADIENT_METRICS.items():
            # The sign of GraSP has no meaning for a bound.
            metrics[name] = np.abs(sample[proxies[label, metric]])
        kappa = proxies[label, KAPPA]
        note = sample.describe_failures(kappa)
        case = BoundCase(label, metrics, sample[kappa], sample.accuracies, note)
        cases.append(replace(case, rank_failures_last=sample.rank_failures_last))
    torch_case = make_bound_case(TORCH_LABEL, GRADIENT_METRICS, sample, sample.accuracies)
    published = dict(TABLE_10)
    for scenario in BOTH_BOUNDS:
        # The paper has no such row.
        published[f"{scenario}/{TORCH_LABEL}"] = (None,) * len(TABLE_10[f"{scenario}/LeCun"])
    lines = make_bound_lines([*cases, torch_case], cases[0], published, BOTH_BOUNDS)
    for name, M in cases[0].metrics.items():
        lecun_scores = score_scenario("realizable", M, cases[0].kappa)
        torch_scores = score_scenario("realizable", torch_case.metrics[name], torch_case.kappa)
        what = f"realizable, LeCun minus {TORCH_LABEL}, {name}, Spearman"
        line = make_gain_line(what, spearman, lecun_scores, torch_scores, sample.accuracies)
        lines.append(line)
    rules_note = (
        "The three rules draw from a normal distribution and set biases to zero; the paper does "
        f"not say which distribution it uses. {TORCH_LABEL.capitalize()} is the initialisation "
        "that all other experiments have: a uniform distribution with a third of the variance of "
        "LeCun's rule, also for biases. Trade-offs are fitted to the row of LeCun."
    )
    deviations = (*sample.deviations, SAMPLE_NOTE, FITTED_NOTE, CODE_NOTE, rules_note)
    return Findings(tuple(lines), deviations)


@experiment("hnas-table-11", PAPER, "The non-realizable bound by batch size", "rank correlation")
def table_11(config: ExperimentConfig) -> Findings:
    """Table 11: correlation of test error with the non-realizable bound, NAS-Bench-201, CIFAR-10:
    first the metric has batches of 4 to 64 images and the condition number batches of 64, then vice
    versa."""
    names = []
    for size in BATCH_SIZES:
        for proxy in GRADIENT_METRICS.values():
            names.append(f"{proxy}(samples={size})")
    for size in BATCH_SIZES:
        names.append(f"{KAPPA}(samples={size})")
    sample = measure_sample(config, names, NB201)
    metrics: dict[int, dict[str, Scores]] = {}
    kappas: dict[int, Scores] = {}
    for size in BATCH_SIZES:
        metrics[size] = {}
        for name, proxy in GRADIENT_METRICS.items():
            metrics[size][name] = np.abs(sample[f"{proxy}(samples={size})"])
        kappas[size] = sample[f"{KAPPA}(samples={size})"]
    lines = _make_size_lines(
        metrics,
        kappas,
        sample.accuracies,
        TABLE_11,
        fixed_kappa=64,
        fixed_metric=64,
        fitted_size=64,
        rank_failures_last=sample.rank_failures_last,
    )
    return Findings(lines, (*sample.deviations, SAMPLE_NOTE, FITTED_NOTE, CODE_NOTE))


@experiment("hnas-table-12", PAPER, "The non-realizable bound by width", "rank correlation")
def table_12(config: ExperimentConfig) -> Findings:
    """Table 12: correlation of test error with the non-realizable bound, NAS-Bench-201, CIFAR-10:
    first the metric is measured on networks with 4 to 32 channels and the condition number on those
    with 4, then the condition number on networks with 4 to 32 channels and the metric on those with
    32."""
    metrics: dict[int, dict[str, Scores]] = {}
    kappas: dict[int, Scores] = {}
    archs: tuple[str, ...] = ()
    deviations: list[str] = []
    for width in WIDTHS:
        task = BenchmarkTask(f"{width} channels", f"nasbench201(channels={width})", "cifar10")
        sample = measure_sample(config, [*GRADIENT_METRICS.values(), KAPPA], task, archs)
        # All widths use the same architectures.
        archs = tuple(str(arch) for arch in sample.truth.archs)
        metrics[width] = {}
        for name, proxy in GRADIENT_METRICS.items():
            metrics[width][name] = np.abs(sample[proxy])
        kappas[width] = sample[KAPPA]
        deviations += sample.deviations
    lines = _make_size_lines(
        metrics,
        kappas,
        sample.accuracies,
        TABLE_12,
        fixed_kappa=4,
        fixed_metric=32,
        fitted_size=16,
        rank_failures_last=sample.rank_failures_last,
    )
    return Findings(lines, (*deviations, SAMPLE_NOTE, FITTED_NOTE, CODE_NOTE))


def _make_size_lines(
    metrics: Mapping[int, Mapping[str, Scores]],
    kappas: Mapping[int, Scores],
    accuracies: Scores,
    published: Mapping[str, tuple[float | None, ...]],
    fixed_kappa: int,
    fixed_metric: int,
    fitted_size: int,
    rank_failures_last: bool,
) -> tuple[TableLine, ...]:
    """Correlate the bound with accuracies for several batch sizes or widths.

    First the size for the metric varies and that for the condition number is fixed, then vice
    versa.

    Args:
        metrics: Scores of the metrics by size.
        kappas: Condition numbers by size.
        accuracies: Accuracies of the networks.
        published: Numbers of the paper, by `M:SIZE` and `kappa:SIZE`.
        fixed_kappa: Size for the condition number while that of the metric varies.
        fixed_metric: Size for the metric while that of the condition number varies.
        fitted_size: Size for which the trade-off is fitted.
        rank_failures_last: Whether networks without any score rank last.
    """
    cases = []
    numbers = {}
    for size in metrics:
        case = BoundCase(f"{size} for M", metrics[size], kappas[fixed_kappa], accuracies)
        cases.append(replace(case, rank_failures_last=rank_failures_last))
        numbers[f"non-realizable/{case.label}"] = published[f"M:{size}"]
    for size in kappas:
        case = BoundCase(f"{size} for kappa", metrics[fixed_metric], kappas[size], accuracies)
        cases.append(replace(case, rank_failures_last=rank_failures_last))
        numbers[f"non-realizable/{case.label}"] = published[f"kappa:{size}"]
    # All sizes share one trade-off, so that lines differ by the size only.
    fitted_case = BoundCase("", metrics[fitted_size], kappas[fitted_size], accuracies)
    return tuple(make_bound_lines(cases, fitted_case, numbers, ("non-realizable",)))

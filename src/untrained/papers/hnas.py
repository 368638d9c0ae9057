"""HNAS (Shu et al., NeurIPS 2022): gradient metrics and bounds on the generalisation error.

The searches are in `hnas_searches.py`. The paper correlates the bounds with test error. We reverse
the sign of the bounds and correlate them with test accuracy, which gives the same numbers.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas_bounds import (
    BOTH_BOUNDS,
    CODE_NOTE,
    FITTED_NOTE,
    KAPPA,
    SCENARIOS,
    BoundCase,
    make_bound_case,
    make_bound_lines,
    make_held_out_lines,
)
from untrained.papers.samples import BenchmarkTask, Sample, Scores, find_images, measure_sample
from untrained.papers.table_lines import (
    BINS_NOTE,
    STATISTICS,
    make_correlation_line,
    parse_table,
    split_into_bins,
)
from untrained.reports.reproduction_result import Curve, Plot, TableLine

PAPER = "HNAS (Shu et al.)"
GRADIENT_METRICS = {"Grad": "grad_norm", "SNIP": "snip", "GraSP": "grasp", "Trace": "trace"}
OTHER_METRICS = {"KNAS": "knas", "Fisher": "fisher", "SynFlow": "synflow", "NASWOT": "naswot"}
NB201 = BenchmarkTask("NB201", dataset="cifar10")
NB101 = BenchmarkTask("NB101", "nasbench101", "cifar10")
DATASETS = {"C10": "cifar10", "C100": "cifar100", "IN-16": "ImageNet16-120"}
SUBSTITUTE_IMAGES = ("digits", "photos", "noise")
SAMPLE_NOTE = "The paper uses all architectures of the space; we use a sample."
NASWOT_NOTE = (
    "NASWOT in the code of HNAS is a log determinant of linear kernels; ours is that of the NASWOT "
    "paper."
)

TABLE_1 = parse_table("""
realizable/NB101      0.25 0.21 0.45 0.30  0.17 0.15 0.31 0.21
non-realizable/NB101  0.35 0.37 0.46 0.33  0.23 0.25 0.32 0.23
realizable/NB201      0.64 0.64 0.57 0.54  0.47 0.47 0.40 0.39
non-realizable/NB201  0.75 0.75 0.69 0.70  0.56 0.56 0.50 0.51
""")

TABLE_4 = parse_table("""
Grad/SNIP      0.98 0.98 0.87  1.00 1.00 0.97
Grad/GraSP     0.35 0.61 0.43  0.60 0.92 0.77
Grad/Trace     0.98 0.98 0.87  0.98 0.97 0.85
SNIP/GraSP     0.34 0.59 0.42  0.55 0.92 0.77
SNIP/Trace     0.94 0.93 0.77  0.97 0.96 0.83
GraSP/Trace    0.37 0.57 0.40  0.69 0.89 0.73
KNAS/Grad      0.95 0.96 0.83  0.88 0.94 0.80
KNAS/SNIP      0.91 0.92 0.75  0.87 0.94 0.78
KNAS/GraSP     0.37 0.65 0.46  0.45 0.87 0.69
KNAS/Trace     0.96 0.96 0.84  0.89 0.97 0.86
Fisher/Trace   0.69 0.97 0.85  0.30 0.78 0.69
SynFlow/Trace  0.02 0.50 0.34  0.07 0.49 0.35
NASWOT/Trace   0.08 0.11 0.08  0.10 0.32 0.22
""")

TABLE_5 = parse_table("""
realizable/C10        0.637 0.639 0.566 0.538  0.469 0.472 0.400 0.387
trade-off/C10         0.642 0.641 0.570 0.549  0.475 0.474 0.403 0.397
condition/C10         0.724 0.728 0.658 0.657  0.530 0.533 0.474 0.474
non-realizable/C10    0.750 0.748 0.686 0.697  0.559 0.556 0.501 0.512
realizable/C100       0.638 0.638 0.571 0.535  0.473 0.475 0.409 0.385
trade-off/C100        0.642 0.645 0.578 0.546  0.476 0.481 0.414 0.394
condition/C100        0.716 0.719 0.649 0.651  0.527 0.529 0.469 0.470
non-realizable/C100   0.740 0.746 0.680 0.686  0.552 0.557 0.498 0.504
realizable/IN-16      0.578 0.578 0.550 0.486  0.430 0.433 0.397 0.354
trade-off/IN-16       0.588 0.589 0.566 0.526  0.438 0.441 0.408 0.382
condition/IN-16       0.646 0.649 0.612 0.587  0.472 0.474 0.443 0.423
non-realizable/IN-16  0.682 0.685 0.655 0.660  0.505 0.506 0.480 0.482
""")

TABLE_6 = parse_table("""
realizable/C10        0.64 0.64 0.58 0.55
realizable/C100       0.64 0.64 0.58 0.54
realizable/IN-16      0.57 0.57 0.52 0.47
non-realizable/C10    0.75 0.75 0.69 0.69
non-realizable/C100   0.74 0.74 0.69 0.69
non-realizable/IN-16  0.69 0.69 0.63 0.65
""")

TABLE_13 = parse_table("""
realizable/C10        0.53 0.39 0.78 0.09  0.39 0.29 0.58 0.10
realizable/C100       0.53 0.39 0.76 0.09  0.38 0.29 0.57 0.11
realizable/IN-16      0.46 0.32 0.75 0.16  0.33 0.24 0.56 0.15
non-realizable/C10    0.66 0.51 0.81 0.05  0.49 0.37 0.61 0.03
non-realizable/C100   0.67 0.51 0.80 0.05  0.49 0.37 0.60 0.03
non-realizable/IN-16  0.62 0.44 0.78 0.05  0.45 0.32 0.59 0.03
""")


@experiment(
    "hnas-table-1",
    PAPER,
    "Both bounds against test error",
    "rank correlation",
    ("nasbench201", "nasbench101"),
)
def table_1(config: ExperimentConfig) -> Findings:
    """Table 1: correlation of test error with the bound of the realizable and of the non-realizable
    scenario, on CIFAR-10, for the architectures of NAS-Bench-101 and -201."""
    lines: list[TableLine] = []
    deviations: list[str] = []
    for task in (NB101, NB201):
        sample = measure_sample(config, [*GRADIENT_METRICS.values(), KAPPA], task)
        case = make_bound_case(task.label, GRADIENT_METRICS, sample, sample.accuracies)
        lines += make_bound_lines([case], case, TABLE_1)
        deviations += sample.deviations
    return Findings(tuple(lines), (*deviations, SAMPLE_NOTE, FITTED_NOTE, CODE_NOTE))


@experiment(
    "hnas-table-4",
    PAPER,
    "Correlations between gradient metrics",
    "correlation",
    ("nasbench201", "nasbench101"),
    better="",
)
def table_4(config: ExperimentConfig) -> Findings:
    """Table 4 (and Figure 1): Pearson, Spearman and Kendall correlation of any two metrics, for the
    architectures of NAS-Bench-101 and -201."""
    metrics = GRADIENT_METRICS | OTHER_METRICS
    statistics = ("Pearson", "Spearman", "Kendall")  # in the order of the table
    lines: list[TableLine] = []
    deviations: list[str] = []
    for task_index, task in enumerate((NB101, NB201)):
        sample = measure_sample(config, list(metrics.values()), task)
        deviations += sample.deviations
        # A row has the three statistics on NAS-Bench-101, then the three on NAS-Bench-201.
        for pair, numbers in TABLE_4.items():
            first, second = [metrics[name] for name in pair.split("/")]
            note = sample.describe_failures(first, second)
            task_numbers = numbers[3 * task_index : 3 * task_index + 3]
            for statistic, number in zip(statistics, task_numbers, strict=True):
                what = f"{task.label}, {pair}, {statistic}"
                # As in the bounds, where the sign of GraSP has no meaning.
                x = np.abs(sample[first])
                y = np.abs(sample[second])
                line = make_correlation_line(what, number, STATISTICS[statistic], x, y, note)
                lines.append(line)
    return Findings(tuple(lines), (*deviations, SAMPLE_NOTE, CODE_NOTE, NASWOT_NOTE))


@experiment(
    "hnas-table-5",
    PAPER,
    "Contributions of the trade-off and the condition number",
    "rank correlation",
)
def table_5(config: ExperimentConfig) -> Findings:
    """Table 5: correlation with test error of the realizable bound, with the trade-off, with the
    condition number, and with both, on the three data sets of NAS-Bench-201."""
    cases: list[BoundCase] = []
    deviations: list[str] = []
    archs: tuple[str, ...] = ()
    for label, dataset in DATASETS.items():
        task = BenchmarkTask(label, dataset=dataset)
        sample = measure_sample(config, [*GRADIENT_METRICS.values(), KAPPA], task, archs)
        # All data sets use the same architectures.
        archs = tuple(str(arch) for arch in sample.truth.archs)
        cases.append(make_bound_case(label, GRADIENT_METRICS, sample, sample.accuracies))
        deviations += sample.deviations
    lines = make_bound_lines(cases, None, TABLE_5, SCENARIOS)
    lines += make_held_out_lines(cases, TABLE_5)
    held_out_note = (
        "Only the rows labelled held out are unbiased: mu and nu are fitted to one half of the "
        "architectures, and the correlation is measured on the other half. Square uses F(x) = x^2 "
        "as in the text of the paper, instead of F(x) = |x| as in the authors' code."
    )
    deviations += [SAMPLE_NOTE, FITTED_NOTE, CODE_NOTE, held_out_note]
    return Findings(tuple(lines), tuple(deviations))


@experiment("hnas-table-6", PAPER, "Metrics computed on images of other data sets", "Spearman")
def table_6(config: ExperimentConfig) -> Findings:
    """Table 6: correlation of test error on one data set with bounds whose metrics are computed on
    images of other data sets; mean and standard deviation over the kinds of images."""
    return _correlate_across_images(config, GRADIENT_METRICS, TABLE_6, ("Spearman",))


@experiment(
    "hnas-table-13", PAPER, "Bounds with KNAS, Fisher, SynFlow and NASWOT", "rank correlation"
)
def table_13(config: ExperimentConfig) -> Findings:
    """Table 13: the same as Table 6 for KNAS and for three metrics that are not gradients of a
    loss."""
    findings = _correlate_across_images(config, OTHER_METRICS, TABLE_13, ("Spearman", "Kendall"))
    return Findings(findings.lines, (*findings.deviations, NASWOT_NOTE))


def _correlate_across_images(
    config: ExperimentConfig,
    metrics: Mapping[str, str],
    published: Mapping[str, tuple[float | None, ...]],
    statistics: Sequence[str],
) -> Findings:
    """Correlate the accuracies on every data set with metrics on every kind of images.

    The kinds of images take the place of seeds, so the spread of a line is over kinds of images.
    """
    tasks, substitutes_note = _choose_images(config)
    samples: list[Sample] = []
    archs: tuple[str, ...] = ()
    for task in tasks:
        sample = measure_sample(config, [*metrics.values(), KAPPA], task, archs)
        archs = tuple(str(arch) for arch in sample.truth.archs)
        samples.append(sample)
    image_cases = [make_bound_case("", metrics, sample, sample.accuracies) for sample in samples]
    first_case = image_cases[0]
    M = {}
    for name in metrics:
        M[name] = np.concatenate([case.metrics[name] for case in image_cases])
    kappa = np.concatenate([case.kappa for case in image_cases])
    cases = []
    for label, dataset in DATASETS.items():
        accuracies = samples[0].read_accuracies_on(dataset)
        cases.append(
            BoundCase(label, M, kappa, accuracies, first_case.note, first_case.rank_failures_last)
        )
    # mu and nu are fitted to CIFAR-10 and reused on the other data sets.
    base_accuracies = samples[0].read_accuracies_on("cifar10")
    base = BoundCase("", first_case.metrics, first_case.kappa, base_accuracies)
    lines = make_bound_lines(cases, base, published, BOTH_BOUNDS, statistics)
    deviations: list[str] = []
    for sample in samples:
        deviations += sample.deviations
    notes = (substitutes_note, SAMPLE_NOTE, FITTED_NOTE, CODE_NOTE)
    return Findings(tuple(lines), (*deviations, *notes))


def _choose_images(config: ExperimentConfig) -> tuple[list[BenchmarkTask], str]:
    """Choose the images that take the place of those of each data set, if these are missing.

    Returns:
        A task for each data set, and a sentence that names the substitutes.
    """
    unused = iter(SUBSTITUTE_IMAGES)
    tasks = []
    substitutes = []
    for label, dataset in DATASETS.items():
        if find_images(dataset, config.data_root):
            tasks.append(BenchmarkTask(label, dataset=dataset))
        else:
            data = next(unused)
            tasks.append(BenchmarkTask(data, dataset="cifar10", data=data))
            substitutes.append(f"{data} for {label}")
    if not substitutes:
        return tasks, ""
    replacements = ", ".join(substitutes)
    return tasks, f"Images that are not in the data root are replaced: {replacements}."


@experiment(
    "hnas-figure-4",
    PAPER,
    "Test error as a function of a metric, and the condition number within bins",
    "",
)
def figure_4(config: ExperimentConfig) -> Findings:
    """Figure 4: (a) mean test error on CIFAR-10 in 20 bins of each metric: it falls, then rises;
    (b) correlation of the condition number with test error within each bin."""
    sample = measure_sample(config, [*GRADIENT_METRICS.values(), KAPPA], NB201)
    errors = 100 - sample.accuracies[0]
    kappa = sample[KAPPA][0]
    lines = []
    kappa_curves = []
    plots = []
    for name, proxy in GRADIENT_METRICS.items():
        M = np.abs(sample[proxy])[0]
        bins = split_into_bins(M)
        mean_metrics = tuple(float(M[members].mean()) for members in bins)
        mean_errors = tuple(float(errors[members].mean()) for members in bins)
        what = f"{name}, bin of the smallest error, of {len(bins)} bins"
        lines.append(TableLine(what, None, 1.0 + int(np.argmin(mean_errors))))
        curve = Curve(name, mean_metrics, mean_errors)
        title = f"Mean test error by {name}"
        plots.append(Plot(title, f"M_{name}", "test error, %", (curve,), joined=True))
        bin_numbers = []
        correlations = []
        for number, members in enumerate(bins, 1):
            correlation = _correlate_kappa(kappa[members], errors[members])
            if correlation is not None:
                bin_numbers.append(float(number))
                correlations.append(correlation)
        kappa_curves.append(Curve(name, tuple(bin_numbers), tuple(correlations)))
        mean = float(np.mean(correlations)) if correlations else None
        what = f"{name}, mean correlation of the condition number with the error within a bin"
        lines.append(TableLine(what, None, mean))
    title = "Condition number and test error within bins"
    plots.append(Plot(title, "bin", "Spearman", tuple(kappa_curves), joined=True))
    deviations = (*sample.deviations, SAMPLE_NOTE, CODE_NOTE, BINS_NOTE)
    return Findings(tuple(lines), deviations, tuple(plots))


def _correlate_kappa(kappa: Scores, errors: Scores) -> float | None:
    """Return the rank correlation over the networks that have a condition number."""
    finite = np.isfinite(kappa)
    return spearman(kappa[finite], errors[finite])

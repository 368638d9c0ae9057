"""HNAS (Shu et al., NeurIPS 2022): tables and figures about gradient metrics and bounds on the generalisation error.

Its searches are in `hnas_searches.py`. All correlations are with test accuracy, signs turned: the paper's are with test
error, which says the same.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from untrained.benchmarks.statistics import spearman
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas_bounds import BOTH, CODED, FITTED, KAPPA, SCENARIOS, Case, case, judged
from untrained.papers.samples import Place, Sample, Scores, images_of, look
from untrained.papers.table_lines import STATISTICS, binned, grid, line
from untrained.reports.reproduction_facts import Curve, Plot, TableLine

PAPER = "HNAS (Shu et al.)"
FAMILY = {"Grad": "grad_norm", "SNIP": "snip", "GraSP": "grasp", "Trace": "trace"}
OTHERS = {"KNAS": "knas", "Fisher": "fisher", "SynFlow": "synflow", "NASWOT": "naswot"}
NB201, NB101 = Place("NB201", dataset="cifar10"), Place("NB101", "nasbench101", "cifar10")
SETS = {"C10": "cifar10", "C100": "cifar100", "IN-16": "ImageNet16-120"}
STAND_INS = ("digits", "photos", "noise")
EVERY = "The paper takes all architectures of the space; ours is a sample."
NOT_NASWOT = "The NASWOT of HNAS's code is a log determinant of linear kernels; ours is that of the NASWOT paper."

TABLE_1 = grid("""
realizable/NB101      0.25 0.21 0.45 0.30  0.17 0.15 0.31 0.21
non-realizable/NB101  0.35 0.37 0.46 0.33  0.23 0.25 0.32 0.23
realizable/NB201      0.64 0.64 0.57 0.54  0.47 0.47 0.40 0.39
non-realizable/NB201  0.75 0.75 0.69 0.70  0.56 0.56 0.50 0.51
""")

TABLE_4 = grid("""
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

TABLE_5 = grid("""
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

TABLE_6 = grid("""
realizable/C10        0.64 0.64 0.58 0.55
realizable/C100       0.64 0.64 0.58 0.54
realizable/IN-16      0.57 0.57 0.52 0.47
non-realizable/C10    0.75 0.75 0.69 0.69
non-realizable/C100   0.74 0.74 0.69 0.69
non-realizable/IN-16  0.69 0.69 0.63 0.65
""")

TABLE_13 = grid("""
realizable/C10        0.53 0.39 0.78 0.09  0.39 0.29 0.58 0.10
realizable/C100       0.53 0.39 0.76 0.09  0.38 0.29 0.57 0.11
realizable/IN-16      0.46 0.32 0.75 0.16  0.33 0.24 0.56 0.15
non-realizable/C10    0.66 0.51 0.81 0.05  0.49 0.37 0.61 0.03
non-realizable/C100   0.67 0.51 0.80 0.05  0.49 0.37 0.60 0.03
non-realizable/IN-16  0.62 0.44 0.78 0.05  0.45 0.32 0.59 0.03
""")


@experiment("hnas-table-1", PAPER, "Both bounds against test error", "rank correlation", ("nasbench201", "nasbench101"))
def table_1(effort: ExperimentConfig) -> Findings:
    """Table 1: correlation of test error with the bound of the realizable and of the non-realizable scenario, on
    CIFAR-10, for the architectures of NAS-Bench-101 and -201."""
    lines: list[TableLine] = []
    deviations: list[str] = []
    for place in (NB101, NB201):
        sample = look(effort, [*FAMILY.values(), KAPPA], place)
        here = case(place.label, FAMILY, sample, sample.reached)
        lines += judged([here], here, TABLE_1)
        deviations += sample.deviations
    return Findings(tuple(lines), (*deviations, EVERY, FITTED, CODED))


@experiment("hnas-table-4", PAPER, "Gradient metrics against each other", "correlation", ("nasbench201", "nasbench101"))
def table_4(effort: ExperimentConfig) -> Findings:
    """Table 4 (and Figure 1): Pearson, Spearman and Kendall correlation of any two metrics, for the architectures of
    NAS-Bench-101 and -201."""
    known = FAMILY | OTHERS
    lines: list[TableLine] = []
    deviations: list[str] = []
    order = ("Pearson", "Spearman", "Kendall")
    for start, place in enumerate((NB101, NB201)):
        sample = look(effort, list(known.values()), place)
        deviations += sample.deviations
        for pair, numbers in TABLE_4.items():
            names = [known[name] for name in pair.split("/")]
            M = [np.abs(sample[name]) for name in names]
            for statistic, number in zip(order, numbers[3 * start :], strict=False):
                what = f"{place.label}, {pair}, {statistic}"
                lines.append(line(what, number, STATISTICS[statistic], M[0], M[1], sample.failed(*names)))
    return Findings(tuple(lines), (*deviations, EVERY, CODED, NOT_NASWOT))


@experiment("hnas-table-5", PAPER, "What the trade-off and the condition number add", "rank correlation")
def table_5(effort: ExperimentConfig) -> Findings:
    """Table 5: correlation with test error of the realizable bound, with the trade-off, with the condition number, and
    with both, on the three data sets of NAS-Bench-201."""
    cases: list[Case] = []
    deviations: list[str] = []
    archs: tuple[str, ...] = ()
    for label, dataset in SETS.items():
        sample = look(effort, [*FAMILY.values(), KAPPA], Place(label, dataset=dataset), archs)
        archs = archs or tuple(map(str, sample.truth.archs))
        cases.append(case(label, FAMILY, sample, sample.reached))
        deviations += sample.deviations
    lines = judged(cases, None, TABLE_5, SCENARIOS)
    return Findings(tuple(lines), (*deviations, EVERY, FITTED, CODED))


@experiment("hnas-table-6", PAPER, "Metrics on images of another data set", "Spearman")
def table_6(effort: ExperimentConfig) -> Findings:
    """Table 6: correlation of test error on one data set with bounds whose metrics look at images of others; mean and
    standard deviation over the images."""
    return _transferred(effort, FAMILY, TABLE_6, ("Spearman",))


@experiment("hnas-table-13", PAPER, "Bounds with KNAS, Fisher, SynFlow and NASWOT", "rank correlation")
def table_13(effort: ExperimentConfig) -> Findings:
    """Table 13: the same as Table 6 for KNAS and for three metrics that are not gradients of a loss."""
    found = _transferred(effort, OTHERS, TABLE_13, ("Spearman", "Kendall"))
    return Findings(found.lines, (*found.deviations, NOT_NASWOT))


def _transferred(
    effort: ExperimentConfig,
    metrics: Mapping[str, str],
    published: Mapping[str, tuple[float | None, ...]],
    statistics: Sequence[str],
) -> Findings:
    """Every test accuracy against metrics of every kind of images; what varies over images stands as spread."""
    places, said = _images(effort)
    samples: list[Sample] = []
    for place in places:
        archs = tuple(map(str, samples[0].truth.archs)) if samples else ()
        samples.append(look(effort, [*metrics.values(), KAPPA], place, archs))
    seen = [case("", metrics, sample, sample.reached) for sample in samples]
    M = {name: np.concatenate([each.metrics[name] for each in seen]) for name in metrics}
    kappa, failed = np.concatenate([each.kappa for each in seen]), seen[0].note
    cases = [Case(label, M, kappa, samples[0].reached_on(dataset), failed) for label, dataset in SETS.items()]
    base = Case("", seen[0].metrics, seen[0].kappa, samples[0].reached_on("cifar10"))
    told = [deviation for sample in samples for deviation in sample.deviations]
    lines = judged(cases, base, published, BOTH, statistics)
    return Findings(tuple(lines), (*dict.fromkeys(told), said, EVERY, FITTED, CODED))


def _images(effort: ExperimentConfig) -> tuple[list[Place], str]:
    """Images of the three data sets, and stand-ins for those that are not here."""
    free, places, told = iter(STAND_INS), [], []
    for label, dataset in SETS.items():
        if images_of(dataset, effort.data_root):
            places.append(Place(label, dataset=dataset))
        else:
            stand_in = next(free)
            places.append(Place(stand_in, dataset="cifar10", data=stand_in))
            told.append(f"{stand_in} for {label}")
    return places, f"Images that are not under the data root have stand-ins: {', '.join(told)}." if told else ""


@experiment("hnas-figure-4", PAPER, "Test error along a metric, and the condition number within bins", "")
def figure_4(effort: ExperimentConfig) -> Findings:
    """Figure 4: (a) mean test error on CIFAR-10 in 20 bins of each metric: it falls, then rises; (b) correlation of the
    condition number with test error within each bin."""
    sample = look(effort, [*FAMILY.values(), KAPPA], NB201)
    here = case("", FAMILY, sample, 100 - sample.reached)  # test error
    lines, curves, pictures = [], [], []
    for name, M in here.metrics.items():
        groups = binned(M[0])
        x = tuple(float(M[0][group].mean()) for group in groups)
        error = tuple(float(here.reached[0][group].mean()) for group in groups)
        lines.append(
            TableLine(f"{name}, place of the least error, of {len(groups)} bins", None, 1.0 + int(np.argmin(error)))
        )
        pictures.append(
            Plot(f"Mean test error by {name}", f"M_{name}", "test error, %", (Curve(name, x, error),), True)
        )
        within = [_within(here.kappa[0][group], here.reached[0][group]) for group in groups]
        found = [(float(k), value) for k, value in enumerate(within, 1) if value is not None]
        curves.append(Curve(name, tuple(k for k, _ in found), tuple(value for _, value in found)))
        mean = float(np.mean([value for _, value in found])) if found else None
        lines.append(
            TableLine(f"{name}, mean correlation of the condition number with the error within a bin", None, mean)
        )
    pictures.append(Plot("Condition number and test error within bins", "bin", "Spearman", tuple(curves), True))
    own = "Bins hold equally many architectures; the paper does not say how it cuts. It gives no numbers."
    return Findings(tuple(lines), (*sample.deviations, EVERY, CODED, own), tuple(pictures))


def _within(kappa: Scores, error: Scores) -> float | None:
    good = np.isfinite(kappa)
    return spearman(kappa[good], error[good])

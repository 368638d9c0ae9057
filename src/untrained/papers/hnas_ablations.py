"""HNAS (Shu et al.), appendix C.6: what its bounds owe to initialisation, batch size and width."""

from collections.abc import Mapping

from untrained.papers import measurements
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.hnas import EVERY, FAMILY, NB201, PAPER
from untrained.papers.hnas_bounds import BOTH, CODED, FITTED, KAPPA, Case, case, judged
from untrained.papers.samples import Place, Scores, look
from untrained.papers.table_lines import grid
from untrained.reports.reproduction_facts import TableLine

INITS = {"LeCun": "lecun", "Xavier": "xavier", "He": "he"}
BATCHES, WIDTHS = (4, 8, 16, 32, 64), (4, 8, 16, 32)

TABLE_10 = grid("""
realizable/LeCun       0.637 0.639 0.566 0.538  0.469 0.472 0.400 0.387
realizable/Xavier      0.608 0.627 0.449 0.465  0.445 0.463 0.316 0.334
realizable/He          0.609 0.615 0.340 0.460  0.446 0.454 0.242 0.334
non-realizable/LeCun   0.750 0.748 0.686 0.697  0.559 0.556 0.501 0.512
non-realizable/Xavier  0.676 0.685 0.615 0.635  0.493 0.501 0.442 0.460
non-realizable/He      0.607 0.611 0.505 0.569  0.436 0.439 0.358 0.407
""")

TABLE_11 = grid("""
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

TABLE_12 = grid("""
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
def table_10(effort: ExperimentConfig) -> Findings:
    """Table 10: correlation of test error with both bounds, NAS-Bench-201, CIFAR-10, weights drawn by the rules of
    LeCun, Xavier (Glorot) and He."""
    measured = {
        (label, proxy): f"{measurements.NAME}:initialised(metric={proxy},how={how})"
        for label, how in INITS.items()
        for proxy in (*FAMILY.values(), KAPPA)
    }
    sample = look(effort, list(measured.values()), NB201)
    cases = []
    for label in INITS:
        metrics = {name: abs(sample[measured[label, proxy]]) for name, proxy in FAMILY.items()}
        kappa = measured[label, KAPPA]
        cases.append(Case(label, metrics, sample[kappa], sample.reached, sample.failed(kappa)))
    drawn = "All three rules are normal with biases of zero; the paper does not say whether its own are uniform."
    return Findings(tuple(judged(cases, cases[0], TABLE_10, BOTH)), (*sample.deviations, EVERY, FITTED, CODED, drawn))


@experiment("hnas-table-11", PAPER, "The non-realizable bound by batch size", "rank correlation")
def table_11(effort: ExperimentConfig) -> Findings:
    """Table 11: correlation of test error with the non-realizable bound, NAS-Bench-201, CIFAR-10: batches of 64 for the
    condition number and others for the metric, then the other way round."""
    sizes = {size: {name: f"{proxy}(samples={size})" for name, proxy in FAMILY.items()} for size in BATCHES}
    kappas = {size: f"{KAPPA}(samples={size})" for size in BATCHES}
    names = [name for metrics in sizes.values() for name in metrics.values()]
    sample = look(effort, [*names, *kappas.values()], NB201)
    metrics = {size: {name: abs(sample[proxy]) for name, proxy in found.items()} for size, found in sizes.items()}
    kappa = {size: sample[name] for size, name in kappas.items()}
    lines = _crossed(metrics, kappa, sample.reached, TABLE_11, kept=(64, 64), base=64)
    return Findings(lines, (*sample.deviations, EVERY, FITTED, CODED))


@experiment("hnas-table-12", PAPER, "The non-realizable bound by width", "rank correlation")
def table_12(effort: ExperimentConfig) -> Findings:
    """Table 12: correlation of test error with the non-realizable bound, NAS-Bench-201, CIFAR-10: networks of 4
    channels for the condition number and of others for the metric, then of others for the condition number and of 32
    for the metric."""
    metrics, kappas = {}, {}
    archs: tuple[str, ...] = ()
    told: list[str] = []
    for width in WIDTHS:
        place = Place(f"{width} channels", f"nasbench201(channels={width})", "cifar10")
        sample = look(effort, [*FAMILY.values(), KAPPA], place, archs)
        archs = archs or tuple(map(str, sample.truth.archs))
        seen = case("", FAMILY, sample, sample.reached)
        metrics[width], kappas[width] = seen.metrics, seen.kappa
        told += sample.deviations
    lines = _crossed(metrics, kappas, sample.reached, TABLE_12, kept=(4, 32), base=16)
    return Findings(lines, (*told, EVERY, FITTED, CODED))


def _crossed(
    metrics: Mapping[int, Mapping[str, Scores]],
    kappas: Mapping[int, Scores],
    reached: Scores,
    published: Mapping[str, tuple[float | None, ...]],
    kept: tuple[int, int],
    base: int,
) -> tuple[TableLine, ...]:
    """Every setting for the metric with one for the condition number, and the other way round."""
    cases = [Case(f"{size} for M", metrics[size], kappas[kept[0]], reached) for size in metrics]
    cases += [Case(f"{size} for kappa", metrics[kept[1]], kappas[size], reached) for size in kappas]
    said = {f"non-realizable/{size} for {which}": published[f"{which}:{size}"]
            for which in ("M", "kappa") for size in metrics}  # fmt: skip
    usual = Case("", metrics[base], kappas[base], reached)
    return tuple(judged(cases, usual, said, ("non-realizable",)))

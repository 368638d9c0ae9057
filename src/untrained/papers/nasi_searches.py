"""NASI (Shu et al., ICLR 2022): its searches on NAS-Bench-201 and NAS-Bench-1Shot1.

Every search has its own seed, which determines the supernet and the samples of architectures and
images. The accuracy of the winner is read from the table; nothing is trained. The tables of
NAS-Bench-1Shot1 contain only the cells that its paper lists, so a search returns the most likely of
these cells. A note counts the searches whose winner is also the most likely of all cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from untrained.benchmarks import BenchmarkTable, Metric, open_table
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.nasi import NO_S3_NOTE, PAPER, TABLES, WIDTH
from untrained.papers.samples import (
    BenchmarkTask,
    Scores,
    describe_substitute,
    describe_trial,
    find_cifar10,
    find_images,
    measure_sample,
)
from untrained.papers.searches import SearchOutcome, SearchPlan, run_searches
from untrained.papers.table_lines import join_notes, make_mean_line, parse_table
from untrained.reports.reproduction_result import Curve, Plot, TableLine
from untrained.runs.ranking import compute_margin
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.types import Genes

STEPS = 100  # steps of a search with the budget that the paper calls T
STEPS_PER_EPOCH = 782  # batches of 64 in the 50,000 training images of CIFAR-10
BATCH = 64
NB201_SPACE = "nasbench201"  # tests replace it by a space with smaller networks
NB201_TABLE = "nasbench201"  # the table with the accuracies of its cells
SPACES = {"S1": "nasbench1shot1_s1", "S2": "nasbench1shot1_s2"}
DATASETS = {"C10": "cifar10", "C100": "cifar100", "IN-16-120": "ImageNet16-120"}
# Epochs after which the accuracies of a table were measured.
TABLE_EPOCHS = {"nasbench201": 200, "nasbench1shot1_s1": 108, "nasbench1shot1_s2": 108}
# Options of the strategy for each kind of data in Table 2.
DATA_KINDS = {
    "standard": {},
    "random label": {"labels": "random"},
    "random data": {"inputs": "noise"},
}
WIDTHS = (2, 4, 8, 16, 32)
BATCH_SIZES = (8, 16, 32, 64, 128)
PERCENTILES = (25, 50, 75, 90, 95, 99, 100)  # of t, as values of nu

# test accuracy on the three data sets, then GPU seconds
TABLE_4 = parse_table("""
T   93.08 69.51 40.87  30
4T  93.55 71.20 44.84 120
""")
TABLE_2 = {"standard": (7.3, 7.2), "random label": (6.8, 7.0), "random data": (6.6, 7.5)}
TABLE_6 = parse_table("""
S1  7.0 8.3 8.0 7.3 6.5
S2  7.3 8.0 7.3 7.3 7.0
""")
TABLE_8 = parse_table("""
S1  6.8 6.7 6.7 6.0 7.0
S2  6.9 7.3 7.1 7.2 6.8
""")


@dataclass(frozen=True)
class SearchSetting:
    """How a search differs from those of Table 4.

    Attributes:
        space: Options of the space, such as `cells=2`.
        dataset: Data set of the images; None for CIFAR-10.
        nasi: Options of NASI.
    """

    space: str = ""
    dataset: str | None = None
    nasi: dict[str, Any] = field(default_factory=dict)


SETTINGS = {
    "as in table 4": SearchSetting(),
    "search on C100": SearchSetting(dataset="cifar100"),
    "search on IN-16-120": SearchSetting(dataset="ImageNet16-120"),
    "operation none allowed": SearchSetting(nasi={"zero": True}),
    "2 cells per stage": SearchSetting(space="cells=2"),
    "without norms": SearchSetting(nasi={"norms": False}),
    "mu = 2": SearchSetting(nasi={"mu": 2}),
    "mu = 0": SearchSetting(nasi={"mu": 0}),
    "nu fixed to the mean": SearchSetting(nasi={"nu": "fixed"}),
    "2 cells, without norms, nu fixed": SearchSetting(
        space="cells=2", nasi={"norms": False, "nu": "fixed"}
    ),
}

STEPS_NOTE = (
    f"A search of NAS-Bench-1Shot1 takes {STEPS} steps, as the paper's searches of DARTS do. The "
    f"paper uses one epoch for NAS-Bench-1Shot1, which is {STEPS_PER_EPOCH} steps; nasi-figure-2 "
    "has both."
)
CELLS_NOTE = (
    "The tables of NAS-Bench-1Shot1 contain the cells that its paper lists, and the search returns "
    "the most likely of these."
)
SETTINGS_NOTE = (
    "mu is 1 and nu adaptive from 1000 on all spaces; for NAS-Bench-201 the paper gives neither."
)


def search_with_nasi(
    config: ExperimentConfig, space: str, stage: str, data: str | None = None, **options: Any
) -> list[SearchOutcome]:
    """Search a space with NASI, once per seed.

    Args:
        config: Number of seeds, folder, device.
        space: The space.
        stage: Name of the stage in progress events.
        data: The images; None for those of CIFAR-10.
        **options: Options of the strategy that differ from `STEPS` steps and batches of `BATCH`.
    """
    # Without CIFAR-10 the experiment still runs, and a deviation says so.
    data = data or find_cifar10(config)
    settings = {"steps": STEPS, "batch": BATCH} | options
    if config.batch:
        settings["batch"] = min(settings["batch"], config.batch)
    arguments = ",".join(f"{name}={value}" for name, value in settings.items())
    strategy = f"nasi({arguments})"
    plans = [SearchPlan(space, strategy, data, seed) for seed in range(config.seeds)]
    return run_searches(config, plans, stage)


def read_accuracies(
    outcomes: Sequence[SearchOutcome], dataset: str, config: ExperimentConfig
) -> list[float]:
    """Read the test accuracies of winners from the table of their space."""
    table = _open_table_of_space(outcomes[0].arch.space, config)
    archs = [outcome.arch for outcome in outcomes]
    values = table.read_values(archs, _find_test_metric(table, dataset))
    return [float(value) for value in values]


def _open_table_of_space(space: str, config: ExperimentConfig) -> BenchmarkTable:
    # Options of a space, such as channels, are not part of the name of its table.
    return open_table(space.partition("(")[0], config.data_root)


def _find_test_metric(table: BenchmarkTable, dataset: str) -> Metric:
    """Return the metric of the test accuracy at the end of the trainings of a table."""
    return table.find_metric(dataset=dataset, split="test", epochs=TABLE_EPOCHS[table.name])


def _read_errors(outcomes: Sequence[SearchOutcome], config: ExperimentConfig) -> list[float]:
    """Read the test errors of winners on CIFAR-10 from the table of their space."""
    return [100 - accuracy for accuracy in read_accuracies(outcomes, "cifar10", config)]


def make_searches_line(
    what: str, published: float | None, values: Sequence[float], note: str = ""
) -> TableLine:
    """Average over searches, with the 95 % interval and the standard deviation.

    Searches without a value are excluded; the note counts them.
    """
    finite = [value for value in values if np.isfinite(value)]
    if len(finite) < len(values):
        missing = len(values) - len(finite)
        note = join_notes(note, f"{missing} of {len(values)} not in the table")
    if not finite:
        return TableLine(what, published, None, note=note)
    mean = fmean(finite)
    half_width = compute_margin(finite)
    if half_width is None:
        return TableLine(what, published, mean, note=note)
    low = mean - half_width
    high = mean + half_width
    return TableLine(what, published, mean, low, high, stdev(finite), note)


def read_random_accuracies(space: str, dataset: str, config: ExperimentConfig) -> Scores:
    """Return test accuracies of random architectures of a table, (1, architectures)."""
    table = _open_table_of_space(space, config)
    accuracies = table.read_column(_find_test_metric(table, dataset))
    finite = accuracies[np.isfinite(accuracies)]
    # The seed depends on table and data set only, so all experiments use the same architectures.
    shuffled = make_generator("at random", table.name, dataset).permutation(finite)
    return shuffled[None, : config.samples]


def read_convolution_accuracies(dataset: str, config: ExperimentConfig) -> Scores:
    """Return test accuracies of the 64 cells of NAS-Bench-201 with convolutions only, (1, 64)."""
    table = open_table(NB201_TABLE, config.data_root)
    cells = [cell for cell in table.list_archs() if cell.count("nor_conv") == 6]
    return table.read_values(cells, _find_test_metric(table, dataset))[None]


def is_most_likely(outcome: SearchOutcome) -> bool:
    """Return whether the winner has, for every choice, the option with the largest logit."""
    logits = {name: dict(options) for name, options in outcome.trace[-1]["alpha"]}
    return all(
        logits[name][option] == max(logits[name].values()) for name, option in outcome.arch.genes
    )


def _describe_most_likely(outcomes: Sequence[SearchOutcome]) -> str:
    count = sum(is_most_likely(outcome) for outcome in outcomes)
    return f"{count} of {len(outcomes)} are the most likely of all cells"


def _list_deviations(config: ExperimentConfig, *deviations: str) -> tuple[str, ...]:
    """Return these deviations and those that all searches share."""
    return (
        *deviations,
        SETTINGS_NOTE,
        describe_substitute(find_cifar10(config), "Supernets"),
        describe_trial(config, "supernets"),
    )


@experiment("nasi-table-4", PAPER, "NASI's searches on NAS-Bench-201", "test accuracy, %", seeds=10)
def table_4(config: ExperimentConfig) -> Findings:
    """Table 4: test accuracy on the three data sets of NAS-Bench-201 of the winners of NASI with a
    budget of T (30 seconds) and of four times that, mean and standard deviation over four
    searches."""
    lines: list[TableLine] = []
    for label, steps in (("T", STEPS), ("4T", 4 * STEPS)):
        outcomes = search_with_nasi(config, NB201_SPACE, f"NASI ({label})", steps=steps)
        lines += _make_search_lines(label, outcomes, config)
    lines += _make_baseline_lines(config)
    # The last outcomes are those of the longest searches.
    lines += _make_limit_lines(outcomes, config)
    converged = find_converged_cells(config)
    for name, cell in converged.cells.items():
        lines += _make_cell_lines(name, cell, config)
    for option, mean in sorted(converged.edge_means.items()):
        lines.append(TableLine(f"mean R with {option} on edge 3<-0", None, mean))
    deviations = _list_deviations(
        config,
        f"T is {STEPS} steps with {BATCH} images and 4T four times as many; the paper gives T in "
        "seconds on a GTX 1080 Ti.",
        "Every search uses CIFAR-10, and its winner is evaluated on all three data sets; the paper "
        "does not say whether it searches on each data set.",
        "The operation that returns zero is left out, as in the paper's searches of DARTS.",
        "Convolutions only: the mean of the 64 cells whose edges are all convolutions.",
        "With more steps, a search converges to the operation with the largest mean of G_t on each "
        "edge, because the running maximum settles. The limit is the mean over all steps of the "
        "searches with 4T. An edge is certain if the 95 % interval over searches of the difference "
        "between its best two operations is above 0.",
        f"Rows with nu need no supernet. For each of {converged.cell_count:,} cells, t is its "
        "trace norm and R = min(t, nu); each edge takes the operation with the largest mean R. "
        "Adaptive nu is the mean of t, the others are percentiles of t.",
    )
    return Findings(tuple(lines), deviations)


def _make_search_lines(
    label: str, outcomes: Sequence[SearchOutcome], config: ExperimentConfig
) -> list[TableLine]:
    """Compare the accuracies and the cost of searches with a row of Table 4.

    Args:
        label: Name of the row: "T" or "4T".
        outcomes: The searches with this budget.
        config: Configuration of the experiment.
    """
    *accuracies, published_seconds = TABLE_4[label]
    lines = []
    for (column, dataset), number in zip(DATASETS.items(), accuracies, strict=True):
        values = read_accuracies(outcomes, dataset, config)
        lines.append(make_searches_line(f"NASI ({label}), {column}", number, values))
    seconds = [outcome.seconds for outcome in outcomes]
    what = f"NASI ({label}), search cost, s"
    cost_line = make_searches_line(what, published_seconds, seconds)
    # Costs were measured on different machines, so neither of them is better.
    lines.append(replace(cost_line, better=""))
    return lines


def _make_baseline_lines(config: ExperimentConfig) -> list[TableLine]:
    """Return the mean accuracies of random architectures and of cells of convolutions only."""
    lines = []
    for column, dataset in DATASETS.items():
        random_accuracies = read_random_accuracies(NB201_SPACE, dataset, config)
        lines.append(make_mean_line(f"random architectures, {column}", None, random_accuracies))
        convolution_accuracies = read_convolution_accuracies(dataset, config)
        lines.append(make_mean_line(f"convolutions only, {column}", None, convolution_accuracies))
    return lines


def _make_limit_lines(
    outcomes: Sequence[SearchOutcome], config: ExperimentConfig
) -> list[TableLine]:
    """Return the accuracies of the cell to which searches converge, and how certain it is."""
    limit = find_gumbel_limit(outcomes)
    lines = _make_cell_lines("limit of straight-through Gumbel", limit.cell, config)
    what = "edges whose operation in that limit is certain"
    edges_note = f"of 6; {limit.steps:,} steps of {len(outcomes)} searches"
    lines.append(TableLine(what, None, float(limit.certain_edges), note=edges_note))
    return lines


def _make_cell_lines(name: str, cell: str, config: ExperimentConfig) -> list[TableLine]:
    """Read the test accuracies of a cell on all data sets."""
    table = open_table(NB201_TABLE, config.data_root)
    lines = []
    for column, dataset in DATASETS.items():
        accuracy = table.read_value(cell, _find_test_metric(table, dataset))
        lines.append(TableLine(f"{name}, {column}", None, accuracy, note=cell))
    return lines


@dataclass(frozen=True)
class GumbelLimit:
    """The cell to which searches converge with more and more steps.

    Attributes:
        cell: The cell.
        certain_edges: Number of edges whose operation is certain.
        steps: Number of steps that the limit is estimated from.
    """

    cell: str
    certain_edges: int
    steps: int


def find_gumbel_limit(outcomes: Sequence[SearchOutcome]) -> GumbelLimit:
    """Estimate the limit from the mean of G_t of several searches.

    Args:
        outcomes: The searches, with the same settings and different seeds.
    """
    gradients: dict[str, dict[str, list[float]]] = {}  # by edge and operation, one per search
    steps = 0
    for outcome in outcomes:
        run = outcome.trace[-1]
        steps += len(run["steps"])
        for edge, options in run["mean_gradient"]:
            by_operation = gradients.setdefault(edge, {})
            for operation, value in options:
                # Operations that the search left out have no number.
                if value is not None and np.isfinite(value):
                    by_operation.setdefault(operation, []).append(value)
    genes = []
    certain = 0
    for edge, by_operation in gradients.items():
        ranked = sorted(by_operation, key=lambda name: fmean(by_operation[name]), reverse=True)
        best, second = ranked[:2]
        genes.append((edge, best))
        differences = np.subtract(by_operation[best], by_operation[second]).tolist()
        margin = compute_margin(differences)
        if margin is not None and fmean(differences) > margin:
            certain += 1
    space = load_space(NB201_TABLE)
    return GumbelLimit(str(space.make_arch(tuple(genes))), certain, steps)


@dataclass(frozen=True)
class ConvergedCells:
    """The cells of NAS-Bench-201 that have, on each edge, the operation with the largest mean of R.

    Attributes:
        cells: One cell for each value of nu, by a description of that value.
        edge_means: Mean of R, with adaptive nu, for each operation on the edge from the input to
            the output of a cell.
        cell_count: Number of cells that this was computed from.
    """

    cells: dict[str, str]
    edge_means: dict[str, float]
    cell_count: int


def find_converged_cells(config: ExperimentConfig) -> ConvergedCells:
    """Choose the operation with the largest mean of R on each edge, without a search.

        t   the trace norm of a single cell, by the proxy `nasi_batch`
        R   min(t, nu), the objective of NASI, since mu is 1

    Adaptive nu converges to the mean of t. A search by straight-through Gumbel estimates gradients
    instead, so it may converge to other operations (`find_gumbel_limit`).
    """
    table = open_table(NB201_TABLE, config.data_root)
    space = load_space(NB201_TABLE)
    # NASI searches without the operation that returns zero.
    all_cells = [cell for cell in table.list_archs() if "none" not in cell]
    cells = make_generator("cells", table.name).permutation(all_cells)[: config.samples].tolist()
    task = BenchmarkTask("NB201", NB201_TABLE, "cifar10")
    sample = measure_sample(replace(config, seeds=1), ["nasi_batch"], task, cells)
    t = sample["nasi_batch"][0]
    genes_by_arch = [arch.genes for arch in sample.truth.archs]
    nu_by_name = {"best operation by mean R, adaptive nu": float(t.mean())}
    for percentile in PERCENTILES:
        nu_by_name[f"best operation by mean R, nu at percentile {percentile} of t"] = float(
            np.percentile(t, percentile)
        )
    cell_by_name = {}
    for name, nu in nu_by_name.items():
        best_genes = choose_best_options(np.minimum(t, nu), genes_by_arch)
        cell_by_name[name] = str(space.make_arch(best_genes))
    edge_means = average_by_option(np.minimum(t, t.mean()), genes_by_arch)["3<-0"]
    return ConvergedCells(cell_by_name, edge_means, len(cells))


def choose_best_options(R: Scores, genes_by_arch: Sequence[Genes]) -> Genes:
    """Return the genes that maximise Eq. 16, which Eq. 18 estimates.

    At alpha_0 the gradient of the mean of R in the direction of an option is
    p (mean of R with that option - mean of R), so the best option of each choice is the one with
    the largest mean of R.

    Args:
        R: One value per architecture.
        genes_by_arch: The genes of the same architectures.
    """
    genes = []
    for name, means in average_by_option(R, genes_by_arch).items():
        best_option = max(means, key=lambda option: means[option])
        genes.append((name, best_option))
    return tuple(genes)


def average_by_option(R: Scores, genes_by_arch: Sequence[Genes]) -> dict[str, dict[Any, float]]:
    """Return the mean of R over the architectures with an option, by choice and option."""
    arch_options = [dict(genes) for genes in genes_by_arch]
    means: dict[str, dict[Any, float]] = {}
    for name in arch_options[0]:
        options = [genes[name] for genes in arch_options]
        means[name] = {}
        for option in dict.fromkeys(options):
            has_option = [other == option for other in options]
            means[name][option] = float(R[has_option].mean())
    return means


@experiment(
    "nasi-table-4-settings",
    PAPER,
    "NASI's searches on NAS-Bench-201 with other settings",
    "test accuracy, %",
    seeds=10,
)
def table_4_settings(config: ExperimentConfig) -> Findings:
    """Table 4, continued: the paper states 93.55, 71.20 and 44.84 % with a budget of 4T, but not
    the settings of these searches. This experiment runs ten searches with each of several
    settings."""
    lines: list[TableLine] = []
    *published, _ = TABLE_4["4T"]
    for label, setting in SETTINGS.items():
        images = None
        if setting.dataset:
            images = find_images(setting.dataset, config.data_root)
            if images is None:
                continue
        space = _add_space_options(NB201_SPACE, setting.space)
        outcomes = search_with_nasi(config, space, label, images, steps=4 * STEPS, **setting.nasi)
        for (column, dataset), number in zip(DATASETS.items(), published, strict=True):
            # A search on the images of a data set is compared on that data set only.
            if setting.dataset not in (None, dataset):
                continue
            values = read_accuracies(outcomes, dataset, config)
            line = make_searches_line(f"{label}, {column}", number, values)
            lines.append(replace(line, alternative=True))
        limit = find_gumbel_limit(outcomes)
        lines += _make_cell_lines(f"{label}, limit of straight-through Gumbel", limit.cell, config)
    deviations = _list_deviations(
        config,
        f"Every search takes {4 * STEPS} steps with {BATCH} images; where a row does not say "
        "otherwise, the images are those of CIFAR-10, mu is 1, nu is adaptive from 1000, the "
        "operation none is excluded, the supernet has five cells per stage, and norms count as "
        "parameters.",
        "Of CIFAR-100 only a part of the images is available, and ImageNet16-120 is replaced by "
        "another data set of 16 pixels; rows whose images are missing are left out.",
        "The published numbers are those of 4T in Table 4; all rows are compared with the same "
        "numbers, so they are not counted.",
    )
    return Findings(tuple(lines), deviations)


def _add_space_options(space: str, options: str) -> str:
    """Return the name of a space with further options, such as `channels=4`."""
    if not options:
        return space
    if space.endswith(")"):
        return f"{space[:-1]},{options})"
    return f"{space}({options})"


@experiment(
    "nasi-figure-2",
    PAPER,
    "NASI's searches on NAS-Bench-1Shot1",
    "test error, %",
    TABLES,
    seeds=10,
    better="lower",
)
def figure_2(config: ExperimentConfig) -> Findings:
    """Figure 2: test error on CIFAR-10 of the winners of NASI in the spaces of NAS-Bench-1Shot1
    with a budget of one epoch, mean and standard error over ten searches; it is below that of
    random search."""
    budgets = {STEPS: f"{STEPS} steps", STEPS_PER_EPOCH: "one epoch"}
    lines: list[TableLine] = []
    plots: list[Plot] = []
    for label, space in SPACES.items():
        means: list[float] = []
        for steps, budget in budgets.items():
            searched_space = _set_channels(space, WIDTH)
            outcomes = search_with_nasi(config, searched_space, f"{label}, {budget}", steps=steps)
            errors = _read_errors(outcomes, config)
            note = _describe_most_likely(outcomes)
            line = make_searches_line(f"{label}, NASI, {budget}", None, errors, note)
            lines.append(line)
            # A search without an accuracy leaves a gap in the curve.
            means.append(float("nan") if line.ours is None else line.ours)
        random_errors = 100 - read_random_accuracies(space, "cifar10", config)
        lines.append(make_mean_line(f"{label}, random architectures", None, random_errors))
        epochs = tuple(steps / STEPS_PER_EPOCH for steps in budgets)
        random_mean = float(random_errors.mean())
        curves = (
            Curve("NASI", epochs, tuple(means)),
            Curve("random architectures", epochs, (random_mean,) * len(epochs)),
        )
        plots.append(Plot(label, "search budget, epochs", "test error, %", curves, joined=True))
    figure_note = (
        "The paper shows a figure without numbers. Of the other algorithms, only random search is "
        "included."
    )
    deviations = _list_deviations(config, figure_note, NO_S3_NOTE, CELLS_NOTE)
    return Findings(tuple(lines), deviations, tuple(plots))


@experiment(
    "nasi-table-2",
    PAPER,
    "NASI's searches with random labels and with random data",
    "test error, %",
    ("nasbench201", *TABLES),
    seeds=5,
    better="lower",
)
def table_2(config: ExperimentConfig) -> Findings:
    """Table 2: test error on CIFAR-10 of the winners of NASI in the spaces of NAS-Bench-1Shot1 and
    in DARTS, with the true labels and images, with random labels, and with Gaussian noise instead
    of images; five searches each."""
    lines: list[TableLine] = []
    for kind, options in DATA_KINDS.items():
        for (label, space), number in zip(SPACES.items(), TABLE_2[kind], strict=True):
            what = f"{label}, {kind}"
            outcomes = search_with_nasi(config, _set_channels(space, WIDTH), what, **options)
            errors = _read_errors(outcomes, config)
            lines.append(make_searches_line(what, number, errors, _describe_most_likely(outcomes)))
        what = f"NB201, {kind}"
        outcomes = search_with_nasi(config, NB201_SPACE, what, **options)
        lines.append(make_searches_line(what, None, _read_errors(outcomes, config)))
    darts_note = (
        "The column DARTS is left out, because its cells would have to be trained; NAS-Bench-201 "
        "is added."
    )
    deviations = _list_deviations(config, STEPS_NOTE, NO_S3_NOTE, darts_note, CELLS_NOTE)
    return Findings(tuple(lines), deviations)


@experiment(
    "nasi-table-6",
    PAPER,
    "NASI's searches with supernets of other widths",
    "test error, %",
    TABLES,
    seeds=5,
    better="lower",
)
def table_6(config: ExperimentConfig) -> Findings:
    """Table 6: test error on CIFAR-10 of the winners of NASI in the spaces of NAS-Bench-1Shot1 with
    supernets that start with 2 to 32 channels."""
    lines: list[TableLine] = []
    for label, space in SPACES.items():
        for channels, number in zip(WIDTHS, TABLE_6[label], strict=True):
            what = f"{label}, N = {channels}"
            if channels < 4:
                note = "its four nodes would share fewer than four channels"
                lines.append(TableLine(what, number, None, note=note))
                continue
            outcomes = search_with_nasi(config, _set_channels(space, channels), what)
            errors = _read_errors(outcomes, config)
            lines.append(make_searches_line(what, number, errors, _describe_most_likely(outcomes)))
    width_note = (
        "N is the number of channels of a cell, which its nodes share; the paper does not define N."
    )
    deviations = _list_deviations(config, STEPS_NOTE, NO_S3_NOTE, CELLS_NOTE, width_note)
    return Findings(tuple(lines), deviations)


@experiment(
    "nasi-table-8",
    PAPER,
    "NASI's searches with other batch sizes",
    "test error, %",
    TABLES,
    seeds=5,
    better="lower",
)
def table_8(config: ExperimentConfig) -> Findings:
    """Table 8: test error on CIFAR-10 of the winners of NASI in the spaces of NAS-Bench-1Shot1 with
    mini-batches of 8 to 128 images."""
    lines: list[TableLine] = []
    for label, space in SPACES.items():
        for batch, number in zip(BATCH_SIZES, TABLE_8[label], strict=True):
            what = f"{label}, b = {batch}"
            # In a quick trial, all larger batches would be the same one.
            if config.batch and batch > max(config.batch, BATCH_SIZES[0]):
                note = f"a trial sees at most {config.batch} images"
                lines.append(TableLine(what, number, None, note=note))
                continue
            outcomes = search_with_nasi(config, _set_channels(space, WIDTH), what, batch=batch)
            errors = _read_errors(outcomes, config)
            lines.append(make_searches_line(what, number, errors, _describe_most_likely(outcomes)))
    deviations = _list_deviations(config, STEPS_NOTE, NO_S3_NOTE, CELLS_NOTE)
    return Findings(tuple(lines), deviations)


def _set_channels(space: str, channels: int) -> str:
    return _add_space_options(space, f"channels={channels}")

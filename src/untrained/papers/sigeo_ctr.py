"""SiGeo (Zhou et al., arXiv:2311.13169): recommenders, searched and trained on tables of clicks.

The tables are expected in `ctr/` in the data root. They are samples of the logs of the paper, so
the networks can be compared with each other, but not with the published numbers.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from untrained.data import DataSource, load_data
from untrained.data_root import find_data_root
from untrained.errors import UsageError
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import describe_trial, limit_samples
from untrained.papers.sigeo import PAPER
from untrained.papers.table_lines import make_mean_line, parse_table
from untrained.reports.confirmation_result import BEST_OF_SEARCH, DesignResult
from untrained.reports.group_comparison import TrainedGroup, compare_groups
from untrained.reports.reproduction_result import Curve, Plot, TableLine
from untrained.spaces import load_space
from untrained.types import Arch
from untrained.workflows.design_trials import CTR_RECIPE, TableTrainer
from untrained.workflows.search import SearchResult, search

TABLES = {
    "criteo": "criteo_10k.csv.gz",
    "avazu": "avazu_10k.csv.gz",
    "frappe": "frappe_val_test.csv.gz",
}
SPACES = ("nasrec_small", "nasrec_full")
WARM_UP = "1%"  # share of the training rows on which a supernet is trained before the search
# Four batches of 512 rows, as in the authors' code. The weights after a warm-up are 1, 1, 1.
SIGEO = "sigeo(preset=recommendation,samples=2048)"
ZICO = "zico(batches=4,samples=2048)"
# The proxies of Figure 4: SiGeo and two of its terms alone.
FIGURE_4_PROXIES = {
    "sigeo": SIGEO,
    "zico": ZICO,
    "FR norm": "sigeo(l1=0,l2=1,l3=0,samples=2048)",
}
# The searches of Figure 3: label, proxy and warm-up.
FIGURE_3_SEARCHES = (
    ("zico without warm-up", ZICO, ""),
    ("sigeo without warm-up", "sigeo(samples=2048)", ""),
    ("zico after 1 %", ZICO, WARM_UP),
    ("sigeo after 1 %", SIGEO, WARM_UP),
)
TOP_COUNT = 15  # number of best architectures that are trained from scratch, as in the paper
ABLATION_TABLE = "criteo"  # the table of Figure 4

SAMPLES_NOTE = (
    "The tables are samples: 10,000 rows each of the logs of Criteo and of Avazu (the first hour), "
    "while the paper uses tens of millions, and Frappe instead of KDD Cup 2012. They are too small "
    "for larger networks to show their advantage."
)
WARM_UP_NOTE = (
    f"The warm-up uses {WARM_UP} of the training rows, as in the paper. For such a small table "
    "this is a single step with less than one batch of 512, while the paper has hundreds of steps."
)
RECIPE_NOTE = (
    f"All networks are trained with the recipe {CTR_RECIPE.name}. {CTR_RECIPE.differences}"
)

# log loss on Criteo and Avazu by SPACE/PROXY/WARM_UP, with the warm-up in per cent; the numbers of
# the figure are in Table 5
FIGURE_3 = parse_table("""
nasrec_small/zico/0   0.4408 0.3770
nasrec_full/zico/0    0.4404 0.3772
nasrec_small/sigeo/0  0.4404 0.3750
nasrec_full/sigeo/0   0.4404 0.3765
nasrec_small/zico/1   0.4404 0.3754
nasrec_full/zico/1    0.4403 0.3762
nasrec_small/sigeo/1  0.4396 0.3741
nasrec_full/sigeo/1   0.4397 0.3754
""")
FIGURE_3_TABLES = ("criteo", "avazu")  # the columns of `FIGURE_3`

# log loss and AUC on Criteo, then on Avazu; rows `SPACE@WARM_UP` are those of SiGeo
TABLE_5 = parse_table("""
dlrm             0.4436 0.8085  0.3814 0.7766
autoint          0.4427 0.8090  0.3813 0.7772
deepfm           0.4432 0.8086  0.3816 0.7757
nasrec_small@1%  0.4396 0.8117  0.3741 0.7898
nasrec_full@1%   0.4397 0.8116  0.3754 0.7876
""")
_TABLE_5_COLUMNS = (
    ("criteo", "log loss"),
    ("criteo", "AUC"),
    ("avazu", "log loss"),
    ("avazu", "AUC"),
)


@experiment(
    "sigeo-table-5",
    PAPER,
    "Click-through rates: winners of SiGeo and hand-designed networks",
    "log loss, AUC",
    needs=(),
    samples=200,
)
def table_5(config: ExperimentConfig) -> Findings:
    """Tables 1 and 5: log loss and AUC on the test rows of Criteo and Avazu, of the winners of
    SiGeo in NASRec's two spaces and of hand-designed networks."""
    lines: list[TableLine] = []
    for table in TABLES:
        reference_lines: list[TableLine] = []
        for space in SPACES:
            # Hand-designed networks do not depend on the space, so they are trained once.
            designs: Sequence[str] | None = None
            if reference_lines:
                designs = ()
            winner, *hand_designed = search_and_train(config, table, space, designs)
            lines += make_design_lines(table, space, winner)
            for design in hand_designed:
                reference_lines += make_design_lines(table, space, design)
        lines += reference_lines
    deviations = (
        SAMPLES_NOTE,
        WARM_UP_NOTE,
        "SiGeo has the weights of the paper after a warm-up, 1, 1, 1; the published numbers are "
        f"those of a warm-up of {WARM_UP}.",
        _describe_evolution(config),
        f"The best {TOP_COUNT} by the proxy are trained from scratch, as in the paper; the one "
        "with the lowest log loss on the validation rows is evaluated once on the test rows, as "
        "are the hand-designed networks.",
        RECIPE_NOTE,
        describe_trial(config, samples="rows"),
    )
    return Findings(tuple(lines), deviations)


@experiment(
    "sigeo-figure-4",
    PAPER,
    "Trained networks that were selected by SiGeo, ZiCo and the FR norm",
    "AUC, %",
    needs=(),
    samples=200,
)
def figure_4(config: ExperimentConfig) -> Findings:
    """Figure 4: results of training the best 15 networks by SiGeo and by each of two of its terms
    alone, after a warm-up of 1 %: without either term, SiGeo selects worse networks."""
    groups = {}
    for name, proxy in FIGURE_4_PROXIES.items():
        groups[name] = _train_best(config, name, proxy)
    lines = []
    curves = []
    for name, group in groups.items():
        lines.append(make_mean_line(f"best by {name}", None, np.array([group.finished_results])))
        ranks = tuple(range(1, 1 + len(group.finished_results)))
        curves.append(Curve(name, ranks, tuple(group.finished_results)))
    # The intervals are those of the difference between two groups of trained networks.
    sigeo_group, *term_groups = groups.values()
    for term_group in term_groups:
        if sigeo_group.finished_results and term_group.finished_results:
            comparison = compare_groups(sigeo_group, term_group)
            line = TableLine(
                f"best by {sigeo_group.name} minus best by {comparison.against}",
                None,
                comparison.difference,
                comparison.low,
                comparison.high,
                note=f"{comparison.shared} networks are in both groups",
            )
            lines.append(line)
    title = "Trained networks by their rank"
    plot = Plot(title, "rank by the proxy", "AUC on validation rows, %", tuple(curves))
    deviations = (
        "The paper shows box plots without numbers, so only the signs of the two differences can "
        "be compared.",
        SAMPLES_NOTE,
        f"Only the table {ABLATION_TABLE} and the space {SPACES[0]} are used; the paper does not "
        "say which ones it used.",
        WARM_UP_NOTE,
        _describe_evolution(config),
        "AUC is computed on the validation rows, which also select the epoch, because test rows "
        "are only used for a winner; the paper shows test results.",
        RECIPE_NOTE,
        describe_trial(config, samples="rows"),
    )
    return Findings(tuple(lines), deviations, (plot,))


@experiment(
    "sigeo-figure-3",
    PAPER,
    "Log loss of recommenders against search cost, by proxy and warm-up",
    "log loss",
    needs=(),
    samples=200,
    better="lower",
)
def figure_3(config: ExperimentConfig) -> Findings:
    """Figure 3: log loss of the winners on the test rows against the cost of the search, for SiGeo
    and ZiCo without a warm-up and after one of 1 %: SiGeo after 1 % is better than ZiCo and than
    both without a warm-up."""
    lines = []
    plots = []
    for column, table in enumerate(FIGURE_3_TABLES):
        for space in SPACES:
            curves = []
            for label, proxy, warm_up in FIGURE_3_SEARCHES:
                loss, seconds = _evaluate_winner(config, table, space, label, proxy, warm_up)
                space_name = space.partition("(")[0]
                proxy_name = label.partition(" ")[0]
                warm_up_percent = 1 if warm_up else 0
                published = FIGURE_3[f"{space_name}/{proxy_name}/{warm_up_percent}"]
                what = f"{table}, {space}, {label}"
                cost_note = f"scoring took {seconds:.0f} s" if seconds else "no training finished"
                lines.append(TableLine(what, published[column], loss, note=cost_note))
                if loss is not None:
                    curves.append(Curve(label, (seconds,), (loss,)))
            title = f"{table}, {space}"
            plots.append(Plot(title, "search, seconds", "test log loss", tuple(curves)))
    deviations = (
        SAMPLES_NOTE,
        WARM_UP_NOTE,
        "The figure shows the log loss of Table 5; searches of other authors are left out, and KDD "
        "Cup 2012 is not available.",
        "The weights of SiGeo are 1, 1, 0 without a warm-up and 1, 1, 1 after one.",
        _describe_evolution(config),
        f"The best {TOP_COUNT} by the proxy are trained from scratch; the one with the lowest log "
        "loss on the validation rows is evaluated once on the test rows. The time is that of "
        "scoring the architectures, without the warm-up and these trainings.",
        RECIPE_NOTE,
        describe_trial(config, samples="rows"),
    )
    return Findings(tuple(lines), deviations, tuple(plots))


def _evaluate_winner(
    config: ExperimentConfig, table: str, space: str, label: str, proxy: str, warm_up: str
) -> tuple[float | None, float]:
    """Search, train the best architectures, and evaluate the winner on the test rows.

    Returns:
        The log loss of the winner, None if no training finished, and the seconds of scoring.
    """
    result = _run_search(config, table, space, proxy, label.replace(" ", "-"), warm_up)
    trainer = _make_trainer(config, table, space, result.run.folder)
    metrics = trainer.train_candidates(_list_best_archs(result))
    if not metrics:
        return None, 0.0
    winner = min(metrics, key=lambda arch: metrics[arch]["loss"])
    (winner_result,) = trainer.compare_with_designs(winner, ())
    # Unlike the wall-clock time, this sum is the same if a finished search is only read.
    seconds = 0.0
    for record in result.records:
        seconds += record.build_seconds + record.transfer_seconds + record.measure_seconds
    return winner_result.loss, seconds


def _train_best(config: ExperimentConfig, name: str, proxy: str) -> TrainedGroup:
    """Train the best architectures by a proxy and return their AUC in per cent."""
    table = ABLATION_TABLE
    space = SPACES[0]
    result = _run_search(config, table, space, proxy, name.replace(" ", "-"))
    best = _list_best_archs(result)
    trainer = _make_trainer(config, table, space, config.folder)
    metrics = trainer.train_candidates(best)
    aucs = []
    for arch in best:
        aucs.append(100 * metrics[arch]["auc"] if arch in metrics else None)
    return TrainedGroup(name, f"the best by {proxy}", tuple(map(str, best)), tuple(aucs))


def search_and_train(
    config: ExperimentConfig, table: str, space: str, designs: Sequence[str] | None
) -> tuple[DesignResult, ...]:
    """Search on one table and train the best architectures.

    Args:
        config: Number of architectures and seeds, folder, device.
        table: Name of the table.
        space: The space.
        designs: Hand-designed networks that are trained as well; None for all of them.

    Returns:
        Results on the test rows: the winner, then the hand-designed networks.
    """
    result = _run_search(config, table, space, SIGEO, "")
    trainer = _make_trainer(config, table, space, result.run.folder)
    metrics = trainer.train_candidates(_list_best_archs(result))
    if not metrics:
        return (DesignResult(BEST_OF_SEARCH, error="no training finished"),)
    # The validation rows select the winner. Test rows are read only once, for the winner.
    winner = min(metrics, key=lambda arch: metrics[arch]["loss"])
    return trainer.compare_with_designs(winner, designs)


def _make_trainer(config: ExperimentConfig, table: str, space: str, folder: Path) -> TableTrainer:
    """Return an object that trains networks on a table and keeps the results in a folder."""
    data, source = _load_table(config, table, space)
    return TableTrainer(
        space=space,
        data=data,
        source=source,
        seed=0,
        compute=config.compute,
        folder=folder,
        on_progress=config.on_progress,
        data_root=config.data_root,
    )


def _list_best_archs(result: SearchResult) -> list[Arch]:
    return [standing.arch for standing in result.ranking.standings[:TOP_COUNT]]


def _load_table(config: ExperimentConfig, table: str, space: str) -> tuple[str, DataSource]:
    """Return the name of the data source of a table, and the data source."""
    data = f"{table}:{_find_table(config, table)}"
    return data, load_data(data, load_space(space).task, config.data_root)


def _run_search(
    config: ExperimentConfig,
    table: str,
    space: str,
    proxy: str,
    label: str,
    warm_up: str = WARM_UP,
) -> SearchResult:
    """Search by evolution, after a warm-up unless `warm_up` is empty, as in the paper."""
    name = f"{table}-{space}"
    if label:
        name = f"{name}-{label}"
    return search(
        space,
        proxy=limit_samples(proxy, config.batch),
        strategy="evolution(preset=sigeo)",
        budget=config.samples,
        data=f"{table}:{_find_table(config, table)}",
        warm_up=warm_up,
        seeds=config.seeds,
        run=Path(config.folder, name),
        on_progress=config.on_progress,
        **asdict(config.compute),
    )


def _find_table(config: ExperimentConfig, table: str) -> Path:
    path = find_data_root(config.data_root) / "ctr" / TABLES[table]
    if not path.is_file():
        raise UsageError(
            f"there is no table {path}; put the file there, or choose another data root with "
            "--data-root"
        )
    return path


def _describe_evolution(config: ExperimentConfig) -> str:
    return (
        f"Evolution with the settings of the paper scores {config.samples:,} architectures, the "
        "first 128 at random; the paper scores 2,048."
    )


def make_design_lines(table: str, space: str, design: DesignResult) -> list[TableLine]:
    """Return two lines about a trained network: log loss and AUC on the test rows.

    Args:
        table: Name of the table.
        space: The space that was searched.
        design: The result of the winner of the search or of a hand-designed network.
    """
    if design.name == BEST_OF_SEARCH:
        name = f"sigeo in {space}"
        published_row = f"{space.partition('(')[0]}@{WARM_UP}"
    else:
        name = design.name
        published_row = design.name
    # The paper has neither Frappe nor all of the hand-designed networks.
    published = dict(zip(_TABLE_5_COLUMNS, TABLE_5.get(published_row, ()), strict=False))
    loss_note = design.error
    if not loss_note and design.excess_loss is not None:
        loss_note = f"{design.excess_loss:+.4f} \u00b1 {design.margin:.4f} compared with {space}"
    return [
        TableLine(
            f"{table}, {name}, log loss",
            published.get((table, "log loss")),
            design.loss,
            note=loss_note,
            better="lower",
        ),
        TableLine(
            f"{table}, {name}, AUC",
            published.get((table, "AUC")),
            design.quality,
            note=design.error,
        ),
    ]

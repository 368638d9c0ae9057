"""SiGeo (Zhou et al., arXiv:2311.13169): its recommenders, searched, trained and judged on tables of clicks.

The tables are looked for under the data root, in `ctr/`: samples of the logs that the paper uses, so what is compared
is the method at equal data, not the published number.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from untrained._root import data_root
from untrained.data import Source, load
from untrained.errors import UsageError
from untrained.papers.experiment import ExperimentConfig, Findings, experiment
from untrained.papers.samples import capped
from untrained.papers.sigeo import PAPER
from untrained.papers.table_lines import grid, mean_line
from untrained.reports.reproduction_facts import Curve, Plot, TableLine
from untrained.spaces import load_space
from untrained.strategies.search import Result, search
from untrained.studies.confirm import Group, contrast
from untrained.studies.references import FOUND, RECIPE, Entry, Trials
from untrained.types import Arch

TABLES = {"criteo": "criteo_10k.csv.gz", "avazu": "avazu_10k.csv.gz", "frappe": "frappe_val_test.csv.gz"}
SPACES = ("nasrec_small", "nasrec_full")
WARM_UP = "1%"  # the share of the rows that a supernet learns from before the search
SIGEO = "sigeo(preset=recommendation)"  # the paper's weights after a warm-up: 1, 1, 1
TERMS = {"sigeo": SIGEO, "zico": "sigeo(l1=1,l2=0,l3=0)", "FR norm": "sigeo(l1=0,l2=1,l3=0)"}
TOP = 15  # the best by a proxy that are trained from scratch, as in the paper
ABLATION = "criteo"  # the table of Figure 4

SAMPLES = (
    "The tables are samples: 10,000 rows of Criteo's and of Avazu's log (the first hour) where the paper has tens of "
    "millions, and Frappe instead of KDD Cup 2012. Larger networks have little to learn from there."
)
FEW = (
    f"Warm-up is {WARM_UP} of the rows to learn from, as in the paper; of so small a table that is a single step of "
    f"less than one batch of 512, where the paper has hundreds of steps."
)

# log loss and AUC of Criteo, then of Avazu; `SPACE@WARM_UP` is SiGeo's
TABLE_5 = grid("""
dlrm             0.4436 0.8085  0.3814 0.7766
autoint          0.4427 0.8090  0.3813 0.7772
deepfm           0.4432 0.8086  0.3816 0.7757
nasrec_small@1%  0.4396 0.8117  0.3741 0.7898
nasrec_full@1%   0.4397 0.8116  0.3754 0.7876
""")
_COLUMNS = tuple((table, metric) for table in ("criteo", "avazu") for metric in ("log loss", "AUC"))


@experiment("sigeo-table-5", PAPER, "Click-through rates: what SiGeo finds beside networks made by hand",
      "log loss, AUC", needs=(), samples=200)  # fmt: skip
def table_5(effort: ExperimentConfig) -> Findings:
    """Tables 1 and 5: log loss and AUC on the test rows of Criteo and Avazu, of the networks that SiGeo finds in
    NASRec's two spaces and of networks made by hand."""
    lines: list[TableLine] = []
    for table in TABLES:
        by_hand: list[TableLine] = []
        for space in SPACES:
            ours, *others = searched(effort, table, space, () if by_hand else None)  # they are the same in both
            lines += compared(table, space, ours)
            by_hand += [line for entry in others for line in compared(table, space, entry)]
        lines += by_hand
    return Findings(tuple(lines), (
        SAMPLES,
        FEW,
        f"Weights of SiGeo are the paper's after a warm-up, 1, 1, 1; its numbers are those of {WARM_UP}.",
        _evolved(effort),
        f"The best {TOP} by the proxy are trained from scratch, as in the paper; the one of least log loss on the "
        "validation rows is judged once, on the test rows, as are the networks made by hand.",
        f"All are trained by the recipe {RECIPE.name}. {RECIPE.departs}",
        f"Networks look at no more than {effort.batch} rows: this is a trial." if effort.batch else "",
    ))  # fmt: skip


@experiment("sigeo-figure-4", PAPER, "Networks that SiGeo, ZiCo and the FR norm choose, trained", "AUC, %", needs=(),
      samples=200)  # fmt: skip
def figure_4(effort: ExperimentConfig) -> Findings:
    """Figure 4: what the best 15 networks by SiGeo and by each of two of its terms alone reach when they are trained,
    after a warm-up of 1 %: without either term SiGeo chooses worse ones."""
    reached = {name: _ablated(effort, name, proxy) for name, proxy in TERMS.items()}
    lines = [mean_line(f"best by {name}", None, np.array([group.known])) for name, group in reached.items()]
    whole, *terms = reached.values()
    for found in (contrast(whole, term) for term in terms if whole.known and term.known):
        what = f"best by {whole.name}, more than those by {found.against}"
        lines.append(TableLine(what, None, found.difference, found.low, found.high, note=f"{found.shared} are in both"))
    curves = tuple(Curve(name, tuple(range(1, 1 + len(g.known))), tuple(g.known)) for name, g in reached.items())
    picture = Plot("Trained networks by their rank", "rank by the proxy", "AUC on validation rows, %", curves)
    return Findings(tuple(lines), (
        "The paper draws boxes and prints no numbers: whether the two differences are above zero can be compared.",
        SAMPLES,
        f"Of the tables {ABLATION} and of the spaces {SPACES[0]} are searched; the paper does not say which it draws.",
        FEW,
        _evolved(effort),
        "AUC is that of the validation rows, by which the epoch is chosen too, since test rows are kept for a winner; "
        "the paper's are test numbers.",
        f"All are trained by the recipe {RECIPE.name}. {RECIPE.departs}",
        f"Networks look at no more than {effort.batch} rows: this is a trial." if effort.batch else "",
    ), (picture,))  # fmt: skip


def _ablated(effort: ExperimentConfig, name: str, proxy: str) -> Group:
    """The best by a proxy and what each reaches, in per cent of AUC."""
    table, space = ABLATION, SPACES[0]
    best = _best(_searched(effort, table, space, proxy, name.replace(" ", "-")))
    said = Trials(space, *_data(effort, table, space), 0, effort.compute, effort.folder, effort.on_progress).validated(
        best
    )
    reached = tuple(100 * said[arch]["auc"] if arch in said else None for arch in best)
    return Group(name, f"the best by {proxy}", tuple(map(str, best)), reached)


def searched(effort: ExperimentConfig, table: str, space: str, by_hand: Sequence[str] | None) -> tuple[Entry, ...]:
    """What a search on one table finds, and the networks made by hand, all of them unless some are named."""
    found = _searched(effort, table, space, SIGEO, "")
    trials = Trials(space, *_data(effort, table, space), 0, effort.compute, found.run.folder, effort.on_progress)
    said = trials.validated(_best(found))
    if not said:
        return (Entry(FOUND, error="not one training came to an end"),)
    return trials.compared(min(said, key=lambda arch: said[arch]["loss"]), by_hand)


def _best(found: Result) -> list[Arch]:
    return [standing.arch for standing in found.ranking.standings[:TOP]]


def _data(effort: ExperimentConfig, table: str, space: str) -> tuple[str, Source]:
    """What to type for a table, and what that is."""
    data = f"{table}:{_path(effort, table)}"
    return data, load(data, load_space(space).task, effort.data_root)


def _searched(effort: ExperimentConfig, table: str, space: str, proxy: str, label: str) -> Result:
    """Evolution after a warm-up, as in the paper."""
    name = "-".join(filter(None, (table, space, label)))
    return search(
        space,
        capped(proxy, effort.batch),
        "evolution(preset=sigeo)",
        effort.samples,
        f"{table}:{_path(effort, table)}",
        warm_up=WARM_UP,
        seeds=effort.seeds,
        run=Path(effort.folder, name),
        watch=effort.on_progress,
        **asdict(effort.compute),
    )


def _path(effort: ExperimentConfig, table: str) -> Path:
    path = data_root(effort.data_root) / "ctr" / TABLES[table]
    if not path.is_file():
        raise UsageError(f"there is no table {path}; put the log there, or say where it is by --data-root")
    return path


def _evolved(effort: ExperimentConfig) -> str:
    return (
        f"Evolution with the settings of the paper judges {effort.samples:,} architectures, the first 128 at random; "
        f"the paper judges 2,048."
    )


def compared(table: str, space: str, entry: Entry) -> list[TableLine]:
    """Two lines: log loss and AUC on the test rows, of what was found in the space or of what stands beside it."""
    found = entry.name == FOUND
    name = f"sigeo in {space}" if found else entry.name
    published = f"{space.partition('(')[0]}@{WARM_UP}" if found else entry.name
    known = dict(zip(_COLUMNS, TABLE_5.get(published, ()), strict=False))
    apart = "" if entry.behind is None else f"{entry.behind:+.4f} \u00b1 {entry.margin:.4f} beside {space}"
    values = {"log loss": (entry.loss, entry.error or apart), "AUC": (entry.auc, entry.error)}
    return [
        TableLine(f"{table}, {name}, {metric}", known.get((table, metric)), value, note=note)
        for metric, (value, note) in values.items()
    ]

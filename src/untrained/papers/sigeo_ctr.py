"""SiGeo (Zhou et al., arXiv:2311.13169): its recommenders, searched, trained and judged on tables of clicks.

The tables are looked for under the data root, in `ctr/`: samples of the logs that the paper uses, so what is compared
is the method at equal data, not the published number.
"""

from pathlib import Path
from typing import Any

from untrained._root import data_root
from untrained.errors import UsageError
from untrained.papers._item import Effort, Findings, Line, item
from untrained.papers._lines import grid
from untrained.papers._sample import capped
from untrained.papers.sigeo import PAPER
from untrained.strategies.search import search
from untrained.studies.confirm import Confirmation
from untrained.studies.references import FOUND, RECIPE, Entry

TABLES = {"criteo": "criteo_10k.csv.gz", "avazu": "avazu_10k.csv.gz", "frappe": "frappe_val_test.csv.gz"}
SPACES = ("nasrec_small", "nasrec_full")
WARM_UP = "0%"  # the share of the rows that a supernet learns from before the search
TOP = 5  # that are trained from scratch; the paper's are 15

# log loss and AUC of Criteo, then of Avazu; `SPACE@WARM_UP` is SiGeo's
TABLE_5 = grid("""
dlrm             0.4436 0.8085  0.3814 0.7766
autoint          0.4427 0.8090  0.3813 0.7772
deepfm           0.4432 0.8086  0.3816 0.7757
nasrec_small@1%  0.4396 0.8117  0.3741 0.7898
nasrec_full@1%   0.4397 0.8116  0.3754 0.7876
nasrec_small@0%  0.4404 0.8109  0.3750 0.7882
nasrec_full@0%   0.4404 0.8108  0.3765 0.7856
""")
_COLUMNS = tuple((table, metric) for table in ("criteo", "avazu") for metric in ("log loss", "AUC"))


@item("sigeo-table-5", PAPER, "Click-through rates: what SiGeo finds beside networks made by hand", "log loss, AUC",
      needs=(), samples=200)  # fmt: skip
def table_5(effort: Effort) -> Findings:
    """Tables 1 and 5: log loss and AUC on the test rows of Criteo and Avazu, of the networks that SiGeo finds in
    NASRec's two spaces and of networks made by hand."""
    lines: list[Line] = []
    for table in TABLES:
        found = {space: searched(effort, table, space) for space in SPACES}
        for space, confirmed in found.items():
            entry = confirmed.entries[0] if confirmed else Entry(FOUND, error="not one training came to an end")
            lines += compared(table, f"sigeo in {space}", f"{space.partition('(')[0]}@{WARM_UP}", entry)
        by_hand = next((confirmed.entries[1:] for confirmed in found.values() if confirmed), ())
        lines += [line for entry in by_hand for line in compared(table, entry.name, entry.name, entry)]
    return Findings(tuple(lines), (
        "The tables are samples: 10,000 rows of Criteo's and of Avazu's log (the first hour) where the paper has tens "
        "of millions, and Frappe instead of KDD Cup 2012. Larger networks have little to learn from there.",
        f"Warm-up is {WARM_UP}; the numbers of the paper are those of the same warm-up.",
        f"Evolution with the settings of the paper judges {effort.samples:,} architectures, the first 128 at random; "
        "the paper judges 2,048.",
        f"The best {TOP} by the proxy, as many by size and at random are trained from scratch (in the paper, 15); "
        "the one of least log loss on the validation rows is trained on all rows and judged once.",
        f"All are trained by the recipe {RECIPE.name}. {RECIPE.departs}",
        f"Networks look at no more than {effort.batch} rows: this is a trial." if effort.batch else "",
    ))  # fmt: skip


def searched(effort: Effort, table: str, space: str) -> Confirmation | None:
    """What a search on one table says of its winner and of the references."""
    path = data_root(effort.data_root) / "ctr" / TABLES[table]
    if not path.is_file():
        raise UsageError(f"there is no table {path}; put the log there, or say where it is by --data-root")
    warmed: dict[str, Any] = {} if WARM_UP == "0%" else {"warm_up": WARM_UP}
    crew = effort.crew
    found = search(
        space,
        capped("sigeo", effort.batch),
        "evolution(preset=sigeo)",
        effort.samples,
        f"{table}:{path}",
        confirm=min(TOP, effort.samples),
        seeds=effort.seeds,
        device=crew.device,
        workers=crew.workers,
        ray=crew.ray,
        time_limit=crew.time_limit,
        run=Path(effort.folder, f"{table}-{space}"),
        watch=effort.watch,
        **warmed,
    )
    return found.confirmed


def compared(table: str, name: str, published: str, entry: Entry) -> list[Line]:
    """Two lines: log loss and AUC on the test rows."""
    known = dict(zip(_COLUMNS, TABLE_5.get(published, ()), strict=False))
    apart = "" if entry.behind is None else f"{entry.behind:+.4f} \u00b1 {entry.margin:.4f} beside {SPACES[0]}"
    values = {"log loss": (entry.loss, entry.error or apart), "AUC": (entry.auc, entry.error)}
    return [
        Line(f"{table}, {name}, {metric}", known.get((table, metric)), value, note=note)
        for metric, (value, note) in values.items()
    ]

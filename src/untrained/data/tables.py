"""Tables to predict clicks from: any CSV or parquet file, and four public logs whose columns are known.

This file only knows names. What reads them is imported when a table is opened.
"""

from dataclasses import replace
from pathlib import Path

from untrained.data._options import Options, parse, split_query
from untrained.data._source import Source, source
from untrained.errors import UsageError
from untrained.types import Task

COUNTS = tuple(f"I{i}" for i in range(1, 14))
HASHES = tuple(f"C{i}" for i in range(1, 27))
KDD_DENSE = ("impression", "depth", "position")
KDD_IDENTIFIERS = ("display_url", "ad_id", "advertiser_id", "query_id", "keyword_id", "title_id", "description_id",
                   "user_id")  # fmt: skip
KDD = ("click", "impression", *KDD_IDENTIFIERS[:3], "depth", "position", *KDD_IDENTIFIERS[3:])
FRAPPE = tuple(f"f{i}" for i in range(10))


@source("csv", "csv:PATH, a table with a header, also compressed; csv:clicks.csv?label=click&drop=id", own=True)
def csv(argument: str, like: Task, root: Path) -> Source:
    return _open("csv", argument, Options(), root)


@source("parquet", "parquet:PATH, a table in one parquet file; the options of csv", own=True)
def parquet(argument: str, like: Task, root: Path) -> Source:
    return _open("parquet", argument, Options(), root)


@source(
    "criteo",
    "criteo:PATH, the Criteo display log: tab-separated as published, or CSV with label,I1..I13,C1..C26",
    own=True,
)
def criteo(argument: str, like: Task, root: Path) -> Source:
    usual = Options(label="label", dense=COUNTS, categorical=HASHES, log="all")
    return _open("criteo", argument, usual, root, ("label", *COUNTS, *HASHES))


@source("avazu", "avazu:PATH, the Avazu log, CSV as published; all columns are identifiers", own=True)
def avazu(argument: str, like: Task, root: Path) -> Source:
    codes = ("hour", "C1", "banner_pos", "device_type", "device_conn_type", *(f"C{i}" for i in range(14, 22)))
    words = tuple(f"{what}_{part}" for what in ("site", "app") for part in ("id", "domain", "category"))
    device = ("device_id", "device_ip", "device_model")
    return _open("avazu", argument, Options(label="click", drop=("id",), categorical=(*codes, *words, *device)), root)


@source("kdd2012", "kdd2012:PATH, training.txt of the KDD Cup 2012 (track 2); a click is one click or more", own=True)
def kdd2012(argument: str, like: Task, root: Path) -> Source:
    usual = Options(label="click", above=0, dense=KDD_DENSE, categorical=KDD_IDENTIFIERS, log="all")
    return _open("kdd2012", argument, usual, root, KDD)


@source("frappe", "frappe:PATH, the Frappe log with columns label,f0..f9, or its libfm files", own=True)
def frappe(argument: str, like: Task, root: Path) -> Source:
    usual = Options(label="label", above=0, drop=("split",), categorical=FRAPPE)
    return _open("frappe", argument, usual, root, ("label", *FRAPPE), " ")


def _open(
    kind: str, argument: str, usual: Options, root: Path, names: tuple[str, ...] = (), separator: str = ""
) -> Source:
    path, query = split_query(argument)
    if not path:
        raise UsageError(f"say which file: {kind}:PATH, such as --data {kind}:./clicks.{kind}")
    from untrained.data._reader import open_csv, open_parquet
    from untrained.data._table import open_table

    file = Path(path)
    table = open_parquet(file) if kind == "parquet" else open_csv(file, names, separator)
    usual = replace(usual, drop=tuple(name for name in usual.drop if name in table.columns))
    return open_table(f"{kind}:{file.name}", table, parse(query, usual), root)

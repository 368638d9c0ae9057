"""Data sources of tables: any CSV or parquet file, and four public click logs.

The modules that read tables are imported when a table is opened, because importing pyarrow and
pandas takes a second.
"""

from dataclasses import replace
from pathlib import Path

from untrained.data.registry import register_source
from untrained.data.source import DataSource
from untrained.data.tables.options import TableOptions, parse_table_options, split_query
from untrained.errors import UsageError
from untrained.types import Task

CRITEO_COUNTS = tuple(f"I{number}" for number in range(1, 14))
CRITEO_IDENTIFIERS = tuple(f"C{number}" for number in range(1, 27))
AVAZU_IDENTIFIERS = (
    "hour",
    "C1",
    "banner_pos",
    "device_type",
    "device_conn_type",
    *(f"C{number}" for number in range(14, 22)),
    "site_id",
    "site_domain",
    "site_category",
    "app_id",
    "app_domain",
    "app_category",
    "device_id",
    "device_ip",
    "device_model",
)
KDD_COLUMNS = (
    "click",
    "impression",
    "display_url",
    "ad_id",
    "advertiser_id",
    "depth",
    "position",
    "query_id",
    "keyword_id",
    "title_id",
    "description_id",
    "user_id",
)
KDD_NUMBERS = ("impression", "depth", "position")
KDD_IDENTIFIERS = tuple(name for name in KDD_COLUMNS[1:] if name not in KDD_NUMBERS)
FRAPPE_IDENTIFIERS = tuple(f"f{number}" for number in range(10))
# File names for the message if the user names no file; those of logs are the published ones.
_EXAMPLE_FILES = {
    "csv": "clicks.csv",
    "parquet": "clicks.parquet",
    "criteo": "train.txt",
    "avazu": "train.csv",
    "kdd2012": "training.txt",
    "frappe": "frappe.csv",
}


@register_source(
    "csv:PATH, a table with a header, also compressed; csv:clicks.csv?label=click&drop=id",
    belongs_to_user=True,
    is_table=True,
)
def csv(argument: str, like: Task, root: Path) -> DataSource:
    return _open_file("csv", argument, TableOptions(), root)


@register_source(
    "parquet:PATH, a table in one parquet file; the options of csv",
    belongs_to_user=True,
    is_table=True,
)
def parquet(argument: str, like: Task, root: Path) -> DataSource:
    return _open_file("parquet", argument, TableOptions(), root)


@register_source(
    "criteo:PATH, the Criteo display log: tab-separated as published, "
    "or CSV with label,I1..I13,C1..C26",
    belongs_to_user=True,
    is_table=True,
)
def criteo(argument: str, like: Task, root: Path) -> DataSource:
    defaults = TableOptions(
        label="label", dense=CRITEO_COUNTS, categorical=CRITEO_IDENTIFIERS, log="all"
    )
    columns = ("label", *CRITEO_COUNTS, *CRITEO_IDENTIFIERS)
    return _open_file("criteo", argument, defaults, root, columns)


@register_source(
    "avazu:PATH, the Avazu log, CSV as published; all columns are identifiers",
    belongs_to_user=True,
    is_table=True,
)
def avazu(argument: str, like: Task, root: Path) -> DataSource:
    defaults = TableOptions(label="click", drop=("id",), categorical=AVAZU_IDENTIFIERS)
    return _open_file("avazu", argument, defaults, root)


@register_source(
    "kdd2012:PATH, training.txt of the KDD Cup 2012 (track 2); the label is 1 for any click",
    belongs_to_user=True,
    is_table=True,
)
def kdd2012(argument: str, like: Task, root: Path) -> DataSource:
    defaults = TableOptions(
        label="click", above=0, dense=KDD_NUMBERS, categorical=KDD_IDENTIFIERS, log="all"
    )
    return _open_file("kdd2012", argument, defaults, root, KDD_COLUMNS)


@register_source(
    "frappe:PATH, the Frappe log with columns label,f0..f9, or its libfm files",
    belongs_to_user=True,
    is_table=True,
)
def frappe(argument: str, like: Task, root: Path) -> DataSource:
    defaults = TableOptions(label="label", above=0, drop=("split",), categorical=FRAPPE_IDENTIFIERS)
    columns = ("label", *FRAPPE_IDENTIFIERS)
    return _open_file("frappe", argument, defaults, root, columns, separator=" ")


def _open_file(
    kind: str,
    argument: str,
    defaults: TableOptions,
    root: Path,
    columns: tuple[str, ...] = (),
    separator: str = "",
) -> DataSource:
    """Open a table.

    Args:
        kind: Name of the data source.
        argument: Path and options.
        defaults: Options that hold unless the user overrides them.
        root: Data root, which holds the cache of encoded tables.
        columns: Names of the columns of a file without a header.
        separator: Separator of a file that has none of the usual ones.
    """
    path, query = split_query(argument)
    if not path:
        example = f"{kind}:./{_EXAMPLE_FILES[kind]}"
        raise UsageError(f"name the file: {kind}:PATH, such as --data {example}")
    from untrained.data.tables.reader import Table, open_csv, open_parquet
    from untrained.data.tables.source import open_table

    def open_file(file: Path) -> Table:
        if kind == "parquet":
            return open_parquet(file)
        return open_csv(file, columns, separator)

    file = Path(path)
    table = open_file(file)
    # Not every version of a log has the columns that are dropped by default.
    dropped_columns = tuple(name for name in defaults.drop if name in table.columns)
    options = parse_table_options(query, replace(defaults, drop=dropped_columns))
    test_table = None
    if options.test:
        test_table = open_file(Path(options.test).expanduser())
    return open_table(f"{kind}:{file.name}", table, options, root, test_table)

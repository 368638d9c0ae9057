"""Read the CSV files that this project prepared from the published benchmarks."""

from io import BytesIO
from pathlib import Path

import pandas as pd

from untrained.benchmarks.table import PublishedScore
from untrained.benchmarks.table_builder import TableBuilder, describe_source
from untrained.errors import UsageError
from untrained.readers.compressed_file import read_whole_file
from untrained.readers.limits import describe_error

SUITE_ZERO = "NAS-Bench-Suite-Zero (NASLib)"
# The proxies of NAS-Bench-Suite-Zero.
PROXIES = (
    "epe_nas",
    "fisher",
    "flops",
    "grad_norm",
    "grasp",
    "jacov",
    "l2_norm",
    "nwot",
    "params",
    "plain",
    "snip",
    "synflow",
    "zen",
)
# These columns are strings of digits, which may start with zeros.
_TEXT_COLUMNS = ("ops", "arch", "matrix")


def find_files(path: Path, folder: str, *names: str) -> list[Path] | None:
    """Find files in a folder, or in the folder of the benchmark inside it.

    Args:
        path: The folder that the user named.
        folder: Name of the folder of the benchmark.
        *names: Names of the files. The first one is required, the others are optional.

    Returns:
        The files that exist, or None if the first one does not.
    """
    for parent in (path / folder, path):
        files = [parent / name for name in names]
        if files[0].is_file():
            return [file for file in files if file.is_file()]
    return None


def read_csv(file: Path, *columns: str) -> pd.DataFrame:
    """Read a CSV file that must have these columns.

    Raises:
        UsageError: The file is damaged, or a column is missing.
    """
    try:
        content = BytesIO(read_whole_file(file))
        table = pd.read_csv(content, dtype=dict.fromkeys(_TEXT_COLUMNS, str))
    except Exception as error:  # a damaged file can raise almost any error
        raise UsageError(f"{file} is not a readable CSV file: {describe_error(error)}") from error
    missing = [column for column in columns if column not in table]
    if missing:
        raise UsageError(f"{file} has no column {', '.join(missing)}")
    return table


def make_builder(files: list[Path]) -> TableBuilder:
    """Return an empty builder with these files as its sources."""
    sources = [describe_source(file.name, [file]) for file in files]
    return TableBuilder(*sources)


def add_suite_zero_scores(
    builder: TableBuilder, table: pd.DataFrame, archs: list[str], dataset: str, run: str
) -> None:
    """Add the columns of a CSV file that are scores of NAS-Bench-Suite-Zero."""
    for proxy in PROXIES:
        if proxy in table:
            score = PublishedScore(proxy, dataset, run, source=SUITE_ZERO)
            builder.add_values(archs, score, table[proxy])

"""Reading the CSV files of our own data folder. Digits are strings: they have leading zeros."""

from io import BytesIO
from pathlib import Path

import pandas as pd

from untrained.benchmarks._rows import Rows, source
from untrained.benchmarks._table import Score
from untrained.errors import UsageError
from untrained.readers.compressed_file import read_whole_file
from untrained.readers.limits import describe_error

SUITE_ZERO = "NAS-Bench-Suite-Zero (NASLib)"
PROXIES = "epe_nas fisher flops grad_norm grasp jacov l2_norm nwot params plain snip synflow zen".split()


def files(path: Path, folder: str, *names: str) -> list[Path] | None:
    """These files in a folder, or in the folder of the benchmark inside it; None where the first is in neither."""
    for place in (path / folder, path):
        if (place / names[0]).is_file():
            return [place / name for name in names if (place / name).is_file()]
    return None


def frame(file: Path, *columns: str) -> pd.DataFrame:
    """Read the table in a CSV file, which must have these columns."""
    text_columns = dict.fromkeys(("ops", "arch", "matrix"), str)
    try:
        table = pd.read_csv(BytesIO(read_whole_file(file)), dtype=text_columns)
    except Exception as error:  # damaged text or compression can raise anything
        raise UsageError(f"{file} is no readable CSV file: {describe_error(error)}") from error
    missing = [column for column in columns if column not in table]
    if missing:
        raise UsageError(f"{file} has no column {', '.join(missing)}")
    return table


def rows_of(found: list[Path]) -> Rows:
    return Rows(*(source(file.name, [file]) for file in found))


def put_scores(rows: Rows, table: pd.DataFrame, archs: list[str], dataset: str, run: str) -> None:
    """The columns that are scores of NAS-Bench-Suite-Zero."""
    for proxy in PROXIES:
        if proxy in table:
            rows.put_all(archs, Score(proxy, dataset, run, source=SUITE_ZERO), table[proxy])

"""A user's own table: results of trainings, as CSV, parquet or a pandas DataFrame.

    arch,accuracy,loss
    "depth=1,width=4",0.81,0.62
    "depth=2,width=8",0.84,0.55

The column `arch` holds architectures in the notation of the space. Every other column of numbers is
a metric. Several rows of an architecture are trainings with different seeds: their mean is the
known result, and their differences show the noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.table import BenchmarkTable, Metric
from untrained.benchmarks.table_builder import (
    average_over_seeds,
    describe_source,
    make_arch_reader,
)
from untrained.data.tables.reader import MISSING, BadRows, open_csv, open_parquet
from untrained.errors import UsageError, make_unknown_name_error
from untrained.formatting import format_count
from untrained.quantities import parse_path, show_value
from untrained.readers.limits import (
    MemoryAllowance,
    clean_detail,
    describe_error,
    name_file_in_errors,
)

if TYPE_CHECKING:
    import pandas as pd

    from untrained.spaces import Space

ARCH_COLUMN = "arch"
DEFAULT_METRIC = "accuracy"
# With fewer architectures no statistic is defined.
MIN_ARCHS = 3
# Lower values are better if the name of a metric contains one of these words.
_LOWER_IS_BETTER = (
    "error",
    "loss",
    "perplexity",
    "latency",
    "seconds",
    "time",
    "energy",
    "memory",
    "params",
    "flops",
)
# A parquet file starts with these bytes.
_PARQUET_MAGIC = b"PAR1"
# Memory of a Python object that holds one cell.
_CELL_BYTES = 64


@dataclass(frozen=True)
class TableRows:
    """The cells of a table.

    Attributes:
        name: Name of the table, for messages.
        columns: The cells of each column, from the first row to the last.
        row_locations: Where each row is in the file, such as "line 3".
    """

    name: str
    columns: dict[str, list[object]]
    row_locations: list[str]

    def make_error(self, row: int, problem: str) -> UsageError:
        """Make the error for a row that cannot be used."""
        return UsageError(f"{self.row_locations[row]} of {self.name}: {problem}")


def read_user_table(
    source: "str | Path | pd.DataFrame", space: "str | Space", metric: str | None = None
) -> tuple[BenchmarkTable, Metric]:
    """Read a user's own table.

    Args:
        source: A CSV or parquet file, or a pandas DataFrame.
        space: The space that the architectures belong to, or its name.
        metric: The column to compare with; None for `accuracy`, or the only column of numbers.

    Returns:
        The table, and the metric in it.

    Raises:
        UsageError: The file cannot be read; the column `arch` or the metric is missing; an
            architecture is not in the space; a value of the metric is not a finite number; or there
            are fewer than three architectures.
    """
    sources = []
    if isinstance(source, str | Path):
        path = parse_path(source, "table")
        rows = read_table_rows(path)
        sources.append(describe_source(path.name, [path]))
    else:
        rows = _read_frame(source)
    if ARCH_COLUMN not in rows.columns:
        names = ", ".join(rows.columns) or "none"
        raise UsageError(
            f"{rows.name} has no column {ARCH_COLUMN!r} with architectures; its columns are {names}"
        )
    cells_by_column = dict(rows.columns)
    arch_cells = cells_by_column.pop(ARCH_COLUMN)
    numbers_by_column = {}
    for column, cells in cells_by_column.items():
        numbers_by_column[column] = [parse_number(cell) for cell in cells]
    metric_columns = _list_metric_columns(numbers_by_column)
    metric_column = _choose_metric(rows, list(metric_columns), metric)
    check_numbers(rows, metric_column, numbers_by_column[metric_column])
    rows_by_arch = _group_by_arch(rows, arch_cells, space)
    if len(rows_by_arch) < MIN_ARCHS:
        raise UsageError(
            f"{rows.name} has {format_count(len(rows_by_arch), 'architecture')}; "
            f"a comparison needs at least {MIN_ARCHS}"
        )
    columns = _make_columns(rows.name, metric_columns, list(rows_by_arch.values()))
    space_name = space if isinstance(space, str) else space.name
    table = BenchmarkTable.make(rows.name, space_name, tuple(rows_by_arch), columns, tuple(sources))
    return table, table.find_metric(metric_column)


# ------------------------------------------------------------------------------------- reading


def read_table_rows(path: Path) -> TableRows:
    """Read all rows of a CSV or parquet file, with bounded memory.

    Raises:
        UsageError: The file cannot be read, or a row has too many or too few cells.
    """
    if _is_parquet(path):
        table = open_parquet(path)
        row_word = "row"
    else:
        table = open_csv(path)
        row_word = "line"
    bad_rows = BadRows()
    columns: dict[str, list[object]] = {name: [] for name in table.columns}
    row_locations: list[str] = []
    with name_file_in_errors(path):
        allowance = MemoryAllowance(path.stat().st_size)
        for block, lines in table.read_blocks(bad_rows):
            allowance.charge(block.nbytes + _CELL_BYTES * block.num_rows * block.num_columns)
            row_locations += [f"{row_word} {line}" for line in lines]
            for index, name in enumerate(table.columns):
                columns[name] += block.column(index).to_pylist()
    if bad_rows.count:
        raise UsageError(
            f"{path}, {clean_detail(bad_rows.first_reasons[0])}; "
            "write architectures that contain commas in quotation marks"
        )
    return TableRows(path.name, columns, row_locations)


def _is_parquet(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC


def _read_frame(frame: object) -> TableRows:
    # Importing pandas is slow, and only a DataFrame needs it.
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise UsageError(
            f"table is {show_value(frame)}; give a CSV or parquet file, or a pandas DataFrame"
        )
    names = [str(name) for name in frame.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UsageError(f"DataFrame has more than one column called {', '.join(repeated)}")
    # Missing values become None, whatever the type of the column.
    cells = frame.astype(object).where(frame.notna(), None)
    columns = {}
    for index, name in enumerate(names):
        columns[name] = cells.iloc[:, index].tolist()
    row_locations = [f"row {number}" for number in range(1, len(frame) + 1)]
    return TableRows("DataFrame", columns, row_locations)


def parse_number(cell: object) -> float | None:
    """Return a number, NaN for an empty cell, or None for anything else."""
    if cell is None:
        return nan
    if isinstance(cell, bool | np.bool_):
        return None
    if isinstance(cell, str) and cell.strip() in MISSING:
        return nan
    if not isinstance(cell, str | Number):
        return None
    try:
        return float(cell)  # type: ignore[arg-type]  # a complex number raises TypeError
    except (TypeError, ValueError, OverflowError):
        return None


# ------------------------------------------------------------------------------------- metrics


def _list_metric_columns(
    numbers_by_column: dict[str, list[float | None]],
) -> dict[str, list[float]]:
    """Return the columns that consist of numbers and empty cells, with at least one number."""
    metric_columns = {}
    for column, cells in numbers_by_column.items():
        numbers = [number for number in cells if number is not None]
        has_numbers = any(not isnan(number) for number in numbers)
        if len(numbers) == len(cells) and has_numbers:
            metric_columns[column] = numbers
    return metric_columns


def _choose_metric(rows: TableRows, metric_columns: Sequence[str], metric: str | None) -> str:
    """Return the column to compare with."""
    if metric is not None:
        if metric not in rows.columns or metric == ARCH_COLUMN:
            raise make_unknown_name_error(f"metric of {rows.name}", metric, metric_columns)
        return metric
    if DEFAULT_METRIC in rows.columns:
        return DEFAULT_METRIC
    if not metric_columns:
        raise UsageError(
            f"{rows.name} has no column of numbers; add one with results, such as {DEFAULT_METRIC}"
        )
    if len(metric_columns) > 1:
        raise UsageError(
            f"{rows.name} has no column {DEFAULT_METRIC!r}; "
            f"choose a metric with --metric: {', '.join(metric_columns)}"
        )
    return metric_columns[0]


def check_numbers(rows: TableRows, column: str, numbers: Sequence[float | None]) -> None:
    """Check that all values of a column are finite numbers.

    Args:
        rows: The table.
        column: Name of the column, for the message.
        numbers: Its values, as `parse_number` returns them.

    Raises:
        UsageError: A value is missing, infinite or not a number; the message names its row.
    """
    for row, number in enumerate(numbers):
        if number is None:
            cell = show_value(rows.columns[column][row])
            raise rows.make_error(row, f"{column} is {cell}; write a number")
        if isnan(number):
            raise rows.make_error(row, f"{column} is missing or NaN; add it, or remove the row")
        if not isfinite(number):
            raise rows.make_error(row, f"{column} is infinite; correct it, or remove the row")


def _group_by_arch(
    rows: TableRows, cells: Sequence[object], space: "str | Space"
) -> dict[str, list[int]]:
    """Return the rows of each architecture, by its canonical text."""
    read_arch = make_arch_reader(space)
    rows_by_arch: dict[str, list[int]] = {}
    for row, cell in enumerate(cells):
        text = "" if cell is None else str(cell).strip()
        if not text:
            raise rows.make_error(row, f"{ARCH_COLUMN} is missing; add it, or remove the row")
        try:
            arch = read_arch(text)
        except ValueError as error:
            raise rows.make_error(row, describe_error(error)) from error
        rows_by_arch.setdefault(arch, []).append(row)
    return rows_by_arch


def _make_columns(
    name: str, metric_columns: dict[str, list[float]], rows_by_arch: Sequence[Sequence[int]]
) -> dict[Metric, NDArray[np.float64]]:
    """Return the mean of each metric per architecture, and one column per seed."""
    seed_count = max(len(arch_rows) for arch_rows in rows_by_arch)
    columns: dict[Metric, NDArray[np.float64]] = {}
    for column, cells in metric_columns.items():
        by_seed = np.full((seed_count, len(rows_by_arch)), nan)
        for index, arch_rows in enumerate(rows_by_arch):
            for seed, row in enumerate(arch_rows):
                if isfinite(cells[row]):
                    by_seed[seed, index] = cells[row]
        means = average_over_seeds(by_seed)
        columns[_make_metric(column, means)] = means
        if seed_count > 1:
            for seed, values in enumerate(by_seed):
                columns[_make_metric(column, means, variant=f"seed{seed}")] = values
    names = [metric.name for metric in columns]
    for metric in columns:
        if names.count(metric.name) > 1:
            raise UsageError(
                f"{name} has a column {metric.name}, which is reserved for the results of one "
                "seed; rename it"
            )
    return columns


def _make_metric(column: str, means: NDArray[np.float64], variant: str = "") -> Metric:
    unit = ""
    finite = means[np.isfinite(means)]
    # Accuracies above 1 are in per cent.
    if column == DEFAULT_METRIC and finite.max(initial=0) > 1:
        unit = "%"
    lower_name = column.lower()
    higher_is_better = not any(word in lower_name for word in _LOWER_IS_BETTER)
    return Metric(column, unit, higher_is_better, variant=variant)

"""Benchmark tables as parquet files with a header.

A file has a column `arch` of strings and columns of float64, where NaN is a missing number. The
header is JSON in the key-value metadata of the file. Pages have checksums, so a flipped bit is
detected when its column is read. Only the header and the requested columns are read.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from untrained.errors import UsageError
from untrained.files import replace_atomically
from untrained.readers.json_file import parse_json

SCHEMA = 1
ARCH_COLUMN = "arch"
_METADATA_KEY = b"untrained"

Header = dict[str, Any]


def write_table_file(
    path: Path, header: Header, archs: list[str], columns: dict[str, NDArray[np.float64]]
) -> None:
    """Write a table. The file is replaced only when the new one is complete."""
    arrays = [pa.array(archs)]
    arrays += [pa.array(values) for values in columns.values()]
    metadata = json.dumps({**header, "schema": SCHEMA, "rows": len(archs)})
    table = pa.table(arrays, names=[ARCH_COLUMN, *columns])
    table = table.replace_schema_metadata({_METADATA_KEY: metadata})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_atomically(path) as part:
        pq.write_table(table, part, compression="zstd", write_page_checksum=True)


def read_header(path: Path, name: str) -> Header:
    """Read the header of a table.

    Args:
        path: The file.
        name: Name of the benchmark that the table must belong to.

    Raises:
        UsageError: The file is missing, damaged, of a newer version or of another benchmark.
    """
    if not path.is_file():
        raise UsageError(f"there is no table {path}; `untrained data import {name} PATH` makes it")
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            metadata = file.schema_arrow.metadata or {}
            row_count = file.metadata.num_rows
        header: Header = parse_json(metadata[_METADATA_KEY])
        schema = int(header["schema"])
        benchmark = header["benchmark"]
        expected_rows = header["rows"]
    except (pa.ArrowException, OSError) as error:
        reason = f"is not a readable parquet file ({_get_first_line(error)})"
        raise unusable_table_error(path, name, reason) from error
    except (KeyError, TypeError, ValueError) as error:
        raise unusable_table_error(
            path, name, "is a parquet file, but not a benchmark table"
        ) from error
    if schema > SCHEMA:
        reason = (
            f"was written by a newer version of untrained (schema {schema}, this one reads "
            f"{SCHEMA}); update untrained"
        )
        raise unusable_table_error(path, name, reason)
    if benchmark != name:
        reason = f"is the table of {benchmark}, not of {name}; rename the file"
        raise unusable_table_error(path, name, reason)
    if row_count != expected_rows:
        reason = f"has {row_count} rows where its header says {expected_rows}"
        raise unusable_table_error(path, name, reason)
    return header


def read_archs(path: Path, name: str) -> list[str]:
    """Read the architectures of a table."""
    archs: list[str] = _read_column(path, name, ARCH_COLUMN, _to_strings)
    return archs


def read_numbers(path: Path, name: str, column: str) -> NDArray[np.float64]:
    """Read a column of numbers; NaN is a missing number."""
    # `to_numpy` would import pandas, which is slow.
    numbers: NDArray[np.float64] = _read_column(path, name, column, np.from_dlpack)
    return numbers


def _to_strings(column: Any) -> list[str]:
    strings: list[str] = column.cast(pa.string()).to_pylist()
    return strings


def _read_column(path: Path, name: str, column: str, convert: Callable[[Any], Any]) -> Any:
    try:
        with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
            table = file.read([column], use_threads=False)
            values = convert(table.column(column).combine_chunks())
            row_count = file.metadata.num_rows
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, BufferError) as error:
        raise unusable_table_error(path, name, f"is damaged ({_get_first_line(error)})") from error
    if len(values) != row_count:
        reason = f"is damaged ({len(values)} of {row_count} rows in column {column})"
        raise unusable_table_error(path, name, reason)
    return values


def unusable_table_error(path: Path, name: str, reason: str) -> UsageError:
    """Return the error for a table that cannot be used, with the command that replaces it."""
    return UsageError(
        f"{path} {reason}; `untrained data import {name} PATH` recreates the table of {name}"
    )


def _get_first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

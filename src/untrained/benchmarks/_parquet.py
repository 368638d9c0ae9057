"""Our tables as files: parquet with a header of ours. Knows bytes and columns, nothing of what the numbers mean.

A file has a column `arch` of strings, and columns of float64 in which a missing number is NaN. The header is JSON
among the file's key-value metadata. Pages carry checksums, so a flipped bit is noticed when its column is read. Only
the header and the columns asked for are read.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from untrained._files import written_whole
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json

SCHEMA = 1
ARCH = "arch"
_KEY = b"untrained"
Header = dict[str, Any]


def write(path: Path, header: Header, archs: list[str], columns: dict[str, NDArray[np.float64]]) -> None:
    """All at once or not at all."""
    arrays = [pa.array(archs), *map(pa.array, columns.values())]
    about = json.dumps({**header, "schema": SCHEMA, "rows": len(archs)})
    table = pa.table(arrays, names=[ARCH, *columns]).replace_schema_metadata({_KEY: about})
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as part:
        pq.write_table(table, part, compression="zstd", write_page_checksum=True)


def read_header(path: Path, name: str) -> Header:
    """The header of the table of `name`; a file that is none of ours, or another's, is refused."""
    if not path.is_file():
        raise UsageError(f"there is no table {path}; `untrained data import {name} PATH` makes it")
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            found, rows = file.schema_arrow.metadata or {}, file.metadata.num_rows
        header: Header = parse_json(found[_KEY])
        schema, benchmark, wanted = int(header["schema"]), header["benchmark"], header["rows"]
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, name, f"is no readable parquet file ({_line(error)})") from error
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, name, "is a parquet file, but no table of ours") from error
    if schema > SCHEMA:
        why = f"was written by a newer untrained (schema {schema}, this one reads {SCHEMA}): update untrained, or else"
        raise damaged(path, name, why)
    if benchmark != name:
        raise damaged(path, name, f"is the table of {benchmark}, not of {name}: give it its name back, or else")
    if rows != wanted:
        raise damaged(path, name, f"has {rows} rows where its header says {wanted}")
    return header


def read_archs(path: Path, name: str) -> list[str]:
    archs: list[str] = _read(path, name, ARCH, lambda column: column.cast(pa.string()).to_pylist())
    return archs


def read_numbers(path: Path, name: str, column: str) -> NDArray[np.float64]:
    """A column of numbers; what is missing is NaN."""
    numbers: NDArray[np.float64] = _read(path, name, column, np.from_dlpack)  # `to_numpy` would import pandas
    return numbers


def _read(path: Path, name: str, column: str, convert: Callable[[Any], Any]) -> Any:
    try:
        with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
            found = file.read([column], use_threads=False).column(column).combine_chunks()
            rows = file.metadata.num_rows
        converted = convert(found)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, BufferError) as error:
        raise damaged(path, name, f"is damaged ({_line(error)})") from error
    if len(converted) != rows:
        raise damaged(path, name, f"is damaged ({len(converted)} of {rows} rows in column {column})")
    return converted


def damaged(path: Path, name: str, why: str) -> UsageError:
    return UsageError(f"{path} {why}; `untrained data import {name} PATH` makes it anew")


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]

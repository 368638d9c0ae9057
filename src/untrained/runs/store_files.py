"""What is done with finished stores: describe one, export it, merge several."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from untrained.errors import UsageError
from untrained.files import guard_cell, replace_atomically
from untrained.runs.store import Store
from untrained.types import Record

_RECORDS_IN_MEMORY = 10_000
# Columns of an exported file and their types in arrow.
_COLUMN_TYPES = {
    "space": "string",
    "arch": "string",
    "proxy": "string",
    "measure": "string",
    "task": "string",
    "data": "string",
    "init": "string",
    "dtype": "string",
    "device": "string",
    "seed": "int64",
    "code": "string",
    "torch": "string",
    "networks_per_pass": "int64",
    "value": "float64",
    "error": "string",
    "note": "string",
    "build_seconds": "float64",
    "transfer_seconds": "float64",
    "measure_seconds": "float64",
    "peak_bytes": "int64",
}


def open_store(path: str | Path, *, read_only: bool = True) -> Store:
    """Open a store that exists.

    Args:
        path: The SQLite file, or a run folder. Of several stores in a folder, the one that was written
            last is opened.
        read_only: Leave the file and its folder as they are.
    """
    path = Path(path)
    if path.is_dir():
        # A calibration has one store per version of a user's space.
        stores = sorted(path.glob("records*.sqlite"), key=lambda file: file.stat().st_mtime)
        if stores:
            path = stores[-1]
        else:
            path = path / "records.sqlite"
    return Store(path, existing=True, read_only=read_only)


def describe_store(path: str | Path) -> dict[str, Any]:
    """Return what a store holds, in numbers.

    Args:
        path: The store, or a run folder.
    """
    archs: set[str] = set()
    measures: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    with open_store(path) as store:
        for record in store:
            archs.add(f"{record.arch.space} {record.arch}")
            measures[record.measure] += 1
            if record.error:
                failures[record.error.kind] += 1
        return {
            "store": str(store.path),
            "bytes": store.path.stat().st_size,
            "architectures": len(archs),
            "records": measures.total(),
            "measures": dict(measures),
            "failures": dict(failures),
        }


def export_store(path: str | Path, out: str | Path) -> int:
    """Write all records as parquet or CSV, whole or not at all.

    Texts of a CSV file are guarded, so that a spreadsheet does not take them for formulas.

    Args:
        path: The store, or a run folder.
        out: The file to write; it ends in .parquet or .csv.

    Returns:
        The number of records.

    Raises:
        UsageError: The file has another ending, or cannot be written.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    out = Path(out)
    if out.suffix not in (".parquet", ".csv"):
        raise UsageError(f"{out} names no format; end it in .parquet or .csv")
    is_csv = out.suffix == ".csv"
    open_writer = csv.CSVWriter if is_csv else parquet.ParquetWriter
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _COLUMN_TYPES.items()])
    written = 0
    with open_store(path) as store:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with replace_atomically(out) as part, open_writer(part, schema) as writer:
                for records in _split_into_batches(store):
                    rows = [record.row() for record in records]
                    if is_csv:
                        rows = [_guard_row(row) for row in rows]
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    written += len(records)
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error}") from error
    return written


def merge_stores(path: str | Path, others: Sequence[str | Path]) -> int:
    """Add the records of other stores that this one does not have. The others are left as they are.

    Args:
        path: The store to add to.
        others: Stores or run folders.

    Returns:
        The number of records that were added.
    """
    with open_store(path, read_only=False) as store:
        before = len(store)
        for other in others:
            with open_store(other) as source:
                if source.path.resolve() == store.path.resolve():
                    raise UsageError(f"{other} is the store to merge into; name another one")
                for records in _split_into_batches(source):
                    store.add(records)
        return len(store) - before


def _guard_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: guard_cell(value) for name, value in row.items()}


def _split_into_batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield records in parts that fit into memory."""
    iterator = iter(records)
    while batch := list(islice(iterator, _RECORDS_IN_MEMORY)):
        yield batch

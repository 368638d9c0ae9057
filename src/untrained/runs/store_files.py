"""Describe, export and merge stores."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from untrained.errors import UsageError
from untrained.files import escape_formula, replace_atomically
from untrained.runs.folder import STORE
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
    "networks_per_batch": "int64",
    "value": "float64",
    "error": "string",
    "note": "string",
    "build_seconds": "float64",
    "transfer_seconds": "float64",
    "measure_seconds": "float64",
    "peak_bytes": "int64",
}


def open_store(path: str | Path, *, read_only: bool = True) -> Store:
    """Open an existing store.

    Args:
        path: The SQLite file, or a run folder. If the folder has several stores, the one that was
            written last is opened.
        read_only: Whether to leave the file and its folder unchanged.
    """
    path = Path(path)
    if path.is_dir():
        # A calibration has one store per version of a user's space.
        stores = sorted(path.glob("records*.sqlite"), key=lambda file: file.stat().st_mtime)
        if stores:
            path = stores[-1]
        else:
            path = path / STORE
    return Store(path, must_exist=True, read_only=read_only)


def describe_store(path: str | Path) -> dict[str, object]:
    """Count the architectures, records, measures and failures of a store.

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
    """Write all records to a parquet or CSV file. The file appears when it is complete.

    Strings in a CSV file are escaped, so that a spreadsheet does not evaluate them as formulas.

    Args:
        path: The store, or a run folder.
        out: The file to write; it ends in .parquet or .csv.

    Returns:
        The number of records.

    Raises:
        UsageError: The name has another ending, or the file cannot be written.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    out = Path(out)
    if out.suffix not in (".parquet", ".csv"):
        raise UsageError(
            f"{out} has an unknown format; use a name that ends in .parquet or .csv, "
            "or add --as optuna"
        )
    is_csv = out.suffix == ".csv"
    if is_csv:
        open_writer = csv.CSVWriter
    else:
        open_writer = parquet.ParquetWriter
    fields = [(name, getattr(pa, type_name)()) for name, type_name in _COLUMN_TYPES.items()]
    schema = pa.schema(fields)
    record_count = 0
    with open_store(path) as store:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with replace_atomically(out) as part, open_writer(part, schema) as writer:
                for records in _split_into_batches(store):
                    rows: list[Mapping[str, object]] = [record.row() for record in records]
                    if is_csv:
                        rows = [_guard_row(row) for row in rows]
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    record_count += len(records)
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error}") from error
    return record_count


def merge_stores(path: str | Path, others: Sequence[str | Path]) -> int:
    """Add the missing records of other stores to a store. The other stores are not changed.

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
                    raise UsageError(f"{other} is the store to merge into; name a different one")
                for records in _split_into_batches(source):
                    store.add(records)
        return len(store) - before


def _guard_row(row: Mapping[str, object]) -> dict[str, object]:
    return {name: escape_formula(value) for name, value in row.items()}


def _split_into_batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield records in batches that fit into memory."""
    iterator = iter(records)
    while batch := list(islice(iterator, _RECORDS_IN_MEMORY)):
        yield batch

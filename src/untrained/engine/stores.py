"""What one does with finished stores: look into one, take it elsewhere, put two together."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from untrained._files import guard_cell, written_whole
from untrained.engine.store import Store
from untrained.errors import UsageError
from untrained.types import Record

_AT_ONCE = 10_000  # records in memory


def open_store(where: str | Path, *, read_only: bool = True) -> Store:
    """Open a store that exists.

    Args:
        where: The SQLite file, or a run folder. Of several stores in a folder, the one that was written last.
        read_only: Leave the file and its folder as they are.
    """
    path = Path(where)
    if path.is_dir():  # a calibration has one for each version of a user's space
        found = sorted(path.glob("records*.sqlite"), key=lambda file: file.stat().st_mtime)
        path = found[-1] if found else path / "records.sqlite"
    return Store(path, existing=True, read_only=read_only)


def info(where: str | Path) -> dict[str, Any]:
    """What a store holds, in numbers."""
    archs: set[str] = set()
    measures: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    with open_store(where) as store:
        for record in store:
            archs.add(f"{record.arch.space} {record.arch}")
            measures[record.measure] += 1
            failures.update([record.error.kind] if record.error else [])
        return {
            "store": str(store.path),
            "bytes": store.path.stat().st_size,
            "architectures": len(archs),
            "records": measures.total(),
            "measures": dict(measures),
            "failures": dict(failures),
        }


def export(where: str | Path, out: str | Path) -> int:
    """Write all records as parquet or CSV, whole or not at all; how many there are. Texts of a CSV file are those of
    `guard_cell`."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    path, written = Path(out), 0
    if path.suffix not in (".parquet", ".csv"):
        raise UsageError(f"{out} says no format; end it in .parquet or .csv")
    with open_store(where) as store:
        schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _TYPES.items()])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            kind = parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
            with written_whole(path) as part, kind(part, schema) as writer:
                for records in _batches(store):
                    rows = [record.row() for record in records]
                    if path.suffix == ".csv":
                        rows = [{name: guard_cell(content) for name, content in row.items()} for row in rows]
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    written += len(records)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error}") from error
    return written


def merge(into: str | Path, others: Sequence[str | Path]) -> int:
    """Add what other stores know and this one does not; how many records that is. The others are left as they are."""
    with open_store(into, read_only=False) as store:
        before = len(store)
        for other in others:
            with open_store(other) as source:
                if source.path.resolve() == store.path.resolve():
                    raise UsageError(f"{other} is the store to merge into; name another one")
                for records in _batches(source):
                    store.add(records)
        return len(store) - before


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    left = iter(records)
    while batch := list(islice(left, _AT_ONCE)):
        yield batch


_TYPES = {
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

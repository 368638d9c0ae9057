"""A table as a Source: surveyed once, encoded once into a cache folder, and then read from there row by row.

The cache is keyed by the content of the file and by what was said about it; each part is a file of
float32 rows, the label last. So a table may be larger than memory, and the part that is judged on is a file of its own.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from untrained._root import cache_root
from untrained.data import _schema
from untrained.data._options import Options
from untrained.data._reader import Bad, Table
from untrained.data._roles import HEAD, Roles, roles
from untrained.data._schema import Schema
from untrained.data._source import Card, Source
from untrained.data._survey import Split, good, survey
from untrained.data._values import pointed
from untrained.data.parts import TEST, TRAIN, VAL
from untrained.data.table_card import table_card
from untrained.errors import UsageError
from untrained.identity import fingerprint_file, fingerprint_tensors
from untrained.types import Batch, Task

NAMES = (TRAIN, VAL, TEST)
ROWS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class Rows:
    """A part of a table: (rows, columns + 1) of float32, the label last, in memory or in a file."""

    values: _schema.Rows

    def __len__(self) -> int:
        return len(self.values)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        places = None if order is None else torch.randperm(len(self), generator=order).numpy()
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield batch_of(np.array(self.values[rows if places is None else places[rows]]))

    def fingerprint(self) -> str:
        starts = range(0, len(self), ROWS_AT_ONCE)
        return fingerprint_tensors(torch.from_numpy(np.array(self.values[at : at + ROWS_AT_ONCE])) for at in starts)


def batch_of(rows: _schema.Rows) -> Batch:
    found = torch.from_numpy(rows)
    return Batch(found[:, :-1].contiguous(), found[:, -1].long())


def from_rows(
    task: Task, parts: Mapping[str, Rows], describe: Callable[[], Card], schema: Schema | None = None
) -> Source:
    """What is looked at before training is of the training part."""
    train = parts[TRAIN]

    def draw(samples: int, generator: torch.Generator) -> Batch:
        return batch_of(train.values[torch.randperm(len(train), generator=generator)[:samples].numpy()])

    return Source(task, draw, lambda: parts, card=describe, schema=schema)


def open_table(name: str, table: Table, options: Options) -> Source:
    folder = cache_root() / "tables" / _key(table, options)
    if not folder.is_dir():
        _encode(table, options, folder)
    schema = _schema.load_schema(folder)
    shape = (-1, schema.columns + 1)
    parts = {part: Rows(np.memmap(folder / part, np.float32, mode="r").reshape(shape)) for part in NAMES}
    task = Task(name, (schema.columns,), 1, "bce", schema.vocabularies)
    return from_rows(task, parts, lambda: table_card(name, schema), schema)


def _key(table: Table, options: Options) -> str:
    """What decides the rows: the content of the file, its name, whose ending says how it is packed, and the options."""
    content = fingerprint_file(table.path)
    decides = _schema.VERSION, table.path.name, content, table.columns, table.missing, options
    return sha256("\x1f".join(map(str, decides)).encode()).hexdigest()[:16]


def _encode(table: Table, options: Options, folder: Path) -> None:
    """Both passes, into a folder that appears when all is there."""
    if options.comma:
        table = _with_points(table)
    bad = Bad()
    head = next((block for block, _ in table.blocks(bad)), None)
    if head is None:
        raise UsageError("; ".join([f"{table.path} has a header and no rows that fit it", *bad.first[:1]]))
    found = roles(table.columns, head[:HEAD], options)
    schema, split = survey(table, found, options)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        _write(table, found, options.above, schema, split, made)
        schema.save(made)
        with suppress(OSError):  # somebody else was faster, with the same rows
            made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _with_points(table: Table) -> Table:
    """The same rows as if they were written with a decimal point."""

    def blocks(bad: Bad) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        for block, lines in table.blocks(bad):
            yield pa.RecordBatch.from_arrays([pointed(column) for column in block], names=block.schema.names), lines

    return replace(table, blocks=blocks)


def _write(table: Table, roles: Roles, above: float | None, schema: Schema, split: Split, folder: Path) -> None:
    start = 0
    files = [(folder / name).open("wb") for name in NAMES]
    try:
        for block, labels in good(table, roles, above, Bad()):
            rows = np.concatenate([schema.encode(block), labels[:, None].astype(np.float32)], axis=1)
            parts = split(start, start + len(rows))
            for part, file in enumerate(files):
                file.write(rows[parts == part].tobytes())
            start += len(rows)
    finally:
        for file in files:
            file.close()

"""A table as a Source: surveyed once, encoded once into a cache folder, and then read from there row by row.

The cache is keyed by the content of the file and by what was said about it; each part is a file of
float32 rows, the label last. So a table may be larger than memory, and the part that is judged on is a file of its own.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from platform import node

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from untrained._numbers import quantity
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
_FORGOTTEN = 24 * 3600.0  # seconds after which a half-written table of another machine is removed


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


def open_table(name: str, table: Table, options: Options, root: Path) -> Source:
    """The table as a source, encoded under `root` unless an intact encoding lies there already."""
    folder = root / "cache" / "tables" / _key(table, options)
    cached = _read_cache(folder)
    if cached is None:
        _encode(table, options, folder)
        cached = _read_cache(folder)
    if cached is None:
        raise UsageError(f"{folder} was written and cannot be read; name another --data-root")
    schema, parts = cached
    task = Task(name, (schema.columns,), 1, "bce", schema.vocabularies)
    return from_rows(task, parts, lambda: table_card(name, schema), schema)


def _read_cache(folder: Path) -> tuple[Schema, dict[str, Rows]] | None:
    """What an earlier call encoded; None where there is nothing, or where a file is damaged."""
    try:
        schema = _schema.load_schema(folder)
        parts = {}
        for part, count in zip(NAMES, schema.rows, strict=True):
            shape = (count, schema.columns + 1)
            if (folder / part).stat().st_size != 4 * count * (schema.columns + 1):
                return None
            empty = np.zeros(shape, np.float32)  # an empty file cannot be mapped
            parts[part] = Rows(np.memmap(folder / part, np.float32, "r", shape=shape) if count else empty)
    except Exception:  # numpy and json raise whatever the damage looks like; encoding the table again mends it
        return None
    return schema, parts


def _key(table: Table, options: Options) -> str:
    """What decides the rows: the content of the file, its name, whose ending says how it is packed, and the options."""
    try:
        content = fingerprint_file(table.path)
    except OSError as error:
        raise UsageError(f"{table.path} cannot be read: {error}") from error
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
    size = 4 * sum(schema.rows) * (schema.columns + 1)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder.parent)
        free = shutil.disk_usage(folder.parent).free
        if size > free:
            raise OSError(ENOSPC, f"{quantity(free)}B are free")
        made = Path(tempfile.mkdtemp(prefix=_prefix(os.getpid()), dir=folder.parent))
        try:
            _write(table, found, options.above, schema, split, made)
            schema.save(made)
            if _read_cache(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)  # it is damaged, or there is none
            with suppress(OSError):  # another process was faster, with the same rows
                made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"{table.path} takes {quantity(size)}B in {folder}, which cannot be written: {reason}; "
            "name another --data-root"
        ) from error


def _prefix(process: int) -> str:
    """How the folder begins in which a process of this machine encodes a table."""
    return f"tmp-{node()}-{process}-"


def _remove_leftovers(folder: Path) -> None:
    """Remove what processes left that were killed while they encoded a table.

    The name tells the process. That of another machine, or of an earlier version, which wrote no process into it, is
    left for a day: it may still be at work.
    """
    for leftover in folder.glob("tmp*"):
        ours = re.fullmatch(re.escape(f"tmp-{node()}-") + r"(\d+)-.*", leftover.name)
        with suppress(OSError):  # another process may remove it at the same time
            if ours is not None:
                stale = not _is_running(int(ours[1]))
            else:
                stale = time.time() - leftover.stat().st_mtime > _FORGOTTEN
            if stale:
                shutil.rmtree(leftover, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to somebody else
        return True
    return True


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

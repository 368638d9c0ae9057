"""Tables as data sources. A table is encoded once into a cache folder and then read from there.

The cache is keyed by the content of the file and by the options. Each part is a file of float32
rows, whose last column is the label. The files are memory-mapped, so a table may be larger than the
memory.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from untrained.data.parts import TEST, TRAIN, VAL
from untrained.data.source import Card, DataSource
from untrained.data.tables.card import make_table_card
from untrained.data.tables.options import TableOptions
from untrained.data.tables.reader import BadRows, Table
from untrained.data.tables.roles import HEAD_ROWS, infer_roles
from untrained.data.tables.schema import CARD_VERSION, EncodedRows, Schema, load_schema
from untrained.data.tables.schema import VERSION as SCHEMA_VERSION
from untrained.data.tables.survey import (
    Split,
    add_test_table,
    read_labelled_blocks,
    survey_table,
)
from untrained.data.tables.target import Target, infer_target
from untrained.data.tables.values import replace_decimal_comma
from untrained.errors import UsageError
from untrained.files import make_locked_folder, remove_leftovers
from untrained.formatting import format_quantity
from untrained.identity import fingerprint_file, fingerprint_tensors
from untrained.types import BINARY, REGRESSION, Batch, Task, TaskKind

PART_FILES = (TRAIN, VAL, TEST)
_ROWS_PER_STEP = 2**16  # rows that are fingerprinted at once
_FLOAT_BYTES = 4
_TEMPORARY_PREFIX = "tmp-"  # start of the name of a folder that is being written


@dataclass(frozen=True, eq=False)
class TablePart:
    """A part of a table.

    Attributes:
        values: Encoded rows (rows, columns + 1), the label last, in memory or in a file.
        kind: What the label is.
    """

    values: EncodedRows
    kind: TaskKind = BINARY

    def __len__(self) -> int:
        return len(self.values)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        shuffled_rows = None
        if order is not None:
            shuffled_rows = torch.randperm(len(self), generator=order).numpy()
        for start in range(0, len(self), size):
            batch_rows = slice(start, start + size)
            if shuffled_rows is None:
                rows = self.values[batch_rows]
            else:
                rows = self.values[shuffled_rows[batch_rows]]
            # Copied, because a mapped file is read-only and torch requires writable memory.
            yield make_table_batch(np.array(rows), self.kind)

    def read_labels(self) -> torch.Tensor:
        return torch.from_numpy(np.array(self.values[:, -1]))

    def fingerprint(self) -> str:
        return fingerprint_tensors(self._read_in_steps())

    def _read_in_steps(self) -> Iterator[torch.Tensor]:
        for start in range(0, len(self), _ROWS_PER_STEP):
            yield torch.from_numpy(np.array(self.values[start : start + _ROWS_PER_STEP]))


def make_table_batch(rows: EncodedRows, kind: TaskKind) -> Batch:
    """Make a batch of encoded rows, whose last column is the label."""
    tensor = torch.from_numpy(rows)
    labels = tensor[:, -1].contiguous()
    if kind != REGRESSION:
        labels = labels.long()
    return Batch(tensor[:, :-1].contiguous(), labels)


def make_table_source(
    task: Task,
    parts: Mapping[str, TablePart],
    make_card: Callable[[], Card],
    schema: Schema | None = None,
) -> DataSource:
    """Make a source of an encoded table. Samples are drawn from the training part."""
    train_part = parts[TRAIN]

    def draw(samples: int, generator: torch.Generator) -> Batch:
        rows = torch.randperm(len(train_part), generator=generator)[:samples].numpy()
        return make_table_batch(train_part.values[rows], train_part.kind)

    classes = schema.classes if schema else ()
    return DataSource(task, draw, lambda: parts, classes, card=make_card, schema=schema)


def open_table(
    name: str, table: Table, options: TableOptions, root: Path, test_table: Table | None = None
) -> DataSource:
    """Open a table as a data source, and encode it first if it is not in the cache.

    Args:
        name: Name of the data.
        table: The table.
        options: The user's options for the table.
        root: Data root, which holds the cache.
        test_table: The rows of the test part, if `options` names them.

    Raises:
        UsageError: The table cannot be learned from, or the cache cannot be written.
    """
    key = _make_key(table, options)
    if test_table is not None:
        key += f"-{_make_key(test_table, options)}"
    folder = root / "cache" / "tables" / key
    cached = _read_cache(folder)
    if cached is None:
        _encode_table(table, options, folder, test_table)
        cached = _read_cache(folder)
    if cached is None:
        raise UsageError(f"{folder} was written but cannot be read; name another --data-root")
    schema, parts = cached
    task = schema.make_task(name)
    return make_table_source(task, parts, lambda: make_table_card(name, schema), schema)


def _make_key(table: Table, options: TableOptions) -> str:
    """Return a digest of everything that determines the encoded rows.

    The name of the file is included, because its ending tells how the file is compressed.
    """
    try:
        content = fingerprint_file(table.path)
    except OSError as error:
        raise UsageError(f"{table.path} cannot be read: {error}") from error
    values = (
        SCHEMA_VERSION,
        CARD_VERSION,
        table.path.name,
        content,
        table.columns,
        table.missing,
        options,
    )
    return sha256("\x1f".join(map(str, values)).encode()).hexdigest()[:16]


def _read_cache(folder: Path) -> tuple[Schema, dict[str, TablePart]] | None:
    """Read an encoded table; None if there is none, or if a file is damaged."""
    try:
        schema = load_schema(folder)
        parts = {}
        for name, count in zip(PART_FILES, schema.rows, strict=True):
            shape = (count, schema.column_count + 1)
            size = _FLOAT_BYTES * count * (schema.column_count + 1)
            if (folder / name).stat().st_size != size:
                return None
            if count:
                rows: EncodedRows = np.memmap(folder / name, np.float32, "r", shape=shape)
            else:
                # An empty file cannot be mapped into memory.
                rows = np.zeros(shape, np.float32)
            parts[name] = TablePart(rows, schema.kind)
    except Exception:
        # numpy and json raise many kinds of errors on damaged files. The table is encoded again.
        return None
    return schema, parts


def _encode_table(
    table: Table, options: TableOptions, folder: Path, test_table: Table | None
) -> None:
    """Survey and encode a table into a folder, which appears when it is complete."""
    if options.has_decimal_comma:
        table = _replace_decimal_commas(table)
        if test_table is not None:
            test_table = _replace_decimal_commas(test_table)
    bad_rows = BadRows()
    head = next((block for block, _ in table.read_blocks(bad_rows)), None)
    if head is None:
        message = f"{table.path} has a header and no rows that fit it"
        if bad_rows.first_reasons:
            message += f"; {bad_rows.first_reasons[0]}"
        raise UsageError(message)
    roles = infer_roles(table.columns, head[:HEAD_ROWS], options)
    target = infer_target(head[:HEAD_ROWS][roles.label], roles.label, options)
    schema, target, split = survey_table(table, roles, target, options)
    if test_table is not None:
        schema = add_test_table(test_table, table, target, schema)
    size = _FLOAT_BYTES * sum(schema.rows) * (schema.column_count + 1)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder.parent, f"{_TEMPORARY_PREFIX}*", _remove_folder)
        free_bytes = shutil.disk_usage(folder.parent).free
        if size > free_bytes:
            raise OSError(ENOSPC, f"{format_quantity(free_bytes)}B are free")
        with make_locked_folder(folder.parent, _TEMPORARY_PREFIX) as temporary_folder:
            try:
                _write_parts(table, target, schema, split, temporary_folder)
                if test_table is not None:
                    _write_test_part(test_table, target, schema, temporary_folder)
                schema.save(temporary_folder)
                # A damaged cache of this table is replaced.
                if _read_cache(folder) is None:
                    _remove_folder(folder)
                # If another process was faster, its folder has the same rows.
                with suppress(OSError):
                    temporary_folder.rename(folder)
            finally:
                _remove_folder(temporary_folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"{table.path} takes {format_quantity(size)}B in {folder}, "
            f"which cannot be written: {reason}; name another --data-root"
        ) from error


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _replace_decimal_commas(table: Table) -> Table:
    """Return the table as if its numbers were written with a decimal point."""

    def read_blocks(bad_rows: BadRows) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        for block, lines in table.read_blocks(bad_rows):
            columns = [replace_decimal_comma(column) for column in block]
            yield pa.RecordBatch.from_arrays(columns, names=block.schema.names), lines

    return replace(table, read_blocks=read_blocks)


def _write_parts(
    table: Table,
    target: Target,
    schema: Schema,
    split: Split,
    folder: Path,
) -> None:
    """Encode all rows, and write those of each part to a file."""
    start = 0
    files = [(folder / name).open("wb") for name in PART_FILES]
    try:
        for rows in _encode_blocks(table, target, schema):
            parts = split(start, start + len(rows))
            for part, file in enumerate(files):
                file.write(rows[parts == part].tobytes())
            start += len(rows)
    finally:
        for file in files:
            file.close()


def _write_test_part(test_table: Table, target: Target, schema: Schema, folder: Path) -> None:
    """Encode the rows of the user's own test table as the test part."""
    with (folder / TEST).open("wb") as file:
        for rows in _encode_blocks(test_table, target, schema):
            file.write(rows.tobytes())


def _encode_blocks(table: Table, target: Target, schema: Schema) -> Iterator[EncodedRows]:
    """Yield blocks of encoded rows (rows, columns + 1), the label last."""
    for block, labels, _ in read_labelled_blocks(table, target, BadRows()):
        label_column = target.standardise(labels)[:, None].astype(np.float32)
        yield np.concatenate([schema.encode(block), label_column], axis=1)

"""The first pass over a table: counts, vocabularies and statistics.

The memory that it needs does not grow with the file, except for up to 17 bytes per row for classes
or a split by time. Everything that encodes a row is learned from the training part alone, so an
identifier that occurs only in other parts counts as unknown.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from untrained.data.parts import TEST, TRAIN, VAL, split_by_class
from untrained.data.tables.advice import (
    CLEAN_ADVICE,
    DECIMAL_COMMA_ADVICE,
    Advice,
    give_advice,
    give_hints,
    show_example,
)
from untrained.data.tables.options import TableOptions
from untrained.data.tables.reader import BadRows, Table
from untrained.data.tables.roles import HEAD_ROWS, ColumnRoles
from untrained.data.tables.schema import (
    DenseColumn,
    IdentifierColumn,
    Schema,
    transform_numbers,
)
from untrained.data.tables.target import (
    MAX_CLASSES,
    MIN_ROWS_PER_CLASS,
    ClassCollector,
    Target,
    add_classes,
)
from untrained.data.tables.values import (
    Floats,
    Hashes,
    hash_identifiers,
    read_numbers,
    read_texts,
    read_times,
)
from untrained.errors import MAX_NAMES_SHOWN, UsageError
from untrained.formatting import format_percent
from untrained.seeds import derive_seed
from untrained.types import BINARY, CLASSIFICATION, REGRESSION, Task

# Shares of train, val and test, which are usual for click logs (AutoInt, arXiv:1810.11921).
PART_SHARES = (0.8, 0.1, 0.1)
# Indices of parts in `PART_SHARES`.
TRAIN_PART = 0
TEST_PART = 2
MAX_BAD_SHARE = 0.1  # of bad rows, and of text in a column of numbers
_UNSORTED_HASHES = 2**16  # hashes that are collected before they are merged
DroppedColumns = list[tuple[str, str]]  # names of columns, and why they are dropped
# Returns the part of each row, from one row number up to another (excluded).
Split = Callable[[int, int], NDArray[np.int64]]


def survey_table(
    table: Table, roles: ColumnRoles, target: Target, options: TableOptions
) -> tuple[Schema, Target, Split]:
    """Learn how to encode a table.

    Args:
        table: The table.
        roles: The roles of its columns.
        target: The label, as far as the first rows tell.
        options: The user's options for the table.

    Returns:
        The schema; the label with its classes, or with the statistics of its numbers; and a
        function that returns the part of each row.

    Raises:
        UsageError: The table cannot be learned from.
    """
    split: Split = split_at_random
    if target.kind == CLASSIFICATION:
        target, split = collect_classes(table, target, bool(roles.time))
    if roles.time:
        split = split_by_time(table, roles, target)
    if options.test:
        split = leave_out_test_part(split)
    statistics = {name: RunningStatistics(name in roles.log_columns) for name in roles.dense}
    counters = {name: IdentifierCounter(options.hash) for name in roles.categorical}

    row_counts = np.zeros(3, np.int64)
    label_counter = LabelCounter(target)
    bad_rows = BadRows()
    advice: Advice = ()
    hints: Advice = ()
    for block, labels, lines in read_labelled_blocks(table, target, bad_rows):
        start = int(row_counts.sum())
        if start == 0:
            head = block[:HEAD_ROWS]
            advice = give_advice(
                head, labels[:HEAD_ROWS], lines[:HEAD_ROWS], target.kind, roles, options
            )
            hints = give_hints(head, roles, options)
        parts = split(start, start + len(block))
        is_training = parts == TRAIN_PART
        for name, column_statistics in statistics.items():
            column_statistics.add(block[name], is_training, lines)
        for name, counter in counters.items():
            counter.add(block[name], is_training)
        row_counts += np.bincount(parts, minlength=3)
        label_counter.add(labels, parts)

    _check_rows(table, row_counts, label_counter, bad_rows, has_own_test=bool(options.test))
    dense, dropped_dense = _make_dense_columns(statistics, int(row_counts.sum()), roles)
    identifiers, dropped_identifiers = _make_identifier_columns(counters, options)
    dropped = (*roles.dropped, *dropped_dense, *dropped_identifiers)
    if not dense and not identifiers:
        reasons = ", ".join(f"{name} ({reason})" for name, reason in dropped)
        raise UsageError(
            f"{table.path} has no column left to learn from; dropped: {reasons or 'none'}"
        )

    useless_columns = {name for name, _ in (*dropped_dense, *dropped_identifiers)}
    kept_advice = []
    for name, text in advice:
        # Numbers that are read as identifiers are rare values, so their column may be dropped.
        is_misread = name in roles.decimal_comma_columns or CLEAN_ADVICE in text
        if name not in useless_columns or is_misread:
            kept_advice.append((name, text))
    columns_with_advice = {name for name, _ in kept_advice}
    kept_hints = []
    for name, text in hints:
        if name not in useless_columns | columns_with_advice:
            kept_hints.append((name, text))
    schema = Schema(
        label=roles.label,
        dense=tuple(dense),
        identifiers=tuple(identifiers),
        dropped=dropped,
        rows=tuple(row_counts.tolist()),
        clicks=label_counter.count_clicks(),
        split=_describe_split(roles, target, options),
        floor=options.floor,
        bad=bad_rows.count,
        bad_rows=tuple(bad_rows.first_reasons),
        missing=table.missing,
        timestamps=tuple(name for name in roles.timestamps if name not in useless_columns),
        date_candidates=() if roles.time else roles.date_candidates,
        decimal="," if options.has_decimal_comma else ".",
        advice=tuple(kept_advice),
        hints=tuple(kept_hints),
        task=target.kind.name,
        task_reason=target.reason,
        classes=target.classes,
        class_rows=label_counter.count_classes(),
        test_class_rows=label_counter.count_test_classes(),
        label_mean=label_counter.statistics.mean,
        label_std=label_counter.statistics.std or 1.0,
        label_range=label_counter.label_range,
        allows_classes=label_counter.allows_classes(),
    )
    return schema, replace(target, mean=schema.label_mean, std=schema.label_std), split


def add_test_table(test_table: Table, table: Table, target: Target, schema: Schema) -> Schema:
    """Return a schema in which the user's own test table is the test part.

    Only the facts about the test part change, and bad rows are added.

    Raises:
        UsageError: The test table lacks a column that is used, or has no row with a label.
    """
    used_columns = [target.column]
    used_columns += [column.name for column in schema.dense]
    used_columns += [column.name for column in schema.identifiers]
    missing_columns = [name for name in used_columns if name not in test_table.columns]
    if missing_columns:
        raise UsageError(
            f"{test_table.path} has no column {', '.join(missing_columns[:MAX_NAMES_SHOWN])}, as "
            f"{table.path} has; the test table needs the same columns"
        )
    rows = 0
    label_counter = LabelCounter(target)
    bad_rows = BadRows()
    for _, labels, _ in read_labelled_blocks(test_table, target, bad_rows):
        rows += len(labels)
        label_counter.add(labels, np.full(len(labels), TEST_PART))
    if rows == 0:
        raise UsageError(f"{test_table.path} has no row with a label {target.column}")
    first_reasons = [f"{test_table.path.name}, {reason}" for reason in bad_rows.first_reasons]
    return replace(
        schema,
        rows=(*schema.rows[:-1], rows),
        clicks=(*schema.clicks[:-1], label_counter.count_clicks()[-1]),
        test_class_rows=label_counter.count_test_classes(),
        bad=schema.bad + bad_rows.count,
        bad_rows=(*schema.bad_rows, *first_reasons),
    )


# ----------------------------------------------------------------------------------------- labels


def read_labelled_blocks(
    table: Table, target: Target, bad_rows: BadRows
) -> Iterator[tuple[pa.RecordBatch, Floats, NDArray[np.int64]]]:
    """Yield blocks of the rows that have a label, with the labels and the line numbers.

    Args:
        table: The table.
        target: The label. For a classification, class indices are yielded.
        bad_rows: Rows without a label are added to it.

    Raises:
        UsageError: The column is not a label: most rows of the first block have none. Other blocks
            may be short, so they are not checked here; the caller checks the number of bad rows.
    """
    for number, (block, lines) in enumerate(table.read_blocks(bad_rows)):
        column = block[target.column]
        labels = target.read_labels(column)
        is_bad = np.isnan(labels)
        if is_bad.any():
            texts = read_texts(column)
            if number == 0 and is_bad.mean() > 0.5:
                raise _not_a_label_error(target, texts, is_bad)
            for row in is_bad.nonzero()[0]:
                reason = "no label"
                if texts[row]:
                    reason = f"the label {target.column} is {texts[row]!r}"
                bad_rows.add(int(lines[row]), reason)
            block = block.filter(pa.array(~is_bad))
            labels = labels[~is_bad]
            lines = lines[~is_bad]
        yield block, labels, lines


def collect_classes(table: Table, target: Target, has_time: bool) -> tuple[Target, Split]:
    """Find the classes of a label, and split the rows such that every class has the same shares.

    This needs a pass over the file and 16 bytes per row.

    Args:
        table: The table.
        target: The label, without classes.
        has_time: Whether the rows are split by time instead.

    Returns:
        The label with its classes, and the split.
    """
    collector = ClassCollector(target.column)
    for block, _ in table.read_blocks(BadRows()):
        collector.add(block[target.column])
    classes, rows = collector.finish()
    target = add_classes(target, classes, len(rows))
    if has_time:
        return target, split_at_random
    task = Task("table", (1,), len(classes))
    shares = dict(zip((TRAIN, VAL, TEST), PART_SHARES, strict=True))
    rows_of_parts = split_by_class(torch.from_numpy(rows), shares, task)
    parts = np.empty(len(rows), np.int8)
    for number, part_rows in enumerate(rows_of_parts.values()):
        parts[part_rows.numpy()] = number
    return target, _make_split(parts)


def _not_a_label_error(
    target: Target, texts: list[str | None], is_bad: NDArray[np.bool_]
) -> UsageError:
    examples = {texts[row] for row in is_bad.nonzero()[0][:3]}
    shown = ", ".join(sorted(repr(text) if text else "nothing" for text in examples))
    if target.kind == BINARY:
        expected = "0 and 1, false and true or no and yes"
    elif target.kind == REGRESSION:
        expected = "numbers"
    else:
        expected = "the name of a class in most rows"
    message = f"the label {target.column} holds {shown}; expected {expected}"
    if target.kind == BINARY and len(set(texts) - {None}) > 2:
        message += "; for more than two classes add --task classification"
    return UsageError(message)


# ----------------------------------------------------------------------------------------- splits


def split_at_random(start: int, stop: int) -> NDArray[np.int64]:
    """Return a random part for each row number. It depends on the number alone (splitmix64)."""
    # The constants are those of splitmix64; products of unsigned integers wrap around.
    mixed = np.arange(start, stop, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = mixed + np.uint64(derive_seed("split"))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    # Map the 64 bits to [0, 1) and compare with the cumulative shares of the parts.
    uniform = mixed / 2.0**64
    return np.searchsorted(np.cumsum(PART_SHARES)[:-1], uniform, side="right")


def _make_split(parts: NDArray[np.int8]) -> Split:
    """Make a split from the part of each row (rows,)."""

    def split(start: int, stop: int) -> NDArray[np.int64]:
        return parts[start:stop].astype(np.int64)

    return split


def leave_out_test_part(split: Split) -> Split:
    """Make a split without a test part, because the user has test data of their own.

    The rows of the test part become the validation part, and those of the validation part are used
    for training. So after a split by time, the last rows are the validation part.
    """

    def split_in_two(start: int, stop: int) -> NDArray[np.int64]:
        # Parts are numbered in the order train, val, test.
        return np.maximum(split(start, stop) - 1, TRAIN_PART)

    return split_in_two


def _describe_split(roles: ColumnRoles, target: Target, options: TableOptions) -> str:
    last_part = "validation" if options.test else "testing"
    text = "at random"
    if roles.time:
        text = f"by {roles.time}, the last rows for {last_part}"
    elif target.kind == CLASSIFICATION:
        text = "at random, with equal shares of each class"
    if options.test:
        text += f", test rows from {Path(options.test).name}"
    return text


def split_by_time(table: Table, roles: ColumnRoles, target: Target) -> Split:
    """Make a split in which the last rows by time are the test part.

    Rows of the same time keep their order in the file, and rows without a time come first. This
    needs a pass over the file and about 17 bytes per row.
    """
    times = [np.empty(0)]
    for block, _, _ in read_labelled_blocks(table, target, BadRows()):
        times.append(read_times(block[roles.time], roles.time))
    sort_keys = np.nan_to_num(np.concatenate(times), nan=-np.inf)
    cuts = np.round(np.cumsum(PART_SHARES)[:-1] * len(sort_keys)).astype(int)
    parts = np.empty(len(sort_keys), np.int8)
    for part, rows in enumerate(np.split(np.argsort(sort_keys, kind="stable"), cuts)):
        parts[rows] = part
    return _make_split(parts)


# -------------------------------------------------------------------------- statistics of columns


class IdentifierCounter:
    """Counts how often each identifier of a column occurs in training.

    If there are more than `limit` different ones, it stops counting and frees its memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._hashes = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.int64)
        self._unmerged: list[tuple[Hashes, NDArray[np.int64]]] = []
        self.distinct = 0  # different identifiers at the last merge
        self.missing = 0
        self.is_over_limit = False

    def add(self, column: pa.Array, is_training: NDArray[np.bool_]) -> None:
        """Count a block of the column."""
        self.missing += column.null_count
        if self.is_over_limit:
            return
        hashes, indices = hash_identifiers(column)
        counts = np.bincount(indices[is_training], minlength=len(hashes))
        self._unmerged.append((hashes[counts > 0], counts[counts > 0]))
        new_count = sum(len(new_hashes) for new_hashes, _ in self._unmerged)
        # Merging only when the number of identifiers may have doubled keeps sorting cheap.
        if new_count > max(len(self._hashes), _UNSORTED_HASHES):
            self.merge()

    def merge(self) -> tuple[Hashes, NDArray[np.int64]]:
        """Merge new counts; return all identifiers in increasing order and their counts.

        Both are empty if there are too many identifiers.
        """
        if self.is_over_limit:
            return self._hashes, self._counts
        hashes = np.concatenate([self._hashes, *(new_hashes for new_hashes, _ in self._unmerged)])
        counts = np.concatenate([self._counts, *(new_counts for _, new_counts in self._unmerged)])
        self._hashes, indices = np.unique(hashes, return_inverse=True)
        self._counts = np.bincount(indices, counts, len(self._hashes)).astype(np.int64)
        self._unmerged = []
        self.distinct = len(self._hashes)
        if self.distinct > self._limit:
            self.is_over_limit = True
            self._hashes = np.empty(0, np.uint64)
            self._counts = np.empty(0, np.int64)
        return self._hashes, self._counts


class RunningStatistics:
    """Mean and standard deviation of a column (the update of Chan, Golub and LeVeque)."""

    def __init__(self, use_log: bool) -> None:
        self.use_log = use_log
        self.count = 0
        self.missing = 0
        self.text = 0
        self.text_example = ""  # the first text, with its line
        self.mean = 0.0
        self.squares = 0.0  # sum of squared differences from the mean

    def add(
        self,
        column: pa.Array,
        is_training: NDArray[np.bool_],
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        """Add a block of the column.

        Args:
            column: The block.
            is_training: Which of its rows are in the training part.
            lines: Their line numbers, for messages.
        """
        numbers, is_text = read_numbers(column)
        self.missing += int(np.isnan(numbers).sum())
        self.text += int(is_text.sum())
        if is_text.any() and not self.text_example and lines is not None:
            self.text_example = show_example(column, is_text, lines)
        self.add_values(transform_numbers(numbers[is_training & ~np.isnan(numbers)], self.use_log))

    def add_values(self, values: Floats) -> None:
        """Add numbers of the training part."""
        new_count = len(values)
        if new_count == 0:
            return
        total = self.count + new_count
        difference = values.mean() - self.mean
        self.squares += float(
            ((values - values.mean()) ** 2).sum() + difference**2 * self.count * new_count / total
        )
        self.mean += float(difference * new_count / total)
        self.count = total

    @property
    def std(self) -> float:
        if not self.count:
            return 0.0
        return float(np.sqrt(self.squares / self.count))


class LabelCounter:
    """Counts the labels of each part, and measures the numbers of a regression."""

    def __init__(self, target: Target) -> None:
        self._target = target
        size = 0
        if target.kind == BINARY:
            size = 2
        elif target.kind == CLASSIFICATION:
            size = len(target.classes)
        self.counts = np.zeros((3, size), np.int64)  # rows by part and class
        self.statistics = RunningStatistics(use_log=False)  # of a regression, in training
        self.label_range: tuple[float, ...] = ()  # lowest and highest label of a regression
        self._values: set[float] = set()  # of a regression, at most `MAX_CLASSES` and one block

    def add(self, labels: Floats, parts: NDArray[np.int64]) -> None:
        """Count the labels of a block."""
        if self._target.kind == REGRESSION:
            self.statistics.add_values(labels[parts == TRAIN_PART])
            if len(labels):
                ends = (float(labels.min()), float(labels.max()), *self.label_range)
                self.label_range = (min(ends), max(ends))
            if len(self._values) <= MAX_CLASSES:
                self._values.update(np.unique(labels).tolist())
            return
        np.add.at(self.counts, (parts, labels.astype(np.int64)), 1)

    def allows_classes(self) -> bool:
        """Return whether the numbers of a regression could be classes instead."""
        count = len(self._values)
        if count > MAX_CLASSES:
            return False
        return self.statistics.count >= MIN_ROWS_PER_CLASS * count

    def count_clicks(self) -> tuple[int, ...]:
        """Return the rows with the label 1 by part; zeros unless the label is binary."""
        if self._target.kind != BINARY:
            return (0, 0, 0)
        return tuple(self.counts[:, 1].tolist())

    def count_classes(self) -> tuple[int, ...]:
        """Return the rows of each class; empty unless the label is a class."""
        if self._target.kind != CLASSIFICATION:
            return ()
        return tuple(self.counts.sum(0).tolist())

    def count_test_classes(self) -> tuple[int, ...]:
        """Return the test rows of each class; empty unless the label is a class."""
        if self._target.kind != CLASSIFICATION:
            return ()
        return tuple(self.counts[TEST_PART].tolist())

    def find_only_label(self, part: int | None = None) -> str | None:
        """Return the label that all rows have, in one part or in all; None if they differ."""
        if self._target.kind == REGRESSION:
            # That a single row is too few to train on is reported with another message.
            if self.statistics.std > 0 or (part is None and self.statistics.count < 2):
                return None
            return f"{self.statistics.mean:g}"
        counts = self.counts.sum(0) if part is None else self.counts[part]
        (present,) = counts.nonzero()
        if len(present) > 1:
            return None
        if len(present) == 0:
            return "nothing"
        if self._target.kind == BINARY:
            return str(int(present[0]))
        return self._target.classes[int(present[0])]


def _check_rows(
    table: Table,
    row_counts: NDArray[np.int64],
    labels: LabelCounter,
    bad_rows: BadRows,
    has_own_test: bool,
) -> None:
    """Raise an error if a table cannot be learned from."""
    total = int(row_counts.sum())
    total_with_bad = total + bad_rows.count
    if bad_rows.count > MAX_BAD_SHARE * total_with_bad:
        raise UsageError(
            f"{bad_rows.count:,} of {total_with_bad:,} rows of {table.path} are bad; "
            f"{'; '.join(bad_rows.first_reasons[:2])}. Repair the file, or name the roles of its "
            "columns"
        )
    if total == 0:
        raise UsageError(f"{table.path} has a header and no rows")
    only_label = labels.find_only_label()
    if only_label is not None:
        raise UsageError(
            f"all {total:,} rows of {table.path} have the label {only_label}; "
            "nothing can be learned"
        )
    needed_counts = row_counts
    if has_own_test:
        needed_counts = row_counts[:-1]
    if needed_counts.min() == 0 or labels.find_only_label(TRAIN_PART) is not None:
        raise UsageError(f"{total} rows of {table.path} are too few to train and test on")


def _make_dense_columns(
    statistics: dict[str, RunningStatistics], row_count: int, roles: ColumnRoles
) -> tuple[list[DenseColumn], DroppedColumns]:
    """Return the dense columns, and those that are useless with the reason."""
    columns = []
    dropped = []
    for name, column in statistics.items():
        # Texts count as missing numbers, so they are added back.
        present = row_count - column.missing + column.text
        if column.text > MAX_BAD_SHARE * present:
            advice = f"{CLEAN_ADVICE} categorical={name} or drop={name}"
            if name in roles.decimal_comma_columns:
                advice = f"it {DECIMAL_COMMA_ADVICE}"
            share = column.text / present
            raise UsageError(
                f"{format_percent(share, 0)} of the values of {name} are text, such as "
                f"{column.text_example}; {advice}"
            )
        if column.std > 0:
            columns.append(
                DenseColumn(
                    name,
                    column.use_log,
                    column.mean,
                    column.std,
                    column.missing,
                    column.text,
                    column.text_example,
                )
            )
        elif column.count:
            dropped.append((name, "one value only"))
        else:
            dropped.append((name, "no numbers"))
    return columns, dropped


def _make_identifier_columns(
    counters: dict[str, IdentifierCounter], options: TableOptions
) -> tuple[list[IdentifierColumn], DroppedColumns]:
    """Return the columns of identifiers, and those that are useless with the reason."""
    columns = []
    dropped = []
    for name, counter in counters.items():
        hashes, counts = counter.merge()
        vocabulary = hashes[counts >= options.floor]
        if counter.is_over_limit:
            columns.append(IdentifierColumn(name, options.hash, counter.distinct, counter.missing))
        elif counter.distinct == 1:
            dropped.append((name, "one value only"))
        elif len(vocabulary) == 0:
            dropped.append((name, f"no value occurs {options.floor} times"))
        else:
            size = len(vocabulary) + 1
            columns.append(
                IdentifierColumn(name, size, counter.distinct, counter.missing, vocabulary)
            )
    return columns, dropped

"""The first pass over a table: counts, vocabularies and statistics.

The memory that it needs does not grow with the file. Everything that encodes a row is learned from
the training part alone, so an identifier that occurs only in other parts counts as unknown.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from untrained.data.tables.advice import DECIMAL_COMMA_ADVICE, Advice, give_advice
from untrained.data.tables.options import TableOptions
from untrained.data.tables.reader import BadRows, Table
from untrained.data.tables.roles import HEAD_ROWS, ColumnRoles
from untrained.data.tables.schema import (
    DenseColumn,
    IdentifierColumn,
    Schema,
    transform_numbers,
)
from untrained.data.tables.values import (
    Floats,
    Hashes,
    cast_to_strings,
    hash_identifiers,
    read_label,
    read_numbers,
    read_texts,
    read_times,
)
from untrained.errors import UsageError
from untrained.seeds import derive_seed

# Of train, val and test, as in the paper of the reference networks.
PART_SHARES = (0.8, 0.1, 0.1)
TRAIN_PART = 0
MAX_BAD_SHARE = 0.1  # of bad rows, and of text in a column of numbers
_UNSORTED_HASHES = 2**16  # hashes that are collected before they are merged
Labels = NDArray[np.int64]
DroppedColumns = list[tuple[str, str]]  # names of columns, and why they are dropped
# The part of each row, from the first row number up to the second (excluded).
Split = Callable[[int, int], NDArray[np.int64]]


def survey_table(table: Table, roles: ColumnRoles, options: TableOptions) -> tuple[Schema, Split]:
    """Learn how to encode a table.

    Args:
        table: The table.
        roles: The roles of its columns.
        options: The user's options for the table.

    Returns:
        The schema, and a function that returns the part of each row.

    Raises:
        UsageError: The table cannot be learned from.
    """
    split: Split = split_at_random
    if roles.time:
        split = split_by_time(table, roles, options.above)
    statistics = {name: RunningStatistics(name in roles.log_columns) for name in roles.dense}
    counters = {name: IdentifierCounter(options.hash) for name in roles.categorical}

    row_counts = np.zeros(3, np.int64)
    click_counts = np.zeros(3, np.int64)
    bad_rows = BadRows()
    advice: Advice = ()
    for block, labels in read_labelled_blocks(table, roles, options.above, bad_rows):
        start = int(row_counts.sum())
        if start == 0:
            advice = give_advice(block[:HEAD_ROWS], labels[:HEAD_ROWS], roles, options)
        parts = split(start, start + len(block))
        is_training = parts == TRAIN_PART
        for name, column_statistics in statistics.items():
            column_statistics.add(block[name], is_training)
        for name, counter in counters.items():
            counter.add(block[name], is_training)
        row_counts += np.bincount(parts, minlength=3)
        click_counts += np.bincount(parts[labels == 1], minlength=3)

    _check_rows(table, row_counts, click_counts, bad_rows)
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
        if name not in useless_columns or name in roles.decimal_comma_columns:
            kept_advice.append((name, text))
    schema = Schema(
        label=roles.label,
        dense=tuple(dense),
        identifiers=tuple(identifiers),
        dropped=dropped,
        rows=tuple(row_counts.tolist()),
        clicks=tuple(click_counts.tolist()),
        split=f"by {roles.time}, the last rows for testing" if roles.time else "at random",
        floor=options.floor,
        bad=bad_rows.count,
        bad_rows=tuple(bad_rows.first),
        missing=table.missing,
        timestamps=tuple(name for name in roles.timestamps if name not in useless_columns),
        date_candidates=() if roles.time else roles.date_candidates,
        decimal="," if options.has_decimal_comma else ".",
        advice=tuple(kept_advice),
    )
    return schema, split


# ----------------------------------------------------------------------------------------- labels


def read_labelled_blocks(
    table: Table, roles: ColumnRoles, above: float | None, bad_rows: BadRows
) -> Iterator[tuple[pa.RecordBatch, Labels]]:
    """Yield blocks of the rows that have a label, with the labels.

    Args:
        table: The table.
        roles: The roles of its columns.
        above: If given, a label is 1 if its number is above this.
        bad_rows: Rows without a label are added to it.

    Raises:
        UsageError: The column is not a label: most rows of the first block have none. Later blocks
            may be short, so the total count of bad rows decides about them.
    """
    for number, (block, lines) in enumerate(table.blocks(bad_rows)):
        column = block[roles.label]
        labels = _read_labels(column, roles.label, above)
        is_bad = labels < 0
        if is_bad.any():
            texts = read_texts(column)
            if number == 0 and is_bad.mean() > 0.5:
                raise _not_a_label_error(roles.label, texts, is_bad)
            for row in is_bad.nonzero()[0]:
                reason = "no label"
                if texts[row]:
                    reason = f"the label {roles.label} is {texts[row]!r}"
                bad_rows.add(int(lines[row]), reason)
            block = block.filter(pa.array(~is_bad))
            labels = labels[~is_bad]
        yield block, labels


def _not_a_label_error(name: str, texts: list[str | None], is_bad: NDArray[np.bool_]) -> UsageError:
    examples = {texts[row] for row in is_bad.nonzero()[0][:3]}
    shown = ", ".join(sorted(repr(text) if text else "nothing" for text in examples))
    message = f"the label {name} holds {shown}; expected 0 and 1, false and true or no and yes"
    if len(set(texts) - {None}) > 2:
        message += "; more than two classes are not supported in a table"
    return UsageError(message)


def _read_labels(column: pa.Array, name: str, above: float | None) -> Labels:
    """Return the labels 0 and 1, and -1 for a missing label."""
    encoded = cast_to_strings(column).dictionary_encode(null_encoding="encode")
    indices = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    texts = read_texts(encoded.dictionary)
    numbers = np.array([read_label(text, above) for text in texts])
    is_wrong = ~np.isnan(numbers) & (numbers != 0) & (numbers != 1)
    if is_wrong.any():
        threshold = _propose_threshold(numbers[indices])
        raise UsageError(
            f"the label {name} is {texts[int(is_wrong.argmax())]} somewhere; expected 0 and 1, "
            f"or say which are 1: --data 'csv:PATH?label={name}&above={threshold}'"
        )
    labels: Labels = np.nan_to_num(numbers, nan=-1).astype(np.int64)
    return labels[indices]


def _propose_threshold(values: Floats) -> str:
    """Return a number that some values are above and others are not: the median if possible."""
    low, median, high = np.quantile(values[~np.isnan(values)], (0, 0.5, 1))
    short_median = f"{median:.3g}"
    if low <= float(short_median) < high:
        return short_median
    return f"{(low + high) / 2:.15g}"


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


def split_by_time(table: Table, roles: ColumnRoles, above: float | None) -> Split:
    """Make a split in which the last rows by time are the test part.

    Rows of the same time keep their order in the file, and rows without a time come first. This
    needs a pass over the file and about 17 bytes per row.
    """
    times = [np.empty(0)]
    for block, _ in read_labelled_blocks(table, roles, above, BadRows()):
        times.append(read_times(block[roles.time], roles.time))
    sort_keys = np.nan_to_num(np.concatenate(times), nan=-np.inf)
    cuts = np.round(np.cumsum(PART_SHARES)[:-1] * len(sort_keys)).astype(int)
    parts = np.empty(len(sort_keys), np.int8)
    for part, rows in enumerate(np.split(np.argsort(sort_keys, kind="stable"), cuts)):
        parts[rows] = part
    return lambda start, stop: parts[start:stop].astype(np.int64)


# -------------------------------------------------------------------------- statistics of columns


class IdentifierCounter:
    """Counts how often each identifier of a column occurs in training.

    If there are more than `limit` different ones, it stops counting and frees its memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._hashes = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.int64)
        self._new: list[tuple[Hashes, NDArray[np.int64]]] = []
        self.distinct = 0  # different identifiers at the last merge
        self.missing = 0
        self.is_full = False

    def add(self, column: pa.Array, is_training: NDArray[np.bool_]) -> None:
        """Count a block of the column."""
        self.missing += column.null_count
        if self.is_full:
            return
        hashes, indices = hash_identifiers(column)
        counts = np.bincount(indices[is_training], minlength=len(hashes))
        self._new.append((hashes[counts > 0], counts[counts > 0]))
        new_count = sum(len(new_hashes) for new_hashes, _ in self._new)
        # Merging only when the number of identifiers may have doubled keeps sorting cheap.
        if new_count > max(len(self._hashes), _UNSORTED_HASHES):
            self.merge()

    def merge(self) -> tuple[Hashes, NDArray[np.int64]]:
        """Merge new counts; return all identifiers in increasing order and their counts.

        Both are empty if there are too many identifiers.
        """
        if self.is_full:
            return self._hashes, self._counts
        hashes = np.concatenate([self._hashes, *(new_hashes for new_hashes, _ in self._new)])
        counts = np.concatenate([self._counts, *(new_counts for _, new_counts in self._new)])
        self._hashes, indices = np.unique(hashes, return_inverse=True)
        self._counts = np.bincount(indices, counts, len(self._hashes)).astype(np.int64)
        self._new = []
        self.distinct = len(self._hashes)
        if self.distinct > self._limit:
            self.is_full = True
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
        self.mean = 0.0
        self.squares = 0.0  # sum of squared differences from the mean

    def add(self, column: pa.Array, is_training: NDArray[np.bool_]) -> None:
        """Add a block of the column."""
        numbers, is_text = read_numbers(column)
        self.missing += int(np.isnan(numbers).sum())
        self.text += int(is_text.sum())
        values = transform_numbers(numbers[is_training & ~np.isnan(numbers)], self.use_log)
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


def _check_rows(
    table: Table,
    row_counts: NDArray[np.int64],
    click_counts: NDArray[np.int64],
    bad_rows: BadRows,
) -> None:
    """Raise an error if a table cannot be learned from."""
    total = int(row_counts.sum())
    clicks = int(click_counts.sum())
    total_with_bad = total + bad_rows.count
    if bad_rows.count > MAX_BAD_SHARE * total_with_bad:
        raise UsageError(
            f"{bad_rows.count:,} of {total_with_bad:,} rows of {table.path} are bad; "
            f"{'; '.join(bad_rows.first[:2])}. Repair the file, or name the roles of its columns"
        )
    if total == 0:
        raise UsageError(f"{table.path} has a header and no rows")
    if clicks in (0, total):
        raise UsageError(
            f"all {total:,} rows of {table.path} have the label {int(clicks > 0)}; "
            "nothing can be learned"
        )
    if row_counts.min() == 0 or click_counts[TRAIN_PART] in (0, row_counts[TRAIN_PART]):
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
            advice = f"write categorical={name} or drop={name}"
            if name in roles.decimal_comma_columns:
                advice = f"it {DECIMAL_COMMA_ADVICE}"
            share = column.text / present
            raise UsageError(f"{share:.0%} of the values of {name} are text; {advice}")
        if column.std > 0:
            columns.append(
                DenseColumn(
                    name, column.use_log, column.mean, column.std, column.missing, column.text
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
        if counter.is_full:
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

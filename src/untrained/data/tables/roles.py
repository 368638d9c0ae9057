"""Decide the role of each column, from the user's options or from the first rows.

Numbers are dense columns, and texts are identifiers. Whole numbers are identifiers as well if the
name of the column ends in `id`, or if the first rows have only a few different ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from untrained.data.tables.options import TableOptions
from untrained.data.tables.values import (
    is_time_type,
    read_numbers,
    read_texts,
    read_times,
    replace_decimal_comma,
)
from untrained.errors import MAX_NAMES_SHOWN, UsageError, make_unknown_name_error

LABEL_NAMES = ("label", "click", "clicked", "target")
HEAD_ROWS = 10_000  # rows from which roles are inferred
FEW_VALUES = 20  # with more different whole numbers, a column is dense
ID_NAME = re.compile(r"(^|_)id$|(?<=[a-z])I[dD]$|(^|_)ID$")  # user_id, itemId, but not bid
DATE_NAME = re.compile(r"(^|_)(date|datetime|timestamp)$", re.IGNORECASE)
# Either separated thousands, or numbers with a decimal comma and three decimals.
THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(,[0-9]{3})+")
MOST_VALUES = 0.9  # share of the values that decides what a column is


@dataclass(frozen=True)
class ColumnRoles:
    """The role of each column.

    Attributes:
        label: Column to predict.
        time: Column that orders the split; empty for a random split.
        dense: Columns of numbers.
        categorical: Columns of identifiers.
        log_columns: Dense columns that are transformed by a logarithm.
        dropped: Columns that are not used, with the reason.
        timestamps: Columns of a time type.
        date_candidates: Columns that look like times, and that the user did not name as such.
        decimal_comma_columns: Columns of texts that would be numbers with a decimal comma.
    """

    label: str
    time: str
    dense: tuple[str, ...]
    categorical: tuple[str, ...]
    log_columns: frozenset[str]
    dropped: tuple[tuple[str, str], ...]
    timestamps: tuple[str, ...]
    date_candidates: tuple[str, ...]
    decimal_comma_columns: tuple[str, ...]


def infer_roles(columns: Sequence[str], head: pa.RecordBatch, options: TableOptions) -> ColumnRoles:
    """Decide the role of each column.

    Args:
        columns: Names of the columns.
        head: The first rows.
        options: The user's options for the table.

    Raises:
        UsageError: A column that the user names does not exist or has two roles, or there is no
            label.
    """
    _check_named_columns(columns, options)
    label = options.label or _find_label(columns, head)
    dropped = [(name, "named in drop") for name in options.drop]
    if options.time:
        dropped.append((options.time, "it orders the split"))
    candidates = [name for name in columns if name not in {label, options.time, *options.drop}]

    used_columns = []
    nested_columns = []
    time_of_day_columns = []
    for name in candidates:
        if pa.types.is_nested(head[name].type):
            nested_columns.append(name)
        elif _is_time_of_day_type(head[name].type):
            time_of_day_columns.append(name)
        else:
            used_columns.append(name)
    for name in nested_columns:
        dropped.append((name, "lists and structures are not read"))
    for name in time_of_day_columns:
        dropped.append((name, "times of day and durations are not read"))

    dense = []
    for name in used_columns:
        if name in options.categorical:
            continue
        if name in options.dense or _is_dense(name, head[name]):
            dense.append(name)
    return ColumnRoles(
        label=label,
        time=options.time,
        dense=tuple(dense),
        categorical=tuple(name for name in used_columns if name not in dense),
        log_columns=frozenset(_choose_log_columns(dense, head, options)),
        dropped=tuple(dropped),
        timestamps=tuple(name for name in used_columns if is_time_type(head[name].type)),
        date_candidates=tuple(name for name in used_columns if _is_date(name, head[name])),
        decimal_comma_columns=tuple(_find_decimal_comma_columns(used_columns, head, options)),
    )


def _check_named_columns(columns: Sequence[str], options: TableOptions) -> None:
    named_columns = options.named_columns
    label_parts = options.label.split(",")
    if options.label not in columns and len(label_parts) > 1 and set(label_parts) <= set(columns):
        raise UsageError(
            f"the label is in {len(label_parts)} columns, {options.label}, and a network predicts "
            f"one column; name one as label, and leave out the others with drop={label_parts[1]}"
        )
    for name in named_columns:
        if name not in columns:
            raise make_unknown_name_error("column", name, columns)
    repeated_names = {name for name in named_columns if named_columns.count(name) > 1}
    if repeated_names:
        names = ", ".join(sorted(repeated_names))
        raise UsageError(f"{names}: each of these columns is named in two roles; name it once")


def _find_label(columns: Sequence[str], head: pa.RecordBatch) -> str:
    """Find the column whose name says that it is the label.

    Among several such columns, it is the only one with two different values.
    """
    candidates = [name for name in columns if name.lower() in LABEL_NAMES]
    if len(candidates) > 1:
        candidates = [name for name in candidates if _count_values(head[name]) == 2]
    if len(candidates) == 1:
        return candidates[0]
    shown_names = ", ".join(columns[:MAX_NAMES_SHOWN])
    if len(columns) > MAX_NAMES_SHOWN:
        shown_names += f" and {len(columns) - MAX_NAMES_SHOWN} more"
    raise UsageError(f"name the label column, such as --label click; available: {shown_names}")


def _count_values(column: pa.Array) -> int:
    return len(set(read_texts(column)) - {None})


def _choose_log_columns(
    dense: Sequence[str], head: pa.RecordBatch, options: TableOptions
) -> list[str]:
    """Return the dense columns that are transformed by a logarithm."""
    if options.log == "all":
        return list(dense)
    if options.log == "counts":
        return [name for name in dense if _has_whole_numbers(head[name])]
    return []


def _find_decimal_comma_columns(
    used_columns: Sequence[str], head: pa.RecordBatch, options: TableOptions
) -> list[str]:
    """Return the columns whose texts would be numbers with a decimal comma."""
    if options.has_decimal_comma:
        # The user has named the decimal comma already.
        return []
    names = []
    for name in used_columns:
        if name not in options.categorical and _has_decimal_commas(head[name]):
            names.append(name)
    return names


def _is_time_of_day_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_time(kind) or pa.types.is_duration(kind))


def _is_date(name: str, column: pa.Array) -> bool:
    """Return whether a column holds dates, according to its type, its name, or the texts in it.

    Numbers alone do not tell whether they are dates.
    """
    if is_time_type(column.type) or DATE_NAME.search(name):
        return True
    try:
        _, is_text = read_numbers(column)
        return bool(is_text.any() and len(read_times(column, name)))
    except (UsageError, pa.ArrowException):
        # A text that is not a date, or bytes that are not text.
        return False


def _has_decimal_commas(column: pa.Array) -> bool:
    """Return whether most texts are numbers with a decimal comma, and not numbers as they are.

    Texts that may be numbers with separated thousands do not count.
    """
    column = column.drop_null()
    swapped_column = replace_decimal_comma(column)
    if swapped_column.equals(column):
        return False
    _, is_text = read_numbers(column)
    _, is_swapped_text = read_numbers(swapped_column)
    if is_text.mean() <= 1 - MOST_VALUES or is_swapped_text.mean() > 1 - MOST_VALUES:
        return False
    texts_with_comma = [text for text in read_texts(column) if text and "," in text]
    return not all(THOUSANDS.fullmatch(text) for text in texts_with_comma)


def _is_dense(name: str, column: pa.Array) -> bool:
    """Return whether a column holds numbers that are not identifiers."""
    values, is_text = read_numbers(column)
    values = values[~np.isnan(values)]
    # A few texts among numbers are tolerated; they count as missing.
    if len(values) == 0 or is_text.mean() > 1 - MOST_VALUES:
        return False
    if not _has_whole_numbers(column):
        return True
    return not ID_NAME.search(name) and len(np.unique(values)) > FEW_VALUES


def _has_whole_numbers(column: pa.Array) -> bool:
    values, _ = read_numbers(column)
    return bool(np.all(np.isnan(values) | (values == np.round(values))))

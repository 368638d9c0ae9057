"""Advice on the columns of a table that the user should look at.

It is derived from the first rows of the file and changes nothing.
"""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from untrained.data.tables.options import TableOptions
from untrained.data.tables.roles import FEW_VALUES, ID_NAME, ColumnRoles
from untrained.data.tables.values import Floats, hash_identifiers, read_numbers, read_texts
from untrained.formatting import format_percent
from untrained.quantities import show_value
from untrained.types import BINARY, REGRESSION, TaskKind

DECIMAL_COMMA_ADVICE = "looks like numbers with a decimal comma; if it is, write decimal=comma"
CLEAN_ADVICE = "clean the column, or write"
# With fewer rows, or fewer rows of a label, a column may separate the labels by chance.
MIN_ROWS = 100
MIN_ROWS_PER_LABEL = 10
PERFECT_AUC = 0.999  # a column with a higher AUC most likely leaks the label
# The Spearman correlation that corresponds to this AUC: -1 to 1 instead of 0 to 1.
PERFECT_CORRELATION = 2 * PERFECT_AUC - 1
# Width of a range of whole numbers relative to its lower end. That of prices and counts is usually
# larger.
NARROW_RANGE = 0.1
# A number, perhaps with the sign of a currency before it, and the unit after it, such as " m2".
NUMBER_WITH_UNIT = re.compile(r"\s*[$€£]?\s*[-+]?[0-9][0-9.,' ]*(?P<unit>[^0-9]?.*)")
MAX_UNIT_LENGTH = 12
# A column is a column of numbers if more than this share of its values are numbers.
MOST_NUMBERS = 0.5
Advice = tuple[tuple[str, str], ...]  # names of columns, and the advice on each


def give_advice(
    head: pa.RecordBatch,
    labels: Floats,
    lines: NDArray[np.int64],
    kind: TaskKind,
    roles: ColumnRoles,
    options: TableOptions,
) -> Advice:
    """Give at most one piece of advice per column, the most serious first.

    Args:
        head: The first rows.
        labels: Their labels.
        lines: Their line numbers.
        kind: What the labels are.
        roles: The roles of the columns.
        options: The user's options for the table.
    """
    used_columns = (*roles.dense, *roles.categorical)
    numbers = {name: read_numbers(head[name])[0] for name in used_columns}
    advice: dict[str, str] = {}
    for name in used_columns:
        if reveals_label(head[name], numbers[name], labels, kind):
            advice[name] = (
                "predicts the label almost perfectly, so it may be a leak; to leave it out, write "
                f"drop={name}"
            )
    for name in roles.decimal_comma_columns:
        advice.setdefault(name, DECIMAL_COMMA_ADVICE)
    for name in roles.categorical:
        if name in options.categorical or name in roles.date_candidates or ID_NAME.search(name):
            continue
        text = describe_mixed_numbers(head[name], lines)
        if text:
            advice.setdefault(name, f"{text}; {CLEAN_ADVICE} categorical={name} or drop={name}")
    for name in used_columns:
        if is_row_number(numbers[name]):
            advice.setdefault(name, f"numbers the rows; to leave it out, write drop={name}")
    return tuple(advice.items())


def give_hints(head: pa.RecordBatch, roles: ColumnRoles, options: TableOptions) -> Advice:
    """Name dense columns that may be identifiers, although most such columns are not.

    Args:
        head: The first rows.
        roles: The roles of the columns.
        options: The user's options for the table.
    """
    hints = []
    for name in roles.dense:
        if name in options.dense or name in roles.date_candidates:
            continue
        if has_narrow_range(read_numbers(head[name])[0]):
            text = (
                f"holds whole numbers far from 0; if they are identifiers, write categorical={name}"
            )
            hints.append((name, text))
    return tuple(hints)


def describe_mixed_numbers(column: pa.Array, lines: NDArray[np.int64]) -> str:
    """Describe a column of identifiers that looks like numbers with text in it.

    Args:
        column: The first rows of the column.
        lines: Their line numbers.

    Returns:
        A text such as "75 % numbers, 25 % text such as 'about 46.4' (line 4)"; empty if the values
        look like identifiers.
    """
    numbers, is_text = read_numbers(column)
    is_number = ~np.isnan(numbers)
    count = int(is_number.sum() + is_text.sum())
    if not is_text.any():
        return ""
    example = show_example(column, is_text, lines)
    if is_number.sum() > MOST_NUMBERS * count:
        if len(np.unique(numbers[is_number])) <= FEW_VALUES:
            return ""
        number_share = format_percent(is_number.sum() / count, 0)
        text_share = format_percent(is_text.sum() / count, 0)
        return f"{number_share} numbers, {text_share} text such as {example}"
    # Numbers with a unit are text. Other texts that begin with a number, such as addresses, have
    # different words after it.
    units: Counter[str] = Counter()
    amounts = set()
    for text in read_texts(column.filter(pa.array(is_text))):
        match = NUMBER_WITH_UNIT.fullmatch(text or "")
        if match is not None and len(match["unit"].strip()) <= MAX_UNIT_LENGTH:
            units[match["unit"].strip()] += 1
            amounts.add(text)
    if not units or len(amounts) <= FEW_VALUES:
        return ""
    unit_count = max(units.values())
    if unit_count + is_number.sum() <= MOST_NUMBERS * count:
        return ""
    share = format_percent(sum(units.values()) / count, 0)
    return f"{share} of the values begin with a number and are text, such as {example}"


def show_example(column: pa.Array, is_chosen: NDArray[np.bool_], lines: NDArray[np.int64]) -> str:
    """Return the first chosen value of a column with its line, such as "'about 46.4' (line 4)"."""
    row = int(is_chosen.argmax())
    (text,) = read_texts(column.slice(row, 1))
    return f"{show_value(text)} (line {lines[row]})"


def reveals_label(column: pa.Array, numbers: Floats, labels: Floats, kind: TaskKind) -> bool:
    """Return whether a column alone predicts the label almost perfectly.

    Of several classes, the column must tell each one from all the others.
    """
    if kind == REGRESSION:
        return sorts_labels(numbers, labels)
    if kind == BINARY:
        return reveals_binary_label(column, numbers, labels)
    classes = np.unique(labels)
    if not 1 < len(classes) <= FEW_VALUES:
        return False
    return all(
        reveals_binary_label(column, numbers, (labels == number).astype(np.float64))
        for number in classes
    )


def sorts_labels(numbers: Floats, labels: Floats) -> bool:
    """Return whether sorting the rows by a column almost sorts the labels, up or down."""
    is_present = ~np.isnan(numbers)
    if is_present.sum() < MIN_ROWS:
        return False
    ranks = pd.Series(numbers[is_present]).rank()
    label_ranks = pd.Series(labels[is_present]).rank()
    if min(ranks.nunique(), label_ranks.nunique()) < 2:
        return False
    correlation = np.corrcoef(ranks, label_ranks)[0, 1]
    return bool(abs(correlation) > PERFECT_CORRELATION)


def reveals_binary_label(column: pa.Array, numbers: Floats, labels: Floats) -> bool:
    """Return whether a column alone predicts labels of 0 and 1 almost perfectly.

    Three signals are tried: its numbers, which values are missing, and, for a column with few
    distinct values, the mean label of each value.
    """
    null_mask = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    is_missing = np.asarray(null_mask, np.float64)
    hashes, indices = hash_identifiers(column)
    if len(hashes) <= FEW_VALUES:
        mean_labels = np.bincount(indices, labels) / np.bincount(indices)
    else:
        mean_labels = np.zeros(len(hashes))
    signals = (numbers, is_missing, mean_labels[indices])
    return any(separates_labels(signal, labels) for signal in signals)


def separates_labels(values: Floats, labels: Floats) -> bool:
    """Return whether the values of nearly all rows with one label are above those of the other.

    The area under the ROC curve is computed from the ranks of the rows with label 1 (Mann and
    Whitney). Missing values have no rank.
    """
    ranks = pd.Series(values).rank()
    positives = int((ranks.notna() & (labels == 1)).sum())
    negatives = int((ranks.notna() & (labels == 0)).sum())
    if positives + negatives < MIN_ROWS or min(positives, negatives) < MIN_ROWS_PER_LABEL:
        return False
    area = (ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives)
    return not 1 - PERFECT_AUC <= area <= PERFECT_AUC


def is_row_number(values: Floats) -> bool:
    """Return whether the values are consecutive whole numbers."""
    if len(values) <= FEW_VALUES:
        return False
    return bool(np.all(values == np.round(values)) and np.all(np.diff(values) == 1))


def has_narrow_range(values: Floats) -> bool:
    """Return whether the middle 90 % of whole numbers are in a narrow range far from zero."""
    values = values[~np.isnan(values)]
    if len(values) <= FEW_VALUES or not np.all(values == np.round(values)):
        return False
    low, high = np.quantile(values, (0.05, 0.95))
    return bool(high - low < NARROW_RANGE * low)

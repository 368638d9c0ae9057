"""Which column is what: named by the user, or inferred from the first rows.

Numbers are dense and texts are identifiers. Whole numbers are identifiers too where their name ends in `id` or where
the first rows show only a few different ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from untrained.data._options import Options
from untrained.data._values import is_moment, numbers, pointed, texts, times
from untrained.errors import SHOWN, UsageError, unknown

LABELS = ("label", "click", "clicked", "target")
HEAD = 10_000  # rows that are looked at
FEW = 20
ENDS_IN_ID = re.compile(r"(^|_)id$|(?<=[a-z])I[dD]$|(^|_)ID$")  # user_id, itemId, but not bid
SAYS_DATE = re.compile(r"(^|_)(date|datetime|timestamp)$", re.IGNORECASE)
THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(,[0-9]{3})+")  # or a decimal comma and three digits; nobody knows
MOSTLY = 0.9  # the share of values that decides what a column is


@dataclass(frozen=True)
class Roles:
    """The label, the time, and the columns that a network sees; `logs` are those of the dense ones that are tamed,
    `moments` the columns of that type, `dated` those that look like moments and were not named one, `commas` those of
    texts that would be numbers with a decimal comma."""

    label: str
    time: str
    dense: tuple[str, ...]
    categorical: tuple[str, ...]
    logs: frozenset[str]
    dropped: tuple[tuple[str, str], ...]
    moments: tuple[str, ...]
    dated: tuple[str, ...]
    commas: tuple[str, ...]


def roles(columns: Sequence[str], head: pa.RecordBatch, options: Options) -> Roles:
    for name in options.named:
        if name not in columns:
            raise unknown("column", name, columns)
    if twice := {name for name in options.named if options.named.count(name) > 1}:
        raise UsageError(f"{', '.join(sorted(twice))} cannot be two things; name each column once")
    label = options.label or _find_label(columns, head)
    dropped = [(name, "named in drop") for name in options.drop]
    dropped += [(options.time, "it orders the split")] if options.time else []
    left = [name for name in columns if name not in {label, options.time, *options.drop}]
    dropped += [(name, "lists and structures are not read") for name in left if pa.types.is_nested(head[name].type)]
    dropped += [(name, "times of day and durations are not read") for name in left if _is_clock(head[name].type)]
    left = [name for name in left if name not in dict(dropped)]
    dense = [name for name in left if name in options.dense or (name not in options.categorical
                                                                and _is_dense(name, head[name]))]  # fmt: skip
    logs = {name for name in dense if options.log == "all" or (options.log == "counts" and _is_whole(head[name]))}
    categorical = [name for name in left if name not in dense]
    dated = [name for name in left if _is_date(name, head[name])]
    moments = [name for name in left if is_moment(head[name].type)]
    asked = options.categorical if not options.comma else left  # whoever says decimal=comma needs no advice on it
    commas = [name for name in left if name not in asked and _has_commas(head[name])]
    seen = tuple(dense), tuple(categorical), frozenset(logs)
    return Roles(label, options.time, *seen, tuple(dropped), tuple(moments), tuple(dated), tuple(commas))


def _find_label(columns: Sequence[str], head: pa.RecordBatch) -> str:
    """The one column whose name says so; of several, the one that has two values."""
    found = [name for name in columns if name.lower() in LABELS]
    if len(found) > 1:
        found = [name for name in found if len({*texts(head[name])} - {None}) == 2]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(columns[:SHOWN]) + (f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else "")
    raise UsageError(f"say which column is the label, such as --label click; there are: {listed}")


def _is_clock(kind: pa.DataType) -> bool:
    return bool(pa.types.is_time(kind) or pa.types.is_duration(kind))


def _is_date(name: str, column: pa.Array) -> bool:
    """By its type, by its name, or by texts of which each is a date; numbers alone may be anything."""
    if is_moment(column.type) or SAYS_DATE.search(name):
        return True
    try:
        return bool(numbers(column)[1].any() and len(times(column, name)))
    except (UsageError, pa.ArrowException):  # a text that is no date, bytes that are no text
        return False


def _has_commas(column: pa.Array) -> bool:
    """Texts of which most are numbers if a comma is decimal, and not as they are; nor those that may be thousands."""
    column = column.drop_null()
    if (swapped := pointed(column)).equals(column):  # as most columns are
        return False
    if numbers(column)[1].mean() <= 1 - MOSTLY or numbers(swapped)[1].mean() > 1 - MOSTLY:
        return False
    return not all(THOUSANDS.fullmatch(text) for text in texts(column) if text and "," in text)


def _is_dense(name: str, column: pa.Array) -> bool:
    values, text = numbers(column)
    values = values[~np.isnan(values)]
    if len(values) == 0 or text.mean() > 1 - MOSTLY:
        return False
    return not (_is_whole(column) and (ENDS_IN_ID.search(name) or len(np.unique(values)) <= FEW))


def _is_whole(column: pa.Array) -> bool:
    values, _ = numbers(column)
    return bool(np.all(np.isnan(values) | (values == np.round(values))))

"""What a person ought to know about the columns of a table, and may want to say: advice, which changes nothing.

It comes from the first rows of the file. Knows nothing of files and of how rows become numbers.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from untrained.data._options import Options
from untrained.data._roles import FEW, Roles
from untrained.data._values import Floats, keys, numbers

DECIMAL_COMMA = "looks like numbers with a decimal comma; write decimal=comma"
ROWS, EACH = 100, 10  # with fewer rows, or fewer of a label, anything tells the label by chance
PERFECT = 0.999  # an area under the curve that no honest column has
NARROW = 0.1  # the spread of whole numbers beside their size; prices and counts have more
Advice = tuple[tuple[str, str], ...]  # names of columns, and what is said of each
Labels = NDArray[np.int64]


def advice(head: pa.RecordBatch, labels: Labels, roles: Roles, options: Options) -> Advice:
    """One piece of it for a column at most; the gravest come first."""
    values = {name: numbers(head[name])[0] for name in (*roles.dense, *roles.categorical)}
    inferred = [name for name in roles.dense if name not in (*options.dense, *roles.dated)]
    said = {
        "tells the label by itself, a leak? write drop={}": [n for n in values if tells(head[n], values[n], labels)],
        DECIMAL_COMMA: roles.commas,
        "counts the rows; write drop={}": [n for n in values if counts_rows(values[n])],
        "whole numbers far from 0, identifiers? write categorical={}": [n for n in inferred if lies_far(values[n])],
    }
    found = dict[str, str]()
    for what, names in said.items():
        found |= {name: what.format(name) for name in names if name not in found}
    return tuple(found.items())


def tells(column: pa.Array, values: Floats, labels: Labels) -> bool:
    """By its numbers, by where it is missing, or by what each of a few values most often goes with."""
    missing = np.asarray(column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False), np.float64)
    words, rows = keys(column)
    usual = np.bincount(rows, labels) / np.bincount(rows) if len(words) <= FEW else np.zeros(len(words))
    return any(separates(signal, labels) for signal in (values, missing, usual[rows]))


def separates(values: Floats, labels: Labels) -> bool:
    """Whether nearly all rows of one label rank above those of the other, from the ranks of the clicks (Mann and
    Whitney); a missing value has none."""
    ranks = pd.Series(values).rank()
    clicks, others = (int((ranks.notna() & (labels == label)).sum()) for label in (1, 0))
    if clicks + others < ROWS or min(clicks, others) < EACH:
        return False
    area = (ranks[labels == 1].sum() - clicks * (clicks + 1) / 2) / (clicks * others)
    return not 1 - PERFECT <= area <= PERFECT


def counts_rows(values: Floats) -> bool:
    return len(values) > FEW and bool(np.all(values == np.round(values)) and np.all(np.diff(values) == 1))


def lies_far(values: Floats) -> bool:
    """Whole numbers of which nine of ten differ little beside their size."""
    values = values[~np.isnan(values)]
    if len(values) <= FEW or not np.all(values == np.round(values)):
        return False
    low, high = np.quantile(values, (0.05, 0.95))
    return bool(high - low < NARROW * low)

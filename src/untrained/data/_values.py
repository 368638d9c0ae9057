"""Arrow columns as numbers: what a label, a number, a time and an identifier are. Knows nothing of files.

An identifier is told by 64 bits of hash of its text, so that counting millions of them needs no texts; that two of a
million share them has a chance of 3 in 100 million. A missing one is an identifier like the others, the empty text.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from untrained.errors import UsageError

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
WORDS = {"false": 0, "no": 0, "true": 1, "yes": 1}


def numbers(column: pa.Array) -> tuple[Floats, NDArray[np.bool_]]:
    """The values, NaN where there is none that is finite; and where there is a text that is no number."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
    try:
        values, text = _floats(column.cast(pa.float64())), np.zeros(len(column), bool)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        told = texts(column)
        values = pd.to_numeric(pd.Series(told, dtype=object), errors="coerce").to_numpy(np.float64, na_value=np.nan)
        text = np.isnan(values) & np.array([value is not None and value.strip().lower() != "nan" for value in told])
    return np.where(np.isfinite(values), values, np.nan), text


def _floats(column: pa.Array) -> Floats:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def texts(column: pa.Array) -> list[str | None]:
    """The values as Python strings; bytes that are not UTF-8 become question marks."""
    found = strings(column).cast(pa.large_binary()).to_pylist()
    return [None if value is None else value.decode(errors="replace") for value in found]


def strings(column: pa.Array) -> pa.Array:
    """The column as texts, with whatever bytes they have."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    binary = pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_binary(column.type)
    return column if binary else column.cast(pa.string())


def keys(column: pa.Array) -> tuple[Keys, NDArray[np.int64]]:
    """The different identifiers of a column, as hashes, and which of them each row has."""
    encoded = strings(column).cast(pa.large_binary()).dictionary_encode(null_encoding="encode")
    found = [value or b"" for value in encoded.dictionary.to_pylist()]
    hashed = pd.util.hash_array(np.array(found, dtype=object), categorize=False)
    return hashed.astype(np.uint64), np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def times(column: pa.Array, name: str) -> Floats:
    """Moments as numbers that grow: numbers as they are, dates such as 2014-10-21 or 2014-10-21T07:00:00Z."""
    values, text = numbers(column)
    if not text.any():
        return values
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return _floats(column.cast(kind).cast(pa.int64()))
        except pa.ArrowInvalid:
            continue
    wrong = texts(column)[int(text.argmax())]
    raise UsageError(f"time={name}: {wrong!r} is no moment; wanted numbers or dates such as 2014-10-21T07:00:00")


def label(text: str | None, name: str, above: float | None) -> int | None:
    """0 or 1; None where there is no label. Numbers other than these two are no click log."""
    word = (text or "").strip().lower()
    if word in WORDS and above is None:
        return WORDS[word]
    try:
        number = float(word)
    except ValueError:
        return None
    if np.isnan(number):
        return None
    if above is not None:
        return int(number > above)
    if number in (0, 1):
        return int(number)
    typed = f"'csv:PATH?label={name}&above=3.5'"
    raise UsageError(f"the label {name} is {text} somewhere; wanted 0 and 1, or say which are 1: --data {typed}")

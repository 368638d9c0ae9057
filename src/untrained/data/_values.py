"""Arrow columns as numbers: what a label, a number, a time and an identifier are. Knows nothing of files.

An identifier is told by 64 bits of hash of its text, so that counting millions of them needs no texts; that two of a
million share them has a chance of 3 in 100 million. A missing one is an identifier like the others, the empty text.
A value has one text, whether a CSV file, a parquet file or a program holds it; so has a moment one number.
"""

import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from untrained.errors import UsageError

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
WORDS = {"false": 0, "no": 0, "true": 1, "yes": 1}
BOOLEANS = {"False": "false", "FALSE": "false", "True": "true", "TRUE": "true"}  # as Python, R and spreadsheets write
SCIENTIFIC = re.compile(r"-?[0-9](\.[0-9]+[eE]\+?|[eE]\+)[0-9]+")  # 1.5e10 and 1e+10; 1e10 may be a hash
COMMA = r"[-+0-9. ]*,[-+0-9.,eE ]*|[-+ ]*[0-9]{1,3}(\.[0-9]{3})+ *"  # 3,5 and 1.234,5 and 1.234
NOTHING = {"None", "nan", "NaT", "<NA>"}  # what Python, numpy and pandas hold where there is no value


def numbers(column: pa.Array) -> tuple[Floats, NDArray[np.bool_]]:
    """The values, NaN where there is none that is finite; and where there is a text that is no number."""
    column = _plain(column)
    if pa.types.is_boolean(column.type):  # the words that they are in a CSV file
        column = column.cast(pa.string())
    try:
        values, text = _floats(column.cast(pa.float64())), np.zeros(len(column), bool)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        told = texts(column)
        values = pd.to_numeric(pd.Series(told, dtype=object), errors="coerce").to_numpy(np.float64, na_value=np.nan)
        text = np.isnan(values) & np.array([value is not None and value.strip().lower() != "nan" for value in told])
    return np.where(np.isfinite(values), values, np.nan), text


def pointed(column: pa.Array) -> pa.Array:
    """Numbers that have a decimal comma written with a point. Of 1.234, which may be a thousand there, none is made.
    The program that goes with an exported network has the same function."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    swapped = column
    for old, new in ((",", "\0"), (".", ","), ("\0", ".")):
        swapped = pc.replace_substring(swapped, old, new)
    return pc.if_else(pc.match_substring_regex(column, f"^({COMMA})$"), swapped, column)


def is_moment(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _plain(column: pa.Array) -> pa.Array:
    """Without a dictionary; a moment as microseconds since 1970, in UTC unless it says otherwise."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_moment(column.type):
        column = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
    return column


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
    """The identifiers of a column, as hashes, and which of them each row has. One may come twice, as 5 and as 5.0."""
    column = _plain(column)
    if not pa.types.is_floating(column.type):  # numpy writes these as Python does, arrow does not
        column = strings(column).cast(pa.large_binary())
    encoded = column.dictionary_encode(null_encoding="encode")
    found = [text_of(value) for value in encoded.dictionary.to_numpy(zero_copy_only=False)]
    hashed = pd.util.hash_array(np.array(found, dtype=object), categorize=False)
    return hashed.astype(np.uint64), np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def text_of(value: Any) -> str:
    """The one text of a value: 5, 5.0 and "5.0" are "5", 2.5e10 is "25000000000", True and "True" are "true", nothing
    is "". The program that goes with an exported network has the same function."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    if "." in text or "+" in text:  # a number without them is its own text
        whole = text.removesuffix(".0")
        if whole.lstrip("-").isdecimal():
            return whole
        if SCIENTIFIC.fullmatch(text) and (number := float(text)).is_integer():
            return str(int(number))
    elif text in NOTHING and not isinstance(value, bytes | str):
        return ""
    return BOOLEANS.get(text, text)


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


def label(text: str | None, above: float | None) -> float:
    """0 or 1, or another finite number, which is no label; NaN where there is none."""
    word = (text or "").strip().lower()
    if word in WORDS and above is None:
        return WORDS[word]
    try:
        number = float(word)
    except ValueError:
        return np.nan
    if above is not None and not np.isnan(number):
        return float(number > above)
    return number if np.isfinite(number) else np.nan

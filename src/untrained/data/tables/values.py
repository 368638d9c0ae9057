"""Convert columns of Arrow tables to numbers: labels, numbers, times and identifiers.

An identifier is represented by a 64-bit hash of its text, so that millions of them can be counted
without keeping texts. The probability that two of a million have the same hash is 3 in 100 million.
A missing identifier is encoded as an empty text. A value has the same text, and a time the same
number, whether it comes from a CSV file, a parquet file or a program.
"""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from untrained.errors import UsageError

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]
LABEL_WORDS = {"false": 0, "no": 0, "true": 1, "yes": 1}
# Spellings of Python, R and spreadsheets.
BOOLEAN_TEXTS = {"False": "false", "FALSE": "false", "True": "true", "TRUE": "true"}
# 1.5e10 and 1e+10. Not 1e10, which may be a hexadecimal hash.
SCIENTIFIC = re.compile(r"-?[0-9](\.[0-9]+[eE]\+?|[eE]\+)[0-9]+")
# Numbers with a decimal comma: 3,5 and 1.234,5 and 1.234
DECIMAL_COMMA = r"[-+0-9. ]*,[-+0-9.,eE ]*|[-+ ]*[0-9]{1,3}(\.[0-9]{3})+ *"
# Texts of the missing values of Python, numpy and pandas.
MISSING_TEXTS = {"None", "nan", "NaT", "<NA>"}


def read_numbers(column: pa.Array) -> tuple[Floats, NDArray[np.bool_]]:
    """Convert a column to numbers.

    Returns:
        The numbers, NaN for missing and infinite ones; and which values are text that is not a
        number.
    """
    column = _simplify_column(column)
    if pa.types.is_boolean(column.type):
        # In a CSV file booleans are words, which are not numbers. Parquet files behave the same.
        column = column.cast(pa.string())
    try:
        values = _to_floats(column.cast(pa.float64()))
        is_text = np.zeros(len(column), bool)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = read_texts(column)
        series = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
        values = series.to_numpy(np.float64, na_value=np.nan)
        is_present = np.array(
            [text is not None and text.strip().lower() != "nan" for text in texts]
        )
        is_text = np.isnan(values) & is_present
    return np.where(np.isfinite(values), values, np.nan), is_text


def replace_decimal_comma(column: pa.Array) -> pa.Array:
    """Write numbers that have a decimal comma with a point.

    A number such as 1.234, whose point may separate thousands, becomes a text that is not a number.
    The program that is exported with a network contains the same function.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    swapped_column = column
    # Swap commas and points. The third character, which no text contains, is a placeholder.
    for old, new in ((",", "\0"), (".", ","), ("\0", ".")):
        swapped_column = pc.replace_substring(swapped_column, old, new)
    has_comma = pc.match_substring_regex(column, f"^({DECIMAL_COMMA})$")
    return pc.if_else(has_comma, swapped_column, column)


def is_time_type(kind: pa.DataType) -> bool:
    """Return whether a type holds times or dates."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def read_texts(column: pa.Array) -> list[str | None]:
    """Convert a column to Python strings. Bytes that are not UTF-8 are replaced."""
    texts: list[str | None] = []
    for value in cast_to_strings(column).cast(pa.large_binary()).to_pylist():
        texts.append(None if value is None else value.decode(errors="replace"))
    return texts


def cast_to_strings(column: pa.Array) -> pa.Array:
    """Convert a column to Arrow strings, or leave it if it holds bytes."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return column
    return column.cast(pa.string())


def hash_identifiers(column: pa.Array) -> tuple[Hashes, NDArray[np.int64]]:
    """Hash the identifiers of a column.

    Returns:
        Hashes of the different values of the column, and for each row the index of its hash. Equal
        hashes may occur several times, for example of 5 and 5.0.
    """
    column = _simplify_column(column)
    # numpy writes floats as Python does, and Arrow does not, so floats are kept.
    if not pa.types.is_floating(column.type):
        column = cast_to_strings(column).cast(pa.large_binary())
    encoded = column.dictionary_encode(null_encoding="encode")
    values = encoded.dictionary.to_numpy(zero_copy_only=False)
    texts = np.array([normalise_text(value) for value in values], dtype=object)
    hashes = pd.util.hash_array(texts, categorize=False).astype(np.uint64)
    indices = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    return hashes, indices


def normalise_text(value: object) -> str:
    """Return the canonical text of a value, which does not depend on its type or spelling.

    5, 5.0 and "5.0" become "5"; 2.5e10 becomes "25000000000"; True and "True" become "true"; a
    missing value becomes "". The program that is exported with a network contains the same
    function.
    """
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
    else:
        text = str(value)
    # A whole number without these characters is already canonical.
    if "." in text or "+" in text:
        whole = text.removesuffix(".0")
        if whole.lstrip("-").isdecimal():
            return whole
        if SCIENTIFIC.fullmatch(text) and float(text).is_integer():
            return str(int(float(text)))
    elif text in MISSING_TEXTS and not isinstance(value, bytes | str):
        return ""
    return BOOLEAN_TEXTS.get(text, text)


def read_times(column: pa.Array, name: str) -> Floats:
    """Convert times to numbers that increase with time.

    Numbers are left as they are. Dates are written like 2014-10-21 or 2014-10-21T07:00:00Z.

    Args:
        column: The column.
        name: Its name, for the message.

    Raises:
        UsageError: A value is neither a number nor a date.
    """
    values, is_text = read_numbers(column)
    if not is_text.any():
        return values
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return _to_floats(column.cast(kind).cast(pa.int64()))
        except pa.ArrowInvalid:
            continue
    wrong_text = read_texts(column)[int(is_text.argmax())]
    raise UsageError(
        f"time={name}: {wrong_text!r} is not a time; "
        "expected numbers or dates such as 2014-10-21T07:00:00"
    )


def read_label(text: str | None, above: float | None) -> float:
    """Convert the text of a label to a number.

    Args:
        text: The text; None if it is missing.
        above: If given, a label is 1 if its number is above this, else 0.

    Returns:
        A finite number, which is 0 or 1 for a word such as "yes" and if `above` is given; NaN for a
        missing label and for any other text.
    """
    word = (text or "").strip().lower()
    if word in LABEL_WORDS and above is None:
        return LABEL_WORDS[word]
    try:
        number = float(word)
    except ValueError:
        return np.nan
    if above is not None and not np.isnan(number):
        return float(number > above)
    if not np.isfinite(number):
        return np.nan
    return number


def is_float_text(text: str) -> bool:
    """Return whether `float` can convert a text. The number may be infinite or NaN."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _simplify_column(column: pa.Array) -> pa.Array:
    """Decode a dictionary, and convert times to microseconds since 1970.

    Times are in UTC unless they have a time zone.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_time_type(column.type):
        time_zone = getattr(column.type, "tz", None)
        column = column.cast(pa.timestamp("us", time_zone), safe=False)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
    return column


def _to_floats(column: pa.Array) -> Floats:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)

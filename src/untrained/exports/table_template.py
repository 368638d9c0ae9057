"""Encode rows of a table as in training: `encode([{"user": "u7", "price": "3.5"}, ...])`.

A number is replaced by sign(x) log(1 + |x|) if training did that, and then normalised with the mean
and standard deviation of the training rows. A missing number is replaced by the mean. An identifier
becomes its position in the vocabulary, or 0 if it was too rare in training; in a column without a
vocabulary it becomes a hash. Identifiers are compared as text: 5.0 equals 5 and True equals true. A
timestamp, such as a datetime or 2014-10-21 07:00:00, is in UTC unless it has an offset. Numbers
have a decimal comma if they had one in training.

Needs numpy. Reads config.json and vocabularies.npz beside this file.
"""

import bz2
import csv
import gzip
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
BATCH_SIZE = 1000
# A file is refused if more than this fraction of the values in a column of numbers is text. Files
# with fewer rows than MIN_CHECKED_ROWS are accepted, since the fraction says little about a few
# rows.
MAX_TEXT_FRACTION = 0.1
MIN_CHECKED_ROWS = 10
MASK_64_BITS = 2**64 - 1
BOOLEANS = {"False": "false", "FALSE": "false", "True": "true", "TRUE": "true"}
# 1.5e10 and 1e+10. 1e10 is left alone, because it may be a hexadecimal hash.
SCIENTIFIC = re.compile(r"-?[0-9](\.[0-9]+[eE]\+?|[eE]\+)[0-9]+")
# 3,5 and 1.234,5 and 1.234.
DECIMAL_COMMA = re.compile(r"[-+0-9. ]*,[-+0-9.,eE ]*|[-+ ]*[0-9]{1,3}(\.[0-9]{3})+ *")
# Text that stands for a missing number.
MISSING_NUMBERS = {"", "na", "n/a", "nan", "null", "none", "\\n", "nat", "<na>"}
# How Python, numpy and pandas print a missing value.
MISSING_VALUES = {"None", "nan", "NaT", "<NA>"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Array = Any
# Values by column name: Python values, or text as in a file.
Row = Mapping[str, Any]


@cache
def read_table_config() -> dict[str, Any]:
    """Return the encoding of the columns from config.json, with the vocabularies."""
    config = json.loads((HERE / "config.json").read_text(encoding="utf-8"))
    table: dict[str, Any] = config["table"]
    with np.load(HERE / "vocabularies.npz", allow_pickle=False) as arrays:
        vocabularies = {position: arrays[position] for position in arrays.files}
    for position, column in enumerate(table["identifiers"]):
        column["vocabulary"] = vocabularies.get(str(position))
    table["missing"] = set(table["missing"])
    return table


# ------------------------------------------------------------------------------- reading CSV files


def read_encoded_rows(path: Path, left_out: list[str] | None = None) -> Iterator[tuple[str, Array]]:
    """Yield the encoded rows of a file with their names, such as `rows.csv:2`.

    Text in a column of numbers counts as missing and is reported at the end.

    Args:
        path: The file.
        left_out: The names of rows with more or fewer fields than the header are added to it.

    Raises:
        ValueError: A column is missing, too many of its numbers are text, or there are no rows.
    """
    if left_out is None:
        left_out = []
    rows = read_rows(path, left_out)
    row_count = 0
    checks = [NumberColumnCheck(column["name"]) for column in read_table_config()["dense"]]
    while batch := list(islice(rows, BATCH_SIZE)):
        names = [name for name, _ in batch]
        values = [row for _, row in batch]
        row_count += len(batch)
        for check in checks:
            check.add([row[check.name] for row in values])
        yield from zip(names, encode(values), strict=True)
    for check in checks:
        if check.text_count:
            message = f"{path}: {check.describe()} and count as missing"
            print(make_printable(message), file=sys.stderr)
    if not row_count and not left_out:
        raise ValueError("it has a header and no rows")


def read_rows(path: Path, left_out: list[str] | None = None) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a CSV file whose first line names the columns.

    A row that has more or fewer fields than the header is reported and skipped.

    Args:
        path: The file.
        left_out: The names of the rows that are skipped are added to it.
    """
    open_file = OPENERS.get(path.suffix, open)
    with open_file(path, "rt", encoding="utf-8-sig", errors="backslashreplace", newline="") as file:
        first_line = next((line for line in file if line.strip()), "")
        separator = max(",\t;|", key=first_line.count)
        if separator not in first_line:
            separator = " "
        lines = csv.reader(chain([first_line], file), delimiter=separator)
        header = []
        for position, name in enumerate(next(lines), 1):
            header.append(name.strip() or f"column{position}")
        check_header(header)
        for number, values in enumerate(lines, 2):
            if len(values) == len(header):
                yield f"{path}:{number}", dict(zip(header, values, strict=True))
            elif values:
                if left_out is not None:
                    left_out.append(f"{path}:{number}")
                message = f"{path}:{number}: left out, {len(values)} fields, not {len(header)}"
                print(make_printable(message), file=sys.stderr)


def check_header(header: list[str]) -> None:
    """Raise ValueError if the header of a file lacks a column."""
    table = read_table_config()
    expected = [column["name"] for column in (*table["dense"], *table["identifiers"])]
    missing = [name for name in expected if name not in header]
    if missing:
        raise ValueError(
            f"the first line must name the columns, and there is no {', '.join(missing)}"
        )


def make_printable(text: str) -> str:
    """Replace characters that control a terminal, such as those that move its cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


class NumberColumnCheck:
    """Counts the text in a column of numbers or timestamps."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.row_count = 0
        self.value_count = 0
        self.text_count = 0
        self.first_text = ""

    def add(self, values: list[str]) -> None:
        """Count more values.

        Raises:
            ValueError: Too many of the values so far are text.
        """
        self.row_count += len(values)
        for value in values:
            if value.strip().lower() in MISSING_NUMBERS:
                continue
            self.value_count += 1
            if is_number(value, self.name):
                continue
            self.text_count += 1
            self.first_text = self.first_text or value
        has_too_much_text = self.text_count > MAX_TEXT_FRACTION * self.value_count
        if self.row_count >= MIN_CHECKED_ROWS and has_too_much_text:
            raise ValueError(self.describe())

    def describe(self) -> str:
        """Describe how many values are text, and the expected format."""
        table = read_table_config()
        if self.name in table["timestamps"]:
            expected = "a timestamp like 2014-10-21 07:00:00"
        elif table["decimal"] == ",":
            expected = "a number like 3,5"
        else:
            expected = "a number like 3.5"
        counts = f"{self.text_count:,} of {self.value_count:,} values of {self.name}"
        return f"{counts}, such as {self.first_text!r}, are not {expected}"


def is_number(text: str, column_name: str) -> bool:
    """Return whether text is a number or, in a column of timestamps, a timestamp.

    An infinite number is a number here, although `parse_number` treats it as missing.
    """
    if column_name in read_table_config()["timestamps"]:
        return parse_timestamp(text) is not None
    try:
        convert_to_float(replace_decimal_comma(text))
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------------------- encoding values


def encode(rows: Iterable[Row]) -> Array:
    """Encode rows.

    Args:
        rows: Rows with values by column name.

    Returns:
        A float32 array of shape (rows, columns): numbers first, then identifiers.
    """
    row_list = list(rows)
    table = read_table_config()
    encoded = []
    for column in table["dense"]:
        encoded.append(encode_numbers(list_values(column["name"], row_list), column))
    for column in table["identifiers"]:
        encoded.append(encode_identifiers(list_values(column["name"], row_list), column))
    return np.stack(encoded, axis=1).astype(np.float32)


def list_values(column_name: str, rows: list[Row]) -> list[Any]:
    """Return the values of a column; timestamps as microseconds since 1970."""
    values = [replace_decimal_comma(row[column_name]) for row in rows]
    if column_name in read_table_config()["timestamps"]:
        return [parse_timestamp(value) for value in values]
    return values


def replace_decimal_comma(value: Any) -> Any:
    """Replace the decimal comma of a number by a point, if the training data had decimal commas."""
    has_decimal_commas = read_table_config()["decimal"] == ","
    if has_decimal_commas and isinstance(value, str) and DECIMAL_COMMA.fullmatch(value):
        return value.translate(str.maketrans(",.", ".,"))
    return value


def parse_timestamp(value: Any) -> int | None:
    """Return microseconds since 1970; None if the value is not a timestamp."""
    try:
        timestamp = datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=UTC)
    return (timestamp - EPOCH) // timedelta(microseconds=1)


def encode_numbers(values: list[Any], column: dict[str, Any]) -> Array:
    """Normalise a column of numbers; a missing number becomes 0, which is the mean."""
    numbers = np.array([parse_number(value) for value in values])
    if column["log"]:
        numbers = np.copysign(np.log1p(np.abs(numbers)), numbers)
    return np.nan_to_num((numbers - column["mean"]) / column["std"], nan=0.0)


def parse_number(value: Any) -> float:
    """Return a finite number, or NaN."""
    try:
        number = convert_to_float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def convert_to_float(value: Any) -> float:
    """Convert a value to a number; raise TypeError or ValueError if training could not do so."""
    text = str(value)
    # Python reads 1_000, digits of other scripts and no-break spaces, but training did not.
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(value)


def encode_identifiers(values: list[Any], column: dict[str, Any]) -> Array:
    """Return the positions of identifiers in the vocabulary from 1 on, or their hashes."""
    missing = read_table_config()["missing"]
    hashes = []
    for value in values:
        is_missing = isinstance(value, str) and value in missing
        hashes.append(hash_text("" if is_missing else convert_to_text(value)))
    keys = np.array(hashes, np.uint64)
    vocabulary = column["vocabulary"]
    if vocabulary is None:
        return keys % np.uint64(column["size"])
    positions = np.minimum(np.searchsorted(vocabulary, keys), len(vocabulary) - 1)
    return np.where(vocabulary[positions] == keys, positions + 1, 0)


def convert_to_text(value: Any) -> str:
    """Return a value as the text that training used: 5 for 5.0 and true for True."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
    else:
        text = str(value)
    # Only text with a point or a plus can be another spelling of a whole number: 5.0 or 1e+10.
    if "." in text or "+" in text:
        whole = text.removesuffix(".0")
        if whole.lstrip("-").isdecimal():
            return whole
        if SCIENTIFIC.fullmatch(text):
            number = float(text)
            if number.is_integer():
                return str(int(number))
    elif text in MISSING_VALUES and not isinstance(value, bytes | str):
        return ""
    return BOOLEANS.get(text, text)


# ------------------------------------------------------------------------------------------ hashing


@lru_cache(2**20)
def hash_text(text: str) -> int:
    """Return a hash of 64 bits: SipHash-2-4 (Aumasson and Bernstein 2012) and a finalizer.

    It equals `hash_array` of pandas, which training used.
    """
    data = text.encode()
    # The key is "0123456789123456" as two little-endian words.
    key_low = 0x3736353433323130
    key_high = 0x3635343332313938
    v0 = key_low ^ 0x736F6D6570736575
    v1 = key_high ^ 0x646F72616E646F6D
    v2 = key_low ^ 0x6C7967656E657261
    v3 = key_high ^ 0x7465646279746573
    whole_length = len(data) // 8 * 8
    words = []
    for start in range(0, whole_length, 8):
        words.append(int.from_bytes(data[start : start + 8], "little"))
    # The last word holds the remaining bytes and, in its top byte, the length.
    remainder = int.from_bytes(data[whole_length:], "little")
    words.append(remainder | (len(data) & 255) << 56)
    for word in words:
        v0, v1, v2, v3 = mix_state(v0, v1, v2, v3 ^ word, rounds=2)
        v0 ^= word
    v0, v1, v2, v3 = mix_state(v0, v1, v2 ^ 255, v3, rounds=4)
    digest = v0 ^ v1 ^ v2 ^ v3
    # pandas scrambles the hash once more, with the finalizer of splitmix64.
    digest = (digest ^ digest >> 30) * 0xBF58476D1CE4E5B9 & MASK_64_BITS
    digest = (digest ^ digest >> 27) * 0x94D049BB133111EB & MASK_64_BITS
    return digest ^ digest >> 31


def mix_state(v0: int, v1: int, v2: int, v3: int, rounds: int) -> tuple[int, int, int, int]:
    """Apply rounds of SipHash to its state."""
    for _ in range(rounds):
        v0 = v0 + v1 & MASK_64_BITS
        v2 = v2 + v3 & MASK_64_BITS
        v1 = rotate_left(v1, 13) ^ v0
        v3 = rotate_left(v3, 16) ^ v2
        v0 = rotate_left(v0, 32)
        v0 = v0 + v3 & MASK_64_BITS
        v2 = v2 + v1 & MASK_64_BITS
        v3 = rotate_left(v3, 21) ^ v0
        v1 = rotate_left(v1, 17) ^ v2
        v2 = rotate_left(v2, 32)
    return v0, v1, v2, v3


def rotate_left(word: int, bits: int) -> int:
    """Rotate a word of 64 bits."""
    return (word << bits | word >> 64 - bits) & MASK_64_BITS

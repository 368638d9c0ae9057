"""Rows of a table as the network reads them, encoded as in training: `encode([{"user": "u7", "price": "3.5"}, ...])`.

A number goes through sign(x) log(1 + |x|) where training did that, then mean and deviation of the training rows; a
missing one is at the mean. An identifier becomes its place in the vocabulary, or 0 where training knew it too little;
of a column without a vocabulary, a hash. A value counts as its text, 5.0 as 5 and True as true. A moment, such as a
datetime or 2014-10-21 07:00:00, is in UTC unless it says otherwise. Numbers have a decimal comma
where they had one in training. Needs numpy. Reads config.json and vocabularies.npz beside this file.
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
AT_ONCE = 1000
TOLERATED = 0.1  # the share of text among the numbers of a column, in a file of at least FEW rows
FEW = 10
WORD = 2**64 - 1
BOOLEANS = {"False": "false", "FALSE": "false", "True": "true", "TRUE": "true"}
SCIENTIFIC = re.compile(r"-?[0-9](\.[0-9]+[eE]\+?|[eE]\+)[0-9]+")  # 1.5e10 and 1e+10; 1e10 may be a hash
COMMA = re.compile(r"[-+0-9. ]*,[-+0-9.,eE ]*|[-+ ]*[0-9]{1,3}(\.[0-9]{3})+ *")  # 3,5 and 1.234,5 and 1.234
MISSING = {"", "na", "n/a", "nan", "null", "none", "\\n", "nat", "<na>"}  # what stands for a missing number
NOTHING = {"None", "nan", "NaT", "<NA>"}  # what Python, numpy and pandas hold where there is no value
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Array = Any
Row = Mapping[str, Any]  # by the name of its column; a value, or its text as it stands in the file


@cache
def table() -> dict[str, Any]:
    """What training learned about the columns."""
    found: dict[str, Any] = json.loads((HERE / "config.json").read_text(encoding="utf-8"))["table"]
    with np.load(HERE / "vocabularies.npz", allow_pickle=False) as words:
        vocabularies = {place: words[place] for place in words.files}
    for place, column in enumerate(found["identifiers"]):
        column["vocabulary"] = vocabularies.get(str(place))
    return {**found, "missing": {None, *found["missing"]}}


def samples(path: Path) -> Iterator[tuple[str, Array]]:
    """Each row of a file under its place there, encoded; text among numbers is told, and refused where it is much."""
    rows, columns = read(path), [Numbers(column["name"]) for column in table()["dense"]]
    while some := list(islice(rows, AT_ONCE)):
        for column in columns:
            column.look([row[column.name] for _, row in some])
        yield from zip((place for place, _ in some), encode(row for _, row in some), strict=True)
    for column in columns:
        if column.text:
            print(printable(f"{path}: {column.told()} and count as missing"), file=sys.stderr)


def printable(text: str) -> str:
    """The text without characters that a terminal obeys, such as those that move its cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


class Numbers:
    """A column of numbers, or of moments: how many of the values that are there are text."""

    def __init__(self, name: str) -> None:
        self.name, self.rows, self.there, self.text, self.first = name, 0, 0, 0, ""

    def look(self, values: list[str]) -> None:
        there = [value for value in values if value.strip().lower() not in MISSING]
        text = [value for value in there if not is_number(value, self.name)]
        self.rows, self.there, self.text = self.rows + len(values), self.there + len(there), self.text + len(text)
        self.first = self.first or (text[0] if text else "")
        if self.rows >= FEW and self.text > TOLERATED * self.there:
            raise ValueError(self.told())

    def told(self) -> str:
        wanted = f"a number like {'3,5' if table()['decimal'] == ',' else '3.5'}"
        wanted = "a moment like 2014-10-21 07:00:00" if self.name in table()["moments"] else wanted
        return f"{self.text:,} of {self.there:,} values of {self.name}, such as {self.first!r}, are not {wanted}"


def is_number(value: str, name: str) -> bool:
    """Also an infinite one, which counts as missing; of a column of moments, whether it is one."""
    if name in table()["moments"]:
        return moment(value) is not None
    try:
        float(pointed(value))
    except ValueError:
        return False
    return "_" not in value


def read(path: Path) -> Iterator[tuple[str, Row]]:
    """The rows of a CSV file whose first line names the columns; a row of another length is told and passed over."""
    with OPENERS.get(path.suffix, open)(
        path, "rt", encoding="utf-8-sig", errors="backslashreplace", newline=""
    ) as file:
        head = next((line for line in file if line.strip()), "")
        separator = max(",\t;|", key=head.count)
        lines = csv.reader(chain([head], file), delimiter=separator if separator in head else " ")
        header = [name.strip() or f"column{place}" for place, name in enumerate(next(lines), 1)]
        wanted = [column["name"] for column in (*table()["dense"], *table()["identifiers"])]
        if missing := [name for name in wanted if name not in header]:
            raise ValueError(f"the first line must name the columns, and there is no {', '.join(missing)}")
        for number, values in enumerate(lines, 2):
            if len(values) == len(header):
                yield f"{path}:{number}", dict(zip(header, values, strict=True))
            elif values:
                said = f"{path}:{number}: {len(values)} fields where {len(header)} are wanted"
                print(printable(said), file=sys.stderr)


def encode(rows: Iterable[Row]) -> Array:
    """(rows, columns) of float32: the columns of numbers, then those of identifiers."""
    kept, known = list(rows), table()
    dense = [numbers(values_of(column["name"], kept), column) for column in known["dense"]]
    ids = [identifiers(values_of(column["name"], kept), column) for column in known["identifiers"]]
    return np.stack([*dense, *ids], axis=1).astype(np.float32)


def values_of(name: str, rows: list[Row]) -> list[Any]:
    found = [pointed(row[name]) for row in rows]
    return [moment(value) for value in found] if name in table()["moments"] else found


def pointed(value: Any) -> Any:
    """Where training read numbers with a decimal comma, a text with the point that others write."""
    if table()["decimal"] == "," and isinstance(value, str) and COMMA.fullmatch(value):
        return value.translate(str.maketrans(",.", ".,"))
    return value


def moment(value: Any) -> int | None:
    """Microseconds since 1970; None where there is no moment."""
    try:
        found = datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
    return (found.replace(tzinfo=found.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)


def numbers(values: list[Any], column: dict[str, Any]) -> Array:
    found = np.array([number(value) for value in values])
    tamed = np.copysign(np.log1p(np.abs(found)), found) if column["log"] else found
    return np.nan_to_num((tamed - column["mean"]) / column["std"], nan=0.0)


def number(value: Any) -> float:
    """NaN where there is none that is finite."""
    try:
        found = math.nan if "_" in str(value) else float(value)
    except (TypeError, ValueError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def identifiers(values: list[Any], column: dict[str, Any]) -> Array:
    missing = table()["missing"]
    texts = ("" if isinstance(value, str) and value in missing else text_of(value) for value in values)
    found, vocabulary = np.array([hashed(text) for text in texts], np.uint64), column["vocabulary"]
    if vocabulary is None:
        return found % np.uint64(column["size"])
    places = np.minimum(np.searchsorted(vocabulary, found), len(vocabulary) - 1)
    return np.where(vocabulary[places] == found, places + 1, 0)


def text_of(value: Any) -> str:
    """The one text of a value, as in training."""
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


@lru_cache(2**20)
def hashed(text: str) -> int:
    """64 bits of a text: SipHash-2-4 (Aumasson and Bernstein 2012), scrambled once more; as pandas' `hash_array`."""
    data = text.encode()
    low, high = 0x3736353433323130, 0x3635343332313938  # the key "0123456789123456"
    state = low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573
    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[start : start + 8], "little") for start in range(0, whole, 8)]
    for word in (*words, int.from_bytes(data[whole:], "little") | (len(data) & 255) << 56):
        a, b, c, d = mixed(*state[:3], state[3] ^ word, rounds=2)
        state = a ^ word, b, c, d
    a, b, c, d = mixed(*state[:2], state[2] ^ 255, state[3], rounds=4)
    found = a ^ b ^ c ^ d
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ found >> shift) * factor & WORD
    return found ^ found >> 31


def mixed(a: int, b: int, c: int, d: int, rounds: int) -> tuple[int, int, int, int]:
    for _ in range(rounds):
        a, c = a + b & WORD, c + d & WORD
        b, d, a = turned(b, 13) ^ a, turned(d, 16) ^ c, turned(a, 32)
        a, c = a + d & WORD, c + b & WORD
        d, b, c = turned(d, 21) ^ a, turned(b, 17) ^ c, turned(c, 32)
    return a, b, c, d


def turned(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & WORD

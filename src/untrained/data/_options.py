"""What a user says about a table, behind its path: `csv:clicks.csv?label=click&drop=id,url&time=hour`.

One string says all of it, so that settings, stores and resumed runs need no other word for a table.
"""

from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import unquote

from untrained.errors import UsageError, unknown

LOGS = ("counts", "all", "none")
DECIMALS = {".": "point", ",": "comma"}
ROLES = ("dense", "categorical", "drop")
LARGEST = 2**24  # whole numbers below it are exact in float32


@dataclass(frozen=True)
class Options:
    """How to read a table. Columns that nobody names are inferred."""

    label: str = ""  # the column to predict: 0 and 1, false and true, no and yes
    above: float | None = None  # where given, a label is 1 if its number is above this
    dense: tuple[str, ...] = ()  # columns of numbers
    categorical: tuple[str, ...] = ()  # columns of identifiers
    drop: tuple[str, ...] = ()
    time: str = ""  # where given, the last rows by this column are judged, not random ones
    floor: int = 2  # identifiers that come less often in training share one number
    hash: int = 100_000  # a column with more different values is hashed into as many numbers
    log: str = "counts"  # which dense columns go through sign(x) log(1 + |x|)
    decimal: str = "point"  # the sign before the fraction of a number that is text

    def __post_init__(self) -> None:
        if self.log not in LOGS:
            raise unknown("way to take logarithms", self.log, LOGS)
        if self.decimal not in (*DECIMALS, *DECIMALS.values()):
            raise unknown("decimal sign", self.decimal, DECIMALS.values())
        if self.floor < 1:
            raise UsageError(f"floor={self.floor} is no number of rows; write floor=1 to keep every identifier")
        if not 2 <= self.hash < LARGEST:
            raise UsageError(f"hash={self.hash} is impossible; write a number from 2 to {LARGEST - 1}")

    @property
    def comma(self) -> bool:
        """Whether numbers are written with a decimal comma."""
        return self.decimal in (",", DECIMALS[","])

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(name for name in (self.label, self.time, *self.dense, *self.categorical, *self.drop) if name)


def split_query(argument: str) -> tuple[str, str]:
    """`clicks.csv?label=click` -> the path, and what is said about it."""
    path, _, query = argument.partition("?")
    return path, query


def parse(query: str, usual: Options) -> Options:
    """`label=click&drop=id,url` on top of what is usual; in names, `%2C` is a comma and `%26` an ampersand."""
    known = [field.name for field in fields(Options)]
    said = dict[str, Any]()
    for word in filter(None, query.split("&")):
        name, _, text = word.partition("=")
        if name not in known:
            raise unknown("option of a table", name, known)
        if not text:
            raise UsageError(f"{name} says nothing; write {name}=..., such as csv:clicks.csv?label=click&drop=id,url")
        said[name] = _value(name, text)
    named = Options(**said).named  # a column that is named leaves the role it usually has
    kept = {role: tuple(name for name in getattr(usual, role) if name not in named) for role in ROLES}
    return replace(usual, **{**said, **{role: kept[role] + said.get(role, ()) for role in ROLES}})


def _value(name: str, text: str) -> Any:
    try:
        match getattr(Options, name):
            case tuple():
                return tuple(unquote(part) for part in text.split(",") if part)
            case int():
                return int(text)
            case None:
                return float(text)
            case _:
                return unquote(text)
    except ValueError as error:
        raise UsageError(f"{name}={text} is no number; write it like {name}=10") from error

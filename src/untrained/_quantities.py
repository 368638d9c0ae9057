"""Numbers, durations, shares and shapes as people give them, on the command line or in Python.

Each function takes what was given and returns it in one usual form, or raises a `UsageError` that says what to write.
"""

import os
import re
from collections.abc import Iterable
from math import inf, isfinite, prod
from numbers import Integral, Real
from pathlib import Path

from untrained.errors import UsageError

LARGEST_SEED = 2**63 - 1  # what SQLite and torch can hold
LARGEST_COUNT = 10**9  # of anything that is counted one by one
MOST_CLASSES = 10**7
MOST_SAMPLES = 10**6  # in the batch that a proxy looks at
_MOST_ENTRIES = 2**60  # of one input; torch counts bytes with 63 bits
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SHOWN = 60  # characters of a wrong value that a message repeats


def show_value(value: object) -> str:
    """A wrong value as a message repeats it: on one line, and not longer than a line."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print an integer of more than 4,300 digits
        text = "a number of more than 4,300 digits"
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def parse_count(value: object, name: str, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """A whole number from `least` to `most`.

    Args:
        value: What was given. Only integers are taken, neither `True` nor `3.0` nor `"3"`.
        name: The option or argument, for the message.
        least: The smallest number that is allowed.
        most: The largest number that is allowed.

    Raises:
        UsageError: For everything else.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number <= most:
            return number
    raise UsageError(f"{name} is {show_value(value)}; write a whole number from {least:,} to {most:,}")


def parse_optional_count(value: object, name: str, least: int = 1, most: int = LARGEST_COUNT) -> int | None:
    """As `parse_count`; None stays None."""
    return None if value is None else parse_count(value, name, least, most)


def parse_seed(value: object, seeds: int = 1) -> int:
    """The first of `seeds` consecutive seeds, all of which torch and SQLite can hold."""
    return parse_count(value, "seed", 0, LARGEST_SEED - seeds + 1)


def parse_shape(value: object) -> tuple[int, ...]:
    """`3x224x224` or `(3, 224, 224)` as a tuple of integers."""
    sides: list[object] = []
    if isinstance(value, str):
        for text in value.lower().split("x"):
            is_number = text.isdecimal() and len(text) <= len(str(_MOST_ENTRIES))
            sides.append(int(text) if is_number else text)
    elif isinstance(value, Iterable):
        sides.extend(value)
    shape: list[int] = []
    for side in sides:
        if isinstance(side, Integral) and not isinstance(side, bool) and int(side) > 0:
            shape.append(int(side))
    if not shape or len(shape) < len(sides) or prod(shape) > _MOST_ENTRIES:
        raise UsageError(
            f"impossible input shape {show_value(value)}; write channels x height x width, such as 3x224x224"
        )
    return tuple(shape)


def parse_path(value: object, name: str) -> Path:
    """A path whose name is text that can be printed and stored.

    Names that are not UTF-8 are refused: reports, JSON and the store could not repeat them.
    """
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} is {show_value(value)}; give a path as text, such as './folder'")
    path = Path(value)
    text = str(path)
    if "\0" in text or not is_utf8(text):
        raise UsageError(
            f"{name} is {printable(text)!r}, which is not a name in UTF-8; choose another name, or rename it"
        )
    return path


def is_utf8(text: str) -> bool:
    """Whether a name of the file system is valid UTF-8; Python marks other bytes by lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """The same text with a replacement character for bytes that are not UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def seconds(text: object) -> float:
    """`90`, `90s`, `10m`, `1h30m`, `2d` -> seconds."""
    if not isinstance(text, str):
        raise UsageError(f"impossible duration {show_value(text)}; write it as text: '90s', '10m' or '1h30m'")
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not parts or "".join(a + b for a, b in parts) != re.sub(r"\s", "", text.lower()):
        raise UsageError(f"impossible duration {show_value(text)}; write 90s, 10m or 1h30m")
    total = 0.0
    for amount, unit in parts:
        if (unit or "s") not in _UNITS:
            raise UsageError(f"no unit of time is called {show_value(unit)}; there are: {', '.join(_UNITS)}")
        total += float(amount) * _UNITS[unit or "s"]
    if not 0 < total < inf:
        raise UsageError(f"a duration must be more than nothing, not {show_value(text)}")
    return total


def share(text: object) -> float:
    """`20%` or `0.2` -> 0.2."""
    if isinstance(text, Real) and not isinstance(text, bool):
        text = str(text)
    if not isinstance(text, str):
        raise UsageError(f"impossible share {show_value(text)}; write 20% or 0.2")
    stripped = text.strip()
    try:
        value = float(stripped.removesuffix("%"))
    except ValueError as error:
        raise UsageError(f"impossible share {show_value(text)}; write 20% or 0.2") from error
    if stripped.endswith("%"):
        value /= 100
    if not 0 < value <= 1 or not isfinite(value):
        raise UsageError(f"a share is more than nothing and at most 100%, not {show_value(text)}")
    return value

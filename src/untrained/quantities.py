"""Parse and check numbers, durations, shares, shapes and paths from the command line or Python.

Each function returns the value in a standard form, or raises a `UsageError` that says what to write
instead.
"""

import os
import re
from collections.abc import Iterable
from math import inf, prod
from numbers import Integral, Real
from pathlib import Path

from untrained.errors import UsageError

LARGEST_SEED = 2**63 - 1  # the largest integer that SQLite and torch can store
LARGEST_COUNT = 10**9
MAX_CLASSES = 10**7
MAX_SAMPLES = 10**6  # samples in the batch that a proxy sees
_MAX_ENTRIES = 2**60  # entries of one input; torch counts bytes with 63 bits
_SECONDS_PER_UNIT = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_SHOWN_CHARACTERS = 60
_SURROGATES = re.compile("[\ud800-\udfff]")


def show_value(value: object) -> str:
    """Format a wrong value for an error message: on one line and not too long."""
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to print an integer of more than 4,300 digits.
        text = "a number of more than 4,300 digits"
    text = " ".join(text.split())
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:_MAX_SHOWN_CHARACTERS]}..."


def check_count(value: object, name: str, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """Check that a value is a whole number from `least` to `most`.

    Args:
        value: The value. Only integers are accepted: neither `True` nor `3.0` nor `"3"`.
        name: Name of the option or argument, for the message.
        least: Smallest number that is allowed.
        most: Largest number that is allowed.

    Raises:
        UsageError: The value is not such a number.
    """
    # bool is a subclass of int, but `workers=True` is a mistake.
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number <= most:
            return number
    raise UsageError(
        f"{name} is {show_value(value)}; write a whole number from {least:,} to {most:,}"
    )


def check_optional_count(
    value: object, name: str, least: int = 1, most: int = LARGEST_COUNT
) -> int | None:
    """Like `check_count`, but None is allowed and stays None."""
    if value is None:
        return None
    return check_count(value, name, least, most)


def check_seed(value: object, seeds: int = 1) -> int:
    """Check the first of `seeds` consecutive seeds, all of which torch and SQLite must store."""
    return check_count(value, "seed", 0, LARGEST_SEED - seeds + 1)


def parse_shape(value: object) -> tuple[int, ...]:
    """Parse an input shape: `3x224x224` or `(3, 224, 224)`.

    Raises:
        UsageError: The value is not a sequence of positive integers, or the input would be too
            large for torch.
    """
    sides: list[object] = []
    if isinstance(value, str):
        for text in value.lower().split("x"):
            # int() raises an error for a text of thousands of digits.
            is_number = text.isdecimal() and len(text) <= len(str(_MAX_ENTRIES))
            sides.append(int(text) if is_number else text)
    elif isinstance(value, Iterable):
        sides.extend(value)

    shape: list[int] = []
    for side in sides:
        if isinstance(side, Integral) and not isinstance(side, bool) and int(side) > 0:
            shape.append(int(side))
    if not shape or len(shape) < len(sides) or prod(shape) > _MAX_ENTRIES:
        raise UsageError(
            f"invalid input shape {show_value(value)}; "
            "write channels x height x width, such as 3x224x224"
        )
    return tuple(shape)


def parse_path(value: object, name: str) -> Path:
    """Check that a path can be printed and stored.

    Names that are not UTF-8 are refused, because reports, JSON and the store cannot contain them.

    Args:
        value: The path.
        name: Name of the option or argument, for the message.

    Raises:
        UsageError: The value is not a path, or its name is not UTF-8.
    """
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} is {show_value(value)}; give a path as text, such as './folder'")
    path = Path(value)
    text = str(path)
    if "\0" in text or not is_utf8(text):
        raise UsageError(
            f"{name} is {make_printable(text)!r}, which is not a valid file name in UTF-8; "
            "choose another name, or rename the file"
        )
    return path


def is_utf8(text: str) -> bool:
    """Return whether a file name is valid UTF-8.

    Python represents other bytes of a file name by lone surrogates, which cannot be encoded.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def make_printable(text: str) -> str:
    """Replace each character that UTF-8 cannot encode by the replacement character."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def parse_duration(text: object) -> float:
    """Convert a duration to seconds: `90s`, `10m`, `1h30m`, `2d`.

    Raises:
        UsageError: The text is not a duration, it contains a number without a unit, or the
            duration is zero or infinite.
    """
    if not isinstance(text, str):
        raise UsageError(
            f"invalid duration {show_value(text)}; write it as text: '90s', '10m' or '1h30m'"
        )
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    recognised_text = "".join(amount + unit for amount, unit in parts)
    without_spaces = re.sub(r"\s", "", text.lower())
    if not parts or recognised_text != without_spaces:
        raise UsageError(f"invalid duration {show_value(text)}; write 90s, 10m or 1h30m")

    total = 0.0
    for amount, unit in parts:
        if not unit and float(amount) > 0:
            raise UsageError(
                f"{amount} in the duration {show_value(text)} has no unit; "
                f"write {amount}m for minutes or {amount}s for seconds"
            )
        unit = unit or "s"
        if unit not in _SECONDS_PER_UNIT:
            raise UsageError(
                f"no unit of time is called {show_value(unit)}; "
                f"available: {', '.join(_SECONDS_PER_UNIT)}"
            )
        total += float(amount) * _SECONDS_PER_UNIT[unit]
    if not 0 < total < inf:
        raise UsageError(f"a duration must be more than 0 seconds, not {show_value(text)}")
    return total


def parse_share(text: object) -> float:
    """Convert a share to a number of at most 1: `20%` or `0.2`.

    Raises:
        UsageError: The value is not a share, or it is not in the range from 0 (excluded) to 1.
    """
    if isinstance(text, Real) and not isinstance(text, bool):
        text = str(text)
    if not isinstance(text, str):
        raise UsageError(f"invalid share {show_value(text)}; write 20% or 0.2")
    stripped = text.strip()
    try:
        value = float(stripped.removesuffix("%"))
    except ValueError as error:
        raise UsageError(f"invalid share {show_value(text)}; write 20% or 0.2") from error
    if stripped.endswith("%"):
        value /= 100
    if not 0 < value <= 1:
        raise UsageError(f"a share is more than 0 and at most 100%, not {show_value(text)}")
    return value

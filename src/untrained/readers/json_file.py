"""JSON files from elsewhere, which may be damaged or hostile."""

import json
from typing import Any

from untrained.readers.limits import MemoryAllowance, RefusedFileError

_DEEPEST_NESTING = 64

# What one thing takes in CPython: a small dict, a small list, a value with its place.
_OBJECT_BYTES = 232
_ARRAY_BYTES = 72
_VALUE_BYTES = 40


def parse_json(content: str | bytes) -> Any:
    """Parse JSON, with one kind of error for all that can be wrong.

    Raises:
        ValueError: The text is no JSON, is nested too deeply, takes far more memory than its size
            suggests, or has texts that cannot be written as UTF-8.
    """
    _check_size(content)
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {_DEEPEST_NESTING} levels") from None
    _check_values(value)
    return value


def _check_size(content: str | bytes) -> None:
    """Refuse a text that consists of little else than brackets and commas."""
    if isinstance(content, str):
        objects = content.count("{")
        arrays = content.count("[")
        values = content.count(",")
    elif not isinstance(content, bytes):
        raise ValueError(f"it is no text, but {type(content).__name__}")
    else:
        objects = content.count(b"{")
        arrays = content.count(b"[")
        values = content.count(b",")
    allowance = MemoryAllowance(len(content))
    try:
        allowance.charge(_OBJECT_BYTES * objects + _ARRAY_BYTES * arrays + _VALUE_BYTES * values)
    except RefusedFileError as error:
        raise ValueError(str(error)) from None


def _check_values(value: Any) -> None:
    """Check the depth of nesting, and that every text can be written."""
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        current, depth = pending.pop()
        if depth > _DEEPEST_NESTING:
            raise ValueError(f"it is nested deeper than {_DEEPEST_NESTING} levels")
        if type(current) is dict:
            for key, child in current.items():
                _check_text(key)
                pending.append((child, depth + 1))
        elif type(current) is list:
            pending.extend((child, depth + 1) for child in current)
        elif type(current) is str:
            _check_text(current)


def _check_text(text: str) -> None:
    """JSON can write half of a character, which no file and no terminal can show."""
    if not text.isascii():
        text.encode("utf-8")  # UnicodeEncodeError is a ValueError

"""Parse JSON that may be damaged or malicious."""

import json
from typing import Any

from untrained.readers.limits import MemoryAllowance, RefusedFileError

_MAX_DEPTH = 64

# Memory that CPython uses for a small dict, a small list, and an item with its reference.
_OBJECT_BYTES = 232
_ARRAY_BYTES = 72
_VALUE_BYTES = 40


def parse_json(content: str | bytes) -> Any:
    """Parse JSON. All problems raise the same type of error.

    Raises:
        ValueError: The content is not JSON, is nested too deeply, would take far more memory than
            its size suggests, or contains strings that cannot be encoded as UTF-8.
    """
    _check_size(content)
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels") from None
    _check_values(value)
    return value


def _check_size(content: str | bytes) -> None:
    """Reject text that consists almost entirely of brackets and commas.

    Each of them may become an object that takes far more memory than one character.
    """
    if isinstance(content, str):
        objects = content.count("{")
        arrays = content.count("[")
        values = content.count(",")
    elif not isinstance(content, bytes):
        raise ValueError(f"it is not text, but {type(content).__name__}")
    else:
        objects = content.count(b"{")
        arrays = content.count(b"[")
        values = content.count(b",")
    allowance = MemoryAllowance(len(content))
    try:
        allowance.charge(_OBJECT_BYTES * objects + _ARRAY_BYTES * arrays + _VALUE_BYTES * values)
    except RefusedFileError as error:
        raise ValueError(str(error)) from None


def _check_values(value: object) -> None:
    """Check the depth of nesting, and that every string can be encoded."""
    # An explicit stack instead of recursion, because the value may be deeply nested.
    pending: list[tuple[object, int]] = [(value, 0)]
    while pending:
        current, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
        if type(current) is dict:
            for key, child in current.items():
                _check_text(key)
                pending.append((child, depth + 1))
        elif type(current) is list:
            pending.extend((child, depth + 1) for child in current)
        elif type(current) is str:
            _check_text(current)


def _check_text(text: str) -> None:
    """Raise a ValueError for a lone surrogate, which JSON can contain and UTF-8 cannot encode."""
    if not text.isascii():
        text.encode("utf-8")  # UnicodeEncodeError is a ValueError

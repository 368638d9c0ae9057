"""Reject files whose content is not laid out as their publisher documents it."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from untrained.errors import UsageError
from untrained.readers.limits import describe_error

# Errors that a lookup in data of another layout can raise.
_LAYOUT_ERRORS = (
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    struct.error,
)


@contextmanager
def expect_layout(file: Path, publisher: str) -> Iterator[None]:
    """Convert errors in the block to a `UsageError` about the layout of the file.

    Args:
        file: The file that the block reads.
        publisher: The publisher of files with the expected layout.
    """
    try:
        yield
    except _LAYOUT_ERRORS as error:
        detail = describe_error(error)
        # The text of a KeyError is only the key, so the type is needed too.
        if not isinstance(error, ValueError):
            detail = f"{type(error).__name__} {detail}"
        raise UsageError(f"{file} is not laid out as a file of {publisher}: {detail}") from error

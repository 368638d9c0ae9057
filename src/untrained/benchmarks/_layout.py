"""A file that is not laid out as its publisher's is refused in one line."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from untrained.errors import UsageError
from untrained.readers.limits import describe_error


@contextmanager
def laid_out(file: Path, publisher: str) -> Iterator[None]:
    """Inside, looking up what is not there means that the file is another one."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
        RecursionError,
        MemoryError,
        struct.error,
    ) as error:
        detail = describe_error(error)
        if not isinstance(error, ValueError):
            detail = f"{type(error).__name__} {detail}"
        raise UsageError(f"{file} is not laid out as a file of {publisher}: {detail}") from error

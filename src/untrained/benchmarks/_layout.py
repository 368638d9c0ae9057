"""A file that is not laid out as its publisher's is refused in one line."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from untrained.errors import UsageError


@contextmanager
def laid_out(file: Path, publisher: str) -> Iterator[None]:
    """Inside, looking up what is not there means that the file is another one."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, struct.error) as error:
        why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
        why = " ".join(why.split())
        raise UsageError(f"{file} is not laid out as a file of {publisher}: {why}") from error

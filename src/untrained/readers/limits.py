"""How much memory a foreign file may take, and how its problems are worded."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from untrained.errors import UsageError

# Reading may take ten times the file plus 500 MB in all. What is built from a file gets a part of
# that; the rest is for the copies that its users make.
BYTES_PER_FILE_BYTE = 8
FREE_BYTES = 200 * 2**20

LONGEST_DETAIL = 300  # characters of a foreign error message


class RefusedFileError(Exception):
    """The file is well-formed, but holds something that is not read from foreign files."""


class DamagedFileError(Exception):
    """The file does not follow its format."""


class MemoryAllowance:
    """The memory that the values of one file may take.

    Readers call `charge` before they allocate, so a length that a file merely claims is never
    allocated.
    """

    def __init__(self, file_bytes: int) -> None:
        self.limit = BYTES_PER_FILE_BYTE * file_bytes + FREE_BYTES
        self.used = 0

    def charge(self, count: int) -> None:
        """Count `count` bytes as taken, or refuse the file."""
        self.used += count
        if self.used > self.limit:
            raise RefusedFileError(
                f"its content takes more than {self.limit >> 20:,} MB of memory, "
                f"which is too much for a file of its size"
            )


@contextmanager
def named_problems(path: Path) -> Iterator[None]:
    """Turn every problem with the file at `path` into a `UsageError` of one line."""
    try:
        yield
    except UsageError:
        raise
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except RefusedFileError as error:
        raise UsageError(f"{path} was refused: {describe_error(error)}") from error
    except Exception as error:  # a damaged file can raise anything
        raise UsageError(f"{path} is damaged: {describe_error(error)}") from error


def describe_error(error: BaseException) -> str:
    """Return the message of an error as one line of printable characters.

    The text may quote a foreign file, so control characters are replaced and long texts are cut.
    """
    text = " ".join(str(error)[: 4 * LONGEST_DETAIL].split())
    if not text:
        return type(error).__name__
    text = "".join(character if character.isprintable() else "?" for character in text)
    if len(text) > LONGEST_DETAIL:
        text = text[:LONGEST_DETAIL] + "..."
    return text

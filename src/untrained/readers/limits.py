"""Limits on the memory that reading a file may take, and errors about damaged files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from untrained.errors import UsageError

# The values built from a file may take MAX_EXPANSION times its size plus BASE_ALLOWANCE_BYTES. With
# temporary copies, reading takes at most ten times the size of the file plus 500 MB.
MAX_EXPANSION = 8
BASE_ALLOWANCE_BYTES = 200 * 2**20

MAX_DETAIL = 300  # characters of an error message that is quoted


class RefusedFileError(Exception):
    """The file is well-formed, but contains something that is not allowed."""


class DamagedFileError(Exception):
    """The file does not follow its format."""


class MemoryAllowance:
    """The memory that the values of one file may take.

    Readers call `charge` before they allocate memory, so a false length in a file does no harm.
    """

    def __init__(self, file_bytes: int) -> None:
        self.limit = MAX_EXPANSION * file_bytes + BASE_ALLOWANCE_BYTES
        self.used = 0

    def charge(self, byte_count: int) -> None:
        """Count bytes as used.

        Raises:
            RefusedFileError: The file would use more than its allowance.
        """
        self.used += byte_count
        if self.used > self.limit:
            raise RefusedFileError(
                f"its content takes more than {self.limit >> 20:,} MB of memory, "
                f"which is too much for a file of its size"
            )


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Convert every error in the block to a `UsageError` of one line that names the file."""
    try:
        yield
    except UsageError:
        raise
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except PermissionError:
        raise UsageError(f"{path} cannot be read: you have no permission") from None
    except RefusedFileError as error:
        raise UsageError(f"{path} was refused: {describe_error(error)}") from error
    except Exception as error:  # a damaged file can raise almost any error
        raise UsageError(f"{path} is damaged: {describe_error(error)}") from error


def describe_error(error: BaseException) -> str:
    """Return the message of an error as one short line; its type if it has no message."""
    return clean_detail(str(error)) or type(error).__name__


def clean_detail(text: str) -> str:
    """Return text as one line of printable characters for a message.

    The text may quote a file, so control characters are replaced and long texts are cut.
    """
    # Cut first: splitting a text of many megabytes would take long.
    text = " ".join(text[: 4 * MAX_DETAIL].split())
    text = "".join(character if character.isprintable() else "?" for character in text)
    if len(text) > MAX_DETAIL:
        text = text[:MAX_DETAIL] + "..."
    return text

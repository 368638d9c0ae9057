"""Files and folders that are written completely or not at all, and the result files of a study."""

import csv
import fcntl
import glob
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from threading import get_ident
from typing import Any

from untrained.errors import UsageError
from untrained.readers.json_file import parse_json

_SECONDS_UNTIL_ABANDONED = 24 * 3600.0  # on a file system without locks
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


# -------------------------------------------------------------------------------- atomic writing


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Provide a file to write that replaces `path` when the block ends without an error.

    A reader never sees half a file. If several processes write at the same time, the last one to
    finish wins. A file that a killed process left behind is removed by the next writer.

    Args:
        path: The file to replace.

    Yields:
        The path of the temporary file.
    """
    remove_partial_writes(path)
    part = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.part")
    lock = _create_locked_file(part)
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
        os.close(lock)


def write_atomically(path: Path, text: str) -> None:
    """Write a text file completely or not at all."""
    with replace_atomically(path) as part:
        part.write_text(text, encoding="utf-8")


def remove_partial_writes(path: Path) -> None:
    """Remove temporary files of processes that were killed while they wrote `path`."""
    remove_leftovers(path.parent, f"{glob.escape(path.name)}.*.part", Path.unlink)


@contextmanager
def make_locked_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a temporary folder that `remove_leftovers` leaves alone while this process lives.

    The caller renames the folder or removes it.

    Args:
        parent: The folder in which the temporary folder is made.
        prefix: Start of its name.
    """
    while True:
        folder = Path(mkdtemp(prefix=prefix, dir=parent))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        _lock(lock)
        if _is_open_at(lock, folder):
            break
        # Another process took the folder for a leftover before it was locked.
        os.close(lock)
    try:
        yield folder
    finally:
        os.close(lock)


def remove_leftovers(folder: Path, pattern: str, remove: Callable[[Path], object]) -> None:
    """Remove temporary files or folders that killed processes left behind.

    A process holds a lock on what it writes. The operating system releases the lock when the
    process ends, however it ends.

    Args:
        folder: Where to look.
        pattern: Glob pattern of the names of temporary files or folders.
        remove: Function that removes one of them.
    """
    for leftover in folder.glob(pattern):
        # It may be removed by another process at the same time.
        with suppress(OSError):
            mode = os.O_RDONLY if leftover.is_dir() else os.O_RDWR
            descriptor = os.open(leftover, mode | os.O_NOFOLLOW)
            try:
                if _is_abandoned(descriptor):
                    remove(leftover)
            finally:
                os.close(descriptor)


def _create_locked_file(path: Path) -> int:
    """Create a file and lock it until this process ends; return its descriptor."""
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        _lock(descriptor)
        if _is_open_at(descriptor, path):
            return descriptor
        # Another process took the file for a leftover before it was locked.
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    # Some network file systems have no locks. Leftovers are removed there after a day.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _is_open_at(descriptor: int, path: Path) -> bool:
    """Return whether a descriptor still is the file or folder at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _is_abandoned(descriptor: int) -> bool:
    """Return whether no living process writes an open file or folder; lock it if so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks.
        return time.time() - os.fstat(descriptor).st_mtime > _SECONDS_UNTIL_ABANDONED
    return True


# ---------------------------------------------------------------------------------------- folders


@contextmanager
def use_run_folder(folder: Path) -> Iterator[None]:
    """Make a run folder if it does not exist, and convert errors of the disk to a `UsageError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UsageError(f"{folder} cannot be used as a run folder: {error}") from error


def next_free_folder(folder: Path) -> Path:
    """Return the first of `folder-2`, `folder-3`, ... that does not exist."""
    for number in count(2):
        candidate = folder.with_name(f"{folder.name}-{number}")
        if not candidate.exists():
            return candidate
    raise AssertionError("there is always a next number")


# ------------------------------------------------------------------------------- results of a study


def write_study(path: Path, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the results of a study: facts as JSON, and rows as CSV beside them.

    Args:
        path: The JSON file.
        facts: What can be written as JSON.
        rows: Rows of a table, all with the same keys.
    """
    with use_run_folder(path.parent):
        write_atomically(path, json.dumps(facts, indent=1))
        write_atomically(path.with_suffix(".csv"), format_csv(rows))


@contextmanager
def open_study(path: Path) -> Iterator[dict[str, Any]]:
    """Read the facts that `write_study` wrote.

    An error while the file is read, or while the block interprets its content, becomes a
    `UsageError` of one line.
    """
    try:
        facts: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        yield facts
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}; the command that made it can write it again"
        ) from error


def format_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows with equal keys as CSV. The keys are the first line; cells are guarded."""
    text = StringIO()
    writer = csv.writer(text)
    names = list(rows[0])
    writer.writerow([guard_cell(name) for name in names])
    for row in rows:
        writer.writerow([guard_cell(row[name]) for name in names])
    return text.getvalue()


def guard_cell(content: Any) -> Any:
    """Prevent a spreadsheet from interpreting a text of a CSV file as a formula.

    A text that starts with one of the characters = + - @, tab, carriage return or an apostrophe
    gets an apostrophe in front. To restore the text, remove the first character of every text that
    starts with an apostrophe. Numbers and all other texts stay as they are.
    """
    if isinstance(content, str) and content.startswith((*_FORMULA_STARTS, "'")):
        return f"'{content}"
    return content

"""Write files and folders completely or not at all, and read and write result files."""

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

# On a file system without locks, a temporary file of this age is assumed to belong to a
# killed process.
_SECONDS_UNTIL_ABANDONED = 24 * 3600.0
# Functions such as `is_locked` hold a lock for far less than this time. A lock that is held for
# longer belongs to a process that works with the file.
_LOCK_WAIT_SECONDS = 0.2
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


# -------------------------------------------------------------------------------- atomic writing


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Provide a file to write that replaces `path` when the block ends without an error.

    A reader never sees an incomplete file. If several processes write at the same time, the last
    one to finish wins. The next writer removes temporary files of killed processes.

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
    """Make a temporary folder that `remove_leftovers` does not remove while this process runs.

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


@contextmanager
def hold_lock(path: Path) -> Iterator[int | None]:
    """Create a file and lock it until the block ends; then remove the file.

    If the process is killed, the file stays, and `is_locked` returns False.

    Yields:
        The descriptor of the file, or None if another process holds the lock.
    """
    descriptor = _open_and_lock(path)
    if descriptor is None:
        yield None
        return
    try:
        yield descriptor
    finally:
        _remove_locked_file(descriptor, path)
        os.close(descriptor)


def remove_abandoned_file(path: Path) -> None:
    """Remove a file that `hold_lock` created, unless a running process holds its lock.

    Raises:
        OSError: There is no such file, or it cannot be removed.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        # The file is removed under the lock, so that no process can begin to hold it in between.
        if _lock_if_abandoned(descriptor):
            _remove_locked_file(descriptor, path)
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a running process holds the lock of a file (see `hold_lock`)."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not _lock_if_abandoned(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, pattern: str, remove: Callable[[Path], object]) -> None:
    """Remove temporary files or folders that killed processes left behind.

    A process locks the file or folder that it writes. The operating system releases the lock when
    the process ends, however it ends.

    Args:
        folder: Where to look.
        pattern: Glob pattern of the names of temporary files or folders.
        remove: Function that removes one of them.
    """
    for leftover in folder.glob(pattern):
        # Another process may remove it at the same time.
        with suppress(OSError):
            mode = os.O_RDONLY if leftover.is_dir() else os.O_RDWR
            descriptor = os.open(leftover, mode | os.O_NOFOLLOW)
            try:
                if _lock_if_abandoned(descriptor):
                    remove(leftover)
            finally:
                os.close(descriptor)


def _open_and_lock(path: Path) -> int | None:
    """Open a file, or create it, and lock it; return None if another process holds the lock."""
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
    while True:
        try:
            descriptor = os.open(path, flags | os.O_EXCL, 0o666)
            is_new = True
        except FileExistsError:
            descriptor = os.open(path, flags, 0o666)
            is_new = False
        if _lock_if_abandoned(descriptor, is_new):
            if _is_open_at(descriptor, path):
                return descriptor
            # The process that held the lock has removed the file in the meantime.
            os.close(descriptor)
            continue
        os.close(descriptor)
        # `is_locked` and `remove_abandoned_file` of other processes hold the lock for a moment.
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)


def _remove_locked_file(descriptor: int, path: Path) -> None:
    """Remove the file that a descriptor refers to, but no other file at the same path."""
    if _is_open_at(descriptor, path):
        path.unlink(missing_ok=True)


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
    # Some network file systems have no locks. There, leftovers are removed after a day.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _is_open_at(descriptor: int, path: Path) -> bool:
    """Return whether a descriptor still refers to the file or folder at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _lock_if_abandoned(descriptor: int, is_new: bool = False) -> bool:
    """Lock an open file or folder and return True, unless a running process has locked it.

    Args:
        descriptor: The open file or folder.
        is_new: Whether this process has just created it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some network file systems have no locks. There, the age decides.
        return is_new or time.time() - os.fstat(descriptor).st_mtime > _SECONDS_UNTIL_ABANDONED
    return True


# ---------------------------------------------------------------------------------------- folders


@contextmanager
def use_run_folder(folder: Path) -> Iterator[None]:
    """Make a run folder if it does not exist, and turn an `OSError` into a `UsageError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UsageError(f"{folder} cannot be used as a run folder: {error}") from error


def find_free_folder(folder: Path) -> Path:
    """Return the first of `folder-2`, `folder-3`, ... that does not exist."""
    for number in count(2):
        candidate = folder.with_name(f"{folder.name}-{number}")
        if not candidate.exists():
            return candidate
    raise AssertionError("there is always a next number")


# ------------------------------------------------------------------------------------ result files


def write_result_files(
    path: Path, facts: Mapping[str, object], rows: Sequence[Mapping[str, object]]
) -> None:
    """Write a result as two files: facts as JSON, and the rows of a table as CSV.

    Args:
        path: The JSON file. The CSV file has the same name with the suffix `.csv`.
        facts: The content of the JSON file.
        rows: Rows of the table, all with the same keys.
    """
    with use_run_folder(path.parent):
        write_atomically(path, json.dumps(facts, indent=1))
        write_atomically(path.with_suffix(".csv"), format_csv(rows))


@contextmanager
def read_result_file(path: Path) -> Iterator[dict[str, Any]]:
    """Read the JSON file that `write_result_files` wrote.

    An error while the file is read, or while the block interprets its content, becomes a
    `UsageError` of one line.

    Yields:
        The content of the file.
    """
    try:
        facts: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        yield facts
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}; repeat the command that wrote it"
        ) from error


def format_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Format rows with equal keys as CSV. The keys are the first line, and formulas are escaped."""
    if not rows:
        return ""
    text = StringIO()
    writer = csv.writer(text)
    names = list(rows[0])
    writer.writerow([escape_formula(name) for name in names])
    for row in rows:
        writer.writerow([escape_formula(row[name]) for name in names])
    return text.getvalue()


def escape_formula(content: object) -> object:
    """Prevent a spreadsheet from interpreting a text of a CSV file as a formula.

    A text that starts with one of the characters = + - @, tab, carriage return or an apostrophe
    gets an apostrophe in front. To restore the text, remove the first character of every text that
    starts with an apostrophe. Numbers and all other texts stay as they are.
    """
    if isinstance(content, str) and content.startswith((*_FORMULA_STARTS, "'")):
        return f"'{content}"
    return content

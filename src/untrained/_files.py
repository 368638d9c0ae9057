"""Files that are written whole or not at all, and what a study leaves in its folder."""

import csv
import fcntl
import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any

from untrained.errors import UsageError
from untrained.readers.json_file import parse_json


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a file to write that takes the place of `path` when the block ends without an error.

    Nobody ever reads half a file. Of several writers at once, the last one to finish wins. What a killed process left
    behind is removed by the next one that writes the same file.
    """
    remove_leftovers(path)
    part = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.part")
    lock = os.open(part, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        with suppress(OSError):  # some disks of other machines know no locks, and keep their leftovers
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends, however it ends
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
        os.close(lock)


def remove_leftovers(path: Path) -> None:
    """Remove what processes left that were killed while they wrote `path`: nobody holds a lock on it."""
    for leftover in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        with suppress(OSError):  # locked, or removed by another process
            lock = os.open(leftover, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()
            finally:
                os.close(lock)


def write_whole(path: Path, text: str) -> None:
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """A folder to write into, made where there is none; what is wrong with it is told in one line."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UsageError(f"{folder} cannot be used as a run folder: {error}") from error


def free(folder: Path) -> Path:
    """A folder beside it that is not there yet, by number."""
    beside = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(other for other in beside if not other.exists())


def write_study(path: Path, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Facts as JSON at `path`, and rows as CSV beside them."""
    with run_folder(path.parent):
        write_whole(path, json.dumps(facts, indent=1))
        write_whole(path.with_suffix(".csv"), csv_of(rows))


@contextmanager
def reading_study(path: Path) -> Iterator[dict[str, Any]]:
    """The facts at `path`; whatever is wrong with them, there or inside of the block, is told in one line."""
    try:
        facts: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        yield facts
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; the command that made it makes it anew") from error


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows of equal keys as CSV. The keys are the first line, and texts are those of `guard_cell`."""
    out = StringIO()
    table = csv.writer(out)
    names = list(rows[0])
    table.writerow([guard_cell(name) for name in names])
    for row in rows:
        table.writerow([guard_cell(row[name]) for name in names])
    return out.getvalue()


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def guard_cell(content: Any) -> Any:
    """Keep a spreadsheet from taking a text of a CSV file for a formula.

    A text that begins with one of the characters = + - @, tab, carriage return or an apostrophe gets an apostrophe in
    front. To have the text back, remove the first character of every text that begins with an apostrophe. Numbers and
    all other texts stay as they are.
    """
    if isinstance(content, str) and content.startswith((*_FORMULA_STARTS, "'")):
        return f"'{content}"
    return content

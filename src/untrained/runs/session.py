"""The session file: whether a run is in progress, and the progress of a session that was killed.

A process that works on a run holds a lock on `session.json` in its folder, and removes the file at
the end. If the file is there and not locked, the process was killed.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from untrained.files import hold_lock, is_locked, remove_abandoned_file
from untrained.formatting import format_progress
from untrained.readers.json_file import parse_json

SESSION_FILE = "session.json"


@dataclass(frozen=True)
class Session:
    """The progress of a session that runs or was killed.

    Attributes:
        phase: What it was doing, such as "scoring".
        done: Number of finished units of the phase.
        total: Number of units of the phase; None if unknown.
        is_running: Whether the process still runs.
        is_percentage: Whether the units are per cent.
    """

    phase: str
    done: int
    total: int | None
    is_running: bool = True
    is_percentage: bool = False

    @property
    def text(self) -> str:
        """The progress in words, such as "scoring, 12 of 100 done"."""
        if not self.phase:
            return "starting"
        return f"{self.phase}, {format_progress(self.done, self.total, self.is_percentage)} done"


class SessionFile:
    """The locked session file of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # A killed session may have left a longer text in the file.
        self._size = os.fstat(descriptor).st_size

    @staticmethod
    @contextmanager
    def open(folder: Path) -> Iterator["SessionFile | None"]:
        """Lock the session file of a run until the block ends.

        Yields:
            The file, or None if another process works on the same run.
        """
        with hold_lock(folder / SESSION_FILE) as descriptor:
            if descriptor is None:
                yield None
            else:
                yield SessionFile(descriptor)

    def write(self, session: Session) -> None:
        """Write the progress of the session.

        The file is not replaced, because the lock belongs to it. It is not truncated either: if the
        process is killed, the file holds the last text or the one before it.
        """
        facts = asdict(session)
        del facts["is_running"]
        # Spaces cover the rest of a longer text; JSON ignores them.
        text = json.dumps(facts).encode().ljust(self._size)
        os.pwrite(self._descriptor, text, 0)
        self._size = len(text)


def read_session(folder: str | Path) -> Session | None:
    """Read the session that is in progress or was killed; None if the last one was not killed."""
    path = Path(folder, SESSION_FILE)
    if path.is_symlink() or not path.is_file():
        return None
    is_running = is_locked(path)
    try:
        facts = parse_json(path.read_text(encoding="utf-8"))
        total = facts["total"]
        if total is not None:
            total = int(total)
        # Files of earlier versions have no `is_percentage`.
        is_percentage = bool(facts.get("is_percentage", False))
        return Session(str(facts["phase"]), int(facts["done"]), total, is_running, is_percentage)
    except (OSError, ValueError, KeyError, TypeError):
        return Session("", 0, None, is_running)


def remove_killed_session(folder: Path) -> None:
    """Remove the session file of a process that was killed, after its run was resumed."""
    # There may be no such file, and the folder of a finished run may be read-only.
    with suppress(OSError):
        remove_abandoned_file(folder / SESSION_FILE)

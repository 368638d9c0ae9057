"""The state of a contest in progress, and the file in which it is saved."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

from untrained.data.parts import Part
from untrained.errors import UsageError
from untrained.files import read_result_file, write_atomically
from untrained.reports.contest_result import ContestEntry, read_entry
from untrained.workflows.contest_training import ContestSettings

FOLDER = "contest"
STATE_FILE = "state.json"


def get_weights_path(folder: Path, number: int) -> Path:
    """Return the file of the weights of an entry, in a run folder."""
    return folder / FOLDER / f"{number}.pt"


def read_contest_entries(folder: Path) -> list[ContestEntry]:
    """Read the entries of a contest in progress; an empty list if they cannot be read.

    Args:
        folder: The run folder.
    """
    try:
        with read_result_file(folder / FOLDER / STATE_FILE) as state:
            return [read_entry(row) for row in state["entries"]]
    except UsageError:
        return []


class ContestState:
    """The entries of a contest in progress, and what was decided about them.

    Args:
        entries: The entries at the beginning. A resumed contest reads them from its file instead.
        settings: What the entries have in common.
        parts: The samples to train on and to compare on.

    Attributes:
        entries: The entries by number.
        first_numbers: Numbers of all entries except copies with other learning rates.
        step_seconds: Seconds per training step of an entry, as last measured. It is not saved.
        has_chosen_entrants: Whether it is decided which entries are trained.
        is_late: Whether the time ran out before all rounds were finished.
        passed_over: Number of slow architectures with high scores that were skipped.
        replacements: Number of architectures that replaced them.
    """

    def __init__(
        self,
        entries: Sequence[ContestEntry],
        settings: ContestSettings,
        parts: Mapping[str, Part],
    ) -> None:
        self._folder = settings.folder / FOLDER
        self._fingerprint = settings.compute_fingerprint(parts)
        self._start = perf_counter()
        self.step_seconds: dict[int, float] = {}
        self.has_chosen_entrants = False
        self.is_late = False
        self.passed_over = 0
        self.replacements = 0
        self.entries = self._read()
        if not self.entries:
            self.entries = {entry.number: entry for entry in entries}
        self.first_numbers: list[int] = []
        for entry in self.entries.values():
            if not entry.is_copy:
                self.first_numbers.append(entry.number)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the contest was begun or resumed."""
        return perf_counter() - self._start

    @property
    def has_results(self) -> bool:
        """Whether an entry has finished a round."""
        return any(entry.rounds for entry in self.entries.values())

    def list_entrants(self) -> list[int]:
        """Return the numbers of the entries that take part, without copies."""
        numbers = []
        for number in self.first_numbers:
            if not self.entries[number].is_left_out:
                numbers.append(number)
        return numbers

    def set_error(self, number: int, error: str) -> None:
        """Set why an entry is not trained; an empty text lets it take part again."""
        self.entries[number] = replace(self.entries[number], error=error)

    def save(self) -> None:
        """Write the state into the run folder."""
        rows = [asdict(entry) for entry in self.entries.values()]
        document = {
            "fingerprint": self._fingerprint,
            "entries": rows,
            "has_chosen_entrants": self.has_chosen_entrants,
            "is_late": self.is_late,
            "passed_over": self.passed_over,
            "replacements": self.replacements,
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder / STATE_FILE, json.dumps(document, indent=1) + "\n")

    def _read(self) -> dict[int, ContestEntry]:
        """Read the state that an earlier call saved.

        Returns:
            The entries by number; empty if nothing was saved, or if it was another contest.
        """
        path = self._folder / STATE_FILE
        if not path.is_file():
            return {}
        with read_result_file(path) as state:
            if state["fingerprint"] != self._fingerprint:
                return {}
            entries = [read_entry(row) for row in state["entries"]]
            self.has_chosen_entrants = bool(state["has_chosen_entrants"])
            self.is_late = bool(state.get("is_late", False))
            self.passed_over = int(state["passed_over"])
            self.replacements = int(state["replacements"])
        return {entry.number: entry for entry in entries}

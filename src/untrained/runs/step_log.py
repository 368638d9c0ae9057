"""The step log: intermediate results of a strategy, kept in the run folder.

Some strategies compute for a long time before they propose an architecture: NASI optimises a
supernet for hundreds of steps, Zero-Cost-PT computes hundreds of scores. Each result is written to
one line of `steps.jsonl` as soon as it is computed. When the search resumes, it is read instead of
computed.

A strategy draws the same random numbers whether a result is read or computed, and JSON preserves
floats exactly. So a resumed search ends with the same values, bit for bit, as an uninterrupted one.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from untrained.errors import UsageError
from untrained.progress import Progress, ProgressCallback
from untrained.readers.json_file import parse_json
from untrained.version import __version__

STEP_LOG_FILE = "steps.jsonl"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A result as plain data, and how long it took to compute."""

    result: Any
    seconds: float


class StepLog:
    """Results of a strategy by key. They are written to a file after `open` was called.

    Attributes:
        earlier_seconds: Time of the steps that earlier sessions wrote.
    """

    def __init__(
        self, on_progress: ProgressCallback | None = None, stage: str = "computing steps"
    ) -> None:
        """Make an empty log.

        Args:
            on_progress: Called before and after each step that has to be computed.
            stage: Name of the stage in progress events.
        """
        self._on_progress = on_progress
        self._stage = stage
        self._steps: dict[str, LoggedStep] = {}
        self._path: Path | None = None
        self._fingerprint = ""  # of everything that the steps depend on
        self._max_proposals = 0
        self._proposals_begun = 0
        self._steps_per_proposal = 0
        self._steps_done = 0
        self._steps_expected = 0  # of the proposals that have begun
        self.earlier_seconds = 0.0

    def open(self, folder: Path, dependencies: object, max_proposals: int | None) -> None:
        """Read the log of a run folder, and write new steps to it from now on.

        Args:
            folder: The run folder.
            dependencies: Everything that the steps depend on; its `str` must contain all of it.
                Logged steps with other dependencies are ignored.
            max_proposals: How many architectures the search will request; None if unknown.
        """
        self._path = folder / STEP_LOG_FILE
        self._max_proposals = max_proposals or 0
        self._fingerprint = sha256(f"{__version__} {dependencies}".encode()).hexdigest()[:16]
        self._steps = dict(_read_steps(self._path, self._fingerprint))
        self.earlier_seconds = self.seconds

    @property
    def seconds(self) -> float:
        """Total time of all steps, including those of earlier sessions."""
        return sum(step.seconds for step in self._steps.values())

    def begin_proposal(self, steps: int) -> None:
        """Set how many steps the next architecture takes, for the progress report."""
        self._proposals_begun += 1
        self._steps_per_proposal = steps
        self._steps_expected = self._steps_done + steps

    def get_or_compute(self, key: str, compute: Callable[[], T]) -> T:
        """Return the logged result of a step, or compute and log it now.

        Args:
            key: Name of the step. Equal keys have equal results.
            compute: Returns the result as data that JSON can write.
        """
        if key in self._steps:
            # Not reported: steps that take no time would distort the estimate of the remaining
            # time.
            self._steps_done += 1
            logged_result: T = self._steps[key].result
            return logged_result
        self._report_progress()
        start = perf_counter()
        # Converted through JSON, so that it equals a result read from the file (lists, not tuples).
        result: T = json.loads(json.dumps(compute()))
        step = LoggedStep(result, perf_counter() - start)
        self._steps[key] = step
        self._write_step(key, step)
        self._steps_done += 1
        self._report_progress()
        return result

    def _report_progress(self) -> None:
        if self._on_progress is None:
            return
        proposals_left = max(0, self._max_proposals - self._proposals_begun)
        total = self._steps_expected + self._steps_per_proposal * proposals_left
        self._on_progress(Progress(self._stage, self._steps_done, total))

    def _write_step(self, key: str, step: LoggedStep) -> None:
        if self._path is None:
            return
        line = {
            "dependencies": self._fingerprint,
            "key": key,
            "seconds": step.seconds,
            "result": step.result,
        }
        try:
            with self._path.open("a", encoding="utf-8") as file:
                # The line break comes first, so a line that was cut off by a kill does not damage
                # this one.
                file.write(f"\n{json.dumps(line)}")
        except OSError as error:
            raise UsageError(
                f"{self._path} cannot be written: {error}; "
                "free some space, and the same command resumes"
            ) from error


def _read_steps(path: Path, fingerprint: str) -> Iterator[tuple[str, LoggedStep]]:
    """Yield keys and steps with this fingerprint.

    A line that cannot be read is skipped, so its step is computed again.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}; choose another --run folder") from error
    for line in lines:
        try:
            entry = parse_json(line)
            if entry["dependencies"] == fingerprint:
                yield entry["key"], LoggedStep(entry["result"], entry["seconds"])
        except (ValueError, KeyError, TypeError):
            continue

"""The duration of an experiment, including attempts that were interrupted."""

from contextlib import suppress
from pathlib import Path
from time import perf_counter

from untrained.files import write_atomically
from untrained.progress import Progress, ProgressCallback

SECONDS_FILE = "seconds.txt"
SECONDS_BETWEEN_WRITES = 5.0


class Stopwatch:
    """Measures the duration of an experiment and saves it in the folder of the experiment.

    Args:
        folder: Folder of the experiment. The duration of earlier attempts is read from it.
        on_progress: Called with every progress event.
    """

    def __init__(self, folder: Path, on_progress: ProgressCallback | None) -> None:
        self._path = folder / SECONDS_FILE
        self._on_progress = on_progress
        self._start = perf_counter()
        self._earlier = 0.0
        self._last_write = self._start
        with suppress(OSError, ValueError):
            self._earlier = float(self._path.read_text(encoding="utf-8"))

    @property
    def seconds(self) -> float:
        """Duration of all attempts so far."""
        return self._earlier + perf_counter() - self._start

    def report_progress(self, progress: Progress) -> None:
        """Forward a progress event, and save the duration from time to time.

        A process that is killed cannot save the duration at its end.
        """
        if perf_counter() - self._last_write >= SECONDS_BETWEEN_WRITES:
            self.write()
        if self._on_progress is not None:
            self._on_progress(progress)

    def write(self) -> None:
        """Write the duration so far."""
        self._last_write = perf_counter()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, f"{self.seconds:.1f}\n")

"""A progress bar on the error stream, or a few lines if the error stream is not a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import perf_counter
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as ProgressBar
from rich.table import Column
from rich.text import Text

from untrained.cli.terminal.console import SafeConsole
from untrained.cli.terminal.time_estimate import TimeEstimate
from untrained.formatting import format_progress
from untrained.progress import Progress, ProgressCallback, use_progress_callback

SECONDS_BETWEEN_LINES = 30.0
# How often `ProgressLog` checks whether a line is due.
CHECK_SECONDS = 1.0


@contextmanager
def show_progress(
    quiet: bool, time_budget: float | None = None
) -> Iterator[ProgressCallback | None]:
    """Show the progress of all stages and estimate once per stage how long it takes.

    Args:
        quiet: Whether to show nothing.
        time_budget: Seconds that the work may take, if the user set a limit.

    Yields:
        The callback for progress events, or None if `quiet` is true.
    """
    if quiet:
        yield None
        return
    tasks: dict[str, TaskID] = {}
    ended: set[str] = set()
    estimate = TimeEstimate(time_budget)
    with (
        open_progress_bar(TextColumn("{task.fields[status]}")) as bar,
        ProgressLog(bar.console) as log,
    ):

        def on_progress(progress: Progress) -> None:
            now = perf_counter()
            stage = progress.stage
            # The bar starts with the first event. Later calls of `start` have no effect.
            bar.start()
            status = format_progress(progress.done, progress.total, progress.is_percentage)
            if progress.end_reason:
                status = f"{status} ({progress.end_reason})"
            if stage not in ended:
                log.write(stage, status, now, is_last=bool(progress.end_reason))
            if stage not in tasks:
                # A new stage begins only after the earlier ones have ended: stop their clocks.
                for task in tasks.values():
                    bar.stop_task(task)
                tasks[stage] = bar.add_task(stage, total=progress.total, status=status)
            bar.update(tasks[stage], completed=progress.done, total=progress.total, status=status)
            if progress.end_reason:
                ended.add(stage)
                _end_task(bar, tasks[stage])
            message = estimate.update(progress, now)
            if message:
                bar.console.print(message, highlight=False)
            if progress.remark:
                bar.console.print(progress.remark, highlight=False, markup=False)

        # Functions that read data report progress through this context, not through a parameter.
        with use_progress_callback(on_progress):
            yield on_progress


def _end_task(bar: ProgressBar, task: TaskID) -> None:
    """Stop the clock of a stage that ended before its total, and show no remaining time."""
    if bar.tasks[task].total is None:
        # A bar without a total would be animated until the command ends.
        bar.update(task, total=bar.tasks[task].completed)
    bar.stop_task(task)


@contextmanager
def open_progress_bar(status: ProgressColumn) -> Iterator[ProgressBar]:
    """Open a progress bar, which the caller starts when there is something to show.

    The bar does not start by itself, because a wrong command prints one line without a bar. An
    exception removes an unfinished bar, so that only the error message stays.

    Args:
        status: Column between the bar and the times, such as "12 of 100".

    Yields:
        The progress bar.
    """
    bar = ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        status,
        *_make_time_columns(),
        console=SafeConsole(stderr=True),
    )
    try:
        yield bar
    except BaseException:
        bar.live.transient = True
        raise
    finally:
        if bar.live.is_started:
            bar.stop()


class ProgressLog:
    """Progress as lines, for an error stream that is a file or a pipe.

    It prints one line when a stage begins and then one every 30 seconds, even if nothing was
    finished in this time. On a terminal it prints nothing, because the bar shows the same.

    As a context manager, it repeats the last line in a thread until the block ends.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stages: set[str] = set()
        self._last_time = 0.0
        self._last_line = ""
        # Lines are printed by the thread and by the callers of `write`.
        self._lock = Lock()
        self._stopped = Event()
        self._thread = Thread(target=self._repeat_lines, name="progress log", daemon=True)

    def __enter__(self) -> Self:
        if not self._console.is_terminal:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def write(self, stage: str, status: str, now: float, is_last: bool = False) -> None:
        """Print a line if one is due.

        Args:
            stage: What is being done, such as "scoring".
            status: Its progress, such as "12 of 100".
            now: The time in seconds, on any clock.
            is_last: Whether the stage has ended. The line is then printed, and not repeated.
        """
        if self._console.is_terminal:
            return
        with self._lock:
            self._last_line = f"{stage}: {status}"
            is_due = stage not in self._stages or now - self._last_time >= SECONDS_BETWEEN_LINES
            if is_due or is_last:
                self._stages.add(stage)
                self._print(now)
            if is_last:
                self._last_line = ""

    def repeat(self, now: float) -> None:
        """Print the progress again if nothing was printed for a while.

        Args:
            now: The time in seconds, on the clock of `write`.
        """
        with self._lock:
            if self._last_line and now - self._last_time >= SECONDS_BETWEEN_LINES:
                self._print(now)

    def _repeat_lines(self) -> None:
        while not self._stopped.wait(CHECK_SECONDS):
            self.repeat(perf_counter())

    def _print(self, now: float) -> None:
        self._last_time = now
        # Lines are not wrapped, because a log file has no width.
        self._console.print(self._last_line, highlight=False, markup=False, soft_wrap=True)


class _RemainingTimeColumn(TimeRemainingColumn):
    """The remaining time, which is empty for a stage that has ended."""

    def render(self, task: Task) -> Text:
        if task.stop_time is not None and not task.finished:
            return Text("-:--:--", style="progress.remaining")
        return super().render(task)


def _make_time_columns() -> list[ProgressColumn]:
    # In a narrow terminal, the bar becomes shorter and the times stay complete.
    width = len("0:00:00")
    return [
        TextColumn("elapsed"),
        TimeElapsedColumn(Column(no_wrap=True, min_width=width)),
        TextColumn("left"),
        _RemainingTimeColumn(table_column=Column(no_wrap=True, min_width=width)),
    ]

"""A progress bar on the error stream, as long as everything goes well; lines where no bar can move. Knows nothing of
what takes the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from untrained._terminal_console import SafeConsole

MINUTE = 60.0


@contextmanager
def bar(so_far: ProgressColumn) -> Iterator[Progress]:
    """Whoever has something to show starts it, and not before: a wrong request is answered by one line and no bar. What
    goes wrong later is said in one line too; an unfinished bar above it says nothing, and vanishes."""
    columns = (TextColumn("{task.description}"), BarColumn(), so_far, *_times())
    shown = Progress(*columns, console=SafeConsole(stderr=True))
    try:
        yield shown
    except BaseException:
        shown.live.transient = True
        raise
    finally:
        if shown.live.is_started:
            shown.stop()


class Lines:
    """For an error stream that is a file or a pipe: a line when a stage begins, and one a minute."""

    def __init__(self, console: Console) -> None:
        self._console, self._begun, self._last = console, set[str](), 0.0

    def tell(self, stage: str, how_far: str, now: float) -> None:
        if self._console.is_terminal or (stage in self._begun and now - self._last < MINUTE):
            return
        self._begun.add(stage)
        self._last = now
        self._console.print(f"{stage}: {how_far}", highlight=False, markup=False, soft_wrap=True)


def _times() -> tuple[ProgressColumn, ...]:
    """How long it took and will take; in a narrow terminal the bar gives way, not the seconds."""
    elapsed, left = (Column(no_wrap=True, min_width=len("0:00:00")) for _ in range(2))
    return TextColumn("elapsed"), TimeElapsedColumn(elapsed), TextColumn("left"), TimeRemainingColumn(table_column=left)

"""A progress bar on the error stream, as long as everything goes well. Knows nothing of what takes the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column


@contextmanager
def bar(so_far: ProgressColumn) -> Iterator[Progress]:
    """Whoever has something to show starts it, and not before: a wrong request is answered by one line and no bar. What
    goes wrong later is said in one line too; an unfinished bar above it says nothing, and vanishes."""
    columns = (TextColumn("{task.description}"), BarColumn(), so_far, *_times())
    shown = Progress(*columns, console=Console(stderr=True))
    try:
        yield shown
    except BaseException:
        shown.live.transient = True
        raise
    finally:
        if shown.live.is_started:
            shown.stop()


def _times() -> tuple[ProgressColumn, ...]:
    """How long it took and will take; in a narrow terminal the bar gives way, not the seconds."""
    elapsed, left = (Column(no_wrap=True, min_width=len("0:00:00")) for _ in range(2))
    return TextColumn("elapsed"), TimeElapsedColumn(elapsed), TextColumn("left"), TimeRemainingColumn(table_column=left)

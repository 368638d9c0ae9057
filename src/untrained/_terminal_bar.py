"""A progress bar on the error stream, as long as everything goes well. Knows nothing of what takes the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def bar(so_far: ProgressColumn) -> Iterator[Progress]:
    """Whoever has something to show starts it, and not before: a wrong request is answered by one line and no bar. What
    goes wrong later is said in one line too; an unfinished bar above it says nothing, and vanishes."""
    columns = (TextColumn("{task.description}"), BarColumn(), so_far, TextColumn("elapsed"), TimeElapsedColumn())
    shown = Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True))
    try:
        yield shown
    except BaseException:
        shown.live.transient = True
        raise
    finally:
        if shown.live.is_started:
            shown.stop()

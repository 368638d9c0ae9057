"""What the terminal shows: progress with an estimate of the time left, rankings, catalogues. Shows, decides nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from untrained.strategies.search import Result, Watcher
from untrained.types import Record

TOP = 10


@contextmanager
def watching(budget: int, quiet: bool) -> Iterator[Watcher | None]:
    """A progress bar on the error stream that names the best score so far."""
    if quiet:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("elapsed"))
    with Progress(
        *columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True)
    ) as bar:
        task = bar.add_task("scoring", total=budget)
        yield lambda done, records: bar.update(task, completed=done)


def show_result(found: Result, page: Path) -> None:
    """The ten best, what failed, and where the report is."""
    console = Console()
    standings, failed = found.ranking.standings, found.ranking.failed
    if standings:
        console.print(_ranking(found))
    else:
        console.print("[bold]nothing could be scored[/]")
    if failed:
        kinds = [failure.kind for _, failure in failed]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        console.print(f"{len(failed)} of {len(failed) + len(standings)} have no score: {counts}")
    if found.run.stopped_early:
        console.print("stopped by Ctrl-C: the best so far is kept, and the same command goes on from here")
    console.print(f"report: {page}", soft_wrap=True)


def _ranking(found: Result) -> Table:
    direction = "higher" if found.run.higher_is_better else "lower"
    settings, total = found.run.settings, len(found.ranking.standings)
    table = Table(
        title=f"The best {min(TOP, total)} of {total} by {settings.proxy} ({direction} is better)", title_justify="left"
    )
    sizes = {(r.arch, r.proxy): r.value for r in found.records if r.proxy in ("params", "flops")}
    table.add_column("#", justify="right")
    table.add_column(settings.proxy, justify="right")
    if settings.seeds > 1:
        table.add_column("± spread", justify="right")
    table.add_column("params", justify="right")
    table.add_column("FLOPs", justify="right")
    table.add_column("architecture", overflow="fold")
    for place, standing in enumerate(found.ranking.standings[:TOP], 1):
        spread = [f"{standing.spread:.3g}"] if standing.spread is not None else []
        params, flops = (millions(sizes.get((standing.arch, name))) for name in ("params", "flops"))
        table.add_row(str(place), f"{standing.score:.4f}", *spread, params, flops, str(standing.arch))
    return table


def millions(value: float | None) -> str:
    return "" if value is None else f"{value / 1e6:.3g} M"


def show_records(records: Sequence[Record]) -> None:
    table = Table(box=None)
    for name in ("network", "proxy", "seed", "score"):
        table.add_column(name, overflow="fold", justify="right" if name in ("seed", "score") else "left")
    for record in records:
        outcome = f"{record.value:,.6g}" if record.value is not None else f"[red]{record.error}[/]"
        table.add_row(str(record.arch), record.proxy, str(record.seed), outcome)
    Console().print(table)


def show_catalogue(rooms: dict[str, list[dict[str, Any]]]) -> None:
    console = Console()
    for room, rows in rooms.items():
        table = Table(title=room, title_justify="left", box=None)
        for column in rows[0]:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(_cell(value) for value in row.values()))
        console.print(table)
        console.print()


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(str, value)) if value and isinstance(value[0], int) else ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value if value is not None else "")

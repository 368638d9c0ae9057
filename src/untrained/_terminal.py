"""What the terminal shows: progress with an estimate of the time left, rankings, catalogues. Shows, decides nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from untrained.strategies.search import Result, Watcher
from untrained.types import Arch, Failure, Record

TOP = 10
_NO_FACTS = ("name", "about", "formula", "notes")  # the first two head an entry, the others fill pages


@contextmanager
def watching(budget: int, quiet: bool) -> Iterator[Watcher | None]:
    """A progress bar on the error stream that names the best score so far."""
    if quiet:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("elapsed"))
    bar = Progress(
        *columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True)
    )
    task = bar.add_task("scoring", total=budget)

    def watch(done: int, records: Sequence[Record]) -> None:
        bar.start()  # not before the first call: a wrong request is answered by one line and no bar
        bar.update(task, completed=done)

    try:
        yield watch
    except BaseException:
        bar.live.transient = True  # what went wrong is said in one line; an unfinished bar above it says nothing
        raise
    finally:
        if bar.live.is_started:
            bar.stop()


def show_result(found: Result, page: Path) -> None:
    """The ten best, what failed, and where the report is."""
    console = Console()
    standings, failed = found.ranking.standings, found.ranking.failed
    if standings:
        console.print(_ranking(found))
        if ties := sum(standing.tied for standing in standings):
            console.print(f"= {found.run.settings.seeds} seeds cannot tell {ties} of the others from the best (95 %)")
        console.print(f"best: {escape(str(found.best))}", soft_wrap=True)
    else:
        console.print("[bold]nothing could be scored[/]")
    if failed:
        console.print(f"no score for {len(failed)} of {len(failed) + len(standings)}: {_reasons(failed)}")
    if found.run.stopped_early:
        console.print("stopped by Ctrl-C: the best so far is kept, and the same command goes on from here")
    console.print(f"report: {escape(str(page))}", soft_wrap=True)


def _reasons(failed: Sequence[tuple[Arch, Failure]]) -> str:
    """How many failed of each kind, with the first reason of each."""
    kinds = [failure.kind for _, failure in failed]
    first = {failure.kind: failure.detail for _, failure in reversed(failed)}
    return escape("; ".join(f"{kinds.count(kind)} {kind} ({first[kind]})" for kind in dict.fromkeys(kinds)))


def _ranking(found: Result) -> Table:
    direction = "higher" if found.run.higher_is_better else "lower"
    settings, total = found.run.settings, len(found.ranking.standings)
    proxy = escape(settings.proxy)
    title = f"The best {min(TOP, total)} of {total} by {proxy} ({direction} is better)"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    sizes = {(r.arch, r.proxy): r.value for r in found.records if r.proxy in ("params", "flops")}
    table.add_column("#", justify="right")
    table.add_column(proxy, justify="right")
    if settings.seeds > 1:
        table.add_column("± 95 %", justify="right")
    table.add_column("params", justify="right")
    table.add_column("FLOPs", justify="right")
    table.add_column("architecture", overflow="fold")
    for place, standing in enumerate(found.ranking.standings[:TOP], 1):
        spread = [f"{standing.margin:.3g}"] if standing.margin is not None else []
        params, flops = (millions(sizes.get((standing.arch, name))) for name in ("params", "flops"))
        table.add_row(
            f"= {place}" if standing.tied else str(place),
            f"{standing.score:.4f}",
            *spread,
            params,
            flops,
            escape(str(standing.arch)),
        )
    return table


def millions(value: float | None) -> str:
    return "" if value is None else f"{value / 1e6:.3g} M"


def show_records(rows: Sequence[dict[str, Any]]) -> None:
    """One line a network and proxy: the mean over its seeds and their standard deviation, or why there is none."""
    table = Table(box=None)
    for name in ("network", "proxy", "score", "± std", "seeds"):
        table.add_column(name, overflow="fold", justify="left" if name in ("network", "proxy") else "right")
    several = any(row["n"] > 1 for row in rows)
    for arch, proxy in dict.fromkeys((row["arch"], row["proxy"]) for row in rows):
        found = [row for row in rows if (row["arch"], row["proxy"]) == (arch, proxy)]
        failure = next((row["error"] for row in found if row["error"]), None)
        first = found[0]
        outcome = f"[red]{escape(failure)}[/]" if failure else f"{first['mean']:,.6g}"
        spread = "" if failure or first["std"] is None else f"{first['std']:.3g}"
        table.add_row(escape(arch), escape(proxy), outcome, *([spread, str(first["n"])] if several else []))
    if not several:
        table.columns = table.columns[:3]
    Console().print(table)


def show_catalogue(rooms: dict[str, list[dict[str, Any]]]) -> None:
    """Each member on a line with what it is; its other facts below, so that nothing is squeezed into columns."""
    console = Console()
    for room, rows in rooms.items():
        console.print(f"[bold]{room}[/]")
        for row in rows:
            facts = (
                (name, _cell(value)) for name, value in row.items() if name not in ("name", "about", "formula", "notes")
            )
            told = " · ".join(f"{name}: {value}" for name, value in facts if value)
            console.print(f"  [bold cyan]{escape(row['name'])}[/]  {escape(row['about'])}", highlight=False)
            if told:
                console.print(f"      {escape(told)}", style="dim", highlight=False)
        console.print()


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(str, value)) if value and isinstance(value[0], int) else ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value if value is not None else "")

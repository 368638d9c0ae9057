"""What the terminal shows: progress with an estimate of the time left, rankings. Shows, decides nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.progress import MofNCompleteColumn, TaskID
from rich.table import Table
from rich.text import Text

from untrained._numbers import column, counted, duration, measured, number, quantity
from untrained._terminal_bar import Lines, bar
from untrained._terminal_console import SafeConsole
from untrained._terminal_train import show_confirmed
from untrained.data import listening
from untrained.strategies._desk import LOOKING
from untrained.strategies._run import Run
from untrained.strategies.search import Progress as Search
from untrained.strategies.search import Result, Watcher
from untrained.studies.trust import Judged, Trust
from untrained.types import Arch, Failure

TOP = 10
_SIZES = {"params": "params", "flops": "FLOPs"}  # of every network, and what heads their columns
LONGEST = 120  # letters of an architecture in a ranking; the best is told whole below it
TIMED = 4  # architectures a worker before the whole is estimated
ROOMY = 100  # columns of a terminal that shows every statistic


@contextmanager
def watching(quiet: bool, seconds: float | None = None) -> Iterator[Watcher | None]:
    """A progress bar on the error stream, with an estimate of the whole as soon as a few architectures are timed.
    `seconds` is how long the search may take."""
    if quiet:
        yield None
        return
    stages: dict[str, TaskID] = {}
    estimate = Estimate(seconds)
    with bar(MofNCompleteColumn()) as shown:
        lines = Lines(shown.console)

        def watch(at: Search) -> None:
            shown.start()
            now, of = perf_counter(), "" if at.total is None else f" of {at.total:,}"
            lines.tell(at.stage, f"{at.done:,}{of}", now)
            if at.stage not in stages:
                stages[at.stage] = shown.add_task(at.stage, total=at.total)
            shown.update(stages[at.stage], completed=at.done, total=at.total)
            if told := estimate.after(at, now):
                shown.console.print(told, highlight=False)

        with listening(lambda done, total: watch(Search("reading pictures", done, total, 0, 1))):
            yield watch


class Estimate:
    """What the whole will take, said once in each stage, from a few architectures a worker that had to be measured.
    What comes before the first of them, such as starting workers, is not counted; nor, where many are looked at
    together, those that each worker first looks at alone."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._first: dict[tuple[str, bool], tuple[int, float]] = {}  # by stage and company: measured by then, and when
        self._company: dict[str, int] = {}  # by stage: the most that were looked at together
        self._said: set[str] = set()

    def after(self, at: Search, now: float) -> str:
        if not at.measured or at.stage in self._said:
            return ""
        company = max([self._company.get(at.stage, 1), *(record.together for record in at.records)])
        self._company[at.stage] = company
        measured, since = self._first.setdefault((at.stage, company > 1), (at.measured, now))
        timed = at.measured - measured
        if timed < max(TIMED, 2 * company) * at.workers or now <= since:
            return ""
        self._said.add(at.stage)
        rate, who = timed / (now - since), counted(at.workers, "worker")
        if at.total is not None:
            return f"about {duration(at.total / rate)} for {counted(at.total, 'architecture')} on {who}"
        if self._seconds:
            return f"about {rate * self._seconds:,.0f} architectures in {duration(self._seconds)} on {who}"
        return f"about {rate:.3g} architectures a second on {who}"


def show_result(found: Result, page: Path) -> None:
    """The ten best, what failed, what it cost, and where the report is."""
    console, run = SafeConsole(), found.run
    standings, failed = found.ranking.standings, found.ranking.failed
    if standings:
        console.print(_ranking(found))
        if ties := sum(standing.tied for standing in standings):
            console.print(f"= {run.settings.seeds} seeds cannot tell {ties} of the others from the best (95 %)")
        if found.confirmed:
            if any(standing.arch == found.best for standing in standings[:TOP]):
                console.print("* the winner of the short trainings")
            show_confirmed(found.confirmed)
        console.print(f"best: {escape(str(found.best))}", soft_wrap=True)
    else:
        console.print(f"[bold]nothing {'could be' if failed else 'was'} scored[/]")
    if run.settings.screen:
        told = run.screened(len({record.arch for record in found.records}), len(failed) + len(standings))
        console.print(escape(told), highlight=False)
    if failed:
        console.print(f"no score for {len(failed)} of {len(failed) + len(standings)}: {_reasons(failed)}")
    for row in run.limits:
        console.print(escape(kept(row)), highlight=False)
    if noted := [record for record in found.records if record.note]:
        come = f"{counted(len(noted), 'score')} {'comes' if len(noted) == 1 else 'come'} with a note"
        console.print(f"{come}, such as: {escape(noted[0].note)}")
    if run.ending:
        console.print(run.ending, highlight=False)
    console.print(f"scoring took {_cost(run)}", highlight=False, soft_wrap=True)
    console.print(f"report: {escape(str(page))}", soft_wrap=True)


def kept(row: dict[str, Any]) -> str:
    """`max_params 1M: the best has 732 k; turned down 12 that were drawn`."""
    has = "" if row["value"] is None else f"the best has {measured(row['limit'], row['value'])}; "
    return f"{row['limit']} {row['asked']}: {has}turned down {row['rejected']:,} that were drawn"


def _cost(run: Run) -> str:
    """Where the time went: `31 s; building 5 s, measuring 22 s, idle 4 s on 2 workers`."""
    names = {"build": "building", "transfer": "moving", "measure": "measuring", "idle": "idle"}
    sums = {"warming up": run.warm_up_seconds, LOOKING: run.noted_seconds}
    sums |= {told: sum(row[name] for row in run.workers) for name, told in names.items()}
    spent = ", ".join(f"{told} {duration(seconds)}" for told, seconds in sums.items() if seconds >= 0.01)
    deaths = sum(row["deaths"] for row in run.workers)
    who = f" by {len(run.workers)} workers" if len(run.workers) > 1 else ""
    died = f"; {counted(deaths, 'worker')} died and {'was' if deaths == 1 else 'were'} replaced" if deaths else ""
    return f"{duration(run.wall_seconds)}{f' ({spent}{who})' if spent else ''}{died}"


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"


def _reasons(failed: Sequence[tuple[Arch, Failure]]) -> str:
    """How many failed of each kind, with the first reason of each."""
    kinds = [failure.kind for _, failure in failed]
    first = {failure.kind: failure.detail for _, failure in reversed(failed)}
    return escape("; ".join(f"{kinds.count(kind)} {kind} ({first[kind]})" for kind in dict.fromkeys(kinds)))


def _ranking(found: Result) -> Table:
    direction = "higher" if found.run.higher_is_better else "lower"
    settings, total = found.run.settings, len(found.ranking.standings)
    proxy = escape(settings.score)
    title = f"The best {min(TOP, total)} of {total} by {proxy} ({direction} is better)"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    sizes = {(r.arch, r.proxy): r.value for r in found.records if r.proxy in _SIZES}
    table.add_column("#", justify="right")
    table.add_column(escape(settings.score.partition("(")[0].rpartition(":")[2]), justify="right")
    if settings.seeds > 1:
        table.add_column("± 95 %", justify="right")
    beside = [name for name in _SIZES if name != settings.score]
    for name in beside:
        table.add_column(_SIZES[name], justify="right")
    table.add_column("architecture", overflow="fold")
    won, best = found.best if found.confirmed else None, found.ranking.standings[:TOP]
    score = column([standing.score for standing in best], digits=5)
    for place, standing in enumerate(best, 1):
        marks = ("* " if standing.arch == won else "") + ("= " if standing.tied else "")
        spread = [f"{standing.margin:.3g}"] if standing.margin is not None else []
        table.add_row(
            f"{marks}{place}",
            score(standing.score),
            *spread,
            *(_size(sizes.get((standing.arch, name))) for name in beside),
            escape(shorten(str(standing.arch))),
        )
    return table


def _size(value: float | None) -> str:
    return "" if value is None else quantity(value)


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
        outcome = Text(failure, "red", justify="left") if failure else number(first["mean"])
        spread = "" if failure or first["std"] is None else f"{first['std']:.3g}"
        table.add_row(escape(arch), escape(proxy), outcome, *([spread, str(first["n"])] if several else []))
    if not several:
        table.columns = table.columns[:3]
    SafeConsole().print(table)


def show_trust(found: Trust, page: Path) -> None:
    """Proxies, best first: rank correlation with its interval, what failed, and, where there is room for it, more
    statistics; the page has them all."""
    console = SafeConsole()
    title = f"Rank correlation with {found.truth_about} ({len(found.archs):,} architectures)"
    note = "cost: in forward passes"
    table = Table(title=escape(title), title_justify="left", caption=note, caption_justify="left", box=SIMPLE_HEAD)
    more = {"Kendall": ("kendall", 3), "top 10 %": ("top_overlap", 2)} if console.width >= ROOMY else {}
    more |= {"regret": ("regret", 2)}
    for name in ("proxy", "Spearman", "95 %", *more, "n", "failed", "cost"):
        table.add_column(name, justify="left" if name == "proxy" else "right", no_wrap=True)
    for row in found.judged:
        main = row.statistics["spearman"]
        between = (
            f"{main.low:.2f} to {main.high:.2f}" if main and main.low is not None and main.high is not None else ""
        )
        told = [_told(row, *how) for how in more.values()]
        cost = "" if row.cost is None else f"{row.cost:g}"
        style = "bold" if row.kind == "baseline" else None
        failed = str(row.failed) if row.failed else ""
        table.add_row(
            escape(row.proxy), _told(row, "spearman", 3), between, *told, f"{row.n:,}", failed, cost, style=style
        )
    console.print(table)
    for note in (*found.notes, found.advice, found.following):
        if note:
            console.print(escape(note), highlight=False)
    console.print(f"report: {escape(str(page))}", soft_wrap=True)


def _told(row: Judged, name: str, digits: int) -> str:
    estimate = row.statistics.get(name)
    return "" if estimate is None else f"{estimate.value:.{digits}f}"

"""The result of a search: the best architectures, failures, limits and where the time went."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from untrained.cli.terminal.confirmation import show_confirmation
from untrained.cli.terminal.console import SafeConsole
from untrained.cli.terminal.contest import show_contest
from untrained.cli.terminal.wrapped_name import WrappedName
from untrained.formatting import (
    choose_column_format,
    format_count,
    format_duration,
    format_limited_value,
    format_number,
    format_quantity,
)
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import Standing, collect_columns
from untrained.runs.reference import describe_consensus, describe_scale, get_confirm_advice
from untrained.types import Arch, Failure
from untrained.workflows.search import SearchResult
from untrained.workflows.search_stages import SUPERNET_STAGE

ROWS_SHOWN = 10
MAX_ARCH_LENGTH = 120  # characters in the table; the winner is printed in full below it
SHORTEST_TIME = 0.01  # seconds; parts that take less are not listed
SIZE_COLUMNS = {"params": "params", "flops": "FLOPs"}  # baseline proxies and their headings
WORKER_TIMES = {
    "build": "building",
    "transfer": "moving to the device",
    "measure": "measuring",
    "idle": "idle",
}


def show_search_result(result: SearchResult, page: Path) -> None:
    """Print the contest or the ranking, the winner, failures, the cost and the report's path."""
    console = SafeConsole()
    _show_winner(console, result)
    _show_remarks(console, result)
    ending = result.run.describe_end(bool(result.ranking.standings))
    if ending:
        console.print(ending, highlight=False)
    console.print_plain(f"scoring took {format_cost(result.run)}", wrap=False)
    console.print_plain(f"report: {page}", wrap=False)


def _show_winner(console: SafeConsole, result: SearchResult) -> None:
    """Print how the winner was chosen, then the winner."""
    standings = result.ranking.standings
    if not standings:
        if result.ranking.failed:
            console.print("[bold]nothing could be scored[/]")
        else:
            console.print("[bold]nothing was scored[/]")
        return
    if result.contest:
        # The contest decides. The ranking, which only selected some of its entries, is secondary.
        show_contest(result.contest)
        console.print_plain(f"best: {result.best}", wrap=False)
        count = format_count(len(standings), "architecture")
        console.print_plain(
            f"the ranking of {count} by {result.run.config.score_name} is in the report"
        )
        return
    console.print(_make_ranking_table(result))
    # With several seeds, architectures that may be as good as the best are marked.
    ties = sum(standing.tied for standing in standings)
    if ties:
        seeds = format_count(result.run.config.seeds, "seed")
        archs = format_count(ties, "architecture")
        verb = "is" if ties == 1 else "are"
        console.print(
            f"= {archs} {verb} not significantly worse than the best (95 % intervals over {seeds})"
        )
    if result.confirmation:
        archs_in_table = [standing.arch for standing in standings[:ROWS_SHOWN]]
        if result.best in archs_in_table:
            console.print("* the best searched network of the contest")
        show_confirmation(result.confirmation)
    console.print_plain(f"best: {result.best}", wrap=False)
    if result.confirmation and result.confirmation.winning_design:
        console.print_plain(f"winner: {result.winner_name}, a hand-designed network", wrap=False)


def _show_remarks(console: SafeConsole, result: SearchResult) -> None:
    """Print remarks on screening, failures, the consensus, limits and notes of records."""
    run = result.run
    failures = result.ranking.failed
    total = len(failures) + len(result.ranking.standings)
    if run.config.screen:
        screened_archs = {record.arch for record in result.records}
        console.print_plain(run.describe_screening(len(screened_archs), total))
    if failures:
        reasons = escape(_format_failure_counts(failures))
        console.print(f"no score for {len(failures)} of {total}: {reasons}")
    has_trained = result.contest is not None or result.confirmation is not None
    advice = get_confirm_advice(has_trained)
    for facts in run.aggregates:
        console.print_plain(describe_scale(facts))
        console.print_plain(describe_consensus(facts, advice))
    for row in run.limit_results:
        console.print_plain(format_limit(row))
        if row.get("predicted"):
            command = f"untrained latency bundle --run {quote(str(run.folder))}"
            console.print_plain(
                f"measure the best on the device: {command} --out bundle", wrap=False
            )
    notes = [record.note for record in result.records if record.note]
    if notes:
        verb = "has" if len(notes) == 1 else "have"
        count = format_count(len(notes), "score")
        console.print(f"{count} {verb} a note, such as: {escape(notes[0])}")


def _make_ranking_table(result: SearchResult) -> Table:
    config = result.run.config
    standings = result.ranking.standings
    best = standings[:ROWS_SHOWN]
    direction = "higher" if result.run.higher_is_better else "lower"
    ranked_by = f"by {escape(config.score_name)} ({direction} is better)"
    table = Table(
        title=f"The best {len(best)} of {len(standings)} {ranked_by}",
        title_justify="left",
        box=SIMPLE_HEAD,
    )

    table.add_column("#", justify="right")
    table.add_column(escape(_shorten_proxy(config.score_name)), justify="right")
    if config.seeds > 1:
        table.add_column("± 95 %", justify="right")
    size_proxies = [proxy for proxy in SIZE_COLUMNS if proxy != config.score_name]
    for proxy in size_proxies:
        table.add_column(SIZE_COLUMNS[proxy], justify="right")
    other_columns = collect_columns(result.records, result.run.additional)
    for label in other_columns:
        table.add_column(escape(_shorten_proxy(label)), justify="right")
    table.add_column("architecture")

    # Sizes are shown next to the score, because they are the baselines of every proxy.
    sizes = _collect_sizes(result)
    winner = result.best if result.confirmation else None
    format_score = choose_column_format([standing.score for standing in best], digits=5)
    for place, standing in enumerate(best, 1):
        cells = [
            f"{_format_marks(standing, winner)}{place}",
            format_score(standing.score),
        ]
        # With one seed there is no margin, and no column for it.
        if standing.margin is not None:
            cells.append(f"{standing.margin:.3g}")
        for proxy in size_proxies:
            size = sizes.get((standing.arch, proxy))
            cells.append("" if size is None else format_quantity(size))
        for column in other_columns.values():
            cells.append(format_number(column.get(standing.arch)))
        table.add_row(*cells, WrappedName(_shorten_arch(standing.arch)))
    return table


def _shorten_proxy(proxy: str) -> str:
    """Return the bare name of a proxy: `spread` for `./mine.py:spread(times=2)`."""
    without_options = proxy.partition("(")[0]
    return without_options.rpartition(":")[2]


def _collect_sizes(result: SearchResult) -> dict[tuple[Arch, str], float | None]:
    """Return the parameters and FLOPs of each architecture."""
    sizes = {}
    for record in result.records:
        if record.proxy in SIZE_COLUMNS:
            sizes[record.arch, record.proxy] = record.value
    return sizes


def _format_marks(standing: Standing, winner: Arch | None) -> str:
    """Return "* " for the confirmed winner and "= " for a tie with the best score."""
    marks = ""
    if standing.arch == winner:
        marks += "* "
    if standing.tied:
        marks += "= "
    return marks


def _shorten_arch(arch: Arch) -> str:
    """Return an architecture as text of at most `MAX_ARCH_LENGTH` characters."""
    text = str(arch)
    if len(text) <= MAX_ARCH_LENGTH:
        return text
    return f"{text[: MAX_ARCH_LENGTH - 1]}\u2026"


def format_limit(row: dict[str, Any]) -> str:
    """Format `max_params 1M: the best has 732 k; 12 sampled architectures were rejected`."""
    verb = "was" if row["rejected"] == 1 else "were"
    rejected = f"{format_count(row['rejected'], 'sampled architecture')} {verb} rejected"
    if row["value"] is None:
        return f"{row['limit']} {row['text']}: {rejected}"
    value = format_limited_value(row["limit"], row["value"])
    if row.get("source"):
        value += f" ({row['source']})"
    return f"{row['limit']} {row['text']}: the best has {value}; {rejected}"


def format_cost(run: RunFolder) -> str:
    """Format the time of a search and its parts: `31 s (building 5 s, measuring 22 s, idle 4 s)`.

    The parts are sums over all workers, so with several workers they can exceed the total.
    """
    seconds = {"warming up": run.warm_up_seconds, SUPERNET_STAGE: run.strategy_seconds}
    for key, title in WORKER_TIMES.items():
        seconds[title] = sum(row[key] for row in run.workers)
    parts = []
    for title, stage_seconds in seconds.items():
        if stage_seconds >= SHORTEST_TIME:
            parts.append(f"{title} {format_duration(stage_seconds)}")

    cost = format_duration(run.wall_seconds)
    if parts:
        cost += f" ({', '.join(parts)}"
        if len(run.workers) > 1:
            cost += f" in total on {len(run.workers)} workers"
        cost += ")"
    deaths = sum(row["deaths"] for row in run.workers)
    if deaths:
        verb = "was" if deaths == 1 else "were"
        cost += f"; {format_count(deaths, 'worker')} died and {verb} replaced"
    return cost


def _format_failure_counts(failures: Sequence[tuple[Arch, Failure]]) -> str:
    """Format the number of failures per kind, with the first reason of each kind."""
    counts: dict[str, int] = {}
    first_details: dict[str, str] = {}
    for _, failure in failures:
        counts[failure.kind] = counts.get(failure.kind, 0) + 1
        first_details.setdefault(failure.kind, failure.detail)
    texts = [f"{count} {kind} ({first_details[kind]})" for kind, count in counts.items()]
    return "; ".join(texts)

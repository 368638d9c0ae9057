"""The result of a contest, as a table."""

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from untrained.cli.terminal.console import SafeConsole
from untrained.formatting import (
    format_count,
    format_duration,
    format_limited_value,
    format_quantity,
)
from untrained.reports.contest_result import NO_TIME, TOO_SLOW, Contest


def show_contest(contest: Contest) -> None:
    """Print the entries of a contest with its winner, and whether the proxy helped."""
    console = SafeConsole()
    console.print(_make_contest_table(contest))
    for reason in (TOO_SLOW, NO_TIME):
        left_out = []
        for entry in contest.entries:
            if entry.error == reason:
                left_out.append(f"{entry.number} ({entry.selection_text})")
        if left_out:
            console.print_plain(f"left out, {reason}: {', '.join(left_out)}")
    if contest.passed_over_text:
        console.print_plain(contest.passed_over_text)
    for entry in contest.entries:
        if entry.error and not entry.is_left_out:
            console.print_plain(f"network {entry.number} failed: {entry.error}")
    console.print_plain(f"* {contest.verdict}")
    if contest.constant_text:
        console.print_plain(contest.constant_text)
    for sentence in contest.sentences:
        console.print_plain(sentence)
    trainings = sum(len(entry.rounds) for entry in contest.entries)
    console.print_plain(
        f"the contest took {format_duration(contest.seconds)} for "
        f"{format_count(trainings, 'training')} in {format_count(contest.finished_rounds, 'round')}"
    )


def _make_contest_table(contest: Contest) -> Table:
    entries = [entry for entry in contest.entries if not entry.is_left_out]
    count = format_count(contest.network_count, "network")
    table = Table(
        title=f"The contest of {count} on {escape(contest.data)}",
        title_justify="left",
        box=SIMPLE_HEAD,
        # With a latency, the table must fit into 80 columns too.
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    has_latency = any(entry.latency is not None for entry in entries)
    table.add_column("#", justify="right")
    table.add_column("selected as", overflow="fold")
    table.add_column("params", justify="right")
    if has_latency:
        table.add_column("latency", justify="right")
    table.add_column("rate", justify="right")
    table.add_column("epochs", justify="right")
    table.add_column(f"val. {contest.result_title}", justify="right", no_wrap=True)
    for entry in entries:
        mark = "* " if entry.number == contest.winner_number else ""
        params = ""
        if entry.params is not None:
            params = format_quantity(entry.params)
        cells = [f"{mark}{entry.number}", escape(contest.describe_selection(entry)), params]
        if has_latency:
            latency = ""
            if entry.latency is not None:
                latency = format_limited_value("max_latency", entry.latency)
            cells.append(latency)
        cells += [f"{entry.rate:g}", entry.epochs_text, contest.format_result(entry)]
        table.add_row(*cells, style="bold" if mark else "")
    return table

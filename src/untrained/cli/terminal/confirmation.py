"""The result of the confirmation trainings."""

from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from untrained.cli.terminal.console import SafeConsole
from untrained.formatting import format_duration
from untrained.reports.confirmation_result import NO_TIME_LEFT, STOPPED_BY_TIME, Confirmation

WIDE_TERMINAL = 100  # columns; enough for long names
HEADING_WIDTH = 7
# On a narrower terminal, longer names are wrapped, so that all columns of numbers fit.
NAME_WIDTH = 15


def show_confirmation(confirmation: Confirmation) -> None:
    """Print the comparison with networks designed by hand, if there are some, and the verdict."""
    console = SafeConsole()
    if confirmation.entries:
        console.print(_make_design_table(confirmation, wide=console.width >= WIDE_TERMINAL))
    for entry in confirmation.entries:
        if entry.error:
            verb = "failed"
            if entry.error in (NO_TIME_LEFT, STOPPED_BY_TIME):
                verb = "was skipped"
            console.print_plain(f"{entry.title} {verb}: {entry.error}")
        elif entry.violation:
            console.print_plain(f"{entry.title} cannot win: {entry.violation}")
    for line in confirmation.sentences:
        console.print_plain(line)
    console.print_plain(f"{confirmation.winner_text}.")
    console.print_plain(f"the contest took {format_duration(confirmation.seconds)}")


def _make_design_table(confirmation: Confirmation, wide: bool) -> Table:
    """Make the table of all networks; a star marks the winner."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("Network", max_width=None if wide else NAME_WIDTH)
    for heading in confirmation.columns:
        # Long headings would make the columns too wide for a terminal.
        lines = wrap(heading, HEADING_WIDTH, break_long_words=False)
        table.add_column("\n".join(lines), justify="right")
    for entry in confirmation.entries:
        name = entry.short_title
        if entry == confirmation.winner_entry:
            name = f"* {name}"
        table.add_row(escape(name), *confirmation.format_cells(entry))
    return table

"""Experiments of papers: the result of one, and the list of all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from untrained.cli.terminal.console import SafeConsole
from untrained.reports.reproduction_result import COLUMN_TITLES, ReproductionResult

TEXT_COLUMNS = ("what", "note")


def show_reproduction(result: ReproductionResult, page: Path) -> None:
    """Print published numbers and ours, deviations from the paper, and the paths of the files."""
    console = SafeConsole()
    console.print(_make_table(result))
    if any(line.paper_in_interval is False for line in result.lines):
        console.print("Bold: the paper's number is outside our interval.")
    for deviation in result.deviations:
        console.print_plain(f"- {deviation}")
    csv_file = Path(result.folder, "reproduction.csv")
    console.print_plain(f"table: {csv_file}, also as reproduction.md", wrap=False)
    console.print_plain(f"report: {page}", wrap=False)


def _make_table(result: ReproductionResult) -> Table:
    unit = f" ({result.unit})" if result.unit else ""
    table = Table(title=escape(f"{result.title}{unit}"), title_justify="left", box=SIMPLE_HEAD)
    for title in COLUMN_TITLES:
        if title in TEXT_COLUMNS:
            table.add_column(title, overflow="fold")
        else:
            table.add_column(title, justify="right", overflow="fold")
    for line, cells in zip(result.lines, result.format_lines(), strict=True):
        style = "bold" if line.paper_in_interval is False else None
        table.add_row(*map(escape, cells), style=style)
    return table


def show_experiments(rows: Sequence[dict[str, Any]]) -> None:
    """Print which experiments can be reproduced, and the result of the last run of each."""
    table = Table(box=SIMPLE_HEAD)
    for title in ("experiment", "content", "last run", "result"):
        table.add_column(title, overflow="fold")
    for row in rows:
        # Experiments without a run are dimmed.
        style = None if row["made_on"] else "dim"
        table.add_row(
            escape(row["name"]),
            escape(row["title"]),
            row["made_on"],
            escape(row["state"]),
            style=style,
        )
    SafeConsole().print(table)

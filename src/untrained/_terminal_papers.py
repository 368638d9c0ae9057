"""What the terminal shows of papers: a reproduction, and the state of all of them. Shows, decides nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from untrained._terminal_console import SafeConsole
from untrained.reports.reproduction_facts import COLUMN_TITLES, ReproductionResult


def show_reproduction(found: ReproductionResult, page: Path) -> None:
    """The paper's numbers and ours, what was done differently, and where the page is."""
    console = SafeConsole()
    unit = f" ({found.unit})" if found.unit else ""
    table = Table(title=escape(f"{found.title}{unit}"), title_justify="left", box=SIMPLE_HEAD)
    for name in COLUMN_TITLES:
        table.add_column(name, justify="left" if name in ("what", "note") else "right", overflow="fold")
    for line, cells in zip(found.lines, found.format_lines(), strict=True):
        table.add_row(*map(escape, cells), style="bold" if line.paper_in_interval is False else None)
    console.print(table)
    if any(line.paper_in_interval is False for line in found.lines):
        console.print("Bold: the paper's number lies outside our interval.")
    for said in found.deviations:
        console.print(f"- {escape(said)}", highlight=False)
    console.print(f"table: {escape(str(Path(found.folder, 'reproduction.csv')))}, and .md", soft_wrap=True)
    console.print(f"report: {escape(str(page))}", soft_wrap=True)


def show_states(rows: Sequence[dict[str, Any]]) -> None:
    """What can be done again, and how the last run came out."""
    table = Table(box=SIMPLE_HEAD)
    for name in ("table or figure", "what it is", "last run", "outcome"):
        table.add_column(name, overflow="fold")
    for row in rows:
        style = None if row["made_on"] else "dim"
        table.add_row(escape(row["name"]), escape(row["title"]), row["made_on"], escape(row["state"]), style=style)
    SafeConsole().print(table)

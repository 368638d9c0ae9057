"""Lists for the terminal: what there is to choose from, and facts by name. Shows, decides nothing."""

from typing import Any

from rich.markup import escape
from rich.padding import Padding

from untrained._terminal_console import SafeConsole

Rows = list[dict[str, Any]]
_NO_FACTS = ("name", "about", "formula", "notes")  # the first two head an entry, the others fill pages


def show_overview(rooms: dict[str, Rows]) -> None:
    """The names in every room, and what to type to read more of them."""
    console = SafeConsole()
    for room, rows in rooms.items():
        console.print(f"[bold]{room}[/] ({len(rows)}); more: untrained list {room}", highlight=False)
        console.print(Padding(escape(", ".join(row["name"] for row in rows) or "none"), (0, 0, 0, 2)), highlight=False)


def show_catalogue(room: str, rows: Rows) -> None:
    """Each member on a line with what it is; its other facts below, so that nothing is squeezed into columns."""
    console = SafeConsole()
    console.print(f"[bold]{room}[/]")
    for row in rows:
        facts = ((name, _cell(value)) for name, value in row.items() if name not in _NO_FACTS)
        told = " · ".join(f"{name}: {value}" for name, value in facts if value)
        entry = f"[bold cyan]{escape(row['name'])}[/]  {escape(row['about'])}"
        console.print(Padding(entry, (0, 0, 0, 2)), highlight=False)
        if told:
            console.print(Padding(escape(told), (0, 0, 0, 6)), style="dim", highlight=False)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(str, value)) if value and isinstance(value[0], int) else ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value if value is not None else "")


def show_facts(facts: dict[str, Any]) -> None:
    """Names and values, one a line; counts of several things are joined."""
    console = SafeConsole()
    for name, value in facts.items():
        told = (
            ", ".join(f"{key} {count:,}" for key, count in value.items()) if isinstance(value, dict) else _cell(value)
        )
        console.print(f"[bold]{name}[/]  {escape(told or 'none')}", soft_wrap=True, highlight=False)

"""The output of `untrained list` and `untrained store info`."""

from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.padding import Padding

from untrained.cli.catalogue import Row
from untrained.cli.terminal.console import SafeConsole

# Name and description are the heading of an entry; formulas and notes are too long for a list.
NOT_LISTED_AS_FACTS = ("name", "about", "formula", "notes")


def show_overview(catalogue: Mapping[str, Sequence[Row]]) -> None:
    """Print the names of all entries by kind, and the command that shows the details of a kind."""
    console = SafeConsole()
    for kind, rows in catalogue.items():
        heading = f"[bold]{kind}[/] ({len(rows)}); more: untrained list {kind}"
        names = ", ".join(str(row["name"]) for row in rows)
        console.print(heading, highlight=False)
        console.print(_indent(escape(names or "none"), 2), highlight=False)


def show_catalogue(kind: str, rows: Sequence[Row], remark: str = "") -> None:
    """Print each entry with its description, its facts on the lines below, and a remark last."""
    console = SafeConsole()
    console.print(f"[bold]{kind}[/]")
    for row in rows:
        name = escape(str(row["name"]))
        about = escape(str(row["about"]))
        console.print(_indent(f"[bold cyan]{name}[/]  {about}", 2), highlight=False)
        # Facts are printed below the description, because columns would be too narrow.
        facts = []
        for key, value in row.items():
            text = format_value(value)
            if text and key not in NOT_LISTED_AS_FACTS:
                facts.append(f"{key}: {text}")
        if facts:
            console.print(_indent(escape(" · ".join(facts)), 6), style="dim", highlight=False)
    if remark:
        console.print_plain(remark)


def show_facts(facts: Mapping[str, object]) -> None:
    """Print names and values, one per line."""
    console = SafeConsole()
    for name, value in facts.items():
        text = escape(format_value(value) or "none")
        console.print(f"[bold]{name}[/]  {text}", soft_wrap=True, highlight=False)


def format_value(value: object) -> str:
    """Format a value for people: 1,000 or 0.5 or 3x32x32 or `dextr 10, params 10`."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {count:,}" for key, count in value.items())
    if isinstance(value, list):
        # Lists of numbers are shapes.
        is_shape = bool(value) and isinstance(value[0], int)
        separator = "x" if is_shape else ", "
        return separator.join(map(str, value))
    return str(value)


def _indent(text: str, columns: int) -> Padding:
    return Padding(text, (0, 0, 0, columns))

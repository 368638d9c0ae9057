"""What the terminal shows of a ranking of networks, and of a network that was taken out."""

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from untrained._numbers import measured, number
from untrained._terminal_console import SafeConsole
from untrained.exports import Exported
from untrained.studies.rank import Ranked


def show_ranked(found: Ranked) -> None:
    """A line a network, best first, and which to train; what a mere size would have chosen stands beside it."""
    console, decides, labels = SafeConsole(), found.proxies[0], [proxy.label for proxy in found.proxies]
    table = Table(title=f"By {escape(labels[0])}", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("#", justify="right")
    for label in labels:
        table.add_column(escape(label), justify="right")
    table.add_column("network", overflow="fold")
    for row in found.rows():
        told = [number(row[label]) for label in labels]
        why = f" [red]{escape(row['error'])}[/]" if row["error"] else ""
        table.add_row(str(row["place"] or ""), *told, escape(row["arch"]) + why)
    console.print(table)
    if first := found.first_by(decides):
        others = [
            (proxy.label, by) for proxy in found.proxies[1:] if (by := found.first_by(proxy)) not in (None, first)
        ]
        console.print(f"train first: {escape(first)}", soft_wrap=True, highlight=False)
        for label, by in others:
            console.print(f"{escape(label)} would choose {escape(str(by))}", soft_wrap=True, highlight=False)


def show_exported(made: Exported) -> None:
    """Where the folder is and what it holds."""
    console, config = SafeConsole(), made.config
    for name, why in made.missing.items():
        console.print(f"{name} was not written: {escape(why)}", soft_wrap=True, highlight=False)
    if not config["trained"]:
        console.print("the weights are untrained: `untrained train` makes trained ones", highlight=False)
    if config["latency"]:
        took = measured("max_latency", config["latency"]["seconds"])
        console.print(f"model.onnx: {took} for one sample on this machine", highlight=False)
    if made.kept:
        console.print(f"files that appeared there meanwhile: {escape(str(made.kept))}", soft_wrap=True)
    console.print(f"exported: {escape(str(made.folder))}", soft_wrap=True)

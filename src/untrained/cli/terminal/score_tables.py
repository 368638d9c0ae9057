"""Tables of `untrained score`: scores of networks, and a ranking of networks."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from untrained.cli.terminal.console import SafeConsole
from untrained.cli.terminal.wrapped_name import WrappedName
from untrained.formatting import format_number
from untrained.runs.ranking import ScoreRow
from untrained.workflows.rank import ModelRanking


def show_scores(rows: Sequence[ScoreRow]) -> None:
    """Print one line per network and proxy: the mean over the seeds, or the failure.

    With several seeds, the line also has the standard deviation and the number of seeds.

    Args:
        rows: One row per record, with the statistics over its seeds.
    """
    several_seeds = any(row["n"] > 1 for row in rows)
    table = Table(box=None)
    table.add_column("network")
    table.add_column("proxy")
    table.add_column("score", overflow="fold", justify="right")
    if several_seeds:
        table.add_column("± std", overflow="fold", justify="right")
        table.add_column("seeds", overflow="fold", justify="right")

    for (arch, proxy), group in _group_rows(rows).items():
        first = group[0]
        failure = next((row["error"] for row in group if row["error"]), None)
        deviation = ""
        # A failure of one seed is shown instead of the mean over the others.
        if failure is None:
            score = Text(format_number(first["mean"]))
            if first["std"] is not None:
                deviation = f"{first['std']:.3g}"
        else:
            score = Text(failure, "red", justify="left")
        cells: list[RenderableType] = [WrappedName(arch), WrappedName(proxy), score]
        if several_seeds:
            cells += [deviation, str(first["n"])]
        table.add_row(*cells)
    SafeConsole().print(table)


def _group_rows(rows: Sequence[ScoreRow]) -> dict[tuple[str, str], list[ScoreRow]]:
    """Group the rows by architecture and proxy. The rows of a group differ in their seed."""
    groups: dict[tuple[str, str], list[ScoreRow]] = {}
    for row in rows:
        groups.setdefault((row["arch"], row["proxy"]), []).append(row)
    return groups


def show_model_ranking(ranking: ModelRanking) -> None:
    """Print the networks, best first, and which one to train first.

    A line says which network each of the other proxies would choose, if that is another one. Among
    them are the sizes of the networks, as baselines. With several seeds or with a consensus,
    networks that are not significantly worse than the best are marked by "=".
    """
    console = SafeConsole()
    labels = [proxy.label for proxy in ranking.proxies]
    rows = ranking.rows()
    has_intervals = any(row["low"] is not None for row in rows)
    table = Table(title=f"By {escape(labels[0])}", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("#", justify="right")
    for label in labels:
        table.add_column(escape(label), justify="right")
        if label == labels[0] and has_intervals:
            table.add_column("95 %")
    table.add_column("network")
    for row in rows:
        scores = [format_number(row[label]) for label in labels]
        if has_intervals:
            scores.insert(1, _format_interval(row["low"], row["high"]))
        network: RenderableType = WrappedName(row["arch"])
        if row["error"]:
            network = Group(network, Text(row["error"], "red"))
        place = str(row["place"] or "")
        if row["tied"]:
            place = f"= {place}"
        table.add_row(place, *scores, network)
    console.print(table)

    first = ranking.find_best(ranking.proxies[0])
    if first is None:
        return
    for sentence in ranking.describe_certainty():
        console.print_plain(sentence)
    console.print_plain(f"train first: {first}", wrap=False)
    for proxy in ranking.proxies[1:]:
        other = ranking.find_best(proxy)
        if other not in (None, first):
            console.print_plain(f"{proxy.label} would choose {other}", wrap=False)


def _format_interval(low: float | None, high: float | None) -> str:
    if low is None:
        return ""
    return f"{low:.3g} to {high:.3g}"

"""The card of a data set: what it contains, and its problems."""

from collections.abc import Iterable, Sequence

from untrained.cli.terminal.console import SafeConsole
from untrained.data import Card, DataSource
from untrained.formatting import format_count

PROBLEMS_IN_SUMMARY = 3


def show_card(card: Card) -> None:
    """Print the complete card of a data set, with all problems."""
    console = SafeConsole()
    _print_lines(console, [*card.lines(), *card.details()])
    if card.problems:
        _print_lines(console, ["", f"{format_count(len(card.problems), 'problem')}:"])
        _print_problems(console, card.problems)


def show_card_summary(source: DataSource) -> None:
    """Print the card of the user's own data and its first problems on the error stream."""
    console = SafeConsole(stderr=True)
    if source.card is None:
        if source.propose_side is not None:
            _, height, width = source.task.input_shape
            _print_lines(console, [f"network input {width}x{height}; --input-size changes it"])
        return
    card = source.card()
    _print_lines(console, card.lines())
    _print_problems(console, card.problems[:PROBLEMS_IN_SUMMARY])
    more_count = len(card.problems) - PROBLEMS_IN_SUMMARY
    if more_count > 0:
        line = f"  and {more_count:,} more: `untrained data card DATA` shows them all"
        _print_lines(console, [line])


def _print_problems(console: SafeConsole, problems: Sequence[tuple[str, str]]) -> None:
    for where, reason in problems:
        console.print_plain(f"  {where}: {reason}", wrap=False)


def _print_lines(console: SafeConsole, lines: Iterable[str]) -> None:
    for line in lines:
        console.print_plain(line, wrap=False)

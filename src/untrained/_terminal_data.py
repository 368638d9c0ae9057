"""What the terminal shows of somebody's data: the card whole, or shortly before the work begins."""

from rich.markup import escape

from untrained._terminal_console import SafeConsole
from untrained.data import Card, Source

_FEW = 3


def show_card(card: Card) -> None:
    """What there is, then everything that a person ought to look at."""
    _print(SafeConsole(), [*card.lines(), *card.details()])
    if card.problems:
        _print(SafeConsole(), ["", f"{len(card.problems):,} to look at:", *map(_problem, card.problems)])


def show_shortly(source: Source) -> None:
    """The card of data that have one, on the error stream, with the first few problems."""
    if source.card is None:
        return
    card = source.card()
    problems, console = card.problems, SafeConsole(stderr=True)
    _print(console, [*card.lines(), *map(_problem, problems[:_FEW])])
    if len(problems) > _FEW:
        _print(console, [f"  and {len(problems) - _FEW:,} more: `untrained data card DATA` shows them all"])


def _problem(problem: tuple[str, str]) -> str:
    return f"  {problem[0]}: {problem[1]}"


def _print(console: SafeConsole, lines: list[str]) -> None:
    for line in lines:
        console.print(escape(line), soft_wrap=True, highlight=False)

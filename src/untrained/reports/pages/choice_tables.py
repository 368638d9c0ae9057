"""Numbers by option by choice as a small table, shaded within each row. Pure; knows choices, options and numbers, and
nothing of who chose. It finds them in plain JSON by their form:

    [[choice, [[option, number], ...]], ...]                 the largest of a row is marked
    [{name: choice, name: [[option, number], ...], ...}]     a word beside them that is one of the options is marked
"""

from collections.abc import Sequence
from html import escape
from math import ceil, log10
from typing import Any, NamedTuple

from untrained import _numbers
from untrained.reports.pages.html import code, html_cell, paragraph, table
from untrained.reports.svg.style import share

MOST = 20  # rows

_DEEP = 55  # per cent of ink in the darkest cell, on which numbers can still be read
NUMBER = (int, float, type(None))


class Row(NamedTuple):
    """A choice, the number of each option, None where there is none, which are marked, and what the numbers are."""

    choice: str
    numbers: dict[str, float | None]
    marked: frozenset[str]
    told: str = ""


def named(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Whether it is a list of pairs, a name and something of this kind."""
    pairs = isinstance(value, list) and all(isinstance(each, list) and len(each) == 2 for each in value)
    return pairs and all(isinstance(each[0], str) and isinstance(each[1], kind) for each in value)


def choices(value: Any) -> str:
    """A table of all choices that have options in common; empty where the value has another form."""
    rows = _rows(value)
    if not rows:
        return ""
    shown = rows[:MOST]
    largest = isinstance(value[0], list)
    said = ["Stronger colour is more, within a row.", f"Framed: {'the largest' if largest else 'what was decided'}."]
    said += [f"{len(rows) - MOST} more choices are left out."] if len(rows) > MOST else []
    return "".join(_table(some) for some in _alike(shown)) + paragraph(" ".join(said), "note")


def _rows(value: Any) -> list[Row]:
    if not isinstance(value, list):
        return []
    rows = [_named_row(each) if isinstance(each, list) else _step_row(each) for each in value]
    known = [row for row in rows if row]
    return known if len(known) == len(rows) else []


def _named_row(value: list[Any]) -> Row | None:
    if not named([value], list) or not _numbered(value[1]):
        return None
    numbers = dict(value[1])
    known = [number for number in numbers.values() if number is not None]
    top = max(known, default=None) if len(set(known)) > 1 else None
    return Row(value[0], numbers, frozenset(o for o, number in numbers.items() if top is not None and number == top))


def _step_row(value: Any) -> Row | None:
    if not isinstance(value, dict):
        return None
    told = next((name for name, each in value.items() if _numbered(each)), None)
    words = [each for each in value.values() if isinstance(each, str)]
    if told is None or not words:
        return None
    numbers = dict(value[told])
    return Row(words[0], numbers, frozenset(words[1:]) & numbers.keys(), told.replace("_", " "))


def _numbered(value: Any) -> bool:
    return bool(value) and named(value, NUMBER)


def _alike(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that have options in common stand together."""
    tables: list[list[Row]] = []
    for row in rows:
        same = next((some for some in tables if any(row.numbers.keys() & each.numbers.keys() for each in some)), None)
        if same is None:
            tables.append([row])
        else:
            same.append(row)
    return tables


def _table(rows: Sequence[Row]) -> str:
    options = list(dict.fromkeys(option for row in rows for option in row.numbers))
    head = [("", rows[0].told), *(("num", option) for option in options)]
    return table("choices", head, [f"<tr>{html_cell(code(row.choice), '')}{_cells(row, options)}</tr>" for row in rows])


def _cells(row: Row, options: Sequence[str]) -> str:
    known = [number for number in row.numbers.values() if number is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    digits = _digits(low, high)
    parts = []
    for option in options:
        number = row.numbers.get(option)
        told = "\u2013" if number is None else _numbers.significant(number, digits)
        ink = 0.0 if number is None else _DEEP * share(number, low, high)
        tag = "mark" if option in row.marked else "span"
        parts.append(html_cell(f'<{tag} class="shade" style="--share:{ink:.0f}%">{escape(told)}</{tag}>', "num"))
    return "".join(parts)


def _digits(low: float, high: float) -> int:
    """So many that numbers of a row can be told apart, where they are close to each other."""
    largest = max(abs(low), abs(high))
    return min(max(2 + ceil(log10(largest / (high - low))), 3), 8) if high > low else 3

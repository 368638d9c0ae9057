"""Tables of the numbers that a strategy assigns to each option of each choice.

A table is made from JSON of the strategy's trace, in one of two forms:

    [[choice, [[option, number], ...]], ...]
        The largest number of each row has a frame.
    [{"edge": choice, "scores": [[option, number], ...], "removed": option, ...}, ...]
        Each dictionary is a step. The option that the step decided on has a frame. The keys differ
        between strategies. If the choice is a node of a cell, the options are its edges,
        `node<-source`, and the step removed one of them.
"""

from collections.abc import Sequence
from html import escape
from math import ceil, log10
from typing import Any, NamedTuple

from untrained import formatting
from untrained.drawings.elements import scale_to_unit
from untrained.reports.pages.html import (
    DASH,
    make_code,
    make_html_cell,
    make_paragraph,
    make_row,
    make_table,
)

MAX_ROWS = 20
NUMBER_TYPES = (int, float, type(None))

_DARKEST = 55  # per cent of colour in the darkest cell; text on it can still be read


class ChoiceRow(NamedTuple):
    """A choice and its options."""

    choice: str
    numbers: dict[str, float | None]  # by option
    framed_options: frozenset[str]
    title: str = ""  # what the numbers mean

    @property
    def is_node(self) -> bool:
        """Whether the options are the edges of a node, one of which was removed."""
        return all(option.startswith(f"{self.choice}<-") for option in self.numbers)


def is_list_of_pairs(value: object, types: type | tuple[type, ...]) -> bool:
    """Return whether a value is a list of [name, item] pairs with items of these types."""
    if not isinstance(value, list):
        return False
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            return False
        if not isinstance(pair[0], str) or not isinstance(pair[1], types):
            return False
    return True


def make_choice_tables(value: object) -> str:
    """Return one table per group of choices that share options.

    Args:
        value: A value of the trace.

    Returns:
        HTML; empty if the value has neither of the two forms.
    """
    rows = _read_rows(value)
    if not rows:
        return ""
    node_count = sum(row.is_node for row in rows)
    if isinstance(value, list) and isinstance(value[0], list):
        frame_meaning = "The largest number has a frame"
    elif node_count == 0:
        frame_meaning = "The selected option has a frame"
    elif node_count == len(rows):
        frame_meaning = "The removed edge has a frame"
    else:
        frame_meaning = "The selected option has a frame, and for a node the removed edge"
    note = f"Within a row, darker cells have larger numbers. {frame_meaning}."
    if len(rows) > MAX_ROWS:
        note += f" {len(rows) - MAX_ROWS} more choices are not shown."
    # Choices with different options would leave most cells of a common table empty.
    tables = [_make_choice_table(group) for group in _group_rows(rows[:MAX_ROWS])]
    return "".join(tables) + make_paragraph(note, "note")


def _read_rows(value: object) -> list[ChoiceRow]:
    """Return all rows; an empty list if one of them has neither form."""
    if not isinstance(value, list):
        return []
    rows = []
    for item in value:
        row = _read_pair(item) if isinstance(item, list) else _read_step(item)
        if row is None:
            return []
        rows.append(row)
    return rows


def _read_pair(value: list[Any]) -> ChoiceRow | None:
    if not is_list_of_pairs([value], list) or not _has_numbers(value[1]):
        return None
    numbers = dict(value[1])
    values = [number for number in numbers.values() if number is not None]
    framed_options: frozenset[str] = frozenset()
    # If all numbers are equal, none of them is the largest.
    if len(set(values)) > 1:
        largest = max(values)
        framed_options = frozenset(name for name, number in numbers.items() if number == largest)
    return ChoiceRow(value[0], numbers, framed_options)


def _read_step(value: object) -> ChoiceRow | None:
    if not isinstance(value, dict):
        return None
    number_keys = []
    texts = []
    for key, item in value.items():
        if _has_numbers(item):
            number_keys.append(key)
        elif isinstance(item, str):
            texts.append(item)
    if not number_keys or not texts:
        return None
    first_key = number_keys[0]
    numbers = dict(value[first_key])
    # The first text names the choice. A later one may be the option that the step decided on.
    choice, *decisions = texts
    framed_options = frozenset(decisions) & numbers.keys()
    return ChoiceRow(choice, numbers, framed_options, first_key.replace("_", " "))


def _has_numbers(value: object) -> bool:
    return bool(value) and is_list_of_pairs(value, NUMBER_TYPES)


def _group_rows(rows: Sequence[ChoiceRow]) -> list[list[ChoiceRow]]:
    """Put rows that have options in common into one group."""
    groups: list[list[ChoiceRow]] = []
    for row in rows:
        for group in groups:
            if any(row.numbers.keys() & other.numbers.keys() for other in group):
                group.append(row)
                break
        else:
            groups.append([row])
    return groups


def _make_choice_table(rows: Sequence[ChoiceRow]) -> str:
    # A dictionary keeps the options in the order in which they first appear.
    options: dict[str, None] = {}
    for row in rows:
        options.update(dict.fromkeys(row.numbers))
    head = [("", rows[0].title), *(("num", option) for option in options)]
    lines = []
    for row in rows:
        name = make_html_cell(make_code(row.choice), "")
        lines.append(make_row([name, *_make_cells(row, list(options))]))
    return make_table("choices", head, lines)


def _make_cells(row: ChoiceRow, options: Sequence[str]) -> list[str]:
    values = [number for number in row.numbers.values() if number is not None]
    low = min(values, default=0.0)
    high = max(values, default=0.0)
    digits = _count_digits(low, high)
    cells = []
    for option in options:
        number = row.numbers.get(option)
        text = DASH
        shade = 0.0
        if number is not None:
            text = formatting.format_significant(number, digits)
            shade = _DARKEST * scale_to_unit(number, low, high)
        tag = "mark" if option in row.framed_options else "span"
        content = f'<{tag} class="shade" style="--share:{shade:.0f}%">{escape(text)}</{tag}>'
        cells.append(make_html_cell(content, "num"))
    return cells


def _count_digits(low: float, high: float) -> int:
    """Return how many significant digits are needed to distinguish numbers, from 3 to 8."""
    if high <= low:
        return 3
    largest = max(abs(low), abs(high))
    return min(max(2 + ceil(log10(largest / (high - low))), 3), 8)

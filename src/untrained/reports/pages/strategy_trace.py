"""What a strategy believed: a picture where it has the form of one, and step by step, folded away. Reads plain JSON;
knows nothing of any strategy: numbers and names are cells, pairs of a name and a number are read out, and steps within
a step are tables of their own."""

from collections.abc import Sequence
from html import escape
from typing import Any

from untrained import _numbers
from untrained.reports.pages.choice_tables import NUMBER, choices, named
from untrained.reports.pages.html import cell, code, html_cell, section, table
from untrained.reports.summary import Summary
from untrained.reports.svg.plot import thinned
from untrained.reports.svg.square import square

_ROWS = 100  # of one table, evenly spaced where there are more
_WITHIN = 10  # steps whose own steps are shown
_LONG = 12  # entries of a list that are read out

Step = dict[str, Any]


def beliefs(summary: Summary) -> str:
    """The trace of the strategy; left out where it has none."""
    if not summary.trace:
        return ""
    within = [
        _folded(f"Step {place}: {_words(name)}", inner)
        for place, step in enumerate(summary.trace[:_WITHIN], 1)
        for name, value in step.items()
        if (inner := _steps(value))
    ]
    pictures = [_square(summary), _choices(summary)]
    return section("What the strategy believed", *pictures, _folded("Step by step", summary.trace), *within)


def _square(summary: Summary) -> str:
    if summary.belief is None:
        return ""
    name = summary.proxy if summary.higher_is_better else f"minus {summary.proxy}"  # what strategies want is high
    return square(summary.belief, summary.trace, name)


def _choices(summary: Summary) -> str:
    """Those of the step that found the best, or of the last that has some."""
    best = summary.best if summary.ranking else None
    order = sorted(enumerate(summary.trace, 1), key=lambda step: (step[1].get("arch") != best, -step[0]))
    drawn = (
        f"<h3>{escape(f'Step {place}: {_words(name)}')}</h3>{picture}"
        for place, step in order
        for name, value in step.items()
        if (picture := choices(value))
    )
    return next(drawn, "")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _folded(title: str, steps: Sequence[Step]) -> str:
    shown = thinned(list(enumerate(steps, 1)), _ROWS)
    some = f", {len(shown)} of {len(steps):,}" if len(shown) < len(steps) else ""
    names = [name for name, value in steps[0].items() if not _steps(value)]
    head = [("num", "Step"), *(("", _words(name)) for name in names)]
    lines = []
    for place, step in shown:
        values = [html_cell(code(_told(step.get(name))), "arch") for name in names]
        lines.append(f"<tr>{cell(str(place), 'num soft')}{''.join(values)}</tr>")
    return f"<details><summary>{escape(title + some)}</summary>{table('', head, lines)}</details>"


def _steps(value: Any) -> list[Step]:
    """Steps within a step: a list of them, or lists by name."""
    if not isinstance(value, list) or not value:
        return []
    if all(isinstance(each, dict) for each in value):
        return value
    return [{"of": each[0], "believed": each[1]} for each in value] if named(value, list) else []


def _told(value: Any) -> str:
    """`0.12`, `a 0.1, b 0.2`, and of a long list the first."""
    if value is None:
        return "\u2013"
    if isinstance(value, float):
        return _numbers.significant(value, 4)
    if not isinstance(value, list):
        return str(value)
    if named(value, NUMBER):
        return ", ".join(f"{name} {_told(number)}" for name, number in value)
    more = [f"{len(value) - _LONG} more"] if len(value) > _LONG else []
    return ", ".join([f"({_told(each)})" if isinstance(each, list) else _told(each) for each in value[:_LONG]] + more)

"""The section about the strategy: charts of its model, if it has one, and tables of its steps.

The trace is plain JSON, so this section works for every strategy. Numbers and names become cells,
pairs of a name and a number become text, and steps within a step become separate tables.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from untrained import formatting
from untrained.reports.pages.choice_tables import (
    NUMBER_TYPES,
    is_list_of_pairs,
    make_choice_tables,
)
from untrained.reports.pages.html import (
    DASH,
    make_code,
    make_collapsible,
    make_html_cell,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.search_summary import SearchSummary
from untrained.reports.svg.plot import thin_out
from untrained.reports.svg.prediction_map import draw_prediction_map
from untrained.runs.trace import TraceStep

_MAX_ROWS = 100  # per table
_MAX_EXPANDED_STEPS = 10  # steps whose inner steps are shown
_MAX_LIST_ITEMS = 12  # of a list that is written as text


def make_trace_section(summary: SearchSummary) -> str:
    """Return the section about the steps of the strategy; empty if it recorded none."""
    if not summary.trace:
        return ""
    tables = [_make_step_table("All steps", summary.trace)]
    for number, step in enumerate(summary.trace[:_MAX_EXPANDED_STEPS], 1):
        for name, value in step.items():
            inner_steps = _read_inner_steps(value)
            if inner_steps:
                tables.append(_make_step_table(f"Step {number}: {_add_spaces(name)}", inner_steps))
    charts = [_draw_prediction(summary), _make_choice_section(summary)]
    return make_section("Strategy trace", *charts, *tables)


def _draw_prediction(summary: SearchSummary) -> str:
    if summary.prediction is None:
        return ""
    # Strategies maximise, so they model the negative score if lower is better.
    name = summary.proxy if summary.higher_is_better else f"minus {summary.proxy}"
    return draw_prediction_map(summary.prediction, summary.trace, name)


def _make_choice_section(summary: SearchSummary) -> str:
    """Return the choice tables of the step that proposed the best architecture.

    If it has none, these are the tables of the last step that has some.
    """
    best = summary.best if summary.ranking else None
    best_steps = []
    other_steps = []
    for number, step in enumerate(summary.trace, 1):
        if step.get("arch") == best:
            best_steps.append((number, step))
        else:
            other_steps.append((number, step))
    for number, step in [*reversed(best_steps), *reversed(other_steps)]:
        for name, value in step.items():
            tables = make_choice_tables(value)
            if tables:
                title = f"Step {number}: {_add_spaces(name)}"
                return f"<h3>{escape(title)}</h3>{tables}"
    return ""


def _add_spaces(name: str) -> str:
    return name.replace("_", " ")


def _make_step_table(title: str, steps: Sequence[TraceStep]) -> str:
    """Return a collapsed table with one row per step."""
    shown_steps = thin_out(list(enumerate(steps, 1)), _MAX_ROWS)
    if len(shown_steps) < len(steps):
        title += f", {len(shown_steps)} of {len(steps):,}"
    # Inner steps are shown in separate tables.
    names = [name for name, value in steps[0].items() if not _read_inner_steps(value)]
    head = [("num", "Step"), *(("", _add_spaces(name)) for name in names)]
    rows = []
    for number, step in shown_steps:
        cells = [make_text_cell(str(number), "num soft")]
        for name in names:
            cells.append(make_html_cell(make_code(_format_value(step.get(name))), "arch"))
        rows.append(make_row(cells))
    return make_collapsible(title, make_table("", head, rows))


def _read_inner_steps(value: Any) -> list[TraceStep]:
    """Return the steps within a step: a list of steps, or a list of named lists."""
    if not isinstance(value, list) or not value:
        return []
    if all(isinstance(item, dict) for item in value):
        return value
    if is_list_of_pairs(value, list):
        return [{"choice": name, "values": values} for name, values in value]
    return []


def _format_value(value: Any) -> str:
    """Return text such as `0.1200` or `a 0.1000, b 0.2000`; long lists are cut."""
    if value is None:
        return DASH
    if isinstance(value, float):
        return formatting.format_significant(value, 4)
    if not isinstance(value, list):
        return str(value)
    if is_list_of_pairs(value, NUMBER_TYPES):
        return ", ".join(f"{name} {_format_value(number)}" for name, number in value)
    texts = []
    for item in value[:_MAX_LIST_ITEMS]:
        text = _format_value(item)
        if isinstance(item, list):
            text = f"({text})"
        texts.append(text)
    if len(value) > _MAX_LIST_ITEMS:
        texts.append(f"{len(value) - _MAX_LIST_ITEMS} more")
    return ", ".join(texts)

"""Horizontal bars with intervals, one row each, from a zero line. Pure; knows nothing of what the values are."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor
from typing import NamedTuple

from untrained import _numbers
from untrained.reports.svg.axis import Axis, nice_ticks
from untrained.reports.svg.plot import Frame
from untrained.reports.svg.style import bar, fitted, frame, sans, words

_ROW, _BAR, _FOOT = 21.0, 11.0, 30.0
_STEP = 0.2  # the axis ends at a multiple of it
_TICK = 54.0  # pixels between its ticks


class Bar(NamedTuple):
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    kind: str = "proxy"  # CSS class k-proxy


def bars(rows: Sequence[Bar], room: float, mark: float | None = None) -> str:
    """A bar a row with its interval and its number, at most `room` wide, and a dashed line at `mark`."""
    width, height = min(room, 760.0), _ROW * len(rows)
    left = min(max((sans(row.name) for row in rows), default=0.0), 0.38 * width) + 10
    x = _axis(rows, int((width - left) / _TICK))
    area = Frame(x, Axis(0.0, 1.0, False, ()), (left, 0.0, width - 50, height))
    lines = [_row(area, row, _ROW * (i + 0.5), width) for i, row in enumerate(rows)]
    if mark is not None:
        lines.append(f'<path class="mark" d="M{area.across(mark):.1f},0V{height:.1f}"/>')
    spoken = f"{len(rows)} bars. " + "; ".join(map(_said, rows))
    return frame("chart", (0.0, 0.0, width, height + _FOOT), spoken, [_grid(area), *lines])


def _said(row: Bar) -> str:
    """The row in words: `dextr: 0.910 (0.893 to 0.925)`."""
    between = _numbers.between(row.low, row.high, _text)
    return f"{row.name}: {_text(row.value)} ({between})" if between else f"{row.name}: {_text(row.value)}"


def _text(value: float) -> str:
    return _numbers.fixed(value, 3)


def _axis(rows: Sequence[Bar], ticks: int) -> Axis:
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    low, high = floor(min([0.0, *ends]) / _STEP + 1e-9) * _STEP, ceil(max([_STEP, *ends]) / _STEP - 1e-9) * _STEP
    return Axis(low, high, False, nice_ticks(low, high, ticks))


def _grid(area: Frame) -> str:
    """A line at every tick; the one at zero is stronger."""
    bottom = area.box[3]
    lines = []
    for tick, label in zip(area.x.ticks, _numbers.ticks(area.x.ticks, units=False), strict=True):
        x, kind = area.across(tick), "grid" if tick else "base"
        lines.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom + 4:.1f}"/>')
        lines.append(words(label, x, bottom + 19, "mid tick"))
    return "".join(lines)


def _row(area: Frame, row: Bar, y: float, width: float) -> str:
    zero, end = area.across(0.0), area.across(row.value)
    parts = [
        words(fitted(row.name, area.box[0] - 10), area.box[0] - 8, y + 4, "end name"),
        bar((min(zero, end), y - _BAR / 2, abs(end - zero), _BAR), "bar", 0.0),
        words(_text(row.value), width, y + 4, "end title"),
    ]
    if row.low is not None and row.high is not None:
        low, high = area.across(row.low), area.across(row.high)
        parts.append(f'<path class="whisker" d="M{low:.1f},{y - 3:.1f}v6m0-3H{high:.1f}m0-3v6"/>')
    return f'<g class="k-{row.kind}"><title>{escape(_said(row))}</title>{"".join(parts)}</g>'

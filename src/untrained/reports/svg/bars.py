"""Horizontal bars with confidence intervals, one per row, from a zero line."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor
from typing import NamedTuple

from untrained import formatting
from untrained.drawings.elements import (
    Drawing,
    draw_rect,
    draw_text,
    estimate_width,
    shorten_text,
)
from untrained.reports.svg.axis import Axis, choose_ticks
from untrained.reports.svg.plot import PlotArea

MAX_WIDTH = 760.0  # of charts with one row per proxy

_ROW_HEIGHT = 21.0
_BAR_HEIGHT = 11.0
_FOOT_HEIGHT = 30.0  # tick labels
_VALUE_WIDTH = 50.0  # column of numbers on the right
_AXIS_STEP = 0.2  # the axis ends at a multiple of this
_TICK_DISTANCE = 54.0  # pixels


class Bar(NamedTuple):
    """One row: a value with its interval. `kind` decides the colour (CSS class k-KIND)."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    kind: str = "proxy"


def draw_bars(rows: Sequence[Bar], max_width: float, reference: float | None = None) -> str:
    """Draw one bar per row, with its interval and its value.

    Args:
        rows: From top to bottom.
        max_width: Width of the page in pixels.
        reference: Value at which a dashed vertical line is drawn.
    """
    width = min(max_width, MAX_WIDTH)
    height = _ROW_HEIGHT * len(rows)
    longest_name = max((estimate_width(row.name) for row in rows), default=0.0)
    # Long names are shortened rather than squeezing the bars.
    left = min(longest_name, 0.38 * width) + 10
    x_axis = _make_axis(rows, int((width - left) / _TICK_DISTANCE))
    # Rows are placed by their number, so the area needs no y axis.
    unused_axis = Axis(0.0, 1.0, False, ())
    area = PlotArea(x_axis, unused_axis, (left, 0.0, width - _VALUE_WIDTH, height))
    parts = [_draw_grid(area)]
    for i, row in enumerate(rows):
        parts.append(_draw_row(area, row, _ROW_HEIGHT * (i + 0.5), width))
    if reference is not None:
        parts.append(f'<path class="reference" d="M{area.x_pixel(reference):.1f},0V{height:.1f}"/>')
    description = f"{len(rows)} bars. " + "; ".join(_describe_row(row) for row in rows)
    return Drawing("chart", (0.0, 0.0, width, height + _FOOT_HEIGHT), description, parts).to_html()


def _describe_row(row: Bar) -> str:
    """Return text such as `dextr: 0.910 (0.893 to 0.925)`."""
    interval = formatting.format_interval(row.low, row.high, _format_value)
    if not interval:
        return f"{row.name}: {_format_value(row.value)}"
    return f"{row.name}: {_format_value(row.value)} ({interval})"


def _format_value(value: float) -> str:
    return formatting.format_fixed(value, 3)


def _make_axis(rows: Sequence[Bar], tick_count: int) -> Axis:
    """Return an axis that contains zero and all intervals."""
    # Bars start at zero, and a single small bar must not fill the whole width.
    values = [0.0, _AXIS_STEP]
    for row in rows:
        for end in (row.value, row.low, row.high):
            if end is not None:
                values.append(end)
    low = floor(min(values) / _AXIS_STEP + 1e-9) * _AXIS_STEP
    high = ceil(max(values) / _AXIS_STEP - 1e-9) * _AXIS_STEP
    return Axis(low, high, False, choose_ticks(low, high, tick_count))


def _draw_grid(area: PlotArea) -> str:
    """Draw a vertical line at every tick; the one at zero is stronger."""
    bottom = area.bounds[3]
    parts = []
    labels = formatting.format_ticks(area.x.ticks, units=False)
    for tick, label in zip(area.x.ticks, labels, strict=True):
        x = area.x_pixel(tick)
        css_class = "grid" if tick else "base"
        parts.append(
            f'<line class="{css_class}" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom + 4:.1f}"/>'
        )
        parts.append(draw_text(label, x, bottom + 19, "mid tick"))
    return "".join(parts)


def _draw_row(area: PlotArea, row: Bar, y: float, width: float) -> str:
    left = area.bounds[0]
    zero = area.x_pixel(0.0)
    end = area.x_pixel(row.value)
    # A negative value extends to the left of the zero line.
    bar_box = (min(zero, end), y - _BAR_HEIGHT / 2, abs(end - zero), _BAR_HEIGHT)
    parts = [
        draw_text(shorten_text(row.name, left - 10), left - 8, y + 4, "end name"),
        draw_rect(bar_box, "bar", 0.0),
        draw_text(_format_value(row.value), width, y + 4, "end title"),
    ]
    if row.low is not None and row.high is not None:
        low = area.x_pixel(row.low)
        high = area.x_pixel(row.high)
        # Two short vertical ends with a horizontal line between them.
        parts.append(f'<path class="whisker" d="M{low:.1f},{y - 3:.1f}v6m0-3H{high:.1f}m0-3v6"/>')
    title = f"<title>{escape(_describe_row(row))}</title>"
    return f'<g class="k-{row.kind}">{title}{"".join(parts)}</g>'

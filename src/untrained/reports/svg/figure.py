"""A figure with one or several curves, as points or lines, each in its own colour."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from math import ceil, inf, isfinite

from untrained.reports.reproduction_result import Curve, Plot
from untrained.reports.svg.axis import Axis, make_axis
from untrained.reports.svg.plot import (
    HEIGHT,
    WIDTH,
    PlotArea,
    draw_labelled_axes,
    format_axis_title,
    make_plot_area,
    wrap_chart,
)

MAX_CURVE_POINTS = 1000  # of one curve; more would make the file large
COLOURS = "abcdef"  # CSS classes k-a to k-f


def draw_figure(plot: Plot) -> str:
    """Draw a plot, with a legend below if it has several curves; empty without points.

    A point with a coordinate of NaN is missing: it leaves a gap in a line.
    """
    curves = [curve for curve in plot.curves if any(_split_at_gaps(curve))]
    if not curves:
        return ""
    # All curves share one pair of axes.
    all_x: list[float] = []
    all_y: list[float] = []
    for curve in curves:
        for stretch in _split_at_gaps(curve):
            for x, y in stretch:
                all_x.append(x)
                all_y.append(y)
    x_axis = _make_figure_axis(all_x, plot.x)
    y_axis = _make_figure_axis(all_y, plot.y)
    area = make_plot_area(x_axis, y_axis)
    x_title = format_axis_title(plot.x, x_axis)
    y_title = format_axis_title(plot.y, y_axis)
    parts = [draw_labelled_axes(area, x_title, y_title)]
    draw_curve = _draw_line if plot.joined else _draw_dots
    for i, curve in enumerate(curves):
        parts.append(draw_curve(area, curve, _get_colour(i)))
    title = f"<h3>{escape(plot.title)}</h3>" if plot.title else ""
    description = plot.title or f"{plot.y} against {plot.x}"
    chart = wrap_chart(description, (WIDTH, HEIGHT), parts)
    return f"<figure>{title}{chart}{_make_legend(curves)}</figure>"


def _make_figure_axis(values: Sequence[float], title: str) -> Axis:
    """Return an axis. Counts have ticks at whole numbers only, percentages up to 100."""
    axis = make_axis(values, decades=3.0)
    are_counts = all(float(value).is_integer() for value in values)
    highest = 100.0 if title.endswith("%") else inf
    ticks = []
    for tick in axis.ticks:
        if tick <= highest and (tick.is_integer() or not are_counts):
            ticks.append(tick)
    return replace(axis, ticks=tuple(ticks))


def _get_colour(index: int) -> str:
    """Return the CSS class of a curve."""
    # If there are more curves than colours, colours are reused.
    return f"k-{COLOURS[index % len(COLOURS)]}"


def _make_legend(curves: Sequence[Curve]) -> str:
    if len(curves) < 2:
        return ""
    entries = []
    for i, curve in enumerate(curves):
        dot = f'<span class="dot {_get_colour(i)}"></span>'
        entries.append(f'<span class="key">{dot} {escape(curve.name)}</span>')
    return f"<figcaption>{''.join(entries)}</figcaption>"


def _split_at_gaps(curve: Curve) -> list[list[tuple[float, float]]]:
    """Return the stretches of a curve between missing points; a stretch may be empty."""
    stretches: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(curve.x, curve.y, strict=True):
        if isfinite(x) and isfinite(y):
            stretches[-1].append((x, y))
        else:
            stretches.append([])
    return stretches


def _draw_line(area: PlotArea, curve: Curve, colour: str) -> str:
    title = f"<title>{escape(curve.name)}</title>"
    lines = []
    for stretch in _split_at_gaps(curve):
        if stretch:
            places = [f"{area.x_pixel(x):.1f},{area.y_pixel(y):.1f}" for x, y in stretch]
            lines.append(f'<polyline class="curve" points="{" ".join(places)}">{title}</polyline>')
    return f'<g class="{colour}">{"".join(lines)}</g>'


def _draw_dots(area: PlotArea, curve: Curve, colour: str) -> str:
    """Draw all dots as one path. A line of length zero with round ends is a dot."""
    step = ceil(len(curve.x) / MAX_CURVE_POINTS)
    moves = []
    for x, y in zip(curve.x[::step], curve.y[::step], strict=True):
        if isfinite(x) and isfinite(y):
            moves.append(f"M{area.x_pixel(x):.1f} {area.y_pixel(y):.1f}h0")
    return f'<g class="{colour}"><path class="points" d="{"".join(moves)}"/></g>'

"""Heat map of the prediction of a model of two variables, with the evaluated points as dots.

The input is JSON of a run folder. A prediction is a dictionary with these items:

    points          points of the unit square
    mean, std       mean and standard deviation at each point
    x_axis, y_axis  an axis: `name`, `low`, `high`, and `log` for a logarithmic axis

An evaluation is a step of the trace with a `point` and a `value`, which is None if it failed.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from untrained import formatting
from untrained.drawings.elements import draw_text, scale_to_unit
from untrained.reports.svg.axis import Axis, choose_log_ticks, choose_ticks
from untrained.reports.svg.plot import (
    PlotArea,
    draw_labelled_axes,
    measure_tick_labels,
    wrap_chart,
)
from untrained.runs.trace import TraceStep

_WIDTH = 440.0
_HEIGHT = 440.0
_SIDE = 340.0  # of the square of the map
_TOP = 24.0
_MIN_SHADE = 6  # per cent of colour in the lowest cell, so that it differs from the background
_OVERLAP = 0.4  # pixels by which cells overlap, so that no background shows between them
_LEGEND_SHADES = 11


def draw_prediction_map(
    prediction: dict[str, Any], trace: Sequence[TraceStep], value_name: str
) -> str:
    """Draw the predicted mean and the evaluated points.

    Args:
        prediction: The model at the end of the search, see above.
        trace: Steps of the strategy.
        value_name: Name of what is predicted.
    """
    x_axis = _read_axis(prediction["x_axis"])
    y_axis = _read_axis(prediction["y_axis"])
    left = measure_tick_labels(formatting.format_ticks(y_axis.ticks, units=False))
    area = PlotArea(x_axis, y_axis, (left, _TOP, left + _SIDE, _TOP + _SIDE))
    # Steps of other kinds have no point.
    evaluations = []
    for number, step in enumerate(trace, 1):
        if "point" in step:
            evaluations.append((number, step))
    low = min(prediction["mean"])
    high = max(prediction["mean"])
    x_title = prediction["x_axis"]["name"]
    y_title = prediction["y_axis"]["name"]
    parts = [
        draw_labelled_axes(area, x_title, y_title, x_units=False),
        _draw_cells(area, prediction, low, high),
        _draw_evaluations(area, evaluations),
        _draw_legend(left, _TOP + _SIDE + 58, low, high),
    ]
    description = f"Heat map of the predicted {value_name}, with {len(evaluations)} evaluations"
    caption = (
        f"Prediction of {value_name} at the end of the search, the mean of a Gaussian process. "
        f"Darker is higher. Dots are the {len(evaluations)} evaluations; the best is highlighted, "
        "failed ones are hollow."
    )
    chart = wrap_chart(description, (_WIDTH, _HEIGHT), parts)
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def _read_axis(facts: dict[str, Any]) -> Axis:
    """Return an axis from its JSON."""
    low = facts["low"]
    high = facts["high"]
    # An axis of a constant has no ticks.
    if low == high:
        return Axis(low, high, False, ())
    ticks = choose_log_ticks(low, high) if facts["log"] else choose_ticks(low, high)
    return Axis(low, high, facts["log"], ticks)


def _place_point(area: PlotArea, point: Sequence[float]) -> tuple[float, float]:
    """Return the pixel of a point of the unit square."""
    left, top, right, bottom = area.bounds
    return left + point[0] * (right - left), bottom - point[1] * (bottom - top)


def _draw_cells(area: PlotArea, prediction: dict[str, Any], low: float, high: float) -> str:
    """Draw a rectangle around each point, cut off at the sides of the square."""
    # The points form a square grid, so the columns tell the size of a cell.
    columns = len({x for x, _ in prediction["points"]})
    half = 0.5 / max(columns - 1, 1)
    parts = []
    rows = zip(prediction["points"], prediction["mean"], prediction["std"], strict=True)
    for point, mean, std in rows:
        x, y = _place_point(area, (max(point[0] - half, 0.0), min(point[1] + half, 1.0)))
        right, bottom = _place_point(area, (min(point[0] + half, 1.0), max(point[1] - half, 0.0)))
        width = right - x + _OVERLAP
        height = bottom - y + _OVERLAP
        mean_text = formatting.format_significant(mean, 4)
        title = f"{mean_text} \u00b1 {formatting.format_significant(std, 2)}"
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f"{_get_shade(scale_to_unit(mean, low, high))}><title>{title}</title></rect>"
        )
    return f'<g class="surface">{"".join(parts)}</g>'


def _draw_evaluations(area: PlotArea, evaluations: Sequence[tuple[int, TraceStep]]) -> str:
    """Draw a dot per evaluation; the best one is drawn last, on top of all others."""
    best_number = 0
    best_value = None
    for number, step in evaluations:
        value = step["value"]
        if value is not None and (best_value is None or value > best_value):
            best_number = number
            best_value = value
    dots = []
    for number, step in sorted(evaluations, key=lambda evaluation: evaluation[0] == best_number):
        dots.append(_draw_dot(area, number, step, is_best=number == best_number))
    return "".join(dots)


def _draw_dot(area: PlotArea, step_number: int, step: TraceStep, *, is_best: bool) -> str:
    x, y = _place_point(area, step["point"])
    css_class = "evaluation"
    radius = 4
    if is_best:
        css_class = "evaluation top"
        radius = 7
    elif step["value"] is None:
        css_class = "evaluation failed"
    # The tooltip lists all numbers that the strategy recorded about the step.
    facts = []
    for name, value in step.items():
        if value is None:
            facts.append(f"{name} failed")
        elif isinstance(value, float):
            facts.append(f"{name} {formatting.format_significant(value, 4)}")
    title = f"Step {step_number}: {', '.join(facts)}"
    if is_best:
        title += ", the best"
    return (
        f'<circle class="{css_class}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
        f"<title>{escape(title)}</title></circle>"
    )


def _get_shade(fraction: float) -> str:
    return f'style="--share:{_MIN_SHADE + (100 - _MIN_SHADE) * fraction:.0f}%"'


def _draw_legend(x: float, y: float, low: float, high: float) -> str:
    """Draw the shades from the lowest to the highest mean; one shade if all means are equal."""
    fractions = [0.5]
    if high > low:
        fractions = [i / (_LEGEND_SHADES - 1) for i in range(_LEGEND_SHADES)]
    low_text = formatting.format_significant(low, 4)
    start = x + 7.0 * len(low_text) + 6
    parts = [draw_text(low_text, x, y)]
    for i, fraction in enumerate(fractions):
        left = start + 12 * i
        parts.append(
            f'<rect x="{left:.1f}" y="{y - 10:.1f}" width="12" height="12" {_get_shade(fraction)}/>'
        )
    if high > low:
        parts.append(
            draw_text(formatting.format_significant(high, 4), start + 12 * len(fractions) + 6, y)
        )
    return f'<g class="surface legend">{"".join(parts)}</g>'

"""Scatter plot of value against cost on a logarithmic axis, with names beside the dots."""

from collections.abc import Iterable, Sequence
from html import escape
from math import inf
from typing import NamedTuple

from untrained import formatting
from untrained.drawings.elements import (
    Box,
    Drawing,
    draw_text,
    estimate_width,
    shorten_text,
)
from untrained.reports.svg.axis import Axis, make_axis
from untrained.reports.svg.bars import MAX_WIDTH
from untrained.reports.svg.plot import (
    PlotArea,
    draw_axes,
    draw_polyline,
    format_axis_title,
    measure_tick_labels,
)

_HEIGHT = 360.0
_RADIUS = 4.5
_NAME_HEIGHT = 14.0
_MAX_NAME_WIDTH = 190.0

Place = tuple[float, float]


class CostPoint(NamedTuple):
    """The cost and the value of an item. `kind` decides the colour (CSS class k-KIND)."""

    name: str
    cost: float
    value: float
    kind: str = "proxy"


def draw_tradeoff(points: Sequence[CostPoint], max_width: float, x_title: str, y_title: str) -> str:
    """Draw value against cost.

    A line connects the points of the Pareto front, and their names are always written. Other names
    are written where there is space. A logarithmic axis has no zero, so points of cost zero are
    placed to the left of all others.
    """
    width = min(max_width, MAX_WIDTH)
    x_axis, zero_place = _make_cost_axis([point.cost for point in points])
    y_axis = make_axis([point.value for point in points], decades=inf, count=8)
    y_labels = formatting.format_ticks(y_axis.ticks, units=False)
    left = measure_tick_labels(y_labels)
    area = PlotArea(x_axis, y_axis, (left, 26.0, width - 20, _HEIGHT - 46))
    # The tick of zero cost is labelled "0", although its position on the axis is not zero.
    positive_ticks = [tick for tick in x_axis.ticks if tick != zero_place]
    x_labels = formatting.format_ticks(positive_ticks, units=True)
    if len(positive_ticks) < len(x_axis.ticks):
        x_labels = ["0", *x_labels]
    places = []
    for point in points:
        places.append((area.x_pixel(point.cost or zero_place), area.y_pixel(point.value)))
    front = []
    others = []
    for i, point in enumerate(points):
        if is_on_front(point, points):
            front.append(i)
        else:
            others.append(i)
    axis_title = format_axis_title(x_title, x_axis)
    parts = [
        draw_axes(area, x_labels, y_labels, axis_title, y_title),
        draw_polyline("front", sorted(places[i] for i in front)),
    ]
    for point, place in zip(points, places, strict=True):
        parts.append(_draw_dot(point, place))
    # Names on the front are placed first, so that they get the best places.
    names_and_places = [(points[i].name, places[i]) for i in front + others]
    parts += _draw_names(names_and_places, len(front), places, (left, width))
    names = ", ".join(points[i].name for i in front)
    description = f"{y_title} against {x_title}: {len(points)} dots. Pareto front: {names}"
    return Drawing("chart", (0.0, 0.0, width, _HEIGHT), description, parts).to_html()


def _make_cost_axis(costs: Sequence[float]) -> tuple[Axis, float]:
    """Return a logarithmic axis, and the value on it that stands for a cost of zero."""
    positive = [cost for cost in costs if cost > 0] or [1.0]
    # Left of all other costs, by 15 % of their logarithmic range.
    zero_place = min(positive) / max(max(positive) / min(positive), 10.0) ** 0.15
    values = list(positive)
    ticks = []
    if 0 in costs:
        values.append(zero_place)
        ticks.append(zero_place)
    axis = make_axis(values, decades=0)
    for tick in axis.ticks:
        if tick > zero_place:
            ticks.append(tick)
    return Axis(axis.low, axis.high, axis.log, tuple(ticks)), zero_place


def is_on_front(point: CostPoint, points: Iterable[CostPoint]) -> bool:
    """Return whether a point is on the Pareto front.

    It is not if another point has at least the same value at no higher cost, and differs in one of
    them.
    """
    for other in points:
        is_as_good = other.value >= point.value and other.cost <= point.cost
        is_equal = other.value == point.value and other.cost == point.cost
        if is_as_good and not is_equal:
            return False
    return True


def _draw_dot(point: CostPoint, place: Place) -> str:
    x, y = place
    title = f"{point.name}: {formatting.format_fixed(point.value, 3)}, cost {point.cost:g}"
    return (
        f'<circle class="item k-{point.kind}" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}">'
        f"<title>{escape(title)}</title></circle>"
    )


def _draw_names(
    names_and_places: Sequence[tuple[str, Place]],
    required_count: int,
    dots: Sequence[Place],
    ends: tuple[float, float],
) -> list[str]:
    """Write names beside their dots.

    Args:
        names_and_places: Names and the places of their dots.
        required_count: How many of the first names are written even if they cover something. The
            others are only written where there is space.
        dots: Places of all dots.
        ends: Left and right end of the chart.
    """
    # Neither dots nor names that are already written may be covered.
    occupied: list[Box] = []
    for x, y in dots:
        occupied.append((x - _RADIUS, y - _RADIUS, 2 * _RADIUS, 2 * _RADIUS))
    texts = []
    for i, (name, place) in enumerate(names_and_places):
        text = shorten_text(name, _MAX_NAME_WIDTH)
        boxes = _list_boxes_beside(text, place)
        overlaps = [_measure_overlap(box, occupied, ends) for box in boxes]
        smallest = min(overlaps)
        box = boxes[overlaps.index(smallest)]
        if i < required_count:
            css_class = "name title"
        elif smallest == 0:
            css_class = "name"
        else:
            continue
        occupied.append(box)
        texts.append(draw_text(text, box[0], box[1] + 11, css_class))
    return texts


def _list_boxes_beside(text: str, place: Place) -> list[Box]:
    """Return the boxes of a text on the right of a dot, on its left, above and below."""
    x, y = place
    width = estimate_width(text)
    distance = _RADIUS + 3
    middle = y - _NAME_HEIGHT / 2
    corners = [
        (x + distance, middle),
        (x - distance - width, middle),
        (x - width / 2, y - distance - _NAME_HEIGHT),
        (x - width / 2, y + distance),
    ]
    # The order is the order of preference among places with the same overlap.
    return [(left, top, width, _NAME_HEIGHT) for left, top in corners]


def _measure_overlap(box: Box, occupied: Iterable[Box], ends: tuple[float, float]) -> float:
    """Return the area of a box that is occupied or outside the chart."""
    outside = max(0.0, ends[0] - box[0]) + max(0.0, box[0] + box[2] - ends[1])
    overlap = _NAME_HEIGHT * outside
    for other in occupied:
        overlap += _intersect_boxes(box, other)
    return overlap


def _intersect_boxes(a: Box, b: Box) -> float:
    """Return the area that two boxes share."""
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return max(width, 0.0) * max(height, 0.0)

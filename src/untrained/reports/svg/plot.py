"""Common parts of charts: the plot area, its axes, points and lines, and the `<svg>` itself.

Colours and fonts are CSS classes, which `reports/style.css` defines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeVar

from untrained import formatting
from untrained.reports.svg.axis import Axis

MAX_POINTS = 400  # points of one kind in one chart; more would make the file large

WIDTH = 440.0  # of an ordinary chart, in pixels
HEIGHT = 300.0

T = TypeVar("T")


@dataclass(frozen=True)
class PlotArea:
    """The rectangle between the axes: `bounds` are left, top, right and bottom in pixels."""

    x: Axis
    y: Axis
    bounds: tuple[float, float, float, float]

    def x_pixel(self, value: float) -> float:
        """Return the horizontal position of a value in pixels."""
        left, _, right, _ = self.bounds
        return left + self.x.position(value) * (right - left)

    def y_pixel(self, value: float) -> float:
        """Return the vertical position of a value in pixels."""
        _, top, _, bottom = self.bounds
        # Pixels are counted from the top, values from the bottom.
        return bottom - self.y.position(value) * (bottom - top)


def make_plot_area(x: Axis, y: Axis) -> PlotArea:
    """Return the plot area of an ordinary chart.

    Labels of the y axis are on the left, its title is above; labels and title of x are below.
    """
    left = measure_tick_labels(formatting.format_ticks(y.ticks, units=False))
    return PlotArea(x, y, (left, 30.0, WIDTH - 14.0, HEIGHT - 46.0))


def measure_tick_labels(labels: Sequence[str], margin: float = 14.0) -> float:
    """Return the width of the column of labels of a y axis, in pixels."""
    longest = max((len(label) for label in labels), default=1)
    return margin + 7.0 * longest


def draw_axes(
    area: PlotArea,
    x_labels: Sequence[str],
    y_labels: Sequence[str],
    x_title: str,
    y_title: str,
) -> str:
    """Draw horizontal grid lines, tick labels and titles of both axes."""
    left, _, right, bottom = area.bounds
    parts = [f'<text class="title" x="0" y="12">{escape(y_title)}</text>']
    for value, label in zip(area.y.ticks, y_labels, strict=True):
        y = area.y_pixel(value)
        parts.append(
            f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(f'<text class="end" x="{left - 8:.1f}" y="{y + 4:.1f}">{escape(label)}</text>')
    parts.append(
        f'<line class="base" x1="{left:.1f}" x2="{right:.1f}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>'
    )
    for value, label in zip(area.x.ticks, x_labels, strict=True):
        x = area.x_pixel(value)
        end = bottom + 4
        parts.append(
            f'<line class="base" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{end:.1f}"/>'
        )
        parts.append(
            f'<text class="mid tick" x="{x:.1f}" y="{bottom + 18:.1f}">{escape(label)}</text>'
        )
    parts.append(
        f'<text class="title end" x="{right:.1f}" y="{bottom + 40:.1f}">{escape(x_title)}</text>'
    )
    return "".join(parts)


def draw_labelled_axes(area: PlotArea, x_title: str, y_title: str, x_units: bool = True) -> str:
    """Draw both axes with labels made from their ticks.

    Args:
        area: The plot area.
        x_title: Title of the x axis.
        y_title: Title of the y axis.
        x_units: Whether labels of the x axis may be abbreviated: 2M instead of 2000000.
    """
    x_labels = formatting.format_ticks(area.x.ticks, units=x_units)
    y_labels = formatting.format_ticks(area.y.ticks, units=False)
    return draw_axes(area, x_labels, y_labels, x_title, y_title)


def draw_points(css_class: str, places: Sequence[tuple[float, float]]) -> str:
    """Draw many points as one path.

    A line of length zero with round ends is a dot. It takes a third of the characters of a
    `<circle>`.
    """
    if not places:
        return ""
    moves = "".join(f"M{x:.1f},{y:.1f}h0" for x, y in places)
    return f'<path class="points {css_class}" d="{moves}"/>'


def draw_polyline(css_class: str, places: Sequence[tuple[float, float]]) -> str:
    """Draw straight lines from each place to the next one."""
    steps = []
    for i, (x, y) in enumerate(places):
        letter = "M" if i == 0 else "L"
        steps.append(f"{letter}{x:.1f},{y:.1f}")
    return f'<path class="{css_class}" d="{"".join(steps)}"/>'


def thin_out(items: Sequence[T], limit: int = MAX_POINTS) -> list[T]:
    """Return all items, or `limit` evenly spaced ones if there are more."""
    if len(items) <= limit:
        return list(items)
    return [items[i * len(items) // limit] for i in range(limit)]


def format_axis_title(name: str, axis: Axis, note: str = "") -> str:
    """Return a title such as `score (higher is better, log scale)`."""
    notes = []
    if note:
        notes.append(note)
    if axis.log:
        notes.append("log scale")
    if not notes:
        return name
    return f"{name} ({', '.join(notes)})"


def describe_direction(higher_is_better: bool) -> str:
    if higher_is_better:
        return "higher is better"
    return "lower is better"


def wrap_chart(description: str, size: tuple[float, float], parts: Sequence[str]) -> str:
    """Return an `<svg>` that fills the width of its column.

    Args:
        description: Text for screen readers.
        size: Width and height in pixels of the coordinate system.
        parts: Elements of the chart.
    """
    width, height = size
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )

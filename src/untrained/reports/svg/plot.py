"""What charts share: the rectangle between two axes, the axes themselves, and the `<svg>` around them.

Colours and fonts are CSS classes, defined in style.css. Knows nothing of what a chart shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeVar

from untrained.reports.svg.axis import Axis

MOST = 400  # dots of one kind in one chart; more would only make the file heavy
T = TypeVar("T")


@dataclass(frozen=True)
class Frame:
    """The rectangle between the axes (left, top, right, bottom), and where a value lies in it."""

    x: Axis
    y: Axis
    box: tuple[float, float, float, float]

    def across(self, value: float) -> float:
        left, _, right, _ = self.box
        return left + self.x.at(value) * (right - left)

    def up(self, value: float) -> float:
        _, top, _, bottom = self.box
        return bottom - self.y.at(value) * (bottom - top)


def axes(frame: Frame, x_labels: Sequence[str], y_labels: Sequence[str], x_title: str, y_title: str) -> str:
    """Level grid lines, labels on both axes, the titles above the one and below the other."""
    left, _, right, bottom = frame.box
    parts = [f'<text class="title" x="0" y="12">{escape(y_title)}</text>']
    for value, label in zip(frame.y.ticks, y_labels, strict=True):
        y = frame.up(value)
        parts.append(f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="end" x="{left - 8:.1f}" y="{y + 4:.1f}">{escape(label)}</text>')
    parts.append(f'<line class="base" x1="{left:.1f}" x2="{right:.1f}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>')
    for value, label in zip(frame.x.ticks, x_labels, strict=True):
        x = frame.across(value)
        parts.append(f'<line class="base" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{bottom + 4:.1f}"/>')
        parts.append(f'<text class="mid tick" x="{x:.1f}" y="{bottom + 18:.1f}">{escape(label)}</text>')
    parts.append(f'<text class="title end" x="{right:.1f}" y="{bottom + 40:.1f}">{escape(x_title)}</text>')
    return "".join(parts)


def points(kind: str, places: Sequence[tuple[float, float]]) -> str:
    """Many dots in one path, a round end of nothing each: a third of the letters that circles take."""
    return f'<path class="points {kind}" d="{"".join(f"M{x:.1f},{y:.1f}h0" for x, y in places)}"/>' if places else ""


def thinned(items: Sequence[T], most: int = MOST) -> list[T]:
    """All, or so many of them, evenly spaced."""
    return list(items) if len(items) <= most else [items[i * len(items) // most] for i in range(most)]


def axis_title(name: str, scale: Axis, note: str = "") -> str:
    notes = ", ".join(part for part in (note, "log scale" if scale.log else "") if part)
    return f"{name} ({notes})" if notes else name


def direction(higher_is_better: bool) -> str:
    return "higher is better" if higher_is_better else "lower is better"


def svg(spoken: str, size: tuple[float, float], parts: Sequence[str]) -> str:
    """A chart as wide as its column; `spoken` is for those who cannot see it."""
    head = f'<svg class="chart" viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" role="img" aria-label="{escape(spoken)}">'
    return f"{head}{''.join(parts)}</svg>"

"""A picture of a paper as inline SVG: dots, or curves, each with its ink. Pure; knows nothing of papers."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from math import ceil, inf

from untrained import _numbers
from untrained.reports.reproduction_facts import Curve, Plot
from untrained.reports.svg.axis import Axis, axis
from untrained.reports.svg.plot import Frame, axes, axis_title, svg

MOST = 1000  # points of one curve that are drawn
INKS = "abcdef"  # classes k-a to k-f in style.css

_WIDTH, _HEIGHT = 440.0, 300.0


def figure(plot: Plot) -> str:
    """The picture with a key below where there is more than one curve; empty where there are no points."""
    curves = [curve for curve in plot.curves if curve.x]
    if not curves:
        return ""
    x, y = (_scale([v for c in curves for v in getattr(c, side)], getattr(plot, side)) for side in "xy")
    labels = _numbers.ticks(y.ticks, units=False)
    left = 14.0 + 7.0 * max((len(label) for label in labels), default=1)
    frame = Frame(x, y, (left, 30.0, _WIDTH - 14.0, _HEIGHT - 46.0))
    draw = _path if plot.joined else _dots
    parts = [axes(frame, _numbers.ticks(x.ticks, units=True), labels, axis_title(plot.x, x), axis_title(plot.y, y))]
    parts += [draw(frame, curve, ink) for curve, ink in zip(curves, _inks(curves), strict=True)]
    title = f"<h3>{escape(plot.title)}</h3>"
    return f"<figure>{title}{svg(plot.title, (_WIDTH, _HEIGHT), parts)}{_key(curves)}</figure>"


def _scale(values: Sequence[float], title: str) -> Axis:
    """Counts are marked at whole numbers, shares up to 100 %."""
    found, counts = axis(values, decades=3.0), all(float(value).is_integer() for value in values)
    most = 100.0 if title.endswith("%") else inf
    return replace(found, ticks=tuple(t for t in found.ticks if t <= most and (t.is_integer() or not counts)))


def _inks(curves: Sequence[Curve]) -> list[str]:
    return [f"k-{INKS[i % len(INKS)]}" for i in range(len(curves))]


def _key(curves: Sequence[Curve]) -> str:
    if len(curves) < 2:
        return ""
    names = zip(_inks(curves), curves, strict=True)
    said = "".join(f'<span class="key"><span class="dot {ink}"></span> {escape(c.name)}</span>' for ink, c in names)
    return f"<figcaption>{said}</figcaption>"


def _path(frame: Frame, curve: Curve, ink: str) -> str:
    places = " ".join(f"{frame.across(a):.1f},{frame.up(b):.1f}" for a, b in zip(curve.x, curve.y, strict=True))
    return (
        f'<g class="{ink}"><polyline class="curve" points="{places}"><title>{escape(curve.name)}</title></polyline></g>'
    )


def _dots(frame: Frame, curve: Curve, ink: str) -> str:
    """Round ends of lines without length: one element for all dots."""
    step = ceil(len(curve.x) / MOST)
    points = list(zip(curve.x, curve.y, strict=True))[::step]
    moves = "".join(f"M{frame.across(a):.1f} {frame.up(b):.1f}h0" for a, b in points)
    return f'<g class="{ink}"><path class="points" d="{moves}"/></g>'

"""What is believed of the points of a square, as a heat map in one ink, and the points that were asked about as dots.
Reads plain JSON; knows nothing of what the sides stand for: the belief names them.

A belief has `points` of the unit square with a `mean` and a `std` each, and two sides, `along` and `up`: a `name`, from
`low` to `high`, evenly or in decades (`log`). A query is a step of the trace with a `point` and a `value`, or None.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from untrained import _numbers
from untrained.reports.svg.axis import Axis, log_ticks, nice_ticks
from untrained.reports.svg.plot import Frame, axes, svg
from untrained.reports.svg.style import share, words

Step = dict[str, Any]

_WIDTH, _HEIGHT, _SIDE = 440.0, 440.0, 340.0
_PALE = 6  # per cent of ink in the lowest cell, so that it can be told from the paper
_OVER = 0.4  # pixels that a cell reaches into the next, so that no paper shows between them
_SHADES = 11


def square(belief: Step, trace: Sequence[Step], value: str) -> str:
    """The picture; `value` is the name of what is believed."""
    x, y = (_axis(belief[side]) for side in ("along", "up"))
    labels = _numbers.ticks(y.ticks, units=False)
    left = 14.0 + 7.0 * max((len(label) for label in labels), default=1)
    frame = Frame(x, y, (left, 24.0, left + _SIDE, 24.0 + _SIDE))
    queries = [(place, step) for place, step in enumerate(trace, 1) if "point" in step]
    low, high = min(belief["mean"]), max(belief["mean"])
    parts = [
        axes(frame, _numbers.ticks(x.ticks, units=False), labels, belief["along"]["name"], belief["up"]["name"]),
        _cells(frame, belief, low, high),
        _dots(frame, queries),
        _legend(left, 24.0 + _SIDE + 58, low, high),
    ]
    spoken = f"Heat map of the {value} that is believed, with {len(queries)} queries"
    said = (
        f"What is believed in the end of {value}: the mean of a Gaussian process, stronger colour is more. "
        f"Dots: {len(queries)} queries, the best in colour, hollow where one failed."
    )
    drawn = svg(spoken, (_WIDTH, _HEIGHT), parts)
    return f"<figure>{drawn}<figcaption>{escape(said)}</figcaption></figure>"


def _axis(side: Step) -> Axis:
    low, high, log = side["low"], side["high"], side["log"]
    if low == high:
        return Axis(low, high, False, ())
    return Axis(low, high, log, log_ticks(low, high) if log else nice_ticks(low, high))


def _place(frame: Frame, point: Sequence[float]) -> tuple[float, float]:
    """Where a point of the unit square lies in the picture."""
    left, top, right, bottom = frame.box
    return left + point[0] * (right - left), bottom - point[1] * (bottom - top)


def _cells(frame: Frame, belief: Step, low: float, high: float) -> str:
    """A rectangle around each point, cut off at the sides of the square; none lets the lines of the axes through."""
    half = 0.5 / max(len({along for along, _ in belief["points"]}) - 1, 1)
    parts = []
    for point, mean, std in zip(belief["points"], belief["mean"], belief["std"], strict=True):
        x, y = _place(frame, (max(point[0] - half, 0.0), min(point[1] + half, 1.0)))
        right, bottom = _place(frame, (min(point[0] + half, 1.0), max(point[1] - half, 0.0)))
        box = f'x="{x:.1f}" y="{y:.1f}" width="{right - x + _OVER:.1f}" height="{bottom - y + _OVER:.1f}"'
        said = f"{_numbers.significant(mean, 4)} \u00b1 {_numbers.significant(std, 2)}"
        parts.append(f"<rect {box} {_ink(share(mean, low, high))}><title>{said}</title></rect>")
    return f'<g class="surface">{"".join(parts)}</g>'


def _dots(frame: Frame, queries: Sequence[tuple[int, Step]]) -> str:
    """Each query with its numbers; the best is drawn last, so that nothing hides it."""
    known = [(place, step) for place, step in queries if step["value"] is not None]
    best = max(known, key=lambda query: query[1]["value"])[0] if known else 0
    return "".join(_dot(frame, *query, best=query[0] == best) for query in sorted(queries, key=lambda q: q[0] == best))


def _dot(frame: Frame, place: int, step: Step, *, best: bool) -> str:
    x, y = _place(frame, step["point"])
    kind, size = ("query top", 7) if best else ("query" if step["value"] is not None else "query failed", 4)
    numbers = [f"{name} {_told(number)}" for name, number in step.items() if isinstance(number, float | None)]
    title = escape(f"Step {place}: {', '.join(numbers)}{', the best' if best else ''}")
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"><title>{title}</title></circle>'


def _told(number: float | None) -> str:
    return "failed" if number is None else _numbers.significant(number, 4)


def _ink(part: float) -> str:
    return f'style="--share:{_PALE + (100 - _PALE) * part:.0f}%"'


def _legend(x: float, y: float, low: float, high: float) -> str:
    """From the lowest to the highest mean; one shade where all are alike."""
    shades = [i / (_SHADES - 1) for i in range(_SHADES)] if high > low else [0.5]
    text = _numbers.significant(low, 4)
    start = x + 7.0 * len(text) + 6
    rect = '<rect x="{:.1f}" y="{:.1f}" width="12" height="12" {}/>'
    rects = "".join(rect.format(start + 12 * i, y - 10, _ink(shade)) for i, shade in enumerate(shades))
    upper = words(_numbers.significant(high, 4), start + 12 * len(shades) + 6, y) if high > low else ""
    return f'<g class="surface legend">{words(text, x, y)}{rects}{upper}</g>'

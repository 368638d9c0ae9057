"""Small charts as inline SVG: the histogram of scores, and the score against a size.

Pure functions from ranked rows to text. Colours and fonts are CSS classes, defined in style.css; every mark says in a
`<title>` what it is. Knows nothing of the page around a chart, and computes no statistic that it does not draw.
"""

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10, sqrt

from untrained import _numbers
from untrained.reports._axis import Axis, axis, nice_step, nice_ticks
from untrained.reports.summary import Ranked

TOP = 10  # rows highlighted as the best
MOST_POINTS = 2000  # drawn in a scatter; more would only make the file heavy

_WIDTH, _HEIGHT = 440.0, 300.0
_TOP, _RIGHT, _BOTTOM = 30.0, 14.0, 46.0
_WIDE_SCORES = 3.0  # decades of scores above which their axis is logarithmic


class _Frame:
    """The rectangle between the axes, and where a value lies in it."""

    def __init__(self, x: Axis, y: Axis, y_labels: Sequence[str]) -> None:
        self.x, self.y = x, y
        self.left = 14.0 + 7.0 * max((len(label) for label in y_labels), default=1)
        self.right, self.top, self.bottom = _WIDTH - _RIGHT, _TOP, _HEIGHT - _BOTTOM

    def across(self, value: float) -> float:
        return self.left + self.x.at(value) * (self.right - self.left)

    def up(self, value: float) -> float:
        return self.bottom - self.y.at(value) * (self.bottom - self.top)


def histogram(ranking: Sequence[Ranked], *, higher_is_better: bool = True) -> str:
    """How often each score occurs; the share of the best ten stands out at the foot of the bars. Empty if none."""
    if not ranking:
        return ""
    edges, log = _bins([row.score for row in ranking])
    counts = _counts([row.score for row in ranking], edges)
    best = _counts([row.score for row in ranking[:TOP]], edges)
    ticks = axis([edges[0], edges[-1]], decades=_WIDE_SCORES).ticks if log else nice_ticks(edges[0], edges[-1], 6)
    x = Axis(edges[0], edges[-1], log, tuple(tick for tick in ticks if edges[0] <= tick <= edges[-1]))
    y = Axis(0.0, max(counts) * 1.05, False, _whole_ticks(max(counts)))
    y_labels = _numbers.ticks(y.ticks, units=False)
    frame = _Frame(x, y, y_labels)
    bars = [_bar(frame, edges[i : i + 2], counts[i], best[i]) for i in range(len(counts)) if counts[i]]
    title = _axis_title("score", x, _direction(higher_is_better))
    parts = [_axes(frame, _numbers.ticks(x.ticks, units=False), y_labels, title, "architectures"), *bars]
    return _svg(f"Histogram of {len(ranking)} scores", parts)


def scatter(
    ranking: Sequence[Ranked], size: Callable[[Ranked], float | None], name: str, *, higher_is_better: bool = True
) -> str:
    """Score against size, a dot for each architecture that has one; the best ten stand out, the best has a ring."""
    rows = [(row, value) for row in thinned(ranking) if (value := size(row)) is not None]
    if not rows:
        return ""
    x = axis([value for _, value in rows], decades=1.0)
    y = axis([row.score for row, _ in rows], decades=_WIDE_SCORES)
    y_labels = _numbers.ticks(y.ticks, units=False)
    frame = _Frame(x, y, y_labels)
    title = _axis_title("score", y, _direction(higher_is_better))
    dots = [_dot(frame, row, value, name) for row, value in reversed(rows)]
    ring = [
        f'<circle class="ring" cx="{frame.across(v):.1f}" cy="{frame.up(row.score):.1f}" r="8"/>'
        for row, v in rows
        if row.rank == ranking[0].rank
    ]
    axes = _axes(frame, _numbers.ticks(x.ticks, units=True), y_labels, _axis_title(name, x), title)
    return _svg(
        f"Score against {name} of {len(rows)} architectures", [axes, f'<g class="dots">{"".join(dots)}</g>', *ring]
    )


def thinned(ranking: Sequence[Ranked]) -> list[Ranked]:
    """The rows a scatter draws: all, or of very many the best ten and every n-th."""
    step = ceil(len(ranking) / MOST_POINTS)
    return [row for i, row in enumerate(ranking) if i < TOP or i % step == 0]


def _bins(scores: Sequence[float]) -> tuple[list[float], bool]:
    """Round edges of equal width, and whether they are on a log scale; up to two bins per square root of the count."""
    log = axis(scores, decades=_WIDE_SCORES).log
    low, high = (log10(min(scores)), log10(max(scores))) if log else (min(scores), max(scores))
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = low - (abs(low) / 10 or 1.0), high + (abs(high) / 10 or 1.0)
    step = nice_step((high - low) / min(max(2 * sqrt(len(scores)), 6), 30))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    edges = [i * step for i in range(first, max(last, first + 1) + 1)]
    return ([10.0**edge for edge in edges] if log else edges), log


def _counts(scores: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * (len(edges) - 1)
    for score in scores:
        inside = sum(edge <= score for edge in edges) - 1
        counts[min(max(inside, 0), len(counts) - 1)] += 1
    return counts


def _whole_ticks(most: int) -> tuple[float, ...]:
    """Marks of an axis that counts: whole numbers only."""
    step = max(nice_step(most / 4), 1.0)
    return tuple(i * step for i in range(int(most / step) + 1))


def _bar(frame: _Frame, edges: Sequence[float], count: int, best: int) -> str:
    left, right = frame.across(edges[0]) + 0.75, frame.across(edges[1]) - 0.75
    said = f"{_numbers.significant(edges[0])} to {_numbers.significant(edges[1])}: {count}" + (
        f", {best} of them among the best {TOP}" if best else ""
    )
    rect = '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
    bars = [("bar", best, count), ("bar top", 0, best)]
    rects = [
        rect.format(kind, left, frame.up(high), right - left, frame.up(low) - frame.up(high))
        for kind, low, high in bars
        if high > low
    ]
    return f"<g><title>{said}</title>{''.join(rects)}</g>"


def _dot(frame: _Frame, row: Ranked, value: float, name: str) -> str:
    kind, radius = (' class="top"', 4.5) if row.rank <= TOP else ("", 3.5)
    said = f"{row.rank}. {row.arch}\nscore {_numbers.significant(row.score, 4)}, {_numbers.quantity(value)} {name}"
    return (
        f'<circle{kind} cx="{frame.across(value):.1f}" cy="{frame.up(row.score):.1f}" r="{radius}">'
        f"<title>{escape(said)}</title></circle>"
    )


def _axes(frame: _Frame, x_labels: Sequence[str], y_labels: Sequence[str], x_title: str, y_title: str) -> str:
    """Level grid lines, labels on both axes, the titles above the one and below the other."""
    f = frame
    parts = [f'<text class="title" x="0" y="12">{escape(y_title)}</text>']
    for value, label in zip(f.y.ticks, y_labels, strict=True):
        y = f.up(value)
        parts.append(f'<line class="grid" x1="{f.left:.1f}" x2="{f.right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="end" x="{f.left - 8:.1f}" y="{y + 4:.1f}">{escape(label)}</text>')
    parts.append(f'<line class="base" x1="{f.left:.1f}" x2="{f.right:.1f}" y1="{f.bottom:.1f}" y2="{f.bottom:.1f}"/>')
    for value, label in zip(f.x.ticks, x_labels, strict=True):
        x = f.across(value)
        parts.append(f'<line class="base" x1="{x:.1f}" x2="{x:.1f}" y1="{f.bottom:.1f}" y2="{f.bottom + 4:.1f}"/>')
        parts.append(f'<text class="mid tick" x="{x:.1f}" y="{f.bottom + 18:.1f}">{escape(label)}</text>')
    parts.append(f'<text class="title end" x="{f.right:.1f}" y="{_HEIGHT - 6:.1f}">{escape(x_title)}</text>')
    return "".join(parts)


def _axis_title(name: str, scale: Axis, note: str = "") -> str:
    notes = ", ".join(part for part in (note, "log scale" if scale.log else "") if part)
    return f"{name} ({notes})" if notes else name


def _direction(higher_is_better: bool) -> str:
    return "higher is better" if higher_is_better else "lower is better"


def _svg(spoken: str, parts: Sequence[str]) -> str:
    head = f'<svg class="chart" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{escape(spoken)}">'
    return f"{head}{''.join(parts)}</svg>"

"""Small charts as inline SVG: the histogram of scores, and the score against a size.

Pure functions from ranked rows to text. Colours and fonts are CSS classes, defined in style.css; every mark says in a
`<title>` what it is. Knows nothing of the page around a chart, and computes no statistic that it does not draw.
"""

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10, sqrt

from untrained import _numbers
from untrained.reports.summary import Ranked
from untrained.reports.svg.axis import Axis, axis, nice_step, nice_ticks
from untrained.reports.svg.plot import Frame, axes, axis_title, direction, svg

TOP = 10  # rows highlighted as the best
MOST_POINTS = 2000  # drawn in a scatter; more would only make the file heavy

_WIDTH, _HEIGHT = 440.0, 300.0
_WIDE_SCORES = 3.0  # decades of scores above which their axis is logarithmic


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
    frame = _frame(x, y, y_labels)
    bars = [_bar(frame, edges[i : i + 2], counts[i], best[i]) for i in range(len(counts)) if counts[i]]
    title = axis_title("score", x, direction(higher_is_better))
    parts = [axes(frame, _numbers.ticks(x.ticks, units=False), y_labels, title, "architectures"), *bars]
    return svg(f"Histogram of {len(ranking)} scores", (_WIDTH, _HEIGHT), parts)


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
    frame = _frame(x, y, y_labels)
    title = axis_title("score", y, direction(higher_is_better))
    dots = [_dot(frame, row, value, name) for row, value in reversed(rows)]
    ring = [
        f'<circle class="ring" cx="{frame.across(v):.1f}" cy="{frame.up(row.score):.1f}" r="8"/>'
        for row, v in rows
        if row.rank == ranking[0].rank
    ]
    parts = [axes(frame, _numbers.ticks(x.ticks, units=True), y_labels, axis_title(name, x), title)]
    parts += [f'<g class="dots">{"".join(dots)}</g>', *ring]
    return svg(f"Score against {name} of {len(rows)} architectures", (_WIDTH, _HEIGHT), parts)


def thinned(ranking: Sequence[Ranked]) -> list[Ranked]:
    """The rows a scatter draws: all, or of very many the best ten and every n-th."""
    step = ceil(len(ranking) / MOST_POINTS)
    return [row for i, row in enumerate(ranking) if i < TOP or i % step == 0]


def _frame(x: Axis, y: Axis, y_labels: Sequence[str]) -> Frame:
    """Room on the left for the labels, above for a title, below for labels and a title."""
    left = 14.0 + 7.0 * max((len(label) for label in y_labels), default=1)
    return Frame(x, y, (left, 30.0, _WIDTH - 14.0, _HEIGHT - 46.0))


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


def _bar(frame: Frame, edges: Sequence[float], count: int, best: int) -> str:
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


def _dot(frame: Frame, row: Ranked, value: float, name: str) -> str:
    kind, radius = (' class="top"', 4.5) if row.rank <= TOP else ("", 3.5)
    said = f"{row.rank}. {row.arch}\nscore {_numbers.significant(row.score, 4)}, {_numbers.quantity(value)} {name}"
    return (
        f'<circle{kind} cx="{frame.across(value):.1f}" cy="{frame.up(row.score):.1f}" r="{radius}">'
        f"<title>{escape(said)}</title></circle>"
    )

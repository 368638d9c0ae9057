"""The sections that show how a search went: the best so far, the front of several objectives, and the limits.

Reads a `Summary`; computes only running bests. Charts are inline SVG, coloured by classes of style.css.
"""

from collections.abc import Sequence
from html import escape
from itertools import accumulate

from untrained import _numbers
from untrained.reports.pages.html import cell, code, html_cell, paragraph, section, table
from untrained.reports.summary import Summary, Tradeoff
from untrained.reports.svg.axis import Axis, axis, nice_ticks
from untrained.reports.svg.plot import Frame, axes, axis_title, direction, points, svg, thinned

_SIZE = _WIDTH, _HEIGHT = 440.0, 300.0
_WIDE = 3.0  # decades of scores above which their axis is logarithmic


def course(summary: Summary) -> str:
    """How the best grew with the number of architectures judged; left out where there is nothing to follow."""
    if len(summary.course) < 2:
        return ""
    best = list(accumulate(summary.course, max if summary.higher_is_better else min))
    y = axis(best, decades=_WIDE)
    last = len(best)
    whole = tuple(tick for tick in nice_ticks(0.0, float(last)) if tick == int(tick))
    frame = _frame(Axis(0.0, float(last), False, whole), y)
    steps = [(1.0, best[0])]
    for place, value in enumerate(best[1:], 2):
        if value != steps[-1][1]:
            steps += [(float(place), steps[-1][1]), (float(place), value)]
    path = _path(frame, [*steps, (float(last), best[-1])])
    title = axis_title("best so far", y, direction(summary.higher_is_better))
    parts = [_axes(frame, "architectures judged", title), f'<path class="course" d="{path}"/>']
    when = best.index(best[-1]) + 1
    said = f"The best was the {_ordinal(when)} of {last:,} that have a score, in the order in which they were judged."
    return section("Best so far", f"<figure>{svg(said, _SIZE, parts)}<figcaption>{said}</figcaption></figure>")


def front(summary: Summary) -> str:
    """Score against another objective: all that was judged, and joined those that no other beats in everything."""
    found = summary.tradeoff
    if found is None or len(found.points) < 2:
        return ""
    best = sorted((x, y) for x, y, _, unbeaten in found.points if unbeaten)
    x = axis([point[0] for point in found.points])
    y = axis([point[1] for point in found.points], decades=_WIDE)
    frame = _frame(x, y)
    others = thinned([(frame.across(a), frame.up(b)) for a, b, _, unbeaten in found.points if not unbeaten])
    title = axis_title(summary.proxy, y, direction(summary.higher_is_better))
    name = axis_title(found.name, x, direction(found.higher_is_better))
    parts = [_axes(frame, name, title), points("all", others)]
    parts += [f'<path class="front" d="{_path(frame, best)}"/>' if found.objectives == 2 else ""]
    parts += ['<g class="dots">', *(_dot(frame, *point[:3]) for point in found.points if point[3]), "</g>"]
    said = f"{len(best)} of {len(found.points):,} are beaten by none in all {found.objectives} objectives."
    chart = svg(f"{summary.proxy} against {found.name}. {said}", _SIZE, parts)
    figure = f"<figure>{chart}<figcaption>{escape(said)}</figcaption></figure>"
    return section("The front", f'<div class="pair">{figure}{_front_table(summary, found)}</div>')


def _front_table(summary: Summary, found: Tradeoff) -> str:
    text = _numbers.column([y for _, y, _, _ in found.points])
    best = sorted((point for point in found.points if point[3]), key=lambda point: point[0])
    lines = [
        f"<tr>{cell(_numbers.quantity(x), 'num')}{cell(text(y), 'num score')}{html_cell(code(arch), 'arch')}</tr>"
        for x, y, arch, _ in best
    ]
    return table("", [("num", found.name), ("num", summary.proxy), ("", "Architecture")], lines)


def limits(summary: Summary) -> str:
    """What was asked for, what the best has, and how many that were drawn were turned down."""
    if not summary.limits:
        return ""
    lines = []
    for row in summary.limits:
        has = "\u2013" if row.value is None else _numbers.measured(row.name, row.value)
        values = (row.asked, has, f"{row.rejected:,}")
        lines.append(f"<tr>{html_cell(code(row.name), '')}{''.join(cell(value, 'num') for value in values)}</tr>")
    note = "Nothing beyond a limit was judged; an architecture drawn twice is counted twice."
    if any(row.name == "max_latency" for row in summary.limits):
        note += " The latency of the best is measured, not predicted; on a CPU, on one thread."
    head = [("", "Limit"), ("num", "Asked for"), ("num", "The best has"), ("num", "Turned down")]
    return section("Limits", table("", head, lines), paragraph(note, "note"))


def _frame(x: Axis, y: Axis) -> Frame:
    left = 14.0 + 7.0 * max((len(label) for label in _numbers.ticks(y.ticks, units=False)), default=1)
    return Frame(x, y, (left, 30.0, _WIDTH - 14.0, _HEIGHT - 46.0))


def _axes(frame: Frame, x_title: str, y_title: str) -> str:
    labels = _numbers.ticks(frame.x.ticks, units=True), _numbers.ticks(frame.y.ticks, units=False)
    return axes(frame, *labels, x_title, y_title)


def _path(frame: Frame, places: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'LM'[i == 0]}{frame.across(x):.1f},{frame.up(y):.1f}" for i, (x, y) in enumerate(places))


def _dot(frame: Frame, x: float, y: float, arch: str) -> str:
    said = escape(f"{arch}\n{_numbers.significant(y, 4)}, {_numbers.quantity(x)}")
    return (
        f'<circle class="top" cx="{frame.across(x):.1f}" cy="{frame.up(y):.1f}" r="4.5"><title>{said}</title></circle>'
    )


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"

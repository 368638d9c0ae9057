"""Score against truth as a cloud of dots, with a histogram along either axis. Pure; knows nothing of proxies.

An axis is linear, unless the middle 80 % of the values would fill less than a fifth of it: then it is logarithmic where
that helps, and goes by rank where it does not; there a histogram would be flat, and is left out. The better score is
always on the right.
"""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from math import inf, log10
from typing import NamedTuple

import numpy as np

from untrained import _numbers
from untrained.benchmarks.statistics import among_best, ranks, tenth
from untrained.reports.svg.axis import Axis, axis, nice_ticks
from untrained.reports.svg.plot import Frame, axes, points, svg, thinned
from untrained.reports.svg.style import fitted, words

BINS = 20

_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_WIDTH, _HEIGHT, _MARGIN = 300.0, 270.0, 24.0  # of the picture, and the room of a histogram


class Dot(NamedTuple):
    score: float
    truth: float
    arch: str


class Scale(NamedTuple):
    """An axis, where each value lies on it, and what kind it is: linear, log or rank (1 is the best)."""

    axis: Axis
    values: list[float]
    kind: str


def cloud(dots: Sequence[Dot], title: str, figure: str, *, higher_is_better: bool = True) -> str:
    """All dots, or 400 of many; the best tenth by truth stands out, the one with the best score has a ring."""
    x = scale([dot.score for dot in dots], higher_is_better=higher_is_better)
    y = scale([dot.truth for dot in dots], count=5)
    if y.kind == "rank":
        y = y._replace(axis=replace(y.axis, ticks=tuple(1 + q * (len(dots) - 1) for q in _QUARTERS)))
    labels = _quartiles(dots, y.axis) if y.kind == "rank" else _numbers.ticks(y.axis.ticks, units=False)
    left = 12.0 + 7.0 * max((len(label) for label in labels), default=1)
    area = Frame(x.axis, y.axis, (left, 24 + _MARGIN, _WIDTH - _MARGIN - 4, _HEIGHT - 48))
    top = among_best([dot.truth for dot in dots], tenth(len(dots))) > 0.5
    places = [(area.across(a), area.up(b)) for a, b in zip(x.values, y.values, strict=True)]
    name = fitted(title, _WIDTH - 60)
    shown = thinned(range(len(dots)))
    parts = [
        axes(area, _numbers.ticks(x.axis.ticks, units=False), labels, _named(x, y, higher_is_better), name),
        words(figure, _WIDTH, 12, "title end"),
        _histogram(area, x, y),
        points("dim", [places[i] for i in shown if not top[i]]),
        points("top", [places[i] for i in shown if top[i]]),
        _choice(dots, places, higher_is_better),
    ]
    return svg(f"{title}: score against truth of {len(dots)} architectures", (_WIDTH, _HEIGHT), parts)


def scale(values: Sequence[float], *, higher_is_better: bool = True, count: int = 4) -> Scale:
    """The plainest axis on which the values can be told apart; the better end is the far one."""
    if _even(values):
        found = Scale(axis(values, decades=inf, count=count), list(values), "linear")
    elif min(values) > 0 and _even([log10(value) for value in values]):
        found = Scale(axis(values, decades=0, count=count), list(values), "log")
    else:
        places = ranks([-value if higher_is_better else value for value in values])
        pad = 0.04 * len(values)
        ticks = tuple(dict.fromkeys([1.0, *nice_ticks(1, len(values), count)]))
        return Scale(Axis(len(values) + pad, 1 - pad, False, ticks), places.tolist(), "rank")
    return found if higher_is_better else found._replace(axis=_turned(found.axis))


def _quartiles(dots: Sequence[Dot], by_rank: Axis) -> list[str]:
    """The truth at each tick of an axis that goes by rank."""
    best_first = sorted((dot.truth for dot in dots), reverse=True)
    return [_numbers.significant(best_first[round(tick) - 1]) for tick in by_rank.ticks]


def _turned(a: Axis) -> Axis:
    return Axis(a.high, a.low, a.log, a.ticks)


def _even(values: Sequence[float]) -> bool:
    low, high = np.quantile(values, (0.1, 0.9))
    return bool(high - low >= 0.2 * (max(values) - min(values)))


def _named(x: Scale, y: Scale, higher_is_better: bool) -> str:
    """What lies across, and of which kind either axis is where it is not plain."""
    up = {"linear": "", "log": ", truth on a log scale", "rank": ", truth by rank"}[y.kind]
    if x.kind == "rank":
        return f"rank by score{up}"
    notes = ["log scale"] * (x.kind == "log") + ["lower is better"] * (not higher_is_better)
    return f"score ({', '.join(notes)}){up}" if notes else f"score{up}"


def _histogram(area: Frame, x: Scale, y: Scale) -> str:
    """How the scores lie, above; how the truth lies, on the right. Each bar says its count."""
    left, top, right, bottom = area.box
    step, parts = (right - left) / BINS, []
    for i, count, high in _counted(x):
        parts.append(_bar(left + i * step, top - 3 - high, step - 0.5, high, count))
    step = (bottom - top) / BINS
    for i, count, high in _counted(y):
        parts.append(_bar(right + 3, bottom - (i + 1) * step, high, step - 0.5, count))
    return f'<g class="margin">{"".join(parts)}</g>'


def _counted(of: Scale) -> list[tuple[int, int, float]]:
    """(bin, count, length of the bar) of every bin that is not empty; bins are equal parts of the axis."""
    if of.kind == "rank":
        return []
    bins = [min(int(of.axis.at(value) * BINS), BINS - 1) for value in of.values]
    counts = np.bincount(bins, minlength=BINS).tolist()
    return [(i, count, _MARGIN * count / max(counts)) for i, count in enumerate(counts) if count]


def _bar(x: float, y: float, width: float, height: float, count: int) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f"<rect {box}><title>{count}</title></rect>"


def _choice(dots: Sequence[Dot], places: Sequence[tuple[float, float]], higher_is_better: bool) -> str:
    """The architecture that this score would choose."""
    best = (max if higher_is_better else min)(range(len(dots)), key=lambda i: dots[i].score)
    said = f"{dots[best].arch}\nbest score {_numbers.significant(dots[best].score, 4)}, truth {dots[best].truth:.4g}"
    (x, y), title = places[best], f"<title>{escape(said)}</title>"
    return f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="6">{title}</circle>'

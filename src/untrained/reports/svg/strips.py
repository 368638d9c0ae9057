"""Where scores place the best tenth by truth: a strip each, the best score on the right. Pure; knows no proxies."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from untrained import _numbers
from untrained.benchmarks.statistics import TENTH, Floats, among_best, ranks, spearman, tenth
from untrained.reports.svg.plot import points, thinned
from untrained.reports.svg.style import bar, fitted, frame, sans, words

_ROW, _STRIP, _HEAD, _FOOT = 28.0, 22.0, 22.0, 22.0
_NARROW, _LINE = 500.0, 18.0  # pixels below which a row has two lines, and the height of the first
_WITHIN = 52.0  # width of the last column of numbers


class Tenth(NamedTuple):
    """The best tenth of n architectures by truth, as a score sees it."""

    places: tuple[tuple[float, float], ...]  # share of the others that score less, share of the way to the best truth
    found: float  # so many of them are among the best tenth by score; ties at its edge count in part
    within: float | None  # rank correlation among them


class Strip(NamedTuple):
    name: str
    tenth: Tenth
    kind: str = "proxy"


def best_tenth(scores: Floats, truth: Floats) -> Tenth:
    """Of scores where higher is better; of equal truths at the edge the first come first."""
    k = tenth(len(truth))
    best = np.argsort(-truth, kind="stable")[:k]
    low, high = truth[best].min(), truth[best].max()
    across = (ranks(scores)[best] - 0.5) / len(scores)
    up = (truth[best] - low) / (high - low) if high > low else np.full(k, 0.5)
    found = float((among_best(scores, k) * among_best(truth, k)).sum())
    return Tenth(tuple(zip(across.tolist(), up.tolist(), strict=True)), found, spearman(scores[best], truth[best]))


def strips(rows: Sequence[Strip], room: float) -> str:
    """A dot for each of the best by truth; the shaded end holds the best tenth by score. Where there is little room
    the words of a row stand above its strip."""
    width = min(room, 760.0)
    numbers = max((sans(_found(row.tenth)) for row in rows), default=0.0) + 20 + _WITHIN
    above = _LINE if room < _NARROW else 0.0
    label = min(max((sans(row.name) for row in rows), default=0.0), width - numbers if above else 0.3 * width)
    left, right = (0.0, width) if above else (label + 10, width - numbers)
    step, line = _ROW + above, 12.0 if above else _STRIP / 2 + 4
    parts = [words("found", width - _WITHIN - 8, 12, "end"), words("within", width, 12, "end")]
    for i, row in enumerate(rows):
        top = _HEAD + step * i
        name = words(fitted(row.name, label), 0 if above else label + 2, top + line, "name" if above else "name end")
        inner = f"{name}{_strip(row.tenth, left, right, top + above)}{_figures(row.tenth, width, top + line)}"
        parts.append(f'<g class="k-{row.kind}"><title>{escape(_said(row))}</title>{inner}</g>')
    bottom = _HEAD + step * len(rows)
    parts += [words("worst score", left, bottom + 14), words("best score", right, bottom + 14, "end")]
    spoken = "The best tenth by truth. " + "; ".join(map(_said, rows))
    return frame("chart", (0.0, 0.0, width, bottom + _FOOT), spoken, parts)


def _strip(best: Tenth, left: float, right: float, top: float) -> str:
    edge, low, high = right - TENTH * (right - left), top + _STRIP - 4, top + 4
    dots = [(left + x * (right - left), low - y * (low - high)) for x, y in thinned(best.places)]
    track = bar((left, top, right - left, _STRIP), "track", 0.0)
    zone = bar((edge, top, right - edge, _STRIP), "zone", 0.0)
    return track + zone + points("", dots)


def _figures(best: Tenth, width: float, y: float) -> str:
    within = "\u2013" if best.within is None else _numbers.fixed(best.within, 2)
    found = words(_found(best), width - _WITHIN - 8, y, "end title")
    return found + words(within, width, y, "end")


def _said(row: Strip) -> str:
    return f"{row.name}: {_found(row.tenth)} found"


def _found(best: Tenth) -> str:
    """`23 of 30`; a tie at the edge may leave a fraction."""
    whole = abs(best.found - round(best.found)) < 0.05
    return f"{best.found:.{0 if whole else 1}f} of {len(best.places)}"

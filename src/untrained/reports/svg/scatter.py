"""Scatter plot of score against ground truth, with a histogram along each axis.

An axis is linear, unless the middle 80 % of the values would cover less than a fifth of it. In that
case it is logarithmic if this spreads the values, or else it shows ranks. A histogram of ranks
would be flat, so an axis of ranks has none. Better scores are always on the right.
"""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from math import inf, log10
from typing import NamedTuple

import numpy as np

from untrained import formatting
from untrained.benchmarks.statistics import (
    compute_ranks,
    compute_top_chances,
    count_top,
    orient_score,
)
from untrained.drawings.elements import draw_text, shorten_text
from untrained.reports.svg.axis import Axis, choose_ticks, make_axis
from untrained.reports.svg.plot import (
    PlotArea,
    draw_axes,
    draw_points,
    measure_tick_labels,
    thin_out,
    wrap_chart,
)

BINS = 20  # per histogram

_QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_WIDTH = 300.0
_HEIGHT = 270.0
_HISTOGRAM_HEIGHT = 24.0


class ScatterPoint(NamedTuple):
    score: float
    truth: float
    arch: str


class ScatterScale(NamedTuple):
    """An axis and the values that are placed on it.

    `kind` is linear, log or rank. Ranks start with 1 for the best value.
    """

    axis: Axis
    values: list[float]
    kind: str


def draw_scatter(
    points: Sequence[ScatterPoint], title: str, number: str, *, higher_is_better: bool = True
) -> str:
    """Draw all points, or 400 of them if there are more.

    The best tenth by ground truth is highlighted. A ring marks the point with the best score.

    Args:
        points: At least one.
        title: Name of the proxy.
        number: Number beside the title, such as a rank correlation.
        higher_is_better: Direction of the score. Higher ground truth is always better.
    """
    scores = [point.score for point in points]
    truths = [point.truth for point in points]
    x = choose_scale(scores, higher_is_better=higher_is_better)
    y = choose_scale(truths, count=5)
    if y.kind == "rank":
        # Ranks say little to a reader, so the tick labels are the ground truths at these ranks.
        ticks = tuple(1 + quartile * (len(points) - 1) for quartile in _QUARTILES)
        y = y._replace(axis=replace(y.axis, ticks=ticks))
        y_labels = _format_truth_at_ranks(truths, ticks)
    else:
        y_labels = formatting.format_ticks(y.axis.ticks, units=False)
    left = measure_tick_labels(y_labels, margin=12.0)
    bounds = (left, 24 + _HISTOGRAM_HEIGHT, _WIDTH - _HISTOGRAM_HEIGHT - 4, _HEIGHT - 48)
    area = PlotArea(x.axis, y.axis, bounds)
    places = []
    for x_value, y_value in zip(x.values, y.values, strict=True):
        places.append((area.x_pixel(x_value), area.y_pixel(y_value)))
    # Architectures that are tied at the border of the best tenth belong to it with a probability.
    is_top = compute_top_chances(truths, count_top(len(points))) > 0.5
    top_places = []
    other_places = []
    for i in thin_out(range(len(points))):
        if is_top[i]:
            top_places.append(places[i])
        else:
            other_places.append(places[i])
    x_labels = formatting.format_ticks(x.axis.ticks, units=False)
    x_title = _format_x_title(x, y, higher_is_better)
    parts = [
        draw_axes(area, x_labels, y_labels, x_title, shorten_text(title, _WIDTH - 60)),
        draw_text(number, _WIDTH, 12, "title end"),
        _draw_histograms(area, x, y),
        draw_points("dim", other_places),
        draw_points("top", top_places),
        _draw_best_score(points, places, higher_is_better),
    ]
    description = f"{title}: score against ground truth of {len(points)} architectures"
    return wrap_chart(description, (_WIDTH, _HEIGHT), parts)


def choose_scale(
    values: Sequence[float], *, higher_is_better: bool = True, count: int = 4
) -> ScatterScale:
    """Return the simplest scale that spreads the values; better values are at its far end.

    Args:
        values: At least one number.
        higher_is_better: Direction of the values.
        count: Approximate number of ticks.
    """
    if _are_spread(values):
        axis = make_axis(values, decades=inf, count=count)
        scale = ScatterScale(axis, list(values), "linear")
    elif min(values) > 0 and _are_spread([log10(value) for value in values]):
        axis = make_axis(values, decades=0, count=count)
        scale = ScatterScale(axis, list(values), "log")
    else:
        return _make_rank_scale(values, higher_is_better, count)
    if higher_is_better:
        return scale
    # The better end is on the right, so the axis runs backwards if lower values are better.
    reversed_axis = Axis(axis.high, axis.low, axis.log, axis.ticks)
    return scale._replace(axis=reversed_axis)


def _make_rank_scale(values: Sequence[float], higher_is_better: bool, count: int) -> ScatterScale:
    # Rank 1 is the best value.
    positions = compute_ranks([-orient_score(value, higher_is_better) for value in values])
    margin = 0.04 * len(values)
    # `choose_ticks` may include 1 already.
    ticks = tuple(dict.fromkeys([1.0, *choose_ticks(1, len(values), count)]))
    # The best rank is at the far end, as the better value is on other scales.
    axis = Axis(len(values) + margin, 1 - margin, False, ticks)
    return ScatterScale(axis, positions.tolist(), "rank")


def _are_spread(values: Sequence[float]) -> bool:
    """Return whether the middle 80 % of the values cover at least a fifth of their range."""
    low, high = np.quantile(values, (0.1, 0.9))
    return bool(high - low >= 0.2 * (max(values) - min(values)))


def _format_truth_at_ranks(truths: Sequence[float], ticks: Sequence[float]) -> list[str]:
    best_first = sorted(truths, reverse=True)
    return [formatting.format_significant(best_first[round(rank) - 1]) for rank in ticks]


def _format_x_title(x: ScatterScale, y: ScatterScale, higher_is_better: bool) -> str:
    """Return the title of the x axis, which also says if one of the axes is not linear."""
    y_note = {
        "linear": "",
        "log": ", ground truth on a log scale",
        "rank": ", ground truth by rank",
    }[y.kind]
    if x.kind == "rank":
        return f"rank by score{y_note}"
    notes = []
    if x.kind == "log":
        notes.append("log scale")
    if not higher_is_better:
        notes.append("lower is better")
    if not notes:
        return f"score{y_note}"
    return f"score ({', '.join(notes)}){y_note}"


def _draw_histograms(area: PlotArea, x: ScatterScale, y: ScatterScale) -> str:
    """Draw the distribution of scores above the plot, and that of the ground truth on its right."""
    left, top, right, bottom = area.bounds
    parts = []
    step = (right - left) / BINS
    for i, count, length in _count_bins(x):
        parts.append(_draw_bin(left + i * step, top - 3 - length, step - 0.5, length, count))
    step = (bottom - top) / BINS
    for i, count, length in _count_bins(y):
        parts.append(_draw_bin(right + 3, bottom - (i + 1) * step, length, step - 0.5, count))
    return f'<g class="margin">{"".join(parts)}</g>'


def _count_bins(scale: ScatterScale) -> list[tuple[int, int, float]]:
    """Return (bin, count, length of the bar) of all bins that are not empty.

    Bins are equal parts of the axis. There are none for ranks.
    """
    if scale.kind == "rank":
        return []
    # The largest value is at the end of the axis and belongs to the last bin.
    bins = [min(int(scale.axis.position(value) * BINS), BINS - 1) for value in scale.values]
    counts = np.bincount(bins, minlength=BINS).tolist()
    largest = max(counts)
    filled = []
    for i, count in enumerate(counts):
        if count:
            filled.append((i, count, _HISTOGRAM_HEIGHT * count / largest))
    return filled


def _draw_bin(x: float, y: float, width: float, height: float, count: int) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f"<rect {box}><title>{count}</title></rect>"


def _draw_best_score(
    points: Sequence[ScatterPoint],
    places: Sequence[tuple[float, float]],
    higher_is_better: bool,
) -> str:
    """Draw a ring around the architecture that this score would select."""
    scores = [orient_score(point.score, higher_is_better) for point in points]
    best = scores.index(max(scores))
    score = formatting.format_significant(points[best].score, 4)
    title = f"{points[best].arch}\nbest score {score}, ground truth {points[best].truth:.4g}"
    x, y = places[best]
    return (
        f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="6">'
        f"<title>{escape(title)}</title></circle>"
    )

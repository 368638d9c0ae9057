"""How scores rank the best tenth by ground truth: one strip per proxy, best scores on the right."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from untrained import formatting
from untrained.benchmarks.statistics import (
    TOP_SHARE,
    Floats,
    compute_ranks,
    compute_top_chances,
    count_top,
    spearman,
)
from untrained.drawings.elements import (
    Drawing,
    draw_rect,
    draw_text,
    estimate_width,
    shorten_text,
)
from untrained.reports.svg.bars import MAX_WIDTH
from untrained.reports.svg.plot import draw_points, thin_out

_ROW_HEIGHT = 28.0
_STRIP_HEIGHT = 22.0
_HEAD_HEIGHT = 22.0
_FOOT_HEIGHT = 22.0
_MIN_WIDTH_OF_ONE_LINE = 500.0  # on a narrower page the text of a row is above its strip
_TEXT_LINE_HEIGHT = 18.0
_CORRELATION_WIDTH = 52.0  # last column of numbers


class BestTenth(NamedTuple):
    """How a score ranks the best tenth of all architectures by ground truth.

    Attributes:
        places: For each architecture of the tenth, the fraction of all architectures with a lower
            score, and the position of its ground truth between the lowest (0) and the highest (1)
            of the tenth.
        hits: How many architectures of the tenth are also in the best tenth by score. An
            architecture that is tied at the border counts as a fraction.
        correlation: Rank correlation of score and ground truth within the tenth.
    """

    places: tuple[tuple[float, float], ...]
    hits: float
    correlation: float | None


class Strip(NamedTuple):
    """One row. `kind` decides the colour (CSS class k-KIND)."""

    name: str
    tenth: BestTenth
    kind: str = "proxy"


def locate_best_tenth(scores: Floats, truth: Floats) -> BestTenth:
    """Find how scores rank the best tenth by ground truth.

    Args:
        scores: Scores, negated if lower is better.
        truth: Ground truth of the same architectures. If several are tied at the border of the
            tenth, the first of them belong to it.
    """
    count = count_top(len(truth))
    best = np.argsort(-truth, kind="stable")[:count]
    low = truth[best].min()
    high = truth[best].max()
    # The middle of each rank, so that the best and the worst are equally far from the ends.
    x = (compute_ranks(scores)[best] - 0.5) / len(scores)
    y = np.full(count, 0.5)
    if high > low:
        y = (truth[best] - low) / (high - low)
    # Architectures that are tied at the border of the best tenth belong to it with a probability.
    hits = float((compute_top_chances(scores, count) * compute_top_chances(truth, count)).sum())
    places = tuple(zip(x.tolist(), y.tolist(), strict=True))
    return BestTenth(places, hits, spearman(scores[best], truth[best]))


def draw_strips(rows: Sequence[Strip], max_width: float) -> str:
    """Draw a dot per architecture of the best tenth; the area of the best tenth by score is shaded.

    On a narrow page, the text of a row is above its strip.
    """
    width = min(max_width, MAX_WIDTH)
    longest_count = max((estimate_width(_format_hits(row.tenth)) for row in rows), default=0.0)
    numbers_width = longest_count + 20 + _CORRELATION_WIDTH
    longest_name = max((estimate_width(row.name) for row in rows), default=0.0)
    if max_width < _MIN_WIDTH_OF_ONE_LINE:
        text_height = _TEXT_LINE_HEIGHT
        name_width = min(longest_name, width - numbers_width)
        name_x = 0.0
        name_class = "name"
        left = 0.0
        right = width
        baseline = 12.0
    else:
        text_height = 0.0
        name_width = min(longest_name, 0.3 * width)
        name_x = name_width + 2
        name_class = "name end"
        left = name_width + 10
        right = width - numbers_width
        baseline = _STRIP_HEIGHT / 2 + 4
    parts = [
        draw_text("hits", width - _CORRELATION_WIDTH - 8, 12, "end"),
        draw_text("corr.", width, 12, "end"),
    ]
    for i, row in enumerate(rows):
        top = _HEAD_HEIGHT + (_ROW_HEIGHT + text_height) * i
        name = draw_text(shorten_text(row.name, name_width), name_x, top + baseline, name_class)
        strip = _draw_strip(row.tenth, left, right, top + text_height)
        numbers = _draw_numbers(row.tenth, width, top + baseline)
        title = f"<title>{escape(_describe_strip(row))}</title>"
        parts.append(f'<g class="k-{row.kind}">{title}{name}{strip}{numbers}</g>')
    bottom = _HEAD_HEIGHT + (_ROW_HEIGHT + text_height) * len(rows)
    parts.append(draw_text("worst score", left, bottom + 14))
    parts.append(draw_text("best score", right, bottom + 14, "end"))
    description = "The best tenth by ground truth. " + "; ".join(
        _describe_strip(row) for row in rows
    )
    return Drawing("chart", (0.0, 0.0, width, bottom + _FOOT_HEIGHT), description, parts).to_html()


def _draw_strip(tenth: BestTenth, left: float, right: float, top: float) -> str:
    width = right - left
    border = right - TOP_SHARE * width
    lowest = top + _STRIP_HEIGHT - 4
    highest = top + 4
    dots = []
    for x, y in thin_out(tenth.places):
        dots.append((left + x * width, lowest - y * (lowest - highest)))
    track = draw_rect((left, top, width, _STRIP_HEIGHT), "track", 0.0)
    zone = draw_rect((border, top, right - border, _STRIP_HEIGHT), "zone", 0.0)
    return track + zone + draw_points("", dots)


def _draw_numbers(tenth: BestTenth, width: float, y: float) -> str:
    correlation = "\u2013"
    if tenth.correlation is not None:
        correlation = formatting.format_fixed(tenth.correlation, 2)
    hits = draw_text(_format_hits(tenth), width - _CORRELATION_WIDTH - 8, y, "end title")
    return hits + draw_text(correlation, width, y, "end")


def _describe_strip(row: Strip) -> str:
    return f"{row.name}: {_format_hits(row.tenth)} hits"


def _format_hits(tenth: BestTenth) -> str:
    """Return `23 of 30`, or `23.5 of 30` if there is a tie at the border."""
    is_whole = abs(tenth.hits - round(tenth.hits)) < 0.05
    decimals = 0 if is_whole else 1
    return f"{tenth.hits:.{decimals}f} of {len(tenth.places)}"

"""Charts of a ranking: the histogram of scores, and score against size.

Every mark has a `<title>`, which browsers show on hover.
"""

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10, sqrt

from untrained import formatting
from untrained.reports.search_summary import RankedArch
from untrained.reports.svg.axis import (
    Axis,
    choose_step,
    choose_ticks,
    make_axis,
    widen_range,
)
from untrained.reports.svg.plot import (
    HEIGHT,
    WIDTH,
    PlotArea,
    describe_direction,
    draw_labelled_axes,
    format_axis_title,
    make_plot_area,
    wrap_chart,
)

TOP_COUNT = 10  # number of best architectures, which are highlighted
MAX_DOTS = 2000  # in a scatter plot; more would make the file large
WIDE_SCORES = 3.0  # decades; scores that span more have a logarithmic axis

_MIN_BINS = 6
_MAX_BINS = 30


def draw_histogram(ranking: Sequence[RankedArch], *, higher_is_better: bool = True) -> str:
    """Draw a histogram of the scores. The ten best are the coloured lower parts of the bars."""
    if not ranking:
        return ""
    scores = [row.score for row in ranking]
    edges, log = _choose_bins(scores)
    counts = _count_scores(scores, edges)
    top_counts = _count_scores(scores[:TOP_COUNT], edges)
    if log:
        ticks = make_axis([edges[0], edges[-1]], decades=WIDE_SCORES).ticks
    else:
        ticks = choose_ticks(edges[0], edges[-1], 6)
    # The axis ends at the outer edges of the bins, without the usual space beyond them.
    inner_ticks = []
    for tick in ticks:
        if edges[0] <= tick <= edges[-1]:
            inner_ticks.append(tick)
    x_axis = Axis(edges[0], edges[-1], log, tuple(inner_ticks))
    y_axis = Axis(0.0, max(counts) * 1.05, False, _choose_count_ticks(max(counts)))
    area = make_plot_area(x_axis, y_axis)
    x_title = format_axis_title("score", x_axis, describe_direction(higher_is_better))
    parts = [draw_labelled_axes(area, x_title, "architectures", x_units=False)]
    for i, count in enumerate(counts):
        if count:
            parts.append(_draw_bin(area, edges[i], edges[i + 1], count, top_counts[i]))
    return wrap_chart(f"Histogram of {len(ranking)} scores", (WIDTH, HEIGHT), parts)


def draw_size_scatter(
    ranking: Sequence[RankedArch],
    get_size: Callable[[RankedArch], float | None],
    size_name: str,
    *,
    higher_is_better: bool = True,
    winner: str | None = None,
) -> str:
    """Draw score against size, one dot per architecture that has a size.

    The ten best are highlighted, and a ring marks the winner.

    Args:
        ranking: The architectures, best first.
        get_size: Returns the size of an architecture; None if it is not known.
        size_name: What the size is.
        higher_is_better: Direction of the score.
        winner: The architecture that trainings chose; None for the first of the ranking.
    """
    if winner is None:
        winner = ranking[0].arch
    # Parameters or multiply-adds of an architecture may be unknown.
    rows = []
    for row in select_dots(ranking, winner):
        size = get_size(row)
        if size is not None:
            rows.append((row, size))
    if not rows:
        return ""
    x_axis = make_axis([size for _, size in rows], decades=1.0)
    y_axis = make_axis([row.score for row, _ in rows], decades=WIDE_SCORES)
    area = make_plot_area(x_axis, y_axis)
    x_title = format_axis_title(size_name, x_axis)
    y_title = format_axis_title("score", y_axis, describe_direction(higher_is_better))
    # The best are drawn last, on top of all others.
    dots = []
    for row, size in reversed(rows):
        dots.append(_draw_dot(area, row, size, size_name))
    parts = [draw_labelled_axes(area, x_title, y_title), f'<g class="dots">{"".join(dots)}</g>']
    for row, size in rows:
        if row.arch == winner:
            x = area.x_pixel(size)
            y = area.y_pixel(row.score)
            parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="8"/>')
    description = f"Score against {size_name} of {len(rows)} architectures"
    return wrap_chart(description, (WIDTH, HEIGHT), parts)


def select_dots(ranking: Sequence[RankedArch], winner: str | None = None) -> list[RankedArch]:
    """Return the rows that a scatter plot draws: all, or the ten best and every n-th other.

    The winner is always among them.
    """
    step = ceil(len(ranking) / MAX_DOTS)
    selected = []
    for i, row in enumerate(ranking):
        if i < TOP_COUNT or i % step == 0 or row.arch == winner:
            selected.append(row)
    return selected


def _choose_bins(scores: Sequence[float]) -> tuple[list[float], bool]:
    """Return round edges of bins of equal width, and whether they are on a logarithmic axis.

    The number of bins is about twice the square root of the number of scores.
    """
    log = make_axis(scores, decades=WIDE_SCORES).log
    low = min(scores)
    high = max(scores)
    if log:
        low = log10(low)
        high = log10(high)
    low, high = widen_range(low, high)
    bin_count = min(max(2 * sqrt(len(scores)), _MIN_BINS), _MAX_BINS)
    step = choose_step((high - low) / bin_count)
    first = floor(low / step + 1e-9)
    last = max(ceil(high / step - 1e-9), first + 1)
    # Multiples of a round step, so that edges are numbers that people can read.
    edges = [i * step for i in range(first, last + 1)]
    if log:
        edges = [10.0**edge for edge in edges]
    return edges, log


def _count_scores(scores: Sequence[float], edges: Sequence[float]) -> list[int]:
    """Return the number of scores per bin; scores beyond the edges count in the outermost bins."""
    counts = [0] * (len(edges) - 1)
    for score in scores:
        index = sum(edge <= score for edge in edges) - 1
        counts[min(max(index, 0), len(counts) - 1)] += 1
    return counts


def _choose_count_ticks(largest: int) -> tuple[float, ...]:
    """Return whole numbers from 0 to at most `largest`."""
    # Architectures are counted, so there are no ticks between whole numbers.
    step = max(choose_step(largest / 4), 1.0)
    return tuple(i * step for i in range(int(largest / step) + 1))


def _draw_bin(area: PlotArea, low: float, high: float, count: int, top_count: int) -> str:
    # A gap of 1.5 pixels separates the bars.
    left = area.x_pixel(low) + 0.75
    width = area.x_pixel(high) - 0.75 - left
    title = (
        f"{formatting.format_significant(low)} to {formatting.format_significant(high)}: {count}"
    )
    if top_count:
        title += f", {top_count} of them among the best {TOP_COUNT}"
    parts = [f"<title>{title}</title>"]
    for css_class, bottom, top in (("bar", top_count, count), ("bar top", 0, top_count)):
        if top > bottom:
            y = area.y_pixel(top)
            height = area.y_pixel(bottom) - y
            parts.append(
                f'<rect class="{css_class}" x="{left:.1f}" y="{y:.1f}" '
                f'width="{width:.1f}" height="{height:.1f}"/>'
            )
    return f"<g>{''.join(parts)}</g>"


def _draw_dot(area: PlotArea, row: RankedArch, size: float, size_name: str) -> str:
    css_class = ""
    radius = 3.5
    if row.rank <= TOP_COUNT:
        css_class = ' class="top"'
        radius = 4.5
    score = formatting.format_significant(row.score, 4)
    title = f"{row.rank}. {row.arch}\nscore {score}, {formatting.format_quantity(size)} {size_name}"
    x = area.x_pixel(size)
    y = area.y_pixel(row.score)
    return (
        f'<circle{css_class} cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
        f"<title>{escape(title)}</title></circle>"
    )

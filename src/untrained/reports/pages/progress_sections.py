"""Sections about the progress of a search, its Pareto front and its limits."""

from collections.abc import Callable
from html import escape
from itertools import accumulate

from untrained import formatting
from untrained.benchmarks.comparison import SIZE_BASELINES
from untrained.reports.pages.html import (
    DASH,
    make_code,
    make_html_cell,
    make_paragraph,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.search_summary import SearchSummary, Tradeoff, TradeoffPoint
from untrained.reports.svg.axis import Axis, choose_ticks, make_axis
from untrained.reports.svg.plot import (
    HEIGHT,
    WIDTH,
    PlotArea,
    describe_direction,
    draw_labelled_axes,
    draw_points,
    draw_polyline,
    format_axis_title,
    make_plot_area,
    thin_out,
    wrap_chart,
)
from untrained.reports.svg.ranking_charts import WIDE_SCORES


def make_progress_section(summary: SearchSummary) -> str:
    """Return the section with the best score so far; empty with fewer than two scores."""
    scores = summary.scores_in_order
    if len(scores) < 2:
        return ""
    choose = max if summary.higher_is_better else min
    best = list(accumulate(scores, choose))
    count = len(best)
    # Architectures are counted, so there are no ticks between whole numbers.
    whole_ticks = []
    for tick in choose_ticks(0.0, float(count)):
        if tick == int(tick):
            whole_ticks.append(tick)
    y_axis = make_axis(best, decades=WIDE_SCORES)
    area = make_plot_area(Axis(0.0, float(count), False, tuple(whole_ticks)), y_axis)
    # A step function: horizontal until the next improvement, then vertical.
    steps = [(1.0, best[0])]
    for scored_count, value in enumerate(best[1:], 2):
        previous = steps[-1][1]
        if value != previous:
            steps.append((float(scored_count), previous))
            steps.append((float(scored_count), value))
    steps.append((float(count), best[-1]))
    places = [(area.x_pixel(x), area.y_pixel(y)) for x, y in steps]
    direction = describe_direction(summary.higher_is_better)
    y_title = format_axis_title("best score", y_axis, direction)
    parts = [
        draw_labelled_axes(area, "architectures scored", y_title),
        draw_polyline("progress", places),
    ]
    first_best = best.index(best[-1]) + 1
    caption = f"The best score was the {_format_ordinal(first_best)} of {count:,} scores."
    chart = wrap_chart(caption, (WIDTH, HEIGHT), parts)
    figure = f"<figure>{chart}<figcaption>{caption}</figcaption></figure>"
    return make_section("Search progress", figure)


def make_front_section(summary: SearchSummary) -> str:
    """Return the section about the Pareto front; empty for a search with a single objective."""
    tradeoff = summary.tradeoff
    if tradeoff is None or len(tradeoff.points) < 2:
        return ""
    points = tradeoff.points
    x_axis = make_axis([point.objective for point in points])
    y_axis = make_axis([point.score for point in points], decades=WIDE_SCORES)
    area = make_plot_area(x_axis, y_axis)
    front = []
    other_places = []
    for point in points:
        if point.on_front:
            front.append(point)
        else:
            other_places.append(_place_point(area, point))
    x_title = format_axis_title(
        tradeoff.name, x_axis, describe_direction(tradeoff.higher_is_better)
    )
    y_title = format_axis_title(summary.proxy, y_axis, describe_direction(summary.higher_is_better))
    parts = [
        draw_labelled_axes(area, x_title, y_title),
        draw_points("all", thin_out(other_places)),
    ]
    # The projection of a front of three or more objectives is not a line.
    if tradeoff.objectives == 2:
        in_order = sorted((point.objective, point.score) for point in front)
        places = [(area.x_pixel(x), area.y_pixel(y)) for x, y in in_order]
        parts.append(draw_polyline("front", places))
    format_objective = _choose_objective_format(tradeoff)
    dots = [_draw_dot(area, point, format_objective) for point in front]
    parts.append(f'<g class="dots">{"".join(dots)}</g>')
    caption = (
        f"{len(front)} of {len(points):,} architectures are on the Pareto front of "
        f"{tradeoff.objectives} objectives: no other architecture is at least as good in all of "
        "them and better in one."
    )
    description = f"{summary.proxy} against {tradeoff.name}. {caption}"
    chart = wrap_chart(description, (WIDTH, HEIGHT), parts)
    figure = f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"
    table = _make_front_table(summary, tradeoff)
    return make_section("Pareto front", f'<div class="pair">{figure}{table}</div>')


def _make_front_table(summary: SearchSummary, tradeoff: Tradeoff) -> str:
    format_score = formatting.choose_column_format([point.score for point in tradeoff.points])
    format_objective = _choose_objective_format(tradeoff)
    front = [point for point in tradeoff.points if point.on_front]
    front.sort(key=lambda point: point.objective)
    rows = []
    for point in front:
        cells = [
            make_text_cell(format_objective(point.objective), "num"),
            make_text_cell(format_score(point.score), "num score"),
            make_html_cell(make_code(point.arch), "arch"),
        ]
        rows.append(make_row(cells))
    head = [("num", tradeoff.name), ("num", summary.proxy), ("", "Architecture")]
    return make_table("", head, rows)


def make_limits_section(summary: SearchSummary) -> str:
    """Return the section about limits; empty for a search without limits."""
    if not summary.limits:
        return ""
    rows = []
    for limit in summary.limits:
        value = DASH
        if limit.value is not None:
            value = formatting.format_limited_value(limit.name, limit.value)
        cells = [
            make_html_cell(make_code(limit.name), ""),
            make_text_cell(limit.requested, "num"),
            make_text_cell(value, "num"),
            make_text_cell(f"{limit.rejected:,}", "num"),
        ]
        rows.append(make_row(cells))
    note = (
        "Architectures beyond a limit were not scored. An architecture that was sampled twice "
        "is counted twice."
    )
    for limit in summary.limits:
        if limit.name != "max_latency":
            continue
        origin = limit.source or _describe_measurement(limit.requested)
        note += f" The latency of the best architecture was {origin}."
    head = [("", "Limit"), ("num", "Requested"), ("num", "Best architecture"), ("num", "Rejected")]
    return make_section("Limits", make_table("", head, rows), make_paragraph(note, "note"))


def _describe_measurement(limit: str) -> str:
    """Describe where the latency for a limit such as `5ms@cuda` was measured."""
    device = limit.partition("@")[2]
    if device in ("", "cpu"):
        return "measured on a CPU with one thread"
    return f"measured on {device}"


def _place_point(area: PlotArea, point: TradeoffPoint) -> tuple[float, float]:
    return area.x_pixel(point.objective), area.y_pixel(point.score)


def _choose_objective_format(tradeoff: Tradeoff) -> Callable[[float], str]:
    """Return the format of an objective: a count such as 1.07 M, or the score of a proxy."""
    if tradeoff.name in SIZE_BASELINES:
        return formatting.format_quantity
    return formatting.choose_column_format([point.objective for point in tradeoff.points])


def _draw_dot(
    area: PlotArea, point: TradeoffPoint, format_objective: Callable[[float], str]
) -> str:
    x, y = _place_point(area, point)
    score = formatting.format_significant(point.score, 4)
    title = f"{point.arch}\n{score}, {format_objective(point.objective)}"
    return (
        f'<circle class="top" cx="{x:.1f}" cy="{y:.1f}" r="4.5">'
        f"<title>{escape(title)}</title></circle>"
    )


def _format_ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 21st, and so on."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    # 11th, 12th and 13th are exceptions.
    if number % 100 in (11, 12, 13):
        ending = "th"
    return f"{number:,}{ending}"

"""Charts of a contest: accuracy or RMSE against training time and against size.

Every dot has a `<title>`, which browsers show on hover.
"""

from collections.abc import Sequence
from html import escape
from itertools import accumulate
from math import inf

from untrained import formatting
from untrained.formatting import format_count
from untrained.reports.contest_result import Contest, ContestEntry
from untrained.reports.svg.axis import make_axis
from untrained.reports.svg.plot import (
    HEIGHT,
    WIDTH,
    draw_labelled_axes,
    draw_polyline,
    format_axis_title,
    make_plot_area,
    wrap_chart,
)
from untrained.types import REGRESSION

Place = tuple[float, float]


def draw_result_over_time(contest: Contest) -> str:
    """Draw validation accuracy or RMSE against training time.

    There is one line per entry, and one dot per round. The winner is highlighted. The chart is
    empty if nothing was trained.
    """
    all_seconds: list[float] = []
    all_results: list[float] = []
    for entry in contest.entries:
        all_seconds += _list_seconds(entry)
        all_results += _list_results(entry)
    if not all_seconds:
        return ""
    x_axis = make_axis(all_seconds, decades=1.0)
    y_axis = make_axis(all_results, decades=inf)
    area = make_plot_area(x_axis, y_axis)
    x_title = format_axis_title("training time, seconds", x_axis)
    parts = [draw_labelled_axes(area, x_title, _make_result_title(contest))]
    # The winner is drawn last, on top of all others.
    for entry in _put_winner_last(contest):
        places = []
        for seconds, result in zip(_list_seconds(entry), _list_results(entry), strict=True):
            places.append((area.x_pixel(seconds), area.y_pixel(result)))
        css_class = "entry"
        if entry.number == contest.winner_number:
            css_class = "entry top"
        parts.append(draw_polyline(css_class, places))
        parts.append(_draw_rounds(contest, entry, places))
    subject = f"Validation {contest.result_title} against training time"
    description = f"{subject} of {format_count(contest.network_count, 'network')}"
    return wrap_chart(description, (WIDTH, HEIGHT), parts)


def draw_result_by_size(contest: Contest) -> str:
    """Draw the accuracy or RMSE after the first round against parameters, one dot per entry.

    After the first round, all entries were trained for the same time. The winner is highlighted.
    The chart is empty if no size is known.
    """
    sizes = []
    results = []
    for entry in contest.entries:
        if entry.params and entry.rounds:
            sizes.append(entry.params)
            results.append(_list_results(entry)[0])
    if not sizes:
        return ""
    x_axis = make_axis(sizes, decades=1.0)
    y_axis = make_axis(results, decades=inf)
    area = make_plot_area(x_axis, y_axis)
    x_title = format_axis_title("parameters", x_axis)
    parts = [draw_labelled_axes(area, x_title, _make_result_title(contest, " after round 1"))]
    for entry in _put_winner_last(contest):
        if entry.params and entry.rounds:
            place = (area.x_pixel(entry.params), area.y_pixel(_list_results(entry)[0]))
            parts.append(_draw_rounds(contest, entry, [place]))
            if entry.number == contest.winner_number:
                parts.append(_draw_ring(place))
    subject = f"Validation {contest.result_title} against parameters"
    description = f"{subject} of {len(sizes)} networks"
    return wrap_chart(description, (WIDTH, HEIGHT), parts)


def _list_seconds(entry: ContestEntry) -> list[float]:
    """Return the training time of an entry until the end of each round."""
    return list(accumulate(result.seconds for result in entry.rounds))


def _list_results(entry: ContestEntry) -> list[float]:
    """Return the accuracy in per cent, or the RMSE, of an entry after each round."""
    results = []
    for result in entry.rounds:
        if result.rmse is not None:
            results.append(result.rmse)
        else:
            results.append(100 * (result.accuracy or 0.0))
    return results


def _make_result_title(contest: Contest, when: str = "") -> str:
    """Return the title of the axis of results: accuracy in per cent, or RMSE."""
    unit = "" if contest.kind == REGRESSION else ", %"
    return f"validation {contest.result_title}{when}{unit}"


def _put_winner_last(contest: Contest) -> list[ContestEntry]:
    return sorted(contest.entries, key=lambda entry: entry.number == contest.winner_number)


def _draw_rounds(contest: Contest, entry: ContestEntry, places: Sequence[Place]) -> str:
    """Draw a dot at each place, for the rounds of an entry from the first one on."""
    css_class = ""
    radius = 3.5
    if entry.number == contest.winner_number:
        css_class = ' class="top"'
        radius = 4.5
    dots = []
    for index, (x, y) in enumerate(places):
        result = entry.rounds[index]
        title = f"{entry.number}. {contest.describe_selection(entry)}\nround {index + 1}"
        title += f": {result.text}, {formatting.format_duration(result.seconds)}"
        if entry.params is not None:
            title += f", {formatting.format_quantity(entry.params)} parameters"
        dots.append(
            f'<circle{css_class} cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
            f"<title>{escape(title)}</title></circle>"
        )
    return f'<g class="dots">{"".join(dots)}</g>'


def _draw_ring(place: Place) -> str:
    x, y = place
    return f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="8"/>'

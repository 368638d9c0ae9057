"""Charts of a contest: accuracy against training time, and accuracy against size.

Every dot has a `<title>`, which browsers show on hover.
"""

from collections.abc import Sequence
from html import escape
from itertools import accumulate
from math import inf

from untrained import formatting
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

Place = tuple[float, float]


def draw_accuracy_over_time(contest: Contest) -> str:
    """Draw validation accuracy against training time: one line per entry, one dot per round.

    The winner is highlighted. The chart is empty if nothing was trained.
    """
    all_seconds: list[float] = []
    all_accuracies: list[float] = []
    for entry in contest.entries:
        all_seconds += _list_seconds(entry)
        all_accuracies += _list_accuracies(entry)
    if not all_seconds:
        return ""
    x_axis = make_axis(all_seconds, decades=1.0)
    y_axis = make_axis(all_accuracies, decades=inf)
    area = make_plot_area(x_axis, y_axis)
    x_title = format_axis_title("training time, seconds", x_axis)
    parts = [draw_labelled_axes(area, x_title, "validation accuracy, %")]
    # The winner is drawn last, on top of all others.
    for entry in _put_winner_last(contest):
        places = []
        for seconds, accuracy in zip(_list_seconds(entry), _list_accuracies(entry), strict=True):
            places.append((area.x_pixel(seconds), area.y_pixel(accuracy)))
        css_class = "entry"
        if entry.number == contest.winner_number:
            css_class = "entry top"
        parts.append(draw_polyline(css_class, places))
        parts.append(_draw_rounds(contest, entry, places))
    description = f"Validation accuracy against training time of {len(contest.entries)} networks"
    return wrap_chart(description, (WIDTH, HEIGHT), parts)


def draw_accuracy_by_size(contest: Contest) -> str:
    """Draw the accuracy after the first round against parameters, one dot per entry.

    After the first round, all entries were trained for the same time. The winner is highlighted.
    The chart is empty if no size is known.
    """
    sizes = []
    accuracies = []
    for entry in contest.entries:
        if entry.params and entry.rounds:
            sizes.append(entry.params)
            accuracies.append(_list_accuracies(entry)[0])
    if not sizes:
        return ""
    x_axis = make_axis(sizes, decades=1.0)
    y_axis = make_axis(accuracies, decades=inf)
    area = make_plot_area(x_axis, y_axis)
    x_title = format_axis_title("parameters", x_axis)
    parts = [draw_labelled_axes(area, x_title, "validation accuracy after round 1, %")]
    for entry in _put_winner_last(contest):
        if entry.params and entry.rounds:
            place = (area.x_pixel(entry.params), area.y_pixel(_list_accuracies(entry)[0]))
            parts.append(_draw_rounds(contest, entry, [place]))
            if entry.number == contest.winner_number:
                parts.append(_draw_ring(place))
    description = f"Validation accuracy against parameters of {len(sizes)} networks"
    return wrap_chart(description, (WIDTH, HEIGHT), parts)


def _list_seconds(entry: ContestEntry) -> list[float]:
    """Return the training time of an entry until the end of each round."""
    return list(accumulate(result.seconds for result in entry.rounds))


def _list_accuracies(entry: ContestEntry) -> list[float]:
    """Return the accuracy of an entry after each round, in per cent."""
    return [100 * result.accuracy for result in entry.rounds]


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
        title = f"{entry.number}. {entry.selection_text}\nround {index + 1}"
        title += f": {100 * result.accuracy:.1f} %, {formatting.format_duration(result.seconds)}"
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

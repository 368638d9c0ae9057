"""Charts of a report: every score is counted and every dot is named, for any scores."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.reports.examples import make_summary
from untrained.reports.confirmation_result import Confirmation
from untrained.reports.pages.score_sections import make_size_section
from untrained.reports.pages.search_page import render_search_page
from untrained.reports.search_summary import RankedArch
from untrained.reports.svg.ranking_charts import MAX_DOTS, draw_histogram, draw_size_scatter


def test_the_histogram_counts_every_score_once() -> None:
    rows = make_summary().ranking
    titles = re.findall(r"<title>(.*?)</title>", draw_histogram(rows))
    assert sum(int(re.findall(r": (\d+)", title)[0]) for title in titles) == 94
    assert sum(int(n) for title in titles for n in re.findall(r", (\d+) of them", title)) == 10


@pytest.mark.parametrize(
    "scores", [[1.0], [2.0, 2.0, 2.0], [1e-3, 1.0, 1e9], [-1e6, 0.0, 3.0], [0.0]]
)
def test_the_histogram_can_draw_any_scores(scores: list[float]) -> None:
    rows = [RankedArch(i + 1, "a", score) for i, score in enumerate(scores)]
    chart = ElementTree.fromstring(draw_histogram(rows))
    bars = chart.findall(".//rect")
    assert bars
    assert all(float(bar.attrib["height"]) > 0 and float(bar.attrib["width"]) > 0 for bar in bars)
    assert "nan" not in draw_histogram(rows)


def test_the_scatter_has_a_named_dot_for_each_row_and_marks_ten() -> None:
    rows = make_summary().ranking
    chart = ElementTree.fromstring(draw_size_scatter(rows, lambda row: row.params, "parameters"))
    dots = [dot for dot in chart.iter("circle") if dot.find("title") is not None]
    assert len(dots) == 94
    assert len([dot for dot in dots if dot.get("class") == "top"]) == 10
    assert dots[-1].findtext("title", "").startswith(f"1. {rows[0].arch}\nscore 3.91"), (
        "the best is drawn last, on top"
    )
    assert "parameters (log scale)" in [text.text for text in chart.iter("text")]
    assert all(
        0 <= float(dot.attrib["cx"]) <= 440 and 0 <= float(dot.attrib["cy"]) <= 300 for dot in dots
    )


def test_the_scatter_leaves_out_rows_without_a_size() -> None:
    rows = [RankedArch(1, "a", 3.0, params=None), RankedArch(2, "b", 2.0, params=5.0)]
    assert draw_size_scatter(rows, lambda row: row.params, "parameters").count("<title>") == 1
    assert draw_size_scatter(rows, lambda row: row.flops, "multiply-adds") == ""


def test_very_many_points_are_thinned_and_the_page_says_so() -> None:
    page = render_search_page(make_summary(count=3 * MAX_DOTS))
    shown = page.count("</title></circle>") // 2
    assert MAX_DOTS <= shown <= MAX_DOTS + 10
    assert f"{shown:,} of 6,000 points are drawn." in page


def test_the_winner_is_drawn_and_counted_even_if_its_neighbours_are_left_out() -> None:
    summary = make_summary(count=3 * MAX_DOTS)
    # Behind the ten best, every third row is drawn. This is row 14, with an architecture of its own.
    winner = "the winner"
    ranking = list(summary.ranking)
    ranking[13] = replace(ranking[13], arch=winner)
    confirmation = Confirmation(
        best_arch=winner,
        best_arch_result=70.0,
        selected_by=("random",),
        groups=(),
        contrasts=(),
        epochs=1,
        samples=100,
        data="digits",
        seconds=1.0,
    )
    summary = replace(summary, ranking=tuple(ranking), confirmation=confirmation)
    section = make_size_section(summary)
    assert section.count("<title>14. the winner") == 2, "one dot per chart"
    shown = section.count("</title></circle>") // 2
    assert f"{shown:,} of 6,000 points are drawn." in section

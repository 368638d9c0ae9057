"""The report page of a reproduction."""

import re
from dataclasses import replace

from tests.papers.test_reproduce import RESULT
from untrained.reports.pages.reproduction_page import (
    make_reproduction_headline,
    render_reproduction_page,
)
from untrained.reports.reproduction_result import Curve, Plot, TableLine
from untrained.reports.svg.figure import MAX_CURVE_POINTS, draw_figure
from untrained.workflows.report import report


def test_page_shows_every_line_and_deviation():
    page = render_reproduction_page(RESULT)
    assert [page.count(f'<td class="">{line.what}</td>') for line in RESULT.lines] == [1] * 4
    assert "Ours is a sample." in page
    assert "untrained</span> <span>reproduce</span> <span>dextr-table-4" in page
    assert "Table 4: two rows." in page
    assert page.count("<svg") == 1


def test_headline_summarises_differences():
    """Differences are 0.015 and 0.12: the median is their mean. 0.33 is outside 0.15 to 0.27."""
    assert make_reproduction_headline(RESULT) == (
        "2 published numbers: the median difference is 0.068, the largest 0.12 (NB201-cf10, "
        "zen); 1 of 2 are within our confidence intervals."
    )
    assert (
        make_reproduction_headline(replace(RESULT, lines=RESULT.lines[3:]))
        == "The paper gives no numbers to compare with."
    )


def test_empty_columns_are_left_out():
    page = render_reproduction_page(replace(RESULT, lines=RESULT.lines[3:]))
    assert re.findall(r'<th scope="col"[^>]*>([^<]*)', page) == ["What", "Ours"]


def test_text_is_escaped():
    page = render_reproduction_page(
        replace(RESULT, lines=(TableLine("<b>", 1.0, 2.0, note="<i>"),), deviations=("<script>.",))
    )
    assert not re.search(r"<b>|<i>|<script>\.", page)


def test_curves_have_colours_and_a_legend():
    curves = (Curve("good", (1.0, 2.0, 3.0), (0.1, 0.2, 0.3)), Curve("bad", (1.0, 2.0), (0.0, 0.1)))
    figure = draw_figure(Plot("r by layer", "layer", "r", curves, joined=True))
    assert figure.count("<polyline") == 2
    assert re.findall(r'class="dot (k-\w)"></span> (\w+)', figure) == [
        ("k-a", "good"),
        ("k-b", "bad"),
    ]
    assert draw_figure(Plot("nothing", "x", "y", (Curve("", (), ()),))) == ""


def test_missing_values_leave_gaps():
    """The values at 3 and 6 are missing: two lines, the other curve is not drawn at all."""
    nan = float("nan")
    gaps = Curve("gaps", tuple(map(float, range(1, 8))), (0.1, 0.2, nan, 0.4, 0.5, nan, nan))
    missing = Curve("missing", (1.0, 2.0), (nan, nan))
    lines = draw_figure(Plot("title", "x", "y", (gaps, missing), joined=True))
    assert [len(points.split()) for points in re.findall(r'points="([^"]*)"', lines)] == [2, 2]
    dots = draw_figure(Plot("title", "x", "y", (gaps, missing)))
    assert dots.count("h0") == 4
    assert "nan" not in lines + dots
    assert draw_figure(Plot("title", "x", "y", (missing,))) == ""


def test_a_plot_without_a_title_is_described_by_its_axes():
    curve = Curve("", (1.0, 2.0), (0.1, 0.2))
    figure = draw_figure(Plot("", "confidence, %", "accuracy, %", (curve,), joined=True))
    assert "<h3>" not in figure
    assert 'aria-label="accuracy, % against confidence, %"' in figure


def test_the_note_on_intervals_names_searches():
    """A number with an interval may be a mean over searches, not over architectures."""
    page = render_reproduction_page(RESULT)
    assert "over architectures, or over searches or seeds if the number is their mean" in page


def test_number_of_drawn_points_is_limited():
    many = Curve("", tuple(map(float, range(5000))), tuple(map(float, range(5000))))
    figure = draw_figure(Plot("many", "x", "y", (many,)))
    assert figure.count("h0") <= MAX_CURVE_POINTS
    assert "figcaption" not in figure


def test_report_writes_page_of_reproduction_folder(run_folder):
    replace(RESULT, folder=str(run_folder)).save()
    page = report(run_folder)
    assert page == run_folder / "report.html"
    assert "<h1>Two rows</h1>" in page.read_text()

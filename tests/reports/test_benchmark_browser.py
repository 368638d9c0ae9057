"""The page of a benchmark in Chromium: nothing is too wide, overlaps, logs errors or uses the network."""

from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.reports.examples import boxes_overlap, find_too_wide, make_study, open_page

pytestmark = pytest.mark.browser
widths = pytest.mark.parametrize("width", [1280, 390])


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")]
)
def test_the_page_fits_a_browser_window(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    page = open_page(browser, tmp_path, make_study(), width, scheme)
    page.evaluate(
        'document.querySelectorAll("details").forEach(details => { details.open = true; })'
    )
    assert find_too_wide(page, "html", "section > div", ".many", ".copy pre", ".drawing") == []
    if width > 1000:
        assert find_too_wide(page, ".scroll") == [], (
            "the table needs no scrolling where there is room"
        )
    shown = page.evaluate(
        """[...document.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect()).filter(box => box.width > 0)
        .map(box => [box.width, box.height])"""
    )
    assert len(shown) == 1 + 20 + 1 + 1 + 1, (
        "bars, scatter plots, strips, heat map, costs: one drawing of two is shown"
    )
    assert all(w > 250 and h > 200 for w, h in shown)
    page.close()


@widths
def test_texts_stay_inside_their_charts_and_ticks_do_not_overlap(
    browser: Any, tmp_path: Path, width: int
) -> None:
    page = open_page(browser, tmp_path, make_study(), width)
    charts = page.evaluate(
        """[...document.querySelectorAll(".chart")].filter(chart => chart.checkVisibility()).map(chart => {
        const frame = chart.getBoundingClientRect();
        const boxes = kind => [...chart.querySelectorAll(kind)].map(text => text.getBoundingClientRect());
        return [Math.max(...boxes("text").map(box => Math.max(frame.left - box.left, box.right - frame.right))),
                boxes(".tick").map(box => [box.left, box.right])]; })"""
    )
    assert max(beyond for beyond, _ in charts) <= 1
    assert sum(len(ticks) > 1 for _, ticks in charts) >= 12
    assert all(a[1] + 2 < b[0] for _, ticks in charts for a, b in pairwise(sorted(ticks)))
    page.close()


@widths
def test_names_of_costs_do_not_overlap(browser: Any, tmp_path: Path, width: int) -> None:
    page = open_page(browser, tmp_path, make_study(), width)
    boxes = page.evaluate(
        """[...document.querySelectorAll("svg")].filter(svg => svg.querySelector(".item")).map(svg =>
        [...svg.querySelectorAll(".name")].map(name => name.getBoundingClientRect()).filter(box => box.width > 0)
        .map(box => [box.left, box.top + 2, box.width, box.height - 4])).flat()"""
    )
    assert len(boxes) >= 10
    assert not [pair for pair in combinations(boxes, 2) if boxes_overlap(*pair)]
    page.close()


def test_the_name_of_a_proxy_stays_when_the_table_scrolls(browser: Any, tmp_path: Path) -> None:
    page = open_page(browser, tmp_path, make_study(), 390)
    scrolled = page.evaluate(
        """(() => { const table = document.querySelector(".benchmark"); table.parentElement.scrollLeft = 200;
        return [table.getBoundingClientRect().left, table.querySelector("td").getBoundingClientRect().left]; })()"""
    )
    assert scrolled[0] < 0 < scrolled[1]
    page.close()

"""The page of a trust study in Chromium: nothing is too wide, overlaps, complains or asks the network."""

from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.reports.examples import opened, overlap, too_wide, trust

pytestmark = pytest.mark.browser
widths = pytest.mark.parametrize("width", [1280, 390])


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")]
)
def test_the_page_in_a_browser(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    page = opened(browser, tmp_path, trust(), width, scheme)
    page.evaluate(
        'document.querySelectorAll("details").forEach(details => { details.open = true; })'
    )
    assert too_wide(page, "html", "section > div", ".many", ".copy pre", ".drawing") == []
    if width > 1000:
        assert too_wide(page, ".scroll") == [], "the table needs no scrolling where there is room"
    shown = page.evaluate(
        """[...document.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect()).filter(box => box.width > 0)
        .map(box => [box.width, box.height])"""
    )
    assert len(shown) == 1 + 20 + 1 + 1 + 1, (
        "bars, clouds, strips, heat map, costs: one drawing of two is shown"
    )
    assert all(w > 250 and h > 200 for w, h in shown)
    page.close()


@widths
def test_texts_stay_in_their_charts_and_ticks_keep_apart(
    browser: Any, tmp_path: Path, width: int
) -> None:
    page = opened(browser, tmp_path, trust(), width)
    found = page.evaluate(
        """[...document.querySelectorAll(".chart")].filter(chart => chart.checkVisibility()).map(chart => {
        const frame = chart.getBoundingClientRect();
        const boxes = kind => [...chart.querySelectorAll(kind)].map(text => text.getBoundingClientRect());
        return [Math.max(...boxes("text").map(box => Math.max(frame.left - box.left, box.right - frame.right))),
                boxes(".tick").map(box => [box.left, box.right])]; })"""
    )
    assert max(beyond for beyond, _ in found) <= 1
    assert sum(len(ticks) > 1 for _, ticks in found) >= 12
    assert all(a[1] + 2 < b[0] for _, ticks in found for a, b in pairwise(sorted(ticks)))
    page.close()


@widths
def test_names_of_costs_do_not_overlap(browser: Any, tmp_path: Path, width: int) -> None:
    page = opened(browser, tmp_path, trust(), width)
    boxes = page.evaluate(
        """[...document.querySelectorAll("svg")].filter(svg => svg.querySelector(".offer")).map(svg =>
        [...svg.querySelectorAll(".name")].map(name => name.getBoundingClientRect()).filter(box => box.width > 0)
        .map(box => [box.left, box.top + 2, box.width, box.height - 4])).flat()"""
    )
    assert len(boxes) >= 10
    assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]
    page.close()


def test_the_name_of_a_proxy_stays_when_the_table_scrolls(browser: Any, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, trust(), 390)
    scrolled = page.evaluate(
        """(() => { const table = document.querySelector(".benchmark"); table.parentElement.scrollLeft = 200;
        return [table.getBoundingClientRect().left, table.querySelector("td").getBoundingClientRect().left]; })()"""
    )
    assert scrolled[0] < 0 < scrolled[1]
    page.close()

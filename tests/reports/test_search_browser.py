"""The page of a report in Chromium: nothing is too wide, overlaps, logs errors or uses the network."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.reports.examples import CELLS, find_too_wide, make_contest, make_summary, open_page


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_fits_a_browser_window(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    long = replace(make_summary().ranking[0], arch="x" * 400, spread=0.25)
    rows = (long, *make_summary().ranking[1:])
    page = open_page(
        browser, tmp_path, make_summary(ranking=rows, seeds=3, stopped_early=True), width, scheme
    )
    assert (
        find_too_wide(page, "html", ".rank", ".copy pre", ".drawing.wide", ".drawing.narrow") == []
    )
    drawn = page.evaluate(
        """[...document.querySelectorAll("svg")].map(svg => [svg, svg.getBoundingClientRect()]).map(([svg, box]) =>
        [svg.getAttribute("class"), box.width, box.height, svg.querySelectorAll("circle, rect").length])
        .filter(row => row[1] > 0)"""
    )
    assert [kind for kind, *_ in drawn] == ["cell", "chart", "chart", "chart"], (
        "one drawing of two is shown"
    )
    assert all(w > 250 and h > 100 and marks >= 10 for _, w, h, marks in drawn)
    assert [marks for *_, marks in drawn][2:] == [95, 95]
    assert page.locator("button:visible").count() == 2
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_the_contest_fits_a_browser_window_and_the_winner_has_the_accent_colour(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    summary = make_summary()
    contest = make_contest([row.arch for row in summary.ranking])
    page = open_page(browser, tmp_path, replace(summary, contest=contest), width, scheme)
    assert find_too_wide(page, "html", ".copy pre") == []
    colours = page.evaluate(
        """[".entry.top", ".entry"].map(name => getComputedStyle(document.querySelector(name)).stroke)"""
    )
    accent = {"light": "rgb(194, 65, 12)", "dark": "rgb(255, 154, 92)"}[scheme]
    assert colours[0] == accent != colours[1]
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["mixed", "101 chain"])
def test_labels_fit_their_boxes(browser: Any, tmp_path: Path, name: str) -> None:
    page = open_page(browser, tmp_path, make_summary(diagram=CELLS[name]), 1280)
    slack = page.evaluate(
        """[...document.querySelectorAll(".wide .tag, .wide .node")].map(group => {
        const [box, text] = ["rect", "text"].map(tag => group.querySelector(tag).getBoundingClientRect());
        return Math.min(text.left - box.left, box.right - text.right, text.top - box.top, box.bottom - text.bottom);
        })"""
    )
    assert len(slack) == len(CELLS[name].nodes) + sum(
        bool(label) for *_, label in CELLS[name].edges
    )
    assert min(slack) > 1
    page.close()


@pytest.mark.browser
def test_tick_labels_do_not_overlap(browser: Any, tmp_path: Path) -> None:
    page = open_page(browser, tmp_path, make_summary(), 390)
    rows = page.evaluate(
        """[...document.querySelectorAll(".chart")].map(chart => [...chart.querySelectorAll(".tick")].map(tick => {
        const box = tick.getBoundingClientRect(); return [box.left, box.right]; }))"""
    )
    assert all(len(ticks) >= 3 for ticks in rows)
    assert all(a[1] + 4 < b[0] for ticks in rows for a, b in pairwise(ticks))
    page.close()

"""How a search went, on its page: the best so far, the front, the limits, and what the strategy believed."""

import re

from tests.reports.examples import summary
from untrained.reports.pages.progress_sections import (
    make_front_section,
    make_limits_section,
    make_progress_section,
)
from untrained.reports.pages.search_page import render_search_page
from untrained.reports.pages.strategy_trace import make_trace_section
from untrained.reports.search_summary import LimitResult, Tradeoff


def levels(section: str) -> list[float]:
    """Heights of the line of the best so far, without repetition."""
    (path,) = re.findall(r'class="course" d="([^"]*)"', section)
    heights = [float(place.split(",")[1]) for place in re.split("[ML]", path)[1:]]
    return list(dict.fromkeys(heights))


def test_the_best_so_far_only_rises_and_says_when_it_was_found():
    told = make_progress_section(
        summary(scores_in_order=(3.0, 1.0, 5.0, 4.0, 5.0), higher_is_better=True)
    )
    heights = levels(told)
    assert len(heights) == 2
    assert heights[1] < heights[0]  # y grows downwards
    assert "The best score was the 3rd of 5" in told


def test_where_lower_is_better_the_best_so_far_only_falls():
    told = make_progress_section(
        summary(scores_in_order=(3.0, 4.0, 2.0, 1.0), higher_is_better=False)
    )
    heights = levels(told)
    assert len(heights) == 3
    assert heights == sorted(heights)
    assert "The best score was the 4th of 4" in told


def test_one_score_has_no_course():
    assert make_progress_section(summary(scores_in_order=(3.0,))) == ""


def test_the_front_joins_what_is_beaten_by_none():
    points = (
        (100.0, 1.0, "small", True),
        (300.0, 3.0, "large", True),
        (300.0, 2.0, "beaten", False),
    )
    told = make_front_section(summary(tradeoff=Tradeoff("params", False, 2, points)))
    assert "2 of 3 architectures are on the Pareto front of 2 objectives" in told
    assert "params (lower is better)" in told
    assert told.count("<circle") == 2
    assert (path := re.search(r'class="front" d="([^"]*)"', told))
    assert path[1].count(",") == 2
    assert [name for name in ("small", "large", "beaten") if f"<code>{name}</code>" in told] == [
        "small",
        "large",
    ]


def test_a_front_of_three_objectives_is_not_joined_in_the_plane_of_two():
    points = ((1.0, 1.0, "a", True), (2.0, 0.5, "b", True))
    told = make_front_section(summary(tradeoff=Tradeoff("params", False, 3, points)))
    assert 'class="front"' not in told
    assert "Pareto front of 3 objectives" in told


def test_every_limit_stands_beside_what_the_best_has():
    rows = (
        LimitResult("max_params", "1M", 12, 732_000.0),
        LimitResult("max_memory", "300MB", 0, 12_300_000.0),
        LimitResult("max_latency", "5ms@cpu", 1_234, 0.0041),
    )
    told = make_limits_section(summary(limits=rows))
    for shown in ("1M", "732 k", "12.3 MB", "5ms@cpu", "4.10 ms", "1,234", "was measured"):
        assert shown in told
    assert "was measured" not in make_limits_section(summary(limits=rows[:1]))
    assert make_limits_section(summary()) == ""


def test_what_a_strategy_believed_is_a_folded_table_of_its_steps():
    trace = ({"mu": 0.01, "arch": "<a>", "value": None}, {"mu": 1.0, "arch": "b", "value": 0.93})
    told = make_trace_section(summary(trace=trace))
    assert told.count("<details>") == 1
    assert told.count("<tr>") == 3
    assert "&lt;a&gt;" in told
    assert "0.9300" in told
    assert "<code>\u2013</code>" in told


def test_steps_within_a_step_are_tables_of_their_own():
    nasi = {
        "arch": "a",
        "alpha": [["1<-0", [["skip", 0.5], ["none", None]]]],
        "steps": [{"t": 1.0}, {"t": 2.0}],
    }
    told = make_trace_section(summary(trace=(nasi,)))
    assert told.count("<details>") == 3
    assert "Step 1: alpha" in told
    assert "skip 0.5000" in told
    assert "none \u2013" in told


def test_a_long_trace_is_thinned():
    told = make_trace_section(summary(trace=tuple({"best": float(i)} for i in range(1000))))
    assert "100 of 1,000" in told
    assert told.count("<tr>") == 101


def test_a_page_without_any_of_it_has_no_empty_sections():
    page = render_search_page(summary())
    for title in ("Search progress", "Pareto front", "Limits", "Strategy trace"):
        assert title not in page

"""Sections about the progress of a search: best score so far, Pareto front, limits, strategy trace."""

import re

from tests.reports.examples import make_summary
from untrained.reports.pages.progress_sections import (
    make_front_section,
    make_limits_section,
    make_progress_section,
)
from untrained.reports.pages.search_page import render_search_page
from untrained.reports.pages.strategy_trace import make_trace_section
from untrained.reports.search_summary import LimitResult, Tradeoff, TradeoffPoint


def read_levels(html: str) -> list[float]:
    """Return the heights of the line of the best score so far, without repetition."""
    (path,) = re.findall(r'class="progress" d="([^"]*)"', html)
    heights = [float(place.split(",")[1]) for place in re.split("[ML]", path)[1:]]
    return list(dict.fromkeys(heights))


def test_the_best_score_so_far_never_falls():
    section = make_progress_section(
        make_summary(scores_in_order=(3.0, 1.0, 5.0, 4.0, 5.0), higher_is_better=True)
    )
    heights = read_levels(section)
    assert len(heights) == 2
    assert heights[1] < heights[0]  # y grows downwards
    assert "The best score was the 3rd of 5" in section


def test_if_lower_is_better_the_best_score_so_far_never_rises():
    section = make_progress_section(
        make_summary(scores_in_order=(3.0, 4.0, 2.0, 1.0), higher_is_better=False)
    )
    heights = read_levels(section)
    assert len(heights) == 3
    assert heights == sorted(heights)
    assert "The best score was the 4th of 4" in section


def test_one_score_has_no_progress_chart():
    assert make_progress_section(make_summary(scores_in_order=(3.0,))) == ""


def test_the_front_connects_architectures_that_none_dominates():
    points = (
        TradeoffPoint(100.0, 1.0, "small", True),
        TradeoffPoint(300.0, 3.0, "large", True),
        TradeoffPoint(300.0, 2.0, "beaten", False),
    )
    section = make_front_section(make_summary(tradeoff=Tradeoff("params", False, 2, points)))
    assert "2 of 3 architectures are on the Pareto front of 2 objectives" in section
    assert "params (lower is better)" in section
    assert section.count("<circle") == 2
    assert (path := re.search(r'class="front" d="([^"]*)"', section))
    assert path[1].count(",") == 2
    assert [name for name in ("small", "large", "beaten") if f"<code>{name}</code>" in section] == [
        "small",
        "large",
    ]


def test_scores_of_the_front_are_not_rounded_to_counts():
    """A proxy that is an objective may have scores below 1."""
    points = (TradeoffPoint(0.531, 1.0, "a", True), TradeoffPoint(0.127, 2.0, "b", True))
    section = make_front_section(make_summary(tradeoff=Tradeoff("zico", True, 2, points)))
    assert re.findall(r'<td class="num">([^<]*)</td>', section) == ["0.1270", "0.5310"]
    assert "<title>a\n1.000, 0.5310</title>" in section


def test_a_front_of_three_objectives_is_not_drawn_as_a_line():
    points = (TradeoffPoint(1.0, 1.0, "a", True), TradeoffPoint(2.0, 0.5, "b", True))
    section = make_front_section(make_summary(tradeoff=Tradeoff("params", False, 3, points)))
    assert 'class="front"' not in section
    assert "Pareto front of 3 objectives" in section


def test_every_limit_is_shown_with_the_value_of_the_best():
    rows = (
        LimitResult("max_params", "1M", 12, 732_000.0),
        LimitResult("max_memory", "300MB", 0, 12_300_000.0),
        LimitResult("max_latency", "5ms@cpu", 1_234, 0.0041),
    )
    section = make_limits_section(make_summary(limits=rows))
    for shown in ("1M", "732 k", "12.3 MB", "5ms@cpu", "4.10 ms", "1,234", "was measured"):
        assert shown in section
    assert "was measured" not in make_limits_section(make_summary(limits=rows[:1]))


def test_the_latency_was_measured_on_the_device_of_the_limit():
    for requested, origin in (
        ("5ms", "measured on a CPU with one thread."),
        ("5ms@cpu", "measured on a CPU with one thread."),
        ("5ms@cuda:1", "measured on cuda:1."),
    ):
        rows = (LimitResult("max_latency", requested, 0, 0.0041),)
        section = make_limits_section(make_summary(limits=rows))
        assert f"The latency of the best architecture was {origin}" in section


def test_without_limits_there_is_no_section():
    assert make_limits_section(make_summary()) == ""


def test_the_trace_of_a_strategy_is_a_folded_table_of_its_steps():
    trace = ({"mu": 0.01, "arch": "<a>", "value": None}, {"mu": 1.0, "arch": "b", "value": 0.93})
    section = make_trace_section(make_summary(trace=trace))
    assert section.count("<details>") == 1
    assert section.count("<tr>") == 3
    assert "&lt;a&gt;" in section
    assert "0.9300" in section
    assert "<code>\u2013</code>" in section


def test_nested_steps_are_separate_tables():
    nasi = {
        "arch": "a",
        "alpha": [["1<-0", [["skip", 0.5], ["none", None]]]],
        "steps": [{"t": 1.0}, {"t": 2.0}],
    }
    section = make_trace_section(make_summary(trace=(nasi,)))
    assert section.count("<details>") == 3
    assert "Step 1: alpha" in section
    assert "skip 0.5000" in section
    assert "none \u2013" in section


def test_a_long_trace_is_thinned():
    section = make_trace_section(make_summary(trace=tuple({"best": float(i)} for i in range(1000))))
    assert "100 of 1,000" in section
    assert section.count("<tr>") == 101


def test_a_page_without_progress_has_no_empty_sections():
    page = render_search_page(make_summary())
    for title in ("Search progress", "Pareto front", "Limits", "Strategy trace"):
        assert title not in page

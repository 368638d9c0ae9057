"""The page of a report, read as text: what it says, in which order, and what it leaves out."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.reports.examples import summary
from untrained.reports.confirmation_result import Confirmation, Group
from untrained.reports.pages.search_page import make_search_headline, render_search_page
from untrained.reports.search_summary import FailedArch, RankedArch, WorkerTimes
from untrained.spaces.core.diagrams import CellGraph


def body_of(page: str) -> str:
    """The body without style, script and places to break a line; a space before each tag."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page[page.index("<body>") :], flags=re.S)
    return re.sub(
        r"\s+", " ", re.sub(r"<wbr>", "", body).replace("\u00a0", " ").replace("<", " <")
    ).strip()


def test_a_winner_that_another_outscored_is_told_as_one():
    won = Confirmation(
        summary().ranking[3].arch,
        70.0,
        (),
        (Group("dextr", "", (), ()),),
        (),
        5,
        480,
        "clicks",
        1.0,
    )
    run = summary(confirmation=won)
    assert make_search_headline(run).startswith("Best by training, number 4 of 94 by score: score ")


def test_the_page_tells_the_result_in_order() -> None:
    best = replace(summary().ranking[0], params=1.073e6, flops=153.6e6)
    run = summary(ranking=(best, *summary().ranking[1:]))
    assert (
        make_search_headline(run)
        == "Best of 94: score 3.91, 1.07 M parameters, 154 M multiply-adds."
    )
    seen = body_of(render_search_page(run))
    order = [
        make_search_headline(run), "Higher is better.",
        "The search examined 100 of 15,625 architectures", "6 of them have no score",
        "Best architecture", "Ranking", "The other 44", "Score distribution", "Score against size",
        "Spearman rank correlation",
        "Failures", "Cost", "3.1 s", "49 s", "1 min 12 s", "0.72 s (100 architectures)", "Settings", "seed", "torch",
        "Command", "untrained search",
    ]  # fmt: skip
    places = [seen.find(words) for words in order]
    assert -1 not in places
    assert places == sorted(places)


def test_the_page_asks_the_network_for_nothing() -> None:
    page = render_search_page(summary())
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\ssrc=", page)
    assert "default-src 'none'" in page
    assert re.findall(r'<link [^>]*href="([^"]*)"', page) == ["data:,"]


def test_every_string_is_escaped() -> None:
    evil = '<img src=x onerror="alert(1)">&'
    row = RankedArch(1, evil, 1.0, 0.1, 1.0, 1.0)
    page = render_search_page(
        summary(
            title=evil, command=evil, space=evil, proxy=evil, proxy_about=evil, made_on=evil,
            ranking=(row, replace(row, rank=2, score=0.5)), failed=(FailedArch(evil, evil, evil),),
            diagram=CellGraph((evil, evil), ((0, 1, evil),)),
            settings={evil: evil}, versions={evil: evil}, cost={evil: 1.0},
        )
    )  # fmt: skip
    assert "<img" not in page
    assert 'onerror="' not in page
    assert page.count("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;") >= 20


def test_a_run_without_a_score_says_so() -> None:
    page = render_search_page(summary(count=0, failures=3, diagram=None))
    seen = body_of(page)
    assert "No architecture has a score: 3 architectures, all failed." in seen
    assert "No architecture has a score." in seen
    assert "<svg" not in page
    assert "Nothing was scored." in body_of(
        render_search_page(summary(count=0, failures=0, cost={}))
    )


def test_one_architecture_needs_no_distribution() -> None:
    page = render_search_page(summary(count=1, failures=0))
    assert "Best of 1: score 3.91" in page
    assert 'class="chart"' not in page
    assert 'class="cell"' in page
    assert "There were no failures." in page


def test_a_lower_score_can_be_better() -> None:
    rows = tuple(RankedArch(i + 1, f"a{i}", 1.0 + i, None, 1e5 * (i + 1)) for i in range(20))
    seen = body_of(render_search_page(summary(ranking=rows, higher_is_better=False)))
    assert "Lower is better." in seen
    assert "igher is better" not in seen
    assert "score (lower is better)" in seen
    assert "Best of 24" not in seen
    assert re.search(r"<dt>Best <\/dt> <dd>1\.00+ <\/dd>", seen)


def test_failures_are_counted_by_kind_with_their_first_example() -> None:
    seen = body_of(render_search_page(summary(failures=6)))
    rows = re.findall(
        r"<code>(disconnected|nan) </code> </td> <td class=\"num\">(\d+) </td>.*?<p>(detail \d)",
        seen,
    )
    assert rows == [("disconnected", "4", "detail 0"), ("nan", "2", "detail 2")]


@pytest.mark.parametrize(
    ("size", "correlation", "verdict"),
    [
        (lambda i: 1e6 - 1e4 * i, "1.00", "little more than a ranking by size"),
        (lambda i: 1e6 + 1e4 * i, "\u22121.00", "little more than a ranking by size"),
        (lambda i: 1e6 + 1e4 * (i % 2), "0.", "Size alone does not explain this ranking"),
    ],
)
def test_the_correlation_with_size_is_told(size: Any, correlation: str, verdict: str) -> None:
    rows = tuple(RankedArch(i + 1, f"a{i}", 50.0 - i, None, size(i)) for i in range(40))
    seen = body_of(render_search_page(summary(ranking=rows)))
    assert re.search(
        rf"correlation of the score: \u2212?{re.escape(correlation.lstrip(chr(0x2212)))}\d* with parameters",
        seen,
    )
    assert verdict in seen
    assert "with multiply-adds" not in seen


@pytest.mark.parametrize("params", [None, 1e6])
def test_no_correlation_without_three_different_sizes(params: float | None) -> None:
    rows = tuple(RankedArch(i + 1, f"a{i}", 5.0 - i, None, params) for i in range(4))
    seen = body_of(render_search_page(summary(ranking=rows)))
    assert "Spearman" not in seen
    assert ("Neither parameters nor multiply-adds were measured." in seen) == (params is None)


def test_missing_numbers_are_dashes_and_empty_columns_are_left_out() -> None:
    rows = (RankedArch(1, "a", 2.0, 0.1, 1e6, margin=0.2), RankedArch(2, "b", 1.0, None, None))
    page = render_search_page(summary(ranking=rows, seeds=3))
    assert re.findall(r'<th scope="col" class="[^"]*">([^<]*)</th>', page)[:5] == [
        "Rank",
        "Architecture",
        "Score",
        "\u00b1",
        "Params",
    ]
    assert page.count("\u2013</td>") == 2
    assert "means over 3 seeds" in page
    assert "FLOPs" not in page


def test_what_the_seeds_cannot_tell_from_the_best_is_marked() -> None:
    rows = [
        RankedArch(1, "a", 2.0, 0.1, margin=0.2),
        RankedArch(2, "b", 1.9, 0.3, margin=0.7, tied=True),
    ]
    page = render_search_page(
        summary(ranking=(*rows, RankedArch(3, "c", 1.0, 0.1, margin=0.2)), seeds=3)
    )
    assert re.findall(r'<td class="num soft">(= \d|\d)</td>', page) == ["1", "= 2", "3"]
    assert "not significantly worse than the best" in page


def test_an_interrupted_run_tells_how_to_go_on() -> None:
    early = body_of(
        render_search_page(summary(stopped_early=True, ending="Stopped by Ctrl-C: go on."))
    )
    whole = body_of(render_search_page(summary()))
    assert "Stopped by Ctrl-C: go on." in early
    assert "Resume" in early
    assert "Stopped" not in whole
    assert "Command" in whole


def test_the_first_trace_of_each_kind_of_failure_is_there_and_safe_to_show() -> None:
    kinds = [
        ("error", ""),
        ("error", "File <a>, line 3\nValueError"),
        ("error", "another"),
        ("nan", ""),
    ]
    failed = tuple(
        FailedArch(f"arch{i}", kind, "why", trace) for i, (kind, trace) in enumerate(kinds)
    )
    page = render_search_page(summary(failed=failed))
    assert re.findall(r"<pre>(File[^<]*)</pre>", page) == ["File &lt;a&gt;, line 3\nValueError"]
    assert "another" not in page


def test_workers_are_shown_where_there_were_several_or_one_died() -> None:
    first = WorkerTimes("process 1", 60, 3.0, 1.0, 20.0, 6.0)
    second = WorkerTimes("process 2", 40, 2.0, 0.0, 21.0, 0.0, deaths=2)
    page = render_search_page(summary(workers=(first, second)))
    rows = [
        re.findall(r"<td[^>]*>([^<]*)</td>", row)
        for row in re.findall(r"<tr><td class=\"\">process.*?</tr>", page)
    ]
    assert rows == [
        ["process 1", "60", "3 s", "1 s", "20 s", "6 s", "0"],
        ["process 2", "40", "2 s", "0 s", "21 s", "0 s", "2"],
    ]
    assert "process 1" not in render_search_page(summary(workers=(first,)))
    assert "process 2" in render_search_page(summary(workers=(second,)))


def test_what_was_screened_and_what_must_be_said_of_scores() -> None:
    seen = body_of(
        render_search_page(
            summary(screening="Screened 500 by params and kept 100.", notes=("measured on 32",))
        )
    )
    assert (
        "Screened 500 by params and kept 100. The search examined 100 of 15,625 architectures"
        in seen
    )
    assert "Note on some scores: measured on 32." in seen
    assert "Peak GPU memory" not in seen
    assert "<dt>Peak GPU memory</dt><dd>3 MiB</dd>" in render_search_page(
        summary(peak_bytes=3 * 2**20)
    )

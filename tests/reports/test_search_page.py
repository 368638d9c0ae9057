"""The page of a search, read as text: its content, its order, and what is left out."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.reports.examples import make_summary
from untrained.drawings.diagrams import CellGraph
from untrained.reports.confirmation_result import Confirmation
from untrained.reports.group_comparison import TrainedGroup
from untrained.reports.pages.search_page import make_search_headline, render_search_page
from untrained.reports.search_summary import (
    ConsensusSummary,
    FailedArch,
    RankedArch,
    WorkerTimes,
)


def extract_body(page: str) -> str:
    """Return the body without style, script and line-break tags; with a space before each tag."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page[page.index("<body>") :], flags=re.S)
    text = body.replace("<wbr>", "").replace("\u00a0", " ").replace("<", " <")
    return re.sub(r"\s+", " ", text).strip()


def test_the_headline_says_that_training_selected_a_lower_score():
    confirmation = Confirmation(
        make_summary().ranking[3].arch,
        70.0,
        (),
        (TrainedGroup("dextr", "", (), ()),),
        (),
        5,
        480,
        "clicks",
        1.0,
    )
    run = make_summary(confirmation=confirmation)
    assert make_search_headline(run).startswith(
        "Best searched network of the contest, rank 4 of 94 by score: score "
    )


def test_the_page_shows_the_result_in_order() -> None:
    best = replace(make_summary().ranking[0], params=1.073e6, flops=153.6e6)
    run = make_summary(ranking=(best, *make_summary().ranking[1:]))
    assert (
        make_search_headline(run)
        == "Best of 94: score 3.91, 1.07 M parameters, 154 M multiply-adds."
    )
    text = extract_body(render_search_page(run))
    order = [
        make_search_headline(run), "Higher is better.",
        "The search examined 100 of 15,625 architectures", "6 of them have no score",
        "Best architecture", "Ranking", "The other 44", "Score distribution", "Score against size",
        "Spearman rank correlation",
        "Failures", "Cost", "3.1 s", "49 s", "1 min 12 s", "0.72 s (100 architectures)", "Settings", "seed", "torch",
        "Command", "untrained search",
    ]  # fmt: skip
    places = [text.find(words) for words in order]
    assert -1 not in places
    assert places == sorted(places)


def test_the_page_does_not_use_the_network() -> None:
    page = render_search_page(make_summary())
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\ssrc=", page)
    assert "default-src 'none'" in page
    assert re.findall(r'<link [^>]*href="([^"]*)"', page) == ["data:,"]


def test_every_string_is_escaped() -> None:
    evil = '<img src=x onerror="alert(1)">&'
    row = RankedArch(1, evil, 1.0, 0.1, 1.0, 1.0)
    page = render_search_page(
        make_summary(
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
    page = render_search_page(make_summary(count=0, failures=3, diagram=None))
    text = extract_body(page)
    assert "No architecture has a score; 3 failed." in text
    assert "No architecture has a score." in text
    assert "<svg" not in page
    assert "Nothing was scored." in extract_body(
        render_search_page(make_summary(count=0, failures=0, cost={}))
    )


def test_one_architecture_needs_no_distribution() -> None:
    page = render_search_page(make_summary(count=1, failures=0))
    assert "Best of 1: score 3.91" in page
    assert 'class="chart"' not in page
    assert 'class="cell"' in page
    assert "There were no failures." in page


def test_a_lower_score_can_be_better() -> None:
    rows = tuple(RankedArch(i + 1, f"a{i}", 1.0 + i, None, 1e5 * (i + 1)) for i in range(20))
    text = extract_body(render_search_page(make_summary(ranking=rows, higher_is_better=False)))
    assert "Lower is better." in text
    assert "igher is better" not in text
    assert "score (lower is better)" in text
    assert "Best of 24" not in text
    assert re.search(r"<dt>Best <\/dt> <dd>1\.00+ <\/dd>", text)


def test_failures_are_counted_by_kind_with_their_first_example() -> None:
    text = extract_body(render_search_page(make_summary(failures=6)))
    rows = re.findall(
        r"<code>(disconnected|nan) </code> </td> <td class=\"num\">(\d+) </td>.*?<p>(detail \d)",
        text,
    )
    assert rows == [("disconnected", "4", "detail 0"), ("nan", "2", "detail 2")]


@pytest.mark.parametrize(
    ("size", "correlation", "verdict"),
    [
        (lambda i: 1e6 - 1e4 * i, "1.00", "Size determines the ranking almost entirely"),
        (lambda i: 1e6 + 1e4 * i, "\u22121.00", "Size determines the ranking almost entirely"),
        (lambda i: 1e6 + 1e4 * (i % 2), "0.", "The ranking depends little on size"),
    ],
)
def test_the_correlation_with_size_is_shown(size: Any, correlation: str, verdict: str) -> None:
    rows = tuple(RankedArch(i + 1, f"a{i}", 50.0 - i, None, size(i)) for i in range(40))
    text = extract_body(render_search_page(make_summary(ranking=rows)))
    assert re.search(
        rf"correlation of the score: \u2212?{re.escape(correlation.lstrip(chr(0x2212)))}\d* with parameters",
        text,
    )
    assert verdict in text
    assert "with multiply-adds" not in text


@pytest.mark.parametrize("params", [None, 1e6])
def test_there_is_no_correlation_without_three_different_sizes(params: float | None) -> None:
    rows = tuple(RankedArch(i + 1, f"a{i}", 5.0 - i, None, params) for i in range(4))
    text = extract_body(render_search_page(make_summary(ranking=rows)))
    assert "Spearman" not in text
    assert ("Neither parameters nor multiply-adds were measured." in text) == (params is None)


def test_missing_numbers_are_dashes_and_empty_columns_are_left_out() -> None:
    rows = (RankedArch(1, "a", 2.0, 0.1, 1e6, margin=0.2), RankedArch(2, "b", 1.0, None, None))
    page = render_search_page(make_summary(ranking=rows, seeds=3))
    assert re.findall(r'<th scope="col" class="[^"]*">([^<]*)</th>', page)[:5] == [
        "Rank",
        "Architecture",
        "Score",
        "\u00b1",
        "Params",
    ]
    assert page.count("\u2013</td>") == 2
    assert "means over 3 seeds" in page
    single = render_search_page(make_summary(ranking=rows, seeds=1))
    assert "Scores are means" not in single
    assert "Median standard deviation over seeds" not in single
    assert "FLOPs" not in page


def test_ties_with_the_best_are_marked() -> None:
    rows = [
        RankedArch(1, "a", 2.0, 0.1, margin=0.2),
        RankedArch(2, "b", 1.9, 0.3, margin=0.7, tied=True),
    ]
    page = render_search_page(
        make_summary(ranking=(*rows, RankedArch(3, "c", 1.0, 0.1, margin=0.2)), seeds=3)
    )
    assert re.findall(r'<td class="num soft">(= \d|\d)</td>', page) == ["1", "= 2", "3"]
    assert "not significantly worse than the best" in page


def test_an_interrupted_run_shows_how_to_resume() -> None:
    interrupted = extract_body(
        render_search_page(make_summary(stopped_early=True, ending="Stopped by Ctrl-C: resume."))
    )
    finished = extract_body(render_search_page(make_summary()))
    assert "Stopped by Ctrl-C: resume." in interrupted
    assert "Resume" in interrupted
    assert "Stopped" not in finished
    assert "Command" in finished
    assert "Repeats this search; the scores are the same." in finished
    timed = extract_body(render_search_page(make_summary(has_timed_trainings=True)))
    assert "Trainings depend on the time that they get, so results can differ." in timed


def test_the_first_traceback_of_each_kind_of_failure_is_shown_and_escaped() -> None:
    kinds = [
        ("error", ""),
        ("error", "File <a>, line 3\nValueError"),
        ("error", "another"),
        ("nan", ""),
    ]
    failed = tuple(
        FailedArch(f"arch{i}", kind, "why", trace) for i, (kind, trace) in enumerate(kinds)
    )
    page = render_search_page(make_summary(failed=failed))
    assert re.findall(r"<pre>(File[^<]*)</pre>", page) == ["File &lt;a&gt;, line 3\nValueError"]
    assert "another" not in page


def test_workers_are_shown_if_there_are_several_or_one_died() -> None:
    first = WorkerTimes("process 1", 60, 3.0, 1.0, 20.0, 6.0)
    second = WorkerTimes("process 2", 40, 2.0, 0.0, 21.0, 0.0, crashes=2)
    page = render_search_page(make_summary(workers=(first, second)))
    rows = [
        re.findall(r"<td[^>]*>([^<]*)</td>", row)
        for row in re.findall(r"<tr><td class=\"\">process.*?</tr>", page)
    ]
    assert rows == [
        ["process 1", "60", "3 s", "1 s", "20 s", "6 s", "0"],
        ["process 2", "40", "2 s", "0 s", "21 s", "0 s", "2"],
    ]
    assert "process 1" not in render_search_page(make_summary(workers=(first,)))
    assert "process 2" in render_search_page(make_summary(workers=(second,)))


def test_the_page_shows_the_screening_and_the_notes() -> None:
    text = extract_body(
        render_search_page(
            make_summary(
                screening="Screened 500 by params and kept 100.", notes=("measured on 32",)
            )
        )
    )
    assert (
        "Screened 500 by params and kept 100. The search examined 100 of 15,625 architectures"
        in text
    )
    assert "Some scores have a note: measured on 32." in text
    assert "Peak GPU memory" not in text
    assert "<dt>Peak GPU memory</dt><dd>3 MiB</dd>" in render_search_page(
        make_summary(peak_bytes=3 * 2**20)
    )


def test_the_members_of_a_consensus_are_shown_with_their_weights() -> None:
    consensus = ConsensusSummary(
        label="consensus",
        description="The 2 proxies of consensus agree by 0.71.",
        reference_size=64,
        weights=(("flops", 0.625), ("naswot(samples=16)", 0.375)),
        left_out=(("<meco>", "failed on 40 of 64 reference networks"),),
    )
    page = extract_body(render_search_page(make_summary(consensus=(consensus,))))
    assert "Members of consensus" in page
    assert "agree by 0.71" in page
    assert "62 %" in page
    assert "38 %" in page
    assert "none: it failed on 40 of 64 reference networks" in page
    assert "&lt;meco&gt;" in page
    assert "<meco>" not in page
    assert "Members of" not in render_search_page(make_summary())
    assert "among 64 random networks of the space" in page
    assert "The weights come from the agreement between the members" in page
    single = replace(consensus, reference_size=1)
    page = extract_body(render_search_page(make_summary(consensus=(single,))))
    assert "among 1 random network of the space" in page
    assert "The weights are equal" in page


def test_the_page_says_where_the_exported_model_is():
    page = extract_body(render_search_page(make_summary(export="my model")))
    text = page.replace("<wbr>", "")
    assert "The trained winner is in the folder my model." in text
    assert "python &#x27;my model/predict.py&#x27; FILE ..." in text
    assert "Exported model" not in extract_body(render_search_page(make_summary()))

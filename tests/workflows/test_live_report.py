"""The page of a search in progress: what it shows, what replaces it, and what a kill leaves."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

import untrained as ut
from tests.records import make_record
from untrained.errors import UsageError
from untrained.progress import BestSoFar, Progress
from untrained.reports.contest_result import ContestEntry, RoundResult
from untrained.reports.live_summary import FailureCount, LivePhase, LiveSummary
from untrained.reports.pages.live_page import render_live_page
from untrained.runs.session import SESSION_FILE
from untrained.types import Arch, Failure, Record, Task
from untrained.workflows import live_report
from untrained.workflows.live_report import BestTracker, LiveReport
from untrained.workflows.report import RELOAD_SECONDS

RELOAD = f'<meta http-equiv="refresh" content="{RELOAD_SECONDS}">'
TASK = Task("noise", (3, 8, 8), 4)
SPACE = "nasbench201(channels=2,cells=1)"
CONTEST_STATE = (
    '{"entries": [{"number": 1, "arch": "a", "selections": ["random"], "rate": 0.1, "rounds": []}]}'
)


@pytest.fixture
def eager(monkeypatch):
    """Write the first page at once, and a new one without a pause."""
    monkeypatch.setattr(live_report, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(live_report, "MIN_SECONDS", 0.01)
    monkeypatch.setattr(live_report, "MAX_SHARE", 1.0)


def wait_for_text(path: Path, text: str) -> str:
    """Return a page once it contains a text. A test hangs, and then fails, if it never does."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.is_file() and text in path.read_text():
            return path.read_text()
        time.sleep(0.01)
    raise AssertionError(f"{path} never contained {text!r}")


def search_small(run: Path, **options):
    return ut.search(SPACE, options.pop("proxy", "params"), workers=1, run=run, **options)


def test_a_search_shows_its_progress_and_ends_with_the_report(eager, run_folder):
    pages = []

    def on_progress(progress: Progress) -> None:
        if progress.stage == "scoring" and progress.done == 4:
            assert progress.best is not None
            pages.append((progress.best, wait_for_text(run_folder / "report.html", "4 of 6")))

    result = search_small(run_folder, budget=6, on_progress=on_progress)
    ((best, page),) = pages
    assert RELOAD in page
    assert "<script" not in page
    assert '<progress value="4" max="6">' in page
    assert "Best so far" in page
    # Optional line breaks stand between the parts of an architecture.
    assert best.arch in re.sub("<[^>]*>", "", page)
    assert "No failures so far." in page
    report = (run_folder / "report.html").read_text()
    assert 'http-equiv="refresh"' not in report
    assert str(result.best) in re.sub("<[^>]*>", "", report)
    assert not (run_folder / SESSION_FILE).exists()


def test_the_page_says_how_far_the_proxies_agree_before_candidates_are_scored(eager, run_folder):
    pages = []

    def on_progress(progress: Progress) -> None:
        if progress.remark:
            pages.append(wait_for_text(run_folder / "report.html", progress.remark))

    search_small(run_folder, proxy="consensus", budget=2, on_progress=on_progress)
    (page,) = pages
    assert "proxies of consensus have a mean rank correlation of" in page
    assert "Best so far" not in page


@pytest.mark.parametrize("proxy", ["params", "dextr"])
def test_every_event_has_the_best_so_far(run_folder, proxy):
    events: list[Progress] = []
    result = search_small(run_folder, proxy=proxy, budget=5, on_progress=events.append)
    best = None
    count = 0
    for event in events:
        for record in event.records:
            if record.proxy == proxy:
                assert record.value is not None
                count += 1
                if best is None or record.value > best[1]:
                    best = (str(record.arch), record.value)
        if best is None:
            assert event.best is None
        else:
            assert event.best == BestSoFar(*best)
    assert count == 5
    assert best is not None
    assert best[0] == str(result.best)


def score(arch: str, seed: int, value: float | None, measure: str = "m") -> Record:
    error = None
    if value is None:
        error = Failure("nan", f"no value with seed {seed}")
    return make_record(Arch("s", (("name", arch),)), measure, TASK, seed, value, error)


def test_the_tracker_averages_seeds_and_counts_failures():
    tracker = BestTracker("m", higher_is_better=False)
    tracker.add([score("a", 0, 4.0), score("a", 1, 2.0), score("a", 0, 0, "x")])
    assert tracker.best is not None
    assert tracker.best.score == math.fsum((4.0, 2.0)) / 2
    tracker.add([score("b", 0, 1.0), score("b", 1, None)])
    tracker.add([score("c", 0, None), score("c", 1, None)])
    tracker.add([score("d", 0, 5.0), score("d", 1, 6.0)])
    assert tracker.best.score == 3.0
    tracker.add([score("e", 0, 2.0), score("e", 1, 2.5)])
    assert tracker.best.score == 2.25
    assert tracker.scored == 3
    assert tracker.improvements == [(1, 3.0), (3, 2.25)]
    (failure,) = tracker.failures.values()
    assert (failure.kind, failure.count) == ("nan", 2)
    assert failure.detail == "no value with seed 1"
    # Records of other measures, such as those of a reference sample, are no candidates.
    tracker.add([score("f", 0, 0.0, "x")])
    assert tracker.scored == 3


@pytest.mark.parametrize("first_step", [1, 501])
def test_the_remaining_time_of_a_resumed_training_ignores_earlier_steps(first_step, monkeypatch):
    """A step per second: the phase began nine steps ago."""
    clock = [100.0]
    monkeypatch.setattr(live_report, "perf_counter", lambda: clock[0])
    report = live_report.LiveReport()
    for step in range(first_step, first_step + 10):
        report.update(Progress("training", step, 1000))
        clock[0] += 1
    clock[0] -= 1
    phase = live_report._summarise_phase("training", report._phases["training"])
    assert phase.seconds == 9
    assert phase.seconds_left == pytest.approx(1000 - (first_step + 9))


def test_a_short_search_writes_no_page(run_folder, monkeypatch):
    monkeypatch.setattr(live_report, "FIRST_SECONDS", 3600.0)
    search_small(run_folder, budget=2)
    assert not (run_folder / "report.html").exists()


def test_an_error_ends_the_reloading(eager, run_folder):
    def on_progress(progress: Progress) -> None:
        if progress.done == 2:
            wait_for_text(run_folder / "report.html", "2 of 4")
            raise UsageError("the <disk> is full")

    with pytest.raises(UsageError, match="disk"):
        search_small(run_folder, budget=4, on_progress=on_progress)
    page = (run_folder / "report.html").read_text()
    assert 'http-equiv="refresh"' not in page
    assert "This command ended with an error: UsageError: the &lt;disk&gt; is full" in page
    assert not (run_folder / SESSION_FILE).exists()
    search_small(run_folder, budget=4)


KILLED = """
import sys, time
import untrained as ut
from untrained.workflows import live_report
live_report.FIRST_SECONDS = 0.0
live_report.MIN_SECONDS = 0.01
live_report.MAX_SHARE = 1.0
def on_progress(progress):
    if progress.done == 3:
        time.sleep(3600)
ut.search(sys.argv[1], "params", budget=6, workers=1, run=sys.argv[2], on_progress=on_progress)
"""


def test_a_killed_search_says_so_when_it_is_reported_and_resumed(eager, run_folder):
    process = subprocess.Popen([sys.executable, "-c", KILLED, SPACE, str(run_folder)])
    try:
        wait_for_text(run_folder / "report.html", "3 of 6")
        # A report of a running search reloads too, since the search replaces it.
        page = ut.report(run_folder).read_text()
        assert RELOAD in page
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    page = ut.report(run_folder).read_text()
    assert 'http-equiv="refresh"' not in page
    assert "The last session was killed (scoring, 3 of 6 done)." in page
    live_pages = []

    def on_progress(progress: Progress) -> None:
        if progress.done == 5:
            live_pages.append(wait_for_text(run_folder / "report.html", "5 of 6"))

    search_small(run_folder, budget=6, on_progress=on_progress)
    assert "The last session was killed (scoring, 3 of 6 done)." in live_pages[0]
    page = ut.report(run_folder).read_text()
    assert "session was killed" not in page
    assert 'http-equiv="refresh"' not in page
    assert not (run_folder / SESSION_FILE).exists()


def test_a_short_resumed_search_replaces_the_page_of_a_killed_one(run_folder, monkeypatch):
    search_small(run_folder, budget=3)
    (run_folder / SESSION_FILE).write_text('{"phase": "scoring", "done": 1, "total": 3}')
    (run_folder / "report.html").write_text(RELOAD)
    monkeypatch.setattr(live_report, "FIRST_SECONDS", 3600.0)
    search_small(run_folder, budget=3)
    page = (run_folder / "report.html").read_text()
    assert 'http-equiv="refresh"' not in page
    assert "killed" not in page
    assert not (run_folder / SESSION_FILE).exists()


def make_summary(text: str) -> LiveSummary:
    """Return a summary in which every text is the same."""
    rounds = (RoundResult(epochs=1, samples=10, seconds=2.0, accuracy=0.744),)
    entry = ContestEntry(1, text, (text,), rate=0.1, params=1000, rounds=rounds, error=text)
    return LiveSummary(
        title=text,
        command=text,
        space=text,
        proxy=text,
        higher_is_better=True,
        phases=(
            LivePhase("screening", 7, 7, 1.0, is_finished=True),
            LivePhase(text, 20, 80, 60.0, seconds_left=180.0),
        ),
        remark=text,
        scored=5,
        best=BestSoFar(text, 1.5),
        improvements=((1, 1.0), (4, 1.5)),
        failures=(FailureCount(text, 2, text, text),),
        entries=(entry,),
        metrics=((text, text),),
        seconds=75.0,
        earlier_seconds=3600.0,
        written_on=text,
        notice=text,
        ending=text,
        reload_seconds=RELOAD_SECONDS,
    )


def test_the_page_escapes_every_text():
    text = '<b onload="x">&\'"'
    page = render_live_page(make_summary(text))
    head, body = page.split("<body>")
    assert text not in page
    assert "<b onload" not in page
    assert escape(text) in body
    assert RELOAD in head


def test_the_page_shows_phases_contest_and_times():
    page = render_live_page(make_summary("words"))
    text = re.sub("<[^>]*>", " ", page.split("<body>")[1])
    text = re.sub(r"\s+", " ", text)
    assert "screening 7 of 7 1 s finished" in text
    assert "words 20 of 80 1 min about 3 min" in text
    assert "74.4 %" in text
    assert "This session 1 min 15 s Scoring before 1 h" in text
    assert "4 1.5" in text


def test_steps_of_a_training_have_a_unit():
    phases = (LivePhase("training", 84, 700, 5.0),)
    page = render_live_page(replace(make_summary("words"), phases=phases))
    assert "Training: 84 of 700 steps." in page


def test_a_page_of_an_error_does_not_say_that_nothing_failed_so_far():
    summary = replace(make_summary("words"), failures=())
    assert "No architecture failed." in render_live_page(summary)
    assert "No failures so far." in render_live_page(replace(summary, ending=""))


def test_the_page_of_the_final_training_shows_the_contest(eager, run_folder):
    result = search_small(run_folder, budget=2)
    report = LiveReport()
    with report.follow(result.run):
        report.update(Progress("training", 1, 9))
        assert report.summarise(result.run, 1.0).entries == ()
        (run_folder / "contest").mkdir()
        (run_folder / "contest" / "state.json").write_text(CONTEST_STATE)
        (run_folder / "contest.json").write_text("{}")
        (entry,) = report.summarise(result.run, 1.0).entries
        (run_folder / "contest.json").unlink()
    assert entry.arch == "a"


def test_writing_takes_at_most_one_per_cent():
    assert live_report.MAX_SHARE == 0.01
    for seconds in (0.001, 0.03, 0.5, 10.0):
        pause = live_report.choose_pause(seconds)
        assert pause >= live_report.MIN_SECONDS
        assert seconds / (seconds + pause) <= 0.01

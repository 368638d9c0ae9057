"""What the terminal says of the time: an estimate from a few timed architectures, and the account afterwards."""

from contextlib import suppress
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from rich.progress import TextColumn

from tests.cli.helpers import SEARCH
from tests.engine.helpers import RECORD
from untrained._terminal import TIMED, Estimate, _cost
from untrained._terminal_bar import Lines, bar
from untrained.engine import Cost
from untrained.strategies._run import Run, Settings
from untrained.strategies.search import Progress

RUN = Run("run", Settings("s", "p", "random", "noise", 0, 1, "cpu"), "p@1", True, "", 100)


def told(estimate: Estimate, total: int | None, workers: int, moments: list[float], known: int = 0) -> list[str]:
    """What is said after each architecture, the first `known` of which were in the store."""
    said = []
    for done, now in enumerate(moments):
        at = Progress("scoring", done, total, max(0, done - known), workers)
        said.append(estimate.after(at, now))
    return said


def test_the_whole_is_estimated_once_from_four_that_were_timed():
    """Workers start for ten seconds, then half a second each: 1000 take 500 s, and starting is not counted."""
    moments = [0.0, 10.0, *(10.0 + 0.5 * i for i in range(1, 10))]
    said = told(Estimate(), 1000, 1, moments)
    assert said.index("about 8 min 20 s for 1,000 architectures on 1 worker") == 1 + TIMED == 5
    assert [text for text in said if text] == ["about 8 min 20 s for 1,000 architectures on 1 worker"]


def test_four_of_each_worker_are_timed():
    """Four a second on two workers: eight after the first, and 360 take 90 s."""
    said = told(Estimate(), 360, 2, [0.25 * i for i in range(15)])
    assert [(i, text) for i, text in enumerate(said) if text] == [
        (9, "about 1 min 30 s for 360 architectures on 2 workers")
    ]


def test_what_the_store_knew_is_not_timed():
    """Twenty come at once, then one a second."""
    said = told(Estimate(), 100, 1, [0.0] * 21 + [float(i) for i in range(1, 10)], known=20)
    assert [(i, text) for i, text in enumerate(said) if text] == [
        (25, "about 1 min 40 s for 100 architectures on 1 worker")
    ]
    assert not any(told(Estimate(), 100, 1, [float(i) for i in range(50)], known=100))


def test_many_that_come_together_are_timed_as_such():
    """Two come alone and slowly; then sixteen come at once every second, some of them cut off, and 1,600 take 100."""
    estimate, said = Estimate(), []
    for done in range(1, 60):
        together, now = (1, 10.0 + done) if done < 3 else (1 + 15 * (done % 7 > 0), 13.0 + (done - 3) // 16)
        records = [replace(RECORD, together=together)]
        said.append((done, estimate.after(Progress("scoring", done, 1600, done, 1, records), now)))
    assert [(done, text) for done, text in said if text] == [
        (35, "about 1 min 40 s for 1,600 architectures on 1 worker")
    ]


def test_with_a_limit_of_time_the_number_of_architectures_is_estimated():
    said = told(Estimate(600.0), None, 2, [0.25 * i for i in range(15)])
    assert [text for text in said if text] == ["about 2,400 architectures in 10 min on 2 workers"]


def test_without_any_end_the_rate_is_told():
    said = told(Estimate(), None, 1, [0.25 * i for i in range(15)])
    assert [text for text in said if text] == ["about 4 architectures a second on 1 worker"]


def test_each_stage_has_its_estimate():
    estimate = Estimate()
    told(estimate, 100, 1, [0.1 * i for i in range(9)])
    later = [estimate.after(Progress("other", i, 10, i, 1), 50.0 + i) for i in range(9)]
    assert [text for text in later if text] == ["about 10 s for 10 architectures on 1 worker"]


def test_a_clock_that_stands_still_is_waited_for():
    assert not any(told(Estimate(), 100, 1, [5.0] * 30))


def test_the_account_says_where_the_time_went():
    rows = [
        Cost("process 1", 40, build=5.0, transfer=0.0, measure=20.0, alive=30.0).row(),
        Cost("process 2", 38, build=4.0, transfer=2.0, measure=19.0, alive=30.0, deaths=3).row(),
    ]
    run = replace(RUN, wall_seconds=31.0, workers=rows)
    assert _cost(run) == (
        "31 s (building 9 s, moving 2 s, measuring 39 s, idle 10 s by 2 workers); 3 workers died and were replaced"
    )
    alone = replace(RUN, wall_seconds=2.0, workers=[Cost("this process", 4, measure=1.5, alive=1.5).row()])
    assert _cost(alone) == "2 s (measuring 1.5 s)"
    assert _cost(RUN) == "0 s"


ENDS = {
    ("--time", "1ms"): "Stopped after 1ms: the best so far is kept, and the same command goes on from here.",
    ("--stable", "1", "--top", "1"): "Stopped because the best 1 have not changed for 1 new architectures.",
    ("--budget", "50"): "Every architecture that there is to find has been judged.",
}


@pytest.mark.parametrize("options", ENDS)
def test_why_a_search_ended_is_told(untrained_, options):
    line = [word for word in SEARCH if word not in ("--budget", "3")]
    code, out, _ = untrained_(*line, "--proxy", "params", *options, "--workers", "1")
    assert code == 0
    told = " ".join(out.split())
    assert [end for end in ENDS.values() if end in told] == [ENDS[options]]


def test_a_screened_search_says_how_many_were_kept(untrained_):
    code, out, err = untrained_(*SEARCH, "--proxy", "./mine.py:spread", "--screen", "params,flops", "--keep", "60%")
    assert code == 0
    assert "Screened 3 architectures by params,flops and kept the best 2.\n" in out
    assert "The best 2 of 2 by ./mine.py:spread" in out
    assert "scoring took " in out
    assert ("screening" in err, "scoring" in err) == (True, True)


@pytest.mark.parametrize("terminal", [False, True])
def test_where_no_bar_can_move_a_line_says_that_a_stage_begins_and_one_a_minute_how_far_it_is(terminal):
    out = StringIO()
    lines = Lines(Console(file=out, force_terminal=terminal))
    told = [("scoring", 0, 5.0), ("scoring", 1, 64.9), ("scoring", 2, 65.0), ("confirming", 0, 66.0)]
    for stage, done, now in (*told, ("scoring", 3, 67.0), ("confirming", 1, 126.0)):  # some come back to a stage
        lines.tell(stage, f"{done} of 9", now)
    said = ["scoring: 0 of 9", "scoring: 2 of 9", "confirming: 0 of 9", "confirming: 1 of 9"]
    assert out.getvalue().splitlines() == ([] if terminal else said)


def test_a_log_says_which_stage_begins(untrained_):
    _, _, err = untrained_(*SEARCH, "--proxy", "./mine.py:spread", "--screen", "params", "--keep", "60%")
    assert err.splitlines()[:2] == ["screening: 0 of 3", "scoring: 0 of 2"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_bar_vanishes_when_something_goes_wrong(capsys, fails):
    with suppress(ValueError), bar(TextColumn("3 of 7")) as shown:
        shown.start()
        shown.add_task("searching")
        if fails:
            raise ValueError
    assert ("searching" in capsys.readouterr().err) is not fails

"""Progress on the terminal: the estimate, the bar, lines for log files, and the cost at the end."""

from contextlib import suppress
from dataclasses import replace
from io import StringIO
from time import perf_counter, sleep

import pytest
from rich.console import Console
from rich.progress import TextColumn

from tests.cli.helpers import SEARCH
from tests.engine.helpers import RECORD
from untrained.cli.terminal import progress_bar
from untrained.cli.terminal.progress_bar import ProgressLog, open_progress_bar
from untrained.cli.terminal.search_result import format_cost
from untrained.cli.terminal.time_estimate import ARCHS_PER_WORKER, TimeEstimate
from untrained.config import SearchConfig
from untrained.engine import WorkerCost
from untrained.progress import Progress
from untrained.runs.folder import RunFolder

RUN = RunFolder("run", SearchConfig("s", "p", data="noise", budget=100), "p@1", True, "")


def collect_estimates(
    estimate: TimeEstimate,
    total: int | None,
    workers: int,
    times: list[float],
    from_store: int = 0,
) -> dict[int, str]:
    """Return the messages of an estimate by the number of finished architectures.

    Args:
        estimate: What is tested.
        total: Number of architectures of the stage.
        workers: Number of workers.
        times: When 0, 1, 2, ... architectures were finished.
        from_store: How many of the first architectures came from the store.
    """
    messages = {}
    for done, now in enumerate(times):
        measured = max(0, done - from_store)
        message = estimate.update(Progress("scoring", done, total, measured, workers), now)
        if message:
            messages[done] = message
    return messages


def test_the_estimate_is_printed_once_and_ignores_the_start_of_the_workers():
    """Workers start for 10 s, then an architecture takes 0.5 s: 1,000 take 500 s."""
    times = [0.0, 10.0, *(10.0 + 0.5 * i for i in range(1, 10))]
    messages = collect_estimates(TimeEstimate(), 1000, 1, times)
    assert messages == {5: "about 8 min 20 s for 1,000 architectures on 1 worker"}
    assert 1 + ARCHS_PER_WORKER == 5


def test_the_estimate_needs_four_architectures_per_worker():
    """Two workers score four per second: eight are needed after the first, and 360 take 90 s."""
    messages = collect_estimates(TimeEstimate(), 360, 2, [0.25 * i for i in range(15)])
    assert messages == {9: "about 1 min 30 s for 360 architectures on 2 workers"}


def test_architectures_from_the_store_are_not_timed():
    """Twenty come from the store at once, then one per second: the other 80 take 80 s."""
    times = [0.0] * 21 + [float(i) for i in range(1, 10)]
    messages = collect_estimates(TimeEstimate(), 100, 1, times, from_store=20)
    assert messages == {25: "about 1 min 20 s for the remaining 80 architectures on 1 worker"}
    times = [float(i) for i in range(50)]
    assert collect_estimates(TimeEstimate(), 100, 1, times, from_store=100) == {}


def test_single_networks_before_the_first_batch_are_not_timed():
    """Two are slow and alone, then 16 come every second, a few of them alone: 1,600 take 100 s."""
    estimate = TimeEstimate()
    messages = {}
    for done in range(1, 60):
        if done < 3:
            networks_in_batch = 1
            now = 10.0 + done
        else:
            networks_in_batch = 16 if done % 7 > 0 else 1
            now = 13.0 + (done - 3) // 16
        records = [replace(RECORD, networks_in_batch=networks_in_batch)]
        message = estimate.update(Progress("scoring", done, 1600, done, 1, records), now)
        if message:
            messages[done] = message
    assert messages == {35: "about 1 min 40 s for 1,600 architectures on 1 worker"}


def test_with_a_time_budget_the_number_of_architectures_is_estimated():
    messages = collect_estimates(TimeEstimate(600.0), None, 2, [0.25 * i for i in range(15)])
    assert list(messages.values()) == ["about 2,400 architectures in 10 min on 2 workers"]


def test_without_any_budget_the_rate_is_printed():
    messages = collect_estimates(TimeEstimate(), None, 1, [0.25 * i for i in range(15)])
    assert list(messages.values()) == ["about 4 architectures per second on 1 worker"]


def test_each_stage_has_its_own_estimate():
    estimate = TimeEstimate()
    collect_estimates(estimate, 100, 1, [0.1 * i for i in range(9)])
    messages = [estimate.update(Progress("other", i, 10, i, 1), 50.0 + i) for i in range(9)]
    messages = [message for message in messages if message]
    assert messages == ["about 10 s for 10 architectures on 1 worker"]


def test_there_is_no_estimate_while_the_clock_stands_still():
    assert collect_estimates(TimeEstimate(), 100, 1, [5.0] * 30) == {}


def test_the_cost_says_where_the_time_went():
    first = WorkerCost("process 1", 40, build=5.0, transfer=0.0, measure=20.0, alive=30.0)
    second = WorkerCost(
        "process 2", 38, build=4.0, transfer=2.0, measure=19.0, alive=30.0, deaths=3
    )
    run = replace(RUN, wall_seconds=31.0, workers=[first.row(), second.row()])
    assert format_cost(run) == (
        "31 s (building 9 s, moving to the device 2 s, measuring 39 s, idle 10 s "
        "in total on 2 workers); "
        "3 workers died and were replaced"
    )
    single = WorkerCost("this process", 4, measure=1.5, alive=1.5)
    run = replace(RUN, wall_seconds=2.0, workers=[single.row()])
    assert format_cost(run) == "2 s (measuring 1.5 s)"
    assert format_cost(RUN) == "0 s"


ENDINGS = {
    ("--time", "1ms"): (
        "Stopped after 1ms: the best so far is kept, and the same command resumes."
    ),
    ("--stable", "1", "--top", "1"): (
        "Stopped because the best 1 have not changed for 1 new architectures."
    ),
    ("--budget", "50"): "There are no more architectures to score.",
}


@pytest.mark.parametrize("options", ENDINGS)
def test_search_prints_why_it_ended(run_cli, options):
    command = [word for word in SEARCH if word not in ("--budget", "3")]
    code, out, _ = run_cli(*command, "--proxy", "params", *options, "--workers", "1")
    assert code == 0
    text = " ".join(out.split())
    assert [ending for ending in ENDINGS.values() if ending in text] == [ENDINGS[options]]


def test_a_search_with_screening_prints_how_many_were_kept(run_cli):
    code, out, err = run_cli(
        *SEARCH, "--proxy", "./mine.py:spread", "--screen", "params,flops", "--keep", "60%"
    )
    assert code == 0
    assert "Screened 3 architectures with params,flops and kept the best 2.\n" in out
    assert "The best 2 of 2 by ./mine.py:spread" in out
    assert "scoring took " in out
    assert "screening" in err
    assert "scoring" in err


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_log_file_gets_a_line_per_stage_and_every_30_seconds(is_terminal):
    out = StringIO()
    log = ProgressLog(Console(file=out, force_terminal=is_terminal))
    events = [
        ("scoring", 0, 5.0),
        ("scoring", 1, 34.9),
        ("scoring", 2, 35.0),
        ("confirming", 0, 36.0),
        ("scoring", 3, 37.0),  # a stage may come again
        ("confirming", 1, 66.0),
    ]
    for stage, done, now in events:
        log.write(stage, f"{done} of 9", now)
    lines = ["scoring: 0 of 9", "scoring: 2 of 9", "confirming: 0 of 9", "confirming: 1 of 9"]
    assert out.getvalue().splitlines() == ([] if is_terminal else lines)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_log_file_gets_a_line_while_nothing_is_finished(is_terminal):
    out = StringIO()
    log = ProgressLog(Console(file=out, force_terminal=is_terminal))
    log.repeat(100.0)  # before the first stage
    log.write("scoring", "0 of 9", 5.0)
    log.write("scoring", "1 of 9", 6.0)
    for now in (34.9, 35.0, 64.9, 65.0):
        log.repeat(now)
    lines = ["scoring: 0 of 9", "scoring: 1 of 9", "scoring: 1 of 9"]
    assert out.getvalue().splitlines() == ([] if is_terminal else lines)


def test_the_lines_of_a_log_file_are_repeated_by_a_thread(monkeypatch):
    monkeypatch.setattr(progress_bar, "CHECK_SECONDS", 0.001)
    monkeypatch.setattr(progress_bar, "SECONDS_BETWEEN_LINES", 0.001)
    out = StringIO()
    with ProgressLog(Console(file=out, force_terminal=False)) as log:
        log.write("scoring", "0", perf_counter())
        end = perf_counter() + 10
        while out.getvalue().count("scoring: 0") < 3 and perf_counter() < end:
            sleep(0.001)
    assert out.getvalue().count("scoring: 0") >= 3
    length = len(out.getvalue())
    sleep(0.02)
    assert len(out.getvalue()) == length


def test_a_stage_that_is_cut_short_ends_in_a_log_file():
    out = StringIO()
    log = ProgressLog(Console(file=out, force_terminal=False))
    log.write("sample", "0 of 64", 0.0)
    log.write("sample", "10 of 64 (time)", 1.0, is_last=True)
    log.repeat(100.0)
    assert out.getvalue().splitlines() == ["sample: 0 of 64", "sample: 10 of 64 (time)"]


def test_the_bar_of_a_stage_that_is_cut_short_ends(capsys):
    with progress_bar.show_progress(quiet=False) as on_progress:
        on_progress(Progress("sample", 0, 64))
        on_progress(Progress("sample", 10, 64, end_reason="time"))
        on_progress(Progress("sample", 10, 64, end_reason="time", remark="They agree."))
        on_progress(Progress("scoring", 3, None))
        on_progress(Progress("scoring", 4, None, end_reason="stable"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["sample: 0 of 64", "sample: 10 of 64 (time)"]
    assert lines[2] == "They agree."
    bars = "\n".join(lines[-2:])
    assert "10 of 64 (time)" in bars
    assert "4 (stable)" in bars
    # Neither stage has a remaining time.
    assert bars.count("-:--:--") + bars.count("left 0:00:00") == 2


def test_the_progress_of_a_contest_is_in_per_cent(capsys):
    with progress_bar.show_progress(quiet=False) as on_progress:
        on_progress(Progress("contest", 5, 100, is_percentage=True))
    assert capsys.readouterr().err.splitlines()[0] == "contest: 5 %"


def test_a_remark_is_printed_before_the_next_stage(capsys):
    with progress_bar.show_progress(quiet=False) as on_progress:
        on_progress(Progress("sample", 0, 2))
        on_progress(Progress("sample", 2, 2, remark="[They] agree."))
        on_progress(Progress("scoring", 0, 5))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["sample: 0 of 2", "[They] agree.", "scoring: 0 of 5"]


def test_a_log_file_names_each_stage(run_cli):
    _, _, err = run_cli(
        *SEARCH, "--proxy", "./mine.py:spread", "--screen", "params", "--keep", "60%"
    )
    assert err.splitlines()[:2] == ["screening: 0 of 3", "scoring: 0 of 2"]


@pytest.mark.parametrize("fails", [False, True])
def test_an_error_removes_the_progress_bar(capsys, fails):
    with suppress(ValueError), open_progress_bar(TextColumn("3 of 7")) as bar:
        bar.start()
        bar.add_task("searching")
        if fails:
            raise ValueError
    assert ("searching" in capsys.readouterr().err) is not fails

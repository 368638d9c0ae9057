"""What is left of a search after kill -9 and Ctrl-C."""

import json
import os
import random
import signal
import time

import pytest

from tests.strategies.helpers import contents, finished, started, stored, wait_for

HERE = ("--workers", "1")  # in that process; tests/engine/test_chaos.py kills workers


@pytest.mark.slow
def test_kill_9_loses_no_finished_record_and_doubles_none(project):
    undisturbed = started(project, "undisturbed", *HERE)
    moments = random.Random(os.urandom(8))
    survived = 0
    for _ in range(3):
        process = started(project, "killed", *HERE)
        wait_for(process, project / "killed", survived + 1)
        time.sleep(moments.uniform(0, 0.1))
        seen = stored(project / "killed")
        process.kill()
        assert finished(process)[0] == -signal.SIGKILL
        survived = stored(project / "killed")
        assert survived >= seen >= 1
    assert survived < 40 * 3  # it was stopped in the middle
    kept = contents(project / "killed")
    code, _, errors = finished(started(project, "killed", *HERE))
    assert code == 0, errors
    code, _, errors = finished(undisturbed)
    assert code == 0, errors
    whole = contents(project / "killed")
    assert kept.items() <= whole.items()
    assert whole == contents(project / "undisturbed")
    assert len(whole) == stored(project / "killed") == 40 * 3  # dextr, params and FLOPs of each


def test_ctrl_c_keeps_the_best_so_far_and_the_same_command_goes_on(project):
    process = started(project, "run")
    seen = wait_for(process, project / "run", 18)  # they come in any order, and are told in that of asking
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    code, out, err = finished(process)
    assert code == 130, err  # what comes behind && is not begun
    assert "Traceback" not in out + err
    assert "Stopped by Ctrl-C" in out
    assert "report: run/report.html" in out
    assert (project / "run" / "report.html").stat().st_size > 1000
    assert json.loads((project / "run" / "run.json").read_text())["ended"] == "interrupted"
    before = contents(project / "run")
    assert seen <= len(before) < 40 * 3
    code, out, err = finished(started(project, "run"))
    assert code == 0, err
    assert "Stopped by Ctrl-C" not in out
    after = contents(project / "run")
    assert before.items() <= after.items()
    assert len(after) == 40 * 3
    assert json.loads((project / "run" / "run.json").read_text())["ended"] == "budget"

"""What remains of a search after kill -9 and Ctrl-C."""

import json
import os
import random
import signal
import time

import pytest

from tests.strategies.helpers import (
    count_records,
    read_values,
    start_search,
    wait_for_exit,
    wait_for_records,
)

# In the process itself; tests/engine/test_chaos.py kills worker processes.
HERE = ("--workers", "1")


@pytest.mark.slow
def test_a_killed_search_loses_no_record_and_doubles_none(project):
    undisturbed = start_search(project, "undisturbed", *HERE)
    random_delays = random.Random(os.urandom(8))
    survived = 0
    for _ in range(3):
        process = start_search(project, "killed", *HERE)
        wait_for_records(process, project / "killed", survived + 1)
        time.sleep(random_delays.uniform(0, 0.1))
        count_before = count_records(project / "killed")
        process.kill()
        assert wait_for_exit(process)[0] == -signal.SIGKILL
        survived = count_records(project / "killed")
        assert survived >= count_before >= 1
    assert survived < 40 * 3  # it was killed before the end
    before = read_values(project / "killed")
    code, _, errors = wait_for_exit(start_search(project, "killed", *HERE))
    assert code == 0, errors
    code, _, errors = wait_for_exit(undisturbed)
    assert code == 0, errors
    whole = read_values(project / "killed")
    assert before.items() <= whole.items()
    assert whole == read_values(project / "undisturbed")
    # Dextr, params and FLOPs of each.
    assert len(whole) == count_records(project / "killed") == 40 * 3


def test_ctrl_c_keeps_the_best_so_far_and_the_same_command_resumes(project):
    process = start_search(project, "run")
    count_before = wait_for_records(process, project / "run", 18)  # workers finish in any order
    os.killpg(process.pid, signal.SIGINT)  # like a terminal: also to the workers
    code, out, err = wait_for_exit(process)
    assert code == 130, err  # so that a command after && does not start
    assert "Traceback" not in out + err
    assert "Stopped by Ctrl-C" in out
    assert "report: run/report.html" in out
    assert (project / "run" / "report.html").stat().st_size > 1000
    assert json.loads((project / "run" / "run.json").read_text())["ended"] == "interrupted"
    before = read_values(project / "run")
    assert count_before <= len(before) < 40 * 3
    code, out, err = wait_for_exit(start_search(project, "run"))
    assert code == 0, err
    assert "Stopped by Ctrl-C" not in out
    after = read_values(project / "run")
    assert before.items() <= after.items()
    assert len(after) == 40 * 3
    assert json.loads((project / "run" / "run.json").read_text())["ended"] == "budget"

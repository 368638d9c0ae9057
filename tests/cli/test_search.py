"""`untrained search` and `untrained report`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import RECORD, SEARCH
from untrained.engine import Store


def test_search_prints_one_document_of_records_and_leaves_a_report(untrained_, project):
    code, out, _ = untrained_(*SEARCH, "--proxy", "./mine.py:spread", "--json")
    rows = json.loads(out)
    assert code == 0
    assert len(rows) == 3 * 3
    assert all(set(row) >= RECORD for row in rows)
    assert {row["proxy"] for row in rows} == {"spread", "params", "flops"}
    with Store(project / "run" / "records.sqlite") as store:
        kept = json.loads(json.dumps([record.row() for record in store]))
        assert [{key: row[key] for key in kept[0]} for row in rows] == kept
    assert all((row["mean"], row["std"], row["n"]) == (row["value"], None, 1) for row in rows)
    assert "--proxy ./mine.py:spread" in (project / "run" / "report.html").read_text()  # what can be typed again
    assert untrained_(*SEARCH, "--proxy", "./mine.py:spread", "--json") == (0, out, "")  # seconds and all: it resumed


def test_search_shows_the_best_first_and_its_progress_on_the_other_stream(untrained_):
    code, out, err = untrained_(*SEARCH, "--proxy", "./mine.py:spread", "--seeds", "2")
    assert code == 0
    assert "3/3" in err
    assert "3/3" not in out
    assert "The best 3 of 3 by ./mine.py:spread (lower is better)" in out
    assert "± 95 %" in out
    assert re.search(r"# +spread +± 95 % +params +FLOPs +architecture", out)
    rows = [line.split() for line in out.splitlines() if "width=" in line and not line.startswith("best:")]
    rows = [row[1:] if row[0] == "=" else row for row in rows]  # what two seeds cannot tell from the best
    assert [row[0] for row in rows] == ["1", "2", "3"]
    scores = [float(row[1]) for row in rows]
    assert scores == sorted(scores)
    assert f"best: {rows[0][-1]}\n" in out
    assert out.rstrip().endswith("report: run/report.html")


def test_a_search_that_finds_nothing_says_why(untrained_, project):
    code, out, _ = untrained_(*SEARCH, "--proxy", "./mine.py:broken")
    assert code == 1
    assert "nothing could be scored" in out
    assert "no score for 3 of 3: 3 error (NameError: name 'proob' is not defined (broken, line" in out
    assert (project / "run" / "report.html").exists()


STOPS = """
import untrained

judged = []

@untrained.proxy()
def stops(probe):
    judged.append(probe)
    if len(judged) > 2:
        raise KeyboardInterrupt
    return float(len(judged))
"""


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_ctrl_c_is_the_shells_exit_code_and_nothing_is_exported(untrained_, project, as_json):
    """Whatever was found is told all the same, and what comes behind && is not begun."""
    (project / "stops.py").write_text(STOPS)
    command = [word.replace("noise", "digits") for word in SEARCH]
    code, out, _ = untrained_(*command, "--proxy", "./stops.py:stops", "--workers", "1", "--export", "out", *as_json)
    assert code == 130
    if as_json:
        assert [row["value"] for row in json.loads(out) if row["proxy"] == "stops"] == [1.0, 2.0]
    else:
        assert "Stopped by Ctrl-C: the best so far is kept, and the same command goes on from here." in out
    assert {path.name for path in project.iterdir()} >= {"run", "stops.py"}
    assert not (project / "out").exists()
    assert not (project / "run" / "model.pt").exists()


def test_report_writes_the_page_anew(untrained_, project):
    untrained_(*SEARCH, "--proxy", "params")
    (project / "run" / "report.html").unlink()
    assert untrained_("report", "run")[:2] == (0, "report: run/report.html\n")
    assert (project / "run" / "report.html").exists()
    told = {"report": "run/report.html", "best": "width=4", "confirmed": None, "trained": None, "weights": None}
    assert json.loads(untrained_("report", "run", "--json")[1]) == told


def test_the_whole_program_in_its_own_process(project):
    """Once without any help of this process: the installed program, user code, a pipe, a resumed run."""
    program = Path(sys.executable).parent / "untrained"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [program, *SEARCH, "--proxy", "./mine.py:spread", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, env=environment, check=True)
    assert len(json.loads(done.stdout)) == 9
    command = [program, "score", "./mine.py:boom", "--input-shape", "3x8x8"]
    failed = subprocess.run(command, capture_output=True, text=True, cwd=project, env=environment, check=False)
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ./mine.py:boom raised when it was called\n")


RAISING = """
from torch import nn
import untrained

class Raising(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(3 * 8 * 8, width)

    def forward(self, x):
        raise ValueError("no forward pass")

@untrained.space(task=untrained.Task("noise", (3, 8, 8), 4))
def raising(choose, task):
    return Raising(choose("width", (2, 3, 4, 5)))
"""


@pytest.mark.parametrize("proxy", ["az_nas", "te_nas"])
def test_a_search_in_which_every_part_of_an_aggregate_failed_is_exit_code_1(untrained_, project, proxy):
    (project / "raising.py").write_text(RAISING)
    options = f"--space ./raising.py:raising --proxy {proxy} --budget 4 --run failed --workers 1".split()
    code, out, _ = untrained_("search", *options)
    assert code == 1
    assert "nothing could be scored" in out
    assert "best" not in out
    _, rows, _ = untrained_("search", *options, "--json")
    aggregates = [row for row in json.loads(rows) if row["proxy"] == proxy]
    assert len(aggregates) > 0
    assert {(row["value"], row["error"].partition(":")[0]) for row in aggregates} == {(None, "error")}

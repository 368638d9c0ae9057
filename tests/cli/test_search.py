"""`untrained search` and `untrained report`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import RECORD_KEYS, SEARCH
from untrained.runs.store import Store


def test_search_prints_records_as_json_and_writes_a_report(run_cli, project):
    code, out, _ = run_cli(*SEARCH, "--proxy", "./mine.py:spread", "--json")
    rows = json.loads(out)
    assert code == 0
    assert len(rows) == 3 * 3
    assert all(set(row) >= RECORD_KEYS for row in rows)
    assert {row["proxy"] for row in rows} == {"spread", "params", "flops"}
    with Store(project / "run" / "records.sqlite") as store:
        stored = json.loads(json.dumps([record.row() for record in store]))
    for row, stored_row in zip(rows, stored, strict=True):
        assert {key: row[key] for key in stored_row} == stored_row
    assert all((row["mean"], row["std"], row["n"]) == (row["value"], None, 1) for row in rows)
    # The report contains the command to type again.
    assert "--proxy ./mine.py:spread" in (project / "run" / "report.html").read_text()
    # The second run resumes: even the measured times are the same.
    assert run_cli(*SEARCH, "--proxy", "./mine.py:spread", "--json") == (0, out, "")


def test_search_prints_the_ranking_and_shows_progress_on_the_error_stream(run_cli):
    code, out, err = run_cli(*SEARCH, "--proxy", "./mine.py:spread", "--seeds", "2")
    assert code == 0
    assert "3 of 3" in err
    assert "scoring" not in out.partition("The best")[0]
    assert "The best 3 of 3 by ./mine.py:spread (lower is better)" in out
    assert "± 95 %" in out
    assert re.search(r"# +spread +± 95 % +params +FLOPs +architecture", out)
    rows = [
        line.split()
        for line in out.splitlines()
        if "width=" in line and not line.startswith("best:")
    ]
    # A tie with the best has the mark "=".
    rows = [row[1:] if row[0] == "=" else row for row in rows]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    scores = [float(row[1]) for row in rows]
    assert scores == sorted(scores)
    assert f"best: {rows[0][-1]}\n" in out
    assert out.rstrip().endswith("report: run/report.html")


def test_proxies_of_also_have_columns_in_the_terminal_and_in_the_report(run_cli, project):
    also = ("--also", "./mine.py:spread(times=2),flops")
    code, out, _ = run_cli(*SEARCH, "--proxy", "params", *also)
    assert code == 0
    assert re.search(r"# +params +FLOPs +spread +architecture", out)
    with Store(project / "run" / "records.sqlite") as store:
        spreads = {str(r.arch): r.value for r in store if r.proxy == "spread(times=2)"}
    assert len(spreads) == 3
    rows = [line.split() for line in out.splitlines() if re.match(r" +[123] ", line)]
    assert [float(row[-2]) for row in rows] == pytest.approx(
        [spreads[row[-1]] for row in rows], rel=1e-5
    )
    page = (project / "run" / "report.html").read_text()
    assert '<th scope="col" class="num">spread(times=2)</th>' in page
    # FLOPs have a column already.
    assert page.count(">FLOPs</th>") == 1
    assert ">flops</th>" not in page


def test_a_search_without_any_score_prints_the_reason(run_cli, project):
    code, out, _ = run_cli(*SEARCH, "--proxy", "./mine.py:broken")
    assert code == 1
    assert "nothing could be scored" in out
    assert (
        "no score for 3 of 3: 3 error (NameError: name 'proob' is not defined (broken, line" in out
    )
    assert (project / "run" / "report.html").exists()


# A proxy that presses Ctrl-C at the third network.
INTERRUPTING_PROXY = """
import untrained

scored = []

@untrained.proxy()
def stops(probe):
    scored.append(probe)
    if len(scored) > 2:
        raise KeyboardInterrupt
    return float(len(scored))
"""


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_ctrl_c_exits_with_130_and_exports_nothing(run_cli, project, as_json):
    """The result so far is printed, and a command after && does not start."""
    (project / "stops.py").write_text(INTERRUPTING_PROXY)
    command = [word.replace("noise", "digits") for word in SEARCH]
    code, out, _ = run_cli(
        *command, "--proxy", "./stops.py:stops", "--workers", "1", "--export", "out", *as_json
    )
    assert code == 130
    if as_json:
        assert [row["value"] for row in json.loads(out) if row["proxy"] == "stops"] == [1.0, 2.0]
    else:
        assert "Stopped by Ctrl-C: the best so far is kept, and the same command resumes." in out
    assert {path.name for path in project.iterdir()} >= {"run", "stops.py"}
    assert not (project / "out").exists()
    assert not (project / "run" / "model.pt").exists()


def test_report_rewrites_the_page(run_cli, project):
    run_cli(*SEARCH, "--proxy", "params")
    (project / "run" / "report.html").unlink()
    assert run_cli("report", "run")[:2] == (0, "report: run/report.html\n")
    assert (project / "run" / "report.html").exists()
    expected = {
        "report": "run/report.html",
        "best": "width=4",
        "winner": "width=4",
        "contest": None,
        "confirmed": None,
        "trained": None,
        "weights": None,
    }
    assert json.loads(run_cli("report", "run", "--json")[1]) == expected


def test_the_installed_program_in_its_own_process(project):
    """The other tests call `main()`; this one covers installation, user code and pipes."""
    program = Path(sys.executable).parent / "untrained"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [program, *SEARCH, "--proxy", "./mine.py:spread", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=project, env=environment, check=True
    )
    assert len(json.loads(done.stdout)) == 9
    command = [program, "score", "./mine.py:boom", "--input-shape", "3x8x8"]
    failed = subprocess.run(
        command, capture_output=True, text=True, cwd=project, env=environment, check=False
    )
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ./mine.py:boom raised an error when it was called\n")


# A space whose networks cannot compute anything.
FAILING_SPACE = """
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
def test_a_search_exits_with_1_if_all_parts_of_an_aggregate_fail(run_cli, project, proxy):
    (project / "raising.py").write_text(FAILING_SPACE)
    options = (
        f"--space ./raising.py:raising --proxy {proxy} --budget 4 --run failed --workers 1".split()
    )
    code, out, _ = run_cli("search", *options)
    assert code == 1
    assert "nothing could be scored" in out
    assert "best" not in out
    _, rows, _ = run_cli("search", *options, "--json")
    aggregates = [row for row in json.loads(rows) if row["proxy"] == proxy]
    assert len(aggregates) > 0
    assert {(row["value"], row["error"].partition(":")[0]) for row in aggregates} == {
        (None, "error")
    }

"""A few kills in every part of `benchmarks/kill.py`; docs/results/robustness.md reports a thousand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "kill.py"
PARTS = ("search", "training", "export", "table")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks"),
]


def run_script(folder: Path, kills: int) -> str:
    command = [
        sys.executable,
        str(SCRIPT),
        "--kills",
        str(kills),
        "--seed",
        "7",
        "--folder",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_killed_commands_reach_the_same_result_and_the_script_resumes(tmp_path):
    pytest.importorskip("onnxruntime", reason="exports need the extra `export`")
    run_script(tmp_path, kills=4)
    first = (tmp_path / "trials.jsonl").read_text()
    shown = run_script(tmp_path, kills=8)
    lines = (tmp_path / "trials.jsonl").read_text()
    assert lines.startswith(first)  # nothing was repeated
    trials = [json.loads(line) for line in lines.splitlines()]
    assert {trial["problem"] for trial in trials} == {""}
    for part in PARTS:
        mine = [trial for trial in trials if trial["part"] == part]
        assert [trial["number"] for trial in mine] == list(range(len(mine)))
        assert sum(trial["kills"] for trial in mine) >= 2
        assert f"| {part} | " in shown

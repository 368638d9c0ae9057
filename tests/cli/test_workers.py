"""`--workers`: every command with workers refuses the same numbers with the same message."""

import os

import pytest

from tests.cli.helpers import read_usage_error

COMMANDS = {
    "search": (
        "search",
        "--space",
        "./mine.py:mynet",
        "--proxy",
        "params",
        "--data",
        "noise",
        "--run",
        "run",
    ),
    "bench": ("bench", "--proxy", "params", "--samples", "3", "--run", "run"),
    "calibrate": ("calibrate", "--space", "./mine.py:mynet", "--data", "digits", "--run", "run"),
    "reproduce": ("reproduce", "dextr-table-4", "--run", "run"),
}
REFUSED = {
    "0": "--workers must be a whole number of at least 1, not 0; this machine has 3 cores: --workers 3",
    "-2": "--workers must be a whole number of at least 1, not -2; this machine has 3 cores: --workers 3",
    "13": "--workers 13 is too many for this machine, which has 3 cores: type --workers 3, or at most 12",
}


@pytest.mark.parametrize("workers", REFUSED)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_impossible_number_of_workers_is_refused_before_anything_starts(
    run_cli, project, monkeypatch, command, workers
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    result = run_cli(*COMMANDS[command], "--workers", workers)
    assert REFUSED[workers] in read_usage_error(result)
    assert not (project / "run").exists()

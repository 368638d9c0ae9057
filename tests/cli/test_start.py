"""What a command does before torch is imported."""

import os
import subprocess
import sys

import pytest

from untrained.data import load_data
from untrained.data.registry import SOURCES
from untrained.data_path import NAMED_DATA, check_data_path
from untrained.errors import UsageError
from untrained.types import Task

# Runs the command line and then prints whether torch was imported.
PROGRAM = """
import sys
from untrained.cli.app import main
try:
    main()
finally:
    print("torch" in sys.modules)
"""


def _run(folder, *words):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, cwd=folder
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("search --max-params 300kb", "--max-params cannot be '300kb'; write it like 300k"),
        ("search --max-latency 10", "--max-latency cannot be '10'; write it like 10ms"),
        ("search --max-memory 300mb", "--max-memory cannot be '300mb'; write it like 300MB"),
        ("search --time 5", "5 in the duration '5' has no unit"),
        ("search --data folder:./absent", "there is no folder absent"),
        ("search --data pictures", "pictures is a path; write its kind before it: folder:pictures"),
        ("train resnet20 --data csv:absent.csv", "there is no file absent.csv"),
        ("bench --data pictures", "pictures is a path"),
        ("latency bundle --out out --max-params few", "--max-params cannot be 'few'"),
    ],
)
def test_a_mistake_is_refused_before_torch_is_imported(tmp_path, line, message):
    (tmp_path / "pictures").mkdir()
    result = _run(tmp_path, *line.split())
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout.strip() == "False"


def test_a_line_is_printed_before_torch_is_imported(tmp_path):
    result = _run(tmp_path, "search", "--space", "absent")
    assert result.stderr.splitlines()[0] == "loading torch and the data ..."
    assert "error: " in result.stderr.splitlines()[1]
    assert result.stdout.strip() == "True"
    quiet = _run(tmp_path, "search", "--space", "absent", "--json")
    assert "loading" not in quiet.stderr


@pytest.mark.parametrize(
    "name", ["folder:./absent", "csv:absent.csv", "npz:absent.npz", "pictures"]
)
def test_the_early_check_of_data_agrees_with_loading_them(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    os.mkdir("pictures")
    with pytest.raises(UsageError) as early:
        check_data_path(name)
    with pytest.raises(UsageError) as late:
        load_data(name, Task("any", (3, 8, 8), 2))
    assert str(early.value) == str(late.value)


def test_the_early_check_accepts_data_that_exist_or_cannot_be_judged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("pictures")
    os.mkdir("digits")
    for name in ("digits", "folder:pictures", "folder:pictures?test=./held", "noise", "absent"):
        check_data_path(name)


def test_the_names_of_data_without_a_path_are_complete():
    assert set(NAMED_DATA) == {name for name in SOURCES if not SOURCES[name].belongs_to_user}


def test_ctrl_c_before_the_result_is_reported_in_one_line(run_cli, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("untrained.cli.terminal.gpu_hint.print_gpu_hint", interrupt)
    code, out, err = run_cli("search", "--data", "digits")
    assert code == 130
    assert out == ""
    assert err == "error: stopped by Ctrl-C before there was a result\n"

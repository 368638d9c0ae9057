"""A wrong command is refused in one line and never with a traceback of this package."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import SEARCH, SKIP, read_usage_error
from tests.cli.wrong_commands import BROKEN_FILES, WRONG_COMMANDS


@pytest.fixture
def broken_project(project) -> Path:
    """The folder of a user in which every file has a defect."""
    for name, content in BROKEN_FILES.items():
        (project / name).write_text(content)
    (project / "photos" / "empty").mkdir(parents=True)
    (project / "run-1").mkdir()
    (project / "run-1" / "run.json").write_text("{}")
    for name in (b"caf\xe9", b"tea"):
        folder = os.fsencode(project / "latin") + b"/" + name
        os.makedirs(folder)
        Path(os.fsdecode(folder), "1.png").write_bytes(b"no picture")
    return project


def _read_contents(folder: Path) -> dict[str, bytes]:
    """Return all files and folders below a folder.

    Files that Python and ONNX Runtime write when they are imported do not count, nor does the mark
    that the user has named a file.
    """
    paths = []
    data_cache = folder / "cache" / "untrained" / "cache"
    if data_cache.exists():
        paths = [data_cache, *data_cache.rglob("*")]
    for path in folder.rglob("*"):
        if not {"__pycache__", "cache"} & set(path.parts):
            paths.append(path)
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in paths}


def _make_test_id(line: str) -> str:
    return ascii(line)[:100]


@pytest.mark.parametrize("line", WRONG_COMMANDS, ids=_make_test_id)
def test_a_wrong_command_is_refused_in_one_line_and_writes_nothing(
    run_cli, broken_project, monkeypatch, line
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(broken_project / "cache"))
    monkeypatch.delenv("UNTRAINED_DATA", raising=False)
    before = _read_contents(broken_project)
    words = [word.replace("ARCH", SKIP) for word in _split(line)]
    assert WRONG_COMMANDS[line] in read_usage_error(run_cli(*words))
    assert _read_contents(broken_project) == before


def _split(line: str) -> list[str]:
    """Split at spaces; '' is an empty word, as in a shell."""
    return ["" if word == "''" else word for word in line.split()]


def test_a_missing_package_for_the_export_is_reported_before_the_search(
    run_cli, project, monkeypatch
):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "onnxscript is not installed: pip install" in read_usage_error(
        run_cli(*SEARCH, "--export", "model")
    )
    assert not (project / "run").exists()


@pytest.mark.parametrize(
    ("text", "wrong_part"),
    [
        (SKIP.replace("skip_connect~2", "skip_conect~2"), "skip_conect~2"),
        (SKIP.replace("skip_connect~1|+", "conv~1|+"), "conv~1"),
        (SKIP[:-1], None),
        ("nonsense", "nonsense"),
    ],
)
def test_the_wrong_part_of_an_architecture_is_marked(run_cli, text, wrong_part):
    code, out, err = run_cli("score", text)
    assert (code, out) == (2, "")
    first, second, arrow = err.splitlines()
    position = text.index(wrong_part) if wrong_part else len(text)
    assert first.startswith("error: malformed architecture: expected")
    assert first.endswith(f"at position {position}")
    assert second == f"  {text}"
    assert arrow == " " * (2 + position) + "^"


def test_a_cell_with_slashes_is_not_taken_for_a_path(run_cli):
    _, _, err = run_cli("score", "0101010/001+input,conv1x1", "--space", "nasbench101")
    assert err.startswith("error: malformed architecture: expected")


def test_missing_data_are_reported_with_file_folder_and_remedy(run_cli, project):
    message = read_usage_error(run_cli("search", "--data", "cifar10", "--data-root", str(project)))
    for part in (
        f"not under {project}",
        "data_batch_1.bin",
        "cifar-10-batches-py",
        "--data-root",
        "UNTRAINED_DATA",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("line", "last_line"),
    [
        ("score ./mine.py:boom --input-shape 3x8x8", "ValueError: no weights here"),
        ("score width=2 --space ./mine.py:faulty", "ZeroDivisionError: division by zero"),
        (
            "search --space ./mine.py:faulty --data noise --run run",
            "ZeroDivisionError: division by zero",
        ),
        ("score ./raising.py:make --input-shape 3x8x8", "RuntimeError: worse"),
        ("search --proxy ./raising.py:make", "RuntimeError: worse"),
    ],
)
def test_the_traceback_of_user_code_has_no_frames_of_this_package(
    run_cli, project, line, last_line
):
    (project / "raising.py").write_text("raise RuntimeError('worse')\n")
    code, _, err = run_cli(*line.split())
    assert code == 2
    lines = err[err.index("error: ") :].splitlines()
    assert "raised" in lines[0]
    assert lines[-1] == last_line
    assert re.search(r'File ".*/(mine|raising)\.py", line \d+', err)
    assert not any(
        path in err for path in ("src/untrained", "untrained/engine", "untrained/cli", "importlib")
    )


def test_a_report_that_cannot_be_written_is_named(run_cli, project):
    run_cli(*SEARCH, "--proxy", "params")
    page = project / "run" / "report.html"
    page.unlink()
    page.mkdir()
    assert "report.html" in read_usage_error(run_cli("report", "run"))
    assert not list(page.parent.glob("*.part"))


def test_ctrl_c_before_the_first_score_exits_with_130(run_cli):
    code, out, err = run_cli("score", "./mine.py:stop", "--input-shape", "3x8x8", "--json")
    assert code == 130
    assert out == ""
    assert "Traceback" not in err

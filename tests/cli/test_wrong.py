"""What is wrong is said in one line, and never with our traceback."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import SEARCH, SKIP, wrong
from tests.cli.wrong_commands import ODD, WRONG


@pytest.fixture
def odd_project(project) -> Path:
    """The folder of a user in which something is wrong with every file."""
    for name, content in ODD.items():
        (project / name).write_text(content)
    (project / "photos" / "empty").mkdir(parents=True)
    (project / "run-1").mkdir()
    (project / "run-1" / "run.json").write_text("{}")
    for name in (b"caf\xe9", b"tea"):
        folder = os.fsencode(project / "latin") + b"/" + name
        os.makedirs(folder)
        Path(os.fsdecode(folder), "1.png").write_bytes(b"no picture")
    return project


def _contents(folder: Path) -> dict[str, bytes]:
    """All files and folders below a folder.

    Left out is what Python and ONNX Runtime write when they are imported, and the mark that the user has named a file.
    """
    data_cache = folder / "cache" / "untrained" / "cache"
    found = [data_cache, *data_cache.rglob("*")] if data_cache.exists() else []
    found += [path for path in folder.rglob("*") if not {"__pycache__", "cache"} & {*path.parts}]
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}


def _shown(line: str) -> str:
    return ascii(line)[:100]


@pytest.mark.parametrize("line", WRONG, ids=_shown)
def test_a_wrong_command_is_answered_in_one_line_that_says_what_to_type(untrained_, odd_project, monkeypatch, line):
    monkeypatch.setenv("XDG_CACHE_HOME", str(odd_project / "cache"))
    monkeypatch.delenv("UNTRAINED_DATA", raising=False)
    before = _contents(odd_project)
    words = [word.replace("ARCH", SKIP) for word in _split(line)]
    assert WRONG[line] in wrong(untrained_(*words))
    assert _contents(odd_project) == before


def _split(line: str) -> list[str]:
    """Words between spaces; '' is an empty one, as in a shell."""
    return ["" if word == "''" else word for word in line.split()]


def test_a_package_that_exporting_needs_is_asked_for_before_the_search(untrained_, project, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "onnxscript is not installed: pip install" in wrong(untrained_(*SEARCH, "--export", "model"))
    assert not (project / "run").exists()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (SKIP.replace("skip_connect~2", "skip_conect~2"), "skip_conect~2"),
        (SKIP.replace("skip_connect~1|+", "conv~1|+"), "conv~1"),
        (SKIP[:-1], None),
        ("nonsense", "nonsense"),
    ],
)
def test_the_place_where_an_architecture_goes_wrong_is_marked(untrained_, text, at):
    code, out, err = untrained_("score", text)
    assert (code, out) == (2, "")
    first, second, arrow = err.splitlines()
    place = text.index(at) if at else len(text)
    assert first.startswith("error: malformed architecture: expected")
    assert first.endswith(f"at position {place}")
    assert second == f"  {text}"
    assert arrow == " " * (2 + place) + "^"


def test_a_cell_that_is_written_with_slashes_is_no_path(untrained_):
    _, _, err = untrained_("score", "0101010/001+input,conv1x1", "--space", "nasbench101")
    assert err.startswith("error: malformed architecture: expected")


def test_missing_data_say_which_file_where_and_what_to_do(untrained_, project):
    answer = wrong(untrained_("search", "--data", "cifar10", "--data-root", str(project)))
    for part in (f"not under {project}", "data_batch_1.bin", "cifar-10-batches-py", "--data-root", "UNTRAINED_DATA"):
        assert part in answer


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("score ./mine.py:boom --input-shape 3x8x8", "ValueError: no weights here"),
        ("score width=2 --space ./mine.py:faulty", "ZeroDivisionError: division by zero"),
        ("search --space ./mine.py:faulty --data noise --run run", "ZeroDivisionError: division by zero"),
        ("score ./worse.py:make --input-shape 3x8x8", "RuntimeError: worse"),
        ("search --proxy ./worse.py:make", "RuntimeError: worse"),
    ],
)
def test_what_the_users_own_code_raises_is_shown_without_our_frames(untrained_, project, line, last):
    (project / "worse.py").write_text("raise RuntimeError('worse')\n")
    code, _, err = untrained_(*line.split())
    assert code == 2
    said = err[err.index("error: ") :].splitlines()
    assert "raised" in said[0]
    assert said[-1] == last
    assert re.search(r'File ".*/(mine|worse)\.py", line \d+', err)
    assert not any(ours in err for ours in ("src/untrained", "untrained/engine", "untrained/cli", "importlib"))


def test_a_page_that_cannot_be_written_is_named(untrained_, project):
    untrained_(*SEARCH, "--proxy", "params")
    page = project / "run" / "report.html"
    page.unlink()
    page.mkdir()
    assert "report.html" in wrong(untrained_("report", "run"))
    assert not list(page.parent.glob("*.part"))


def test_ctrl_c_before_anything_is_scored_is_the_shells_exit_code(untrained_):
    code, out, err = untrained_("score", "./mine.py:stop", "--input-shape", "3x8x8", "--json")
    assert code == 130
    assert out == ""
    assert "Traceback" not in err

"""A run folder is data: reading it runs no code, and continuing it runs only code that the user names."""

import json
import re
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp
from textwrap import dedent

import pytest

from tests.cli.helpers import USER_FILE, read_usage_error
from untrained import user_code

SEARCH = "search --space ./mine.py:mynet --proxy ./mine.py:spread --data digits --budget 3 --run theirs".split()
NSGA2 = (
    "search --space ./mine.py:mynet --proxy params --also ./mine.py:spread --strategy nsga2 --data noise "
    "--budget 4 --run theirs"
).split()
TRAIN = ("--recipe", "quick(epochs=1)")


@pytest.fixture
def import_mark(run_cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Receive the run folder `theirs` of another user.

    Its space is in `mine.py`, which creates a file when it is imported. Returns the path of that file.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "their cache"))
    monkeypatch.setattr(user_code, "_trusted_in_this_process", set())
    marked = f"open({str(project / 'imported')!r}, 'a').close()\n{dedent(USER_FILE)}"
    (project / "mine.py").write_text(marked)
    assert run_cli(*SEARCH)[0] == 0
    _become_another_user(project, monkeypatch)
    return project / "imported"


def _become_another_user(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which files the user has run, and which modules this process has imported."""
    for name in list(sys.modules):
        if name.startswith("untrained_user_"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("XDG_CACHE_HOME", mkdtemp(dir=project))
    monkeypatch.setattr(user_code, "_trusted_in_this_process", set())
    (project / "imported").unlink()


def _find_drawings(page: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


def test_reading_a_run_runs_no_code(run_cli, project, import_mark):
    (project / "theirs" / "report.html").unlink()
    assert run_cli("report", "theirs")[0] == 0
    page = (project / "theirs" / "report.html").read_text()
    # The drawing comes from the run folder, where the search saved it.
    assert "<svg" in page.partition("Best architecture")[2].partition("</section>")[0]
    assert run_cli("report", "theirs", "--json")[0] == 0
    assert run_cli("store", "info", "theirs")[0] == 0
    assert run_cli("store", "export", "theirs", "out.csv")[0] == 0
    assert run_cli("list", "spaces")[0] == 0
    assert not import_mark.exists()


def test_reading_a_run_with_user_objectives_runs_no_code(
    run_cli, project, import_mark, monkeypatch
):
    shutil.rmtree(project / "theirs")
    assert run_cli(*NSGA2)[0] == 0
    before = (project / "theirs" / "report.html").read_text()
    _become_another_user(project, monkeypatch)
    assert run_cli("report", "theirs")[0] == 0
    page = (project / "theirs" / "report.html").read_text()
    assert _find_drawings(page) == _find_drawings(before)
    assert "spread" in "".join(_find_drawings(page))
    assert not import_mark.exists()


def test_a_report_mentions_a_missing_drawing(run_cli, project, import_mark):
    facts = json.loads((project / "theirs" / "run.json").read_text())
    facts["drawing"] = None
    (project / "theirs" / "run.json").write_text(json.dumps(facts))
    assert run_cli("report", "theirs")[0] == 0
    assert (
        "The run folder contains no drawing of this architecture"
        in (project / "theirs" / "report.html").read_text()
    )
    assert not import_mark.exists()


@pytest.mark.parametrize(
    "drawing",
    [
        {"kind": "Cell", "nodes": ["a"], "edges": [[0, 10**9, "x"]]},
        {
            "kind": "Stages",
            "stages": [{"label": "x", "channels": 1, "stride": 1, "repeats": 10**9, "inner": 0}],
        },
        {"kind": "Layers", "embed": 1, "heads": [1], "ratios": ["x"]},
        {"kind": "Other"},
        "text",
    ],
    ids=str,
)
def test_a_malformed_drawing_is_refused(run_cli, project, import_mark, drawing):
    path = project / "theirs" / "run.json"
    facts = json.loads(path.read_text())
    facts["drawing"]["sketch"] = drawing
    path.write_text(json.dumps(facts))
    assert "drawing" in read_usage_error(run_cli("report", "theirs"))


@pytest.mark.parametrize(
    "command", [("train", "theirs", *TRAIN), ("export", "theirs", "--out", "out")], ids=" ".join
)
def test_continuing_a_foreign_run_requires_the_file_by_name(run_cli, project, import_mark, command):
    refused = read_usage_error(run_cli(*command))
    assert f"untrained {command[0]} theirs --space ./mine.py:mynet" in refused
    assert "not run on this machine" in refused
    assert not import_mark.exists()
    assert run_cli(*command, "--space", "./mine.py:mynet")[0] == 0
    assert import_mark.exists()


def test_a_file_in_the_run_folder_is_not_trusted_either(run_cli, project, import_mark):
    """Its fingerprint may be in run.json, but both come from the same sender."""
    shutil.move(project / "mine.py", project / "theirs" / "mine.py")
    path = project / "theirs" / "run.json"
    path.write_text(path.read_text().replace("./mine.py", "theirs/mine.py"))
    assert "not run on this machine" in read_usage_error(run_cli("train", "theirs", *TRAIN))
    assert not import_mark.exists()


@pytest.mark.parametrize(
    "command", [("train", "run", *TRAIN), ("export", "run", "--out", "out")], ids=" ".join
)
def test_a_run_of_the_user_continues_until_the_file_changes(run_cli, project, command):
    assert run_cli(*SEARCH[:-1], "run")[0] == 0
    source = (project / "mine.py").read_text()
    (project / "mine.py").write_text(f"open('imported', 'a').close()\n{source}")
    refused = read_usage_error(run_cli(*command))
    assert "./mine.py:mynet has changed since run was made" in refused
    assert f"untrained {command[0]} run --space ./mine.py:mynet" in refused
    assert not (project / "imported").exists()
    (project / "mine.py").write_text(source)
    assert run_cli(*command)[0] == 0


def test_exporting_a_foreign_training_does_not_run_its_factory(
    run_cli, project, import_mark, monkeypatch
):
    train = (
        "train",
        "./mine.py:make",
        "--input-shape",
        "3x8x8",
        "--data",
        "digits",
        *TRAIN,
        "--run",
        "trained",
    )
    (project / "mine.py").write_text(
        (project / "mine.py").read_text().replace("nn.Linear(4, 5)", "nn.Linear(4, 10)")
    )
    assert run_cli(*train)[0] == 0
    _become_another_user(project, monkeypatch)
    refused = read_usage_error(run_cli("export", "trained", "--out", "out"))
    assert "untrained export ./mine.py:make --weights trained/model.pt" in refused
    assert not import_mark.exists()
    named = run_cli(
        "export", "./mine.py:make", "--weights", "trained/model.pt", "--out", "out", "--json"
    )
    assert named[0] == 0
    assert json.loads(named[1])["accuracy"] is not None


def test_the_proxy_of_a_foreign_calibration_is_not_run(run_cli, project, import_mark):
    from untrained.workflows.calibrate import choose_default_folder

    folder = project / choose_default_folder("nasbench201", "digits")
    folder.mkdir(parents=True)
    texts = dict.fromkeys(("title", "command", "space", "truth_about", "truth_unit"), "")
    lists = {"archs": [], "truth": [], "proxy_results": [], "notes": []}
    (folder / "benchmark.json").write_text(
        json.dumps({**texts, **lists, "recommended": "./mine.py:spread"})
    )
    refused = read_usage_error(
        run_cli("search", "--proxy", "auto", "--budget", "1", "--run", "run")
    )
    assert "./mine.py:spread" in refused
    assert not import_mark.exists()

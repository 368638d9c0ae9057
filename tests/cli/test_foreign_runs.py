"""A run folder is data: reading it runs nobody's code, and going on with it runs only code that the user names."""

import json
import re
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp
from textwrap import dedent

import pytest

from tests.cli.helpers import MINE, wrong
from untrained import user_code

SEARCH = "search --space ./mine.py:mynet --proxy ./mine.py:spread --data digits --budget 3 --run theirs".split()
NSGA2 = (
    "search --space ./mine.py:mynet --proxy params --beside ./mine.py:spread --strategy nsga2 --data noise "
    "--budget 4 --run theirs"
).split()
TRAIN = ("--recipe", "quick(epochs=1)")


@pytest.fixture
def theirs(untrained_, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder of somebody else, and the file that it names, which leaves a mark whenever it is imported."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "their cache"))
    monkeypatch.setattr(user_code, "_named_here", set())
    marked = f"open({str(project / 'imported')!r}, 'a').close()\n{dedent(MINE)}"
    (project / "mine.py").write_text(marked)
    assert untrained_(*SEARCH)[0] == 0
    _arrive(project, monkeypatch)
    return project / "imported"


def _arrive(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on we are another user, in a process that has imported none of the user's modules."""
    for name in [name for name in sys.modules if name.startswith("untrained_user_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("XDG_CACHE_HOME", mkdtemp(dir=project))
    monkeypatch.setattr(user_code, "_named_here", set())
    (project / "imported").unlink()


def _drawings(page: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


def test_reading_a_run_runs_no_code(untrained_, project, theirs):
    (project / "theirs" / "report.html").unlink()
    assert untrained_("report", "theirs")[0] == 0
    page = (project / "theirs" / "report.html").read_text()
    assert "<svg" in page.partition("Best architecture")[2].partition("</section>")[0], "as the search drew it"
    assert untrained_("report", "theirs", "--json")[0] == 0
    assert untrained_("store", "info", "theirs")[0] == 0
    assert untrained_("store", "export", "theirs", "out.csv")[0] == 0
    assert untrained_("list", "spaces")[0] == 0
    assert not theirs.exists()


def test_reading_a_run_with_objectives_of_the_user_runs_no_code(untrained_, project, theirs, monkeypatch):
    shutil.rmtree(project / "theirs")
    assert untrained_(*NSGA2)[0] == 0
    before = (project / "theirs" / "report.html").read_text()
    _arrive(project, monkeypatch)
    assert untrained_("report", "theirs")[0] == 0
    page = (project / "theirs" / "report.html").read_text()
    assert _drawings(page) == _drawings(before)
    assert "spread" in "".join(_drawings(page))
    assert not theirs.exists()


def test_a_report_without_a_drawing_says_so(untrained_, project, theirs):
    facts = json.loads((project / "theirs" / "run.json").read_text())
    facts["drawing"] = None
    (project / "theirs" / "run.json").write_text(json.dumps(facts))
    assert untrained_("report", "theirs")[0] == 0
    assert "The run folder contains no drawing of it" in (project / "theirs" / "report.html").read_text()
    assert not theirs.exists()


@pytest.mark.parametrize(
    "drawing",
    [
        {"kind": "Cell", "nodes": ["a"], "edges": [[0, 10**9, "x"]]},
        {"kind": "Stages", "stages": [{"label": "x", "channels": 1, "stride": 1, "repeats": 10**9, "inner": 0}]},
        {"kind": "Layers", "embed": 1, "heads": [1], "ratios": ["x"]},
        {"kind": "Other"},
        "text",
    ],
    ids=str,
)
def test_a_drawing_of_somebody_else_is_checked(untrained_, project, theirs, drawing):
    path = project / "theirs" / "run.json"
    facts = json.loads(path.read_text())
    facts["drawing"]["sketch"] = drawing
    path.write_text(json.dumps(facts))
    assert "drawing" in wrong(untrained_("report", "theirs"))


@pytest.mark.parametrize("command", [("train", "theirs", *TRAIN), ("export", "theirs", "--out", "out")], ids=" ".join)
def test_going_on_with_a_foreign_run_needs_the_file_by_name(untrained_, project, theirs, command):
    refused = wrong(untrained_(*command))
    assert f"untrained {command[0]} theirs --space ./mine.py:mynet" in refused
    assert "not run on this machine" in refused
    assert not theirs.exists()
    assert untrained_(*command, "--space", "./mine.py:mynet")[0] == 0
    assert theirs.exists()


def test_a_file_that_lies_in_the_run_folder_is_not_trusted_either(untrained_, project, theirs):
    """Its fingerprint may be in run.json: both are of the same sender."""
    shutil.move(project / "mine.py", project / "theirs" / "mine.py")
    path = project / "theirs" / "run.json"
    path.write_text(path.read_text().replace("./mine.py", "theirs/mine.py"))
    assert "not run on this machine" in wrong(untrained_("train", "theirs", *TRAIN))
    assert not theirs.exists()


@pytest.mark.parametrize("command", [("train", "run", *TRAIN), ("export", "run", "--out", "out")], ids=" ".join)
def test_ones_own_run_goes_on_until_the_file_changes(untrained_, project, command):
    assert untrained_(*SEARCH[:-1], "run")[0] == 0
    source = (project / "mine.py").read_text()
    (project / "mine.py").write_text(f"open('imported', 'a').close()\n{source}")
    refused = wrong(untrained_(*command))
    assert "./mine.py:mynet has changed since run was made" in refused
    assert f"untrained {command[0]} run --space ./mine.py:mynet" in refused
    assert not (project / "imported").exists()
    (project / "mine.py").write_text(source)
    assert untrained_(*command)[0] == 0


def test_a_foreign_training_of_a_factory_is_not_run_by_an_export(untrained_, project, theirs, monkeypatch):
    train = ("train", "./mine.py:make", "--input-shape", "3x8x8", "--data", "digits", *TRAIN, "--run", "trained")
    (project / "mine.py").write_text((project / "mine.py").read_text().replace("nn.Linear(4, 5)", "nn.Linear(4, 10)"))
    assert untrained_(*train)[0] == 0
    _arrive(project, monkeypatch)
    refused = wrong(untrained_("export", "trained", "--out", "out"))
    assert "untrained export ./mine.py:make --weights trained/model.pt" in refused
    assert not theirs.exists()
    named = untrained_("export", "./mine.py:make", "--weights", "trained/model.pt", "--out", "out", "--json")
    assert named[0] == 0
    assert json.loads(named[1])["accuracy"] is not None


def test_the_proxy_that_a_foreign_calibration_recommends_is_not_run(untrained_, project, theirs):
    from untrained.studies.calibrate import default_folder

    folder = project / default_folder("nasbench201", "digits")
    folder.mkdir(parents=True)
    texts = dict.fromkeys(("title", "command", "space", "truth_about", "truth_unit"), "")
    lists = {"archs": [], "truth": [], "judged": [], "notes": []}
    (folder / "trust.json").write_text(json.dumps({**texts, **lists, "recommended": "./mine.py:spread"}))
    refused = wrong(untrained_("search", "--proxy", "auto", "--budget", "1", "--run", "run"))
    assert "./mine.py:spread" in refused
    assert not theirs.exists()

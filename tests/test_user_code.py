"""The user's own files: how names are resolved, what changes a fingerprint, and which code runs."""

import importlib.metadata
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from untrained import user_code
from untrained.errors import UsageError
from untrained.names import fingerprint_user_code, load_object, require_trusted_code
from untrained.user_code import find_user_code


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    modules_before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(user_code, "_trusted_in_this_process", set())
    yield tmp_path
    # Modules of this project must not be imported by the next one, whose files have the same names.
    for name in set(sys.modules) - modules_before:
        folders = getattr(sys.modules[name], "__path__", [])
        file = getattr(sys.modules[name], "__file__", None)
        if any(str(path).startswith(str(tmp_path)) for path in [file, *folders]):
            del sys.modules[name]


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


IMPORTS = {
    "a module beside it": ("import helper\nvalue = helper.number", "helper.py"),
    "a name from a module": ("from helper import number as value", "helper.py"),
    "a module of a package": ("from tools import helper\nvalue = helper.number", "tools/helper.py"),
    "a dotted module": ("import tools.helper\nvalue = tools.helper.number", "tools/helper.py"),
    "the package itself": ("import tools\nvalue = tools.number", "tools/__init__.py"),
    "a module by its name": (
        "import importlib\nvalue = importlib.import_module('helper').number",
        "helper.py",
    ),
    "a folder on the path": (
        "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib'))\n"
        "from inside import number\nvalue = number",
        "lib/inside.py",
    ),
}


@pytest.mark.parametrize("reference", ["./mine.py:value", "mine:value"])
@pytest.mark.parametrize(("source", "imported"), IMPORTS.values(), ids=IMPORTS)
def test_an_edit_of_an_imported_file_is_noticed_and_run(
    project: Path, source: str, imported: str, reference: str
):
    """In one process, within one second and with equal sizes, only the content differs."""
    write_file(project / "mine.py", source)
    write_file(project / "tools" / "__init__.py", "number = 0\n")
    write_file(project / imported, "number = 1\n")
    before = fingerprint_user_code(reference)
    assert load_object(reference) == 1
    write_file(project / imported, "number = 2\n")
    assert fingerprint_user_code(reference) != before
    assert load_object(reference) == 2
    write_file(project / imported, "number = 1\n")
    assert fingerprint_user_code(reference) == before
    assert load_object(reference) == 1


def test_imports_are_followed_transitively(project: Path):
    write_file(
        project / "mine.py", "def later():\n    import first\n    return first.second.number\n"
    )
    write_file(project / "first.py", "import second\n")
    write_file(project / "second.py", "from tools.deep import number\n")
    write_file(project / "tools" / "deep.py", "from .deeper import number\n")
    write_file(project / "tools" / "deeper.py", "number = 1\n")
    write_file(project / "unrelated.py", "number = 1\n")
    code = find_user_code("./mine.py")
    assert code is not None
    names = [file.relative_to(project).as_posix() for file in code.files]
    assert names == ["first.py", "mine.py", "second.py", "tools/deep.py", "tools/deeper.py"]
    before = code.fingerprint
    write_file(project / "unrelated.py", "number = 2\n")
    assert fingerprint_user_code("./mine.py:later") == before
    write_file(project / "tools" / "deeper.py", "number = 2\n")
    assert fingerprint_user_code("./mine.py:later") != before


def test_a_fingerprint_does_not_depend_on_the_spelling_of_the_path_or_on_loaded_modules(
    project: Path,
):
    write_file(project / "mine.py", "import helper\nvalue = 1\n")
    write_file(project / "helper.py", "number = 1\n")
    write_file(project / "other.py", "import mine\nvalue = 1\n")
    names = ["./mine.py:value", "mine.py:value", f"{project}/mine.py:value", "mine:value"]
    before = {fingerprint_user_code(name) for name in names}
    assert len(before) == 1
    load_object("./other.py:value")
    assert {fingerprint_user_code(name) for name in names} == before


def test_imports_of_installed_packages_and_of_untrained_are_not_followed(project: Path):
    write_file(project / "mine.py", "import torch, json, untrained, helper\n")
    write_file(project / ".venv" / "lib" / "site-packages" / "helper.py", "number = 1\n")
    code = find_user_code("./mine.py")
    assert code is not None
    assert code.files == (project / "mine.py",)
    assert fingerprint_user_code("untrained.training.short_training:accuracy(epochs=3)") == ""
    assert fingerprint_user_code("nasbench201(channels=4)", "dextr") == ""


def test_an_installed_module_is_identified_by_its_file_and_its_version(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    before = fingerprint_user_code("numpy.linalg:norm")
    assert before
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1")
    assert fingerprint_user_code("numpy.linalg:norm") != before


def test_finding_code_does_not_run_it(project: Path):
    write_file(project / "package" / "__init__.py", "open('marker', 'w').close()\n")
    write_file(
        project / "package" / "mine.py", "import package\nopen('marker', 'w').close()\nvalue = 1\n"
    )
    assert fingerprint_user_code("package.mine:value", "./package/mine.py:value")
    assert not (project / "marker").exists()
    assert load_object("package.mine:value") == 1
    assert (project / "marker").exists()


def test_code_named_by_a_file_is_trusted_only_if_the_user_ran_it_unchanged(project: Path):
    write_file(project / "mine.py", "value = 1\n")
    recorded = fingerprint_user_code("./mine.py:value")
    arguments = (
        "./mine.py:value",
        recorded,
        "runs/theirs",
        "untrained train runs/theirs --space ./mine.py:value",
    )
    with pytest.raises(UsageError, match="read it, then type: untrained train"):
        require_trusted_code(*arguments)
    load_object("./mine.py:value")
    require_trusted_code(*arguments)
    os.remove(project / "mine.py")
    with pytest.raises(UsageError, match="which was not found; give its location"):
        require_trusted_code(*arguments)
    write_file(project / "mine.py", "value = 2\n")
    with pytest.raises(UsageError, match="has changed since runs/theirs was made"):
        require_trusted_code(*arguments)
    with pytest.raises(UsageError, match="was not found"):
        require_trusted_code("nowhere.mine:value", None, "runs/theirs", "")
    require_trusted_code("nasbench201", "", "runs/theirs", "")


def test_trusted_code_is_remembered_by_other_processes(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    write_file(project / "mine.py", "value = 1\n")
    load_object("./mine.py:value")
    monkeypatch.setattr(user_code, "_trusted_in_this_process", set())
    require_trusted_code("./mine.py:value", None, "runs/mine", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "another user"))
    with pytest.raises(UsageError, match="not run on this machine"):
        require_trusted_code("./mine.py:value", None, "runs/mine", "")

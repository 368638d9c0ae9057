"""An export replaces its own files and nothing else, and its folder is complete at any moment."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from untrained.errors import UsageError
from untrained.exports import folder as export_folder
from untrained.exports.folder import MANIFEST, check_folder, replace_folder

OLD = {"model.py": "old code", "weights": "old weights", "gone.txt": "no longer written"}
NEW = {"model.py": "new code", "weights": "new weights", "more.txt": "not written before"}
OWN = {"notes.txt": "mine", "deep/er/results.csv": "1,2", "empty/.keep": ""}


def write_files(out: Path, files: dict[str, str]) -> Path | None:
    with replace_folder(out) as staging:
        for name, text in files.items():
            (staging.folder / name).write_text(text)
    return staging.kept


def put_own_files(out: Path) -> None:
    for name, text in OWN.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    (out / "link").symlink_to("notes.txt")
    (out / "link to a folder").symlink_to("deep")
    (out / "link to nothing").symlink_to("nowhere")


def read_files(out: Path) -> dict[str, str]:
    """Return the files of a folder except for the manifest, and the targets of its links."""
    contents = {}
    for parent, folders, files in os.walk(out):
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink():
                contents[str(path.relative_to(out))] = f"-> {os.readlink(path)}"
            elif path.is_file() and path != out / MANIFEST:
                contents[str(path.relative_to(out))] = path.read_text()
    return contents


LINKS = {"link": "-> notes.txt", "link to a folder": "-> deep", "link to nothing": "-> nowhere"}


def test_only_files_of_the_earlier_export_are_replaced(tmp_path):
    out = tmp_path / "out"
    write_files(out, OLD)
    put_own_files(out)
    notes = (out / "notes.txt").stat()
    out.chmod(0o750)
    assert write_files(out, NEW) is None
    assert read_files(out) == NEW | OWN | LINKS
    assert os.path.samestat((out / "notes.txt").stat(), notes)  # the same file, not a copy
    assert out.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [out]
    assert set(json.loads((out / MANIFEST).read_text())["sha256"]) == set(NEW)


def test_files_are_copied_if_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    out = tmp_path / "out"
    write_files(out, OLD)
    put_own_files(out)
    write_files(out, NEW)
    assert read_files(out) == NEW | OWN | LINKS
    assert list(tmp_path.iterdir()) == [out]


def test_empty_and_new_folders_are_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/deeper"):
        write_files(tmp_path / name, NEW)
        assert read_files(tmp_path / name) == NEW


def test_removed_file_is_written_again(tmp_path):
    write_files(tmp_path / "out", OLD)
    (tmp_path / "out" / "model.py").unlink()
    write_files(tmp_path / "out", NEW)
    assert read_files(tmp_path / "out") == NEW


def check_refusal(out: Path, why: str) -> None:
    """Check that both `check_folder` and the export refuse a folder and change nothing."""
    before = read_files(out.parent)
    with pytest.raises(UsageError, match=why) as caught:
        check_folder(out)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=why):
        write_files(out, NEW)
    assert read_files(out.parent) == before


def test_changed_file_is_not_overwritten(tmp_path):
    write_files(tmp_path / "out", OLD)
    (tmp_path / "out" / "model.py").write_text("old code, improved by hand")
    check_refusal(
        tmp_path / "out",
        r"out/model\.py was changed after it was exported: move it out of the folder to keep it",
    )


@pytest.mark.parametrize("other", [lambda p: p.mkdir(), lambda p: p.symlink_to("weights")])
def test_file_that_was_replaced_by_a_folder_or_link_counts_as_changed(tmp_path, other):
    write_files(tmp_path / "out", OLD)
    (tmp_path / "out" / "model.py").unlink()
    other(tmp_path / "out" / "model.py")
    check_refusal(tmp_path / "out", "was changed after it was exported")


def test_file_of_the_user_with_the_name_of_a_new_file_is_not_overwritten(tmp_path):
    out = tmp_path / "out"
    write_files(out, OLD)
    (out / "more.txt").write_text("mine")
    with pytest.raises(
        UsageError, match=r"more\.txt is not from the earlier export, .*: move it away"
    ):
        write_files(out, NEW)
    assert read_files(out) == OLD | {"more.txt": "mine"}
    assert list(tmp_path.iterdir()) == [out]


MANIFESTS = {
    "none": None,
    "made_by in config.json": None,
    "no JSON": "made_by",
    "a list": "[]",
    "unfinished": json.dumps({"finished": False, "sha256": {}}),
    "no hashes": json.dumps({"made_by": "untrained"}),
    "a path out of the folder": json.dumps({"finished": True, "sha256": {"../thesis.tex": "0"}}),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_folder_that_no_export_wrote_is_refused(tmp_path, case):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "config.json").write_text('{"made_by": "me"}')
    (out / "thesis.tex").write_text("three years")
    if MANIFESTS[case] is not None:
        (out / MANIFEST).write_text(MANIFESTS[case])
    check_refusal(out, "is not an earlier export: choose another folder, or move it away")


def test_failed_export_keeps_the_old_folder(tmp_path):
    out = tmp_path / "out"
    write_files(out, OLD)
    put_own_files(out)
    with pytest.raises(TypeError):
        write_files(out, {"model.py": "half", "weights": None})
    assert read_files(out) == OLD | OWN | LINKS
    assert list(tmp_path.iterdir()) == [out]


def test_file_that_appears_at_the_last_moment_is_kept(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_files(out, OLD)
    exchange = export_folder._exchange_folders

    def exchange_late(one: Path, other: Path) -> None:
        if other == out:
            (out / "late.txt").write_text("mine")
            (out / "weights").write_text("changed by hand")
        exchange(one, other)

    monkeypatch.setattr(export_folder, "_exchange_folders", exchange_late)
    backup = write_files(out, NEW)
    assert backup == tmp_path / "out-2"
    assert read_files(backup) == {"late.txt": "mine", "weights": "changed by hand"}
    assert read_files(out) == NEW


def test_file_system_without_exchange_is_refused_before_the_work(tmp_path, monkeypatch):
    write_files(tmp_path / "out", OLD)

    def refuse(one: Path, other: Path) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(export_folder, "_exchange_folders", refuse)
    check_refusal(
        tmp_path / "out",
        r"cannot exchange two folders \(Invalid argument\); choose a folder that does not",
    )
    write_files(tmp_path / "new", NEW)  # a new folder needs no exchange
    assert read_files(tmp_path / "new") == NEW


# Audit events of Python that concern files.
FILE_EVENTS = ("os.", "open", "shutil.", "fcntl.", "ctypes.", "tempfile.")


def write_in_killed_process(out: Path, step: int) -> bool:
    """Replace a folder in a process that is killed before a given call to the file system.

    Returns:
        Whether it was killed, that is, whether there were so many calls.
    """
    child = os.fork()
    if child == 0:
        try:
            calls = []

            def count_event(event: str, _: object) -> None:
                if event.startswith(FILE_EVENTS) and event != "os.kill":
                    calls.append(event)
                    if len(calls) > step:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count_event)
            write_files(out, NEW)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.alone
def test_killed_export_leaves_the_old_or_the_new_folder(tmp_path):
    outcomes = []
    step = 0
    while True:
        parent = tmp_path / str(step)
        parent.mkdir()
        out = parent / "out"
        write_files(out, OLD)
        put_own_files(out)
        killed = write_in_killed_process(out, step)
        contents = read_files(out)
        assert contents in (OLD | OWN | LINKS, NEW | OWN | LINKS), f"killed at step {step}"
        outcomes.append(contents == NEW | OWN | LINKS)
        check_folder(out)  # the export can be replaced again
        write_files(out, NEW)
        assert read_files(out) == NEW | OWN | LINKS
        assert list(parent.iterdir()) == [out], f"left after being killed at step {step}"
        if not killed:
            break
        step += 1
    assert step > 50
    assert outcomes == sorted(outcomes)  # old until the exchange, new after it
    assert 0 < sum(outcomes) < len(outcomes)


@pytest.mark.alone
def test_killed_first_export_leaves_a_complete_folder_or_none(tmp_path):
    step = 0
    while True:
        out = tmp_path / str(step) / "out"
        out.parent.mkdir()
        killed = write_in_killed_process(out, step)
        assert not out.exists() or read_files(out) == NEW
        write_files(out, NEW)
        assert list(out.parent.iterdir()) == [out]
        if not killed:
            break
        step += 1
    assert step > 20

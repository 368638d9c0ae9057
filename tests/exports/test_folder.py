"""An export replaces its own files and nothing else, and its folder is whole at every moment."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from untrained.errors import UsageError
from untrained.exports import folder as room
from untrained.exports.folder import MANIFEST, check_folder, replace_folder

OLD = {"model.py": "old code", "weights": "old weights", "gone.txt": "no longer written"}
NEW = {"model.py": "new code", "weights": "new weights", "more.txt": "not written before"}
OWN = {"notes.txt": "mine", "deep/er/results.csv": "1,2", "empty/.keep": ""}


def write(out: Path, files: dict[str, str]) -> Path | None:
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


def read(out: Path) -> dict[str, str]:
    """All files of a folder except for the manifest; links as what they say."""
    found = {}
    for place, folders, files in os.walk(out):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                found[str(path.relative_to(out))] = f"-> {os.readlink(path)}"
            elif path.is_file() and path != out / MANIFEST:
                found[str(path.relative_to(out))] = path.read_text()
    return found


LINKS = {"link": "-> notes.txt", "link to a folder": "-> deep", "link to nothing": "-> nowhere"}


def test_exactly_the_files_of_the_earlier_export_are_replaced(tmp_path):
    out = tmp_path / "out"
    write(out, OLD)
    put_own_files(out)
    kept = (out / "notes.txt").stat()
    out.chmod(0o750)
    assert write(out, NEW) is None
    assert read(out) == NEW | OWN | LINKS
    assert os.path.samestat((out / "notes.txt").stat(), kept)  # the very file, not a copy
    assert out.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [out]
    assert set(json.loads((out / MANIFEST).read_text())["sha256"]) == set(NEW)


def test_a_disk_without_hard_links_gets_copies(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    out = tmp_path / "out"
    write(out, OLD)
    put_own_files(out)
    write(out, NEW)
    assert read(out) == NEW | OWN | LINKS
    assert list(tmp_path.iterdir()) == [out]


def test_an_empty_folder_and_an_absent_one_are_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/deeper"):
        write(tmp_path / name, NEW)
        assert read(tmp_path / name) == NEW


def test_a_file_that_the_user_removed_is_written_again(tmp_path):
    write(tmp_path / "out", OLD)
    (tmp_path / "out" / "model.py").unlink()
    write(tmp_path / "out", NEW)
    assert read(tmp_path / "out") == NEW


def refused(out: Path, why: str) -> None:
    """Both the check beforehand and the export itself refuse, and nothing is changed."""
    before = read(out.parent)
    with pytest.raises(UsageError, match=why) as caught:
        check_folder(out)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=why):
        write(out, NEW)
    assert read(out.parent) == before


def test_a_file_that_the_user_changed_is_not_overwritten(tmp_path):
    write(tmp_path / "out", OLD)
    (tmp_path / "out" / "model.py").write_text("old code, improved by hand")
    refused(tmp_path / "out", r"out/model\.py was changed after it was exported: move it out of the folder to keep it")


@pytest.mark.parametrize("other", [lambda p: p.mkdir(), lambda p: p.symlink_to("weights")])
def test_another_thing_in_the_place_of_a_file_is_a_change(tmp_path, other):
    write(tmp_path / "out", OLD)
    (tmp_path / "out" / "model.py").unlink()
    other(tmp_path / "out" / "model.py")
    refused(tmp_path / "out", "was changed after it was exported")


def test_a_users_file_of_a_name_that_is_now_written_is_not_overwritten(tmp_path):
    out = tmp_path / "out"
    write(out, OLD)
    (out / "more.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"more\.txt is not from the earlier export, .*: move it away"):
        write(out, NEW)
    assert read(out) == OLD | {"more.txt": "mine"}
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
def test_a_folder_that_no_export_wrote_is_left_alone(tmp_path, case):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "config.json").write_text('{"made_by": "me"}')
    (out / "thesis.tex").write_text("three years")
    if MANIFESTS[case] is not None:
        (out / MANIFEST).write_text(MANIFESTS[case])
    refused(out, "is no earlier export: choose another folder, or move it away")


def test_an_export_that_fails_leaves_the_old_one(tmp_path):
    out = tmp_path / "out"
    write(out, OLD)
    put_own_files(out)
    with pytest.raises(TypeError):
        write(out, {"model.py": "half", "weights": None})
    assert read(out) == OLD | OWN | LINKS
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_that_appears_at_the_last_moment_is_kept(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write(out, OLD)
    exchange = room._exchange

    def exchange_late(one: Path, other: Path) -> None:
        if other == out:
            (out / "late.txt").write_text("mine")
            (out / "weights").write_text("changed by hand")
        exchange(one, other)

    monkeypatch.setattr(room, "_exchange", exchange_late)
    kept = write(out, NEW)
    assert kept == tmp_path / "out-2"
    assert read(kept) == {"late.txt": "mine", "weights": "changed by hand"}
    assert read(out) == NEW


def test_a_disk_that_cannot_exchange_folders_is_told_before_the_work(tmp_path, monkeypatch):
    write(tmp_path / "out", OLD)

    def refuse(one: Path, other: Path) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(room, "_exchange", refuse)
    refused(
        tmp_path / "out", r"cannot replace a folder in one step \(Invalid argument\); choose a folder that does not"
    )
    write(tmp_path / "new", NEW)  # which needs no exchange
    assert read(tmp_path / "new") == NEW


FILE_EVENTS = ("os.", "open", "shutil.", "fcntl.", "ctypes.", "tempfile.")  # what Python tells auditors


def write_and_die(out: Path, step: int) -> bool:
    """Replace a folder in a process that kills itself before its n-th call to the file system; whether it did."""
    child = os.fork()
    if child == 0:
        try:
            calls = []

            def count(event: str, _: object) -> None:
                if event.startswith(FILE_EVENTS) and event != "os.kill":
                    calls.append(event)
                    if len(calls) > step:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            write(out, NEW)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.alone
def test_the_folder_is_old_or_new_whenever_the_process_is_killed(tmp_path):
    outcomes = []
    step = 0
    while True:
        parent = tmp_path / str(step)
        parent.mkdir()
        out = parent / "out"
        write(out, OLD)
        put_own_files(out)
        killed = write_and_die(out, step)
        found = read(out)
        assert found in (OLD | OWN | LINKS, NEW | OWN | LINKS), f"killed at step {step}"
        outcomes.append(found == NEW | OWN | LINKS)
        check_folder(out)  # it is an export that can be replaced again
        write(out, NEW)
        assert read(out) == NEW | OWN | LINKS
        assert list(parent.iterdir()) == [out], f"left after being killed at step {step}"
        if not killed:
            break
        step += 1
    assert step > 50
    assert outcomes == sorted(outcomes)  # the old one up to the exchange, the new one from then on
    assert 0 < sum(outcomes) < len(outcomes)


@pytest.mark.alone
def test_a_first_export_is_there_whole_or_not_at_all_whenever_it_is_killed(tmp_path):
    step = 0
    while True:
        out = tmp_path / str(step) / "out"
        out.parent.mkdir()
        killed = write_and_die(out, step)
        assert not out.exists() or read(out) == NEW
        write(out, NEW)
        assert list(out.parent.iterdir()) == [out]
        if not killed:
            break
        step += 1
    assert step > 20

"""The session file: who works on a run, and what a killed process leaves."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pytest

from untrained.files import hold_lock, is_locked
from untrained.runs.session import (
    SESSION_FILE,
    Session,
    SessionFile,
    read_session,
    remove_killed_session,
)

HOLDER = """
import sys, time
from pathlib import Path
from threading import Timer
from untrained.runs.session import Session, SessionFile
with SessionFile.open(Path(sys.argv[1])) as file:
    file.write(Session("scoring", 12, 100))
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_folder_without_a_session_has_none(tmp_path):
    assert read_session(tmp_path) is None
    assert read_session(tmp_path / "absent") is None


def test_the_session_of_another_process_is_running_until_it_is_killed(tmp_path):
    holder = start_holder(tmp_path)
    assert read_session(tmp_path) == Session("scoring", 12, 100, is_running=True)
    with SessionFile.open(tmp_path) as second:
        assert second is None
    assert read_session(tmp_path) == Session("scoring", 12, 100, is_running=True)
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert read_session(tmp_path) == Session("scoring", 12, 100, is_running=False)
    remove_killed_session(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_orderly_end_removes_the_file(tmp_path):
    holder = start_holder(tmp_path)
    remove_killed_session(tmp_path)
    assert (tmp_path / SESSION_FILE).exists()
    holder.communicate("")
    assert holder.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_killed_session_is_taken_over(tmp_path):
    (tmp_path / SESSION_FILE).write_text('{"phase": "contest", "done": 3, "total": null}')
    assert read_session(tmp_path) == Session("contest", 3, None, is_running=False)
    with SessionFile.open(tmp_path) as session_file:
        assert session_file is not None
        session_file.write(Session("a much longer phase", 1, 2))
        session_file.write(Session("scoring", 1, 2))
        assert read_session(tmp_path) == Session("scoring", 1, 2, is_running=True)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_while_it_writes_leaves_the_text_before(tmp_path, monkeypatch):
    with SessionFile.open(tmp_path) as session_file:
        assert session_file is not None
        session_file.write(Session("scoring", 12, 100))

        def die(*_: object) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr("os.pwrite", die)
        with pytest.raises(KeyboardInterrupt):
            session_file.write(Session("scoring", 13, 100))
        assert read_session(tmp_path) == Session("scoring", 12, 100, is_running=True)


def test_a_session_replaces_the_longer_text_of_a_killed_one(tmp_path):
    (tmp_path / SESSION_FILE).write_text('{"phase": "scoring the sample", "done": 1, "total": 20}')
    with SessionFile.open(tmp_path) as session_file:
        assert session_file is not None
        session_file.write(Session("x", 1, 2))
        assert read_session(tmp_path) == Session("x", 1, 2, is_running=True)


def test_a_damaged_file_and_a_link_are_harmless(tmp_path):
    for text in ("", "{", "[]", '{"phase": 1}', '{"phase": "x", "done": "y", "total": 1}'):
        (tmp_path / SESSION_FILE).write_text(text)
        assert read_session(tmp_path) == Session("", 0, None, is_running=False)
    (tmp_path / SESSION_FILE).unlink()
    target = tmp_path / "secret"
    target.write_text('{"phase": "x", "done": 1, "total": 1}')
    (tmp_path / SESSION_FILE).symlink_to(target)
    assert read_session(tmp_path) is None
    assert not is_locked(tmp_path / SESSION_FILE)


def test_a_lock_is_held_inside_the_block_only(tmp_path):
    path = tmp_path / "lock"
    with hold_lock(path) as descriptor:
        assert descriptor is not None
        assert is_locked(path)
        with hold_lock(path) as second:
            assert second is None
        assert is_locked(path)
    assert not path.exists()
    assert not is_locked(path)


def test_a_new_file_that_another_process_locks_first_is_not_free(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    flock = fcntl.flock
    with ExitStack() as others:
        holders = []

        def lock_elsewhere_first(descriptor, operation):
            monkeypatch.setattr(fcntl, "flock", flock)
            holders.append(others.enter_context(hold_lock(path)))
            flock(descriptor, operation)

        monkeypatch.setattr(fcntl, "flock", lock_elsewhere_first)
        with hold_lock(path) as descriptor:
            assert holders[0] is not None
            assert descriptor is None
        assert is_locked(path)


def test_a_new_file_is_free_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold_lock(tmp_path / "lock") as descriptor:
        assert descriptor is not None
        with hold_lock(tmp_path / "lock") as second:
            assert second is None


def test_a_file_that_its_holder_removes_meanwhile_is_created_again(tmp_path, monkeypatch):
    """The last process may end after this one opened the file and before it locks the file."""
    path = tmp_path / "lock"
    path.touch()
    flock = fcntl.flock

    def end_first(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", end_first)
    with hold_lock(path) as descriptor:
        assert descriptor is not None
        assert is_locked(path)
    assert not path.exists()


def test_a_process_that_only_looks_at_the_lock_does_not_refuse_it(tmp_path):
    """`is_locked` locks the file of a killed process for a moment."""
    path = tmp_path / "lock"
    path.touch()
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    end_of_look = Timer(0.05, os.close, [descriptor])
    end_of_look.start()
    with hold_lock(path) as held:
        assert held is not None
    end_of_look.join()


def test_a_session_that_begins_while_a_killed_one_is_removed_keeps_its_file(tmp_path, monkeypatch):
    path = tmp_path / SESSION_FILE
    path.touch()
    unlink = Path.unlink
    with ExitStack() as others:
        descriptors = []

        def begin_first(file, missing_ok=False):
            monkeypatch.setattr(Path, "unlink", unlink)
            descriptors.append(others.enter_context(hold_lock(path)))
            unlink(file, missing_ok)

        monkeypatch.setattr(Path, "unlink", begin_first)
        remove_killed_session(tmp_path)
        # Either the other process has the lock and the file, or it was told to wait.
        assert len(descriptors) == 1
        assert path.exists() == (descriptors[0] is not None)


def test_the_file_of_another_process_at_the_same_path_stays(tmp_path):
    path = tmp_path / "lock"
    with hold_lock(path):
        path.unlink()
        path.write_text("of another process")
    assert path.read_text() == "of another process"


def test_an_exception_removes_the_file(tmp_path):
    with pytest.raises(KeyError), hold_lock(tmp_path / "lock"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_the_text_of_a_session():
    assert Session("", 0, None).text == "starting"
    assert Session("scoring", 1200, None).text == "scoring, 1,200 done"
    assert Session("contest", 5, 100, is_percentage=True).text == "contest, 5 % done"
    assert Session("scoring", 12, 1000).text == "scoring, 12 of 1,000 done"

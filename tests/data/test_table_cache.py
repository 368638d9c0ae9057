"""The cache of encoded tables: damage, location, disk space and killed processes."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from untrained.data import TEST, TRAIN, VAL, load_data
from untrained.data.tables import source as _table
from untrained.errors import UsageError
from untrained.files import make_locked_folder
from untrained.types import Task

LIKE = Task("", (3,), 1, "bce")
FILES = (TRAIN, VAL, TEST, "schema.json", "vocabularies.npz")


@pytest.fixture
def clicks(tmp_path) -> Path:
    """A table of 200 rows with a column of numbers and one of identifiers."""
    path = tmp_path / "clicks.csv"
    rows = [f"{row % 2},{row * 0.5},u{row % 7}\n" for row in range(200)]
    path.write_text("click,price,user\n" + "".join(rows))
    return path


def read_rows(path: Path, root: Path | None = None) -> list[np.ndarray]:
    parts = load_data(f"csv:{path}?label=click", LIKE, root).parts
    return [np.array(parts[name].values) for name in (TRAIN, VAL, TEST)]


def list_cached_tables(root: Path) -> list[Path]:
    return sorted((root / "cache" / "tables").iterdir())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["gone", "empty", "short", "long", "other"])
def test_a_damaged_file_is_written_again(clicks, tmp_path, name, damage):
    root = tmp_path / "root"
    before = read_rows(clicks, root)
    (folder,) = list_cached_tables(root)
    file = folder / name
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "short":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "long":
        file.write_bytes(content + b"more bytes than were written")
    elif name in (TRAIN, VAL, TEST):
        file.write_bytes(content + content[-12:])  # one row more
    else:
        file.write_bytes(b"[1, 2]")
    after = read_rows(clicks, root)
    for rows, same in zip(before, after, strict=True):
        assert np.array_equal(rows, same)
    assert list_cached_tables(root) == [folder]


def test_an_intact_cache_is_read_and_not_written_again(clicks, tmp_path):
    read_rows(clicks, tmp_path / "root")
    (folder,) = list_cached_tables(tmp_path / "root")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    read_rows(clicks, tmp_path / "root")
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_the_cache_is_under_the_data_root(clicks, tmp_path, monkeypatch):
    read_rows(clicks, tmp_path / "here")
    assert len(list_cached_tables(tmp_path / "here")) == 1
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("UNTRAINED_DATA", str(tmp_path / "there"))
    read_rows(clicks)
    assert len(list_cached_tables(tmp_path / "there")) == 1


def test_too_little_disk_space_is_reported_with_file_and_size_before_anything_is_written(
    clicks, tmp_path, monkeypatch
):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    with pytest.raises(UsageError) as caught:
        read_rows(clicks, tmp_path / "root")
    # 200 rows of a number, an identifier and a label, each of 4 bytes
    assert f"{clicks} takes 2.40 kB in {tmp_path / 'root' / 'cache' / 'tables'}" in str(
        caught.value
    )
    assert "1.00 kB are free; name another --data-root" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list_cached_tables(tmp_path / "root") == []


def test_a_full_disk_is_reported_with_file_and_size(clicks, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_table, "_write_parts", fail)
    with pytest.raises(UsageError) as caught:
        read_rows(clicks, tmp_path / "root")
    assert f"{clicks} takes 2.40 kB in {tmp_path / 'root' / 'cache' / 'tables'}" in str(
        caught.value
    )
    assert "No space left on device; name another --data-root" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list_cached_tables(tmp_path / "root") == []


def test_a_root_that_cannot_be_written_is_reported_in_one_line(clicks, tmp_path):
    (tmp_path / "root").write_text("a file")
    with pytest.raises(UsageError, match=r"which cannot be written: .*; name another --data-root"):
        read_rows(clicks, tmp_path / "root")


KILLED = """
import os, signal, sys
from untrained.data import load_data
from untrained.data.tables import source
from untrained.types import Task

def write_and_die(*arguments):
    folder = arguments[-1]
    (folder / "train").write_bytes(b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)

source._write_parts = write_and_die
load_data(f"csv:{sys.argv[1]}?label=click", Task("", (3,), 1, "bce"), sys.argv[2])
"""


@pytest.mark.alone
def test_files_of_a_killed_process_are_removed_at_the_next_use(clicks, tmp_path):
    root = tmp_path / "root"
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(clicks), str(root)], capture_output=True, check=False
    )
    assert ended.returncode == -9, ended.stderr
    (abandoned_folder,) = list_cached_tables(root)
    assert abandoned_folder.name.startswith("tmp")
    read_rows(clicks, root)
    assert len(list_cached_tables(root)) == 1
    assert not abandoned_folder.exists()


def test_a_folder_that_another_process_writes_is_not_removed(clicks, tmp_path):
    folder = tmp_path / "root" / "cache" / "tables"
    folder.mkdir(parents=True)
    abandoned_folder = folder / "tmp-abc"
    abandoned_folder.mkdir()
    # A lock belongs to an open file, so this process can act as the other one.
    with make_locked_folder(folder, "tmp-") as locked_folder:
        read_rows(clicks, tmp_path / "root")
        assert locked_folder.exists()
    assert not abandoned_folder.exists()


def test_without_locks_a_folder_of_another_process_is_kept_for_a_day(clicks, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    folder = tmp_path / "root" / "cache" / "tables"
    new_folder = folder / "tmp-new"
    old_folder = folder / "tmp-old"
    new_folder.mkdir(parents=True)
    old_folder.mkdir()
    yesterday = time.time() - 25 * 3600
    os.utime(old_folder, (yesterday, yesterday))
    read_rows(clicks, tmp_path / "root")
    assert new_folder.exists()
    assert not old_folder.exists()

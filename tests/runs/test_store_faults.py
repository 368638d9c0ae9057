"""Files that are not stores, and stores that are newer, damaged, locked or full: the error is one
line with the path of the file, and the file is not changed."""

import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.helpers import RECORD
from tests.records import change_record
from untrained import Record
from untrained.errors import UsageError
from untrained.runs import database as _database
from untrained.runs.store import Store
from untrained.types import Failure


def write_newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def write_damaged(path: Path) -> None:
    path.write_bytes(b"this is no database, " * 100)


def write_foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE records (something TEXT)")
    db.close()


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (write_newer, "another program"),
        (write_damaged, "not a database"),
        (write_foreign, "another program"),
    ],
)
def test_a_file_that_is_not_our_store_is_refused_and_not_changed(tmp_path, write, reason):
    path = tmp_path / "s.sqlite"
    write(path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=reason) as caught:
        Store(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["s.sqlite"]


def make_file(path: Path) -> None:
    path.write_text("a file where the folder should be")


def make_read_only(path: Path) -> None:
    path.mkdir(mode=0o555)
    try:
        (path / "probe").touch()
    except OSError:
        return
    pytest.skip("this user may write everywhere")


@pytest.mark.parametrize("make", [make_file, make_read_only])
def test_the_error_names_a_folder_that_cannot_be_written(tmp_path, make):
    make(tmp_path / "folder")
    with pytest.raises(UsageError, match="cannot be used as a store") as caught:
        Store(tmp_path / "folder" / "s.sqlite")
    assert str(tmp_path / "folder" / "s.sqlite") in str(caught.value)


def test_the_error_names_a_folder_in_the_place_of_the_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be used as a store") as caught:
        Store(tmp_path)
    assert str(tmp_path) in str(caught.value)


def fill_store(path: Path, count: int = 40) -> list[Record]:
    """Write a store of several pages and return its records."""
    records = [
        change_record(RECORD, seed=seed, value=seed / 7, data=f"{seed:x}" * 30)
        for seed in range(count)
    ]
    records[3] = change_record(
        records[3], value=None, error=Failure("crashed", "its worker died", "a trace " * 40)
    )
    with Store(path) as store:
        store.add(records)
    return records


def get_error(work: Callable[[], object], path: Path) -> str:
    """Return the message of a UsageError, after checking that it is one line with the path."""
    with pytest.raises(UsageError) as caught:
        work()
    message = str(caught.value)
    assert message.startswith(f"{path} ")
    assert "\n" not in message
    return message


def read_all(path: Path) -> list[Record]:
    """Read a store in every way."""
    with Store(path) as store:
        records = list(store)
        assert len(store) == len(records)
        for record in records:
            store.get(record.key)
        return records


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes_give_one_line_or_no_error_and_the_file_is_not_changed(tmp_path, seed):
    """SQLite keeps no checksums, so a flipped digit may go unnoticed. An error is one line, never a
    traceback."""
    path = tmp_path / "s.sqlite"
    rng = random.Random(seed)
    fill_store(path)
    damaged = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 4, 64))):
        # The first 100 bytes are the header.
        if seed % 4 == 0:
            position = rng.randrange(0, 100)
        else:
            position = rng.randrange(100, len(damaged))
        damaged[position] ^= rng.randrange(1, 256)
    path.write_bytes(damaged)
    message = ""
    try:
        read_all(path)
    except UsageError as error:
        message = str(error)
    assert not message or message.startswith(f"{path} ")
    assert "\n" not in message
    assert path.read_bytes()[100:] == damaged[100:]


def test_a_store_whose_middle_was_overwritten_is_damaged(tmp_path):
    path = tmp_path / "s.sqlite"
    fill_store(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:2048] + b"\xff" * (len(whole) - 4096) + whole[-2048:])
    damaged = path.read_bytes()
    assert "it is damaged or not a store: it was not changed" in get_error(
        lambda: read_all(path), path
    )
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("fraction", [0.3, 0.5, 0.9])
def test_a_truncated_file_is_refused_and_not_changed(tmp_path, fraction):
    path = tmp_path / "s.sqlite"
    fill_store(path)
    truncated = path.read_bytes()[: int(fraction * path.stat().st_size)]
    path.write_bytes(truncated)
    assert "damaged" in get_error(lambda: read_all(path), path)
    assert path.read_bytes() == truncated


@pytest.mark.parametrize("version", [-1, -(2**31)])
def test_a_store_with_an_impossible_version_is_damaged(tmp_path, version):
    path = tmp_path / "s.sqlite"
    fill_store(path)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    assert "it is damaged or not a store" in get_error(lambda: Store(path), path)


@pytest.mark.parametrize("column", ["genes = '[[1, 2'", "genes = '3'", "genes = '[3]'"])
def test_a_record_with_impossible_genes_is_malformed(tmp_path, column):
    path = tmp_path / "s.sqlite"
    (first, *_) = fill_store(path)
    db = sqlite3.connect(path)
    with db:
        db.execute(f"UPDATE archs SET {column}")
    db.close()
    assert "cannot be read: malformed record" in get_error(lambda: read_all(path), path)
    with Store(path) as store:
        assert "cannot be read: malformed record" in get_error(lambda: store.get(first.key), path)


def test_a_full_disk_is_an_error_and_stored_records_are_kept(tmp_path):
    path = tmp_path / "s.sqlite"
    records = fill_store(path)
    more = [change_record(RECORD, seed=seed, data="x" * 1000) for seed in range(1000, 1100)]
    with Store(path) as store:
        (pages,) = store._database.execute("PRAGMA page_count").fetchone()
        store._database.execute(f"PRAGMA max_page_count = {pages + 2}")
        message = get_error(lambda: store.add(more), path)
        assert (
            "cannot be written: database or disk is full; finished records are kept: free some space"
            in message
        )
        assert list(store) == records
        store._database.execute("PRAGMA max_page_count = 100000")  # the disk has room again
        store.add(more[:2])
        assert list(store) == records + more[:2]
    assert read_all(path) == records + more[:2]


def test_a_new_store_on_a_full_disk_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    connect = sqlite3.connect

    def connect_with_two_pages(*args: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*args, **options)
        db.execute("PRAGMA max_page_count = 2")
        return db

    monkeypatch.setattr(sqlite3, "connect", connect_with_two_pages)
    assert "cannot be used as a store: database or disk is full" in get_error(
        lambda: Store(path), path
    )


@pytest.fixture
def short_timeout(monkeypatch):
    monkeypatch.setattr(_database, "LOCK_TIMEOUT", 0.05)


def test_a_locked_store_is_an_error_and_can_be_written_when_it_is_free(tmp_path, short_timeout):
    path = tmp_path / "s.sqlite"
    records = fill_store(path)
    other = sqlite3.connect(path, isolation_level=None)
    with Store(path) as store:
        other.execute("BEGIN EXCLUSIVE")
        message = get_error(lambda: store.add([change_record(RECORD, seed=99)]), path)
        assert (
            "cannot be written: database is locked; another program is writing it: wait for it"
            in message
        )
        assert list(store) == records  # reading needs no lock
        other.execute("COMMIT")
        store.add([change_record(RECORD, seed=99)])
        assert len(store) == len(records) + 1
    other.close()


def test_a_store_that_another_program_has_locked_cannot_be_opened(tmp_path, short_timeout):
    path = tmp_path / "s.sqlite"
    records = fill_store(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    assert "database is locked; another program is writing it" in get_error(
        lambda: read_all(path), path
    )
    other.execute("COMMIT")
    other.close()
    assert read_all(path) == records


def test_identifiers_of_settings_that_were_rolled_back_are_not_used_again(tmp_path):
    """An `add` that fails rolls back the settings it wrote; the next one must not use their
    identifiers."""
    with Store(tmp_path / "s.sqlite") as store:
        fresh = [change_record(RECORD, measure=f"new{i}@1") for i in range(3)]
        with pytest.raises(UsageError):
            store.add([*fresh, change_record(RECORD, seed=object())])
        store.add([change_record(RECORD, measure="another@1")])
        store.add(fresh)
        assert list(store) == [change_record(RECORD, measure="another@1"), *fresh]


WRITER = """
import sys
from tests.records import change_record
from tests.engine.helpers import RECORD
from untrained.runs.store import Store
with Store(sys.argv[1]) as store:
    for seed in range(150):
        measures = ("a@1", "b@1", "c@1")
        store.add([change_record(RECORD, seed=seed, measure=measure) for measure in measures])
"""


def test_two_readers_read_while_another_process_writes(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=Path(__file__).parents[2]
    )
    counts = [0]
    with Store(path) as one, Store(path) as other:
        while writer.poll() is None:
            for reader in (one, other):
                records = list(reader)
                assert len(records) % 3 == 0  # records of one `add` appear together
                seeds = [record.seed for record in records]
                assert seeds == sorted(seeds)
                counts.append(len(records))
        assert writer.returncode == 0
        assert len(one) == len(other) == 450
    assert counts == sorted(counts)
    assert len(set(counts)) > 3  # it was read while it was written


def test_the_error_for_an_unknown_kind_of_failure_says_what_to_do(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.add([change_record(RECORD, value=None, error=Failure("nan"))])
        store._database.execute("UPDATE records SET error = 'sleepy'")
        store._database.commit()
        for read in (lambda: list(store), lambda: store.get(RECORD.key)):
            message = get_error(read, path)
            assert "cannot be read: it holds a failure of the unknown kind 'sleepy'" in message
            assert "update untrained" in message

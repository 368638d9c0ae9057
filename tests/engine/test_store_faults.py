"""A store that is no store, that is of another version, damaged, locked or full: one line that names the file, and
nothing is harmed."""

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
from untrained.engine import Store, _database
from untrained.errors import UsageError
from untrained.types import Failure


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def _damaged(path: Path) -> None:
    path.write_bytes(b"this is no database, " * 100)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE records (something TEXT)")
    db.close()


@pytest.mark.parametrize(
    ("spoil", "why"), [(_newer, "another program"), (_damaged, "not a database"), (_foreign, "another program")]
)
def test_a_file_that_is_no_store_of_ours_is_named_and_left_alone(tmp_path, spoil, why):
    path = tmp_path / "s.sqlite"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=why) as caught:
        Store(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["s.sqlite"]


def _a_file(path: Path) -> None:
    path.write_text("a file where the folder should be")


def _read_only(path: Path) -> None:
    path.mkdir(mode=0o555)
    try:
        (path / "probe").touch()
    except OSError:
        return
    pytest.skip("this user may write everywhere")


@pytest.mark.parametrize("make", [_a_file, _read_only])
def test_a_folder_that_cannot_be_written_is_named(tmp_path, make):
    make(tmp_path / "folder")
    with pytest.raises(UsageError, match="cannot be used as a store") as caught:
        Store(tmp_path / "folder" / "s.sqlite")
    assert str(tmp_path / "folder" / "s.sqlite") in str(caught.value)


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot be used as a store") as caught:
        Store(tmp_path)
    assert str(tmp_path) in str(caught.value)


def full_of(path: Path, count: int = 40) -> list[Record]:
    """Write a store of some pages, and say what is in it."""
    records = [change_record(RECORD, seed=seed, value=seed / 7, data=f"{seed:x}" * 30) for seed in range(count)]
    records[3] = change_record(records[3], value=None, error=Failure("crashed", "its worker died", "a trace " * 40))
    with Store(path) as store:
        store.add(records)
    return records


def refused(work: Callable[[], object], path: Path) -> str:
    """The one line that names the file."""
    with pytest.raises(UsageError) as caught:
        work()
    said = str(caught.value)
    assert said.startswith(f"{path} ")
    assert "\n" not in said
    return said


def used(path: Path) -> list[Record]:
    """Everything one does with a store that one only reads."""
    with Store(path) as store:
        found = list(store)
        assert len(store) == len(found)
        for record in found:
            store.get(record.key)
        return found


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes_are_named_or_do_no_harm_and_nothing_is_written_over(tmp_path, seed):
    """SQLite keeps no checksums, so a flipped digit may go unseen; whatever is seen is one line, never a traceback."""
    path, chance = tmp_path / "s.sqlite", random.Random(seed)
    full_of(path)
    spoilt = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 4, 64))):
        place = chance.randrange(0, 100) if seed % 4 == 0 else chance.randrange(100, len(spoilt))
        spoilt[place] ^= chance.randrange(1, 256)
    path.write_bytes(spoilt)
    said = ""
    try:
        used(path)
    except UsageError as error:
        said = str(error)
    assert not said or said.startswith(f"{path} ")
    assert "\n" not in said
    assert path.read_bytes()[100:] == spoilt[100:]


def test_the_middle_overwritten_is_said_to_be_damaged(tmp_path):
    path = tmp_path / "s.sqlite"
    full_of(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:2048] + b"\xff" * (len(whole) - 4096) + whole[-2048:])
    spoilt = path.read_bytes()
    assert "it is damaged or no store: it was left as it is" in refused(lambda: used(path), path)
    assert path.read_bytes() == spoilt


@pytest.mark.parametrize("part", [0.3, 0.5, 0.9])
def test_a_truncated_file_is_named_and_left_as_it_is(tmp_path, part):
    path = tmp_path / "s.sqlite"
    full_of(path)
    half = path.read_bytes()[: int(part * path.stat().st_size)]
    path.write_bytes(half)
    assert "damaged" in refused(lambda: used(path), path)
    assert path.read_bytes() == half


@pytest.mark.parametrize("version", [-1, -(2**31)])
def test_an_impossible_version_is_damage(tmp_path, version):
    path = tmp_path / "s.sqlite"
    full_of(path)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    assert "it is damaged or no store" in refused(lambda: Store(path), path)


@pytest.mark.parametrize("column", ["genes = '[[1, 2'", "genes = '3'", "genes = '[3]'"])
def test_a_record_that_makes_no_sense_is_damage(tmp_path, column):
    path = tmp_path / "s.sqlite"
    (first, *_) = full_of(path)
    db = sqlite3.connect(path)
    with db:
        db.execute(f"UPDATE archs SET {column}")
    db.close()
    assert "cannot be read: malformed record" in refused(lambda: used(path), path)
    with Store(path) as store:
        assert "cannot be read: malformed record" in refused(lambda: store.get(first.key), path)


def test_a_full_disk_is_named_and_what_was_finished_is_kept(tmp_path):
    path = tmp_path / "s.sqlite"
    records = full_of(path)
    more = [change_record(RECORD, seed=seed, data="x" * 1000) for seed in range(1000, 1100)]
    with Store(path) as store:
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        said = refused(lambda: store.add(more), path)
        assert "cannot be written: database or disk is full; what was finished is kept: make room" in said
        assert list(store) == records
        store._db.execute("PRAGMA max_page_count = 100000")  # room was made
        store.add(more[:2])
        assert list(store) == records + more[:2]
    assert used(path) == records + more[:2]


def test_a_new_store_on_a_full_disk(tmp_path, monkeypatch):
    path, connect = tmp_path / "s.sqlite", sqlite3.connect

    def small(*args: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*args, **options)
        db.execute("PRAGMA max_page_count = 2")
        return db

    monkeypatch.setattr(sqlite3, "connect", small)
    assert "cannot be used as a store: database or disk is full" in refused(lambda: Store(path), path)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(_database, "PATIENCE", 0.05)


def test_a_locked_store_is_named_and_goes_on_when_it_is_free(tmp_path, impatient):
    path = tmp_path / "s.sqlite"
    records = full_of(path)
    other = sqlite3.connect(path, isolation_level=None)
    with Store(path) as store:
        other.execute("BEGIN EXCLUSIVE")
        said = refused(lambda: store.add([change_record(RECORD, seed=99)]), path)
        assert "cannot be written: database is locked; another program is writing it: wait for it" in said
        assert list(store) == records  # readers need not wait
        other.execute("COMMIT")
        store.add([change_record(RECORD, seed=99)])
        assert len(store) == len(records) + 1
    other.close()


def test_a_store_that_somebody_keeps_to_themselves_cannot_be_opened(tmp_path, impatient):
    path = tmp_path / "s.sqlite"
    records = full_of(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    assert "database is locked; another program is writing it" in refused(lambda: used(path), path)
    other.execute("COMMIT")
    other.close()
    assert used(path) == records


def test_numbers_of_settings_that_were_taken_back_are_not_used_again(tmp_path):
    """An add that fails undoes the settings it wrote; the next one must not remember their numbers."""
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
from untrained.engine import Store
with Store(sys.argv[1]) as store:
    for seed in range(150):
        store.add([change_record(RECORD, seed=seed, measure=name) for name in ("a@1", "b@1", "c@1")])
"""


def test_many_read_while_another_process_writes(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], cwd=Path(__file__).parents[2])
    seen = [0]
    with Store(path) as one, Store(path) as other:
        while writer.poll() is None:
            for reader in (one, other):
                found = list(reader)
                assert len(found) % 3 == 0  # what was added together is seen together
                assert [r.seed for r in found] == sorted(r.seed for r in found)
                seen.append(len(found))
        assert writer.returncode == 0
        assert len(one) == len(other) == 450
    assert seen == sorted(seen)
    assert len(set(seen)) > 3  # it was read in the middle


def test_an_unknown_kind_of_failure_says_what_to_do(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.add([change_record(RECORD, value=None, error=Failure("nan"))])
        store._db.execute("UPDATE records SET error = 'sleepy'")
        store._db.commit()
        for read in (lambda: list(store), lambda: store.get(RECORD.key)):
            said = refused(read, path)
            assert "cannot be read: it holds a failure of the unknown kind 'sleepy'" in said
            assert "update untrained" in said

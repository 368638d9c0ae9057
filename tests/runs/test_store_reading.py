"""Reading a store changes no file, and the database of another program is never changed."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.engine.helpers import RECORD
from tests.records import change_record
from tests.runs.test_store_versions import make_varied_records, write_store_1, write_store_2
from untrained import Record
from untrained.errors import UsageError
from untrained.runs import store_files as stores
from untrained.runs.store import Store

RECORDS = [change_record(RECORD, seed=seed, value=seed / 7) for seed in range(20)]


def describe_folder(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The bytes and the time of every file. The `-shm` file of SQLite holds locks and no data."""
    described = {}
    for file in sorted(folder.iterdir()):
        if file.name.endswith("-shm"):
            described[file.name] = (b"", 0)
        else:
            described[file.name] = (file.read_bytes(), file.stat().st_mtime_ns)
    return described


def write_current(path: Path) -> list[Record]:
    with Store(path) as store:
        store.add(RECORDS)
    return RECORDS


def write_unmarked(path: Path) -> list[Record]:
    """A store of the present version without its mark."""
    write_current(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA application_id = 0")
    return RECORDS


def write_version_1(path: Path) -> list[Record]:
    records = make_varied_records()
    write_store_1(path, records)
    return records


def write_version_2(path: Path) -> list[Record]:
    records = make_varied_records()
    write_store_2(path, records)
    return records


def write_killed(path: Path) -> list[Record]:
    """A store as a killed process leaves it: all records are in the `-wal` file."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "s.sqlite")) as store:
        store.add(RECORDS)
        for ending in ("", "-wal", "-shm"):
            shutil.copyfile(Path(folder, f"s.sqlite{ending}"), f"{path}{ending}")
    assert Path(f"{path}-wal").stat().st_size > 0
    return RECORDS


def write_killed_and_copied(path: Path) -> list[Record]:
    write_killed(path)
    Path(f"{path}-shm").unlink()
    return RECORDS


WRITERS = [
    write_current,
    write_unmarked,
    write_version_1,
    write_version_2,
    write_killed,
    write_killed_and_copied,
]


def merge_elsewhere(source: Path) -> list[Record]:
    with tempfile.TemporaryDirectory() as folder:
        destination = Path(folder, "d.sqlite")
        Store(destination).close()
        stores.merge_stores(destination, [source])
        with Store(destination) as store:
            return list(store)


def read_all(source: Path) -> list[Record]:
    with Store(source, read_only=True) as store:
        return list(store)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("read", [read_all, merge_elsewhere])
def test_reading_gives_every_record_and_leaves_the_folder_as_it_was(tmp_path, write, read):
    records = write(tmp_path / "s.sqlite")
    before = describe_folder(tmp_path)
    assert read(tmp_path / "s.sqlite") == records
    assert describe_folder(tmp_path) == before


@pytest.mark.parametrize("write", WRITERS)
def test_info_and_export_leave_the_folder_as_it_was(tmp_path, write):
    folder = tmp_path / "run"
    folder.mkdir()
    records = write(folder / "s.sqlite")
    before = describe_folder(folder)
    assert stores.describe_store(folder / "s.sqlite")["records"] == len(records)
    assert stores.export_store(folder / "s.sqlite", tmp_path / "out.csv") == len(records)
    assert describe_folder(folder) == before


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder that a user without rights can reach; `tmp_path` is closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write everywhere, so it becomes another user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("write", WRITERS)
def test_a_store_on_a_read_only_disk_is_read(read_only_folder, write):
    path = read_only_folder / "s.sqlite"
    records = write(path)
    for file in read_only_folder.iterdir():
        file.chmod(0o444)
    read_only_folder.chmod(0o555)
    before = describe_folder(read_only_folder)
    with without_rights():
        with pytest.raises(PermissionError):
            (read_only_folder / "new").touch()
        assert read_all(path) == records
        assert stores.describe_store(path)["records"] == len(records)
    assert describe_folder(read_only_folder) == before


def test_a_store_is_read_while_it_is_written(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as writer:
        writer.add(RECORDS[:5])
        assert read_all(path) == RECORDS[:5]
        writer.add(RECORDS[5:])
        assert read_all(path) == RECORDS
        assert stores.describe_store(path)["records"] == len(RECORDS)
    assert read_all(path) == RECORDS


def test_a_file_that_changes_while_it_is_copied_is_copied_again(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    write_current(path)
    from untrained.runs import database as _database

    copy = _database._copy
    copies = []

    def copy_and_change(at: Path) -> sqlite3.Connection:
        copies.append(copy(at))
        if len(copies) == 1:
            with Store(path) as store:
                store.add([change_record(RECORD, seed=99)])
        return copies[-1]

    monkeypatch.setattr(_database, "_copy", copy_and_change)
    assert read_all(path) == [*RECORDS, change_record(RECORD, seed=99)]
    assert len(copies) == 2


def test_a_read_only_store_cannot_be_written(tmp_path):
    write_current(tmp_path / "s.sqlite")
    with Store(tmp_path / "s.sqlite", read_only=True) as store:
        with pytest.raises(
            UsageError, match="cannot be written: attempt to write a readonly database"
        ):
            store.add([change_record(RECORD, seed=99)])
        assert list(store) == RECORDS


def test_an_absent_store_is_read_as_an_empty_one_and_not_created(tmp_path):
    assert read_all(tmp_path / "new" / "s.sqlite") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a?b#c%41.sqlite", b"\xff.sqlite", "two words.sqlite"])
def test_a_store_of_any_name_is_read(tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    write_current(path)
    assert read_all(path) == RECORDS
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("write", [write_current, write_unmarked, write_version_1, write_version_2])
def test_a_store_is_marked_when_it_is_opened_for_writing(tmp_path, write):
    path = tmp_path / "s.sqlite"
    records = write(path)
    Store(path).close()
    assert path.read_bytes()[68:72] == b"untr"
    assert read_all(path) == records


def write_bookmarks(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE bookmarks (title TEXT)")
        database.execute("INSERT INTO bookmarks VALUES ('mine')")


def write_wal_mode(path: Path) -> None:
    write_bookmarks(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")


def write_another_application(path: Path) -> None:
    write_current(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA application_id = 252006674")


def write_another_application_without_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA application_id = 252006674")


def write_with_our_version(path: Path) -> None:
    write_bookmarks(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")


def write_with_our_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE records (something TEXT)")
        database.execute("PRAGMA user_version = 1")


def write_with_a_trigger(path: Path) -> None:
    write_current(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM archs; END")


FOREIGN = [
    write_bookmarks,
    write_wal_mode,
    write_another_application,
    write_another_application_without_tables,
    write_with_our_version,
    write_with_our_table,
    write_with_a_trigger,
]


def use_in_every_way(path: Path) -> list[Callable[[], object]]:
    ours = path.parent.parent / "ours.sqlite"
    write_current(ours)
    return [
        lambda: stores.describe_store(path),
        lambda: stores.export_store(path, path.parent.parent / "out.csv"),
        lambda: stores.merge_stores(ours, [path]),
        lambda: stores.merge_stores(path, [ours]),
        lambda: Store(path),
        lambda: Store(path, read_only=True),
    ]


@pytest.mark.parametrize("write", FOREIGN)
def test_another_programs_database_is_refused_and_not_touched(tmp_path, write):
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "their.sqlite"
    write(path)
    before = describe_folder(folder)
    for work in use_in_every_way(path):
        with pytest.raises(
            UsageError,
            match=r"their\.sqlite is a database of another program: .*it was not changed",
        ):
            work()
        assert describe_folder(folder) == before


def test_another_programs_database_that_is_in_use_is_not_touched(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "their.sqlite"
    write_wal_mode(path)
    with closing(sqlite3.connect(path)) as program:
        program.execute("INSERT INTO bookmarks VALUES ('new')")
        program.commit()
        shared = Path(f"{path}-shm").read_bytes()
        before = describe_folder(folder)
        for work in use_in_every_way(path):
            with pytest.raises(UsageError, match="is a database of another program"):
                work()
            assert describe_folder(folder) == before
            assert Path(f"{path}-shm").read_bytes() == shared


def test_the_query_of_a_foreign_view_is_not_run(tmp_path):
    """The author of a file decides what a view does, and it may never end."""
    path = tmp_path / "s.sqlite"
    write_current(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP VIEW flat")
        database.execute(
            "CREATE VIEW flat AS "
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n"
        )
    assert read_all(path) == RECORDS


@pytest.mark.parametrize(
    "change", ["value = 'high'", "value = x'00'", "note = x'00'", "build_seconds = 'long'"]
)
def test_a_value_of_another_type_is_malformed(tmp_path, change):
    path = tmp_path / "s.sqlite"
    write_current(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE records SET {change} WHERE id = 3")
    with pytest.raises(
        UsageError, match=r"cannot be read: malformed record: \w+ has the type (str|bytes)"
    ):
        read_all(path)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_store_is_refused_and_not_touched(tmp_path, read_only):
    path = tmp_path / "s.sqlite"
    write_current(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    before = describe_folder(tmp_path)
    with pytest.raises(UsageError, match="has store version 99; this program reads up to"):
        Store(path, read_only=read_only)
    assert describe_folder(tmp_path) == before

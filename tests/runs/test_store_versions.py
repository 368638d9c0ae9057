"""Stores of other versions: an earlier one is upgraded with all records, a newer one is refused."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.engine.helpers import ARCH, RECORD, TASK
from tests.records import change_record, make_record
from untrained import Arch, Record
from untrained.errors import UsageError
from untrained.runs import schema as _schema
from untrained.runs.store import Store
from untrained.types import Failure

VERSION_1 = """
CREATE TABLE records (
    space TEXT NOT NULL, arch TEXT NOT NULL, measure TEXT NOT NULL, task TEXT NOT NULL, data TEXT NOT NULL,
    init TEXT NOT NULL, dtype TEXT NOT NULL, device TEXT NOT NULL, seed INTEGER NOT NULL,
    genes TEXT NOT NULL, value REAL, error TEXT, detail TEXT,
    build_seconds REAL NOT NULL, measure_seconds REAL NOT NULL,
    CHECK ((value IS NULL) != (error IS NULL)),
    PRIMARY KEY (space, arch, measure, task, data, init, dtype, device, seed)
)
"""
TASK_TEXT = '["noise", [3, 8, 8], 4, "cross_entropy"]'


def write_store_1(path: Path, records: list[Record]) -> None:
    """Write a store as version 1 did."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(VERSION_1)
    db.execute("PRAGMA user_version = 1")
    for r in records:
        key = (
            r.arch.space,
            str(r.arch),
            r.measure,
            TASK_TEXT,
            r.data,
            r.init,
            r.dtype,
            r.device,
            r.seed,
        )
        failure = (None, None) if r.error is None else (r.error.kind, r.error.detail)
        row = *key, json.dumps(r.arch.genes), r.value, *failure, r.build_seconds, r.measure_seconds
        db.execute(f"INSERT INTO records VALUES ({', '.join('?' * 15)})", row)
    db.commit()
    db.close()


def make_varied_records() -> list[Record]:
    """Return records that differ in everything, in no order.

    There are two spaces with architectures of the same names. The records have no version of torch,
    because earlier versions did not write it.
    """
    records = []
    for number in (3, 1, 2):
        genes = (("width", number), ("op", "|none~0|"), ("rate", 0.1 * number))
        for space in ("tiny", "other"):
            for seed in (1, 0):
                for measure in ("dextr@1", "params(a=1)@2"):
                    record = change_record(
                        RECORD, arch=Arch(space, genes, f"net {number}"), measure=measure, seed=seed
                    )
                    record = change_record(record, torch="")
                    records.append(
                        change_record(
                            record, value=1e300 / (number + seed), build_seconds=0.1 * number
                        )
                    )
    records[2] = change_record(
        records[2], value=None, error=Failure("nan", "the score is not a number")
    )
    records[5] = change_record(records[5], value=None, error=Failure("oom", ""))
    records[7] = change_record(records[7], device="cuda", dtype="float64", init="zero", data="")
    return records


def test_a_store_of_version_1_is_upgraded_with_all_records_in_their_order(tmp_path):
    records = make_varied_records()
    write_store_1(tmp_path / "s.sqlite", records)
    for _ in range(2):  # upgraded, and then opened again
        with Store(tmp_path / "s.sqlite") as store:
            assert list(store) == records
            assert len(store) == len(records) == 24
            assert [store.get(record.key) for record in records] == records
            assert {str(r.arch) for r in store} == {"net 1", "net 2", "net 3"}
    db = sqlite3.connect(tmp_path / "s.sqlite")
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"archs", "settings", "records", "searches", "search_records"}
    assert db.execute("PRAGMA user_version").fetchone() == (_schema.VERSION,)
    assert db.execute("SELECT count(*) FROM archs").fetchone() == (6,)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_a_store_of_version_1_can_be_written(tmp_path):
    records = make_varied_records()
    write_store_1(tmp_path / "s.sqlite", records)
    new = change_record(records[0], seed=9)
    repaired = change_record(records[5], value=4.0, error=None)
    with Store(tmp_path / "s.sqlite") as store:
        store.add([change_record(records[0], value=0.5), new, repaired])
        assert list(store) == [*records[:5], repaired, *records[6:], new]


def test_an_empty_store_of_version_1_is_upgraded(tmp_path):
    write_store_1(tmp_path / "s.sqlite", [])
    with Store(tmp_path / "s.sqlite") as store:
        store.add([RECORD])
        assert list(store) == [RECORD]


def test_an_upgrade_that_fails_in_the_middle_leaves_the_former_version(tmp_path, monkeypatch):
    """The disk may be full, or the machine may be switched off."""
    records = make_varied_records()
    write_store_1(tmp_path / "s.sqlite", records)

    def fails(db: sqlite3.Connection) -> None:
        _schema._migrate_from_1(db)
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setitem(_schema.MIGRATIONS, 1, fails)
        with pytest.raises(
            UsageError,
            match=r"s\.sqlite cannot be used as a store: database or disk is full; .*free some space",
        ):
            Store(tmp_path / "s.sqlite")
    db = sqlite3.connect(tmp_path / "s.sqlite")
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert db.execute("SELECT count(*), count(value) FROM records").fetchone() == (24, 22)
    assert [
        name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ] == ["records"]
    db.close()
    with Store(tmp_path / "s.sqlite") as store:
        assert list(store) == records


VERSION_2 = """
CREATE TABLE archs (
    id INTEGER PRIMARY KEY, space TEXT NOT NULL, arch TEXT NOT NULL, genes TEXT NOT NULL, UNIQUE (space, arch)
);
CREATE TABLE settings (
    id INTEGER PRIMARY KEY, measure TEXT NOT NULL, task TEXT NOT NULL, data TEXT NOT NULL, init TEXT NOT NULL,
    dtype TEXT NOT NULL, device TEXT NOT NULL, seed INTEGER NOT NULL,
    UNIQUE (measure, task, data, init, dtype, device, seed)
);
CREATE TABLE records (
    id INTEGER PRIMARY KEY, arch_id INTEGER NOT NULL REFERENCES archs, setting_id INTEGER NOT NULL REFERENCES settings,
    value REAL, error TEXT, detail TEXT, trace TEXT, note TEXT NOT NULL,
    build_seconds REAL NOT NULL, transfer_seconds REAL NOT NULL, measure_seconds REAL NOT NULL, peak_bytes INTEGER,
    CHECK ((value IS NULL) != (error IS NULL)),
    UNIQUE (arch_id, setting_id)
);
CREATE VIEW flat AS SELECT space, arch, measure, task, data, init, dtype, device, seed, genes, value, error, detail,
    trace, note, build_seconds, transfer_seconds, measure_seconds, peak_bytes, records.id AS place
    FROM records JOIN archs ON archs.id = arch_id JOIN settings ON settings.id = setting_id;
PRAGMA user_version = 2;
"""


def write_store_2(path: Path, records: list[Record]) -> None:
    """Write a store as version 2 did."""
    db = sqlite3.connect(path)
    db.executescript(VERSION_2)
    for r in records:
        arch = r.arch.space, str(r.arch)
        setting = r.measure, TASK_TEXT, r.data, r.init, r.dtype, r.device, r.seed
        db.execute(
            "INSERT OR IGNORE INTO archs (space, arch, genes) VALUES (?, ?, ?)",
            (*arch, json.dumps(r.arch.genes)),
        )
        db.execute(
            "INSERT OR IGNORE INTO settings (measure, task, data, init, dtype, device, seed) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            setting,
        )
        (arch_id,) = db.execute(
            "SELECT id FROM archs WHERE space = ? AND arch = ?", arch
        ).fetchone()
        (setting_id,) = db.execute(
            "SELECT id FROM settings WHERE (measure, task, data, init, dtype, device, seed) = (?, ?, ?, ?, ?, ?, ?)",
            setting,
        ).fetchone()
        failure = (
            (None, None, None) if r.error is None else (r.error.kind, r.error.detail, r.error.trace)
        )
        costs = r.note, r.build_seconds, r.transfer_seconds, r.measure_seconds, r.peak_bytes
        marks = ", ".join("?" * 12)
        db.execute(
            f"INSERT INTO records VALUES ({marks})",
            (None, arch_id, setting_id, r.value, *failure, *costs),
        )
    db.commit()
    db.close()


def remove_spaces(rows: sqlite3.Cursor) -> dict[str, str]:
    return {name: "".join(sql.split()) for name, sql in rows}


def test_a_store_of_version_2_is_upgraded_and_gets_the_columns_of_today(tmp_path):
    records = make_varied_records()
    path = tmp_path / "s.sqlite"
    write_store_2(path, records)
    with_torch = change_record(records[0], torch="9.9.9+cpu", value=7.0)
    with Store(path) as store:
        assert list(store) == records
        assert [store.get(record.key) for record in records] == records
        assert store.get(with_torch.key) is None, "the version of torch is unknown for old records"
        store.add([with_torch])
    with Store(path) as store:
        assert list(store) == [*records, with_torch]
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("SELECT count(*) FROM flat WHERE torch = '9.9.9+cpu'").fetchone() == (1,)
    new = tmp_path / "new.sqlite"
    with Store(new):
        pass
    fresh = sqlite3.connect(new)
    schema = "SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name"
    assert remove_spaces(db.execute(schema)) == remove_spaces(fresh.execute(schema)), (
        "the schema is that of a new store"
    )
    db.close()
    fresh.close()


VERSION_3 = """
CREATE TABLE archs (
    id INTEGER PRIMARY KEY, space TEXT NOT NULL, arch TEXT NOT NULL, genes TEXT NOT NULL, UNIQUE (space, arch)
);
CREATE TABLE settings (
    id INTEGER PRIMARY KEY, measure TEXT NOT NULL, task TEXT NOT NULL, data TEXT NOT NULL, init TEXT NOT NULL,
    dtype TEXT NOT NULL, device TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT NULL DEFAULT '',
    torch TEXT NOT NULL DEFAULT '', networks_per_pass INTEGER NOT NULL DEFAULT 1,
    UNIQUE (measure, task, data, init, dtype, device, seed, code, torch, networks_per_pass)
);
CREATE TABLE records (
    id INTEGER PRIMARY KEY, arch_id INTEGER NOT NULL REFERENCES archs, setting_id INTEGER NOT NULL REFERENCES settings,
    value REAL, error TEXT, detail TEXT, trace TEXT, note TEXT NOT NULL,
    build_seconds REAL NOT NULL, transfer_seconds REAL NOT NULL, measure_seconds REAL NOT NULL, peak_bytes INTEGER,
    CHECK ((value IS NULL) != (error IS NULL)),
    UNIQUE (arch_id, setting_id)
);
CREATE VIEW flat AS SELECT space, arch, measure, task, data, init, dtype, device, seed, code, torch,
    networks_per_pass, genes, value, error, detail,
    trace, note, build_seconds, transfer_seconds, measure_seconds, peak_bytes, records.id AS place
    FROM records JOIN archs ON archs.id = arch_id JOIN settings ON settings.id = setting_id;
CREATE TABLE questions (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE question_records (
    id INTEGER PRIMARY KEY, question_id INTEGER NOT NULL REFERENCES questions,
    record_id INTEGER NOT NULL REFERENCES records, UNIQUE (question_id, record_id)
);
PRAGMA application_id = 1970173042;
PRAGMA user_version = 3;
INSERT INTO archs VALUES (4, 'tiny', 'net 1', '[["width", 1]]'), (7, 'tiny', 'net 2', '[["width", 2]]');
INSERT INTO settings VALUES
    (2, 'dextr@1', '["noise", [3, 8, 8], 4, "cross_entropy"]', 'd', 'fresh', 'float32', 'cpu', 0, 'c', '2.9', 64),
    (5, 'dextr@1', '["noise", [3, 8, 8], 4, "cross_entropy"]', 'd', 'fresh', 'float32', 'cpu', 1, '', '', 1);
INSERT INTO records VALUES
    (1, 7, 2, 0.5, NULL, NULL, NULL, '', 0.1, 0.2, 0.3, 1024),
    (3, 4, 5, NULL, 'nan', 'why', 'line', '', 0.1, 0.0, 0.3, NULL),
    (6, 4, 2, 1.5, NULL, NULL, NULL, '', 0.1, 0.2, 0.3, NULL);
INSERT INTO questions VALUES (3, 'one'), (8, 'two');
INSERT INTO question_records VALUES (1, 3, 6), (2, 8, 3), (5, 3, 1);
"""


def test_a_store_of_version_3_keeps_its_records_and_their_order_in_each_search(tmp_path):
    path = tmp_path / "s.sqlite"
    db = sqlite3.connect(path)
    db.executescript(VERSION_3)
    db.close()
    for _ in range(2):  # upgraded, and then opened again
        with Store(path) as store:
            first, second, third = store
            assert (first.value, second.error, third.value) == (
                0.5,
                Failure("nan", "why", "line"),
                1.5,
            )
            assert [str(record.arch) for record in store] == ["net 2", "net 1", "net 1"]
            assert [record.request.networks_per_batch for record in store] == [64, 1, 64]
            assert [record.request.torch for record in store] == ["2.9", "", "2.9"]
            assert store.get(first.key) == first
            assert store.read_search("one") == [third, first]
            assert store.read_search("two") == [second]
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with Store(tmp_path / "new.sqlite"):
        pass
    fresh = sqlite3.connect(tmp_path / "new.sqlite")
    schema = "SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name"
    assert remove_spaces(db.execute(schema)) == remove_spaces(fresh.execute(schema))
    db.close()
    fresh.close()


@pytest.mark.parametrize("version", [_schema.VERSION + 1, 99])
def test_a_newer_version_is_refused_and_not_changed(tmp_path, version):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.add(make_varied_records())
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(UsageError) as caught:
        Store(path)
    assert (
        str(caught.value)
        == f"{path} has store version {version}; this program reads up to {_schema.VERSION}: update it"
    )
    assert path.read_bytes() == before


def test_fields_that_version_1_did_not_have_are_kept(tmp_path):
    complete = make_record(
        ARCH,
        "m@1",
        TASK,
        0,
        2.0,
        note="measured on 4",
        transfer_seconds=0.25,
        peak_bytes=2**40,
        device="cuda",
    )
    failed = make_record(
        ARCH, "n@1", TASK, 0, None, Failure("crashed", "its worker died", "line 1\nline 2")
    )
    with Store(tmp_path / "s.sqlite") as store:
        store.add([complete, failed])
        assert list(store) == [complete, failed]
        assert store.get(failed.key).error.trace == "line 1\nline 2"

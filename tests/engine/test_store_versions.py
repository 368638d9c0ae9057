"""Stores of other versions: an earlier one becomes one of today with every record equal; a newer one is refused."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.engine.helpers import ARCH, RECORD, TASK
from tests.records import change_record, make_record
from untrained import Arch, Record
from untrained.engine import Store, _schema
from untrained.errors import UsageError
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


def written_by_1(path: Path, records: list[Record]) -> None:
    """A store as version 1 wrote it."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(VERSION_1)
    db.execute("PRAGMA user_version = 1")
    for r in records:
        key = r.arch.space, str(r.arch), r.measure, TASK_TEXT, r.data, r.init, r.dtype, r.device, r.seed
        told = (None, None) if r.error is None else (r.error.kind, r.error.detail)
        row = *key, json.dumps(r.arch.genes), r.value, *told, r.build_seconds, r.measure_seconds
        db.execute(f"INSERT INTO records VALUES ({', '.join('?' * 15)})", row)
    db.commit()
    db.close()


def many() -> list[Record]:
    """Two spaces with architectures of one name, measures, seeds and devices, values and failures, out of order. No
    version of torch is known: earlier versions did not write it."""
    found = []
    for number in (3, 1, 2):
        genes = (("width", number), ("op", "|none~0|"), ("rate", 0.1 * number))
        for space in ("tiny", "other"):
            for seed in (1, 0):
                for measure in ("dextr@1", "params(a=1)@2"):
                    record = change_record(RECORD, arch=Arch(space, genes, f"net {number}"), measure=measure, seed=seed)
                    record = change_record(record, torch="")
                    found.append(change_record(record, value=1e300 / (number + seed), build_seconds=0.1 * number))
    found[2] = change_record(found[2], value=None, error=Failure("nan", "the score is not a number"))
    found[5] = change_record(found[5], value=None, error=Failure("oom", ""))
    found[7] = change_record(found[7], device="cuda", dtype="float64", init="zero", data="")
    return found


def test_every_record_of_version_1_is_there_in_its_order(tmp_path):
    records = many()
    written_by_1(tmp_path / "s.sqlite", records)
    for _ in range(2):  # brought up to date, and then opened as it is
        with Store(tmp_path / "s.sqlite") as store:
            assert list(store) == records
            assert len(store) == len(records) == 24
            assert [store.get(record.key) for record in records] == records
            assert {str(r.arch) for r in store} == {"net 1", "net 2", "net 3"}
    db = sqlite3.connect(tmp_path / "s.sqlite")
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"archs", "settings", "records", "questions", "question_records"}
    assert db.execute("PRAGMA user_version").fetchone() == (_schema.VERSION,)
    assert db.execute("SELECT count(*) FROM archs").fetchone() == (6,)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_a_store_of_version_1_is_written_on(tmp_path):
    records = many()
    written_by_1(tmp_path / "s.sqlite", records)
    new = change_record(records[0], seed=9)
    cured = change_record(records[5], value=4.0, error=None)
    with Store(tmp_path / "s.sqlite") as store:
        store.add([change_record(records[0], value=0.5), new, cured])
        assert list(store) == [*records[:5], cured, *records[6:], new]


def test_an_empty_store_of_version_1(tmp_path):
    written_by_1(tmp_path / "s.sqlite", [])
    with Store(tmp_path / "s.sqlite") as store:
        store.add([RECORD])
        assert list(store) == [RECORD]


def test_a_step_that_fails_in_the_middle_leaves_the_former_version(tmp_path, monkeypatch):
    """The disk may be full just then, or the machine may be switched off."""
    records = many()
    written_by_1(tmp_path / "s.sqlite", records)

    def fails(db: sqlite3.Connection) -> None:
        _schema._from_1(db)
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setitem(_schema.STEPS, 1, fails)
        with pytest.raises(UsageError, match=r"s\.sqlite cannot be used as a store: database or disk is full; .*room"):
            Store(tmp_path / "s.sqlite")
    db = sqlite3.connect(tmp_path / "s.sqlite")
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert db.execute("SELECT count(*), count(value) FROM records").fetchone() == (24, 22)
    assert [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")] == ["records"]
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


def written_by_2(path: Path, records: list[Record]) -> None:
    """A store as version 2 wrote it."""
    db = sqlite3.connect(path)
    db.executescript(VERSION_2)
    for r in records:
        arch = r.arch.space, str(r.arch)
        setting = r.measure, TASK_TEXT, r.data, r.init, r.dtype, r.device, r.seed
        db.execute(
            "INSERT OR IGNORE INTO archs (space, arch, genes) VALUES (?, ?, ?)", (*arch, json.dumps(r.arch.genes))
        )
        db.execute(
            "INSERT OR IGNORE INTO settings (measure, task, data, init, dtype, device, seed) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            setting,
        )
        (arch_id,) = db.execute("SELECT id FROM archs WHERE space = ? AND arch = ?", arch).fetchone()
        (setting_id,) = db.execute(
            "SELECT id FROM settings WHERE (measure, task, data, init, dtype, device, seed) = (?, ?, ?, ?, ?, ?, ?)",
            setting,
        ).fetchone()
        told = (None, None, None) if r.error is None else (r.error.kind, r.error.detail, r.error.trace)
        costs = r.note, r.build_seconds, r.transfer_seconds, r.measure_seconds, r.peak_bytes
        marks = ", ".join("?" * 12)
        db.execute(f"INSERT INTO records VALUES ({marks})", (None, arch_id, setting_id, r.value, *told, *costs))
    db.commit()
    db.close()


def _without_spaces(rows: sqlite3.Cursor) -> dict[str, str]:
    return {name: "".join(sql.split()) for name, sql in rows}


def test_every_record_of_version_2_is_there_in_its_order_and_known_by_more_from_now_on(tmp_path):
    records = many()
    path = tmp_path / "s.sqlite"
    written_by_2(path, records)
    again = change_record(records[0], torch="9.9.9+cpu", value=7.0)
    with Store(path) as store:
        assert list(store) == records
        assert [store.get(record.key) for record in records] == records
        assert store.get(again.key) is None, "nobody knows by which torch it was measured"
        store.add([again])
    with Store(path) as store:
        assert list(store) == [*records, again]
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("SELECT count(*) FROM flat WHERE torch = '9.9.9+cpu'").fetchone() == (1,)
    new = tmp_path / "new.sqlite"
    with Store(new):
        pass
    fresh = sqlite3.connect(new)
    schema = "SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name"
    assert _without_spaces(db.execute(schema)) == _without_spaces(fresh.execute(schema)), "as if it were made today"
    db.close()
    fresh.close()


@pytest.mark.parametrize("version", [_schema.VERSION + 1, 99])
def test_a_newer_version_is_refused_and_not_touched(tmp_path, version):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.add(many())
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


def test_what_version_1_did_not_know_comes_back_too(tmp_path):
    whole = make_record(
        ARCH, "m@1", TASK, 0, 2.0, note="measured on 4", transfer_seconds=0.25, peak_bytes=2**40, device="cuda"
    )
    failed = make_record(ARCH, "n@1", TASK, 0, None, Failure("crashed", "its worker died", "line 1\nline 2"))
    with Store(tmp_path / "s.sqlite") as store:
        store.add([whole, failed])
        assert list(store) == [whole, failed]
        assert store.get(failed.key).error.trace == "line 1\nline 2"

"""The tables of a store, and how those of earlier versions become the present ones.

An architecture and a setting are written once and named by number, so that a record takes some fifty bytes. The view
`flat` is what everybody reads: one row a record, in words.
"""

import sqlite3

VERSION = 2
SETTING = ("measure", "task", "data", "init", "dtype", "device", "seed")
KEY = ("space", "arch", *SETTING)
COSTS = ("build_seconds", "transfer_seconds", "measure_seconds", "peak_bytes")
OUTCOME = ("value", "error", "detail", "trace", "note", *COSTS)
COLUMNS = (*KEY, "genes", *OUTCOME)

_TABLES = f"""
CREATE TABLE archs (
    id INTEGER PRIMARY KEY, space TEXT NOT NULL, arch TEXT NOT NULL, genes TEXT NOT NULL, UNIQUE (space, arch)
);
CREATE TABLE settings (
    id INTEGER PRIMARY KEY, measure TEXT NOT NULL, task TEXT NOT NULL, data TEXT NOT NULL, init TEXT NOT NULL,
    dtype TEXT NOT NULL, device TEXT NOT NULL, seed INTEGER NOT NULL, UNIQUE ({", ".join(SETTING)})
);
CREATE TABLE records (
    id INTEGER PRIMARY KEY, arch_id INTEGER NOT NULL REFERENCES archs, setting_id INTEGER NOT NULL REFERENCES settings,
    value REAL, error TEXT, detail TEXT, trace TEXT, note TEXT NOT NULL,
    build_seconds REAL NOT NULL, transfer_seconds REAL NOT NULL, measure_seconds REAL NOT NULL, peak_bytes INTEGER,
    CHECK ((value IS NULL) != (error IS NULL)),
    UNIQUE (arch_id, setting_id)
);
CREATE VIEW flat AS
    SELECT {", ".join(COLUMNS)}, records.id AS place
    FROM records JOIN archs ON archs.id = arch_id JOIN settings ON settings.id = setting_id;
"""


def _create(db: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        db.execute(statement)


def _from_1(db: sqlite3.Connection) -> None:
    """Version 1 kept everything in one table, and knew no notes, traces, transfers or memory."""
    db.execute("ALTER TABLE records RENAME TO former")
    _create(db)
    settings = ", ".join(SETTING)
    db.execute("INSERT INTO archs (space, arch, genes) SELECT space, arch, min(genes) FROM former GROUP BY space, arch")
    db.execute(f"INSERT INTO settings ({settings}) SELECT DISTINCT {settings} FROM former")
    db.execute(
        f"""INSERT INTO records (arch_id, setting_id, value, error, detail, note,
                                 build_seconds, transfer_seconds, measure_seconds)
            SELECT archs.id, settings.id, value, error, detail, '', build_seconds, 0.0, measure_seconds
            FROM former JOIN archs USING (space, arch) JOIN settings USING ({settings}) ORDER BY former.rowid"""
    )
    db.execute("DROP TABLE former")


STEPS = {0: _create, 1: _from_1}  # from each version to the present one

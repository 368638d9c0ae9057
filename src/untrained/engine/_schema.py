"""The tables of a store, and how those of earlier versions become the present ones.

An architecture and a setting are written once and named by number, so that a record takes some fifty bytes. The view
`flat` is for people who look into the file by other means: one row per record, in words.
"""

import sqlite3
from contextlib import closing
from functools import cache

VERSION = 3
APPLICATION_ID = 0x756E7472  # "untr", in the header of every store; earlier versions did not write it
_SETTING_2 = ("measure", "task", "data", "init", "dtype", "device", "seed")  # those of versions 1 and 2
SETTING = (*_SETTING_2, "code", "torch", "networks_per_pass")
KEY = ("space", "arch", *SETTING)
COSTS = ("build_seconds", "transfer_seconds", "measure_seconds", "peak_bytes")
OUTCOME = ("value", "error", "detail", "trace", "note", *COSTS)
COLUMNS = (*KEY, "genes", *OUTCOME)

# What the view `flat` shows. Our own reading runs this text too: the view in a file may be anybody's.
ROWS = f"""
    SELECT {", ".join(COLUMNS)}, records.id AS place
    FROM records JOIN archs ON archs.id = arch_id JOIN settings ON settings.id = setting_id
"""
# Earlier versions did not know the last three columns. An empty version of torch equals none that there is, so that
# their records are kept and shown, and measured again where they are asked for.
_SETTINGS = f"""
CREATE TABLE settings (
    id INTEGER PRIMARY KEY, measure TEXT NOT NULL, task TEXT NOT NULL, data TEXT NOT NULL, init TEXT NOT NULL,
    dtype TEXT NOT NULL, device TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT NULL DEFAULT '',
    torch TEXT NOT NULL DEFAULT '', networks_per_pass INTEGER NOT NULL DEFAULT 1, UNIQUE ({", ".join(SETTING)})
)
"""
_TABLES = f"""
CREATE TABLE archs (
    id INTEGER PRIMARY KEY, space TEXT NOT NULL, arch TEXT NOT NULL, genes TEXT NOT NULL, UNIQUE (space, arch)
);
{_SETTINGS};
CREATE TABLE records (
    id INTEGER PRIMARY KEY, arch_id INTEGER NOT NULL REFERENCES archs, setting_id INTEGER NOT NULL REFERENCES settings,
    value REAL, error TEXT, detail TEXT, trace TEXT, note TEXT NOT NULL,
    build_seconds REAL NOT NULL, transfer_seconds REAL NOT NULL, measure_seconds REAL NOT NULL, peak_bytes INTEGER,
    CHECK ((value IS NULL) != (error IS NULL)),
    UNIQUE (arch_id, setting_id)
);
CREATE VIEW flat AS {ROWS};
"""
# Which records a run asked for, in that order. A store may hold more: of larger budgets, other data, other runs.
_QUESTIONS = """
CREATE TABLE questions (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE question_records (
    id INTEGER PRIMARY KEY, question_id INTEGER NOT NULL REFERENCES questions,
    record_id INTEGER NOT NULL REFERENCES records, UNIQUE (question_id, record_id)
);
"""


def _create(db: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        db.execute(statement)
    _add_questions(db)


def _add_questions(db: sqlite3.Connection) -> None:
    for statement in _QUESTIONS.split(";"):
        db.execute(statement)


def _from_1(db: sqlite3.Connection) -> None:
    """Version 1 kept everything in one table, and knew no notes, traces, transfers or memory."""
    db.execute("ALTER TABLE records RENAME TO former")
    _create(db)
    settings = ", ".join(_SETTING_2)
    db.execute("INSERT INTO archs (space, arch, genes) SELECT space, arch, min(genes) FROM former GROUP BY space, arch")
    db.execute(f"INSERT INTO settings ({settings}) SELECT DISTINCT {settings} FROM former")
    db.execute(
        f"""INSERT INTO records (arch_id, setting_id, value, error, detail, note,
                                 build_seconds, transfer_seconds, measure_seconds)
            SELECT archs.id, settings.id, value, error, detail, '', build_seconds, 0.0, measure_seconds
            FROM former JOIN archs USING (space, arch) JOIN settings USING ({settings}) ORDER BY former.rowid"""
    )
    db.execute("DROP TABLE former")


def _from_2(db: sqlite3.Connection) -> None:
    """Version 2 knew neither the user's code nor the version of torch nor networks that were measured together, nor
    which run had asked for a record."""
    settings = ", ".join(_SETTING_2)
    db.execute("DROP VIEW flat")
    # A table that is renamed takes the references of other tables with it, so it is copied.
    db.execute("CREATE TABLE former AS SELECT * FROM settings")
    db.execute("DROP TABLE settings")
    db.execute(_SETTINGS)
    db.execute(f"INSERT INTO settings (id, {settings}) SELECT id, {settings} FROM former ORDER BY id")
    db.execute("DROP TABLE former")
    db.execute(f"CREATE VIEW flat AS {ROWS}")
    _add_questions(db)


STEPS = {0: _create, 1: _from_1, 2: _from_2}  # from each version to the present one


def find_foreign_entry(db: sqlite3.Connection, version: int) -> str:
    """Return the first table, view or trigger of a database that no store of this version has; empty where there is
    none, and where a database is still empty."""
    present = _describe_entries(db)
    if not present:
        return ""
    expected = _describe_present_version() if version == VERSION else _EARLIER.get(version, {})
    for name, (kind, columns) in sorted(present.items()):
        if expected.get(name) != (kind, columns):
            return f"a {kind} {name!r} that no store has"
    for name, (kind, _) in expected.items():
        if name not in present:
            return f"no {kind} {name!r}"
    return ""


_Entries = dict[str, tuple[str, frozenset[str]]]


def _describe_entries(db: sqlite3.Connection) -> _Entries:
    """Return the kind and the columns of everything in a database, by name."""
    entries = {}
    found = db.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    for kind, name in found.fetchall():
        columns = frozenset[str]()
        if kind == "table":
            columns = frozenset(row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", (name,)))
        entries[name] = (kind, columns)
    return entries


@cache
def _describe_present_version() -> _Entries:
    with closing(sqlite3.connect(":memory:")) as db:
        _create(db)
        return _describe_entries(db)


def _list_columns(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What stores of earlier versions hold; what is written here does not change when the present version does.
_EARLIER: dict[int, _Entries] = {
    1: {
        "records": (
            "table",
            _list_columns(
                "space arch measure task data init dtype device seed "
                "genes value error detail build_seconds measure_seconds"
            ),
        )
    },
    2: {
        "archs": ("table", _list_columns("id space arch genes")),
        "settings": ("table", _list_columns("id measure task data init dtype device seed")),
        "records": (
            "table",
            _list_columns(
                "id arch_id setting_id value error detail trace note "
                "build_seconds transfer_seconds measure_seconds peak_bytes"
            ),
        ),
        "flat": ("view", frozenset()),
    },
}

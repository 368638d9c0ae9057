"""The tables of a store, and migrations from earlier versions.

Architectures and settings are stored once and referenced by id, so a record takes about fifty
bytes. The view `flat` is for other programs: it has one row per record, with names instead of ids.
"""

import sqlite3
from contextlib import closing
from functools import cache

VERSION = 3
# "untr", in the header of every store. Earlier versions did not write it.
APPLICATION_ID = 0x756E7472
_SETTING_OF_VERSION_2 = ("measure", "task", "data", "init", "dtype", "device", "seed")
SETTING = (*_SETTING_OF_VERSION_2, "code", "torch", "networks_per_pass")
KEY = ("space", "arch", *SETTING)
COSTS = ("build_seconds", "transfer_seconds", "measure_seconds", "peak_bytes")
OUTCOME = ("value", "error", "detail", "trace", "note", *COSTS)
COLUMNS = (*KEY, "genes", *OUTCOME)

# The query of the view `flat`. Stores are read with the query itself, because in a file from
# elsewhere the view may be defined in another way.
ROWS = f"""
    SELECT {", ".join(COLUMNS)}, records.id AS place
    FROM records JOIN archs ON archs.id = arch_id JOIN settings ON settings.id = setting_id
"""
# Earlier versions did not have the last three columns. Their records get an empty torch version,
# which no request has: they are kept and shown, but measured again when a run needs them.
_SETTINGS = f"""
CREATE TABLE settings (
    id INTEGER PRIMARY KEY,
    measure TEXT NOT NULL,
    task TEXT NOT NULL,
    data TEXT NOT NULL,
    init TEXT NOT NULL,
    dtype TEXT NOT NULL,
    device TEXT NOT NULL,
    seed INTEGER NOT NULL,
    code TEXT NOT NULL DEFAULT '',
    torch TEXT NOT NULL DEFAULT '',
    networks_per_pass INTEGER NOT NULL DEFAULT 1,
    UNIQUE ({", ".join(SETTING)})
)
"""
_TABLES = f"""
CREATE TABLE archs (
    id INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    arch TEXT NOT NULL,
    genes TEXT NOT NULL,
    UNIQUE (space, arch)
);
{_SETTINGS};
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    arch_id INTEGER NOT NULL REFERENCES archs,
    setting_id INTEGER NOT NULL REFERENCES settings,
    value REAL,
    error TEXT,
    detail TEXT,
    trace TEXT,
    note TEXT NOT NULL,
    build_seconds REAL NOT NULL,
    transfer_seconds REAL NOT NULL,
    measure_seconds REAL NOT NULL,
    peak_bytes INTEGER,
    CHECK ((value IS NULL) != (error IS NULL)),
    UNIQUE (arch_id, setting_id)
);
CREATE VIEW flat AS {ROWS};
"""
# The records of each question in order (see `runs/question.py`). A store may hold others too: of
# larger budgets, of other data or of other runs.
_QUESTIONS = """
CREATE TABLE questions (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE question_records (
    id INTEGER PRIMARY KEY,
    question_id INTEGER NOT NULL REFERENCES questions,
    record_id INTEGER NOT NULL REFERENCES records,
    UNIQUE (question_id, record_id)
);
"""


def _create_tables(db: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        db.execute(statement)
    _create_question_tables(db)


def _create_question_tables(db: sqlite3.Connection) -> None:
    for statement in _QUESTIONS.split(";"):
        db.execute(statement)


def _migrate_from_1(db: sqlite3.Connection) -> None:
    """Split the single table of version 1, which had no notes, traces, transfer times or memory."""
    db.execute("ALTER TABLE records RENAME TO former")
    _create_tables(db)
    settings = ", ".join(_SETTING_OF_VERSION_2)
    db.execute(
        "INSERT INTO archs (space, arch, genes) "
        "SELECT space, arch, min(genes) FROM former GROUP BY space, arch"
    )
    db.execute(f"INSERT INTO settings ({settings}) SELECT DISTINCT {settings} FROM former")
    db.execute(
        f"""INSERT INTO records (arch_id, setting_id, value, error, detail, note,
                                 build_seconds, transfer_seconds, measure_seconds)
            SELECT archs.id, settings.id, value, error, detail, '',
                   build_seconds, 0.0, measure_seconds
            FROM former JOIN archs USING (space, arch) JOIN settings USING ({settings})
            ORDER BY former.rowid"""
    )
    db.execute("DROP TABLE former")


def _migrate_from_2(db: sqlite3.Connection) -> None:
    """Add the last three columns of `SETTING` and the question tables, which version 2 lacks."""
    settings = ", ".join(_SETTING_OF_VERSION_2)
    db.execute("DROP VIEW flat")
    # Renaming a table would also rename the references to it, so it is copied.
    db.execute("CREATE TABLE former AS SELECT * FROM settings")
    db.execute("DROP TABLE settings")
    db.execute(_SETTINGS)
    db.execute(
        f"INSERT INTO settings (id, {settings}) SELECT id, {settings} FROM former ORDER BY id"
    )
    db.execute("DROP TABLE former")
    db.execute(f"CREATE VIEW flat AS {ROWS}")
    _create_question_tables(db)


# The migration from each version to the current one. Version 0 is an empty file.
MIGRATIONS = {0: _create_tables, 1: _migrate_from_1, 2: _migrate_from_2}


def find_foreign_entry(db: sqlite3.Connection, version: int) -> str:
    """Return how a database differs from a store: a table, view or trigger too many or too few.

    Returns:
        A description of the first difference; an empty string if there is none, or if the database
        is still empty.
    """
    present = _describe_entries(db)
    if not present:
        return ""
    if version == VERSION:
        expected = _describe_current_version()
    else:
        expected = _EARLIER_VERSIONS.get(version, {})
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
    # SQLite's own tables are called `sqlite_...`.
    rows = db.execute(
        "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    for kind, name in rows.fetchall():
        columns = frozenset[str]()
        if kind == "table":
            column_rows = db.execute("SELECT name FROM pragma_table_info(?)", (name,))
            columns = frozenset(row[0] for row in column_rows)
        entries[name] = (kind, columns)
    return entries


@cache
def _describe_current_version() -> _Entries:
    with closing(sqlite3.connect(":memory:")) as db:
        _create_tables(db)
        return _describe_entries(db)


def _split_columns(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The tables of earlier versions. These never change.
_EARLIER_VERSIONS: dict[int, _Entries] = {
    1: {
        "records": (
            "table",
            _split_columns(
                "space arch measure task data init dtype device seed "
                "genes value error detail build_seconds measure_seconds"
            ),
        )
    },
    2: {
        "archs": ("table", _split_columns("id space arch genes")),
        "settings": ("table", _split_columns("id measure task data init dtype device seed")),
        "records": (
            "table",
            _split_columns(
                "id arch_id setting_id value error detail trace note "
                "build_seconds transfer_seconds measure_seconds peak_bytes"
            ),
        ),
        "flat": ("view", frozenset()),
    },
}

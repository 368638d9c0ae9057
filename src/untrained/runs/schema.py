"""The tables of a store, and migrations from earlier versions.

Architectures and settings are stored once and referenced by id, so a record takes about fifty
bytes. The view `flat` is for other programs: it has one row per record, with names instead of ids.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache

VERSION = 4
# "untr", in the header of every store. Earlier versions did not write it.
APPLICATION_ID = 0x756E7472
_SETTING_OF_VERSION_2 = ("measure", "task", "data", "init", "dtype", "device", "seed")
_SETTING_OF_VERSION_3 = (*_SETTING_OF_VERSION_2, "code", "torch", "networks_per_pass")
SETTING_COLUMNS = (*_SETTING_OF_VERSION_2, "code", "torch", "networks_per_batch")
KEY_COLUMNS = ("space", "arch", *SETTING_COLUMNS)
COST_COLUMNS = ("build_seconds", "transfer_seconds", "measure_seconds", "peak_bytes")
OUTCOME_COLUMNS = ("value", "error", "detail", "trace", "note", *COST_COLUMNS)
ALL_COLUMNS = (*KEY_COLUMNS, "genes", *OUTCOME_COLUMNS)

# The query of the view `flat`. Stores are read with this query and not with the view, because in a
# file from elsewhere the view may be defined in another way.
SELECT_ROWS = f"""
    SELECT {", ".join(ALL_COLUMNS)}, records.id AS place
    FROM records JOIN archs ON archs.id = arch_id JOIN settings ON settings.id = setting_id
"""
# Versions 1 and 2 did not have the last three columns. Their records get an empty torch version,
# which no request has: they are kept and shown, but measured again when a run needs them.
_CREATE_SETTINGS = f"""
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
    networks_per_batch INTEGER NOT NULL DEFAULT 1,
    UNIQUE ({", ".join(SETTING_COLUMNS)})
)
"""
_CREATE_TABLES = f"""
CREATE TABLE archs (
    id INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    arch TEXT NOT NULL,
    genes TEXT NOT NULL,
    UNIQUE (space, arch)
);
{_CREATE_SETTINGS};
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
CREATE VIEW flat AS {SELECT_ROWS};
"""
# The records of each search in order (see `RunFolder.compute_search_key`). A store may hold others
# too: of larger budgets, of other data or of other runs.
_CREATE_SEARCHES = """
CREATE TABLE searches (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
CREATE TABLE search_records (
    id INTEGER PRIMARY KEY,
    search_id INTEGER NOT NULL REFERENCES searches,
    record_id INTEGER NOT NULL REFERENCES records,
    UNIQUE (search_id, record_id)
);
"""


def _create_tables(db: sqlite3.Connection) -> None:
    for statement in _CREATE_TABLES.split(";"):
        db.execute(statement)
    _create_search_tables(db)


def _create_search_tables(db: sqlite3.Connection) -> None:
    for statement in _CREATE_SEARCHES.split(";"):
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
    """Add the tables of searches, and the settings `code`, `torch` and `networks_per_batch`."""
    _replace_settings(db, _SETTING_OF_VERSION_2, _SETTING_OF_VERSION_2)
    _create_search_tables(db)


def _migrate_from_3(db: sqlite3.Connection) -> None:
    """Rename the tables of searches, which were called questions, and one column of settings."""
    _replace_settings(db, _SETTING_OF_VERSION_3, SETTING_COLUMNS)
    _create_search_tables(db)
    db.execute("INSERT INTO searches (id, key) SELECT id, name FROM questions ORDER BY id")
    db.execute(
        "INSERT INTO search_records (id, search_id, record_id) "
        "SELECT id, question_id, record_id FROM question_records ORDER BY id"
    )
    db.execute("DROP TABLE question_records")
    db.execute("DROP TABLE questions")


def _replace_settings(
    db: sqlite3.Connection, old_columns: Sequence[str], new_columns: Sequence[str]
) -> None:
    """Replace the table of settings by one of the current version, with the same rows.

    Args:
        db: The database.
        old_columns: The columns to copy, with their names in the old table.
        new_columns: Their names in the new table.
    """
    old_names = ", ".join(old_columns)
    new_names = ", ".join(new_columns)
    db.execute("DROP VIEW flat")
    # Renaming a table would also rename the references to it, so it is copied.
    db.execute("CREATE TABLE former AS SELECT * FROM settings")
    db.execute("DROP TABLE settings")
    db.execute(_CREATE_SETTINGS)
    db.execute(
        f"INSERT INTO settings (id, {new_names}) SELECT id, {old_names} FROM former ORDER BY id"
    )
    db.execute("DROP TABLE former")
    db.execute(f"CREATE VIEW flat AS {SELECT_ROWS}")


# The migration from each version to the current one. Version 0 is an empty file.
MIGRATIONS = {0: _create_tables, 1: _migrate_from_1, 2: _migrate_from_2, 3: _migrate_from_3}


def find_foreign_entry(db: sqlite3.Connection, version: int) -> str:
    """Find a difference between the tables, views and triggers of a database and those of a store.

    Args:
        db: The database.
        version: Version of the store with which it is compared.

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
_RECORD_TABLE_COLUMNS = _split_columns(
    "id arch_id setting_id value error detail trace note "
    "build_seconds transfer_seconds measure_seconds peak_bytes"
)
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
        "settings": ("table", frozenset(("id", *_SETTING_OF_VERSION_2))),
        "records": ("table", _RECORD_TABLE_COLUMNS),
        "flat": ("view", frozenset()),
    },
    3: {
        "archs": ("table", _split_columns("id space arch genes")),
        "settings": ("table", frozenset(("id", *_SETTING_OF_VERSION_3))),
        "records": ("table", _RECORD_TABLE_COLUMNS),
        "flat": ("view", frozenset()),
        "questions": ("table", _split_columns("id name")),
        "question_records": ("table", _split_columns("id question_id record_id")),
    },
}

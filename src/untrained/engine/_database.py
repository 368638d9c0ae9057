"""How the SQLite file of a store is opened. Reading never writes, and another program's database is never changed.

A store that is read is copied into memory first. SQLite itself cannot promise to leave a file alone: a read-only
connection to a database in WAL mode creates `-wal` and `-shm` files beside it and leaves them there, and it fails
where it may not create them. A copy works on a read-only disk, and an earlier version is brought up to date in it.
"""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from untrained.engine._schema import APPLICATION_ID, STEPS, VERSION, find_foreign_entry
from untrained.errors import UsageError

PATIENCE = 30.0  # seconds to wait for another writer
_ATTEMPTS = 20  # copies that are taken of a file that another program is changing

_MAGIC = b"SQLite format 3\0"
_VERSION_AT = slice(60, 64)  # where the header of an SQLite file keeps `user_version`
_APPLICATION_ID_AT = slice(68, 72)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open a store or create one. A store of an earlier version is brought up to date.

    Raises:
        UsageError: The file is another program's database, or of a newer version. It is left as it is.
    """
    _refuse_foreign_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, timeout=PATIENCE)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        _update(database, path)
    except BaseException:
        database.close()
        raise
    return database


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Copy a store into memory, brought up to date. The file and its folder are left as they are.

    Args:
        path: The store. Where there is none, the copy is empty.

    Raises:
        UsageError: The file is another program's database, or of a newer version.
    """
    _refuse_foreign_file(path)
    memory = _copy_unchanged(path) if path.exists() else sqlite3.connect(":memory:")
    try:
        memory.execute("PRAGMA trusted_schema = OFF")
        _update(memory, path)
        memory.execute("PRAGMA query_only = ON")
    except BaseException:
        memory.close()
        raise
    return memory


def _update(database: sqlite3.Connection, path: Path) -> None:
    """Create the tables, or bring those of an earlier version up to date, and mark the file as ours."""
    if _read_identity(database, path) == (VERSION, APPLICATION_ID):
        return
    with database:
        database.execute("BEGIN IMMEDIATE")
        # Another process may have done it while this one waited for the lock.
        version, application_id = _read_identity(database, path)
        if version < VERSION:
            STEPS[version](database)
            database.execute(f"PRAGMA user_version = {VERSION}")
        if application_id != APPLICATION_ID:
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _read_identity(database: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Return the version and the application id of a store; zeros for an empty database."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (application_id,) = database.execute("PRAGMA application_id").fetchone()
    if application_id == APPLICATION_ID:
        if version > VERSION:
            raise UsageError(f"{path} has store version {version}; this program reads up to {VERSION}: update it")
        if version < 0:
            raise sqlite3.DatabaseError(f"malformed version {version}")
    elif application_id != 0 or (version not in STEPS and version != VERSION):
        raise _refusal(path, "its application id or version is another one")
    if entry := find_foreign_entry(database, version):
        raise _refusal(path, f"it has {entry}")
    return version, application_id


def _refusal(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is a database of another program: {why}; it was left as it is, choose another file")


def _refuse_foreign_file(path: Path) -> None:
    """Refuse another program's database before anything is opened that could change it or its neighbours."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return
    if not header.startswith(_MAGIC):
        raise sqlite3.DatabaseError("file is not a database")
    if int.from_bytes(header[_APPLICATION_ID_AT]) == APPLICATION_ID:
        return
    # Earlier versions did not mark their files, so only the tables tell. `immutable` reads the file alone and ignores
    # a `-wal` file, which may hold all that a new store has: an empty database is therefore not refused here.
    with closing(_connect(path, "mode=ro&immutable=1")) as database:
        if database.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
            _read_identity(database, path)
        elif int.from_bytes(header[_APPLICATION_ID_AT]) or int.from_bytes(header[_VERSION_AT]):
            raise _refusal(path, "its application id or version is another one")


def _copy_unchanged(path: Path) -> sqlite3.Connection:
    """Copy a database into memory while no other program changes its file."""
    for _ in range(_ATTEMPTS):
        before = _describe_files(path)
        memory = _copy(path)
        if _describe_files(path) == before:
            return memory
        memory.close()
    raise sqlite3.OperationalError("another program changes it all the time; try again later")


def _describe_files(path: Path) -> tuple[object, ...]:
    """Return what changes when another program begins to write the file itself or to use a `-wal` file."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, _beside(path, "-wal").exists()


def _copy(path: Path) -> sqlite3.Connection:
    wal = _beside(path, "-wal")
    if wal.exists() and _beside(path, "-shm").exists():
        # Another process may be writing. SQLite's own locks then give one consistent state.
        try:
            return _load(path, "mode=ro")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise
    journal = _beside(path, "-journal")
    if not wal.exists() and not journal.exists():
        return _load(path, "mode=ro&immutable=1")
    # A process was killed, and what it left must be merged into the database, which is done in a copy.
    with TemporaryDirectory() as folder:
        copy = Path(folder, "store.sqlite")
        for source, target in (
            (path, copy),
            (wal, _beside(copy, "-wal")),
            (journal, _beside(copy, "-journal")),
        ):
            if source.exists():
                shutil.copyfile(source, target)
        return _load(copy, "mode=rw")


def _load(path: Path, options: str) -> sqlite3.Connection:
    """Copy a database into memory as it is at one moment."""
    memory = sqlite3.connect(":memory:")
    try:
        with closing(_connect(path, options)) as source:
            # `backup` waits for a lock without end; a transaction waits for it as long as `PATIENCE` says.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            source.backup(memory)
    except BaseException:
        memory.close()
        raise
    return memory


def _connect(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fsencode(path))}?{options}", uri=True, timeout=PATIENCE)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)

"""Open the SQLite file of a store.

Reading never writes, and another program's database is never changed. To read a store, it is first
copied into memory, because SQLite itself writes while it reads: a read-only connection to a
database in WAL mode creates `-wal` and `-shm` files beside it, leaves them there, and fails if it
cannot create them. Reading a copy works on a read-only disk, and a store of an earlier version is
migrated in memory.
"""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from untrained.errors import UsageError
from untrained.runs.schema import APPLICATION_ID, MIGRATIONS, VERSION, find_foreign_entry

LOCK_TIMEOUT = 30.0  # seconds to wait for another writer
_MAX_COPIES = 20  # of a file that another program keeps changing

# The header of an SQLite file.
_MAGIC = b"SQLite format 3\0"
_USER_VERSION_BYTES = slice(60, 64)
_APPLICATION_ID_BYTES = slice(68, 72)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open a store, or create it. A store of an earlier version is migrated.

    Raises:
        UsageError: The file is another program's database, or of a newer version. It is not
            changed.
    """
    _refuse_foreign_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, timeout=LOCK_TIMEOUT)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        _migrate(database, path)
    except BaseException:
        database.close()
        raise
    return database


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Copy a store into memory and migrate the copy. The file and its folder are not changed.

    Args:
        path: The store. If there is none, the copy is empty.

    Raises:
        UsageError: The file is another program's database, or of a newer version.
    """
    _refuse_foreign_file(path)
    if path.exists():
        memory = _copy_consistently(path)
    else:
        memory = sqlite3.connect(":memory:")
    try:
        memory.execute("PRAGMA trusted_schema = OFF")
        _migrate(memory, path)
        memory.execute("PRAGMA query_only = ON")
    except BaseException:
        memory.close()
        raise
    return memory


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    """Create the tables, or migrate those of an earlier version, and mark the file as a store."""
    if _check_identity(database, path) == (VERSION, APPLICATION_ID):
        return
    with database:
        database.execute("BEGIN IMMEDIATE")
        # Another process may have migrated the store while this one waited for the lock.
        version, application_id = _check_identity(database, path)
        if version < VERSION:
            MIGRATIONS[version](database)
            database.execute(f"PRAGMA user_version = {VERSION}")
        if application_id != APPLICATION_ID:
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _check_identity(database: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Check that a database is a store or empty, and return its version and its application id.

    Raises:
        UsageError: It is another program's database, or of a newer version.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (application_id,) = database.execute("PRAGMA application_id").fetchone()
    if application_id == APPLICATION_ID:
        if version > VERSION:
            raise UsageError(
                f"{path} has store version {version}; this program reads up to {VERSION}: update it"
            )
        if version < 0:
            raise sqlite3.DatabaseError(f"malformed version {version}")
    elif application_id != 0 or (version not in MIGRATIONS and version != VERSION):
        raise _foreign_file_error(
            path, "its application id or version differs from that of a store"
        )
    entry = find_foreign_entry(database, version)
    if entry:
        raise _foreign_file_error(path, f"it has {entry}")
    return version, application_id


def _foreign_file_error(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"{path} is a database of another program: {reason}; "
        "it was not changed; choose another file"
    )


def _refuse_foreign_file(path: Path) -> None:
    """Refuse another program's database before a connection could change it or files beside it."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return
    if not header.startswith(_MAGIC):
        raise sqlite3.DatabaseError("file is not a database")
    application_id = int.from_bytes(header[_APPLICATION_ID_BYTES])
    user_version = int.from_bytes(header[_USER_VERSION_BYTES])
    if application_id == APPLICATION_ID:
        return
    # Earlier versions did not mark their files, so only the tables identify them. `immutable` reads
    # only this file and ignores a `-wal` file, which may hold all of a new store. So an empty
    # database is refused only if its header carries another program's id or version.
    with closing(_connect(path, "mode=ro&immutable=1")) as database:
        if database.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
            _check_identity(database, path)
        elif application_id or user_version:
            raise _foreign_file_error(
                path, "its application id or version differs from that of a store"
            )


def _copy_consistently(path: Path) -> sqlite3.Connection:
    """Copy a database into memory. Repeat if another program changed the file during the copy."""
    for _ in range(_MAX_COPIES):
        before = _describe_files(path)
        memory = _copy(path)
        if _describe_files(path) == before:
            return memory
        memory.close()
    raise sqlite3.OperationalError("another program keeps changing it; try again later")


def _describe_files(path: Path) -> tuple[object, ...]:
    """Return values that change when another program writes the file or creates a `-wal` file."""
    status = path.stat()
    has_wal = _add_suffix(path, "-wal").exists()
    return status.st_ino, status.st_size, status.st_mtime_ns, has_wal


def _copy(path: Path) -> sqlite3.Connection:
    """Copy a database into memory, with the journal that a killed process may have left."""
    wal = _add_suffix(path, "-wal")
    if wal.exists() and _add_suffix(path, "-shm").exists():
        # Another process may be writing. SQLite's own locks then give one consistent state.
        try:
            return _copy_through_sqlite(path, "mode=ro")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise
    journal = _add_suffix(path, "-journal")
    if not wal.exists() and not journal.exists():
        return _copy_through_sqlite(path, "mode=ro&immutable=1")
    # A process was killed. SQLite must merge the journal that it left, so it does that in a copy.
    with TemporaryDirectory() as folder:
        copy = Path(folder, "store.sqlite")
        for suffix in ("", "-wal", "-journal"):
            source = _add_suffix(path, suffix)
            if source.exists():
                shutil.copyfile(source, _add_suffix(copy, suffix))
        return _copy_through_sqlite(copy, "mode=rw")


def _copy_through_sqlite(path: Path, options: str) -> sqlite3.Connection:
    """Let SQLite copy a consistent state of a database into memory.

    Args:
        path: The database.
        options: Options of SQLite for opening it, such as "mode=ro".
    """
    memory = sqlite3.connect(":memory:")
    try:
        with closing(_connect(path, options)) as source:
            # `backup` waits for a lock forever; beginning a transaction waits for `LOCK_TIMEOUT`.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            source.backup(memory)
    except BaseException:
        memory.close()
        raise
    return memory


def _connect(path: Path, options: str) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(path))}?{options}"
    return sqlite3.connect(address, uri=True, timeout=LOCK_TIMEOUT)


def _add_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)

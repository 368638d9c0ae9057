"""The store: a SQLite file of records. It is a cache, lets a run resume, and is a data set.

The key of a record is everything that determines its value. A record is written once, when it is
finished, so a killed process loses only unfinished work. Many processes may read while one writes.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from untrained.errors import UsageError
from untrained.readers.json_file import parse_json
from untrained.readers.limits import describe_error
from untrained.runs.database import open_for_reading, open_for_writing
from untrained.runs.schema import (
    ALL_COLUMNS,
    COST_COLUMNS,
    KEY_COLUMNS,
    OUTCOME_COLUMNS,
    SELECT_ROWS,
    SETTING_COLUMNS,
)
from untrained.types import (
    FAILURE_KINDS,
    TRANSIENT_FAILURES,
    Arch,
    Failure,
    Record,
    ScoreKey,
    ScoreRequest,
    Task,
    read_task_key,
)

_SELECT = f"SELECT {', '.join(ALL_COLUMNS)} FROM ({SELECT_ROWS})"
_SELECT_ONE = f"{_SELECT} WHERE {' AND '.join(f'{column} = ?' for column in KEY_COLUMNS)}"
_SELECT_ALL = f"{_SELECT} ORDER BY place"
_SELECT_SEARCH = f"""
{_SELECT} JOIN search_records ON record_id = place JOIN searches ON searches.id = search_id
WHERE searches.key = ? ORDER BY search_records.id
"""
_TRANSIENT = ", ".join(f"'{kind}'" for kind in TRANSIENT_FAILURES)
# An existing record is replaced if it cannot be reused: the last line is
# `not Record.is_reusable` in SQL.
_INSERT_RECORD = f"""
INSERT INTO records (arch_id, setting_id, {", ".join(OUTCOME_COLUMNS)})
VALUES (?, ?, {", ".join("?" * len(OUTCOME_COLUMNS))})
ON CONFLICT DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in OUTCOME_COLUMNS)}
WHERE error IN ({_TRANSIENT}) OR note != ''
"""
_INSERT_ARCH = "INSERT INTO archs (space, arch, genes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_SELECT_ARCH = "SELECT id FROM archs WHERE space = ? AND arch = ?"
_INSERT_SETTING = f"""
INSERT INTO settings ({", ".join(SETTING_COLUMNS)}) VALUES ({", ".join("?" * len(SETTING_COLUMNS))})
ON CONFLICT DO NOTHING
"""
_SELECT_SETTING = (
    f"SELECT id FROM settings WHERE {' AND '.join(f'{name} = ?' for name in SETTING_COLUMNS)}"
)
_INSERT_SEARCH = "INSERT INTO searches (key) VALUES (?) ON CONFLICT DO NOTHING"
_INSERT_SEARCH_RECORD = """
INSERT INTO search_records (search_id, record_id)
SELECT searches.id, records.id FROM searches, records
WHERE key = ? AND arch_id = ? AND setting_id = ?
ON CONFLICT DO NOTHING
"""

SqlRow = tuple[Any, ...]  # SQLite does not declare types of values

# `dataclasses.astuple` copies every string, which takes longer than the database.
_get_key_columns = attrgetter(*KEY_COLUMNS)


class Store:
    """Records in a SQLite file. Iterating yields all of them in the order they were written."""

    def __init__(
        self, path: str | Path, *, must_exist: bool = False, read_only: bool = False
    ) -> None:
        """Open a store.

        Args:
            path: The SQLite file. Another program's database is refused and left as it is.
            must_exist: Raise an error if there is no store, instead of creating one.
            read_only: Read a copy of the store. Neither the file nor its folder is changed, so both
                may be on a read-only disk; a store of an earlier version is migrated in memory
                only.
        """
        self.path = Path(path)
        if must_exist and not self.path.is_file():
            raise UsageError(
                f"there is no store at {self.path}; a run folder holds one called records.sqlite"
            )
        with self._explain_errors("cannot be used as a store"):
            if read_only:
                self._database = open_for_reading(self.path)
            else:
                self._database = open_for_writing(self.path)
        # Ids of settings. There are few of them, so they are cached.
        self._setting_ids: dict[tuple[object, ...], int] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Write records, all or none.

        An existing record is kept, unless it must be measured again (`Record.is_reusable`).
        """
        with self._run_transaction():
            for record in records:
                arch_id = self._get_or_add_arch(record)
                setting_id = self._get_or_add_setting(record)
                self._database.execute(
                    _INSERT_RECORD, (arch_id, setting_id, *_list_outcome(record))
                )

    def add_to_search(self, search_key: str, records: Iterable[Record]) -> None:
        """Add records to the list of a search, all or none. They must be in the store.

        Args:
            search_key: The key of the search, see `RunFolder.compute_search_key`. Records that are
                already listed keep their place.
            records: The records, in the order in which the run requested them.
        """
        with self._run_transaction():
            self._database.execute(_INSERT_SEARCH, (search_key,))
            for record in records:
                arch_id = self._get_or_add_arch(record)
                setting_id = self._get_or_add_setting(record)
                self._database.execute(_INSERT_SEARCH_RECORD, (search_key, arch_id, setting_id))

    def get(self, key: ScoreKey) -> Record | None:
        """Return the record with this key, or None if there is none."""
        with self._explain_errors("cannot be read"):
            row = self._database.execute(_SELECT_ONE, _get_key_columns(key)).fetchone()
            if row is None:
                return None
            return _read_record(row)

    def __iter__(self) -> Iterator[Record]:
        with self._explain_errors("cannot be read"):
            for row in self._database.execute(_SELECT_ALL):
                yield _read_record(row)

    def read_search(self, search_key: str) -> list[Record]:
        """Return the records of a search, in the order in which they were listed."""
        with self._explain_errors("cannot be read"):
            rows = self._database.execute(_SELECT_SEARCH, (search_key,))
            return [_read_record(row) for row in rows]

    def __len__(self) -> int:
        with self._explain_errors("cannot be read"):
            (count,) = self._database.execute("SELECT count(*) FROM records").fetchone()
            return int(count)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _run_transaction(self) -> Iterator[None]:
        """Run the block as one transaction, which is rolled back if the block fails."""
        try:
            with self._explain_errors("cannot be written"), self._database:
                self._database.execute("BEGIN IMMEDIATE")
                yield
        except BaseException:
            # The ids of new settings were rolled back with everything else.
            self._setting_ids.clear()
            raise

    @contextmanager
    def _explain_errors(self, problem: str) -> Iterator[None]:
        """Convert errors of the disk and of SQLite to a `UsageError` that names the file.

        Args:
            problem: What failed, such as "cannot be read".
        """
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            # SQLite quotes damaged bytes in its messages, which then cannot be decoded.
            advice = _give_advice(str(error))
            raise UsageError(f"{self.path} {problem}: {describe_error(error)}{advice}") from error

    def _get_or_add_arch(self, record: Record) -> int:
        """Return the id of the architecture of a record, which is added if it is new."""
        arch = record.arch
        name = (arch.space, str(arch))
        self._database.execute(_INSERT_ARCH, (*name, json.dumps(arch.genes)))
        (arch_id,) = self._database.execute(_SELECT_ARCH, name).fetchone()
        return int(arch_id)

    def _get_or_add_setting(self, record: Record) -> int:
        """Return the id of the setting of a record, which is added if it is new.

        The setting is everything in the key of a record except space and architecture.
        """
        # The first two columns of a key are the space and the architecture.
        setting = _get_key_columns(record.key)[2:]
        if setting not in self._setting_ids:
            self._database.execute(_INSERT_SETTING, setting)
            (setting_id,) = self._database.execute(_SELECT_SETTING, setting).fetchone()
            self._setting_ids[setting] = int(setting_id)
        return self._setting_ids[setting]


def has_records(path: Path) -> bool:
    """Whether there is a store at this path that holds records."""
    if not path.exists():
        return False
    with Store(path, read_only=True) as store:
        return len(store) > 0


def _give_advice(message: str) -> str:
    if "locked" in message:
        return "; another program is writing it: wait for it, or choose another folder"
    if "disk is full" in message or "No space left" in message:
        return "; finished records are kept: free some space and run the same command again"
    if any(word in message for word in ("malformed", "not a database", "decode")):
        return "; it is damaged or not a store: it was not changed; choose another folder"
    return ""


def _list_outcome(record: Record) -> tuple[object, ...]:
    """Return the columns of `OUTCOME_COLUMNS`."""
    failure: tuple[str | None, str | None, str | None] = (None, None, None)
    if record.error:
        failure = (record.error.kind, record.error.detail, record.error.trace)
    return (
        record.value,
        *failure,
        record.note,
        record.build_seconds,
        record.transfer_seconds,
        record.measure_seconds,
        record.peak_bytes,
    )


def _read_record(row: SqlRow) -> Record:
    """Return the record of a row with the columns `ALL_COLUMNS`."""
    try:
        _check_types(row)
        return _parse_row(row)
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(f"malformed record: {error}") from error


# SQLite does not enforce the types of columns, so a damaged file may hold values of any type.
_NUMBERS = ("value", *COST_COLUMNS)
_MAY_BE_NULL = ("value", "error", "detail", "trace", "peak_bytes")


def _check_types(row: SqlRow) -> None:
    for name, content in zip(ALL_COLUMNS, row, strict=True):
        if content is None and name in _MAY_BE_NULL:
            continue
        if name in _NUMBERS:
            types: tuple[type, ...] = (float, int)
        elif name in ("seed", "networks_per_batch"):
            types = (int,)
        else:
            types = (str,)
        if not isinstance(content, types):
            raise TypeError(f"{name} has the type {type(content).__name__}")


def _parse_row(row: SqlRow) -> Record:
    key = ScoreKey(*row[: len(KEY_COLUMNS)])
    columns = dict(zip(ALL_COLUMNS, row, strict=True))
    request = ScoreRequest(
        arch=Arch(key.space, _parse_genes(columns["genes"]), key.arch),
        measure=key.measure,
        task=_parse_task(key.task),
        seed=key.seed,
        data=key.data,
        init=key.init,
        dtype=key.dtype,
        device=key.device,
        code=key.code,
        torch=key.torch,
        networks_per_batch=key.networks_per_batch,
    )
    return Record(
        request=request,
        value=columns["value"],
        error=_read_failure(columns),
        note=columns["note"],
        build_seconds=columns["build_seconds"],
        transfer_seconds=columns["transfer_seconds"],
        measure_seconds=columns["measure_seconds"],
        peak_bytes=columns["peak_bytes"],
    )


def _read_failure(columns: dict[str, Any]) -> Failure | None:
    kind = columns["error"]
    if kind is None:
        return None
    if kind not in FAILURE_KINDS:
        raise sqlite3.DatabaseError(
            f"it holds a failure of the unknown kind {kind!r}; a newer version of untrained may "
            "have written it: update untrained, or choose another folder"
        )
    return Failure(kind, columns["detail"] or "", columns["trace"] or "")


@lru_cache(maxsize=1024)
def _parse_genes(text: str) -> tuple[tuple[str, Any], ...]:
    """Parse the choices of an architecture, once for the records of all proxies."""
    return tuple((name, choice) for name, choice in parse_json(text))


@lru_cache(maxsize=1024)
def _parse_task(text: str) -> Task:
    """Parse a task, once for the many records that share it."""
    # The store may come from elsewhere, and `parse_json` limits depth and size.
    parse_json(text)
    return read_task_key(text)

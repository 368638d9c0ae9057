"""The store: a SQLite file that is cache, resume and data set in one. Keyed by everything that determines a value.

A record is written once and for all when it is finished; a killed process loses only what it was working on. Many may
read while one writes. The store knows nothing of scoring: it keeps Records and gives them back.
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

from untrained.engine import _database
from untrained.engine._schema import COLUMNS, COSTS, KEY, OUTCOME, ROWS, SETTING
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json
from untrained.readers.limits import describe_error
from untrained.types import (
    FAILURE_KINDS,
    PASSING,
    Arch,
    Failure,
    Record,
    ScoreKey,
    ScoreRequest,
    Task,
    read_task_key,
)

_FLAT = f"SELECT {', '.join(COLUMNS)} FROM ({ROWS})"
_ONE = f"{_FLAT} WHERE {' AND '.join(f'{column} = ?' for column in KEY)}"
_PASSING = ", ".join(f"'{kind}'" for kind in PASSING)
# A record that is there stays, unless the machine failed or earlier versions measured it on half of the samples
_INSERT = f"""
INSERT INTO records (arch_id, setting_id, {", ".join(OUTCOME)}) VALUES (?, ?, {", ".join("?" * len(OUTCOME))})
ON CONFLICT DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in OUTCOME)}
WHERE error IN ({_PASSING}) OR note != ''
"""
_NOTE = """
INSERT INTO question_records (question_id, record_id)
SELECT questions.id, records.id FROM questions, records WHERE name = ? AND arch_id = ? AND setting_id = ?
ON CONFLICT DO NOTHING
"""
_OF_QUESTION = f"""
SELECT {", ".join(COLUMNS)} FROM ({ROWS}) JOIN question_records ON record_id = place
JOIN questions ON questions.id = question_id WHERE questions.name = ? ORDER BY question_records.id
"""

# `dataclasses.astuple` copies every string, which takes longer than the database
_key_columns = attrgetter(*KEY)


class Store:
    """`store.add(records)`, `store.get(key)`, iteration over everything in order of writing."""

    def __init__(self, path: str | Path, *, existing: bool = False, read_only: bool = False) -> None:
        """Open a store.

        Args:
            path: The SQLite file. Another program's database is refused and left as it is.
            existing: Refuse a path where there is no store instead of beginning one.
            read_only: Read the store as it is now. Neither the file nor its folder is changed, so both may be on a
                read-only disk; a store of an earlier version is brought up to date in memory only.
        """
        self.path = Path(path)
        if existing and not self.path.is_file():
            raise UsageError(f"there is no store at {self.path}; a run folder holds one called records.sqlite")
        with self._named("cannot be used as a store"):
            if read_only:
                self._db = _database.open_for_reading(self.path)
            else:
                self._db = _database.open_for_writing(self.path)
        self._settings: dict[tuple[object, ...], int] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Write records, all or none. One that is already there stays as it is, unless only the machine had failed."""
        try:
            with self._named("cannot be written"), self._db:
                self._db.execute("BEGIN IMMEDIATE")
                for record in records:
                    self._db.execute(_INSERT, (self._arch(record), self._setting(record), *_outcome(record)))
        except BaseException:
            self._settings.clear()  # their numbers were taken back with everything else
            raise

    def get(self, key: ScoreKey) -> Record | None:
        with self._named("cannot be read"):
            row = self._db.execute(_ONE, _key_columns(key)).fetchone()
            return None if row is None else _read(row)

    def __iter__(self) -> Iterator[Record]:
        with self._named("cannot be read"):
            for row in self._db.execute(f"{_FLAT} ORDER BY place"):
                yield _read(row)

    def add_to_question(self, question: str, records: Iterable[Record]) -> None:
        """Note that a run asked for these records, which must be in the store; all or none.

        Args:
            question: The name of what the run asks, see `runs/question.py`. Records that are noted already keep
                their place.
            records: In the order in which the run asked for them.
        """
        try:
            with self._named("cannot be written"), self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("INSERT INTO questions (name) VALUES (?) ON CONFLICT DO NOTHING", (question,))
                for record in records:
                    self._db.execute(_NOTE, (question, self._arch(record), self._setting(record)))
        except BaseException:
            self._settings.clear()  # their numbers were taken back with everything else
            raise

    def read_question(self, question: str) -> list[Record]:
        """The records that a run asked for, in that order."""
        with self._named("cannot be read"):
            return [_read(row) for row in self._db.execute(_OF_QUESTION, (question,))]

    def __len__(self) -> int:
        with self._named("cannot be read"):
            (count,) = self._db.execute("SELECT count(*) FROM records").fetchone()
            return int(count)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Whatever the disk or SQLite says comes with the name of the file."""
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # the last where SQLite quotes damaged bytes
            raise UsageError(f"{self.path} {what}: {describe_error(error)}{_advice(str(error))}") from error

    def _arch(self, record: Record) -> int:
        name = record.arch.space, str(record.arch)
        self._db.execute(
            "INSERT INTO archs (space, arch, genes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (*name, json.dumps(record.arch.genes)),
        )
        (number,) = self._db.execute("SELECT id FROM archs WHERE space = ? AND arch = ?", name).fetchone()
        return int(number)

    def _setting(self, record: Record) -> int:
        """There are few of them, so they are remembered."""
        setting = _key_columns(record.key)[2:]
        if setting not in self._settings:
            marks, same = ", ".join("?" * len(SETTING)), " AND ".join(f"{name} = ?" for name in SETTING)
            names = ", ".join(SETTING)
            self._db.execute(f"INSERT INTO settings ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING", setting)
            (number,) = self._db.execute(f"SELECT id FROM settings WHERE {same}", setting).fetchone()
            self._settings[setting] = int(number)
        return self._settings[setting]


def begun(path: Path) -> bool:
    """Whether a store is there and holds records."""
    if not path.exists():
        return False
    with Store(path, read_only=True) as store:
        return len(store) > 0


def _advice(said: str) -> str:
    if "locked" in said:
        return "; another program is writing it: wait for it, or choose another folder"
    if "disk is full" in said or "No space left" in said:
        return "; what was finished is kept: make room and type the same command again"
    if any(word in said for word in ("malformed", "not a database", "decode")):
        return "; it is damaged or no store: it was left as it is, choose another folder"
    return ""


def _outcome(record: Record) -> tuple[object, ...]:
    error = record.error
    told = (error.kind, error.detail, error.trace) if error else (None, None, None)
    costs = record.build_seconds, record.transfer_seconds, record.measure_seconds, record.peak_bytes
    return record.value, *told, record.note, *costs


def _read(row: tuple[Any, ...]) -> Record:
    try:
        _check_kinds(row)
        return _read_row(row)
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(f"malformed record: {error}") from error


# SQLite lets every column hold every kind of value, so that a damaged or foreign file may.
_NUMBERS = ("value", *COSTS)
_MAY_BE_NULL = ("value", "error", "detail", "trace", "peak_bytes")


def _check_kinds(row: tuple[Any, ...]) -> None:
    for name, content in zip(COLUMNS, row, strict=True):
        if content is None and name in _MAY_BE_NULL:
            continue
        if name in _NUMBERS:
            kinds: tuple[type, ...] = (float, int)
        elif name in ("seed", "networks_per_pass"):
            kinds = (int,)
        else:
            kinds = (str,)
        if not isinstance(content, kinds):
            raise TypeError(f"{name} is of the kind {type(content).__name__}")


def _read_row(row: tuple[Any, ...]) -> Record:
    """One row in words as a record."""
    key = ScoreKey(*row[: len(KEY)])
    columns = dict(zip(COLUMNS, row, strict=True))
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
        networks_per_pass=key.networks_per_pass,
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
            f"it holds a failure of the unknown kind {kind!r}; "
            "a newer version of untrained may have written it: update untrained, or choose another folder"
        )
    return Failure(kind, columns["detail"] or "", columns["trace"] or "")


@lru_cache(maxsize=1024)
def _parse_genes(text: str) -> tuple[tuple[str, Any], ...]:
    """Every proxy has a record of the same architecture, so its choices are parsed once."""
    return tuple((name, choice) for name, choice in parse_json(text))


@lru_cache(maxsize=1024)
def _parse_task(text: str) -> Task:
    """Many records share one task."""
    parse_json(text)  # a foreign file may hold anything
    return read_task_key(text)

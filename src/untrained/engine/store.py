"""The store: a SQLite file that is cache, resume and data set in one. Keyed by everything that determines a value.

A record is written once and for all when it is finished; a killed process loses only what it was working on. The store
knows nothing of scoring: it keeps Records and gives them back.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType

from untrained.errors import UsageError
from untrained.types import Arch, Failure, Record, Task

VERSION = 1
_KEY = "space, arch, measure, task, data, init, dtype, device, seed"
_SCHEMA = f"""
CREATE TABLE records (
    space TEXT NOT NULL, arch TEXT NOT NULL, measure TEXT NOT NULL, task TEXT NOT NULL, data TEXT NOT NULL,
    init TEXT NOT NULL, dtype TEXT NOT NULL, device TEXT NOT NULL, seed INTEGER NOT NULL,
    genes TEXT NOT NULL, value REAL, error TEXT, detail TEXT,
    build_seconds REAL NOT NULL, measure_seconds REAL NOT NULL,
    CHECK ((value IS NULL) != (error IS NULL)),
    PRIMARY KEY ({_KEY})
)
"""
_COLUMNS = f"{_KEY}, genes, value, error, detail, build_seconds, measure_seconds"


@dataclass(frozen=True, slots=True)
class Key:
    """What determines a value."""

    space: str
    arch: str
    measure: str
    task: str
    data: str
    init: str
    dtype: str
    device: str
    seed: int


def key_of(record: Record) -> Key:
    return Key(
        record.arch.space,
        str(record.arch),
        record.measure,
        _task_text(record.task),
        record.data,
        record.init,
        record.dtype,
        record.device,
        record.seed,
    )


class Store:
    """`store.add(records)`, `store.get(key)`, iteration over everything in order of writing."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=30)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._prepare()
        except (sqlite3.DatabaseError, OSError) as error:
            raise UsageError(f"{self.path} cannot be used as a store: {error}") from error

    def _prepare(self) -> None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._db.execute(_SCHEMA)
                self._db.execute(f"PRAGMA user_version = {VERSION}")
            elif version != VERSION:
                raise UsageError(f"{self.path} has store version {version}; this program reads {VERSION}")

    def add(self, records: Iterable[Record]) -> None:
        """Write records, all or none. One that is already there stays as it is."""
        rows = [_row(record) for record in records]
        with self._db:
            self._db.executemany(f"INSERT OR IGNORE INTO records ({_COLUMNS}) VALUES ({','.join('?' * 15)})", rows)

    def get(self, key: Key) -> Record | None:
        where = " AND ".join(f"{column} = ?" for column in _KEY.split(", "))
        row = self._db.execute(f"SELECT {_COLUMNS} FROM records WHERE {where}", astuple(key)).fetchone()
        return None if row is None else _record(row)

    def __iter__(self) -> Iterator[Record]:
        return (_record(row) for row in self._db.execute(f"SELECT {_COLUMNS} FROM records ORDER BY rowid"))

    def __len__(self) -> int:
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


def _task_text(task: Task) -> str:
    return json.dumps([task.dataset, list(task.input_shape), task.num_classes, task.loss])


def _row(record: Record) -> tuple[object, ...]:
    error = record.error
    return (
        *astuple(key_of(record)),
        json.dumps(record.arch.genes),
        record.value,
        error.kind if error else None,
        error.detail if error else None,
        record.build_seconds,
        record.measure_seconds,
    )


def _record(row: tuple[object, ...]) -> Record:
    key = Key(*row[:9])  # type: ignore[arg-type]
    genes, value, error, detail, build, measure = row[9:]
    dataset, shape, classes, loss = json.loads(key.task)
    return Record(
        arch=Arch(key.space, tuple((name, choice) for name, choice in json.loads(str(genes))), key.arch),
        measure=key.measure,
        task=Task(dataset, tuple(shape), classes, loss),
        seed=key.seed,
        value=None if value is None else float(value),  # type: ignore[arg-type]
        error=None if error is None else Failure(str(error), str(detail or "")),
        data=key.data,
        init=key.init,
        dtype=key.dtype,
        device=key.device,
        build_seconds=float(build),  # type: ignore[arg-type]
        measure_seconds=float(measure),  # type: ignore[arg-type]
    )

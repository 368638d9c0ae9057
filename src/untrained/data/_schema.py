"""What was learned about a table in one pass, and how its rows become numbers. Frozen, and kept as two small files.

A row is encoded as float32: first the dense columns, each with mean zero and deviation one over the training part and a
missing value at the mean; then the identifiers, 0 for one that is rare or was never seen in training.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from untrained.data._values import Floats, Keys, keys, numbers
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json
from untrained.readers.npz_file import list_npz_names, read_npz_arrays

Rows = NDArray[np.float32]
VERSION = 3  # of how rows become numbers, and of what is kept about it
SCHEMA, VOCABULARIES = "schema.json", "vocabularies.npz"


@dataclass(frozen=True)
class Dense:
    """A column of numbers, and its statistics over the training part after the logarithm."""

    name: str
    log: bool
    mean: float
    std: float
    missing: int
    text: int  # values that were text; they count as missing

    def encode(self, column: pa.Array) -> Rows:
        values = (logarithm(numbers(column)[0], self.log) - self.mean) / self.std
        return np.nan_to_num(values, nan=0.0).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Identifiers:
    """A column of identifiers: a vocabulary of hashes in rising order, or none, and hashes go into `size` numbers."""

    name: str
    size: int
    distinct: int  # in training; where hashed, how many had been seen when counting stopped
    missing: int
    vocabulary: Keys | None = None

    def encode(self, column: pa.Array) -> Rows:
        found, rows = keys(column)
        return self.number(found)[rows].astype(np.float32)

    def number(self, found: Keys) -> NDArray[np.int64]:
        if self.vocabulary is None:
            return (found % np.uint64(self.size)).astype(np.int64)
        places = np.minimum(np.searchsorted(self.vocabulary, found), len(self.vocabulary) - 1)
        return np.where(self.vocabulary[places] == found, places + 1, 0)


@dataclass(frozen=True, eq=False)
class Schema:
    """All that encodes a row of this table, wherever it is kept, and all that its card tells."""

    label: str
    dense: tuple[Dense, ...]
    identifiers: tuple[Identifiers, ...]
    dropped: tuple[tuple[str, str], ...]  # names of columns, and why
    rows: tuple[int, ...]  # of train, val and test
    clicks: tuple[int, ...]
    split: str
    floor: int
    bad: int
    bad_rows: tuple[str, ...]  # the first few
    missing: tuple[str, ...]  # texts that stand for a missing value
    moments: tuple[str, ...] = ()  # columns of that type, counted in microseconds since 1970
    dated: tuple[str, ...] = ()  # columns that look like moments, and do not order the split
    decimal: str = "."  # the sign before the fraction of a number that is text
    advice: tuple[tuple[str, str], ...] = ()  # names of columns, and what a person ought to know about them

    @property
    def vocabularies(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.identifiers)

    @property
    def columns(self) -> int:
        return len(self.dense) + len(self.identifiers)

    def encode(self, block: pa.RecordBatch) -> Rows:
        """(rows, columns)."""
        columns: tuple[Dense | Identifiers, ...] = (*self.dense, *self.identifiers)
        return np.stack([column.encode(block[column.name]) for column in columns], axis=1)

    def save_vocabularies(self, folder: Path) -> None:
        """By the places of their columns among those of identifiers."""
        vocabularies = {str(i): c.vocabulary for i, c in enumerate(self.identifiers) if c.vocabulary is not None}
        np.savez(folder / VOCABULARIES, **vocabularies)  # type: ignore[arg-type]

    def save(self, folder: Path) -> None:
        self.save_vocabularies(folder)
        plain = replace(self, identifiers=tuple(replace(column, vocabulary=None) for column in self.identifiers))
        (folder / SCHEMA).write_text(json.dumps({"version": VERSION, **asdict(plain)}, indent=1), encoding="utf-8")


def load_schema(folder: Path) -> Schema:
    facts: dict[str, Any] = parse_json((folder / SCHEMA).read_text(encoding="utf-8"))
    if facts.pop("version", 0) != VERSION:
        raise UsageError(f"{folder / SCHEMA} is of another version, which encoded rows in another way; train anew")
    names = list_npz_names(folder / VOCABULARIES)
    arrays = read_npz_arrays(folder / VOCABULARIES, names)
    words = {int(name): array for name, array in arrays.items()}
    facts["dense"] = [Dense(**column) for column in facts["dense"]]
    identifiers = [{**column, "vocabulary": words.get(i)} for i, column in enumerate(facts["identifiers"])]
    facts["identifiers"] = [Identifiers(**column) for column in identifiers]
    frozen: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}
    return Schema(**frozen)


def logarithm(values: Floats, wanted: bool) -> Floats:
    """sign(x) log(1 + |x|), which tames counts and keeps their order, or the values as they are."""
    return np.copysign(np.log1p(np.abs(values)), values) if wanted else values

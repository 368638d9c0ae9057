"""The schema of a table: how its rows are encoded as numbers, and facts for its card.

A row is encoded as float32. First come the dense columns, each with mean 0 and standard deviation 1
over the training part; a missing value becomes the mean. Then come the identifiers; 0 stands for
one that is rare or does not occur in training, unless the column is hashed. A schema is kept as two
small files.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from untrained.data.tables.values import Floats, Hashes, hash_identifiers, read_numbers
from untrained.errors import UsageError
from untrained.readers.json_file import parse_json
from untrained.readers.npz_file import list_npz_names, read_npz_arrays
from untrained.types import BINARY, TASK_KINDS, Task, TaskKind

EncodedRows = NDArray[np.float32]
VERSION = 4  # change it if rows are encoded in another way, or if the files change
CARD_VERSION = 1  # change it if the card of the same table says something else
SCHEMA = "schema.json"
VOCABULARIES = "vocabularies.npz"


@dataclass(frozen=True)
class DenseColumn:
    """A column of numbers.

    Attributes:
        name: Name of the column.
        log: Whether the numbers are transformed by sign(x) log(1 + |x|).
        mean: Mean over the training part, after the logarithm.
        std: Standard deviation over the training part, after the logarithm.
        missing: Number of missing values.
        text: Number of values that are text; they count as missing.
        text_example: The first of them, with its line.
    """

    name: str
    log: bool
    mean: float
    std: float
    missing: int
    text: int
    text_example: str = ""

    def encode(self, column: pa.Array) -> EncodedRows:
        """Encode a block of the column (rows,)."""
        numbers, _ = read_numbers(column)
        values = (transform_numbers(numbers, self.log) - self.mean) / self.std
        return np.nan_to_num(values, nan=0.0).astype(np.float32)


@dataclass(frozen=True, eq=False)
class IdentifierColumn:
    """A column of identifiers.

    Attributes:
        name: Name of the column.
        size: Number of different encoded values.
        distinct: Number of different identifiers in training. If they are hashed, the number that
            had been seen when counting stopped.
        missing: Number of missing values.
        vocabulary: Hashes of the identifiers that are encoded separately, in increasing order. None
            if there are too many: then identifiers are hashed into `size` buckets.
    """

    name: str
    size: int
    distinct: int
    missing: int
    vocabulary: Hashes | None = None

    def encode(self, column: pa.Array) -> EncodedRows:
        """Encode a block of the column (rows,)."""
        hashes, indices = hash_identifiers(column)
        return self.encode_hashes(hashes)[indices].astype(np.float32)

    def encode_hashes(self, hashes: Hashes) -> NDArray[np.int64]:
        """Return the index that each identifier is encoded as."""
        if self.vocabulary is None:
            return (hashes % np.uint64(self.size)).astype(np.int64)
        indices = np.searchsorted(self.vocabulary, hashes)
        indices = np.minimum(indices, len(self.vocabulary) - 1)
        return np.where(self.vocabulary[indices] == hashes, indices + 1, 0)


@dataclass(frozen=True, eq=False)
class Schema:
    """Everything that is needed to encode a row of a table, and everything that its card shows.

    Attributes:
        label: Column to predict.
        dense: Columns of numbers.
        identifiers: Columns of identifiers.
        dropped: Columns that are not used, with the reason.
        rows: Number of rows of `train`, `val` and `test`.
        clicks: Number of rows with the label 1 of `train`, `val` and `test`.
        split: How the parts were split, in words.
        floor: Identifiers that are less frequent than this share the index 0.
        bad: Number of rows that could not be used.
        bad_rows: The first few of them, with the reason.
        missing: Texts that stand for a missing value.
        timestamps: Columns of a time type, counted in microseconds since 1970.
        date_candidates: Columns that look like times, if none of them orders the split.
        decimal: Decimal sign of numbers that are text.
        advice: Columns that the user should look at, with the advice.
        hints: Columns that are most likely right, with what to write if they are not.
        task: "binary", "classification" or "regression".
        task_reason: Why it is this task.
        classes: Names of the classes of a classification, in the order of their indices.
        class_rows: Number of rows of each class.
        test_class_rows: Number of test rows of each class.
        label_mean: Mean of the label of a regression over the training part.
        label_std: Standard deviation of the label of a regression over the training part.
        label_range: Lowest and highest label of a regression.
        allows_classes: Whether the label has few enough different values for a classification.
    """

    label: str
    dense: tuple[DenseColumn, ...]
    identifiers: tuple[IdentifierColumn, ...]
    dropped: tuple[tuple[str, str], ...]
    rows: tuple[int, ...]
    clicks: tuple[int, ...]
    split: str
    floor: int
    bad: int
    bad_rows: tuple[str, ...]
    missing: tuple[str, ...]
    timestamps: tuple[str, ...] = ()
    date_candidates: tuple[str, ...] = ()
    decimal: str = "."
    advice: tuple[tuple[str, str], ...] = ()
    hints: tuple[tuple[str, str], ...] = ()
    task: str = BINARY.name
    task_reason: str = ""
    classes: tuple[str, ...] = ()
    class_rows: tuple[int, ...] = ()
    test_class_rows: tuple[int, ...] = ()
    label_mean: float = 0.0
    label_std: float = 1.0
    label_range: tuple[float, ...] = ()
    allows_classes: bool = True

    @property
    def kind(self) -> TaskKind:
        """What the label is."""
        return TASK_KINDS[self.task]

    def make_task(self, name: str) -> Task:
        """Return the task of networks for these rows.

        Args:
            name: Name of the data.
        """
        return Task(
            name,
            (self.column_count,),
            max(len(self.classes), 1),
            self.kind.loss,
            self.vocabularies,
            self.label_mean,
            self.label_std,
        )

    @property
    def vocabularies(self) -> tuple[int, ...]:
        """Number of different encoded values of each column of identifiers."""
        return tuple(column.size for column in self.identifiers)

    @property
    def column_count(self) -> int:
        """Number of encoded columns."""
        return len(self.dense) + len(self.identifiers)

    def encode(self, block: pa.RecordBatch) -> EncodedRows:
        """Encode a block of rows (rows, columns)."""
        columns = [column.encode(block[column.name]) for column in self.dense]
        for identifiers in self.identifiers:
            columns.append(identifiers.encode(block[identifiers.name]))
        return np.stack(columns, axis=1)

    def save_vocabularies(self, folder: Path) -> None:
        """Write the vocabularies, named by the indices of their columns among the identifiers."""
        vocabularies = {}
        for index, column in enumerate(self.identifiers):
            if column.vocabulary is not None:
                vocabularies[str(index)] = column.vocabulary
        np.savez(folder / VOCABULARIES, **vocabularies)  # type: ignore[arg-type]

    def save(self, folder: Path) -> None:
        """Write the schema to a folder."""
        self.save_vocabularies(folder)
        columns = [replace(column, vocabulary=None) for column in self.identifiers]
        facts = asdict(replace(self, identifiers=tuple(columns)))
        text = json.dumps({"version": VERSION, **facts}, indent=1)
        (folder / SCHEMA).write_text(text, encoding="utf-8")


def load_schema(folder: Path) -> Schema:
    """Read the schema that `Schema.save` wrote.

    Raises:
        UsageError: The files were written by another version.
    """
    facts: dict[str, Any] = parse_json((folder / SCHEMA).read_text(encoding="utf-8"))
    if facts.pop("version", 0) != VERSION:
        raise UsageError(
            f"{folder / SCHEMA} is of another version, which encoded rows in another way; "
            "train again"
        )
    arrays = read_npz_arrays(folder / VOCABULARIES, list_npz_names(folder / VOCABULARIES))
    identifiers = []
    for index, column in enumerate(facts["identifiers"]):
        column["vocabulary"] = arrays.get(str(index))
        identifiers.append(IdentifierColumn(**column))
    facts["identifiers"] = identifiers
    facts["dense"] = [DenseColumn(**column) for column in facts["dense"]]
    # JSON has lists where the schema has tuples.
    for name, value in facts.items():
        if isinstance(value, list):
            facts[name] = tuple(value)
    return Schema(**facts)


def transform_numbers(values: Floats, use_log: bool) -> Floats:
    """Return x, or sign(x) log(1 + |x|), which reduces large counts and keeps their order."""
    if not use_log:
        return values
    return np.copysign(np.log1p(np.abs(values)), values)

"""What a table predicts: a binary label, one of several classes, or a number.

The kind is inferred from the first rows of the label column, unless the user names it.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from untrained.data.tables.options import TableOptions
from untrained.data.tables.values import (
    LABEL_WORDS,
    Floats,
    cast_to_strings,
    is_float_text,
    normalise_text,
    read_label,
    read_texts,
)
from untrained.errors import UsageError
from untrained.quantities import show_value
from untrained.types import BINARY, CLASSIFICATION, REGRESSION, TASK_KINDS, TaskKind

# Whole numbers with at most this many different values are classes, with more a regression.
MAX_NUMBER_CLASSES = 20
# The names of all classes are kept in memory, and the report compares every class with every other.
MAX_CLASSES = 1000
# If more than this share of the labels are numbers, texts among them are bad rows and not classes.
MOST_LABELS = 0.5
# If more than this share of the numbers are 0 and 1, other numbers are errors and not classes.
NEARLY_ALL_LABELS = 0.99
# With fewer rows per class, the label is more likely an identifier.
MIN_ROWS_PER_CLASS = 3


@dataclass(frozen=True)
class Target:
    """The column that networks predict.

    Attributes:
        column: Its name.
        kind: Whether it is a binary label, a class or a number.
        reason: Why it has this kind, for the data card.
        above: If given, a binary label is 1 if its number is above this.
        classes: Texts of the classes in the order of their indices; empty for other kinds, and
            before they have been collected.
        mean: Mean of a number over the training rows.
        std: Standard deviation of a number over the training rows.
    """

    column: str
    kind: TaskKind
    reason: str
    above: float | None = None
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    std: float = 1.0

    def read_labels(self, column: pa.Array) -> Floats:
        """Convert a block of the column to labels, with NaN for rows without one.

        A class becomes its index, and the label of a regression stays in its unit.

        Raises:
            UsageError: A binary label is a number other than 0 and 1.
        """
        encoded = cast_to_strings(column).dictionary_encode(null_encoding="encode")
        indices = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
        texts = read_texts(encoded.dictionary)
        if self.kind == CLASSIFICATION:
            labels = self._find_class_indices(texts)
        else:
            labels = np.array([read_label(text, self.above) for text in texts], np.float64)
        if self.kind == BINARY:
            self._check_binary(texts, labels, indices)
        return labels[indices]

    def standardise(self, labels: Floats) -> Floats:
        """Return labels as networks predict them."""
        return (labels - self.mean) / self.std

    def _find_class_indices(self, texts: list[str | None]) -> Floats:
        """Return the index of the class that each text names; NaN for other texts."""
        index_by_class = {name: index for index, name in enumerate(self.classes)}
        indices = []
        for text in texts:
            indices.append(index_by_class.get(normalise_class(text), np.nan))
        return np.array(indices, np.float64)

    def _check_binary(
        self, texts: list[str | None], labels: Floats, indices: NDArray[np.int64]
    ) -> None:
        """Raise an error if a label is a number other than 0 and 1.

        Args:
            texts: The distinct texts in the column.
            labels: The label that each of them stands for.
            indices: Index of the text of each row.
        """
        is_wrong = ~np.isnan(labels) & (labels != 0) & (labels != 1)
        if not is_wrong.any():
            return
        threshold = _propose_threshold(labels[indices])
        raise UsageError(
            f"the label {self.column} also has the value {texts[int(is_wrong.argmax())]}; expected "
            "0 and 1. To set a threshold: "
            f"--data 'csv:PATH?label={self.column}&above={threshold}'; for more than two classes "
            "or numbers add --task classification or --task regression"
        )


def infer_target(column: pa.Array, name: str, options: TableOptions) -> Target:
    """Infer whether a label is binary, a class or a number.

    Args:
        column: The first rows of the label.
        name: Name of the column.
        options: The user's options for the table.

    Raises:
        UsageError: The column holds no labels.
    """
    if pa.types.is_nested(column.type):
        raise UsageError(
            f"the label {name} holds {column.type}, several values per row; a network predicts one "
            "column of numbers or classes"
        )
    if options.task:
        return Target(name, TASK_KINDS[options.task], f"task={options.task}", options.above)
    if options.above is not None:
        return Target(name, BINARY, f"above={options.above:g}", options.above)
    texts = [text for text in read_texts(cast_to_strings(column)) if text and text.strip()]
    if not texts:
        raise UsageError(
            f"the label {name} is empty in the first rows; expected 0 and 1, classes or numbers"
        )
    numbers = np.array([read_label(text, None) for text in texts], np.float64)
    numbers = numbers[~np.isnan(numbers)]
    distinct = np.unique(numbers)
    # Texts that can only be names of classes. An infinite number is neither that nor a valid label.
    text_count = 0
    for text in texts:
        if not _is_label_word(text) and not is_float_text(text):
            text_count += 1
    if text_count >= MOST_LABELS * len(texts):
        return Target(name, CLASSIFICATION, f"{name} holds texts")
    is_binary = (numbers == 0) | (numbers == 1)
    if not len(numbers) or is_binary.mean() > NEARLY_ALL_LABELS:
        words = "0 and 1"
        if any(_is_label_word(text) for text in texts):
            words = "yes and no, or true and false"
        return Target(name, BINARY, f"{name} holds {words}")
    if np.any(distinct != np.round(distinct)):
        return Target(name, REGRESSION, f"{name} holds numbers that are not whole")
    if len(distinct) > MAX_NUMBER_CLASSES:
        reason = f"{name} holds more than {MAX_NUMBER_CLASSES} different whole numbers"
        return Target(name, REGRESSION, reason)
    return Target(name, CLASSIFICATION, f"{name} holds {len(distinct)} different whole numbers")


class ClassCollector:
    """Collects the classes of a label, and the class of each row.

    While classes are collected, their indices are in the order of their first row.
    """

    def __init__(self, column_name: str) -> None:
        self._column_name = column_name
        self._index_by_class: dict[str, int] = {}
        self._class_indices: list[NDArray[np.int64]] = []  # of the rows of each block

    def add(self, column: pa.Array) -> None:
        """Add a block of the column. Rows without a label are left out.

        Raises:
            UsageError: There are too many classes.
        """
        encoded = cast_to_strings(column).dictionary_encode(null_encoding="encode")
        indices = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
        class_indices = []
        for text in read_texts(encoded.dictionary):
            name = normalise_class(text)
            if name:
                new_index = len(self._index_by_class)
                class_indices.append(self._index_by_class.setdefault(name, new_index))
            else:
                class_indices.append(-1)
        if len(self._index_by_class) > MAX_CLASSES:
            example = next(iter(self._index_by_class))
            raise UsageError(
                f"the label {self._column_name} has more than {MAX_CLASSES:,} classes, such as "
                f"{show_value(example)}; for a number write it without a unit and add --task "
                "regression, else name another column with --label"
            )
        class_of_rows = np.array(class_indices, np.int64)[indices]
        self._class_indices.append(class_of_rows[class_of_rows >= 0])

    def finish(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Return the classes in order, and the index of the class of each row.

        Numbers are ordered by value, texts alphabetically.
        """
        classes = sorted(self._index_by_class, key=_make_class_sort_key)
        new_indices = np.zeros(len(classes), np.int64)
        for new_index, name in enumerate(classes):
            new_indices[self._index_by_class[name]] = new_index
        class_of_rows = np.concatenate([np.empty(0, np.int64), *self._class_indices])
        return tuple(classes), new_indices[class_of_rows]


def normalise_class(text: str | None) -> str:
    """Return the canonical text of a class: 1 for 1 and 1.0; empty for a missing label."""
    return normalise_text((text or "").strip())


def add_classes(target: Target, classes: tuple[str, ...], rows: int) -> Target:
    """Return the target with its classes, after checking that they can be learned.

    Args:
        target: The target.
        classes: Its classes in order.
        rows: Number of rows with a label.

    Raises:
        UsageError: There are fewer than two, or too few rows per class.
    """
    if len(classes) < 2:
        class_text = "no classes"
        if classes:
            class_text = f"one class, {classes[0]}"
        raise UsageError(
            f"the label {target.column} has {class_text}; nothing can be learned; name another "
            "column with --label"
        )
    if rows < MIN_ROWS_PER_CLASS * len(classes):
        raise UsageError(
            f"the label {target.column} has {len(classes):,} classes in {rows:,} rows, such as "
            f"{classes[0]!r}; at least {MIN_ROWS_PER_CLASS} rows per class are needed. For a "
            "number add --task regression, else name another column with --label"
        )
    return replace(target, classes=classes)


def _is_label_word(text: str) -> bool:
    return text.strip().lower() in LABEL_WORDS


def _make_class_sort_key(name: str) -> tuple[bool, float, str]:
    """Return a key that sorts numbers by value, and all texts after the numbers."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def _propose_threshold(values: Floats) -> str:
    """Return a number that some values are above and others are not: the median if possible."""
    low, median, high = np.quantile(values[~np.isnan(values)], (0, 0.5, 1))
    short_median = f"{median:.3g}"
    if low <= float(short_median) < high:
        return short_median
    return f"{(low + high) / 2:.15g}"

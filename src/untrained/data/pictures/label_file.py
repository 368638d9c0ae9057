"""Label files: CSV files with a column of picture files and a column of labels.

The labels are classes or numbers. This is inferred unless the user names the task:
`images:photos.csv?label=age&task=regression`. Texts are classes, and so are whole numbers that look
like class indices, such as 0 to 99; all other labels are treated like those of tables.
"""

import csv
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite, isnan
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from untrained.data.parts import TEST, TRAIN
from untrained.data.pictures.listing import (
    ImageFile,
    Listing,
    Problems,
    add_test_files,
    find_part,
    make_image_file,
    make_listing,
)
from untrained.data.tables.options import TableOptions
from untrained.data.tables.target import Target, infer_target, normalise_class
from untrained.data.tables.values import is_float_text, read_label
from untrained.errors import UsageError, make_unknown_name_error
from untrained.types import BINARY, CLASSIFICATION, REGRESSION

_PATH_COLUMNS = ("path", "file", "filename", "image")
_LABEL_COLUMNS = ("label", "class", "target")
_SPLIT_COLUMNS = ("split", "part", "set")
# What labels of pictures may be. Labels of 0 and 1 are two classes, not a binary task.
_TASKS = (CLASSIFICATION.name, REGRESSION.name)
_SEPARATORS_IN_LABEL = re.compile(r"[;,\s]+")
# With fewer pictures of each whole number on average, the numbers are not class indices.
MIN_PICTURES_PER_CLASS = 2


@dataclass(frozen=True)
class LabelFileOptions:
    """Options for reading a label file.

    Attributes:
        label: Column of the labels; empty for a column called label, class or target.
        task: "classification" or "regression"; empty to infer it from the labels.
        test: If given, another label file, whose pictures are the test part.
    """

    label: str = ""
    task: str = ""
    test: str = ""

    def __post_init__(self) -> None:
        if self.task and self.task not in _TASKS:
            raise make_unknown_name_error("task for pictures", self.task, _TASKS)


def parse_label_file(argument: str) -> tuple[Path, LabelFileOptions]:
    """Split an argument such as `./photos.csv?label=age&task=regression` into path and options.

    Args:
        argument: The text after `images:`. In options, `%26` stands for an ampersand.

    Raises:
        UsageError: An option does not exist, has no value, or is given twice.
    """
    path, _, query = argument.rpartition("?")
    if not path or "=" not in query:
        # The question mark belongs to the path.
        return Path(argument), LabelFileOptions()
    option_names = [field.name for field in fields(LabelFileOptions)]
    options: dict[str, str] = {}
    for word in query.split("&"):
        name, _, text = word.partition("=")
        if name not in option_names:
            raise make_unknown_name_error("option of a label file", name, option_names)
        if not text:
            raise UsageError(
                f"{name} has no value; write {name}=..., such as images:photos.csv?label=age"
            )
        if name in options:
            advice = "name one of them"
            if name == "label":
                advice = "a network predicts one column; name one of them"
            raise UsageError(f"{name} is both {options[name]} and {unquote(text)}; {advice}")
        options[name] = unquote(text)
    return Path(path), LabelFileOptions(**options)


def list_label_file(path: Path, options: LabelFileOptions | None = None) -> Listing:
    """List the pictures of a label file. Paths in it are relative to it.

    Args:
        path: The file. Its columns are path, label and perhaps split.
        options: The user's options for the file.

    Raises:
        UsageError: The file cannot be read or lacks a column; a number is missing or not finite;
            there are fewer than two classes or too few different numbers; or there are two test
            parts.
    """
    options = options or LabelFileOptions()
    problems: Problems = []
    label_column, rows = _read_rows(path, options.label)
    target = _infer_target(path, label_column, rows, options.task)
    files = _make_files(path, rows, target, problems)
    if options.test:
        test = Path(os.path.expanduser(options.test))
        _, test_rows = _read_rows(test, options.label)
        _check_labels(test, test_rows, target, is_inferred=not options.task)
        test_files = []
        for file in _make_files(test, test_rows, target, problems):
            test_files.append(replace(file, part=TEST))
        have_classes = target is None or target.kind == CLASSIFICATION
        files = add_test_files(files, test_files, path, test, have_classes=have_classes)
    return make_listing(f"images:{path.name}", files, problems, target)


@dataclass(frozen=True)
class _Row:
    """One row of a label file.

    Attributes:
        line: Number of its line, from 1.
        name: Path of the picture; empty if it is missing.
        label: Text of the label; empty if it is missing.
        part: Its part.
    """

    line: int
    name: str
    label: str
    part: str


# ---------------------------------------------------------------------------------------- reading


def _read_rows(path: Path, label: str) -> tuple[str, list[_Row]]:
    """Read a label file.

    Args:
        path: The file. Without a split column, all pictures are in the training part.
        label: Column of the labels; empty to look for it.

    Returns:
        Name of the label column, and the rows.
    """
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}; give a CSV of paths and labels, such as images:./photos.csv"
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines() or [""]
        separator = max(",;\t", key=lines[0].count)
        reader = csv.reader(lines, delimiter=separator)
        header = [name.strip() for name in next(reader, [])]
        records = []
        for record in reader:
            if record:
                records.append((reader.line_num, record))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is not a CSV file in UTF-8: {error}; save it as one") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error

    label_index = _find_label_column(path, header, label)
    path_index = _find_column(header, _PATH_COLUMNS)
    split_index = _find_column(header, _SPLIT_COLUMNS)
    if path_index is None or label_index is None:
        raise UsageError(
            f"{path} begins with {lines[0][:60]!r}; its first line must be path,label or "
            "path,label,split, or name the label: images:PATH.csv?label=COLUMN"
        )
    rows = []
    for line, record in records:
        if any(record[len(header) :]):
            # A decimal comma or a second label would be cut off silently.
            raise UsageError(
                f"{path}, line {line} has {len(record)} values for {len(header)} columns; a "
                "network predicts one label, and a value with a comma needs quotes"
            )
        # A short row lacks its last values.
        cells = record + [""] * (len(header) - len(record))
        part = TRAIN
        if split_index is not None:
            part = _read_part(path, line, cells[split_index].strip())
        rows.append(_Row(line, cells[path_index].strip(), cells[label_index].strip(), part))
    return header[label_index], rows


def _find_label_column(path: Path, header: Sequence[str], label: str) -> int | None:
    """Return the index of the label column; None if there is none.

    Raises:
        UsageError: Several columns may be the label, or the column that the user names is missing.
    """
    if label:
        if label not in header:
            raise make_unknown_name_error(f"column of {path}", label, header)
        candidates = [index for index, name in enumerate(header) if name == label]
    else:
        candidates = []
        for index, name in enumerate(header):
            if name.lower() in _LABEL_COLUMNS:
                candidates.append(index)
    if not candidates:
        return None
    if len(candidates) > 1:
        names = " and ".join(header[index] for index in candidates)
        if len({header[index] for index in candidates}) == 1:
            raise UsageError(
                f"{path}, line 1: the column {header[candidates[0]]} occurs {len(candidates)} "
                "times, and a network predicts one label; rename the others"
            )
        raise UsageError(
            f"{path}, line 1: several columns may be the label: {names}; name one: "
            "images:PATH.csv?label=COLUMN"
        )
    return candidates[0]


def _find_column(header: Sequence[str], names: Iterable[str]) -> int | None:
    """Return the index of the first column that has one of some names; None if there is none."""
    lower_names = [name.lower() for name in header]
    for name in names:
        if name in lower_names:
            return lower_names.index(name)
    return None


def _read_part(path: Path, line: int, split: str) -> str:
    part = find_part(split)
    if part is None:
        raise UsageError(f"{path}, line {line}: the split is {split!r}; write train, val or test")
    return part


def _make_files(
    path: Path, rows: Sequence[_Row], target: Target | None, problems: Problems
) -> list[ImageFile]:
    """Return the pictures of a label file. Rows that are not used are added to the problems."""
    have_classes = target is not None and target.kind == CLASSIFICATION
    # In a column of numbers, 1 and 1.0 are the same class.
    are_numeric_classes = have_classes and all(_is_number(row.label) for row in rows if row.label)
    files: dict[str, ImageFile] = {}
    for row in rows:
        if row.name in files:
            problems.append((row.name, "listed before, so not used again"))
            continue
        if not row.name or not row.label:
            name = row.name or f"line {row.line}"
            problems.append((name, "not used: its path or its label is missing"))
            continue
        label = row.label
        if are_numeric_classes:
            label = normalise_class(label)
        files[row.name] = make_image_file(path.parent / row.name, row.name, label, row.part)
    return list(files.values())


# ----------------------------------------------------------------------------------------- labels


def _infer_target(path: Path, column: str, rows: Sequence[_Row], task: str) -> Target | None:
    """Infer whether labels are classes or numbers.

    Args:
        path: The file.
        column: Name of the label column.
        rows: The rows.
        task: "classification" or "regression"; empty to infer it.

    Returns:
        The target; None if there are no labels.

    Raises:
        UsageError: A number is missing or not finite, or a label has several numbers.
    """
    texts = [row.label for row in rows if row.label]
    if not texts:
        return None
    target = infer_target(pa.array(texts), column, TableOptions(task=task))
    if target.kind == BINARY:
        target = replace(target, kind=CLASSIFICATION)
    if not task and target.kind == REGRESSION:
        target = _reconsider_whole_numbers(target, texts)
    _check_labels(path, rows, target, is_inferred=not task)
    return target


def _reconsider_whole_numbers(target: Target, texts: Sequence[str]) -> Target:
    """Turn a regression into a classification if its whole numbers look like class indices.

    They do if the smallest is 0 or 1, none is missing up to the largest, and each occurs at least
    twice on average. (In a table, so many different numbers are always a regression.)

    Args:
        target: A regression.
        texts: The labels, none of which is empty.

    Returns:
        The target. Its reason says which of the conditions decided.
    """
    if not all(is_float_text(text) for text in texts):
        return target
    numbers = np.array([float(text) for text in texts])
    distinct = np.unique(numbers)
    low = distinct[0]
    high = distinct[-1]
    if not isfinite(low + high) or np.any(distinct != np.round(distinct)):
        return target
    if low not in (0, 1):
        reason = f"{target.reason}, and the smallest is {low:.15g} and not 0 or 1"
        return replace(target, reason=reason)
    if len(distinct) < high - low + 1:
        # The distinct numbers begin like low, low + 1, ..., and the first other one is after a gap.
        expected = low + np.arange(len(distinct))
        missing = expected[distinct != expected][0]
        return replace(target, reason=f"{target.reason}, and {missing:.15g} is missing among them")
    pictures_per_number = len(numbers) / len(distinct)
    if pictures_per_number < MIN_PICTURES_PER_CLASS:
        reason = (
            f"{target.reason}, and on average fewer than {MIN_PICTURES_PER_CLASS} pictures of each"
        )
        return replace(target, reason=reason)
    reason = (
        f"{target.column} holds all whole numbers from {low:.15g} to {high:.15g}, and on average "
        f"{pictures_per_number:.3g} pictures of each"
    )
    return replace(target, kind=CLASSIFICATION, reason=reason)


def _check_labels(
    path: Path, rows: Sequence[_Row], target: Target | None, *, is_inferred: bool
) -> None:
    """Raise a `UsageError` with the line of the first label that is not what it should be."""
    if target is None:
        return
    labels = [row.label for row in rows if row.label]
    has_number_lists = all(_is_number_list(label) for label in labels)
    has_numbers = any(_is_number(label) for label in labels)
    for row in rows:
        where = f"{path}, line {row.line}"
        is_number = _is_number(row.label)
        if target.kind == CLASSIFICATION:
            if is_inferred and has_number_lists and row.label:
                raise _number_list_error(where, row.label)
            if is_inferred and has_numbers and not is_number and is_float_text(row.label):
                raise _not_a_number_error(where, row.label)
        elif not row.label:
            # A row without a path names no picture, so it is left out and listed in the card.
            if row.name:
                raise UsageError(
                    f"{where}: the label of {row.name} is missing; add it, or remove the line"
                )
        elif _is_number_list(row.label):
            raise _number_list_error(where, row.label)
        elif not is_number:
            raise _not_a_number_error(where, row.label)


def _is_number(text: str) -> bool:
    """Return whether a text is a finite number, or a word that stands for 0 or 1."""
    return not isnan(read_label(text, None))


def _is_number_list(text: str) -> bool:
    """Return whether a text holds several numbers, such as "[1.5, 2]"."""
    words = _SEPARATORS_IN_LABEL.split(text.strip("[]() "))
    return len(words) > 1 and all(is_float_text(word) for word in words)


def _number_list_error(where: str, label: str) -> UsageError:
    return UsageError(
        f"{where}: the label {label!r} holds several numbers, and a network predicts one; give one "
        "number per picture, with a decimal point"
    )


def _not_a_number_error(where: str, label: str) -> UsageError:
    return UsageError(
        f"{where}: the label {label!r} is not a finite number; correct it, or remove the line (for "
        "classes add --task classification)"
    )

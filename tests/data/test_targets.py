"""What a table predicts: the kind of its label, its classes or numbers, and how rows are split."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from untrained.data import load_data
from untrained.data.source import DataSource
from untrained.data.tables.options import TableOptions
from untrained.data.tables.target import infer_target
from untrained.errors import UsageError
from untrained.formatting import format_measured
from untrained.types import Task

LIKE = Task("any", (1,), 1)
GENERATOR = np.random.default_rng(5)
ROWS = 400
NUMBERS = GENERATOR.normal(size=ROWS)
PRICES = 50 + 10 * NUMBERS + GENERATOR.normal(size=ROWS)
KINDS = np.array(["red", "green", "blue"])[GENERATOR.choice(3, ROWS, p=[0.05, 0.15, 0.8])]


def write_rows(path: Path, label: str, labels: Sequence[object]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "user", label])
        for row, value in enumerate(labels):
            writer.writerow([f"{NUMBERS[row % ROWS]:.9f}", f"u{row % 7}", value])
    return path


def open_rows(path: Path, label: str, labels: Sequence[object], options: str = "") -> DataSource:
    write_rows(path, label, labels)
    return load_data(f"csv:{path}?label={label}{options}", LIKE, path.parent / "root")


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["0", "1"] * 50, "binary"),
        (["yes", "no"] * 50, "binary"),
        (["true", "false", None] * 50, "binary"),
        (["0", "1"] * 30 + ["oops"] * 20, "binary"),
        (["1.5", "2.5"] * 50, "regression"),
        ([str(value) for value in range(100)], "regression"),
        ([str(value % 5) for value in range(100)], "classification"),
        (["1", "2"] * 50, "classification"),
        (["spam", "ham"] * 50, "classification"),
        (["a", "b", "c", ""] * 50, "classification"),
        (["yes", "no", "maybe", "unknown"] * 50, "classification"),
        (["1e3", "-2.5", "inf", "7"] * 50, "regression"),
    ],
)
def test_the_task_follows_from_the_values_of_the_label(labels, kind):
    target = infer_target(pa.array(labels, pa.string()), "y", TableOptions())
    assert target.kind.name == kind
    assert target.reason.startswith("y holds ")


def test_types_of_a_parquet_file_decide_like_their_texts():
    for values, kind in (
        (pa.array([True, False] * 20), "binary"),
        (pa.array([0, 1] * 20), "binary"),
        (pa.array([0.25, 1.5] * 20), "regression"),
        (pa.array([1, 2, 3] * 20), "classification"),
        (pa.array(["a", "b"] * 20).dictionary_encode(), "classification"),
    ):
        assert infer_target(values, "y", TableOptions()).kind.name == kind


@pytest.mark.parametrize("task", ["binary", "classification", "regression"])
def test_the_user_may_name_the_task(tmp_path, task):
    labels = [row % 2 for row in range(ROWS)]
    source = open_rows(tmp_path / "rows.csv", "y", labels, f"&task={task}")
    assert source.task.kind.name == task
    assert source.task.num_classes == (2 if task == "classification" else 1)


def test_numbers_are_standardised_by_the_training_rows(tmp_path):
    source = open_rows(tmp_path / "rows.csv", "price", [f"{price:.6f}" for price in PRICES])
    standardised = source.parts["train"].read_labels().double()
    assert float(standardised.mean()) == pytest.approx(0, abs=1e-6)
    assert float(standardised.std(correction=0)) == pytest.approx(1, abs=1e-6)
    restored = []
    for part in source.parts.values():
        (batch,) = part.batches(1000)
        assert batch.targets.dtype == torch.float32
        restored.append(batch.targets.double() * source.task.target_std + source.task.target_mean)
    assert np.sort(torch.cat(restored).numpy()) == pytest.approx(np.sort(PRICES), abs=1e-4)
    assert (source.task.loss, source.task.num_classes) == ("mse", 1)
    low, high = source.schema.label_range
    assert (low, high) == pytest.approx((PRICES.min(), PRICES.max()), abs=1e-6)


def test_every_class_has_the_same_shares_in_all_parts(tmp_path):
    source = open_rows(tmp_path / "rows.csv", "colour", KINDS)
    assert source.classes == ("blue", "green", "red")
    assert (source.task.loss, source.task.num_classes) == ("cross_entropy", 3)
    for number, name in enumerate(source.classes):
        total = int((name == KINDS).sum())
        counts = {}
        for part_name, part in source.parts.items():
            counts[part_name] = int((part.read_labels() == number).sum())
        assert counts["val"] == counts["test"] == max(1, round(0.1 * total))
        assert sum(counts.values()) == total
    assert source.schema.class_rows == tuple(
        int((name == KINDS).sum()) for name in ("blue", "green", "red")
    )


def test_the_label_of_each_row_stays_with_it(tmp_path):
    """The number column tells which row of the file a row of a part was."""
    source = open_rows(tmp_path / "rows.csv", "colour", KINDS, "&categorical=user")
    (column,) = source.schema.dense
    for part in source.parts.values():
        (batch,) = part.batches(1000)
        numbers = batch.inputs[:, 0].double() * column.std + column.mean
        for number, label in zip(numbers.tolist(), batch.targets.tolist(), strict=True):
            row = int(np.abs(NUMBERS - number).argmin())
            assert source.classes[label] == KINDS[row]


def test_classes_that_are_numbers_are_ordered_by_value(tmp_path):
    labels = [("10", "9", "2.0", "2")[row % 4] for row in range(ROWS)]
    source = open_rows(tmp_path / "rows.csv", "grade", labels)
    assert source.classes == ("2", "9", "10")


def test_the_test_table_of_the_user_is_encoded_by_the_training_rows(tmp_path):
    test = write_rows(tmp_path / "held.csv", "price", [100.5, 200.5, 300.5])
    source = open_rows(tmp_path / "rows.csv", "price", PRICES, f"&test={test}")
    task = source.task
    labels = source.parts["test"].read_labels().double() * task.target_std + task.target_mean
    assert labels.tolist() == pytest.approx([100.5, 200.5, 300.5], rel=1e-5)
    assert len(source.parts["train"]) + len(source.parts["val"]) == ROWS


def test_a_class_that_training_rows_lack_is_a_bad_row_of_the_test_table(tmp_path):
    test = write_rows(tmp_path / "held.csv", "colour", ["red", "violet", "blue"])
    source = open_rows(tmp_path / "rows.csv", "colour", KINDS, f"&test={test}")
    assert source.parts["test"].read_labels().tolist() == [2, 0]
    assert source.schema.bad_rows == ("held.csv, line 3: the label colour is 'violet'",)


def test_the_card_says_the_task_and_how_to_change_it(tmp_path):
    source = open_rows(tmp_path / "rows.csv", "price", PRICES)
    facts = source.card().facts
    assert facts["task"] == ("regression, because price holds numbers that are not whole"), (
        "it has too many values for classes"
    )
    assert facts["label"] == (
        f"price, a number from {format_measured(PRICES.min())} to {format_measured(PRICES.max())}, "
        f"mean {format_measured(source.task.target_mean)}, "
        f"deviation {format_measured(source.task.target_std)}"
    )


def test_the_card_warns_of_imbalanced_and_rare_classes(tmp_path):
    facts = open_rows(tmp_path / "rows.csv", "colour", KINDS).card().facts
    counts = {name: int((name == KINDS).sum()) for name in ("red", "green", "blue")}
    shares = ", ".join(
        f"{name} {100 * counts[name] / ROWS:.1f} %" for name in ("blue", "green", "red")
    )
    assert facts["label"] == f"colour, 3 classes: {shares}"
    assert facts["imbalance"] == (
        f"blue has {counts['blue']} rows and red has {counts['red']}; a network that always "
        f"predicts blue has an accuracy of {100 * counts['blue'] / ROWS:.1f} %"
    )
    assert facts["caution"].startswith("green, red have fewer than 10 of the ")
    balanced = [("a", "b")[row % 2] for row in range(ROWS)]
    facts = open_rows(tmp_path / "even.csv", "colour", balanced).card().facts
    assert not {"imbalance", "caution"} & set(facts)


def test_a_column_that_tells_the_label_is_reported(tmp_path):
    path = tmp_path / "leaks.csv"
    with path.open("w") as file:
        file.write("number,copy,price\n")
        for number, price in zip(NUMBERS, PRICES, strict=True):
            file.write(f"{number},{2 * price + 1},{price}\n")
    source = load_data(f"csv:{path}?label=price", LIKE, tmp_path / "root")
    assert [name for name, _ in source.schema.advice] == ["copy"]
    with path.open("w") as file:
        file.write("number,code,colour\n")
        for number, kind in zip(NUMBERS, KINDS, strict=True):
            file.write(f"{number},{kind[0]},{kind}\n")
    source = load_data(f"csv:{path}?label=colour", LIKE, tmp_path / "root")
    assert [name for name, _ in source.schema.advice] == ["code"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("label=colour,user", "the label is in 2 columns, colour,user, .*drop=user$"),
        ("label=colour&label=user", "the label is both colour and user, and a network predicts"),
        ("label=colour&task=ranking", "no task is called 'ranking'; available: binary"),
        ("label=number&task=regression&above=1", "above=1 makes a binary label .*leave out one"),
        ("label=number&task=classification", "has 400 classes in 400 rows, .*--task regression"),
        ("label=colour&task=regression", "the label colour holds '.*; expected numbers$"),
        ("label=colour&task=binary", "the label colour holds .*; for more than two classes add"),
    ],
)
def test_a_label_that_cannot_be_used_is_refused_in_one_line(tmp_path, options, message):
    path = write_rows(tmp_path / "rows.csv", "colour", KINDS)
    with pytest.raises(UsageError, match=message) as raised:
        load_data(f"csv:{path}?{options}", LIKE, tmp_path / "root")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["5.5"] * ROWS, "all 400 rows of .* have the label 5.5; nothing can be learned"),
        (["only"] * ROWS, "the label y has one class, only; nothing can be learned"),
        ([f"c{row}" for row in range(ROWS)], "has 400 classes in 400 rows, such as 'c0'"),
    ],
)
def test_labels_without_information_are_refused(tmp_path, labels, message):
    with pytest.raises(UsageError, match=message):
        open_rows(tmp_path / "rows.csv", "y", labels)


def test_a_label_of_lists_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [1.5, 2.5, 3.5], "y": [[1, 2], [3], [4]]}), path)
    with pytest.raises(UsageError, match=r"the label y holds list.*, several values per row"):
        load_data(f"parquet:{path}?label=y", LIKE, tmp_path / "root")


def test_labels_with_a_unit_are_shown_in_the_message(tmp_path):
    prices = [f"${1000 + i}.0" for i in range(1200)]
    with pytest.raises(
        UsageError, match=r"more than 1,000 classes, such as '\$1000.0'; for a number"
    ):
        open_rows(tmp_path / "rows.csv", "price", prices)

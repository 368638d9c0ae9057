"""Pictures whose labels are numbers: the task, the split, the standardisation and wrong files."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.pictures import make_flat_image, make_pixels, save_image
from tests.data.tiny import RGB
from untrained.data import TEST, TRAIN, VAL, DataSource, load_data
from untrained.data.mirror import may_be_mirrored
from untrained.data.pictures.label_file import LabelFileOptions, list_label_file, parse_label_file
from untrained.errors import UsageError
from untrained.types import Task

COUNT = 60


def write_labels(path: Path, labels: list[str], header: str = "path,label") -> Path:
    """Write a label file; the picture of row k is `k.png`."""
    lines = [header, *(f"{k}.png,{label}" for k, label in enumerate(labels))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def ages(tmp_path: Path) -> Path:
    """Write 60 pictures and a label file of ages; returns the file."""
    generator = np.random.default_rng(3)
    labels = []
    for k in range(COUNT):
        save_image(tmp_path / f"{k}.png", make_pixels(k))
        labels.append(f"{generator.uniform(10, 90):.2f}")
    return write_labels(tmp_path / "ages.csv", labels)


def open_labels(file: Path, query: str = "") -> DataSource:
    return load_data(f"images:{file}{query}", RGB, file.parent / "root")


def read_labels(file: Path) -> dict[str, float]:
    with file.open() as rows:
        return {row["path"]: float(row["label"]) for row in csv.DictReader(rows)}


# -------------------------------------------------------------------------- task and parts


def test_labels_are_standardised_with_the_training_part(ages):
    source = open_labels(ages)
    labels = read_labels(ages)
    names_by_part: dict[str, list[str]] = {TRAIN: [], VAL: [], TEST: []}
    for file in list_label_file(ages).files:
        names_by_part[file.part].append(file.name)
    # 15 % for validation and 10 % for testing.
    assert {part: len(names) for part, names in names_by_part.items()} == {
        TRAIN: 45, VAL: 9, TEST: 6,
    }  # fmt: skip
    assert sorted(name for names in names_by_part.values() for name in names) == sorted(labels)
    train_labels = [labels[name] for name in names_by_part[TRAIN]]
    mean = np.mean(train_labels)
    std = np.std(train_labels)
    assert source.task == Task(
        "images:ages.csv",
        (3, 32, 32),
        1,
        "mse",
        target_mean=pytest.approx(mean),
        target_std=pytest.approx(std),
        target_name="label",
    )
    assert source.classes == ()
    for part, names in names_by_part.items():
        expected = [(labels[name] - mean) / std for name in names]
        assert source.parts[part].labels.dtype == torch.float32
        assert source.parts[part].labels.numpy() == pytest.approx(expected, abs=1e-6)
        for name, image in zip(names, source.parts[part].images, strict=True):
            assert np.array_equal(image.numpy(), make_pixels(int(name.removesuffix(".png"))))
    batch = source.batch(8)
    assert batch.inputs.shape == (8, 3, 32, 32)
    assert set(batch.targets.tolist()) <= set(source.parts[TRAIN].labels.tolist())


def test_the_split_depends_on_names_and_not_on_labels(ages):
    before = {file.name: file.part for file in list_label_file(ages).files}
    other = write_labels(ages.with_name("other.csv"), [f"{k}.5" for k in range(COUNT)])
    assert {file.name: file.part for file in list_label_file(other).files} == before


@pytest.mark.parametrize(
    ("labels", "query", "task", "reason"),
    [
        (["1.5", "2", "3", "4"], "", "regression", "label holds numbers that are not whole"),
        (
            [str(k) for k in range(21)],
            "",
            "regression",
            "label holds more than 20 different whole numbers, and on average fewer than 2 pictures",
        ),
        ([str(k) for k in range(20)], "", "classification", "label holds 20 different whole numb"),
        # The numbers of classes: from 0 or 1, none missing, each twice on average.
        (
            [str(k) for k in range(100)] * 2,
            "",
            "classification",
            "label holds all whole numbers from 0 to 99, and on average 2 pictures of each",
        ),
        (
            ["1.0", *(str(k) for k in range(1, 31)), *["30"] * 44],
            "",
            "classification",
            "label holds all whole numbers from 1 to 30, and on average 2.5 pictures of each",
        ),
        (
            [str(k) for k in range(30)] * 2 + ["31"] * 2,
            "",
            "regression",
            "label holds more than 20 different whole numbers, and 30 is missing among them",
        ),
        (
            [str(k) for k in range(2, 32)] * 2,
            "",
            "regression",
            "label holds more than 20 different whole numbers, and the smallest is 2 and not 0 or",
        ),
        (
            [str(k) for k in range(-1, 29)] * 2,
            "",
            "regression",
            "label holds more than 20 different whole numbers, and the smallest is -1 and not 0 or",
        ),
        (
            # 59 labels of 30 numbers.
            ([str(k) for k in range(30)] * 2)[1:],
            "",
            "regression",
            "label holds more than 20 different whole numbers, and on average fewer than 2 pictures",
        ),
        ([str(k) for k in range(30)] * 2, "?task=regression", "regression", "task=regression"),
        (["1", "2", "3", "4"], "?task=regression", "regression", "task=regression"),
        (["1.5", "2.5"] * 2, "?task=classification", "classification", "task=classification"),
        (["0", "1"] * 2, "", "classification", "label holds 0 and 1"),
        (["cat", "dog"] * 2, "", "classification", "label holds texts"),
    ],
)
def test_the_task_is_inferred_from_the_labels(labels, query, task, reason, tmp_path):
    file = write_labels(tmp_path / "some.csv", labels)
    listing = list_label_file(*parse_label_file(f"{file}{query}"))
    assert listing.target is not None
    assert listing.target.kind.name == task
    assert listing.target.reason.startswith(reason)
    assert listing.has_numbers == (task == "regression")
    assert bool(listing.classes) == (task == "classification")


def test_numbers_of_classes_are_sorted_by_number_and_stratified(tmp_path):
    file = write_labels(tmp_path / "some.csv", [str(k % 25) for k in range(250)])
    listing = list_label_file(file)
    assert listing.classes == tuple(str(k) for k in range(25))
    # Of the 10 pictures of each class 15 %, rounded to the even number, and 10 %.
    counts = Counter((file.part, file.label) for file in listing.files)
    assert set(counts.values()) == {7, 2, 1}
    assert all(counts[TRAIN, name] == 7 for name in listing.classes)


def test_a_text_among_the_numbers_of_classes_is_refused(tmp_path):
    file = write_labels(tmp_path / "some.csv", [*(str(k) for k in range(30)), "cat"] * 2)
    with pytest.raises(UsageError, match=r"line 32: the label 'cat' is not a finite number"):
        list_label_file(file)


def test_equal_whole_numbers_are_one_class_however_they_are_written(tmp_path):
    file = write_labels(tmp_path / "some.csv", ["10", "2.0", "2", "10.0"])
    assert list_label_file(file).classes == ("2", "10")


def test_the_label_is_any_column_that_the_user_names(ages):
    labels = read_labels(ages)
    lines = ['path,label,"age, in years"']
    for k, age in enumerate(labels.values()):
        lines.append(f"{k}.png,{'ab'[k % 2]},{age}")
    file = ages.with_name("two.csv")
    file.write_text("\n".join(lines))
    assert open_labels(file).classes == ("a", "b")
    source = open_labels(file, "?label=age%2C in years")
    assert source.task.target_name == "age, in years"
    assert source.task.target_mean == pytest.approx(open_labels(ages).task.target_mean)


def test_the_test_part_may_be_another_label_file(ages):
    held = ages.with_name("held.csv")
    held.write_text("path,label\n0.png,500\n1.png,-20.5\n")
    source = open_labels(ages, f"?task=regression&test={held}")
    assert len(source.parts[TEST]) == 2
    assert len(source.parts[TRAIN]) + len(source.parts[VAL]) == COUNT
    task = source.task
    tested = source.parts[TEST].labels.double() * task.target_std + task.target_mean
    assert tested.numpy() == pytest.approx([500, -20.5], rel=1e-5)
    held.write_text("path,label\n0.png,500\n1.png,old\n")
    with pytest.raises(UsageError, match=r"held.csv, line 3: the label 'old' is not a finite numb"):
        open_labels(ages, f"?test={held}")


def test_parts_of_the_file_are_kept(tmp_path):
    rows = ["0.png,1.5,train", "1.png,2.5,train", "2.png,3.5,val", "3.png,9.5,test"]
    file = tmp_path / "some.csv"
    file.write_text("path,label,split\n" + "\n".join(rows))
    listing = list_label_file(file)
    assert [(file.name, file.part) for file in listing.files] == [
        ("0.png", TRAIN), ("1.png", TRAIN), ("2.png", VAL), ("3.png", TEST),
    ]  # fmt: skip
    assert listing.target is not None
    # Of 1.5 and 2.5.
    assert (listing.target.mean, listing.target.std) == (2.0, 0.5)


def test_a_broken_picture_is_left_out_and_listed(ages):
    ages.with_name("7.png").write_bytes(b"")
    source = open_labels(ages)
    assert sum(len(part) for part in source.parts.values()) == COUNT - 1
    assert source.card().problems == (("7.png", "zero bytes"),)
    for k in range(COUNT):
        ages.with_name(f"{k}.png").write_bytes(b"")
    with pytest.raises(UsageError, match=r"images:ages.csv has no readable picture to learn from"):
        _ = open_labels(ages).parts


def test_the_card_says_which_task_and_why(ages):
    source = open_labels(ages)
    labels = list(read_labels(ages).values())
    lines = source.card().lines()
    assert lines[0] == (
        "images:ages.csv: 60 pictures: 45 for training, 9 for validation, 6 for testing"
    )
    assert lines[1] == (
        "task: regression, because label holds numbers that are not whole; "
        "--task classification changes it"
    )
    assert lines[2] == (
        f"label: label, a number from {min(labels):.4g} to {max(labels):.4g}, mean "
        f"{source.task.target_mean:.4g}, deviation {source.task.target_std:.4g}"
    )
    assert "their labels hardly depend on left and right" in lines[-1]
    file = write_labels(ages.with_name("some.csv"), ["1", "2", "3", "4"] * 15)
    lines = open_labels(file).card().lines()
    assert lines[1] == (
        "task: classification, because label holds 4 different whole numbers; "
        "--task regression changes it"
    )


# ----------------------------------------------------------------------------- wrong files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\na.png,1.5\n\nb.png,\n", "line 4: the label of b.png is missing; add it"),
        ("path,label\na.png,1.5\nb.png\n", "line 3: the label of b.png is missing"),
        ("path,label\na.png,1.5\nb.png,nan\n", "line 3: the label 'nan' is not a finite number"),
        ("path,label\na.png,-inf\nb.png,1.5\n", "line 2: the label '-inf' is not a finite number"),
        (
            "path,label\n" + "".join(f"{k}.png,{k // 2}\n" for k in range(60)) + "z.png,inf\n",
            "line 62: the label 'inf' is not a finite number",
        ),
        ("path,label\na.png,1\nb.png,nan\nc.png,2\n", "line 3: the label 'nan' is not a finite"),
        ("path,label\na.png,1.5\nb.png,big\nc.png,2\n", "line 3: the label 'big' is not a finite"),
        ("path,label\na.png,1.5\nb.png,2.5,3.5\n", "line 3 has 3 values for 2 columns"),
        ("path,label\na.png,[1.5 2]\nb.png,[2 3]\n", r"line 2: the label '\[1.5 2\]' holds sever"),
        ("path;label\na.png;1,5\nb.png;2,5\n", "line 2: the label '1,5' holds several numbers"),
        ("path,label,target\na.png,1,2\n", "line 1: several columns may be the label: label and t"),
        ("path,label,label\na.png,1,2\n", "line 1: the column label occurs 2 times"),
        ("path,label\na.png,1.5\nb.png,2.5\n", "has 2 pictures to learn from; it needs at least 4"),
        (
            "path,label\na.png,1.5\nb.png,1.5\nc.png,1.5\nd.png,1.5\n",
            "all labels of the training pictures of images:some.csv are 1.5",
        ),
        (
            "path,label\na.png,1e308\nb.png,-1e308\nc.png,0.5\nd.png,1.7e308\n",
            "cannot be standardised; use another unit",
        ),
    ],
)
def test_a_label_file_that_cannot_be_learned_from_is_refused_in_one_line(text, message, tmp_path):
    (tmp_path / "some.csv").write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        list_label_file(tmp_path / "some.csv")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("task=binary", "no task for pictures is called 'binary'; available: classification, regr"),
        ("tsk=regression", "no option of a label file is called 'tsk'; did you mean task"),
        ("task=", "task has no value; write task="),
        ("label=a&label=b", "label is both a and b; a network predicts one column"),
        ("label=age", "no column of .*some.csv is called 'age'"),
    ],
)
def test_wrong_options_of_a_label_file_are_refused(query, message, tmp_path):
    file = write_labels(tmp_path / "some.csv", ["1.5", "2.5", "3.5", "4.5"])
    with pytest.raises(UsageError, match=message):
        load_data(f"images:{file}?{query}", RGB, tmp_path)


def test_a_question_mark_may_be_part_of_the_path():
    assert parse_label_file("./wh?t.csv") == (Path("./wh?t.csv"), LabelFileOptions())
    assert parse_label_file("./wh?t.csv?label=a%26b&test=c%3Fd.csv") == (
        Path("./wh?t.csv"),
        LabelFileOptions(label="a&b", test="c?d.csv"),
    )


# -------------------------------------------------------------------------------- mirroring


def test_pictures_are_mirrored_unless_the_number_depends_on_left_and_right():
    """A bright column whose place is the label has a mirror image with another label."""
    generator = torch.Generator().manual_seed(0)
    columns = torch.randint(16, (400,), generator=generator)
    images = torch.randint(40, (400, 16, 16, 3), generator=generator, dtype=torch.uint8)
    images[torch.arange(400), :, columns] += 200
    places = columns.float() + torch.rand(400, generator=generator)
    assert not may_be_mirrored(images, places)
    # The distance from the centre is the same in the mirror image.
    assert may_be_mirrored(images, (columns - 7.5).abs())
    assert may_be_mirrored(images[:1], places[:1])


# --------------------------------------------------------------------------------- archives


def test_floats_in_an_archive_are_numbers_to_predict(tmp_path):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 255, (40, 8, 8, 3), np.uint8)
    labels = generator.normal(50, 9, 40).astype(np.float32)
    np.savez(tmp_path / "some.npz", x=images, y=labels, x_test=images[:3], y_test=labels[:3])
    source = load_data(f"npz:{tmp_path}/some.npz", Task("any", (3, 8, 8), 2))
    task = source.task
    assert (task.loss, task.num_classes, task.target_name) == ("mse", 1, "y")
    unit_labels = {}
    for name, part in source.parts.items():
        unit_labels[name] = part.labels.double().numpy() * task.target_std + task.target_mean
    # 10 % for validation, since there is a test part.
    assert [len(unit_labels[name]) for name in (TRAIN, VAL, TEST)] == [36, 4, 3]
    assert unit_labels[TRAIN].mean() == pytest.approx(task.target_mean)
    assert unit_labels[TRAIN].std() == pytest.approx(task.target_std)
    assert unit_labels[TEST] == pytest.approx(labels[:3], rel=1e-5)
    together = np.concatenate([unit_labels[TRAIN], unit_labels[VAL]])
    assert np.sort(together) == pytest.approx(np.sort(labels), rel=1e-5)
    for image, label in zip(source.parts[TRAIN].images, unit_labels[TRAIN], strict=True):
        index = int(np.abs(labels - label).argmin())
        assert np.array_equal(image.numpy(), images[index])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": np.array([0.5, np.nan, 1, 2])}, r"y\[1\] is nan; labels must be finite numbers"),
        ({"y": np.array([0.5, 1, np.inf, 2])}, r"y\[2\] is inf"),
        ({"y": np.ones((4, 2))}, r"y is float64 \(4, 2\); expected 4 non-negative integers"),
        ({"y": np.ones(4)}, "all labels of the training pictures of npz:some.npz are 1, so noth"),
        (
            {"y": np.arange(4.0), "x_test": make_flat_image(1, 2, 3)[None], "y_test": np.ones(1, int)},
            "floats as labels in the part train and integers in the part test",
        ),
    ],
)  # fmt: skip
def test_an_archive_with_wrong_numbers_is_refused(arrays, message, tmp_path):
    images = np.zeros((4, 32, 32, 3), np.uint8)
    np.savez(tmp_path / "some.npz", x=images, **arrays)
    with pytest.raises(UsageError, match=message):
        load_data(f"npz:{tmp_path}/some.npz", RGB)

"""`--test`: the user's own test part, for pictures, archives and tables."""

from collections import Counter

import numpy as np
import pytest
import torch

from tests.data.logs import format_rows, make_log, open_table, write_csv
from tests.data.pictures import write_good_images
from tests.data.tiny import RGB
from untrained.cli.options import KINDS_WITH_TEST, TABLE_KINDS, add_test
from untrained.data import TEST, TRAIN, VAL, load_data
from untrained.data.pictures.label_file import LabelFileOptions, list_label_file
from untrained.data.pictures.listing import list_folder
from untrained.data.registry import SOURCES
from untrained.data.tables import sources as table_sources
from untrained.errors import UsageError


@pytest.fixture
def photos(tmp_path):
    """Two folders of pictures with the same classes; a third class is in `held` only."""
    write_good_images(tmp_path / "photos", {"cats": 40, "dogs": 20})
    write_good_images(tmp_path / "held", {"cats": 6, "dogs": 3, "eels": 2})
    return tmp_path / "photos"


def test_the_test_part_of_a_folder_is_another_folder(photos):
    held = photos.with_name("held")
    listing = list_folder(photos, held)
    counts = Counter((file.part, file.label) for file in listing.files)
    # A tenth of each class is for validation; nothing is split off for testing.
    assert counts == {
        (TRAIN, "cats"): 36,
        (TRAIN, "dogs"): 18,
        (VAL, "cats"): 4,
        (VAL, "dogs"): 2,
        (TEST, "cats"): 6,
        (TEST, "dogs"): 3,
    }
    assert all(file.name.startswith("held/") == (file.part == TEST) for file in listing.files)
    problems = dict(listing.problems)
    assert {name for name in problems if "eels" in name} == {"held/eels/0.png", "held/eels/1.png"}
    source = load_data(f"folder:{photos}?test={held}", RGB, photos.parent / "root")
    assert [len(source.parts[part]) for part in (TRAIN, VAL, TEST)] == [54, 6, 9]
    assert source.task.num_classes == 2


def test_two_test_parts_are_refused(tmp_path):
    for part in ("train", "test"):
        write_good_images(tmp_path / "photos" / part, {"cats": 4, "dogs": 4})
    write_good_images(tmp_path / "held", {"cats": 2, "dogs": 2})
    with pytest.raises(UsageError, match="has a test part already"):
        list_folder(tmp_path / "photos", tmp_path / "held")


def test_test_data_that_fit_no_class_are_refused(photos):
    write_good_images(photos.with_name("other"), {"birds": 2, "fish": 2})
    with pytest.raises(UsageError, match=r"no pictures of the classes of .*: cats, dogs"):
        list_folder(photos, photos.with_name("other"))
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere"):
        list_folder(photos, photos.with_name("nowhere"))


def test_the_test_part_of_a_list_is_another_list(photos):
    for folder in ("photos", "held"):
        lines = ["path,label"]
        for path in sorted((photos.with_name(folder)).glob("*/*.png")):
            lines.append(f"{path},{path.parent.name}")
        photos.with_name(f"{folder}.csv").write_text("\n".join(lines))
    listing = list_label_file(
        photos.with_name("photos.csv"), LabelFileOptions(test=str(photos.with_name("held.csv")))
    )
    assert Counter(file.part for file in listing.files) == {TRAIN: 54, VAL: 6, TEST: 9}


def test_the_test_part_of_an_archive_is_another_archive(tmp_path):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, (60, 8, 8, 3), np.uint8)
    labels = np.arange(60) % 3
    np.savez(tmp_path / "some.npz", x=pictures[:50], y=labels[:50])
    np.savez(tmp_path / "held.npz", x=pictures[50:], y=labels[50:])
    task = RGB.__class__("any", (3, 8, 8), 3)
    source = load_data(f"npz:{tmp_path}/some.npz?test={tmp_path}/held.npz", task)
    assert torch.equal(source.parts[TEST].images, torch.from_numpy(pictures[50:]))
    assert len(source.parts[TRAIN]) + len(source.parts[VAL]) == 50
    np.savez(tmp_path / "both.npz", x=pictures, y=labels, x_test=pictures, y_test=labels)
    with pytest.raises(UsageError, match="has a test part already"):
        load_data(f"npz:{tmp_path}/both.npz?test={tmp_path}/held.npz", task)


def test_the_test_part_of_a_table_is_another_table(tmp_path):
    rows = make_log()
    path = write_csv(tmp_path / "log.csv", format_rows(rows[:200]))
    write_csv(tmp_path / "held.csv", format_rows(rows[200:]))
    source = open_table(path, f"?test={tmp_path}/held.csv")
    assert len(source.parts[TEST]) == 100
    # No row of the table itself is left out, and about a tenth is for validation.
    assert len(source.parts[TRAIN]) + len(source.parts[VAL]) == 200
    assert 10 <= len(source.parts[VAL]) <= 30
    assert "test rows from held.csv" in source.schema.split
    # The rows of the test part are encoded as those of the table were.
    both = open_table(write_csv(tmp_path / "both.csv", format_rows(rows)))
    assert source.parts[TEST].values.shape[1] == both.parts[TEST].values.shape[1]
    labels = [int(row[0]) for row in rows[200:]]
    assert source.parts[TEST].values[:, -1].astype(int).tolist() == labels
    assert source.schema.clicks[-1] == sum(labels)


def test_a_test_table_needs_the_same_columns(tmp_path):
    path = write_csv(tmp_path / "log.csv", format_rows(make_log()))
    (tmp_path / "held.csv").write_text("click,other\n1,2\n0,3\n")
    with pytest.raises(UsageError, match="needs the same columns"):
        open_table(path, f"?test={tmp_path}/held.csv")


@pytest.mark.parametrize(
    ("data", "test", "name"),
    [
        ("folder:./photos", None, "folder:./photos"),
        ("folder:./photos", "folder:./held", "folder:./photos?test=./held"),
        ("folder:./photos", "./held", "folder:./photos?test=./held"),
        ("csv:a.csv?label=y", "csv:b.csv", "csv:a.csv?label=y&test=b.csv"),
        ("csv:a.csv", "b&c.csv", "csv:a.csv?test=b%26c.csv"),
        ("npz:a.npz", "C:\\b.npz", "npz:a.npz?test=C%3A%5Cb.npz"),
    ],
)
def test_the_option_becomes_a_part_of_the_name(data, test, name):
    assert add_test(data, test) == name


@pytest.mark.parametrize(
    ("data", "test", "message"),
    [
        (None, "./held", "needs data of your own"),
        ("digits", "./held", "needs data of your own"),
        ("folder:./photos", "csv:held.csv", "of different kinds"),
        ("folder:./photos", "folder:", "names no path"),
    ],
)
def test_a_wrong_option_is_refused(data, test, message):
    with pytest.raises(UsageError, match=message):
        add_test(data, test)


def test_kinds_with_test_data_are_the_kinds_of_the_user():
    assert set(KINDS_WITH_TEST) == {kind for kind in SOURCES if SOURCES[kind].belongs_to_user}
    assert all(hasattr(table_sources, kind) for kind in TABLE_KINDS)

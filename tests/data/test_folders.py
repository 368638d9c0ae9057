"""Folders and lists of images: which files are read, how they are split, and the cache."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.pictures import (
    make_pixels,
    save_image,
    write_bad_files,
    write_good_images,
    write_odd_images,
)
from tests.data.tiny import RGB
from untrained.data import TEST, TRAIN, VAL, DataSource, find_data_root, load_data
from untrained.data.pictures import cache
from untrained.data.pictures.label_file import list_label_file
from untrained.data.pictures.listing import Listing, list_folder
from untrained.data.source import fingerprint_batch
from untrained.errors import UsageError
from untrained.progress import use_progress_callback
from untrained.types import Task

COUNTS = {"cats": 40, "dogs": 20, "eels": 4}


@pytest.fixture
def photos(tmp_path) -> Path:
    write_good_images(tmp_path / "photos", COUNTS)
    return tmp_path / "photos"


def open_folder(photos: Path, like: Task = RGB) -> DataSource:
    """Open a folder as data; the cache is in the folder `root` beside it."""
    return load_data(f"folder:{photos}", like, photos.parent / "root")


def list_names_by_part(listing: Listing) -> dict[str, set[str]]:
    """Return the names of the files of each part."""
    names: dict[str, set[str]] = {TRAIN: set(), VAL: set(), TEST: set()}
    for file in listing.files:
        names[file.part].add(file.name)
    return names


def test_a_folder_above_that_of_the_classes_is_noticed(photos):
    write_good_images(photos.parent / "photos" / "wolves", {"arctic": 2})
    # One subfolder is no list of classes.
    assert list_folder(photos).warning == ""
    parent = photos.parent / "parent"
    write_good_images(parent, {"new-pictures": 12})
    write_good_images(parent / "photos", {"cats": 12, "dogs": 12, "eels": 12})
    expected = (
        "photos contains 3 subfolders with pictures and no picture; did you mean "
        f"folder:{parent / 'photos'}?"
    )
    assert list_folder(parent).warning == expected
    card = load_data(f"folder:{parent}", RGB, photos.parent / "root").card
    assert card is not None
    assert f"warning: {expected}" in card().lines()
    # A picture in the folder of the class shows that the level is right.
    save_image(parent / "photos" / "1.png", make_pixels(1))
    assert list_folder(parent).warning == ""


def test_classes_and_pixels_of_a_folder_are_read(photos):
    source = open_folder(photos)
    assert source.task == Task("folder:photos", (3, 32, 32), 3)
    assert source.classes == ("cats", "dogs", "eels")
    names = [entry.name for entry in list_folder(photos).files]
    images = torch.cat([part.images for part in source.parts.values()])
    labels = torch.cat([part.labels for part in source.parts.values()])
    assert len(names) == len(images) == 64
    for name, image, label in zip(names, images, labels, strict=True):
        kind, number = name.removesuffix(".png").split("/")
        assert source.classes[int(label)] == kind
        assert np.array_equal(image.numpy(), make_pixels([*COUNTS].index(kind), int(number))), name


def test_numeric_class_names_are_sorted_by_number(tmp_path):
    write_good_images(tmp_path, {str(k): 1 for k in range(11)})
    assert list_folder(tmp_path).classes == tuple(map(str, range(11)))


def test_parts_are_stratified_disjoint_and_complete(photos):
    parts = list_names_by_part(list_folder(photos))
    counts = {part: Counter(name.split("/")[0] for name in names) for part, names in parts.items()}
    assert counts[VAL] == {"cats": 6, "dogs": 3, "eels": 1}  # 15 %: 6, 3, 0.6
    assert counts[TEST] == {"cats": 4, "dogs": 2, "eels": 1}  # 10 %: 4, 2, and at least one of four
    assert counts[TRAIN] == {"cats": 30, "dogs": 15, "eels": 2}
    assert sum(map(len, parts.values())) == len(set.union(*parts.values())) == 64
    first = sorted(name for name in set.union(*parts.values()) if name.startswith("cats/"))[:12]
    # The split is a hash of the name, not the alphabetical order.
    assert not set(first) <= parts[VAL] | parts[TEST]


def test_a_new_image_moves_few_of_its_own_class_and_none_of_another(photos):
    before = list_names_by_part(list_folder(photos))
    for k in range(3):
        save_image(photos / "cats" / f"new{k}.png", make_pixels(99, k))
    save_image(photos / "bees" / "0.png", make_pixels(98))  # also a new class, which comes first
    after = list_names_by_part(list_folder(photos))
    moved = {name for part in before for name in before[part] - after[part]}
    assert len(moved) <= 2 * 3
    assert all(name.startswith("cats/") for name in moved)


def test_the_split_does_not_depend_on_the_location_of_the_folder(photos, tmp_path):
    (tmp_path / "other").mkdir()
    moved = photos.rename(tmp_path / "other" / "pictures")
    before = list_names_by_part(list_folder(moved))
    write_good_images(tmp_path / "again", COUNTS)
    assert list_names_by_part(list_folder(tmp_path / "again")) == before


@pytest.mark.parametrize(
    ("folders", "sizes"),
    [
        (("train", "val", "test"), (10, 10, 10)),
        (("Train", "valid"), (8, 10, 2)),  # at least one of 5 per class
        (("training", "testing"), (8, 2, 10)),
        (("train",), (6, 2, 2)),
    ],
)
def test_folders_named_after_parts_are_these_parts(tmp_path, folders, sizes):
    for folder in folders:
        write_good_images(tmp_path / folder, {"cats": 5, "dogs": 5})
    listing = list_folder(tmp_path)
    assert listing.classes == ("cats", "dogs")
    assert tuple(map(len, list_names_by_part(listing).values())) == sizes
    assert all(name.lower().startswith("t") for name in list_names_by_part(listing)[TRAIN])


def test_files_beside_the_parts_are_listed_as_problems(tmp_path):
    for folder in ("train", "test"):
        write_good_images(tmp_path / folder, {"cats": 2, "dogs": 2})
    write_good_images(tmp_path / "test", {"eels": 1})
    write_good_images(tmp_path, {"extra": 1})
    save_image(tmp_path / "test" / "7.png", make_pixels(7))
    (tmp_path / "README.md").write_text("hello")
    assert dict(list_folder(tmp_path).problems) == {
        "README.md": "not used: it is not in a class folder",
        "extra": "not used: it is beside train, val and test",
        "test/7.png": "not used: it is not in a class folder",
        "test/eels/0.png": "not used: there is no class eels to learn from",
    }


def test_a_class_may_have_the_name_of_a_part(tmp_path):
    write_good_images(tmp_path, {"car": 5, "train": 5, "test": 5})
    save_image(tmp_path / "car" / "holidays" / "0.png", make_pixels(9))
    assert list_folder(tmp_path).classes == ("car", "test", "train")
    assert {name.split("/")[0] for name in list_names_by_part(list_folder(tmp_path))[TRAIN]} == {
        "car",
        "test",
        "train",
    }


def test_parts_without_classes_are_refused(tmp_path):
    write_good_images(tmp_path, {"train": 5, "val": 5, "test": 5})
    with pytest.raises(UsageError, match="has no classes to learn from; it needs two or more"):
        list_folder(tmp_path)


def test_a_folder_full_of_odd_and_broken_files_is_read(photos):
    bad = write_bad_files(photos / "dogs")
    odd = write_odd_images(photos / "cats")
    source = open_folder(photos)
    images = {name: part.images.numpy() for name, part in source.parts.items()}
    listing = list_folder(photos)
    unused = {name for name, reason in source.card().problems if "used, but" not in reason}
    for part, part_images in images.items():
        files = [file for file in listing.files if file.part == part]
        names = [file.name for file in files if file.name not in unused]
        assert len(names) == len(part_images)
        for name, image in zip(names, part_images, strict=True):
            expected = odd.get(name.removeprefix("cats/"))
            if expected is None:
                continue
            difference = np.abs(image.astype(int) - expected)
            if name.endswith(".jpg"):
                assert (difference > 8).mean() < 0.1, name
            else:
                assert difference.max() <= 1, name
    # All odd images but the link, and four bad files: two misnamed, whole.png and its twin.
    assert sum(map(len, images.values())) == 64 + len(odd) - 1 + 4
    assert dict(source.card().problems)["cats/linked.png"] == LINK_OUT
    assert len(bad) + len(odd) > 20


def test_scoring_samples_come_from_the_training_part(photos):
    source = open_folder(photos)
    batch = source.batch(47)  # all of the training part
    train = source.parts[TRAIN]
    training_images = {image.numpy().tobytes() for image in train.normalise(train.images)}
    assert {image.numpy().tobytes() for image in batch.inputs} == training_images
    assert torch.equal(source.batch(5, seed=2).inputs, source.batch(50, seed=2).inputs[:5])
    assert not torch.equal(source.batch(5, seed=2).inputs, source.batch(5, seed=3).inputs)
    assert abs(float(train.normalise(train.images).mean())) < 0.01
    assert float(train.normalise(train.images).std()) == pytest.approx(1, abs=0.01)


def test_networks_take_one_or_three_channels(photos):
    assert open_folder(photos, Task("any", (1, 16, 24), 7)).batch(2).inputs.shape == (2, 1, 16, 24)
    with pytest.raises(UsageError, match="pictures have 1 or 3 channels, not 4"):
        open_folder(photos, Task("any", (4, 32, 32), 7))


# --------------------------------------------------------------------------------------------------------------- links

LINK_OUT = "not used: a link out of the folder, which is not followed"


def test_links_out_of_the_folder_are_reported_and_not_followed(photos):
    outside = photos.parent / "outside"
    save_image(outside / "secret.png", make_pixels(50))
    (photos / "cats" / "everything").symlink_to("/")
    (photos / "cats" / "above").symlink_to("../..")
    (photos / "cats" / "secret.png").symlink_to(outside / "secret.png")
    (photos / "birds").symlink_to(outside)
    listing = list_folder(photos)
    names = ["birds", "cats/above", "cats/everything", "cats/secret.png"]
    assert sorted(listing.problems) == [(name, LINK_OUT) for name in names]
    assert len(listing.files) == 64
    assert set(open_folder(photos).card().problems) == {(name, LINK_OUT) for name in names}


def test_links_inside_the_folder_are_followed(photos):
    save_image(photos / "dogs" / "more" / "extra.png", make_pixels(51))
    (photos / "cats" / "of dogs").symlink_to("../dogs/more")
    (photos / "cats" / "again.png").symlink_to(photos / "cats" / "0.png")
    (photos / "puppies").symlink_to("dogs")
    names = {entry.name for entry in list_folder(photos).files}
    assert {"cats/of dogs/extra.png", "cats/again.png", "puppies/0.png"} <= names
    assert list_folder(photos).problems == ()


def test_the_folder_itself_may_be_a_link(photos):
    (photos.parent / "link").symlink_to(photos)
    listing = list_folder(photos.parent / "link")
    assert (len(listing.files), listing.problems) == (64, ())


def test_the_error_for_a_folder_of_links_gives_the_reason(tmp_path):
    write_good_images(tmp_path / "outside", {"cats": 5, "dogs": 5})
    (tmp_path / "photos").mkdir()
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).symlink_to(tmp_path / "outside" / name)
    with pytest.raises(
        UsageError, match=r"has no classes to learn from \(2 links out of the folder are"
    ):
        list_folder(tmp_path / "photos")


# -------------------------------------------------------------------------------------- CSV files that list images


def test_a_csv_file_lists_paths_labels_and_parts(photos):
    parts = [
        ("cats", "train"),
        ("cats", "train"),
        ("dogs", "Train"),
        ("cats", "validation"),
        ("dogs", "test"),
    ]
    rows = [f"photos/{kind}/{k}.png;{kind};{part}" for k, (kind, part) in enumerate(parts)]
    rows += [
        "photos/cats/0.png;dogs;train",
        "photos/none.png;cats;train",
        ";dogs;train",
        "photos/cats/5.png;;train",
    ]
    (photos.parent / "list.csv").write_text("\ufeffFile;Class;Split\n" + "\n".join(rows))
    source = load_data(f"images:{photos.parent}/list.csv", RGB, photos.parent / "root")
    assert source.task == Task("images:list.csv", (3, 32, 32), 2)
    assert np.array_equal(source.parts[VAL].images[0].numpy(), make_pixels(0, 3))
    assert np.array_equal(source.parts[TEST].images[0].numpy(), make_pixels(1, 4))
    assert source.parts[TRAIN].labels.tolist() == [0, 0, 1]
    assert dict(source.card().problems) == {
        "line 9": "not used: its path or its label is missing",
        "photos/cats/0.png": "listed before, so not used again",
        "photos/cats/5.png": "not used: its path or its label is missing",
        "photos/none.png": "there is no such file",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with ''; its first line must be path,label or path,label,split"),
        ("a.png,cat\nb.png,dog\n", "begins with 'a.png,cat'"),
        (
            "path,label,split\na.png,cat,train\nb.png,dog,dev\n",
            "line 3: the split is 'dev'; write train, val or test",
        ),
        ("path,label\na.png,cat\n", "has 1 class to learn from; it needs two or more"),
        ("path,label\n\xff", "is not a CSV file in UTF-8"),
    ],
)
def test_a_wrong_csv_file_is_refused(text, message, tmp_path):
    (tmp_path / "list.csv").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=message):
        list_label_file(tmp_path / "list.csv")


# ------------------------------------------------------------------------------------------------------ wrong requests


def test_wrong_requests_are_refused(tmp_path):
    for name, message in {
        "folder": "name the folder: folder:PATH, such as --data folder:./photos",
        "folder:none": "there is no folder none; give one with one subfolder per class",
        "images": "name the table: images:PATH.csv",
        "images:none.csv": "there is no file none.csv; give a CSV of paths and labels",
        f"folder:{tmp_path}": "has no classes to learn from; it needs two or more",
    }.items():
        with pytest.raises(UsageError, match=message):
            load_data(name, RGB, tmp_path)


@pytest.fixture
def locked(monkeypatch):
    """Return a set of paths that cannot be read. The tests may run as root, who can read all."""
    paths: set[Path] = set()

    def lock(function):
        def call(path, *args, **options):
            if Path(path) in paths:
                raise PermissionError(13, "Permission denied", str(path))
            return function(path, *args, **options)

        return call

    monkeypatch.setattr(os, "scandir", lock(os.scandir))
    monkeypatch.setattr(os, "listdir", lock(os.listdir))
    monkeypatch.setattr(Path, "read_text", lock(Path.read_text))
    return paths


def test_folders_and_files_without_permission_are_refused_in_one_line(photos, locked):
    table = photos / "some.csv"
    table.write_text("path,label\na.png,cat\nb.png,dog\n")
    messages = {
        photos / "dogs": (
            f"folder:{photos}",
            "the class dogs cannot be read: you have no permission",
        ),
        photos: (f"folder:{photos}", f"the folder {photos} cannot be read: you have no permission"),
        table: (f"images:{table}", f"{table} cannot be read: Permission denied"),
    }
    for path, (name, message) in messages.items():
        locked.clear()
        locked.add(path)
        with pytest.raises(UsageError) as error:
            load_data(name, RGB)
        assert str(error.value) == message


def test_a_class_without_images_is_refused(photos):
    (photos / "empty").mkdir()
    with pytest.raises(UsageError, match="the class empty has no files; put pictures into"):
        open_folder(photos)
    (photos / "empty" / "text.jpg").write_text("no picture")
    message = r"class empty of folder:photos has no readable picture to learn from \(empty/text.jpg: not an image\)"
    with pytest.raises(UsageError, match=message):
        open_folder(photos).batch(1)


# --------------------------------------------------------------------------------------------------------------- cache


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The names of all images that are decoded during the test."""
    names: list[str] = []
    decode_image = cache.decode_image

    def count_and_decode(open_file, name, shape):
        names.append(name)
        return decode_image(open_file, name, shape)

    monkeypatch.setattr(cache, "decode_image", count_and_decode)
    return names


def test_images_are_decoded_once_and_again_if_a_file_changes(photos, reads):
    first = open_folder(photos).batch(8)
    assert len(reads) == 64
    assert torch.equal(open_folder(photos).batch(8).inputs, first.inputs)
    assert len(reads) == 64
    open_folder(photos, Task("any", (3, 16, 16), 3)).batch(1)  # another size
    assert len(reads) == 128
    before = (photos / "cats" / "3.png").stat()
    changed = save_image(photos / "cats" / "3.png", make_pixels(77))
    # The changed file keeps its time and its size, since noise cannot be compressed.
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changed.stat().st_size == before.st_size
    images = torch.cat([part.images for part in open_folder(photos).parts.values()]).numpy()
    assert len(reads) == 192
    assert any(np.array_equal(image, make_pixels(77)) for image in images)
    save_image(photos / "cats" / "more.png", make_pixels(78))
    open_folder(photos).batch(1)
    assert len(reads) == 192 + 65


def test_decoding_reports_its_progress(photos):
    events: list[tuple[int, int]] = []
    with use_progress_callback(lambda event: events.append((event.done, event.total))):
        open_folder(photos).batch(1)
        open_folder(photos).batch(1)
    assert events == [(k, 64) for k in range(1, 65)]
    open_folder(photos, Task("any", (3, 8, 8), 3)).batch(1)
    assert len(events) == 64


def test_a_damaged_cache_is_written_again(photos, reads):
    first = open_folder(photos).batch(8)
    folder = find_data_root(photos.parent / "root") / "cache" / "pictures"
    for ending, content in {"npy": b"nonsense", "json": b"{"}.items():
        (file,) = folder.glob(f"*.{ending}")
        file.write_bytes(content)
        assert torch.equal(open_folder(photos).batch(8).inputs, first.inputs)
    assert len(reads) == 3 * 64
    assert {file.suffix for file in folder.iterdir()} == {".npy", ".json"}  # no temporary files


def test_writing_into_images_does_not_change_the_cache(photos):
    images = open_folder(photos).parts[TRAIN].images
    images.zero_()
    assert open_folder(photos).parts[TRAIN].images.any()


def test_an_unusable_data_root_is_refused(photos):
    (photos.parent / "root").write_text("a file")
    with pytest.raises(
        UsageError,
        match=r"the cache of pictures .* cannot be written: .*; name another --data-root",
    ):
        open_folder(photos).batch(1)


def test_too_little_disk_space_is_reported_before_any_image_is_decoded(photos, reads, monkeypatch):
    monkeypatch.setattr(cache, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(
        UsageError,
        match=r"needs 197 kB, but only 1.00 kB are free in .*; choose a smaller --input-size",
    ):
        open_folder(photos).batch(1)
    assert not reads


READ = """
import sys
from untrained.data import load_data
from untrained.data.source import fingerprint_batch
from untrained.types import Task
source = load_data(sys.argv[1], Task("any", (3, 32, 32), 7), sys.argv[2])
print(fingerprint_batch(source.batch(30)))
"""


def test_two_processes_can_fill_the_cache_at_the_same_time(photos):
    command = [sys.executable, "-c", READ, f"folder:{photos}", str(photos.parent / "root")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert {f"{fingerprint_batch(open_folder(photos).batch(30))}\n"} == set(outputs)
    assert len(list((photos.parent / "root" / "cache" / "pictures").iterdir())) == 2

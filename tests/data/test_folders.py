"""Folders and tables of pictures: what is read, into which part it goes, and that the cache is true."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.pictures import pixels, save, write_bad, write_good, write_odd
from tests.data.tiny import RGB
from untrained.data import TEST, TRAIN, VAL, DataSource, find_data_root, load_data
from untrained.data.pictures import cache
from untrained.data.pictures.listing import Listing, list_csv, list_folder
from untrained.data.source import fingerprint_batch
from untrained.errors import UsageError
from untrained.progress import use_progress_callback
from untrained.types import Task

COUNTS = {"cats": 40, "dogs": 20, "eels": 4}


@pytest.fixture
def photos(tmp_path) -> Path:
    write_good(tmp_path / "photos", COUNTS)
    return tmp_path / "photos"


def opened(photos: Path, like: Task = RGB) -> DataSource:
    return load_data(f"folder:{photos}", like, photos.parent / "root")


def split(listing: Listing) -> dict[str, set[str]]:
    return {part: {e.name for e in listing.files if e.part == part} for part in (TRAIN, VAL, TEST)}


def test_a_folder_is_its_classes_and_pixels(photos):
    source = opened(photos)
    assert source.task == Task("folder:photos", (3, 32, 32), 3)
    assert source.classes == ("cats", "dogs", "eels")
    names = [entry.name for entry in list_folder(photos).files]
    images = torch.cat([part.images for part in source.parts.values()])
    labels = torch.cat([part.labels for part in source.parts.values()])
    assert len(names) == len(images) == 64
    for name, image, label in zip(names, images, labels, strict=True):
        kind, number = name.removesuffix(".png").split("/")
        assert source.classes[int(label)] == kind
        assert np.array_equal(image.numpy(), pixels([*COUNTS].index(kind), int(number))), name


def test_classes_that_are_numbers_come_in_their_order(tmp_path):
    write_good(tmp_path, {str(k): 1 for k in range(11)})
    assert list_folder(tmp_path).classes == tuple(map(str, range(11)))


def test_parts_are_stratified_disjoint_and_complete(photos):
    parts = split(list_folder(photos))
    counts = {part: Counter(name.split("/")[0] for name in names) for part, names in parts.items()}
    assert counts[VAL] == counts[TEST] == {"cats": 6, "dogs": 3, "eels": 1}  # 15 %: 6, 3, 0.6
    assert counts[TRAIN] == {"cats": 28, "dogs": 14, "eels": 2}
    assert sum(map(len, parts.values())) == len(set.union(*parts.values())) == 64
    first = sorted(name for name in set.union(*parts.values()) if name.startswith("cats/"))[:12]
    assert (
        not set(first) <= parts[VAL] | parts[TEST]
    )  # names decide by chance, not by their alphabet


def test_a_new_picture_moves_none_of_another_class_and_hardly_any_of_its_own(photos):
    before = split(list_folder(photos))
    for k in range(3):
        save(photos / "cats" / f"new{k}.png", pixels(99, k))
    save(photos / "bees" / "0.png", pixels(98))  # also a new class, which comes first
    after = split(list_folder(photos))
    moved = {name for part in before for name in before[part] - after[part]}
    assert len(moved) <= 2 * 3
    assert all(name.startswith("cats/") for name in moved)


def test_the_split_does_not_depend_on_where_the_folder_lies(photos, tmp_path):
    (tmp_path / "other").mkdir()
    moved = photos.rename(tmp_path / "other" / "pictures")
    before = split(list_folder(moved))
    write_good(tmp_path / "again", COUNTS)
    assert split(list_folder(tmp_path / "again")) == before


@pytest.mark.parametrize(
    ("folders", "sizes"),
    [
        (("train", "val", "test"), (10, 10, 10)),
        (("Train", "valid"), (8, 10, 2)),  # 15 % of 5 a class is 0.75
        (("training", "testing"), (10, 0, 10)),  # 10 % of 5 is 0.5, and halves are rounded to even
        (("train",), (6, 2, 2)),
    ],
)
def test_parts_that_are_folders_are_kept(tmp_path, folders, sizes):
    for folder in folders:
        write_good(tmp_path / folder, {"cats": 5, "dogs": 5})
    listing = list_folder(tmp_path)
    assert listing.classes == ("cats", "dogs")
    assert tuple(map(len, split(listing).values())) == sizes
    assert all(name.lower().startswith("t") for name in split(listing)[TRAIN])


def test_what_lies_beside_the_parts_is_listed(tmp_path):
    for folder in ("train", "test"):
        write_good(tmp_path / folder, {"cats": 2, "dogs": 2})
    write_good(tmp_path / "test", {"eels": 1})
    write_good(tmp_path, {"extra": 1})
    save(tmp_path / "test" / "7.png", pixels(7))
    (tmp_path / "README.md").write_text("hello")
    assert dict(list_folder(tmp_path).problems) == {
        "README.md": "not used: it is in no folder of a class",
        "extra": "not used: it is beside train, val and test",
        "test/7.png": "not used: it is in no folder of a class",
        "test/eels/0.png": "not used: there is no class eels to learn from",
    }


def test_a_class_may_be_called_like_a_part(tmp_path):
    write_good(tmp_path, {"car": 5, "train": 5, "test": 5})
    save(tmp_path / "car" / "holidays" / "0.png", pixels(9))
    assert list_folder(tmp_path).classes == ("car", "test", "train")
    assert {name.split("/")[0] for name in split(list_folder(tmp_path))[TRAIN]} == {
        "car",
        "test",
        "train",
    }


def test_parts_without_classes_are_no_classes(tmp_path):
    write_good(tmp_path, {"train": 5, "val": 5, "test": 5})
    with pytest.raises(UsageError, match="has no classes to learn from; it needs two or more"):
        list_folder(tmp_path)


def test_a_folder_full_of_odd_and_broken_files_is_read(photos):
    bad, odd = write_bad(photos / "dogs"), write_odd(photos / "cats")
    source = opened(photos)
    images = {part: found.images.numpy() for part, found in source.parts.items()}
    listing = list_folder(photos)
    lost = {name for name, why in source.card().problems if "used, but" not in why}
    for part, found in images.items():
        names = [e.name for e in listing.files if e.part == part and e.name not in lost]
        assert len(names) == len(found)
        for name, image in zip(names, found, strict=True):
            if (expected := odd.get(name.removeprefix("cats/"))) is not None:
                off = np.abs(image.astype(int) - expected)
                assert (off > 8).mean() < 0.1 if name.endswith(".jpg") else off.max() <= 1, name
    assert (
        sum(map(len, images.values())) == 64 + len(odd) - 1 + 4
    )  # two misnamed, whole.png and its twin
    assert dict(source.card().problems)["cats/linked.png"] == LINK_OUT
    assert len(bad) + len(odd) > 20


def test_samples_to_look_at_are_of_the_part_to_learn_from(photos):
    source = opened(photos)
    batch, train = source.batch(44), source.parts[TRAIN]
    known = {image.numpy().tobytes() for image in train.normalise(train.images)}
    assert {image.numpy().tobytes() for image in batch.inputs} == known
    assert torch.equal(source.batch(5, seed=2).inputs, source.batch(50, seed=2).inputs[:5])
    assert not torch.equal(source.batch(5, seed=2).inputs, source.batch(5, seed=3).inputs)
    assert abs(float(train.normalise(train.images).mean())) < 0.01
    assert float(train.normalise(train.images).std()) == pytest.approx(1, abs=0.01)


def test_grey_networks_see_grey_and_others_are_refused(photos):
    assert opened(photos, Task("any", (1, 16, 24), 7)).batch(2).inputs.shape == (2, 1, 16, 24)
    with pytest.raises(UsageError, match="pictures have 1 or 3 channels, not 4"):
        opened(photos, Task("any", (4, 32, 32), 7))


# --------------------------------------------------------------------------------------------------------------- links

LINK_OUT = "not used: a link out of the folder, which is not followed"


def test_links_out_of_the_folder_are_left_out_and_told(photos):
    outside = photos.parent / "outside"
    save(outside / "secret.png", pixels(50))
    (photos / "cats" / "everything").symlink_to("/")
    (photos / "cats" / "above").symlink_to("../..")
    (photos / "cats" / "secret.png").symlink_to(outside / "secret.png")
    (photos / "birds").symlink_to(outside)
    listing = list_folder(photos)
    names = ["birds", "cats/above", "cats/everything", "cats/secret.png"]
    assert sorted(listing.problems) == [(name, LINK_OUT) for name in names]
    assert len(listing.files) == 64
    assert set(opened(photos).card().problems) == {(name, LINK_OUT) for name in names}


def test_links_that_stay_in_the_folder_are_followed(photos):
    save(photos / "dogs" / "more" / "extra.png", pixels(51))
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


def test_a_folder_of_links_says_why_it_has_no_classes(tmp_path):
    write_good(tmp_path / "outside", {"cats": 5, "dogs": 5})
    (tmp_path / "photos").mkdir()
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).symlink_to(tmp_path / "outside" / name)
    with pytest.raises(
        UsageError, match=r"has no classes to learn from \(2 links out of the folder are"
    ):
        list_folder(tmp_path / "photos")


# -------------------------------------------------------------------------------------------------------------- tables


def test_a_table_says_where_pictures_are_and_what(photos):
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
    assert np.array_equal(source.parts[VAL].images[0].numpy(), pixels(0, 3))
    assert np.array_equal(source.parts[TEST].images[0].numpy(), pixels(1, 4))
    assert source.parts[TRAIN].labels.tolist() == [0, 0, 1]
    assert dict(source.card().problems) == {
        "line 9": "not used: its path or its label is missing",
        "photos/cats/0.png": "listed before, so not used again",
        "photos/cats/5.png": "not used: its path or its label is missing",
        "photos/none.png": "there is no such file",
    }


@pytest.mark.parametrize(
    ("text", "says"),
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
def test_a_wrong_table_says_what_is_wanted(text, says, tmp_path):
    (tmp_path / "list.csv").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=says):
        list_csv(tmp_path / "list.csv")


# ------------------------------------------------------------------------------------------------------ wrong requests


def test_wrong_requests_say_what_to_type(tmp_path):
    for name, says in {
        "folder": "say which folder: folder:PATH, such as --data folder:./photos",
        "folder:none": "there is no folder none; give one with one subfolder per class",
        "images": "say which table: images:PATH.csv",
        "images:none.csv": "there is no file none.csv; give a CSV of paths and labels",
        f"folder:{tmp_path}": "has no classes to learn from; it needs two or more",
    }.items():
        with pytest.raises(UsageError, match=says):
            load_data(name, RGB, tmp_path)


def test_a_class_without_pictures_is_refused(photos):
    (photos / "empty").mkdir()
    with pytest.raises(UsageError, match="the class empty has no files; put pictures into"):
        opened(photos)
    (photos / "empty" / "text.jpg").write_text("no picture")
    says = r"class empty of folder:photos has no readable picture to learn from \(empty/text.jpg: not an image\)"
    with pytest.raises(UsageError, match=says):
        opened(photos).batch(1)


# --------------------------------------------------------------------------------------------------------------- cache


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The names of all pictures that are decoded from now on."""
    names: list[str] = []
    real = cache.decode_image
    monkeypatch.setattr(
        cache,
        "decode_image",
        lambda opened, name, shape: (names.append(name), real(opened, name, shape))[1],
    )
    return names


def test_pictures_are_read_once_and_anew_when_a_file_changes(photos, reads):
    first = opened(photos).batch(8)
    assert len(reads) == 64
    assert torch.equal(opened(photos).batch(8).inputs, first.inputs)
    assert len(reads) == 64
    opened(photos, Task("any", (3, 16, 16), 3)).batch(1)  # another size
    assert len(reads) == 128
    before = (photos / "cats" / "3.png").stat()
    changed = save(photos / "cats" / "3.png", pixels(77))
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))  # it looks as old as it was
    assert changed.stat().st_size == before.st_size  # and as large: noise cannot be packed
    images = torch.cat([part.images for part in opened(photos).parts.values()]).numpy()
    assert len(reads) == 192
    assert any(np.array_equal(image, pixels(77)) for image in images)
    save(photos / "cats" / "more.png", pixels(78))
    opened(photos).batch(1)
    assert len(reads) == 192 + 65


def test_progress_is_told(photos):
    told: list[tuple[int, int]] = []
    with use_progress_callback(lambda at: told.append((at.done, at.total))):
        opened(photos).batch(1)
        opened(photos).batch(1)
    assert told == [(k, 64) for k in range(1, 65)]
    opened(photos, Task("any", (3, 8, 8), 3)).batch(1)
    assert len(told) == 64


def test_a_damaged_cache_is_made_anew(photos, reads):
    first = opened(photos).batch(8)
    folder = find_data_root(photos.parent / "root") / "cache" / "pictures"
    for ending, content in {"npy": b"nonsense", "json": b"{"}.items():
        (file,) = folder.glob(f"*.{ending}")
        file.write_bytes(content)
        assert torch.equal(opened(photos).batch(8).inputs, first.inputs)
    assert len(reads) == 3 * 64
    assert {file.suffix for file in folder.iterdir()} == {".npy", ".json"}  # no parts are left


def test_pictures_in_the_cache_are_not_changed_by_whoever_writes_on_them(photos):
    images = opened(photos).parts[TRAIN].images
    images.zero_()
    assert opened(photos).parts[TRAIN].images.any()


def test_a_root_that_cannot_be_used_is_named(photos):
    (photos.parent / "root").write_text("a file")
    with pytest.raises(UsageError, match=r"pictures are kept in .*; name another --data-root"):
        opened(photos).batch(1)


def test_too_little_room_is_said_before_anything_is_read(photos, reads, monkeypatch):
    monkeypatch.setattr(cache, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(
        UsageError, match=r"takes 197 kB, and .* has 1.00 kB; choose a smaller --input-size"
    ):
        opened(photos).batch(1)
    assert not reads


READ = """
import sys
from untrained.data import load_data
from untrained.data.source import fingerprint_batch
from untrained.types import Task
source = load_data(sys.argv[1], Task("any", (3, 32, 32), 7), sys.argv[2])
print(fingerprint_batch(source.batch(30)))
"""


def test_two_processes_at_once_do_no_harm(photos):
    command = [sys.executable, "-c", READ, f"folder:{photos}", str(photos.parent / "root")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert {f"{fingerprint_batch(opened(photos).batch(30))}\n"} == set(said)
    assert len(list((photos.parent / "root" / "cache" / "pictures").iterdir())) == 2

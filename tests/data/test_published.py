"""CIFAR, MNIST and Fashion-MNIST in the formats of their publishers, with their test parts."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import find_shared
from tests.data.tiny import RGB, make_cifar_images, write_binary, write_python
from untrained.data import TEST, TRAIN, VAL, load_data
from untrained.errors import UsageError
from untrained.types import Task

GREY = Task("any", (1, 28, 28), 7)


def make_planes(count: int, seed: int) -> np.ndarray:
    """Return random images in the format of CIFAR: rows of 3,072 bytes."""
    return np.random.default_rng(seed).integers(256, size=(count, 3072), dtype=np.uint8)


# --------------------------------------------------------------------------------------------------------------- CIFAR


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_the_test_part_of_cifar10_is_the_published_one(write, tmp_path):
    write(tmp_path)
    source = load_data("cifar10", RGB, tmp_path)
    assert source.classes[3] == "cat"
    before = source.batch(4)
    with pytest.raises(
        UsageError, match=r"CIFAR-10 is not under .*cifar-10-batches-bin/test_batch\.bin and for"
    ):
        _ = source.parts
    pixels = make_planes(3, 1)
    if write is write_binary:
        content = b"".join(
            bytes([label]) + row.tobytes() for label, row in zip((7, 0, 9), pixels, strict=True)
        )
        (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(content)
    else:
        content = pickle.dumps({b"data": pixels, b"labels": [7, 0, 9]}, protocol=2)
        (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    source = load_data("cifar10", RGB, tmp_path)
    # Samples for scoring do not depend on the test part.
    assert torch.equal(source.batch(4).inputs, before.inputs)
    assert source.parts[TEST].labels.tolist() == [7, 0, 9]
    assert np.array_equal(
        source.parts[TEST].images.numpy(), pixels.reshape(3, 3, 32, 32).transpose(0, 2, 3, 1)
    )
    learned = torch.cat([source.parts[TRAIN].images, source.parts[VAL].images])
    assert sorted(learned.permute(0, 3, 1, 2).sum((1, 2, 3)).tolist()) == sorted(
        make_cifar_images().sum((1, 2, 3)).tolist()
    )


def write_cifar100(root: Path, form: str) -> tuple[np.ndarray, list[int]]:
    """Write twenty training and five test images with coarse and fine labels.

    Returns:
        All images and their fine labels.
    """
    folder = root / f"cifar-100-{form}"
    folder.mkdir(parents=True)
    fine = [(37 * k) % 100 for k in range(25)]
    coarse = [k % 20 for k in range(25)]
    pixels = make_planes(25, 2)
    for name, rows in (("train", range(20)), ("test", range(20, 25))):
        if form == "binary":
            content = b"".join(bytes([coarse[k], fine[k]]) + pixels[k].tobytes() for k in rows)
            (folder / f"{name}.bin").write_bytes(content)
        else:
            batch = {
                b"data": pixels[rows.start : rows.stop],
                b"fine_labels": [fine[k] for k in rows],
            }
            batch[b"coarse_labels"] = [coarse[k] for k in rows]
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return pixels.reshape(25, 3, 32, 32).transpose(0, 2, 3, 1), fine


@pytest.mark.parametrize("form", ["binary", "python"])
def test_cifar100_reads_the_publishers_files(form, tmp_path):
    images, fine = write_cifar100(tmp_path, form)
    source = load_data("cifar100", RGB, tmp_path)
    assert source.task == Task("cifar100", (3, 32, 32), 100)
    by_label = dict(zip(fine, images, strict=True))
    train = source.parts[TRAIN]
    test = source.parts[TEST]
    assert (len(train), len(source.parts[VAL]), test.labels.tolist()) == (20, 0, fine[20:])
    for part in (train, test):
        for image, label in zip(part.images, part.labels, strict=True):
            assert np.array_equal(image.numpy(), by_label[int(label)])
    assert train.mean.tolist() == pytest.approx([0.5071, 0.4865, 0.4409])


def test_cifar100_has_the_published_class_names(tmp_path):
    write_cifar100(tmp_path, "binary")
    with np.load(find_shared("data", "cifar100_partial", "cifar100_first_images.npz")) as archive:
        assert load_data("cifar100", RGB, tmp_path).classes == tuple(archive["fine_names"].tolist())


def test_the_error_for_missing_cifar100_names_the_files(tmp_path):
    with pytest.raises(
        UsageError, match=r"for cifar-100-binary/train\.bin and for cifar-100-python/train\. Unpack"
    ):
        load_data("cifar100", RGB, tmp_path)


# --------------------------------------------------------------------------------------------------------------- MNIST


def encode_idx(array: np.ndarray) -> bytes:
    """Return the content of an IDX file."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder: Path, packed: bool = False) -> dict[str, np.ndarray]:
    """Write forty training images, four per class, and five test images."""
    rng = np.random.default_rng(0)
    arrays = {
        "train-images-idx3-ubyte": rng.integers(256, size=(40, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": (np.arange(40) % 10).astype(np.uint8),
        "t10k-images-idx3-ubyte": rng.integers(256, size=(5, 28, 28), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": np.array([3, 1, 4, 1, 5], np.uint8),
    }
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(encode_idx(array)))
        else:
            (folder / name).write_bytes(encode_idx(array))
    return arrays


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_idx_files_are_read_with_and_without_gzip(name, packed, tmp_path):
    arrays = write_idx(tmp_path / name, packed)
    source = load_data(name, GREY, tmp_path)
    assert (source.task, len(source.classes)) == (Task(name, (1, 28, 28), 10), 10)
    test = source.parts[TEST]
    assert np.array_equal(test.images[..., 0].numpy(), arrays["t10k-images-idx3-ubyte"])
    assert test.labels.tolist() == [3, 1, 4, 1, 5]
    train = source.parts[TRAIN]
    val = source.parts[VAL]
    assert (len(train), len(val)) == (30, 10)  # one of four images per class
    images = torch.cat([train.images, val.images])[..., 0].numpy()
    expected = sorted(image.tobytes() for image in arrays["train-images-idx3-ubyte"])
    assert sorted(image.tobytes() for image in images) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "train-images-idx3-ubyte",
            b"",
            "is not an IDX file of bytes with 3 axes, or it is cut off",
        ),
        (
            "train-images-idx3-ubyte",
            encode_idx(np.zeros((40, 28, 28), np.uint8))[:-1],
            "or it is cut off",
        ),
        (
            "t10k-labels-idx1-ubyte",
            encode_idx(np.zeros((5, 1), np.uint8)),
            "is not an IDX file of bytes with 1 axes",
        ),
        (
            "t10k-labels-idx1-ubyte",
            encode_idx(np.zeros(6, np.uint8)),
            "has 5 images and t10k-labels-idx1-ubyte 6 labels",
        ),
    ],
)
def test_a_damaged_idx_file_is_named(name, content, message, tmp_path):
    write_idx(tmp_path / "mnist")
    (tmp_path / "mnist" / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        load_data("mnist", GREY, tmp_path)


def test_a_damaged_gzip_file_is_named(tmp_path):
    write_idx(tmp_path / "mnist", packed=True)
    file = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(UsageError, match=r"train-images-idx3-ubyte\.gz is damaged"):
        load_data("mnist", GREY, tmp_path)


def test_an_idx_file_without_permission_is_named(tmp_path, monkeypatch):
    """The reader is replaced, because the tests may run as root, who can read all files."""

    def refuse(file):
        raise PermissionError(13, "Permission denied", str(file))

    write_idx(tmp_path / "mnist")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    message = r"train-images-idx3-ubyte cannot be read: you have no permission$"
    with pytest.raises(UsageError, match=message):
        load_data("mnist", GREY, tmp_path)


def test_the_error_for_missing_mnist_names_the_files(tmp_path):
    with pytest.raises(
        UsageError,
        match=r"mnist is not in .*t10k-labels-idx1-ubyte, each also with \.gz, and for an",
    ):
        load_data("mnist", GREY, tmp_path)


@pytest.mark.parametrize(
    ("name", "file"), [("mnist", "mnist.npz"), ("fashion_mnist", "fashion_mnist_10k_2k.npz")]
)
def test_real_data_sets_are_read_from_archives_of_numpy(name, file):
    """Parts, labels, mean and deviation equal those of the archive."""
    with np.load(find_shared("data", name, file)) as archive:
        y = archive["y_test"]
        x = archive["x_train"]
    source = load_data(name, GREY, find_shared("data"))
    assert source.parts[TEST].labels.tolist() == y.tolist()
    assert len(source.parts[TRAIN]) + len(source.parts[VAL]) == len(x)
    assert len(source.parts[VAL]) == pytest.approx(0.1 * len(x), abs=5)
    assert float(source.parts[TRAIN].mean) == pytest.approx(float(x.mean()) / 255, abs=2e-3)
    assert float(source.parts[TRAIN].std) == pytest.approx(float(x.std()) / 255, abs=2e-3)


# ----------------------------------------------------------------------------------------------------------------- npz


def test_an_archive_of_numpy_may_contain_its_own_parts(tmp_path):
    def make_images(count: int, value: int) -> np.ndarray:
        return np.full((count, 4, 4), value, np.uint8)

    arrays = {
        "x_train": make_images(20, 1),
        "y_train": np.arange(20) % 2,
        "x_val": make_images(3, 2),
        "y_val": np.zeros(3, int),
    }
    np.savez(tmp_path / "a.npz", **arrays, x_test=make_images(2, 3), y_test=np.array([1, 2]))
    source = load_data(f"npz:{tmp_path}/a.npz", GREY)
    assert source.task.num_classes == 3
    assert {name: len(part) for name, part in source.parts.items()} == {TRAIN: 20, VAL: 3, TEST: 2}
    assert [int(part.images.max()) for part in source.parts.values()] == [1, 2, 3]
    np.savez(tmp_path / "b.npz", **arrays)
    parts = load_data(f"npz:{tmp_path}/b.npz", GREY).parts
    # Without a test part, 10 % of the ten training images per class become it.
    assert {name: len(part) for name, part in parts.items()} == {
        TRAIN: 18,
        VAL: 3,
        TEST: 2,
    }
    np.savez(tmp_path / "c.npz", **arrays, x_test=make_images(2, 3), y_test=np.array([1]))
    with pytest.raises(
        UsageError, match=r"y_test is int64 \(1,\); expected 2 non-negative integers"
    ):
        load_data(f"npz:{tmp_path}/c.npz", GREY)

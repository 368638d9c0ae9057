"""Data sets as their publishers pack them: CIFAR's test images and hundred classes, MNIST and Fashion-MNIST."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import shared
from tests.data.tiny import RGB, cifar_images, write_binary, write_python
from untrained.data import TEST, TRAIN, VAL, load_data
from untrained.errors import UsageError
from untrained.types import Task

GREY = Task("any", (1, 28, 28), 7)


def planes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(count, 3072), dtype=np.uint8)


# --------------------------------------------------------------------------------------------------------------- CIFAR


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_cifar10_is_judged_on_its_publishers_test_images(write, tmp_path):
    write(tmp_path)
    source = load_data("cifar10", RGB, tmp_path)
    assert source.classes[3] == "cat"
    before = source.batch(4)
    with pytest.raises(
        UsageError, match=r"CIFAR-10 is not under .*cifar-10-batches-bin/test_batch\.bin and for"
    ):
        _ = source.parts
    pixels = planes(3, 1)
    if write is write_binary:
        content = b"".join(
            bytes([label]) + row.tobytes() for label, row in zip((7, 0, 9), pixels, strict=True)
        )
        (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(content)
    else:
        content = pickle.dumps({b"data": pixels, b"labels": [7, 0, 9]}, protocol=2)
        (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    source = load_data("cifar10", RGB, tmp_path)
    assert torch.equal(
        source.batch(4).inputs, before.inputs
    )  # samples to look at do not depend on the test
    assert source.parts[TEST].labels.tolist() == [7, 0, 9]
    assert np.array_equal(
        source.parts[TEST].images.numpy(), pixels.reshape(3, 3, 32, 32).transpose(0, 2, 3, 1)
    )
    learned = torch.cat([source.parts[TRAIN].images, source.parts[VAL].images])
    assert sorted(learned.permute(0, 3, 1, 2).sum((1, 2, 3)).tolist()) == sorted(
        cifar_images().sum((1, 2, 3)).tolist()
    )


def write_cifar100(root: Path, form: str) -> tuple[np.ndarray, list[int]]:
    """Twenty training and five test images; the publisher's coarse classes lie beside the fine ones."""
    folder = root / f"cifar-100-{form}"
    folder.mkdir(parents=True)
    fine, coarse = [(37 * k) % 100 for k in range(25)], [k % 20 for k in range(25)]
    pixels = planes(25, 2)
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
    train, test = source.parts[TRAIN], source.parts[TEST]
    assert (len(train), len(source.parts[VAL]), test.labels.tolist()) == (20, 0, fine[20:])
    for part in (train, test):
        assert all(
            np.array_equal(i.numpy(), by_label[int(y)])
            for i, y in zip(part.images, part.labels, strict=True)
        )
    assert train.mean.tolist() == pytest.approx([0.5071, 0.4865, 0.4409])


def test_the_classes_of_cifar100_are_the_publishers(tmp_path):
    write_cifar100(tmp_path, "binary")
    with np.load(shared("data", "cifar100_partial", "cifar100_first_images.npz")) as archive:
        assert load_data("cifar100", RGB, tmp_path).classes == tuple(archive["fine_names"].tolist())


def test_missing_cifar100_says_which_files_are_wanted(tmp_path):
    with pytest.raises(
        UsageError, match=r"for cifar-100-binary/train\.bin and for cifar-100-python/train\. Unpack"
    ):
        load_data("cifar100", RGB, tmp_path)


# --------------------------------------------------------------------------------------------------------------- MNIST


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder: Path, packed: bool = False) -> dict[str, np.ndarray]:
    """Forty images to learn from, four of each class, and five to be judged on."""
    rng = np.random.default_rng(0)
    arrays = {
        "train-images-idx3-ubyte": rng.integers(256, size=(40, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": (np.arange(40) % 10).astype(np.uint8),
        "t10k-images-idx3-ubyte": rng.integers(256, size=(5, 28, 28), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": np.array([3, 1, 4, 1, 5], np.uint8),
    }
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        (folder / (f"{name}.gz" if packed else name)).write_bytes(
            gzip.compress(idx(array)) if packed else idx(array)
        )
    return arrays


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_four_files_are_read_packed_or_not(name, packed, tmp_path):
    arrays = write_idx(tmp_path / name, packed)
    source = load_data(name, GREY, tmp_path)
    assert (source.task, len(source.classes)) == (Task(name, (1, 28, 28), 10), 10)
    test = source.parts[TEST]
    assert np.array_equal(test.images[..., 0].numpy(), arrays["t10k-images-idx3-ubyte"])
    assert test.labels.tolist() == [3, 1, 4, 1, 5]
    assert (len(source.parts[TRAIN]), len(source.parts[VAL])) == (40, 0)  # 10 % of four
    assert np.array_equal(
        source.parts[TRAIN].images[..., 0].numpy(), arrays["train-images-idx3-ubyte"]
    )


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("train-images-idx3-ubyte", b"", "is no IDX file of bytes with 3 axes, or it is cut off"),
        ("train-images-idx3-ubyte", idx(np.zeros((40, 28, 28), np.uint8))[:-1], "or it is cut off"),
        (
            "t10k-labels-idx1-ubyte",
            idx(np.zeros((5, 1), np.uint8)),
            "is no IDX file of bytes with 1 axes",
        ),
        (
            "t10k-labels-idx1-ubyte",
            idx(np.zeros(6, np.uint8)),
            "has 5 images and t10k-labels-idx1-ubyte 6 labels",
        ),
    ],
)
def test_damaged_files_are_named(name, content, says, tmp_path):
    write_idx(tmp_path / "mnist")
    (tmp_path / "mnist" / name).write_bytes(content)
    with pytest.raises(UsageError, match=says):
        load_data("mnist", GREY, tmp_path)


def test_a_damaged_packed_file_is_named(tmp_path):
    write_idx(tmp_path / "mnist", packed=True)
    file = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(UsageError, match=r"train-images-idx3-ubyte\.gz is damaged"):
        load_data("mnist", GREY, tmp_path)


def test_missing_files_say_which_and_where(tmp_path):
    with pytest.raises(
        UsageError,
        match=r"mnist is not in .*t10k-labels-idx1-ubyte, each also with \.gz, and for an",
    ):
        load_data("mnist", GREY, tmp_path)


@pytest.mark.parametrize(
    ("name", "file"), [("mnist", "mnist.npz"), ("fashion_mnist", "fashion_mnist_10k_2k.npz")]
)
def test_the_real_ones_as_archives(name, file):
    """Their mean and deviation are the published ones, which shows that they are what they say."""
    with np.load(shared("data", name, file)) as archive:
        y, x = archive["y_test"], archive["x_train"]
    source = load_data(name, GREY, shared("data"))
    assert source.parts[TEST].labels.tolist() == y.tolist()
    assert len(source.parts[TRAIN]) + len(source.parts[VAL]) == len(x)
    assert len(source.parts[VAL]) == pytest.approx(0.1 * len(x), abs=5)
    assert float(source.parts[TRAIN].mean) == pytest.approx(float(x.mean()) / 255, abs=2e-3)
    assert float(source.parts[TRAIN].std) == pytest.approx(float(x.std()) / 255, abs=2e-3)


# ----------------------------------------------------------------------------------------------------------------- npz


def test_an_archive_may_keep_parts_apart(tmp_path):
    def images(count: int, value: int) -> np.ndarray:
        return np.full((count, 4, 4), value, np.uint8)

    arrays = {
        "x_train": images(20, 1),
        "y_train": np.arange(20) % 2,
        "x_val": images(3, 2),
        "y_val": np.zeros(3, int),
    }
    np.savez(tmp_path / "a.npz", **arrays, x_test=images(2, 3), y_test=np.array([1, 2]))
    source = load_data(f"npz:{tmp_path}/a.npz", GREY)
    assert source.task.num_classes == 3
    assert {name: len(part) for name, part in source.parts.items()} == {TRAIN: 20, VAL: 3, TEST: 2}
    assert [int(part.images.max()) for part in source.parts.values()] == [1, 2, 3]
    np.savez(tmp_path / "b.npz", **arrays)
    parts = load_data(f"npz:{tmp_path}/b.npz", GREY).parts
    assert {name: len(part) for name, part in parts.items()} == {
        TRAIN: 16,
        VAL: 3,
        TEST: 4,
    }  # 15 % of ten is 2
    np.savez(tmp_path / "c.npz", **arrays, x_test=images(2, 3), y_test=np.array([1]))
    with pytest.raises(UsageError, match=r"y_test is int64 \(1,\); wanted 2 whole numbers"):
        load_data(f"npz:{tmp_path}/c.npz", GREY)

"""CIFAR-10 in the publisher's two formats; damaged, hostile and missing files are named."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.data.tiny import RGB, Attack, make_cifar_images, write_binary, write_python
from untrained.data import load_data
from untrained.data.source import fingerprint_batch
from untrained.errors import UsageError
from untrained.types import Task

# Published statistics of CIFAR-10.
MEAN = torch.tensor([0.4914, 0.4822, 0.4465])
STD = torch.tensor([0.2470, 0.2435, 0.2616])


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_cifar10_reads_the_publishers_files(write, tmp_path):
    write(tmp_path)
    batch = load_data("cifar10", RGB, tmp_path).batch(10)
    assert sorted(batch.targets.tolist()) == list(range(10))
    pixels = make_cifar_images()[batch.targets] / 255  # image k has label k
    torch.testing.assert_close(batch.inputs, (pixels - MEAN[:, None, None]) / STD[:, None, None])


def test_both_formats_give_the_same_samples(tmp_path):
    write_binary(tmp_path / "one")
    write_python(tmp_path / "two")
    binary = load_data("cifar10", RGB, tmp_path / "one").batch(4, seed=5)
    python = load_data("cifar10", RGB, tmp_path / "two").batch(4, seed=5)
    assert fingerprint_batch(binary) == fingerprint_batch(python)


def test_cifar10_in_grey_and_enlarged(root):
    batch = load_data("cifar10", Task("any", (1, 64, 64), 10), root).batch(2)
    grey = (make_cifar_images()[batch.targets] / 255).mean(1, keepdim=True)
    expected = F.interpolate(
        (grey - MEAN.mean()) / STD.mean(), size=(64, 64), mode="bilinear", align_corners=False
    )
    torch.testing.assert_close(batch.inputs, expected, rtol=1e-4, atol=1e-5)


def test_channels_that_cannot_match_are_refused(root):
    with pytest.raises(
        UsageError, match="images of 3 channels do not fit a network with 4 input channels"
    ):
        load_data("cifar10", Task("any", (4, 32, 32), 10), root).batch(1)


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_a_file_without_permission_is_named(write, tmp_path, monkeypatch):
    """The reader is replaced, because the tests may run as root, who can read all files."""

    def refuse(file, *args, **options):
        raise PermissionError(13, "Permission denied", str(file))

    write(tmp_path)
    monkeypatch.setattr(np, "fromfile", refuse)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match=r"data_batch_1.* cannot be read: you have no permission$"):
        load_data("cifar10", RGB, tmp_path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_is_refused_and_not_run(protocol, tmp_path):
    write_python(tmp_path)
    file = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    target = tmp_path / "attacked"
    file.write_bytes(pickle.dumps({b"data": Attack(target), b"labels": []}, protocol=protocol))
    with pytest.raises(
        UsageError, match=r"data_batch_1 was refused: it asks for (io|builtins|__builtin__)\.open"
    ):
        load_data("cifar10", RGB, tmp_path)
    assert not target.exists()
    with pickle.loads(file.read_bytes())[b"data"]:  # the file is indeed dangerous
        assert target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8)}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}),
        pickle.dumps({b"data": np.zeros((2, 3072)), b"labels": [1, 2]}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2]})[:-400],
    ],
    ids=["empty", "text", "list", "no labels", "few labels", "floats", "cut"],
)
def test_a_damaged_python_batch_is_named(content, tmp_path):
    write_python(tmp_path)
    file = tmp_path / "cifar-10-batches-py" / "data_batch_4"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="data_batch_4"):
        load_data("cifar10", RGB, tmp_path)


@pytest.mark.parametrize("size", [0, 3072, 3074, 2 * 3073 - 1])
def test_a_damaged_binary_batch_is_named(size, tmp_path):
    write_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_2.bin").write_bytes(bytes(size))
    with pytest.raises(UsageError, match=rf"data_batch_2\.bin is damaged: {size} bytes"):
        load_data("cifar10", RGB, tmp_path)


def test_the_error_for_missing_data_names_the_files_the_folder_and_the_options(tmp_path):
    write_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(UsageError) as caught:
        load_data("cifar10", RGB, tmp_path)
    message = str(caught.value)
    for part in (
        str(tmp_path),
        "data_batch_1.bin",
        "cifar-10-batches-py",
        "--data-root",
        "UNTRAINED_DATA",
        "--data ",
    ):
        assert part in message

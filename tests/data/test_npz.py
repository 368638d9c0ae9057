"""Archives of numpy: images and labels are read, and wrong archives are refused."""

import numpy as np
import pytest
import torch

from tests.data.tiny import RGB, Attack, write_npz
from untrained.data import load_data
from untrained.data.pictures import card as card_module
from untrained.errors import UsageError
from untrained.types import Task


def test_images_and_labels_of_an_archive_are_read(root):
    with np.load(root / "tiny.npz") as archive:
        x = torch.from_numpy(archive["x"])
        y = archive["y"]
    source = load_data(f"npz:{root}/tiny.npz", Task("any", (3, 9, 11), 99))
    assert source.task == Task("npz:tiny.npz", (3, 9, 11), 4)
    batch = source.batch(12)
    scaled = x.double() / 255
    normalised = (scaled - scaled.mean((0, 1, 2))) / scaled.std((0, 1, 2))
    images = normalised.permute(0, 3, 1, 2).float()
    distance, nearest = torch.cdist(batch.inputs.flatten(1), images.flatten(1)).min(1)
    assert float(distance.max()) < 1e-2
    assert sorted(nearest.tolist()) == list(range(12))
    assert batch.targets.tolist() == y[nearest.numpy()].tolist()


def test_arrays_may_be_called_x_train_and_y_train_and_images_may_be_grey(tmp_path):
    np.savez(
        tmp_path / "g.npz",
        x_train=np.arange(64, dtype=np.uint8).reshape(4, 4, 4),
        y_train=np.ones((4, 1), int),
    )
    source = load_data(f"npz:{tmp_path}/g.npz", RGB)
    batch = source.batch(4)
    assert source.task.num_classes == 2
    assert batch.targets.tolist() == [1] * 4
    assert torch.equal(batch.inputs[:, 0], batch.inputs[:, 2])


GOOD = np.zeros((4, 5, 5, 3), np.uint8)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": GOOD}, "holds a; it needs x and y"),
        ({}, "holds nothing"),
        ({"x": GOOD}, "needs x and y"),
        ({"x": GOOD.astype(np.int16), "y": np.arange(4)}, "x is int16"),
        ({"x": GOOD[0, 0], "y": np.arange(5)}, r"expected uint8 \(N, H, W\[, C\]\)"),
        ({"x": GOOD[:0], "y": np.arange(0)}, r"x is uint8 \(0, 5, 5, 3\)"),
        ({"x": GOOD, "y": np.arange(3)}, r"y is int64 \(3,\); expected 4 non-negative integers"),
        ({"x": GOOD, "y": np.eye(4, dtype=int)}, r"y is int64 \(4, 4\)"),
        ({"x": GOOD, "y": np.array(["cat"] * 4)}, "y is <U3"),
        ({"x": GOOD, "y": np.array([0, 1, -1, 2])}, "expected 4 non-negative integers"),
    ],
)
def test_an_archive_with_wrong_arrays_is_refused(arrays, message, tmp_path):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(UsageError, match=message):
        load_data(f"npz:{tmp_path}/bad.npz", RGB)


def test_the_proposed_size_counts_the_pictures_of_all_parts(tmp_path, monkeypatch):
    images = np.zeros((40, 96, 96, 3), np.uint8)
    labels = np.arange(40) % 2
    np.savez(
        tmp_path / "some.npz", x=images[:10], y=labels[:10], x_test=images[10:], y_test=labels[10:]
    )
    # 40 pictures of 3 x 64 x 64 bytes; ten of them would fit with 96 pixels too.
    monkeypatch.setattr(card_module, "_MAX_BYTES", 40 * 3 * 64**2)
    source = load_data(f"npz:{tmp_path}/some.npz", RGB)
    assert source.propose_side() == 64


def test_an_unreadable_archive_is_refused(tmp_path):
    with pytest.raises(UsageError, match="name the file"):
        load_data("npz", RGB)
    with pytest.raises(UsageError, match="there is no file"):
        load_data(f"npz:{tmp_path}/none.npz", RGB)
    whole = write_npz(tmp_path / "whole.npz").read_bytes()
    for name, content in {"text": b"hello", "cut": whole[:200], "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match="not a readable numpy archive"):
            load_data(f"npz:{tmp_path}/{name}", RGB)
    np.save(tmp_path / "single.npy", GOOD)
    with pytest.raises(UsageError, match="not a readable numpy archive"):
        load_data(f"npz:{tmp_path}/single.npy", RGB)


def test_an_archive_with_a_hostile_object_is_refused_and_not_run(tmp_path):
    target = tmp_path / "attacked"
    np.savez(tmp_path / "bad.npz", x=np.array([Attack(target)], dtype=object), y=np.arange(1))
    with pytest.raises(UsageError, match="it holds Python objects; save numbers"):
        load_data(f"npz:{tmp_path}/bad.npz", RGB)
    assert not target.exists()

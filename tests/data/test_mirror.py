"""Whether pictures may be mirrored in training is measured on the pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.conftest import find_shared
from tests.data.pictures import save_image
from untrained.data import load_data
from untrained.data.mirror import MAX_MIRROR_SHARE, may_be_mirrored, measure_mirror_share
from untrained.types import Task

SIDE = 16


def draw_arrow(pixels: np.ndarray, row: int, column: int, right: bool) -> None:
    """Draw the head of an arrow, 3 pixels wide and 5 high."""
    for offset in range(-2, 3):
        distance = abs(offset)
        if right:
            pixels[row + offset, column + 2 - distance] = 255
        else:
            pixels[row + offset, column + distance] = 255


def make_arrows(count: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Make arrows near the centre; the classes are left and right."""
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 40, (count, SIDE, SIDE, 1), dtype=np.uint8)
    labels = np.arange(count) % 2
    for image, label in zip(images, labels, strict=True):
        row, column = generator.integers(6, 9, 2)
        draw_arrow(image[..., 0], row, column, right=bool(label))
    return torch.from_numpy(images), torch.from_numpy(labels)


def make_blobs(count: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Make squares at random places; the classes are small and large."""
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 40, (count, SIDE, SIDE, 1), dtype=np.uint8)
    labels = np.arange(count) % 2
    for image, label in zip(images, labels, strict=True):
        half = 2 + label
        row, column = generator.integers(half, SIDE - half + 1, 2)
        image[row - half : row + half, column - half : column + half] = 255
    return torch.from_numpy(images), torch.from_numpy(labels)


def test_arrows_must_not_be_mirrored_and_squares_may():
    arrows, directions = make_arrows()
    assert measure_mirror_share(arrows, directions) > 0.5
    assert not may_be_mirrored(arrows, directions)
    # The same pictures may be mirrored if the classes have nothing to do with the direction.
    assert may_be_mirrored(arrows, (torch.arange(200) // 2) % 2)
    blobs, sizes = make_blobs()
    assert may_be_mirrored(blobs, sizes)


def test_the_share_is_that_of_the_variance_which_mirroring_reverses():
    """Two classes without noise: the first pixel differs by a, and the mirrored one by b.

    Half of the difference of the means is (a, b) / 2. The part of (a, b) that mirroring reverses is
    (a - b, b - a) / 2, so the share is (a - b)**2 / 2 / (a**2 + b**2).
    """
    a = 90
    b = 30
    dark = torch.zeros(4, 1, 2, 1, dtype=torch.uint8)
    light = torch.tensor([a, b], dtype=torch.uint8).reshape(1, 1, 2, 1).expand(4, 1, 2, 1)
    labels = torch.tensor([0] * 4 + [1] * 4)
    share = measure_mirror_share(torch.cat([dark, light]), labels)
    assert share == pytest.approx((a - b) ** 2 / 2 / (a**2 + b**2), abs=1e-5)


def test_what_all_classes_have_in_common_does_not_count():
    blobs, sizes = make_blobs()
    lit_from_the_left = blobs.clone()
    lit_from_the_left[:, :, : SIDE // 2] //= 2
    before = measure_mirror_share(blobs, sizes)
    assert measure_mirror_share(lit_from_the_left, sizes) == pytest.approx(before, abs=0.1)
    assert may_be_mirrored(lit_from_the_left, sizes)


def test_large_and_few_pictures_can_be_measured():
    arrows, directions = make_arrows()
    large = arrows.repeat_interleave(5, 1).repeat_interleave(5, 2)
    small_share = measure_mirror_share(arrows, directions)
    assert measure_mirror_share(large, directions) == pytest.approx(small_share, abs=0.1)
    assert measure_mirror_share(arrows[:2], directions[:2]) == 0.0
    black = torch.zeros(6, 4, 4, 3, dtype=torch.uint8)
    assert measure_mirror_share(black, torch.arange(6) % 2) == 0.0


def test_digits_are_not_mirrored():
    source = load_data("digits", Task("any", (1, 8, 8), 10))
    part = source.parts["train"]
    assert measure_mirror_share(part.images, part.labels) > 1.5 * MAX_MIRROR_SHARE


@pytest.mark.parametrize(
    ("path", "mirrored"),
    [
        ("cifar10/subset_2000_1000.npz", True),
        ("tiny_imagenet16/subset_2000_1000.npz", True),
        ("fashion_mnist/fashion_mnist_10k_2k.npz", True),
        ("mnist/mnist.npz", False),
    ],
)
@pytest.mark.parametrize("count", [500, 2000])
def test_public_pictures(path: str, mirrored: bool, count: int):
    with np.load(find_shared("data", *path.split("/"))) as arrays:
        images = torch.from_numpy(arrays["x_train"][:count])
        labels = torch.from_numpy(arrays["y_train"][:count].astype(np.int64))
    if images.ndim == 3:
        images = images[..., None]
    assert may_be_mirrored(images, labels) is mirrored


def test_the_card_says_whether_pictures_are_mirrored_and_why(tmp_path: Path):
    arrows, directions = make_arrows()
    for number, (image, label) in enumerate(zip(arrows, directions, strict=True)):
        name = "right" if label else "left"
        save_image(tmp_path / "arrows" / name / f"{number}.png", image.numpy()[..., 0])
    task = Task("any", (3, SIDE, SIDE), 2)
    source = load_data(f"folder:{tmp_path / 'arrows'}", task, root=tmp_path / "root")
    assert source.card is not None
    sentence = (
        "pictures are not mirrored in training, because left and right distinguish their classes"
    )
    assert f"training: {sentence}" in source.card().lines()

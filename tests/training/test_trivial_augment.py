"""One random operation per image, compared with PIL, with exact cases and with single images."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from untrained.training.trivial_augment import (
    MAX_BLEND,
    MAX_SHEAR,
    OPERATIONS,
    apply_operations,
    augment_trivially,
)

SIDE = 16


def make_images(count: int = 4, width: int = SIDE, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    shape = (count, SIDE, width, channels)
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def apply_one(images: Tensor, name: str, strength: float) -> Tensor:
    operations = torch.full((len(images),), OPERATIONS.index(name))
    return apply_operations(images, operations, torch.full((len(images),), strength))


@pytest.mark.parametrize("width", [SIDE, 9])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_without_strength_changes_nothing(name: str, width: int):
    images = make_images(width=width)
    if name == "autocontrast":
        images[:, 0, 0] = 0
        images[:, 0, 1] = 255
    assert torch.equal(apply_one(images, name, 0.0), images)


def test_a_translation_moves_whole_pixels():
    """A quarter of 16 pixels is 4. The place that is read moves to the right, the picture left."""
    images = make_images()
    moved = apply_one(images, "translate_x", 1.0)
    assert torch.equal(moved[:, :, :-4], images[:, :, 4:])
    assert not moved[:, :, -4:].any()
    moved = apply_one(images, "translate_y", -0.5)
    assert torch.equal(moved[:, 2:], images[:, :-2])
    assert not moved[:, :2].any()


@pytest.mark.parametrize("width", [SIDE, 24])
def test_a_rotation_and_a_shear_are_those_of_pil(width: int):
    """A smooth picture, because the two interpolate differently; the border is left out."""
    rows = torch.arange(SIDE).reshape(-1, 1) / SIDE
    columns = torch.arange(width) / width
    picture = 120 + 60 * torch.sin(3 * rows + 2 * columns) + 40 * torch.cos(4 * columns - rows)
    image = picture.round().to(torch.uint8)
    pil = Image.fromarray(image.numpy())
    # PIL turns counterclockwise by degrees, our map clockwise in coordinates whose y points down.
    turned = np.asarray(pil.rotate(15, Image.Resampling.BILINEAR)).astype(float)
    ours = apply_one(image[None, ..., None], "rotate", 0.5)[0, ..., 0].numpy().astype(float)
    inside = np.s_[5:-5, 5:-5]
    back = np.asarray(pil.rotate(-15, Image.Resampling.BILINEAR)).astype(float)
    errors = [np.abs(other - ours)[inside].max() for other in (turned, back)]
    assert min(errors) < 4
    assert max(errors) > 8
    shift = -MAX_SHEAR * (SIDE - 1) / 2 - MAX_SHEAR / 2
    matrix = (1, MAX_SHEAR, shift, 0, 1, 0)
    sheared = pil.transform(pil.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
    ours = apply_one(image[None, ..., None], "shear_x", 1.0)[0, ..., 0].numpy().astype(float)
    assert np.abs(np.asarray(sheared).astype(float) - ours)[inside].max() < 4


@pytest.mark.parametrize("strength", [-1.0, -0.4, 0.5])
def test_brightness_is_that_of_pil(strength: float):
    image = make_images(1)
    pil = Image.fromarray(image[0].numpy())
    expected = np.asarray(ImageEnhance.Brightness(pil).enhance(1 + MAX_BLEND * strength))
    ours = apply_one(image, "brightness", strength)[0].numpy()
    assert np.abs(expected.astype(int) - ours).max() <= 1


def test_posterize_solarize_and_autocontrast_are_those_of_pil():
    image = make_images(1) // 2 + 40
    pil = Image.fromarray(image[0].numpy())
    posterized = apply_one(image, "posterize", -1.0)[0].numpy()
    assert np.array_equal(posterized, np.asarray(ImageOps.posterize(pil, 4)))
    # Half of the strength: pixels above 127.5 are inverted.
    solarized = apply_one(image, "solarize", 0.5)[0].numpy()
    assert np.array_equal(solarized, np.asarray(ImageOps.solarize(pil, 128)))
    stretched = apply_one(image, "autocontrast", 0.3)[0].numpy()
    assert np.abs(stretched.astype(int) - np.asarray(ImageOps.autocontrast(pil))).max() <= 1


def test_contrast_and_colour_keep_the_mean_grey_and_the_grey_of_pixels():
    """With factors below 1, no value is cut off at 0 or 255."""
    images = make_images()
    grey = images.float().mean(-1)
    flat = apply_one(images, "contrast", -1.0).float()
    assert torch.allclose(flat.mean((1, 2, 3)), grey.mean((1, 2)), atol=0.5)
    assert torch.allclose(flat.std((1, 2, 3)), 0.1 * images.float().std((1, 2, 3)), atol=0.5)
    pale = apply_one(images, "colour", -1.0).float()
    assert torch.allclose(pale.mean(-1), grey, atol=1.0)
    assert pale.std(-1).max() < 0.2 * images.float().std(-1).max()
    grey_image = make_images(channels=1)
    assert torch.equal(apply_one(grey_image, "colour", 0.7), grey_image)


def test_each_image_gets_its_own_operation_and_the_seed_decides():
    images = make_images(len(OPERATIONS))
    operations = torch.arange(len(OPERATIONS))
    strengths = torch.linspace(-0.9, 0.9, len(OPERATIONS))
    together = apply_operations(images, operations, strengths)
    for index, name in enumerate(OPERATIONS):
        alone = apply_one(images[index : index + 1], name, float(strengths[index]))
        assert torch.equal(together[index], alone[0]), name
    many = make_images(300)
    changed = augment_trivially(many, torch.Generator().manual_seed(1))
    assert (changed.dtype, changed.shape) == (many.dtype, many.shape)
    unchanged = (changed == many).flatten(1).all(1).double().mean()
    # One twelfth gets the identity; posterizing and autocontrast change few pictures or none.
    assert 1 / 24 < unchanged < 1 / 3
    assert torch.equal(augment_trivially(many, torch.Generator().manual_seed(1)), changed)
    assert not torch.equal(augment_trivially(many, torch.Generator().manual_seed(2)), changed)

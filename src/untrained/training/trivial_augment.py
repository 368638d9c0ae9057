"""One random change per image, in the manner of TrivialAugment (Müller and Hutter, ICCV 2021).

Every image gets one operation with a random strength. All images of a batch are changed at once, on
the device that holds them: shear, translation and rotation are one affine map per image, and the
changes of colours are computed for the whole batch and selected per image. The strengths are those
of RandAugment (Cubuk et al. 2020). Differences from the publication: no sharpness and no histogram
equalisation, and shifts of up to a quarter of the side.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

OPERATIONS = (
    "identity",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "brightness",
    "contrast",
    "colour",
    "posterize",
    "solarize",
    "autocontrast",
)
MAX_SHEAR = 0.3  # pixels per pixel
MAX_TRANSLATION = 0.25  # of the side
MAX_ROTATION = torch.pi / 6
MAX_BLEND = 0.9
# Posterizing keeps from 8 down to 4 of the 8 bits per pixel.
MAX_LOST_BITS = 4


def augment_trivially(images: Tensor, generator: torch.Generator) -> Tensor:
    """Change each image by one random operation.

    Args:
        images: Bytes (N, H, W, C).
        generator: Source of random numbers, on the device of the images.

    Returns:
        Images of the same shape. Pixels from outside an image are black.
    """
    count = len(images)
    device = images.device
    operations = torch.randint(len(OPERATIONS), (count,), generator=generator, device=device)
    # From -1 to 1; operations without a direction use the absolute value.
    strengths = 2 * torch.rand(count, generator=generator, device=device) - 1
    return apply_operations(images, operations, strengths)


def apply_operations(images: Tensor, operations: Tensor, strengths: Tensor) -> Tensor:
    """Apply one operation to each image.

    Args:
        images: Bytes (N, H, W, C).
        operations: Index into `OPERATIONS` for each image (N,).
        strengths: Strength of each operation (N,), from -1 to 1.
    """
    pixels = images.permute(0, 3, 1, 2).float()
    maps = make_affine_maps(operations, strengths, height=pixels.shape[2], width=pixels.shape[3])
    grid = F.affine_grid(maps, list(pixels.shape), align_corners=False)
    pixels = F.grid_sample(pixels, grid, align_corners=False)
    # Interpolation leaves rounding errors in images that are not moved.
    pixels = pixels.round()
    pixels = _change_colours(pixels, operations, strengths)
    return pixels.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)


def make_affine_maps(operations: Tensor, strengths: Tensor, height: int, width: int) -> Tensor:
    """Return the maps (N, 2, 3) from coordinates of the result to coordinates of the image.

    Coordinates are from -1 to 1 along both axes, as `affine_grid` expects. Angles and shears refer
    to pixels, hence the ratio of the sides.
    """

    def select_strengths(name: str, largest: float) -> Tensor:
        is_selected = operations == OPERATIONS.index(name)
        return torch.where(is_selected, largest * strengths, torch.zeros_like(strengths))

    angles = select_strengths("rotate", MAX_ROTATION)
    ratio = height / width
    x_to_x = angles.cos()
    y_to_x = ratio * (select_strengths("shear_x", MAX_SHEAR) - angles.sin())
    x_to_y = (select_strengths("shear_y", MAX_SHEAR) + angles.sin()) / ratio
    y_to_y = angles.cos()
    # A side has the length 2.
    shift_x = select_strengths("translate_x", 2 * MAX_TRANSLATION)
    shift_y = select_strengths("translate_y", 2 * MAX_TRANSLATION)
    first_rows = torch.stack([x_to_x, y_to_x, shift_x], 1)
    second_rows = torch.stack([x_to_y, y_to_y, shift_y], 1)
    return torch.stack([first_rows, second_rows], 1)


def _change_colours(pixels: Tensor, operations: Tensor, strengths: Tensor) -> Tensor:
    """Apply the operations on colours to pixels (N, C, H, W) from 0 to 255."""
    shape = (-1, 1, 1, 1)
    operations = operations.reshape(shape)
    strengths = strengths.reshape(shape)
    amounts = strengths.abs()
    blend = 1 + MAX_BLEND * strengths
    grey = pixels.mean(1, keepdim=True)
    mean_grey = grey.mean((2, 3), keepdim=True)
    # A power of two: the distance between the levels that remain.
    level_distance = torch.exp2((MAX_LOST_BITS * amounts).round())
    threshold = 255 * (1 - amounts)
    darkest = pixels.amin((2, 3), keepdim=True)
    lightest = pixels.amax((2, 3), keepdim=True)
    contrast_scale = 255 / (lightest - darkest).clamp_min(1)
    results = {
        "brightness": blend * pixels,
        "contrast": mean_grey + blend * (pixels - mean_grey),
        "colour": grey + blend * (pixels - grey),
        "posterize": (pixels / level_distance).floor() * level_distance,
        "solarize": torch.where(pixels > threshold, 255 - pixels, pixels),
        "autocontrast": (pixels - darkest) * contrast_scale,
    }
    for name, result in results.items():
        pixels = torch.where(operations == OPERATIONS.index(name), result, pixels)
    return pixels

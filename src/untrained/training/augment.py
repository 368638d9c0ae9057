"""Data augmentation of a whole batch of images at once, on the device that holds the images.

Shifts and flips work on bytes (N, H, W, C) before normalisation, so the pixels that a shift adds
are black. Cutout and mixup work on normalised pixels (N, C, H, W), where zero is the mean colour.
Every function draws from the generator that it receives, so the result depends only on its seed.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.seeds import make_generator


def shift_images(images: Tensor, max_shift: int, generator: torch.Generator) -> Tensor:
    """Shift each image by a random distance along both axes.

    Args:
        images: Bytes (N, H, W, C).
        max_shift: Largest distance in pixels, in either direction.
        generator: Source of random numbers, on the device of the images.

    Returns:
        Images of the same shape. Pixels from outside an image are black.
    """
    count, height, width, _ = images.shape
    device = images.device
    padded = F.pad(images, (0, 0, max_shift, max_shift, max_shift, max_shift))
    offsets = torch.randint(2 * max_shift + 1, (2, count, 1), generator=generator, device=device)
    top, left = offsets
    rows = top + torch.arange(height, device=device)  # (N, H)
    columns = left + torch.arange(width, device=device)  # (N, W)
    samples = torch.arange(count, device=device)
    return padded[samples[:, None, None], rows[:, :, None], columns[:, None, :]]


def flip_images(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each image (H, W, C) left to right with a probability of one half."""
    uniform = torch.rand(len(images), 1, 1, 1, generator=generator, device=images.device)
    return torch.where(uniform < 0.5, images.flip(2), images)


def cut_out_squares(pixels: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Set a square around a random pixel of each image to zero.

    Args:
        pixels: Normalised images (N, C, H, W).
        side: Side of the square. A square at the edge of an image is cut off there.
        generator: Source of random numbers, on the device of the images.
    """
    count, _, height, width = pixels.shape
    device = pixels.device
    centre_row = torch.randint(height, (count, 1, 1, 1), generator=generator, device=device)
    top = centre_row - side // 2
    centre_column = torch.randint(width, (count, 1, 1, 1), generator=generator, device=device)
    left = centre_column - side // 2
    row = torch.arange(height, device=device).reshape(1, 1, -1, 1)
    column = torch.arange(width, device=device).reshape(1, 1, 1, -1)
    in_rows = (row >= top) & (row < top + side)
    in_columns = (column >= left) & (column < left + side)
    return pixels.masked_fill(in_rows & in_columns, 0.0)


def mix_samples(
    pixels: Tensor, targets: Tensor, weights: Tensor, partners: Tensor
) -> tuple[Tensor, Tensor]:
    """Mix each sample with a partner (mixup).

    Args:
        pixels: Normalised images (N, C, H, W).
        targets: Class probabilities (N, classes), or numbers (N, 1).
        weights: Weight of each sample (N,). The weight of its partner is one minus that.
        partners: Index of the partner of each sample (N,).

    Returns:
        The mixed images and the mixed targets.
    """
    pixel_weights = weights.reshape(-1, 1, 1, 1)
    target_weights = weights.reshape(-1, 1)
    mixed_pixels = pixel_weights * pixels + (1 - pixel_weights) * pixels[partners]
    mixed_targets = target_weights * targets + (1 - target_weights) * targets[partners]
    return mixed_pixels, mixed_targets


def draw_mixup(count: int, alpha: float, *seed_parts: object) -> tuple[Tensor, Tensor]:
    """Draw the weights, from Beta(alpha, alpha), and the partners for `mix_samples`.

    They are drawn on the CPU with numpy, because the Beta distribution of torch does not take a
    generator.
    """
    generator = make_generator("mixup", *seed_parts)
    weights = torch.from_numpy(generator.beta(alpha, alpha, count)).float()
    partners = torch.from_numpy(generator.permutation(count))
    return weights, partners

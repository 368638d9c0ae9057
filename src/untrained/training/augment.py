"""Distortions of a whole batch at once, each sample in its own way, on the device where it lies.

Shifts and flips work on bytes (N, H, W, C), before pixels are normalised: what a shift lets in is black, as everywhere.
Cutout and mixup work on normalised pixels (N, C, H, W), where a blanked square is of the mean colour. All draw from the
generator that they are given, which is of the same device, so nothing depends on what was drawn elsewhere.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.rng import generator


def shifted(images: Tensor, most: int, draws: torch.Generator) -> Tensor:
    """Each image (H, W, C) moved by up to `most` pixels along both axes."""
    n, height, width, _ = images.shape
    padded = F.pad(images, (0, 0, most, most, most, most))
    top, left = torch.randint(2 * most + 1, (2, n, 1), generator=draws, device=images.device)
    rows = top + torch.arange(height, device=images.device)  # (n, height)
    columns = left + torch.arange(width, device=images.device)
    return padded[torch.arange(n, device=images.device)[:, None, None], rows[:, :, None], columns[:, None, :]]


def flipped(images: Tensor, draws: torch.Generator) -> Tensor:
    """Every other image, by chance, with left and right exchanged."""
    turn = torch.rand(len(images), 1, 1, 1, generator=draws, device=images.device) < 0.5
    return torch.where(turn, images.flip(2), images)


def cut_out(pixels: Tensor, side: int, draws: torch.Generator) -> Tensor:
    """Each image (C, H, W) with a square of zeros around a random place; what lies beyond the edge is lost."""
    n, _, height, width = pixels.shape
    device = pixels.device
    rows = torch.randint(height, (n, 1, 1, 1), generator=draws, device=device) - side // 2
    columns = torch.randint(width, (n, 1, 1, 1), generator=draws, device=device) - side // 2
    down = torch.arange(height, device=device).reshape(1, 1, -1, 1)
    across = torch.arange(width, device=device).reshape(1, 1, 1, -1)
    inside = (down >= rows) & (down < rows + side) & (across >= columns) & (across < columns + side)
    return pixels.masked_fill(inside, 0.0)


def mixed(pixels: Tensor, targets: Tensor, shares: Tensor, partners: Tensor) -> tuple[Tensor, Tensor]:
    """Sample i is `shares[i]` of itself and the rest of `partners[i]`, the pixels as well as the rows of targets."""
    own = shares.reshape(-1, 1, 1, 1)
    whole = shares.reshape(-1, 1)
    return own * pixels + (1 - own) * pixels[partners], whole * targets + (1 - whole) * targets[partners]


def mixing(n: int, alpha: float, *parts: object) -> tuple[Tensor, Tensor]:
    """Shares from Beta(alpha, alpha) and partners for `mixed`, drawn on the CPU: torch draws no Beta by a generator."""
    draws = generator("mixup", *parts)
    return torch.from_numpy(draws.beta(alpha, alpha, n)).float(), torch.from_numpy(draws.permutation(n))

"""Data sources without files: noise, photographs and digits.

Two photographs and 1,797 scanned digits come with scikit-learn. Their files are read directly,
because importing scikit-learn takes a second.
"""

import gzip
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from untrained.data.images import (
    compute_channel_statistics,
    fit_channels,
    fit_statistic,
    make_image_source,
    make_image_task,
    resize_images,
)
from untrained.data.registry import register_source
from untrained.data.source import DataSource, draw_random_labels
from untrained.errors import UsageError
from untrained.types import Batch, Task

_SMALLEST_CROP = 128  # pixels
_LARGEST_CROP = 384
_DIGITS_TEST_SHARE = 0.15


@register_source("Gaussian noise of any shape, random labels")
def noise(argument: str, like: Task, root: Path) -> DataSource:
    task = replace(like, dataset="noise")
    return _make_random_source(task, lambda generator: _draw_noise(task, generator))


@register_source("crops of two photographs (a temple, a flower), random labels")
def photos(argument: str, like: Task, root: Path) -> DataSource:
    task = make_image_task("photos", like)
    return _make_random_source(task, lambda generator: _draw_crop(task, generator))


@register_source("1,797 handwritten digits of 8x8 pixels, enlarged")
def digits(argument: str, like: Task, root: Path) -> DataSource:
    table = _read_digits()
    # Pixels of the file are from 0 to 16.
    images = (table[:, :64].reshape(-1, 8, 8, 1) * (255 / 16)).to(torch.uint8)
    labels = table[:, 64]
    task = make_image_task("digits", like, classes=10)
    # Samples for scores are drawn from the training part, so another share would change the scores.
    return make_image_source(
        images, labels, task, classes=tuple("0123456789"), test_share=_DIGITS_TEST_SHARE
    )


def _make_random_source(task: Task, draw_input: Callable[[torch.Generator], Tensor]) -> DataSource:
    """Make a source of random samples, each with a random label."""

    def draw(samples: int, generator: torch.Generator) -> Batch:
        # Samples are drawn one by one, so that a small batch is the start of a large one.
        inputs = []
        labels = []
        for _ in range(samples):
            inputs.append(draw_input(generator))
            labels.append(draw_random_labels(1, task, generator))
        return Batch(torch.stack(inputs), torch.cat(labels))

    return DataSource(task, draw)


def _draw_noise(task: Task, generator: torch.Generator) -> Tensor:
    """Draw one sample. In a row of a table, all identifiers are equally likely."""
    values = torch.randn(task.input_shape, generator=generator)
    first_identifier_column = len(values) - len(task.vocabularies)
    for column, size in enumerate(task.vocabularies, first_identifier_column):
        values[column] = _draw_integer(0, size - 1, generator)
    return values


def _draw_crop(task: Task, generator: torch.Generator) -> Tensor:
    """Draw a random square of a photograph, resized to the task and normalised: (C, H, W)."""
    photograph, mean, std = _read_photographs()[_draw_integer(0, 1, generator)]
    height, width, _ = photograph.shape
    side = _draw_integer(_SMALLEST_CROP, min(_LARGEST_CROP, height, width), generator)
    top = _draw_integer(0, height - side, generator)
    left = _draw_integer(0, width - side, generator)
    square = photograph[top : top + side, left : left + side].permute(2, 0, 1)[None].float() / 255
    pixels = (fit_channels(square, task) - fit_statistic(mean, task)) / fit_statistic(std, task)
    return resize_images(pixels, task)[0]


def _draw_integer(low: int, high: int, generator: torch.Generator) -> int:
    """Draw an integer from `low` to `high`, both included."""
    return int(torch.randint(low, high + 1, (), generator=generator))


@cache
def _read_photographs() -> tuple[tuple[Tensor, Tensor, Tensor], ...]:
    """Return both photographs, (H, W, 3) of uint8, each with mean and std of its channels."""
    photographs = []
    for name in ("china.jpg", "flower.jpg"):
        image = Image.open(_find_bundled_file("images", name), formats=["JPEG"]).convert("RGB")
        pixels = torch.from_numpy(np.array(image))
        mean, std = compute_channel_statistics(pixels[None])
        photographs.append((pixels, mean, std))
    return tuple(photographs)


@cache
def _read_digits() -> Tensor:
    """Read the digits, (1797, 65): 64 pixels from 0 to 16, then the label."""
    with gzip.open(_find_bundled_file("data", "digits.csv.gz"), "rt") as lines:
        return torch.from_numpy(np.loadtxt(lines, delimiter=","))


def _find_bundled_file(*parts: str) -> Path:
    """Find a file of scikit-learn without importing it."""
    spec = find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "photos and digits come with scikit-learn: pip install scikit-learn, "
            "or use --data noise"
        )
    path = Path(spec.submodule_search_locations[0], "datasets", *parts)
    if not path.is_file():
        raise UsageError(f"this scikit-learn has no file {path}; use --data noise")
    return path

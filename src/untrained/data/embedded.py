"""What every machine has: Gaussian noise of any shape, and two things that scikit-learn carries in its wheel, two
photographs and 1,797 scanned digits. The files are read directly, since importing scikit-learn takes a second."""

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

from untrained.data._source import (
    Source,
    channel_statistics,
    fit_channels,
    fit_statistic,
    from_arrays,
    image_task,
    random_labels,
    resize,
    source,
)
from untrained.errors import UsageError
from untrained.types import Batch, Task


@source("noise", "Gaussian noise of any shape, random labels")
def noise(argument: str, like: Task, root: Path) -> Source:
    task = replace(like, dataset="noise")
    return _unlabelled(task, lambda generator: _gaussian(task, generator))


@source("photos", "crops of two photographs (a temple, a flower), random labels")
def photos(argument: str, like: Task, root: Path) -> Source:
    task = image_task("photos", like)
    return _unlabelled(task, lambda generator: _crop(task, generator))


def _unlabelled(task: Task, make: Callable[[torch.Generator], Tensor]) -> Source:
    """Samples made one after the other, each with a random label."""

    def draw(samples: int, generator: torch.Generator) -> Batch:
        pairs = [(make(generator), random_labels(1, task, generator)) for _ in range(samples)]
        return Batch(torch.stack([image for image, _ in pairs]), torch.cat([label for _, label in pairs]))

    return Source(task, draw)


@source("digits", "1,797 handwritten digits of 8x8 pixels, enlarged")
def digits(argument: str, like: Task, root: Path) -> Source:
    table = _digits()
    images = (table[:, :64].reshape(-1, 8, 8, 1) * (255 / 16)).to(torch.uint8)
    task = image_task("digits", like, classes=10)
    return from_arrays(images, table[:, 64], task, classes=tuple("0123456789"))


def _gaussian(task: Task, generator: torch.Generator) -> Tensor:
    """One sample; in a row of a table the identifiers are as likely as each other."""
    values = torch.randn(task.input_shape, generator=generator)
    for column, size in enumerate(task.vocabularies, len(values) - len(task.vocabularies)):
        values[column] = _between(0, size - 1, generator)
    return values


def _crop(task: Task, generator: torch.Generator) -> Tensor:
    """A random square of 128 to 384 pixels of one photograph, scaled to the task, normalised: (C, H, W)."""
    photograph, mean, std = _photographs()[_between(0, 1, generator)]
    side = _between(128, min(384, *photograph.shape[:2]), generator)
    top = _between(0, photograph.shape[0] - side, generator)
    left = _between(0, photograph.shape[1] - side, generator)
    square = photograph[top : top + side, left : left + side].permute(2, 0, 1)[None].float() / 255
    pixels = (fit_channels(square, task) - fit_statistic(mean, task)) / fit_statistic(std, task)
    return resize(pixels, task)[0]


def _between(low: int, high: int, generator: torch.Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


@cache
def _photographs() -> tuple[tuple[Tensor, Tensor, Tensor], ...]:
    """Both photographs, (H, W, 3) uint8, each with mean and standard deviation of its channels."""
    files = [_bundled("images", name) for name in ("china.jpg", "flower.jpg")]
    pixels = [torch.from_numpy(np.array(Image.open(file, formats=["JPEG"]).convert("RGB"))) for file in files]
    return tuple((photograph, *channel_statistics(photograph[None])) for photograph in pixels)


@cache
def _digits() -> Tensor:
    """(1797, 65): 64 pixels of 0 to 16, then the label."""
    with gzip.open(_bundled("data", "digits.csv.gz"), "rt") as lines:
        return torch.from_numpy(np.loadtxt(lines, delimiter=","))


def _bundled(*parts: str) -> Path:
    spec = find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("photos and digits come with scikit-learn: pip install scikit-learn, or use --data noise")
    path = Path(spec.submodule_search_locations[0], "datasets", *parts)
    if not path.is_file():
        raise UsageError(f"this scikit-learn has no file {path}; use --data noise")
    return path

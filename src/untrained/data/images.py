"""Data sources of images in memory, and functions that fit images to the input of a network."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.data.parts import (
    TEST_SHARE,
    TRAIN,
    ImagePart,
    Parts,
    choose_shares,
    split_by_class,
)
from untrained.data.regression import compute_label_statistics, standardise_labels
from untrained.data.source import DataSource
from untrained.errors import UsageError
from untrained.types import REGRESSION, Batch, Task

# Images (N, H, W, C) of uint8, and their labels (N,): classes as int64, or numbers as float64.
LabelledImages = tuple[Tensor, Tensor]
_IMAGES_FOR_STATISTICS = 2000
_IMAGES_PER_STEP = 1000  # images that are resized at once


def make_image_task(name: str, like: Task, classes: int | None = None) -> Task:
    """Make the task of a source of images.

    Args:
        name: Name of the data.
        like: Task with the input shape that networks take.
        classes: Number of classes; None for that of `like`.

    Raises:
        UsageError: The networks do not take images.
    """
    if len(like.input_shape) != 3:
        message = (
            f"{name} holds images, so the input shape must be channels x height x width, "
            f"not {like.input_shape}"
        )
        if len(like.input_shape) == 1:
            message += "; for a network for tables use --data csv:PATH, or --data clicks to try it"
        raise UsageError(message)
    return replace(like, dataset=name, num_classes=classes or like.num_classes)


def make_image_regression_task(
    name: str, like: Task, target_name: str, mean: float = 0.0, std: float = 1.0
) -> Task:
    """Make the task of a source of images whose labels are numbers.

    Args:
        name: Name of the data.
        like: Task with the input shape that networks take.
        target_name: Name of the label.
        mean: Mean of the labels over the training part.
        std: Their standard deviation over the training part.

    Raises:
        UsageError: The networks do not take images.
    """
    task = make_image_task(name, like, classes=1)
    return replace(
        task, loss=REGRESSION.loss, target_mean=mean, target_std=std, target_name=target_name
    )


def make_image_source(
    images: Tensor,
    labels: Tensor,
    task: Task,
    statistics: tuple[Tensor, Tensor] | None = None,
    *,
    existing_parts: Mapping[str, Callable[[], LabelledImages]] | None = None,
    classes: tuple[str, ...] = (),
    test_share: float = TEST_SHARE,
) -> DataSource:
    """Make a source of images, which are resized to the task and normalised per channel.

    Samples are drawn from the training part, and from the others only if it has too few.

    Args:
        images: Images (N, H, W, C) of uint8.
        labels: Their classes (N,), or for a regression numbers in their original unit.
        task: The task of the networks. For a regression, the mean and the deviation of the labels
            are added.
        statistics: Mean and standard deviation per channel; computed from the images by default.
        existing_parts: Functions that read the parts which the data have besides the training part.
            The other parts are split off from `images`, with equal shares of each class.
        classes: Names of the classes.
        test_share: Share of the test part, if it is split off.
    """
    is_regression = task.kind == REGRESSION
    if not is_regression:
        labels = labels.long()
    existing_parts = existing_parts or {}
    rows_of_parts = split_by_class(labels, choose_shares(existing_parts, test_share), task)
    if is_regression:
        train_labels = labels[rows_of_parts[TRAIN]].tolist()
        label_mean, label_std = compute_label_statistics(train_labels, task.dataset)
        task = replace(task, target_mean=label_mean, target_std=label_std)
        labels = standardise_labels(labels, task)
    mean, std = statistics or compute_channel_statistics(images)
    mean = fit_statistic(mean, task)
    std = fit_statistic(std, task)

    def draw(samples: int, generator: torch.Generator) -> Batch:
        shuffled_rows = []
        for rows in rows_of_parts.values():
            shuffled_rows.append(rows[torch.randperm(len(rows), generator=generator)])
        drawn_rows = torch.cat(shuffled_rows)[:samples]
        pixels = fit_channels(images[drawn_rows].permute(0, 3, 1, 2).float() / 255, task)
        return Batch(resize_images((pixels - mean) / std, task), labels[drawn_rows])

    def open_parts() -> Parts:
        arrays = {name: (images[rows], labels[rows]) for name, rows in rows_of_parts.items()}
        for name, read_part in existing_parts.items():
            part_images, part_labels = read_part()
            if is_regression:
                part_labels = standardise_labels(part_labels, task)
            arrays[name] = (part_images, part_labels)
        parts = {}
        for name, (part_images, part_labels) in arrays.items():
            fitted_images = fit_images(part_images, task)
            if not is_regression:
                part_labels = part_labels.long()
            parts[name] = ImagePart(fitted_images, part_labels, mean.flatten(), std.flatten())
        return parts

    return DataSource(task, draw, open_parts, classes)


def fit_images(images: Tensor, task: Task) -> Tensor:
    """Convert images (N, H, W, C) of uint8 to the size and the channels of a task."""
    channels, height, width = task.input_shape
    if images.shape[1:] == (height, width, channels):
        return images
    fitted_images = []
    # Images are converted in steps because floats take four times the memory of bytes.
    for chunk in images.split(_IMAGES_PER_STEP):  # type: ignore[no-untyped-call]
        pixels = fit_channels(chunk.permute(0, 3, 1, 2).float(), task)
        resized = resize_images(pixels, task)
        fitted_images.append(resized.round().clamp(0, 255).to(torch.uint8))
    return torch.cat(fitted_images).permute(0, 2, 3, 1).contiguous()


def fit_channels(pixels: Tensor, task: Task) -> Tensor:
    """Convert pixels (N, C, H, W) to the task's number of channels.

    A grey channel is repeated; colours are averaged to grey.
    """
    channels = pixels.shape[1]
    target_channels = task.input_shape[0]
    if channels == target_channels:
        return pixels
    if channels == 1:
        return pixels.expand(-1, target_channels, -1, -1)
    if target_channels == 1:
        return pixels.mean(1, keepdim=True)
    raise UsageError(
        f"images of {channels} channels do not fit a network with {target_channels} input "
        "channels; set the input shape to match"
    )


def fit_statistic(value: Tensor, task: Task) -> Tensor:
    """Convert a mean or deviation per channel (C,) to the task's channels, as (1, C, 1, 1)."""
    target_channels = task.input_shape[0]
    if len(value) != target_channels:
        value = value.mean().expand(target_channels)
    return value.reshape(1, -1, 1, 1)


def resize_images(images: Tensor, task: Task) -> Tensor:
    """Resize images (N, C, H, W) to the height and width of a task."""
    size = task.input_shape[1:]
    if tuple(images.shape[2:]) == size:
        return images
    return F.interpolate(images, size=size, mode="bilinear", align_corners=False, antialias=True)


def compute_channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean and standard deviation of each channel, on the scale 0 to 1.

    Args:
        images: Images (N, H, W, C) of uint8. At most 2,000 of them are used.
    """
    # Use every n-th image, because files are often sorted by class.
    step = -(-len(images) // _IMAGES_FOR_STATISTICS)
    pixels = images[::step].double().div_(255)
    mean = pixels.mean((0, 1, 2)).float()
    std = pixels.std((0, 1, 2)).clamp_min(1e-3).float()
    return mean, std

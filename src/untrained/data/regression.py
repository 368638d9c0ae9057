"""Numbers as labels of images: their statistics, and how they are standardised."""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from torch import Tensor

from untrained.errors import UsageError
from untrained.types import Task


def compute_label_statistics(labels: Sequence[float], title: str) -> tuple[float, float]:
    """Return mean and standard deviation of the labels of training pictures.

    Args:
        labels: The labels, which are finite numbers.
        title: Name of the data, for the message.

    Raises:
        UsageError: All labels are equal, or too large to be standardised.
    """
    numbers = np.asarray(labels, np.float64)
    if numbers.min() == numbers.max():
        raise UsageError(
            f"all labels of the training pictures of {title} are {numbers[0]:g}, so nothing can be "
            "learned; give pictures with different labels"
        )
    # Numbers near the limits of a float overflow, which is reported below.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(numbers.mean())
        std = float(numbers.std())
    if not isfinite(mean) or not isfinite(std) or std == 0:
        raise UsageError(
            f"the labels of {title} reach from {numbers.min():g} to {numbers.max():g} and cannot "
            "be standardised; use another unit"
        )
    return mean, std


def standardise_labels(labels: Tensor, task: Task) -> Tensor:
    """Standardise labels with the mean and deviation of the training part, as float32."""
    return ((labels.double() - task.target_mean) / task.target_std).float()

"""Decide from the data whether pictures may be mirrored in training.

Mirroring doubles the number of pictures, but it is harmful if left and right have a meaning, as in
digits or arrows. Whether they have one is measured on the mean picture of each class. It is the sum
of a symmetric and an antisymmetric part, whose sign mirroring changes. The variance of the mean
pictures over the classes measures how much the classes differ. The share of the antisymmetric part
in this variance, called the mirror share, is 0 if mirroring changes no difference between classes,
and 1 if classes are mirror images of each other.

What all classes have in common, such as light from the left, does not count. Small objects anywhere
in a picture hardly change the mean pictures; then this measure cannot tell, and mirroring is
allowed. If labels are numbers, pictures with similar numbers take the place of a class.

Shares that were measured on about 2,000 pictures each: CIFAR-10 and Tiny-ImageNet 0.00,
Fashion-MNIST 0.12, MNIST 0.26, digits of scikit-learn 0.34.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

# Mirroring is allowed up to this share, between Fashion-MNIST (0.12) and MNIST (0.26).
MAX_MIRROR_SHARE = 0.17
# The variance of the antisymmetric part must exceed what chance explains by this factor.
_MIN_RATIO_TO_CHANCE = 1.3
_MAX_PICTURES = 5000
# Numbers as labels are sorted into this many groups of equal size.
_GROUPS_OF_NUMBERS = 10
_MAX_SIDE = 32  # pixels; larger pictures are reduced


def measure_mirror_share(images: Tensor, labels: Tensor) -> float:
    """Measure the mirror share: how much of the differences between classes mirroring reverses.

    Args:
        images: Pictures (N, H, W, C) of uint8.
        labels: Their classes (N,), or numbers, which are floats.

    Returns:
        The share of the variance of the class means, without what is expected by chance from few
        pictures. It is 0 if chance may explain everything, or if no class has two pictures.
    """
    # Use every n-th picture, because files are often sorted by class.
    step = -(-len(images) // _MAX_PICTURES)
    labels = labels[::step]
    if labels.is_floating_point():
        labels = _group_numbers(labels)
    pixels = images[::step].permute(0, 3, 1, 2).float() / 255
    if max(pixels.shape[2:]) > _MAX_SIDE:
        height, width = pixels.shape[2:]
        pixels = F.adaptive_avg_pool2d(pixels, (min(height, _MAX_SIDE), min(width, _MAX_SIDE)))
    antisymmetric_pixels = (pixels - pixels.flip(3)) / 2
    reversed_variance, reversed_chance = _compare_class_means(antisymmetric_pixels, labels)
    variance, chance = _compare_class_means(pixels, labels)
    if reversed_variance <= _MIN_RATIO_TO_CHANCE * reversed_chance or variance <= chance:
        return 0.0
    # Chance may also make the share larger than 1.
    return min(1.0, (reversed_variance - reversed_chance) / (variance - chance))


def _group_numbers(labels: Tensor) -> Tensor:
    """Return the group of each number (N,), from the lowest to the highest numbers."""
    group_count = min(_GROUPS_OF_NUMBERS, max(1, len(labels) // 2))
    groups = torch.empty(len(labels), dtype=torch.long)
    groups[labels.argsort(stable=True)] = torch.arange(len(labels)) * group_count // len(labels)
    return groups


def _compare_class_means(pixels: Tensor, labels: Tensor) -> tuple[float, float]:
    """Return the variance of the class means, and what it would be if all classes were alike."""
    # Small numbers around zero, so that float32 is precise enough.
    vectors = (pixels - pixels.mean(0)).flatten(1)
    counts = torch.bincount(labels)
    sums = torch.zeros(len(counts), vectors.shape[1]).index_add_(0, labels, vectors)
    square_sums = torch.zeros(len(counts)).index_add_(0, labels, vectors.square().sum(1))
    has_variance = counts >= 2
    counts = counts[has_variance].double()
    # Per class: squared distance of its mean from that of all, and variance of that mean.
    squared_distances = (sums[has_variance].double() / counts[:, None]).square().sum(1)
    squared_deviations = square_sums[has_variance].double() - counts * squared_distances
    mean_variances = squared_deviations / (counts - 1) / counts
    return float(squared_distances.sum()), float(mean_variances.sum())


def may_be_mirrored(images: Tensor, labels: Tensor) -> bool:
    """Return whether pictures (N, H, W, C) may be mirrored, according to their mirror share."""
    return measure_mirror_share(images, labels) <= MAX_MIRROR_SHARE


def describe_mirroring(mirrored: bool, *, has_numbers: bool = False) -> str:
    """Return a sentence on whether pictures are mirrored in training, and why.

    Args:
        mirrored: Whether they are mirrored.
        has_numbers: Whether labels are numbers and not classes.
    """
    if mirrored and has_numbers:
        return (
            "pictures are mirrored at random in training, because their labels hardly depend on "
            "left and right"
        )
    if mirrored:
        return (
            "pictures are mirrored at random in training, because left and right hardly "
            "distinguish their classes"
        )
    if has_numbers:
        return (
            "pictures are not mirrored in training, because their labels depend on left and right"
        )
    return "pictures are not mirrored in training, because left and right distinguish their classes"

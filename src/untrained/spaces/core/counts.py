"""Parameters, multiply-adds and memory by formula, without building the network.

The formulas of cell spaces are sums over convolutions. The contract test of spaces compares every
formula with the network itself.
"""

from collections.abc import Iterable
from typing import NamedTuple

from untrained.types import Task


class Counts(NamedTuple):
    """Trainable parameters, and the cost of one forward pass of one sample.

    `flops` are multiply-adds. `memory` is that of `Probe.memory`: bytes of parameters, buffers and
    the results of all operations; None without a formula.
    """

    params: int
    flops: int
    memory: int | None = None


class CountedConv(NamedTuple):
    """A convolution without bias, by default followed by a batch norm.

    `pixels` is the number of positions in the output map.
    """

    cin: int
    cout: int
    kernel: int
    pixels: int
    norm: bool = True
    groups: int = 1

    @property
    def weights(self) -> int:
        return self.cin * self.cout * self.kernel**2 // self.groups


def sum_counts(
    convs: Iterable[CountedConv], features: int, classes: int, *, norm: bool
) -> Counts | None:
    """Sum the counts of all convolutions and of the linear classifier.

    Args:
        convs: All convolutions of the network.
        features: Inputs of the classifier.
        classes: Outputs of the classifier.
        norm: Whether a batch norm precedes the classifier.

    Returns:
        The counts, or None if the network cannot run, because a batch norm would get maps of a
        single pixel.
    """
    params = (features + 1) * classes
    flops = features * classes
    if norm:
        params += 2 * features
    for conv in convs:
        if conv.pixels < 2:
            return None
        params += conv.weights
        if conv.norm:
            params += 2 * conv.cout
        flops += conv.weights * conv.pixels
    return Counts(params, flops)


# ------------------------------------------------------------------ results of operations, in bytes

BYTES_PER_NUMBER = 4


def count_map_memory(channels: int, pixels: int) -> int:
    """Return the bytes of a feature map."""
    return BYTES_PER_NUMBER * channels * pixels


def count_norm_memory(channels: int, pixels: int) -> int:
    """Return the bytes that a batch norm adds to its parameters.

    These are its result, mean and variance of the batch, the running mean and variance, and the
    number of batches, an integer of 8 bytes.
    """
    return count_map_memory(channels, pixels) + 4 * BYTES_PER_NUMBER * channels + 8


def count_squeeze_memory(channels: int, squeeze_width: int, pixels: int) -> int:
    """Return the bytes of the results in squeeze-and-excitation: `layers.SqueezeExcitation`."""
    # The means, the result of the second layer, and its sigmoid; the first layer and its ReLU.
    inner_numbers = 3 * channels + 2 * squeeze_width
    return BYTES_PER_NUMBER * inner_numbers + count_map_memory(channels, pixels)


# --------------------------------------------------------- networks around NAS-Bench-201's cells


def can_halve_twice(task: Task) -> bool:
    """Return whether both sides of the images are divisible by four, as these networks require."""
    return all(side % 4 == 0 for side in task.input_shape[1:])


def list_residual_block_convs(cin: int, cout: int, pixels: int) -> list[CountedConv]:
    """Return the convolutions of a residual block of stride 2 whose output has `pixels` pixels."""
    return [
        CountedConv(cin, cout, 3, pixels),
        CountedConv(cout, cout, 3, pixels),
        CountedConv(cin, cout, 1, pixels, norm=False),
    ]


def halve_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sides of a map after a padded convolution of stride 2: half, rounded up."""
    return tuple((side + 1) // 2 for side in shape)

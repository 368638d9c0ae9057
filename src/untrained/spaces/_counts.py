"""Sizes of networks that are not built: what a space may tell of an architecture by a formula, and the sums that such
formulas consist of. The contract of spaces compares every one of them with the network itself."""

from collections.abc import Iterable
from typing import NamedTuple

from untrained.types import Task


class Counts(NamedTuple):
    """Trainable parameters, and multiply-adds of one forward pass of one sample."""

    params: int
    flops: int


class Conv(NamedTuple):
    """A convolution without bias that makes a map of so many pixels, with a batch norm unless it is told otherwise."""

    cin: int
    cout: int
    kernel: int
    pixels: int
    norm: bool = True
    groups: int = 1

    @property
    def weights(self) -> int:
        return self.cin * self.cout * self.kernel**2 // self.groups


def total(convs: Iterable[Conv], features: int, classes: int, *, norm: bool) -> Counts | None:
    """Of the convolutions and the linear layer that reads the last features, of which there may be a batch norm. None
    where a norm would see one pixel, so that the network does not run."""
    params, flops = 2 * features * norm + (features + 1) * classes, features * classes
    for conv in convs:
        if conv.pixels < 2:
            return None
        params += conv.weights + 2 * conv.cout * conv.norm
        flops += conv.weights * conv.pixels
    return Counts(params, flops)


# --------------------------------------------------------------------------- the networks around NAS-Bench-201's cells


def halves_twice(task: Task) -> bool:
    """Whether both sides of the images do: else these networks do not run."""
    return not any(side % 4 for side in task.input_shape[1:])


def reduction(cin: int, cout: int, pixels: int) -> list[Conv]:
    """The convolutions of a residual block that leaves so many pixels."""
    return [Conv(cin, cout, 3, pixels), Conv(cout, cout, 3, pixels), Conv(cin, cout, 1, pixels, norm=False)]

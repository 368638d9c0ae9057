"""Average and maximum pooling by shifted copies, for windows that move by one pixel on a CPU.

Torch's kernels for contiguous images compute one output pixel after the other. Here all pixels are
computed together: the padded images become one row of numbers, and the q-th entries of all windows
are a slice of this row. The sums run in the order of torch's kernels, so values and gradients have
the same bits, but take a fifth to a tenth of the time. This matters because cells with several
poolings spend most of a forward pass on them.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

Size = int | Sequence[int]
# Below this number of entries, the calls cost as much as torch's kernel.
MIN_ENTRIES = 2**13


class Window(NamedTuple):
    """A window that moves by one pixel over padded images.

    Attributes:
        kernel: Height and width.
        padding: Rows and columns that are added on each side.
    """

    kernel: tuple[int, int]
    padding: tuple[int, int]

    @property
    def mirrored(self) -> "Window":
        """The window for the backward pass, which moves over the gradient of the output.

        At every input pixel it covers the outputs of all windows that contain this pixel.
        """
        rows = self.kernel[0] - 1 - self.padding[0]
        columns = self.kernel[1] - 1 - self.padding[1]
        return Window(self.kernel, (rows, columns))

    def lay_out(self, x: Tensor, fill: float) -> "PaddedLayout":
        """Pad images, (samples, channels, height, width)."""
        rows, columns = self.padding
        padded = F.pad(x, (columns, columns, rows, rows), value=fill)
        return PaddedLayout(padded.flatten(), tuple(padded.shape), self.kernel)


class PaddedLayout(NamedTuple):
    """Padded images as one row of numbers.

    Attributes:
        entries: The numbers.
        shape: Shape of the padded images.
        kernel: Height and width of the window.
    """

    entries: Tensor
    shape: tuple[int, ...]
    kernel: tuple[int, int]

    @property
    def length(self) -> int:
        """Number of positions in the row at which a window can begin.

        Some of these windows cross the border of an image; `read` leaves them out.
        """
        last_offset = (self.kernel[0] - 1) * self.shape[3] + self.kernel[1] - 1
        return len(self.entries) - last_offset

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        """Shape of the images with one pixel per window."""
        samples, channels, height, width = self.shape
        return samples, channels, height - self.kernel[0] + 1, width - self.kernel[1] + 1

    def shifts(self) -> Iterator[Tensor]:
        """Yield the first entries of all windows, then the second entries, row by row."""
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                offset = row * self.shape[3] + column
                yield self.entries[offset : offset + self.length]

    def read(self, values: Tensor) -> Tensor:
        """Return the results of all windows as images, without those that cross a border (a view).

        Args:
            values: One result per position in the row, (length,).
        """
        _, channels, height, width = self.shape
        strides = (channels * height * width, height * width, width, 1)
        return values.as_strided(self.output_shape, strides)


def average_pool(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor | None:
    """Compute `F.avg_pool2d`, whose signature this is; None if torch's kernel must do it.

    With a step of one pixel, `ceil_mode` has no effect.
    """
    window = _make_window(input, kernel_size, stride, padding)
    if window is None or divisor_override is not None:
        return None
    count: Tensor | int = window.kernel[0] * window.kernel[1]
    if not count_include_pad:
        ones = input.new_ones(1, 1, *input.shape[2:])
        count = _sum_windows(ones, window)
    if not _needs_gradient(input):
        return _sum_windows(input, window) / count
    pooled: Tensor = _AveragePool.apply(input, window, count)  # type: ignore[no-untyped-call]
    return pooled


def maximum_pool(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | None:
    """Compute `F.max_pool2d`, whose signature this is; None if torch's kernel must do it."""
    window = _make_window(input, kernel_size, stride, padding)
    if window is None or return_indices or make_pair(dilation) != (1, 1):
        return None
    # The gradient needs the position of each maximum, which torch's kernel finds just as fast.
    if _needs_gradient(input):
        return None
    layout = window.lay_out(input, -inf)
    shifts = layout.shifts()
    largest = next(shifts).clone()
    for shift in shifts:
        torch.maximum(largest, shift, out=largest)
    return layout.read(largest).contiguous()


def _make_window(
    input: Tensor, kernel_size: Size, stride: Size | None, padding: Size
) -> Window | None:
    """Return the window, or None if it moves by more than a pixel or torch's kernel is as fast."""
    is_image = type(input) is Tensor and input.ndim == 4 and input.device.type == "cpu"
    if not is_image or input.dtype not in (torch.float32, torch.float64):
        return None
    if input.numel() < MIN_ENTRIES or not input.is_contiguous():
        return None
    kernel = make_pair(kernel_size)
    step = kernel  # the default of torch
    if stride is not None and stride != []:
        step = make_pair(stride)
    margin = make_pair(padding)
    if step != (1, 1) or kernel == (1, 1):
        return None
    # Torch's kernel reports windows that do not fit and paddings that are too large.
    for side, size, extra in zip(input.shape[2:], kernel, margin, strict=True):
        if side + 2 * extra < size or 2 * extra > size:
            return None
    return Window(kernel, margin)


def make_pair(size: Size) -> tuple[int, int]:
    """Expand a setting of a two-dimensional function to two numbers."""
    if isinstance(size, int):
        return size, size
    return int(size[0]), int(size[-1])


def _needs_gradient(input: Tensor) -> bool:
    return torch.is_grad_enabled() and input.requires_grad


def _sum_windows(x: Tensor, window: Window) -> Tensor:
    layout = window.lay_out(x, 0.0)
    shifts = layout.shifts()
    total = next(shifts).clone()
    for shift in shifts:
        total += shift
    return layout.read(total)


class _AveragePool(torch.autograd.Function):
    """Sum of each window, divided by one count for all or by a count per position."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Window, count: Tensor | int) -> Tensor:
        ctx.window = window
        ctx.count = count
        return _sum_windows(x, window) / count

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        grad_x = _AveragePoolBackward.apply(  # type: ignore[no-untyped-call]
            g, ctx.window, ctx.count
        )
        return grad_x, None, None


class _AveragePoolBackward(torch.autograd.Function):
    """The gradient of a pixel: the sum of g / count over all windows that contain the pixel."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, window: Window, count: Tensor | int) -> Tensor:
        ctx.window = window
        ctx.count = count
        return _sum_windows(g / count, window.mirrored).contiguous()

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        grad_g = _AveragePool.apply(v, ctx.window, ctx.count)  # type: ignore[no-untyped-call]
        return grad_g, None, None

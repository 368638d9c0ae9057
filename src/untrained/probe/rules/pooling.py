"""Taylor rules of pooling: a maximum passes the derivatives of the largest entry, an average is
linear.
"""

from functools import lru_cache, reduce
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import RULES, Jet, Rule, TorchFunction, find_functions, taylor_rule
from untrained.probe.pooling import Size, make_pair
from untrained.probe.rules.structure import make_image_rule


def _make_max_pool_rule(func: TorchFunction, dimensions: int) -> Rule:
    def apply(input: Jet, *args: object, return_indices: bool = False, **kwargs: object) -> Jet:
        if return_indices:
            raise Unscorable("unsupported", f"{func.__name__} that returns indices")
        value, indices = func(input.value, *args, return_indices=True, **kwargs)
        # The indices count positions of a flattened image.
        leading = indices.shape[:-dimensions]
        flat_indices = indices.flatten(-dimensions).expand(2, *leading, -1)
        derivatives = input.derivatives.flatten(-dimensions).gather(-1, flat_indices)
        return Jet.of(value, derivatives.reshape(2, *value.shape))

    return apply


for _dimensions in (1, 2, 3):
    for _name in (f"max_pool{_dimensions}d", f"adaptive_max_pool{_dimensions}d"):
        _rule = _make_max_pool_rule(getattr(F, _name), _dimensions)
        RULES.update(dict.fromkeys(find_functions(_name), _rule))


@taylor_rule("avg_pool2d")
def _avg_pool2d(
    input: Jet,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Jet:
    if ceil_mode or divisor_override is not None or input.device.type != "cpu":
        rule = make_image_rule(F.avg_pool2d, 2)
        pooled: Jet = rule(
            input,
            kernel_size,
            stride,
            padding,
            ceil_mode,
            count_include_pad,
            divisor_override,
        )
        return pooled
    # On the CPU, adding shifted copies gives the same bits as torch's kernel, which takes five to
    # ten times as long.
    window = MeanWindow(
        make_pair(kernel_size), make_pair(stride or kernel_size), make_pair(padding)
    )
    count: Tensor | int = window.area
    if not count_include_pad:
        count = window.count_inside(tuple(input.shape[-2:]), input.dtype)
    value = window.sum(input.value).div_(count)
    derivatives = window.sum_by_axis(input.derivatives).div_(count)
    return Jet.of(value, derivatives)


class MeanWindow(NamedTuple):
    """A sliding window over the last two axes."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @property
    def area(self) -> int:
        """Number of entries."""
        return self.kernel[0] * self.kernel[1]

    def sum(self, x: Tensor) -> Tensor:
        """Sum each window row by row, in the order of torch's kernel."""
        rows = self._pad(x).unfold(-2, self.kernel[0], self.stride[0])
        windows = rows.unfold(-2, self.kernel[1], self.stride[1])
        total = None
        for row in windows.unbind(-2):
            for entry in row.unbind(-1):
                if total is None:
                    total = entry.clone(memory_format=torch.contiguous_format)
                else:
                    total += entry
        assert total is not None  # a window has at least one entry
        return total

    def sum_by_axis(self, x: Tensor) -> Tensor:
        """Sum each window over rows, then over columns: fewer additions, in another order."""
        # Derivatives need not have the bits of torch's kernel, so the cheaper order is used.
        rows = self._pad(x).unfold(-2, self.kernel[0], self.stride[0])
        row_sums = reduce(torch.add, rows.unbind(-1))
        columns = row_sums.unfold(-1, self.kernel[1], self.stride[1])
        return reduce(torch.add, columns.unbind(-1))

    def _pad(self, x: Tensor) -> Tensor:
        rows, columns = self.padding
        return F.pad(x, (columns, columns, rows, rows))

    @lru_cache(maxsize=64)  # noqa: B019 - a window is a few numbers
    def count_inside(self, size: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Count the entries of each window that are inside an image of that size."""
        return self.sum(torch.ones(size, dtype=dtype))

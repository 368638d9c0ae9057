"""Rules for pooling: derivatives follow the winner of a maximum, and an average is linear."""

from functools import lru_cache, reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.jets import RULES, Jet, Rule, names, rule
from untrained.probe.rules.structure import batched


def _max_pool(func: Any, spatial: int) -> Rule:
    """Derivatives are read where the value is largest."""

    def apply(input: Jet, *args: Any, return_indices: bool = False, **kwargs: Any) -> Any:
        if return_indices:
            raise Unscorable("unsupported", f"{func.__name__} that returns indices")
        value, where = func(input.value, *args, return_indices=True, **kwargs)
        index = where.flatten(-spatial).expand(2, *where.shape[:-spatial], -1)
        return Jet.of(value, input.tail.flatten(-spatial).gather(-1, index).reshape(2, *value.shape))

    return apply


for _dims in (1, 2, 3):
    for _name in (f"max_pool{_dims}d", f"adaptive_max_pool{_dims}d"):
        RULES.update({f: _max_pool(getattr(F, _name), _dims) for f in names(_name)})


@rule("avg_pool2d")
def _(
    input: Jet,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """On the CPU by adding shifted copies: torch's own kernel takes five to ten times as long for the same bits."""
    if ceil_mode or divisor_override is not None or input.device.type != "cpu":
        options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
        return batched(F.avg_pool2d, 2)(input, kernel_size, *options)
    window = Window(_pair(kernel_size), _pair(stride or kernel_size), _pair(padding))
    count = window.area if count_include_pad else window.inside(tuple(input.shape[-2:]), input.dtype)
    return Jet.of(window.sum(input.value).div_(count), window.quick_sum(input.tail).div_(count))


class Window(NamedTuple):
    """A sliding window over the last two axes."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @property
    def area(self) -> int:
        return self.kernel[0] * self.kernel[1]

    def sum(self, x: Tensor) -> Tensor:
        """The sum of each window, its entries added row by row, as torch does."""
        windows = self._padded(x).unfold(-2, self.kernel[0], self.stride[0]).unfold(-2, self.kernel[1], self.stride[1])
        first, *others = (entry for row in windows.unbind(-2) for entry in row.unbind(-1))
        total = first.clone(memory_format=torch.contiguous_format)
        for entry in others:
            total += entry
        return total

    def quick_sum(self, x: Tensor) -> Tensor:
        """The same sums, rows first and then columns: fewer additions, in another order."""
        rows = reduce(torch.add, self._padded(x).unfold(-2, self.kernel[0], self.stride[0]).unbind(-1))
        return reduce(torch.add, rows.unfold(-1, self.kernel[1], self.stride[1]).unbind(-1))

    def _padded(self, x: Tensor) -> Tensor:
        return F.pad(x, (self.padding[1], self.padding[1], self.padding[0], self.padding[0]))

    @lru_cache(maxsize=64)  # noqa: B019 - a window is a few numbers
    def inside(self, size: tuple[int, int], dtype: torch.dtype) -> Tensor:
        """How many entries of each window lie inside an image of that size."""
        return self.sum(torch.ones(size, dtype=dtype))


def _pair(n: Any) -> tuple[int, int]:
    return (n, n) if isinstance(n, int) else (int(n[0]), int(n[-1]))

"""Convolutions of many networks as products of matrices.

    patches   (..., G, N, C k k, positions)   what the kernel sees at each position
    weight    (G, 1, O, C k k)

On a GPU a convolution in as many groups as there are networks takes two to sixteen times as long as these products
(`benchmarks/population.py --part folds`), because few channels leave most of its arithmetic idle. On a CPU that holds
for 1x1 kernels. Patches of a 3x3 kernel take nine times the memory of the input, so there is a limit. Depthwise
convolutions stay what they are: their kernels on a GPU are written for many groups.
"""

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from untrained.probe.jets import Jet

LARGEST = 2**28  # entries of patches, a gigabyte in float32


def suit(input: Any, weight: Any, stride: Any, padding: Any, groups: int) -> bool:
    """Whether products are the faster way here, and fit into memory."""
    quick = bool(weight.is_cuda) or tuple(weight.shape[-2:]) == (1, 1)
    return quick and groups == 1 and weight.ndim == 5 and possible(input, weight, stride, padding)


def possible(input: Any, weight: Any, stride: Any, padding: Any) -> bool:
    """Whether `convolved` knows the settings, and patches are few enough."""
    if isinstance(weight, Jet) or isinstance(padding, str):
        return False
    rows, columns = pair(stride)
    moving = 2 if isinstance(input, Jet) else 1
    entries: int = moving * input.numel() * weight[0, 0, 0].numel() // (rows * columns)
    return entries <= LARGEST


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any) -> Tensor:
    """(..., G, N, C, H, W) by (G, O, C, k, k) is (..., G, N, O, H', W')."""
    seen = patches(x, tuple(weight.shape[-2:]), pair(stride), pair(padding), pair(dilation))
    out = weight.flatten(2)[:, None] @ seen.flatten(-2).flatten(-4, -2)
    out = out if bias is None else out + bias[:, None, :, None]
    return out.reshape(*out.shape[:-1], *seen.shape[-2:])


Pair = tuple[int, int]


def patches(x: Tensor, kernel: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """(..., C, H, W) -> (..., C, k, k, H', W'), a view of the padded input."""
    (top, left), (rows, columns) = padding, [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    padded = F.pad(x, (left, left, top, top)) if top or left else x
    windows = padded.unfold(-2, rows, stride[0]).unfold(-2, columns, stride[1])  # (..., C, H', W', rows, columns)
    return windows[..., :: dilation[0], :: dilation[1]].movedim((-2, -1), (-4, -3))


def pair(setting: Any) -> Pair:
    rows, columns = (setting, setting) if isinstance(setting, int) else tuple(setting) * (2 // len(setting))
    return rows, columns

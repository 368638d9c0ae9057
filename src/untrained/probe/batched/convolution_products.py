"""Convolutions of many networks as products of matrices.

    patches   (..., G, N, C k k, positions)   the inputs of the kernel at each position
    weight    (G, 1, O, C k k)

On a GPU a convolution with one group per network takes two to sixteen times as long as these
products (`benchmarks/population.py --part folds`), because few channels leave most of its
arithmetic units idle. On a CPU this holds for 1x1 kernels. Patches of a 3x3 kernel take nine times
the memory of the input, so there is a limit. Depthwise convolutions are not replaced: their GPU
kernels are written for many groups.
"""

from torch import Tensor
from torch.nn import functional as F

from untrained.probe.jets import Jet
from untrained.probe.pooling import Size, make_pair

MAX_PATCH_ENTRIES = 2**28  # one gigabyte in float32
Pair = tuple[int, int]


def are_products_faster(
    input: Tensor,
    weight: Tensor,
    stride: Size,
    padding: Size | str,
    groups: int,
) -> bool:
    """Whether products are faster here, and fit into memory."""
    is_fast_kernel = weight.is_cuda or tuple(weight.shape[-2:]) == (1, 1)
    if not is_fast_kernel or groups != 1 or weight.ndim != 5:
        return False
    return are_products_possible(input, weight, stride, padding)


def are_products_possible(
    input: Tensor,
    weight: Tensor,
    stride: Size,
    padding: Size | str,
) -> bool:
    """Whether `convolve_by_products` supports the settings, and the patches are small enough."""
    if isinstance(weight, Jet) or isinstance(padding, str):
        return False
    rows, columns = make_pair(stride)
    derivatives = 2 if isinstance(input, Jet) else 1
    kernel_entries = weight[0, 0, 0].numel()
    entries = derivatives * input.numel() * kernel_entries // (rows * columns)
    return entries <= MAX_PATCH_ENTRIES


def convolve_by_products(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size,
    dilation: Size,
) -> Tensor:
    """Convolve (..., G, N, C, H, W) with (G, O, C, k, k) to (..., G, N, O, H', W')."""
    kernel = (weight.shape[-2], weight.shape[-1])
    patches = extract_patches(
        x,
        kernel,
        make_pair(stride),
        make_pair(padding),
        make_pair(dilation),
    )
    kernel_rows = weight.flatten(2)[:, None]  # (G, 1, O, C k k)
    columns = patches.flatten(-2).flatten(-4, -2)  # (..., G, N, C k k, H' W')
    out = kernel_rows @ columns
    if bias is not None:
        out = out + bias[:, None, :, None]
    return out.reshape(*out.shape[:-1], *patches.shape[-2:])


def extract_patches(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """(..., C, H, W) -> (..., C, k, k, H', W'), a view of the padded input"""
    top, left = padding
    if top or left:
        x = F.pad(x, (left, left, top, top))
    rows = dilation[0] * (kernel[0] - 1) + 1
    columns = dilation[1] * (kernel[1] - 1) + 1
    # (..., C, H', W', rows, columns)
    windows = x.unfold(-2, rows, stride[0]).unfold(-2, columns, stride[1])
    return windows[..., :: dilation[0], :: dilation[1]].movedim((-2, -1), (-4, -3))

"""The operations of DARTS cells (Liu et al., ICLR 2019; arXiv:1806.09055) and the published sets.

Every convolution starts with a ReLU and ends with a batch norm. A separable convolution is applied
twice, a dilated one once. Search networks and final networks differ: in a search network norms have
no affine parameters, and a norm follows each pooling.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from untrained.errors import UsageError, make_unknown_name_error
from untrained.spaces.block_templates import copy_from_template
from untrained.spaces.core.layers import FactorizedReduce, Zero

# Arguments: channels, stride, whether norms are affine.
OperationBuilder = Callable[[int, int, bool], nn.Module]


@copy_from_template
def build_operation(name: str, channels: int, stride: int, *, search: bool = False) -> nn.Module:
    """Build an operation of a final network, or of a search network."""
    operation = _BUILDERS[name](channels, stride, not search)
    if search and isinstance(operation, nn.MaxPool2d | nn.AvgPool2d):
        return nn.Sequential(operation, nn.BatchNorm2d(channels, affine=False))
    return operation


def _list_separable_layers(
    channels: int, kernel: int, stride: int, affine: bool, dilation: int = 1
) -> list[nn.Module]:
    """Return ReLU, depthwise convolution, pointwise convolution and batch norm."""
    depthwise = nn.Conv2d(
        channels,
        channels,
        kernel,
        stride,
        padding=dilation * (kernel // 2),
        dilation=dilation,
        groups=channels,
        bias=False,
    )
    pointwise = nn.Conv2d(channels, channels, 1, bias=False)
    return [nn.ReLU(), depthwise, pointwise, nn.BatchNorm2d(channels, affine=affine)]


def _make_sep_conv_builder(kernel: int) -> OperationBuilder:
    def build_sep_conv(channels: int, stride: int, affine: bool) -> nn.Module:
        first = _list_separable_layers(channels, kernel, stride, affine)
        second = _list_separable_layers(channels, kernel, 1, affine)
        return nn.Sequential(*first, *second)

    return build_sep_conv


def _make_dil_conv_builder(kernel: int) -> OperationBuilder:
    def build_dil_conv(channels: int, stride: int, affine: bool) -> nn.Module:
        layers = _list_separable_layers(channels, kernel, stride, affine, dilation=2)
        return nn.Sequential(*layers)

    return build_dil_conv


def _build_conv_7x1_1x7(channels: int, stride: int, affine: bool) -> nn.Module:
    along_rows = nn.Conv2d(channels, channels, (1, 7), (1, stride), (0, 3), bias=False)
    along_columns = nn.Conv2d(channels, channels, (7, 1), (stride, 1), (3, 0), bias=False)
    norm = nn.BatchNorm2d(channels, affine=affine)
    return nn.Sequential(nn.ReLU(), along_rows, along_columns, norm)


def _build_none(channels: int, stride: int, affine: bool) -> nn.Module:
    return Zero(stride)


def _build_max_pool(channels: int, stride: int, affine: bool) -> nn.Module:
    return nn.MaxPool2d(3, stride, padding=1)


def _build_avg_pool(channels: int, stride: int, affine: bool) -> nn.Module:
    return nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)


def _build_skip_connect(channels: int, stride: int, affine: bool) -> nn.Module:
    if stride == 1:
        return nn.Identity()
    return FactorizedReduce(channels, channels, stride, affine=affine)


def _build_noise(channels: int, stride: int, affine: bool) -> nn.Module:
    return _Noise(stride)


class _Noise(nn.Module):
    """Standard normal noise in the shape of the (strided) input, also in evaluation mode."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return torch.randn_like(x[:, :, :: self.stride, :: self.stride])


_BUILDERS: dict[str, OperationBuilder] = {
    "none": _build_none,
    "max_pool_3x3": _build_max_pool,
    "avg_pool_3x3": _build_avg_pool,
    "skip_connect": _build_skip_connect,
    "sep_conv_3x3": _make_sep_conv_builder(3),
    "sep_conv_5x5": _make_sep_conv_builder(5),
    "dil_conv_3x3": _make_dil_conv_builder(3),
    "dil_conv_5x5": _make_dil_conv_builder(5),
    # The last three occur in cells older than DARTS, or in the space S4.
    "sep_conv_7x7": _make_sep_conv_builder(7),
    "conv_7x1_1x7": _build_conv_7x1_1x7,
    "noise": _build_noise,
}
OPERATIONS = tuple(_BUILDERS)

# --------------------------------------------------------------------------- sets of operations

_UNIFORM_SETS: dict[str, tuple[str, ...]] = {
    # The paper lists `none` too, but its decoding never keeps it.
    "darts": OPERATIONS[1:8],
    "darts8": OPERATIONS[:8],
    # HNAS's sampler mistakes the first of its seven columns for `none`, so it never samples the
    # last operation, dil_conv_5x5.
    "hnas": OPERATIONS[1:7],
    # S1 to S4: Zela et al., ICLR 2020 (arXiv:1909.09656).
    "s2": ("skip_connect", "sep_conv_3x3"),
    "s3": ("none", "skip_connect", "sep_conv_3x3"),
    "s4": ("noise", "sep_conv_3x3"),
    # s5 and s6 are names in the code of Zero-Cost-PT.
    "s5": OPERATIONS[1:8],
    "s6": ("sep_conv_5x5",),
}
_ABBREVIATIONS = {
    "max": "max_pool_3x3",
    "avg": "avg_pool_3x3",
    "skip": "skip_connect",
    "sep3": "sep_conv_3x3",
    "dil3": "dil_conv_3x3",
    "dil5": "dil_conv_5x5",
}
# S1 has its own two operations for each edge. Edges are ordered by node, then by source.
_S1 = {
    "normal": """skip dil3, skip dil5, skip dil5, skip sep3, skip dil3, max skip, skip sep3,
        skip sep3, skip dil3, skip sep3, max skip, skip dil3, dil3 dil5, dil3 dil5""",
    "reduce": """max avg, max dil3, max avg, max avg, skip dil5, max avg, max sep3, skip dil3,
        skip dil5, max avg, max avg, skip dil5, skip dil5, skip dil5""",
}
OPERATION_SETS = ("s1", *_UNIFORM_SETS)


def list_candidates(operation_set: str, kind: str, node: int, source: int) -> tuple[str, ...]:
    """Return the operations that a set has for one edge.

    Args:
        operation_set: One of `OPERATION_SETS`.
        kind: Kind of the cell, `normal` or `reduce`.
        node: Target of the edge, counted from 2.
        source: Source of the edge.
    """
    if operation_set not in OPERATION_SETS:
        raise make_unknown_name_error("set of operations", operation_set, OPERATION_SETS)
    if operation_set != "s1":
        return _UNIFORM_SETS[operation_set]
    if node > 5:
        raise UsageError("the operation set s1 is defined for cells of four nodes, not five")
    # Nodes 2, 3, ..., node - 1 have 2 + 3 + ... edges.
    edge = node * (node - 1) // 2 - 1 + source
    words = _S1[kind].split(",")[edge].split()
    return tuple(_ABBREVIATIONS[word] for word in words)

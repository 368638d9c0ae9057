"""The operations of DARTS cells (Liu et al., ICLR 2019; arXiv:1806.09055), by the names the field writes, and the sets
of them that papers search.

Every convolution starts with a ReLU and ends with a batch norm; a separable one is applied twice, a dilated one once.
Search nets and final nets differ: in a search net norms have no affine parameters, and one follows each pooling.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from untrained.errors import UsageError, unknown
from untrained.spaces._blocks import FactorizedReduce, Zero
from untrained.spaces.block_templates import copy_from_template


@copy_from_template
def operation(name: str, channels: int, stride: int, *, search: bool = False) -> nn.Module:
    """The operation called `name`, as in a final net or as in a search net."""
    made = _MAKERS[name](channels, stride, not search)
    if search and isinstance(made, nn.MaxPool2d | nn.AvgPool2d):
        return nn.Sequential(made, nn.BatchNorm2d(channels, affine=False))
    return made


def _separable(c: int, kernel: int, stride: int, affine: bool, dilation: int = 1) -> list[nn.Module]:
    padding = dilation * (kernel // 2)
    depthwise = nn.Conv2d(c, c, kernel, stride, padding, dilation, groups=c, bias=False)
    return [nn.ReLU(), depthwise, nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c, affine=affine)]


def _sep_conv(kernel: int) -> "Maker":
    return lambda c, stride, affine: nn.Sequential(
        *_separable(c, kernel, stride, affine), *_separable(c, kernel, 1, affine)
    )


def _dil_conv(kernel: int) -> "Maker":
    return lambda c, stride, affine: nn.Sequential(*_separable(c, kernel, stride, affine, dilation=2))


def _conv_7x1_1x7(c: int, stride: int, affine: bool) -> nn.Module:
    along = nn.Conv2d(c, c, (1, 7), (1, stride), (0, 3), bias=False)
    across = nn.Conv2d(c, c, (7, 1), (stride, 1), (3, 0), bias=False)
    return nn.Sequential(nn.ReLU(), along, across, nn.BatchNorm2d(c, affine=affine))


class _Noise(nn.Module):
    """Standard normal noise in the shape of the (strided) input, which it ignores; in evaluation mode too."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return torch.randn_like(x[:, :, :: self.stride, :: self.stride])


Maker = Callable[[int, int, bool], nn.Module]  # channels, stride, affine
_MAKERS: dict[str, Maker] = {
    "none": lambda c, stride, affine: Zero(stride),
    "max_pool_3x3": lambda c, stride, affine: nn.MaxPool2d(3, stride, padding=1),
    "avg_pool_3x3": lambda c, stride, affine: nn.AvgPool2d(3, stride, padding=1, count_include_pad=False),
    "skip_connect": lambda c, s, affine: nn.Identity() if s == 1 else FactorizedReduce(c, c, s, affine=affine),
    "sep_conv_3x3": _sep_conv(3),
    "sep_conv_5x5": _sep_conv(5),
    "dil_conv_3x3": _dil_conv(3),
    "dil_conv_5x5": _dil_conv(5),
    "sep_conv_7x7": _sep_conv(7),  # the last three are in cells older than DARTS, or in S4
    "conv_7x1_1x7": _conv_7x1_1x7,
    "noise": lambda c, stride, affine: _Noise(stride),
}
OPERATIONS = tuple(_MAKERS)

# ------------------------------------------------------------------------------------------- what is searched over

_SETS: dict[str, tuple[str, ...]] = {
    "darts": OPERATIONS[1:8],  # the paper lists `none` too, but its decoding never keeps it
    "darts8": OPERATIONS[:8],
    "hnas": OPERATIONS[1:7],  # its sampler takes the first of seven columns for `none` and so misses dil_conv_5x5
    "s2": ("skip_connect", "sep_conv_3x3"),  # S1 to S4: Zela et al., ICLR 2020 (arXiv:1909.09656)
    "s3": ("none", "skip_connect", "sep_conv_3x3"),
    "s4": ("noise", "sep_conv_3x3"),
    "s5": OPERATIONS[1:8],  # s5 and s6: names in the code of Zero-Cost-PT
    "s6": ("sep_conv_5x5",),
}
_SHORT = {
    "max": "max_pool_3x3",
    "avg": "avg_pool_3x3",
    "skip": "skip_connect",
    "sep3": "sep_conv_3x3",
    "dil3": "dil_conv_3x3",
    "dil5": "dil_conv_5x5",
}
_S1 = {  # two operations an edge, nodes in order and sources in order
    "normal": """skip dil3, skip dil5, skip dil5, skip sep3, skip dil3, max skip, skip sep3, skip sep3, skip dil3,
        skip sep3, max skip, skip dil3, dil3 dil5, dil3 dil5""",
    "reduce": """max avg, max dil3, max avg, max avg, skip dil5, max avg, max sep3, skip dil3, skip dil5, max avg,
        max avg, skip dil5, skip dil5, skip dil5""",
}
SETS = ("s1", *_SETS)


def candidates(operations: str, kind: str, node: int, source: int) -> tuple[str, ...]:
    """The operations that the set called `operations` has for one edge of a cell of this kind, `normal` or `reduce`."""
    if operations not in SETS:
        raise unknown("set of operations", operations, SETS)
    if operations != "s1":
        return _SETS[operations]
    if node > 5:
        raise UsageError("the set s1 gives operations to the edges of four nodes, and none to those of a fifth")
    edge = node * (node - 1) // 2 - 1 + source
    return tuple(_SHORT[word] for word in _S1[kind].split(",")[edge].split())

"""Layers that more than one space is built of. Convolutions have no bias: a norm follows each of them.

The networks of cell spaces are pre-activation: ReLU, convolution, batch norm. Spaces whose blocks end with the ReLU
have their own layers.
"""

from torch import Tensor, cat, nn
from torch.nn import functional as F


class ReLUConvBN(nn.Sequential):
    """ReLU, a convolution that keeps the size (or divides it by the stride), batch norm.

    Published code that looks for ReLUs by the names of types finds this one too, and counts it twice: NASWOT.
    """

    def __init__(self, cin: int, cout: int, kernel: int, stride: int = 1, *, affine: bool = True) -> None:
        conv = nn.Conv2d(cin, cout, kernel, stride, padding=kernel // 2, bias=False)
        super().__init__(nn.ReLU(), conv, nn.BatchNorm2d(cout, affine=affine))


class FactorizedReduce(nn.Module):
    """A skip connection of stride 2: one 1x1 convolution reads the even rows and columns, another the odd ones.

    DARTS's code has no padding and so needs even sizes; that of TransNAS-Bench-101 pads by one, which is the same
    function where the sizes are even and also works where they are odd. We pad.
    """

    def __init__(self, cin: int, cout: int, stride: int = 2, *, affine: bool = True) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.conv_1 = nn.Conv2d(cin, cout // 2, 1, stride, bias=False)
        self.conv_2 = nn.Conv2d(cin, cout - cout // 2, 1, stride, bias=False)
        self.bn = nn.BatchNorm2d(cout, affine=affine)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(x)
        shifted = F.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
        out: Tensor = self.bn(cat([self.conv_1(x), self.conv_2(shifted)], 1))
        return out


class Zero(nn.Module):
    """x * 0 at every `stride`-th position, so that a gradient still flows (as zeros) through a cut edge."""

    def __init__(self, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return (x if self.stride == 1 else x[:, :, :: self.stride, :: self.stride]) * 0.0


def drop_path(x: Tensor, probability: float) -> Tensor:
    """Each sample of `x` is zeroed with this probability; what stays is scaled so that the mean is kept."""
    return x * F.dropout(x.new_ones(len(x), *[1] * (x.ndim - 1)), probability)

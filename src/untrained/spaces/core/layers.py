"""Layers that several spaces use. Convolutions have no bias because a norm follows each of them.

The networks of cell spaces are pre-activation: ReLU, convolution, batch norm. Spaces whose blocks
end with the ReLU define their own layers.
"""

from torch import Tensor, cat, nn
from torch.nn import functional as F


class ReLUConvBN(nn.Sequential):
    """ReLU, a convolution that keeps the size (or divides it by the stride), batch norm.

    The name contains "ReLU" as in published code. NASWOT finds ReLUs by the names of their
    classes, so it counts this module in addition to the ReLU inside.
    """

    def __init__(
        self, cin: int, cout: int, kernel: int, stride: int = 1, *, affine: bool = True
    ) -> None:
        conv = nn.Conv2d(cin, cout, kernel, stride, padding=kernel // 2, bias=False)
        super().__init__(nn.ReLU(), conv, nn.BatchNorm2d(cout, affine=affine))


class FactorizedReduce(nn.Module):
    """A skip connection of stride 2.

    One 1x1 convolution reads the even rows and columns, another one the odd ones. DARTS's code
    does not pad and therefore needs even sizes. TransNAS-Bench-101 pads by one, which is the same
    function for even sizes and also works for odd ones, so this class pads.
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
        maps = cat([self.conv_1(x), self.conv_2(shifted)], 1)
        out: Tensor = self.bn(maps)
        return out


class Zero(nn.Module):
    """x * 0 at every `stride`-th position, so that the gradient is zero but not missing."""

    def __init__(self, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        if self.stride != 1:
            x = x[:, :, :: self.stride, :: self.stride]
        return x * 0.0


class SqueezeExcitation(nn.Module):
    """Scale every channel by a gate that is computed from the means of all channels.

    Hu et al., CVPR 2018 (arXiv:1709.01507): mean over positions, linear layer to `squeeze_width`
    channels, ReLU, linear layer back, sigmoid. The linear layers are 1x1 convolutions with bias.
    """

    def __init__(self, channels: int, squeeze_width: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, squeeze_width, 1)
        self.relu = nn.ReLU()
        self.expand = nn.Conv2d(squeeze_width, channels, 1)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        means = self.pool(x)
        hidden = self.relu(self.reduce(means))
        gates: Tensor = self.sigmoid(self.expand(hidden))
        return x * gates


def drop_path(x: Tensor, probability: float) -> Tensor:
    """Set each sample to zero with this probability and rescale the others to keep the mean."""
    ones = x.new_ones(len(x), *[1] * (x.ndim - 1))
    return x * F.dropout(ones, probability)

"""The inverted residual layer of MobileNetV2 (arXiv:1801.04381), with optional
squeeze-and-excitation.

A 1x1 convolution widens the input, a depthwise convolution filters each channel, and another 1x1
convolution narrows the result. Every convolution is followed by a batch norm.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from untrained.spaces.core.counts import (
    Counts,
    count_map_memory,
    count_norm_memory,
    count_squeeze_memory,
)
from untrained.spaces.core.layers import SqueezeExcitation

# The inner width of squeeze-and-excitation is the input width of the layer divided by this.
_SE_REDUCTION = 4


@dataclass(frozen=True)
class InvertedResidualPlan:
    """Sizes and settings of an inverted residual layer.

    Attributes:
        cin: Channels of the input.
        cout: Channels of the output.
        stride: Stride of the depthwise convolution.
        expansion: Channels of the depthwise convolution divided by `cin`; 1 for no widening.
        kernel: Side of the depthwise kernel.
        squeeze: Whether there is squeeze-and-excitation.
    """

    cin: int
    cout: int
    stride: int
    expansion: int
    kernel: int
    squeeze: bool

    @property
    def hidden(self) -> int:
        """Channels of the depthwise convolution."""
        return self.cin * self.expansion

    @property
    def squeeze_width(self) -> int:
        """Inner channels of squeeze-and-excitation."""
        return max(1, self.cin // _SE_REDUCTION)

    def count(self, pixels_before: int, pixels_after: int) -> Counts:
        """Return parameters and multiply-adds.

        Args:
            pixels_before: Number of positions in the input map.
            pixels_after: Number of positions in the output map.
        """
        params = 0
        flops = 0
        if self.expansion > 1:
            params += self.cin * self.hidden + 2 * self.hidden
            flops += self.cin * self.hidden * pixels_before
        depthwise = self.hidden * self.kernel**2
        params += depthwise + 2 * self.hidden
        flops += depthwise * pixels_after
        if self.squeeze:
            squeeze_weights = 2 * self.hidden * self.squeeze_width
            squeeze_biases = self.squeeze_width + self.hidden
            params += squeeze_weights + squeeze_biases
            flops += squeeze_weights
        params += self.hidden * self.cout + 2 * self.cout
        flops += self.hidden * self.cout * pixels_after
        return Counts(params, flops)

    def count_memory(self, pixels_before: int, pixels_after: int) -> int:
        """Return the bytes of buffers and results of operations, without the parameters.

        Args:
            pixels_before: Number of positions in the input map.
            pixels_after: Number of positions in the output map.
        """
        memory = 0
        if self.expansion > 1:
            memory += count_conv_norm_relu_memory(self.hidden, pixels_before)
        memory += count_conv_norm_relu_memory(self.hidden, pixels_after)
        if self.squeeze:
            memory += count_squeeze_memory(self.hidden, self.squeeze_width, pixels_after)
        memory += count_map_memory(self.cout, pixels_after)
        memory += count_norm_memory(self.cout, pixels_after)
        if self.stride == 1 and self.cin == self.cout:
            # The sum with the input.
            memory += count_map_memory(self.cout, pixels_after)
        return memory


def count_conv_norm_relu_memory(channels: int, pixels: int) -> int:
    """Return the bytes of buffers and results of `ConvNormReLU`."""
    return 2 * count_map_memory(channels, pixels) + count_norm_memory(channels, pixels)


class InvertedResidual(nn.Module):
    """1x1 expansion, depthwise convolution, optional squeeze-and-excitation, 1x1 projection.

    The input is added if it has the shape of the output.
    """

    def __init__(self, plan: InvertedResidualPlan) -> None:
        super().__init__()
        hidden = plan.hidden
        steps: list[nn.Module] = []
        if plan.expansion > 1:
            steps.append(ConvNormReLU(plan.cin, hidden, kernel=1))
        depthwise = ConvNormReLU(hidden, hidden, plan.kernel, plan.stride, groups=hidden)
        steps.append(depthwise)
        if plan.squeeze:
            steps.append(SqueezeExcitation(hidden, plan.squeeze_width))
        steps.append(nn.Conv2d(hidden, plan.cout, 1, bias=False))
        steps.append(nn.BatchNorm2d(plan.cout))
        self.steps = nn.Sequential(*steps)
        self.adds_input = plan.stride == 1 and plan.cin == plan.cout

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.steps(x)
        if self.adds_input:
            out = x + out
        return out


class ConvNormReLU(nn.Sequential):
    """A convolution without bias that keeps the size (or divides it by the stride), norm, ReLU."""

    def __init__(
        self, cin: int, cout: int, kernel: int, stride: int = 1, *, groups: int = 1
    ) -> None:
        conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(cout), nn.ReLU())

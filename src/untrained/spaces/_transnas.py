"""The networks of TransNAS-Bench-101: a convolutional encoder, and one head for each task.

We build what was benchmarked, with its accidents:
* the batch norm in the shortcut of a residual block has eps = 1.0 and momentum = 1.0 (positional arguments that were
  meant for something else), which halves the shortcut's variance. Every macro network that was trained has it;
* `none` between unequal shapes makes new zeros, so that no gradient flows back through it, not even zeros;
* the nine tiles of a jigsaw go through the encoder one after the other, so batch norm sees one tile of every sample.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from untrained.spaces._blocks import FactorizedReduce, ReLUConvBN, Zero
from untrained.types import Task

NODES = (1, 2, 3)
EDGES = tuple((to, source) for to in NODES for source in range(to))  # in the order of the official string


class Encoder(nn.Sequential):
    """A stem that quarters the resolution, then modules of two cells; `cell(cin, cout, stride)` makes one.

    `code` has a digit a module: 2 and 4 double the channels, 3 and 4 halve the resolution, in the module's first cell.
    """

    def __init__(self, code: Sequence[int], cell: Callable[[int, int, int], nn.Module], cin: int) -> None:
        device, c = torch.get_default_device(), 64
        with torch.device("meta"):  # torch's own initialisation would take as long as a forward pass, for nothing
            modules: list[nn.Module] = [_stem(cin, c)]
            for digit in code:
                out = c * 2 if digit in (2, 4) else c
                modules.append(nn.Sequential(cell(c, out, 2 if digit in (3, 4) else 1), cell(out, out, 1)))
                c = out
        super().__init__(*modules)
        self.to_empty(device=device).apply(_initialise)
        self.channels = c
        self.halvings = 2 + sum(digit in (3, 4) for digit in code)


def _stem(cin: int, cout: int) -> nn.Sequential:
    first = nn.Conv2d(cin, cout // 2, 3, stride=2, padding=1, bias=False)
    return nn.Sequential(first, nn.BatchNorm2d(cout // 2), ReLUConvBN(cout // 2, cout, 3, stride=2))


def _initialise(module: nn.Module) -> None:
    """He normal by fan out; the heads keep torch's default."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, nn.BatchNorm2d):
        module.reset_parameters()


# -------------------------------------------------------------------------------------------------------- cells


class MicroCell(nn.Module):
    """Four nodes; node i is the sum over earlier nodes j of edge (i <- j) applied to node j. Edges from the input
    change channels and resolution, the others keep them."""

    def __init__(self, ops: Sequence[str], cin: int, cout: int, stride: int) -> None:
        super().__init__()
        into = [(cout, 1) if source else (cin, stride) for _, source in EDGES]
        self.edges = nn.ModuleList(_operation(op, c, cout, s) for op, (c, s) in zip(ops, into, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        nodes = [x]
        for node in NODES:
            into = [edge(nodes[j]) for edge, (to, j) in zip(self.edges, EDGES, strict=True) if to == node]
            nodes.append(sum(into[1:], into[0]))
        return nodes[-1]


def _operation(op: str, cin: int, cout: int, stride: int) -> nn.Module:
    if op == "none":
        return Zero(stride) if cin == cout else _NewZeros(cout, stride)
    if op == "skip_connect":
        return nn.Identity() if (cin, stride) == (cout, 1) else FactorizedReduce(cin, cout, stride)
    return ReLUConvBN(cin, cout, 1 if op == "nor_conv_1x1" else 3, stride)


class _NewZeros(nn.Module):
    def __init__(self, cout: int, stride: int) -> None:
        super().__init__()
        self.cout, self.stride = cout, stride

    def forward(self, x: Tensor) -> Tensor:
        height, width = ((size - 1) // self.stride + 1 for size in x.shape[2:])
        return x.new_zeros(len(x), self.cout, height, width)


class ResidualCell(nn.Module):
    """Two ReLU-conv-norms beside a shortcut, which is a 1x1 convolution and that batch norm where the shape changes."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(ReLUConvBN(cin, cout, 3, stride), ReLUConvBN(cout, cout, 3))
        conv = nn.Conv2d(cin, cout, 1, stride, bias=False)
        projection = nn.Sequential(conv, nn.BatchNorm2d(cout, eps=1.0, momentum=1.0))
        self.shortcut = nn.Identity() if (cin, stride) == (cout, 1) else projection

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.shortcut(x) + self.residual(x)
        return out


# -------------------------------------------------------------------------------------------------------- heads


def classifier(encoder: Encoder, task: Task) -> nn.Module:
    """Scene, object, room layout: mean over positions, linear."""
    return nn.Sequential(encoder, _linear(encoder.channels, task.num_classes))


def _linear(channels: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, outputs))


class Jigsaw(nn.Module):
    """Which of the permutations has shuffled the tiles? One encoder for all, their maps side by side, linear.

    Takes tiles (samples, 9, channels, height, width), or images, which it cuts into 3 x 3.
    """

    def __init__(self, encoder: Encoder, task: Task) -> None:
        super().__init__()
        tiles = task.input_shape[0] if len(task.input_shape) == 4 else 9
        self.encoder = encoder
        self.head = _linear(encoder.channels * tiles, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        tiles = x.unbind(1) if x.ndim == 5 else _cut(x)
        out: Tensor = self.head(torch.cat([self.encoder(tile) for tile in tiles], 1))
        return out


def _cut(x: Tensor) -> list[Tensor]:
    """Nine tiles, row by row; what three does not divide is left over at the far edges."""
    height, width = x.shape[2] // 3, x.shape[3] // 3
    return [
        x[:, :, row * height : (row + 1) * height, column * width : (column + 1) * width]
        for row in range(3)
        for column in range(3)
    ]


def segmenter(encoder: Encoder, task: Task) -> nn.Module:
    """A class for every pixel: eight layers, of which as many double the resolution as the encoder has halved it."""
    c, doublings = 1024, encoder.halvings
    layers = [_decoding(nn.Conv2d(encoder.channels, c, 3, padding=1))]
    for _ in range(6 - doublings):
        layers.append(_decoding(nn.Conv2d(c, c // 2, 3, padding=1)))
        c //= 2
    for left in reversed(range(doublings)):
        out = c // 2 if left else c
        layers.append(_decoding(nn.ConvTranspose2d(c, out, 3, stride=2, padding=1, output_padding=1)))
        c = out
    return nn.Sequential(encoder, nn.Sequential(*layers, nn.Conv2d(c, task.num_classes, 3, padding=1)))


def _decoding(conv: nn.Conv2d | nn.ConvTranspose2d) -> nn.Module:
    return nn.Sequential(conv, nn.BatchNorm2d(conv.out_channels), nn.LeakyReLU(0.2))

"""The networks of TransNAS-Bench-101: a convolutional encoder and one head per task.

We build the networks of the benchmark, including its bugs:
* The batch norm in the shortcut of a residual block has eps = 1.0 and momentum = 1.0 (positional
  arguments that were meant for something else), which halves the variance of the shortcut. Every
  macro network that was trained has it.
* `none` between different shapes returns newly created zeros. The graph ends there: the input gets
  no gradient at all, not even zeros.
* The nine tiles of a jigsaw pass through the encoder one after the other, so batch norm sees one
  tile of every sample.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from untrained.spaces.core.layers import FactorizedReduce, ReLUConvBN, Zero
from untrained.types import Task

NODES = (1, 2, 3)
# (target, source) in the order of the official string.
EDGES = tuple((target, source) for target in NODES for source in range(target))
STEM_CHANNELS = 64

# Arguments: input channels, output channels, stride.
CellBuilder = Callable[[int, int, int], nn.Module]


def doubles_channels(digit: int) -> bool:
    """Return whether a module with this digit doubles the channels."""
    return digit in (2, 4)


def halves_resolution(digit: int) -> bool:
    """Return whether a module with this digit halves the resolution."""
    return digit in (3, 4)


class Encoder(nn.Sequential):
    """A stem that divides the resolution by four, then modules of two cells.

    The first cell of a module changes channels and resolution.

    Args:
        code: One digit per module; 2 and 4 double the channels, 3 and 4 halve the resolution.
        build_cell: Function of input channels, output channels and stride that returns a cell.
        cin: Channels of the images.
    """

    def __init__(self, code: Sequence[int], build_cell: CellBuilder, cin: int) -> None:
        device = torch.get_default_device()
        channels = STEM_CHANNELS
        # Weights are drawn below. torch's own initialisation would take as long as a forward pass,
        # so the modules are created without memory first.
        with torch.device("meta"):
            modules: list[nn.Module] = [_build_stem(cin, channels)]
            for digit in code:
                cout = 2 * channels if doubles_channels(digit) else channels
                stride = 2 if halves_resolution(digit) else 1
                first = build_cell(channels, cout, stride)
                second = build_cell(cout, cout, 1)
                modules.append(nn.Sequential(first, second))
                channels = cout
        super().__init__(*modules)
        self.to_empty(device=device).apply(_initialise_module)
        self.channels = channels
        self.halvings = 2 + sum(halves_resolution(digit) for digit in code)


def _build_stem(cin: int, cout: int) -> nn.Sequential:
    conv = nn.Conv2d(cin, cout // 2, 3, stride=2, padding=1, bias=False)
    norm = nn.BatchNorm2d(cout // 2)
    return nn.Sequential(conv, norm, ReLUConvBN(cout // 2, cout, 3, stride=2))


def _initialise_module(module: nn.Module) -> None:
    """Use He initialisation with fan-out. The heads keep torch's default."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, nn.BatchNorm2d):
        module.reset_parameters()


# --------------------------------------------------------------------------------------- cells


class MicroCell(nn.Module):
    """Four nodes; node i is the sum of edge (i <- j) applied to node j over all j < i.

    Edges from the input change channels and resolution, the others keep them.

    Attributes:
        skips_zeros: Whether edges without an operation are left out of sums with other edges. The
            outputs are the same. An export sets it.
    """

    skips_zeros = False

    def __init__(self, ops: Sequence[str], cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.edges = nn.ModuleList()
        for op, (_, source) in zip(ops, EDGES, strict=True):
            if source == 0:
                self.edges.append(_build_operation(op, cin, cout, stride))
            else:
                self.edges.append(_build_operation(op, cout, cout, 1))

    def forward(self, x: Tensor) -> Tensor:
        nodes = [x]
        for node in NODES:
            terms = []
            for edge in self._list_edges(node):
                source = EDGES[edge][1]
                terms.append(self.edges[edge](nodes[source]))
            nodes.append(sum(terms[1:], terms[0]))
        return nodes[-1]

    def _list_edges(self, node: int) -> list[int]:
        """Return the edges that are summed in a node, at least one."""
        edges = [edge for edge, (target, _) in enumerate(EDGES) if target == node]
        if not self.skips_zeros:
            return edges
        zeros = (Zero, _NewZeros)
        nonzero_edges = [edge for edge in edges if not isinstance(self.edges[edge], zeros)]
        return nonzero_edges or edges[:1]


def _build_operation(op: str, cin: int, cout: int, stride: int) -> nn.Module:
    if op == "none":
        if cin == cout:
            return Zero(stride)
        return _NewZeros(cout, stride)
    if op == "skip_connect":
        if cin == cout and stride == 1:
            return nn.Identity()
        return FactorizedReduce(cin, cout, stride)
    if op == "nor_conv_1x1":
        return ReLUConvBN(cin, cout, 1, stride)
    return ReLUConvBN(cin, cout, 3, stride)


class _NewZeros(nn.Module):
    """Zeros that do not depend on the input; see the docstring of this module."""

    def __init__(self, cout: int, stride: int) -> None:
        super().__init__()
        self.cout = cout
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        height = (x.shape[2] - 1) // self.stride + 1
        width = (x.shape[3] - 1) // self.stride + 1
        return x.new_zeros(len(x), self.cout, height, width)


class ResidualCell(nn.Module):
    """Two blocks of ReLU, convolution and norm beside a shortcut.

    Where the shape changes, the shortcut is a 1x1 convolution and the unusual batch norm.
    """

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        first = ReLUConvBN(cin, cout, 3, stride)
        second = ReLUConvBN(cout, cout, 3)
        self.residual = nn.Sequential(first, second)
        self.shortcut: nn.Module = nn.Identity()
        if cin != cout or stride != 1:
            conv = nn.Conv2d(cin, cout, 1, stride, bias=False)
            norm = nn.BatchNorm2d(cout, eps=1.0, momentum=1.0)
            self.shortcut = nn.Sequential(conv, norm)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.shortcut(x) + self.residual(x)
        return out


# --------------------------------------------------------------------------------------- heads


def build_classifier(encoder: Encoder, task: Task) -> nn.Module:
    """Build the network for scene, object and room layout: mean over positions, linear layer."""
    return nn.Sequential(encoder, _build_linear_head(encoder.channels, task.num_classes))


def _build_linear_head(channels: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, outputs))


class JigsawNetwork(nn.Module):
    """Predict which permutation was applied to nine tiles.

    One encoder processes all tiles; their maps are concatenated. The input is tiles (samples, 9,
    channels, height, width), or images, which are cut into 3 x 3 tiles.
    """

    def __init__(self, encoder: Encoder, task: Task) -> None:
        super().__init__()
        tile_count = 9
        if len(task.input_shape) == 4:
            tile_count = task.input_shape[0]
        self.encoder = encoder
        self.head = _build_linear_head(encoder.channels * tile_count, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        tiles: Sequence[Tensor] = x.unbind(1) if x.ndim == 5 else _cut_tiles(x)
        maps = [self.encoder(tile) for tile in tiles]
        out: Tensor = self.head(torch.cat(maps, 1))
        return out


def _cut_tiles(x: Tensor) -> list[Tensor]:
    """Return nine tiles, row by row; a remainder at the right and lower edges is ignored."""
    height = x.shape[2] // 3
    width = x.shape[3] // 3
    tiles = []
    for top in (0, height, 2 * height):
        for left in (0, width, 2 * width):
            tiles.append(x[:, :, top : top + height, left : left + width])
    return tiles


def build_segmenter(encoder: Encoder, task: Task) -> nn.Module:
    """Build the network for segmentation, with one class per pixel.

    The decoder has eight layers and doubles the resolution as often as the encoder halved it.
    """
    channels = 1024
    layers = [_build_decoder_layer(nn.Conv2d(encoder.channels, channels, 3, padding=1))]
    for _ in range(6 - encoder.halvings):
        conv = nn.Conv2d(channels, channels // 2, 3, padding=1)
        layers.append(_build_decoder_layer(conv))
        channels //= 2
    for remaining in reversed(range(encoder.halvings)):
        # The last layer keeps the channels.
        cout = channels // 2 if remaining else channels
        upsample = nn.ConvTranspose2d(channels, cout, 3, stride=2, padding=1, output_padding=1)
        layers.append(_build_decoder_layer(upsample))
        channels = cout
    last = nn.Conv2d(channels, task.num_classes, 3, padding=1)
    return nn.Sequential(encoder, nn.Sequential(*layers, last))


def _build_decoder_layer(conv: nn.Conv2d | nn.ConvTranspose2d) -> nn.Module:
    return nn.Sequential(conv, nn.BatchNorm2d(conv.out_channels), nn.LeakyReLU(0.2))

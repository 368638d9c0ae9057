"""The networks of ZenNAS (Lin et al., ICCV 2021; arXiv:2102.01063), also used by ZiCo and AZ-NAS.

A block consists of sublayers, a sublayer of residual units, a unit of convolutions with batch
norms. The network, the exact counts and the published counts all follow from one description,
`list_units`.

The official code has details that the paper does not mention, and we reproduce them:
* Batch norms have eps 1e-3.
* A projection is a 1x1 convolution *with* bias and a batch norm.
* The first unit of a block always has a projection; other units have one where the stride or the
  width changes.

The official `get_model_size` and `get_FLOPs` miscount (see `counts.py`). The published searches
checked their limits with them, so they are available as `variant="published"`. The official
training scripts, but not the searches, use Xavier initialisation with gain 3.26 and initialise the
last norm of each unit with zeros. Our networks have torch's default initialisation.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, prod

from torch import Tensor, nn

from untrained.errors import make_unknown_name_error
from untrained.types import Task


@dataclass(frozen=True, slots=True)
class ZenBlock:
    """`kind(cin,cout,stride,inner,layers)` of a structure string.

    The convolutions at both ends have no `inner`.
    """

    kind: str
    cin: int
    cout: int
    stride: int
    inner: int = 0
    layers: int = 1

    def __str__(self) -> str:
        numbers = [self.cin, self.cout, self.stride, self.layers]
        if self.inner:
            numbers.insert(3, self.inner)
        return f"{self.kind}({','.join(map(str, numbers))})"


@dataclass(frozen=True, slots=True)
class ZenConfig:
    """Settings of all blocks of a network. The names are the official ones.

    Attributes:
        use_se: Add squeeze-and-excitation.
        no_reslink: Remove additions and projections. ZenNAS and ZiCo score networks without them,
            and train networks with them.
        no_BN: Remove norms, except those of projections and of squeeze-and-excitation.
    """

    use_se: bool = False
    no_reslink: bool = False
    no_BN: bool = False  # noqa: N815 - official name


@dataclass(frozen=True, slots=True)
class ConvSpec:
    """A convolution without bias and its norm."""

    cin: int
    cout: int
    kernel: int
    stride: int = 1
    groups: int = 1


@dataclass(frozen=True, slots=True)
class ResidualUnit:
    """Convolutions with ReLU between them, an addition if `residual`, ReLU.

    Squeeze-and-excitation comes before the last convolution.
    """

    path: tuple[ConvSpec, ...]
    residual: bool = True
    has_projection: bool = False

    @property
    def cin(self) -> int:
        return self.path[0].cin

    @property
    def cout(self) -> int:
        return self.path[-1].cout

    @property
    def stride(self) -> int:
        return prod(conv.stride for conv in self.path)


# Arguments: input channels, output channels, stride.
PathFunction = Callable[[int, int, int], tuple[ConvSpec, ...]]


def list_units(block: ZenBlock) -> Iterator[ResidualUnit]:
    """Yield the units of a block."""
    match = re.fullmatch(r"SuperConvK(\d)BNRELU", block.kind)
    if match:
        conv = ConvSpec(block.cin, block.cout, int(match[1]), block.stride)
        yield ResidualUnit((conv,), residual=False)
        return
    widths, make_path = _describe_family(block)
    for index, (cin, cout) in enumerate(pairwise(widths)):
        # Only the first unit has the stride of the block.
        stride = block.stride if index == 0 else 1
        has_projection = index == 0 or cin != cout
        yield ResidualUnit(make_path(cin, cout, stride), has_projection=has_projection)


def _describe_family(block: ZenBlock) -> tuple[list[int], PathFunction]:
    """Return the widths between units, and a function that returns the path of a unit."""
    inner = block.inner
    if match := re.fullmatch(r"SuperResIDWE(\d)K(\d)", block.kind):
        expansion = int(match[1])
        kernel = int(match[2])

        def make_depthwise_path(cin: int, cout: int, stride: int) -> tuple[ConvSpec, ...]:
            expanded = cout * expansion
            return (
                ConvSpec(cin, expanded, 1),
                ConvSpec(expanded, expanded, kernel, stride, groups=expanded),
                ConvSpec(expanded, cout, 1),
            )

        # A sublayer is two units: to the bottleneck, then to the width of the block.
        return [block.cin, *[inner, block.cout] * block.layers], make_depthwise_path

    if match := re.fullmatch(r"SuperResK1K(\d)K1", block.kind):
        kernel = int(match[1])

        def make_bottleneck_path(cin: int, cout: int, stride: int) -> tuple[ConvSpec, ...]:
            return (
                ConvSpec(cin, inner, 1),
                ConvSpec(inner, inner, kernel, stride),
                ConvSpec(inner, cout, 1),
            )

        # A sublayer is two units of equal width.
        return [block.cin, *[block.cout] * (2 * block.layers)], make_bottleneck_path

    if match := re.fullmatch(r"SuperResK(\d)K\1", block.kind):
        kernel = int(match[1])

        def make_basic_path(cin: int, cout: int, stride: int) -> tuple[ConvSpec, ...]:
            return (ConvSpec(cin, inner, kernel, stride), ConvSpec(inner, cout, kernel))

        return [block.cin, *[block.cout] * block.layers], make_basic_path

    raise make_unknown_name_error(
        "block", block.kind, ["SuperResIDWE6K3", "SuperResK1K3K1", "SuperResK3K3"]
    )


def adapt_blocks(blocks: Sequence[ZenBlock], task: Task) -> list[ZenBlock]:
    """Return the blocks for a task.

    The first block gets the channels of the task. A stride that would leave a single pixel becomes
    1. (The official network keeps it; a norm then fails for one small image.)
    """
    channels, *sides = task.input_shape
    side = min(sides)
    adapted = []
    for block in [replace(blocks[0], cin=channels), *blocks[1:]]:
        stride = block.stride if side > block.stride else 1
        side = ceil(side / stride)
        adapted.append(replace(block, stride=stride))
    return adapted


def compute_squeeze_width(channels: int) -> int:
    """Return the inner channels of squeeze-and-excitation."""
    return max(1, round(channels / 4))


# --------------------------------------------------------------------------------- the network


class PlainNet(nn.Module):
    """Blocks one after the other, mean over the map, a linear layer."""

    def __init__(self, blocks: Sequence[ZenBlock], task: Task, config: ZenConfig) -> None:
        super().__init__()
        block_modules = []
        for block in adapt_blocks(blocks, task):
            units = [_build_unit(unit, config) for unit in list_units(block)]
            block_modules.append(nn.Sequential(*units))
        self.blocks = nn.Sequential(*block_modules)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(blocks[-1].cout, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.pool(self.blocks(x)).flatten(1))
        return logits


class _ResidualPath(nn.Module):
    """relu(path(x) + shortcut(x))."""

    def __init__(self, path: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.path = path
        self.shortcut = shortcut
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.path(x) + self.shortcut(x))
        return out


class _SqueezeExcite(nn.Module):
    """Multiply each channel by a gate between 0 and 1, computed from the means of all channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeeze_width = compute_squeeze_width(channels)
        down = nn.Conv2d(channels, squeeze_width, 1, bias=False)
        up = nn.Conv2d(squeeze_width, channels, 1, bias=False)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            down,
            _build_norm(squeeze_width),
            nn.ReLU(),
            up,
            _build_norm(channels),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.gate(x) * x
        return out


def _build_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def _build_unit(unit: ResidualUnit, config: ZenConfig) -> nn.Module:
    path = _list_path_layers(unit, config)
    if not unit.residual or config.no_reslink:
        return nn.Sequential(*path, nn.ReLU())
    # `path` is a generator: its layers are built after the shortcut, and weights are drawn in this
    # order.
    shortcut: nn.Module = nn.Identity()
    if unit.has_projection:
        conv = nn.Conv2d(unit.cin, unit.cout, 1, unit.stride)
        shortcut = nn.Sequential(conv, _build_norm(unit.cout))
    return _ResidualPath(nn.Sequential(*path), shortcut)


def _list_path_layers(unit: ResidualUnit, config: ZenConfig) -> Iterator[nn.Module]:
    """Yield the layers of a path; each is created when it is requested."""
    for index, conv in enumerate(unit.path):
        if index > 0:
            yield nn.ReLU()
        is_last = conv is unit.path[-1]
        if index > 0 and is_last and config.use_se:
            yield _SqueezeExcite(conv.cin)
        yield nn.Conv2d(
            conv.cin,
            conv.cout,
            conv.kernel,
            conv.stride,
            padding=(conv.kernel - 1) // 2,
            groups=conv.groups,
            bias=False,
        )
        if not config.no_BN:
            yield _build_norm(conv.cout)

"""The networks of ZenNAS (Lin et al., ICCV 2021; arXiv:2102.01063), also used by ZiCo and AZ-NAS: what a block is made
of, the network, and its size.

A block stands for sublayers, a sublayer for residual units, a unit for convolutions with batch norms. One description
(`units`) is read three times: by the network, by the true counts, and by the official ones.

What the official code does and the paper does not tell, and we do too: batch norms have eps 1e-3; a projection is a 1x1
convolution *with* bias and a batch norm; the first unit of a block projects always, the others where the stride or the
width changes. Its `get_model_size` and `get_FLOPs` miscount (see `model_size` and `flops`); budgets of the published
searches were checked with them, so they are here as `variant="published"`. Its training scripts, not its searches, draw
weights by Xavier's rule with gain 3.26 and start each unit's last norm at zero; networks here have torch's own weights.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, prod

from torch import Tensor, nn

from untrained.errors import unknown
from untrained.types import Task


@dataclass(frozen=True, slots=True)
class Block:
    """`kind(cin,cout,stride,inner,layers)` of a structure string; the convolutions at both ends have no `inner`."""

    kind: str
    cin: int
    cout: int
    stride: int
    inner: int = 0
    layers: int = 1

    def __str__(self) -> str:
        inner = f"{self.inner}," if self.inner else ""
        return f"{self.kind}({self.cin},{self.cout},{self.stride},{inner}{self.layers})"


@dataclass(frozen=True, slots=True)
class Style:
    """What holds for every block of a network. `no_reslink` drops additions and projections: ZenNAS and ZiCo score that
    network and train the other. `no_BN` drops norms except those of projections and of squeeze-and-excitation."""

    use_se: bool = False
    no_reslink: bool = False
    no_BN: bool = False  # noqa: N815 - the options carry their official names


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution without bias and its norm; in a `Path` ReLU follows all but the last."""

    cin: int
    cout: int
    kernel: int
    stride: int = 1
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """Convolutions, an addition if `residual`, ReLU; squeeze-and-excitation sits before the last convolution."""

    path: tuple[Conv, ...]
    residual: bool = True
    projects: bool = False

    @property
    def cin(self) -> int:
        return self.path[0].cin

    @property
    def cout(self) -> int:
        return self.path[-1].cout

    @property
    def stride(self) -> int:
        return prod(conv.stride for conv in self.path)


def units(block: Block) -> Iterator[Unit]:
    """The units that a block stands for."""
    if match := re.fullmatch(r"SuperConvK(\d)BNRELU", block.kind):
        yield Unit((Conv(block.cin, block.cout, int(match[1]), block.stride),), residual=False)
        return
    stops, path = _family(block)
    for n, (cin, cout) in enumerate(pairwise(stops)):
        stride = block.stride if n == 0 else 1
        yield Unit(path(cin, cout, stride), projects=n == 0 or cin != cout)


def _family(block: Block) -> tuple[list[int], Callable[[int, int, int], tuple[Conv, ...]]]:
    """The widths between units, and what leads from one to the next."""
    c, inner = block.cout, block.inner
    if match := re.fullmatch(r"SuperResIDWE(\d)K(\d)", block.kind):
        e, k = map(int, match.groups())
        return [block.cin, *[inner, c] * block.layers], lambda i, o, s: (
            Conv(i, o * e, 1),
            Conv(o * e, o * e, k, s, groups=o * e),
            Conv(o * e, o, 1),
        )
    if match := re.fullmatch(r"SuperResK1K(\d)K1", block.kind):
        k = int(match[1])
        return [block.cin, *[c, c] * block.layers], lambda i, o, s: (
            Conv(i, inner, 1),
            Conv(inner, inner, k, s),
            Conv(inner, o, 1),
        )
    if match := re.fullmatch(r"SuperResK(\d)K\1", block.kind):
        k = int(match[1])
        return [block.cin, *[c] * block.layers], lambda i, o, s: (Conv(i, inner, k, s), Conv(inner, o, k))
    raise unknown("block", block.kind, ["SuperResIDWE6K3", "SuperResK1K3K1", "SuperResK3K3"])


def fitted(blocks: Sequence[Block], task: Task) -> list[Block]:
    """The blocks for this task: its channels come in, and a stride that would leave a single pixel is not taken (the
    official network takes it; a norm then has nothing to average for one small image)."""
    channels, *sides = task.input_shape
    side, found = min(sides), []
    for block in [replace(blocks[0], cin=channels), *blocks[1:]]:
        stride = block.stride if side > block.stride else 1
        side = ceil(side / stride)
        found.append(replace(block, stride=stride))
    return found


# ------------------------------------------------------------------------------------------------------ the network


class PlainNet(nn.Module):
    """Blocks one after the other, mean over the map, a linear layer."""

    def __init__(self, blocks: Sequence[Block], task: Task, style: Style) -> None:
        super().__init__()
        built = [nn.Sequential(*(_unit(unit, style) for unit in units(block))) for block in fitted(blocks, task)]
        self.blocks = nn.Sequential(*built)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(blocks[-1].cout, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.pool(self.blocks(x)).flatten(1))
        return logits


class _Residual(nn.Module):
    def __init__(self, path: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.path, self.shortcut, self.relu = path, shortcut, nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.path(x) + self.shortcut(x))
        return out


class _SqueezeExcite(nn.Module):
    """Each channel times a number between 0 and 1 that all channels' means decide."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        c = squeezed(channels)
        down, up = nn.Conv2d(channels, c, 1, bias=False), nn.Conv2d(c, channels, 1, bias=False)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), down, _norm(c), nn.ReLU(), up, _norm(channels), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.gate(x) * x
        return out


def squeezed(channels: int) -> int:
    return max(1, round(channels / 4))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def _unit(unit: Unit, style: Style) -> nn.Module:
    path = _path(unit, style)
    if not unit.residual or style.no_reslink:
        return nn.Sequential(*path, nn.ReLU())
    shortcut: nn.Module = nn.Identity()
    if unit.projects:
        shortcut = nn.Sequential(nn.Conv2d(unit.cin, unit.cout, 1, unit.stride), _norm(unit.cout))
    return _Residual(nn.Sequential(*path), shortcut)


def _path(unit: Unit, style: Style) -> Iterator[nn.Module]:
    for n, conv in enumerate(unit.path):
        if n:
            yield nn.ReLU()
        if n and style.use_se and conv is unit.path[-1]:
            yield _SqueezeExcite(conv.cin)
        padding = (conv.kernel - 1) // 2
        yield nn.Conv2d(conv.cin, conv.cout, conv.kernel, conv.stride, padding, groups=conv.groups, bias=False)
        if not style.no_BN:
            yield _norm(conv.cout)

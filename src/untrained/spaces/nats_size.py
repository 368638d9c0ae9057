"""The size space of NATS-Bench (Dong et al., TPAMI 2021; arXiv:2009.00437).

All architectures have the same cell, the best of NAS-Bench-201 according to its authors. They
differ in five widths with eight options each: 32,768 architectures. An architecture is written as
its widths, `64:64:64:64:64`: stem and first cell, residual block, second cell, residual block,
third cell. Each number is the width of an output, so a cell may widen or narrow its input. The skip
edge of such a cell is what the official code calls a factorised reduction: at stride 1, a 1x1
convolution and a batch norm, without the ReLU that it has at stride 2. The official network returns
features and logits, ours returns the logits.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from untrained.drawings.diagrams import Stage, StageList
from untrained.spaces.core.counts import (
    CountedConv,
    Counts,
    can_halve_twice,
    list_residual_block_convs,
    sum_counts,
)
from untrained.spaces.core.layers import ReLUConvBN
from untrained.spaces.core.notation import make_parse_error
from untrained.spaces.core.space import Choose, NetworkBuilder, Space, register_space, space
from untrained.spaces.nasbench201 import CellSkeleton, ResidualBlock, build_stem
from untrained.types import Arch, Genes, Task

WIDTHS = (8, 16, 24, 32, 40, 48, 56, 64)
_CHOICE_NAMES = ("cell1", "reduction1", "cell2", "reduction2", "cell3")


class NatsSizeNotation:
    """The official string: five widths, `8:16:24:32:64`."""

    def format(self, genes: Genes) -> str:
        return ":".join(str(width) for _, width in genes)

    def parse(self, text: str) -> Genes:
        parts = text.split(":")
        position = 0
        for index, part in enumerate(parts):
            if index == len(_CHOICE_NAMES):
                raise make_parse_error(text, position, "the end")
            if not part.strip().isdecimal():
                raise make_parse_error(text, position, "a width")
            # One more for the colon.
            position += len(part) + 1
        if len(parts) < len(_CHOICE_NAMES):
            expected = f"':' and a width, {len(_CHOICE_NAMES)} in all"
            raise make_parse_error(text, len(text), expected)
        widths = [int(part) for part in parts]
        return tuple(zip(_CHOICE_NAMES, widths, strict=True))


def _draw_stages(arch: Arch) -> StageList:
    stages = [Stage("conv 3x3", int(arch["cell1"]))]
    for name, width in arch.genes:
        if name.startswith("reduction"):
            stages.append(Stage("residual", int(width), stride=2))
        else:
            stages.append(Stage("cell", int(width)))
    return StageList(tuple(stages))


def _count_network(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Sum over the stem and the five steps."""
    if not can_halve_twice(task):
        return None
    widths = [int(width) for _, width in arch.genes]
    pixels = prod(task.input_shape[1:])
    convs = [CountedConv(task.input_shape[0], widths[0], 3, pixels)]
    for step, (cin, cout) in enumerate(pairwise([widths[0], *widths])):
        if _is_reduction(step):
            pixels //= 4
            convs += list_residual_block_convs(cin, cout, pixels)
            continue
        convs += [CountedConv(cin, cout, 3, pixels)] * 2
        convs += [CountedConv(cout, cout, 3, pixels)] * 3
        if cin != cout:
            convs.append(CountedConv(cin, cout, 1, pixels))
    return sum_counts(convs, widths[-1], task.num_classes, norm=True)


def _is_reduction(step: int) -> bool:
    """Return whether step 0 to 4 of the network is a residual block rather than a cell."""
    return step % 2 == 1


@register_space
@space(
    task=Task("cifar10", (3, 32, 32), 10),
    notation=NatsSizeNotation(),
    draw=_draw_stages,
    size=len(WIDTHS) ** len(_CHOICE_NAMES),
    counts=_count_network,
)
def nats_size(choose: Choose, task: Task) -> NetworkBuilder:
    """One cell in five widths of 8 to 64 channels; 32,768 architectures with known accuracies."""
    widths = [choose(name, WIDTHS) for name in _CHOICE_NAMES]
    return partial(NATSSize, widths, task)


class NATSSize(CellSkeleton):
    """Three cells, with a residual block of stride 2 before the second and before the third.

    `widths` are those of these five parts, in the order of the string. The stem has the first one.
    """

    def __init__(self, widths: Sequence[int], task: Task) -> None:
        # The stem is built before the cells because weights are drawn in this order.
        stem = build_stem(task, widths[0])
        cells: list[nn.Module] = []
        for step, (cin, cout) in enumerate(pairwise([widths[0], *widths])):
            if _is_reduction(step):
                cells.append(ResidualBlock(cin, cout))
            else:
                cells.append(_NatsCell(cin, cout))
        super().__init__(stem, cells, widths[-1], task)


class _NatsCell(nn.Module):
    """The fixed cell.

    |nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|
    """

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.from_input = nn.ModuleList(ReLUConvBN(cin, cout, 3) for _ in range(2))
        self.from_first = nn.ModuleList(ReLUConvBN(cout, cout, 3) for _ in range(2))
        self.from_second = ReLUConvBN(cout, cout, 3)
        # The projection is built even where the skip edge is the identity: it consumes random
        # numbers, on which the weights of the next layers depend.
        projection = nn.Sequential(nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip: nn.Module = projection
        if cin == cout:
            self.skip = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        first = self.from_input[0](x)
        second = self.from_input[1](x) + self.from_first[0](first)
        out: Tensor = self.skip(x) + self.from_first[1](first) + self.from_second(second)
        return out

"""The size space of NATS-Bench (Dong et al., TPAMI 2021; arXiv:2009.00437).

One cell, the best of NAS-Bench-201 found by its authors, and five widths out of eight each: 32,768 architectures.
An architecture is written as its widths, `64:64:64:64:64`: stem and first cell, residual block, second cell, residual
block, third cell. Every width is that of a layer's output, so a cell may widen or narrow its input. Its skip edge is
then what the official code calls a factorised reduction; at stride 1 that is a plain 1x1 convolution and batch norm,
without the ReLU it has at stride 2. The official network returns features and logits, ours the logits.
"""

from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

from torch import Tensor, nn

from untrained.spaces._blocks import ReLUConvBN
from untrained.spaces._counts import Conv, Counts, halves_twice, reduction, total
from untrained.spaces._notation import malformed
from untrained.spaces._sketch import Stage, Stages
from untrained.spaces._space import SPACES, Space, space
from untrained.spaces.nasbench201 import Framed, ResidualBlock, stem
from untrained.types import Arch, Genes, Task

WIDTHS = (8, 16, 24, 32, 40, 48, 56, 64)
_NAMES = ("cell1", "reduction1", "cell2", "reduction2", "cell3")


class _Notation:
    """The official string: five widths, `8:16:24:32:64`."""

    def format(self, genes: Genes) -> str:
        return ":".join(str(width) for _, width in genes)

    def parse(self, text: str) -> Genes:
        parts, at = text.split(":"), 0
        for index, part in enumerate(parts):
            if not part.strip().isdecimal() or index == len(_NAMES):
                raise malformed(text, at, "the end" if index == len(_NAMES) else "a width")
            at += len(part) + 1
        if len(parts) < len(_NAMES):
            raise malformed(text, len(text), f"':' and a width, {len(_NAMES)} in all")
        return tuple((name, int(part)) for name, part in zip(_NAMES, parts, strict=True))


def _sketch(arch: Arch) -> Stages:
    stages = [Stage("conv 3x3", int(arch["cell1"]))]
    for name, width in arch.genes:
        reduces = name.startswith("reduction")
        stages.append(Stage("residual" if reduces else "cell", int(width), stride=2 if reduces else 1))
    return Stages(tuple(stages))


def _counts(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Sums over the five steps."""
    if not halves_twice(task):
        return None
    widths, pixels = [int(width) for _, width in arch.genes], prod(task.input_shape[1:])
    convs = [Conv(task.input_shape[0], widths[0], 3, pixels)]
    for i, (cin, cout) in enumerate(pairwise([widths[0], *widths])):
        if i % 2:
            pixels //= 4
            convs += reduction(cin, cout, pixels)
        else:
            convs += 2 * [Conv(cin, cout, 3, pixels)] + 3 * [Conv(cout, cout, 3, pixels)]
            convs += [Conv(cin, cout, 1, pixels)] if cin != cout else []
    return total(convs, widths[-1], task.num_classes, norm=True)


@space(
    task=Task("cifar10", (3, 32, 32), 10),
    notation=_Notation(),
    sketch=_sketch,
    size=len(WIDTHS) ** len(_NAMES),
    counts=_counts,
)
def nats_size(choose: Any, task: Task) -> Any:
    """One cell in five widths of 8 to 64 channels; 32,768 architectures with known accuracies."""
    return partial(NATSSize, [choose(name, WIDTHS) for name in _NAMES], task)


SPACES.add("nats_size", nats_size)


class NATSSize(Framed):
    """Three cells with residual blocks of stride 2 between them; `widths` in the order of the string."""

    def __init__(self, widths: list[int], task: Task) -> None:
        steps = pairwise([widths[0], *widths])
        cells = (ResidualBlock(*io) if i % 2 else _Cell(*io) for i, io in enumerate(steps))
        super().__init__(stem(task, widths[0]), cells, widths[-1], task)


class _Cell(nn.Module):
    """|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"""

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.from_input = nn.ModuleList(ReLUConvBN(cin, cout, 3) for _ in range(2))
        self.from_first = nn.ModuleList(ReLUConvBN(cout, cout, 3) for _ in range(2))
        self.from_second = ReLUConvBN(cout, cout, 3)
        narrowing = nn.Sequential(nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Identity() if cin == cout else narrowing

    def forward(self, x: Tensor) -> Tensor:
        first = self.from_input[0](x)
        second = self.from_input[1](x) + self.from_first[0](first)
        out: Tensor = self.skip(x) + self.from_first[1](first) + self.from_second(second)
        return out

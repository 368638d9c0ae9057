"""Parameters and multiply-adds of networks of DARTS cells by formula.

All convolutions of a cell have outputs of one size, except for those that preprocess its inputs.
The counts are therefore sums over edges, cells and the stem.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, prod

from untrained.spaces.core.counts import CountedConv, Counts, sum_counts
from untrained.spaces.darts.genotype import KINDS, Genotype
from untrained.spaces.darts.network import DartsConfig, list_cells
from untrained.types import Task

# An operation of cells older than DARTS. Its kernels are not square, so there is no formula.
_UNSUPPORTED_OPERATION = "conv_7x1_1x7"


def count_network(genotype: Genotype, task: Task, config: DartsConfig) -> Counts | None:
    """Return the counts, or None for an auxiliary tower or an unsupported operation."""
    if config.auxiliary or _has_unsupported_operation(genotype):
        return None
    convs, sides = _list_stem_convs(task, config)
    input_channels = (config.stem_channels, config.stem_channels)
    for channels, kind in list_cells(config):
        wiring = genotype[kind]
        reduction = 2 if kind == "reduce" else 1
        cell_sides = _divide_sides(sides, reduction)
        # With pooling, the inputs are halved before they are preprocessed.
        preprocess_sides = cell_sides if config.pooled else sides
        for cin in input_channels:
            convs.append(CountedConv(cin, channels, 1, prod(preprocess_sides)))
        for op, source in wiring.edges:
            has_stride = source < 2 and not config.pooled
            stride = reduction if has_stride else 1
            convs += _list_edge_convs(op, channels, stride, prod(cell_sides))
        sides = cell_sides
        input_channels = (input_channels[1], len(wiring.concat) * channels)
    return sum_counts(convs, input_channels[1], task.num_classes, norm=False)


def _has_unsupported_operation(genotype: Genotype) -> bool:
    for kind in KINDS:
        for op, _ in genotype[kind].edges:
            if op == _UNSUPPORTED_OPERATION:
                return True
    return False


def _list_stem_convs(task: Task, config: DartsConfig) -> tuple[list[CountedConv], list[int]]:
    """Return the convolutions of the stem, and the sides of its output."""
    cin, *sides = task.input_shape
    stem_channels = config.stem_channels
    widths = [cin, stem_channels]
    if config.has_imagenet_stem:
        widths = [cin, stem_channels // 2, stem_channels, stem_channels]
    stride = 1 if config.stem == "cifar" else 2
    convs = []
    for conv_cin, conv_cout in pairwise(widths):
        sides = _divide_sides(sides, stride)
        convs.append(CountedConv(conv_cin, conv_cout, 3, prod(sides)))
    return convs, sides


def _list_edge_convs(op: str, channels: int, stride: int, pixels: int) -> Iterator[CountedConv]:
    """Yield depthwise and pointwise convolutions: two of each if separable, one if dilated."""
    if op == "skip_connect" and stride == 2:
        # A factorised reduction: two convolutions of half the width count as one.
        yield CountedConv(channels, channels, 1, pixels)
    if "_conv_" in op:
        repeats = 2 if op.startswith("sep") else 1
        kernel = int(op[-1])
        for _ in range(repeats):
            yield CountedConv(channels, channels, kernel, pixels, norm=False, groups=channels)
            yield CountedConv(channels, channels, 1, pixels)


def _divide_sides(sides: list[int], stride: int) -> list[int]:
    return [ceil(side / stride) for side in sides]

"""Sizes of networks of DARTS cells without building them. Every convolution of a cell but those that bring its inputs
to its width makes a map of the cell's own sides, so sums over edges, cells and stem are all there is."""

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, prod

from untrained.spaces._counts import Conv, Counts, total
from untrained.spaces._darts_net import Plan, widths
from untrained.spaces._genotype import Genotype
from untrained.types import Task

_UNKNOWN = "conv_7x1_1x7"  # of cells older than DARTS; its kernels are no squares


def counts(genotype: Genotype, task: Task, plan: Plan) -> Counts | None:
    """None for what is rare: an auxiliary tower, and the operation of old cells."""
    if plan.auxiliary or any(op == _UNKNOWN for kind in ("normal", "reduce") for op, _ in genotype[kind].edges):
        return None
    convs, sides = _stem(task, plan)
    before = (convs[-1].cout,) * 2
    for channels, kind in widths(plan):
        wiring, halves = genotype[kind], 2 if kind == "reduce" else 1
        inside = _halved(sides, halves)
        entered = inside if plan.pooled else sides
        convs += [Conv(cin, channels, 1, prod(entered)) for cin in before]
        for op, source in wiring.edges:
            stride = halves if source < 2 and not plan.pooled else 1
            convs += _edge(op, channels, stride, prod(inside))
        sides, before = inside, (before[1], len(wiring.concat) * channels)
    return total(convs, before[1], task.num_classes, norm=False)


def _stem(task: Task, plan: Plan) -> tuple[list[Conv], list[int]]:
    """The convolutions before the first cell, and the sides of its newer input."""
    cin, *sides = task.input_shape
    c = plan.channels if plan.stem == "imagenet" else 3 * plan.channels
    through = [cin, c // 2, c, c] if plan.imagenet else [cin, c]
    stride = 1 if plan.stem == "cifar" else 2
    convs = []
    for before, after in pairwise(through):
        sides = _halved(sides, stride)
        convs.append(Conv(before, after, 3, prod(sides)))
    return convs, sides


def _edge(op: str, c: int, stride: int, pixels: int) -> Iterator[Conv]:
    """The convolutions of an operation: twice a depthwise and a pointwise one if separable, once if dilated."""
    if op == "skip_connect" and stride == 2:
        yield Conv(c, c, 1, pixels)  # two convolutions of half the width
    if "_conv_" in op:
        for _ in range(2 if op.startswith("sep") else 1):
            yield Conv(c, c, int(op[-1]), pixels, norm=False, groups=c)
            yield Conv(c, c, 1, pixels)


def _halved(sides: list[int], stride: int) -> list[int]:
    return [ceil(side / stride) for side in sides]

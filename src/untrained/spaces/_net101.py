"""The network of NAS-Bench-101 and NAS-Bench-1Shot1 for one cell: stem, stacks of equal cells, head; and its size."""

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import torch
from torch import Tensor, nn

from untrained.spaces._counts import Conv, Counts, total
from untrained.spaces._spec101 import Spec, channels
from untrained.types import Task

KERNELS = {"conv3x3-bn-relu": 3, "conv1x1-bn-relu": 1}


class ConvBNReLU(nn.Sequential):
    """Convolution, batch norm, ReLU. TensorFlow's momentum 0.997 is 0.003 here."""

    def __init__(self, cin: int, cout: int, kernel: int) -> None:
        conv = nn.Conv2d(cin, cout, kernel, padding=kernel // 2, bias=False)
        super().__init__(conv, nn.BatchNorm2d(cout, momentum=0.003), nn.ReLU())


def operation(op: str, width: int) -> nn.Module:
    if op == "maxpool3x3":
        return nn.MaxPool2d(3, stride=1, padding=1)
    return ConvBNReLU(width, width, KERNELS[op])


class Cell101(nn.Module):
    """A pruned cell from `cin` to `cout` channels. The input is projected for every vertex that reads it and added
    after the inner tensors; inner vertices that feed the output are concatenated."""

    def __init__(self, spec: Spec, cin: int, cout: int) -> None:
        super().__init__()
        self.spec, self.last, self.widths = spec, len(spec.ops) - 1, channels(spec, cin, cout)
        self.project = nn.ModuleDict({str(v): ConvBNReLU(cin, self.widths[v], 1) for v in spec.targets(0)})
        self.ops = nn.ModuleDict({str(v): operation(spec.ops[v], self.widths[v]) for v in range(1, self.last)})

    def forward(self, x: Tensor) -> Tensor:
        made: dict[int, Tensor] = {}
        for v in range(1, self.last):
            made[v] = self.ops[str(v)](self._total(v, [_first(made[u], self.widths[v]) for u in self._inner(v)], x))
        joined = [made[v] for v in self._inner(self.last)]
        return self._total(self.last, [torch.cat(joined, 1)] if joined else [], x)

    def _inner(self, vertex: int) -> list[int]:
        return [u for u in self.spec.sources(vertex) if u > 0]

    def _total(self, vertex: int, terms: list[Tensor], x: Tensor) -> Tensor:
        if self.spec.matrix[0][vertex]:
            terms = [*terms, self.project[str(vertex)](x)]
        return sum(terms[1:], terms[0])


def _first(x: Tensor, width: int) -> Tensor:
    return x if x.shape[1] == width else x[:, :width]


class Skeleton101(nn.Module):
    """Stem, stacks of cells that `cell(cin, cout)` makes, head; channels double from one stack to the next."""

    def __init__(
        self, cell: Callable[[int, int], nn.Module], task: Task, channels: int = 128, *, stacks: int = 3, cells: int = 3
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [ConvBNReLU(task.input_shape[0], channels, 3)]
        width = channels
        for stack in range(stacks):
            before, width = width, channels * 2**stack
            if stack:
                layers.append(nn.MaxPool2d(2))
            layers += [cell(width if place else before, width) for place in range(cells)]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Linear(width, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.layers(x).mean((2, 3)))
        return logits


class NASBench101(Skeleton101):
    """The network of a pruned cell, its vertices in the order given."""

    def __init__(self, spec: Spec, task: Task, channels: int = 128, *, stacks: int = 3, cells: int = 3) -> None:
        super().__init__(partial(Cell101, spec), task, channels, stacks=stacks, cells=cells)


# ----------------------------------------------------------------------------------------------------------- its size


def counts(spec: Spec, task: Task, channels: int = 128, *, stacks: int = 3, cells: int = 3) -> Counts | None:
    """Sums over vertices, cells and stacks, each of which has half the sides."""
    cin, *sides = task.input_shape
    convs, c = [Conv(cin, channels, 3, prod(sides))], channels
    for stack in range(stacks):
        before, c = c, channels * 2**stack
        pixels = prod(side >> stack for side in sides)
        convs += _convs(spec, before, c, pixels)
        convs += (cells - 1) * list(_convs(spec, c, c, pixels))
    return total(convs, c, task.num_classes, norm=False)


def _convs(spec: Spec, cin: int, cout: int, pixels: int) -> Iterator[Conv]:
    """Those of one cell: a projection for every vertex that reads the input, and the operations."""
    widths = channels(spec, cin, cout)
    yield from (Conv(cin, widths[v], 1, pixels) for v in spec.targets(0))
    yield from (Conv(w, w, KERNELS[op], pixels) for op, w in zip(spec.ops, widths, strict=True) if op in KERNELS)

"""The network of NAS-Bench-101 and NAS-Bench-1Shot1: stem, stacks of equal cells, classifier."""

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import torch
from torch import Tensor, nn

from untrained.spaces.core.counts import CountedConv, Counts, sum_counts
from untrained.spaces.nasbench101.graph import CellSpec, compute_channels
from untrained.types import Task

KERNELS = {"conv3x3-bn-relu": 3, "conv1x1-bn-relu": 1}


class ConvBNReLU(nn.Sequential):
    """Convolution, batch norm, ReLU. TensorFlow's momentum 0.997 is 0.003 in torch."""

    def __init__(self, cin: int, cout: int, kernel: int) -> None:
        conv = nn.Conv2d(cin, cout, kernel, padding=kernel // 2, bias=False)
        super().__init__(conv, nn.BatchNorm2d(cout, momentum=0.003), nn.ReLU())


def build_vertex_operation(op: str, width: int) -> nn.Module:
    """Build the operation of a vertex."""
    if op == "maxpool3x3":
        return nn.MaxPool2d(3, stride=1, padding=1)
    return ConvBNReLU(width, width, KERNELS[op])


class Cell101(nn.Module):
    """A pruned cell from `cin` to `cout` channels.

    Each vertex that reads the input has its own projection of it, which is added to the tensors of
    inner vertices. For the output, the inner vertices that feed it are concatenated first.
    """

    def __init__(self, spec: CellSpec, cin: int, cout: int) -> None:
        super().__init__()
        self.spec = spec
        self.last = len(spec.ops) - 1
        self.widths = compute_channels(spec, cin, cout)
        self.project = nn.ModuleDict()
        for vertex in spec.targets(0):
            self.project[str(vertex)] = ConvBNReLU(cin, self.widths[vertex], 1)
        self.ops = nn.ModuleDict()
        for vertex in range(1, self.last):
            op = build_vertex_operation(spec.ops[vertex], self.widths[vertex])
            self.ops[str(vertex)] = op

    def forward(self, x: Tensor) -> Tensor:
        outputs: dict[int, Tensor] = {}
        for vertex in range(1, self.last):
            width = self.widths[vertex]
            terms = []
            for source in self._list_inner_sources(vertex):
                terms.append(_truncate_channels(outputs[source], width))
            outputs[vertex] = self.ops[str(vertex)](self._sum_inputs(vertex, terms, x))
        output_tensors = [outputs[vertex] for vertex in self._list_inner_sources(self.last)]
        terms = []
        if output_tensors:
            terms.append(torch.cat(output_tensors, 1))
        return self._sum_inputs(self.last, terms, x)

    def _list_inner_sources(self, vertex: int) -> list[int]:
        return [source for source in self.spec.sources(vertex) if source > 0]

    def _sum_inputs(self, vertex: int, terms: list[Tensor], x: Tensor) -> Tensor:
        """Add the projected input of the cell to the terms if the vertex reads it."""
        if self.spec.matrix[0][vertex]:
            terms = [*terms, self.project[str(vertex)](x)]
        return sum(terms[1:], terms[0])


def _truncate_channels(x: Tensor, width: int) -> Tensor:
    if x.shape[1] == width:
        return x
    return x[:, :width]


class Skeleton101(nn.Module):
    """Stem, stacks of cells, classifier; channels double from one stack to the next.

    Args:
        build_cell: Function of input and output channels that returns a cell.
        task: Input channels and number of classes.
        channels: Channels of the stem and of the first stack.
        stacks: Number of stacks.
        cells: Cells per stack.
    """

    def __init__(
        self,
        build_cell: Callable[[int, int], nn.Module],
        task: Task,
        channels: int = 128,
        *,
        stacks: int = 3,
        cells: int = 3,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [ConvBNReLU(task.input_shape[0], channels, 3)]
        width = channels
        for stack in range(stacks):
            stack_width = channels * 2**stack
            if stack > 0:
                layers.append(nn.MaxPool2d(2))
            for _ in range(cells):
                layers.append(build_cell(width, stack_width))
                width = stack_width
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Linear(width, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.layers(x).mean((2, 3)))
        return logits


class NASBench101(Skeleton101):
    """The network of a pruned cell; the order of its vertices is kept."""

    def __init__(
        self,
        spec: CellSpec,
        task: Task,
        channels: int = 128,
        *,
        stacks: int = 3,
        cells: int = 3,
    ) -> None:
        super().__init__(partial(Cell101, spec), task, channels, stacks=stacks, cells=cells)


# ------------------------------------------------------------------------------------- counts


def count_network(
    spec: CellSpec, task: Task, channels: int = 128, *, stacks: int = 3, cells: int = 3
) -> Counts | None:
    """Sum over vertices, cells and stacks; every stack after the first halves the sides."""
    cin, *sides = task.input_shape
    convs = [CountedConv(cin, channels, 3, prod(sides))]
    width = channels
    for stack in range(stacks):
        stack_width = channels * 2**stack
        pixels = prod(side >> stack for side in sides)
        convs += _list_cell_convs(spec, width, stack_width, pixels)
        convs += (cells - 1) * list(_list_cell_convs(spec, stack_width, stack_width, pixels))
        width = stack_width
    return sum_counts(convs, width, task.num_classes, norm=False)


def _list_cell_convs(spec: CellSpec, cin: int, cout: int, pixels: int) -> Iterator[CountedConv]:
    """Yield a projection for every vertex that reads the input, and the operations."""
    widths = compute_channels(spec, cin, cout)
    for vertex in spec.targets(0):
        yield CountedConv(cin, widths[vertex], 1, pixels)
    for op, width in zip(spec.ops, widths, strict=True):
        if op in KERNELS:
            yield CountedConv(width, width, KERNELS[op], pixels)

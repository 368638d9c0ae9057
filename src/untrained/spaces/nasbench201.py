"""NAS-Bench-201 (Dong & Yang, ICLR 2020; arXiv:2001.00326), also the topology space of NATS-Bench.

A cell has four nodes; each of its six edges carries one of five operations: 15,625 cells. The network is the
benchmark's own: stem, three stages of N cells with C, 2C, 4C channels, a residual block of stride 2 between stages,
and only the chosen operations are built. (zero-cost-nas and its descendants score another network, with biases before
non-affine batch norms and all unused operations registered; numbers published with it differ in detail.)
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from untrained._options import Count
from untrained.errors import UsageError
from untrained.spaces._blocks import ReLUConvBN, Zero
from untrained.spaces._counts import Conv, Counts, halves_twice, reduction, total
from untrained.spaces._notation import malformed
from untrained.spaces._sketch import Cell
from untrained.spaces._space import SPACES, Space, space
from untrained.spaces._supernet import Forms, Mixture, Scores, descending, lend, mixed, plain, uniform
from untrained.spaces.block_templates import copy_from_template
from untrained.types import Arch, Genes, Task

OPS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
EDGES = ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2))  # (to, from) in the order of the official string
_NAMES = tuple(f"{to}<-{source}" for to, source in EDGES)


class _Notation:
    """The official string: `|nor_conv_3x3~0|+|none~0|skip_connect~1|+|...~0|...~1|...~2|`."""

    def format(self, genes: Genes) -> str:
        ops = dict(genes)
        nodes = (
            "".join(f"|{ops[name]}~{source}" for name, (to, source) in zip(_NAMES, EDGES, strict=True) if to == node)
            for node in (1, 2, 3)
        )
        return "+".join(f"{node}|" for node in nodes)

    def parse(self, text: str) -> Genes:
        genes, at = [], 0

        def expect(token: str) -> None:
            nonlocal at
            if not text.startswith(token, at):
                raise malformed(text, at, repr(token))
            at += len(token)

        for name, (to, source) in zip(_NAMES, EDGES, strict=True):
            if source == 0 and to > 1:
                expect("|+")
            expect("|")
            op = next((op for op in OPS if text.startswith(f"{op}~", at)), None)
            if op is None:
                raise malformed(text, at, f"one of {', '.join(OPS)} and '~{source}'")
            at += len(op)
            expect(f"~{source}")
            genes.append((name, op))
        expect("|")
        if at != len(text):
            raise malformed(text, at, "the end")
        return tuple(genes)


def _sketch(arch: Arch) -> Cell:
    edges = tuple((source, to, str(arch[name])) for name, (to, source) in zip(_NAMES, EDGES, strict=True))
    return Cell(("input", "1", "2", "output"), edges)


class Framed(nn.Module):
    """A stem, cells with residual blocks between them, and the head that reads so many channels of the last one."""

    def __init__(self, stem: nn.Module, cells: Iterable[nn.Module], channels: int, task: Task) -> None:
        super().__init__()
        self.stem = stem
        self.cells = nn.Sequential(*cells)
        self.lastact = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        features = self.lastact(self.cells(self.stem(x)))
        logits: Tensor = self.classifier(self.global_pooling(features).flatten(1))
        return logits


def stem(task: Task, channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(task.input_shape[0], channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))


class _Network(Framed):
    """Three stages of equal cells, each of twice the channels; `cell(channels)` makes the cells."""

    def __init__(self, cell: Callable[[int], nn.Module], task: Task, channels: int = 16, cells: int = 5) -> None:
        c = channels
        stages: list[nn.Module] = []
        for stage in range(3):
            if stage:
                stages.append(_residual(c, 2 * c))
                c *= 2
            stages.extend(cell(c) for _ in range(cells))
        super().__init__(stem(task, channels), stages, c, task)


class NASBench201(_Network):
    """The network of one architecture; `ops` in the order of `EDGES`."""

    def __init__(self, ops: Sequence[str], task: Task, channels: int = 16, cells: int = 5) -> None:
        super().__init__(partial(_Cell, ops), task, channels, cells)


class Supernet201(_Network):
    """All operations on every edge, weighted by `mixture`. Change entries of the mixture, do not replace it."""

    def __init__(self, task: Task, channels: int = 16, cells: int = 5) -> None:
        mixture = uniform(dict.fromkeys(_NAMES, len(OPS)))
        super().__init__(partial(_MixedCell, mixture), task, channels, cells)
        self.options, self.mixture = dict.fromkeys(_NAMES, OPS), mixture
        self._task, self._shape = task, (channels, cells)

    def subnet(self, arch: Arch) -> NASBench201:
        """The network of `arch` with these very parameters."""
        ops = [str(arch[name]) for name in _NAMES]
        with torch.device("meta"):
            net = NASBench201(ops, self._task, *self._shape)
        for name, part in net.named_children():
            if name != "cells":
                lend(self.get_submodule(name), part)
        for ours, theirs in zip(self.cells, net.cells, strict=True):
            if isinstance(ours, _MixedCell):
                ours.lend(theirs, ops)
            else:
                lend(ours, theirs)
        return net.train(self.training)

    def decoded(self, scores: Scores) -> Iterator[Forms]:
        """The most wanted operation on every edge, then what is nearly as wanted."""
        return ((genes,) for genes in descending(plain(self.options, scores)))


class _Cell(nn.Module):
    """Node i is the sum over earlier nodes j of edge (i <- j) applied to node j; the output is node 3."""

    def __init__(self, ops: Sequence[str], channels: int) -> None:
        super().__init__()
        self.edges = nn.ModuleList(_operation(op, channels) for op in ops)

    def forward(self, x: Tensor) -> Tensor:
        nodes = [x]
        for node in (1, 2, 3):
            into = [self.edge(e, nodes[j]) for e, (to, j) in enumerate(EDGES) if to == node]
            nodes.append(sum(into[1:], into[0]))
        return nodes[-1]

    def edge(self, edge: int, x: Tensor) -> Tensor:
        out: Tensor = self.edges[edge](x)
        return out


class _MixedCell(_Cell):
    """The same graph with a mixture of all operations on each edge."""

    def __init__(self, mixture: Mixture, channels: int) -> None:
        super().__init__((), channels)
        self.mixture = mixture
        self.edges.extend(nn.ModuleList(_operation(op, channels) for op in OPS) for _ in EDGES)

    def edge(self, edge: int, x: Tensor) -> Tensor:
        return mixed(self.mixture[_NAMES[edge]], list(self.edges[edge].children()), x)

    def lend(self, cell: nn.Module, ops: Sequence[str]) -> None:
        """Give the cell of these operations the weights of this one."""
        for e, op in enumerate(ops):
            lend(self.get_submodule(f"edges.{e}.{OPS.index(op)}"), cell.get_submodule(f"edges.{e}"))


@copy_from_template
def _operation(op: str, channels: int) -> nn.Module:
    if op == "none":
        return Zero()
    if op == "skip_connect":
        return nn.Identity()
    if op == "avg_pool_3x3":
        return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    return ReLUConvBN(channels, channels, 1 if op == "nor_conv_1x1" else 3)


class ResidualBlock(nn.Module):
    """Two convolutions, the first of stride 2, beside average pooling and a 1x1 convolution without norm."""

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.conv_a = ReLUConvBN(cin, cout, 3, stride=2)
        self.conv_b = ReLUConvBN(cout, cout, 3)
        self.downsample = nn.Sequential(nn.AvgPool2d(2, stride=2), nn.Conv2d(cin, cout, 1, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv_b(self.conv_a(x)) + self.downsample(x)
        return out


_residual = copy_from_template(ResidualBlock)


def _counts(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Sums over edges, cells and stages."""
    if not halves_twice(task):
        return None
    options, kernels = dict(space.options), [3 if "3x3" in str(op) else 1 for _, op in arch.genes if "conv" in str(op)]
    c, pixels = options.get("channels", 16), prod(task.input_shape[1:])
    convs = [Conv(task.input_shape[0], c, 3, pixels)]
    for stage in range(3):
        if stage:
            pixels //= 4
            convs += reduction(c, 2 * c, pixels)
            c *= 2
        convs += [Conv(c, c, kernel, pixels) for kernel in kernels] * options.get("cells", 5)
    return total(convs, c, task.num_classes, norm=True)


@space(
    task=Task("cifar10", (3, 32, 32), 10),
    notation=_Notation(),
    sketch=_sketch,
    size=len(OPS) ** len(EDGES),
    supernet=Supernet201,
    counts=_counts,
)
def nasbench201(choose: Any, task: Task, channels: Count = 16, cells: Count = 5) -> Any:
    """Cells of four nodes and six edges, five operations an edge; 15,625 architectures with known accuracies."""
    ops = [choose(name, OPS) for name in _NAMES]
    return partial(NASBench201, ops, task, channels, cells)


SPACES.add("nasbench201", nasbench201)


# ------------------------------------------------------------------------------------------------- official index


@cache
def _official_order() -> tuple[tuple[str, ...], ...]:
    """All cells in the order of the published benchmark: lexicographic, then shuffled with its fixed seed."""
    cells = list(product(OPS, repeat=len(EDGES)))
    random.Random(88).shuffle(cells)
    return tuple(cells)


@cache
def _official_index() -> dict[tuple[str, ...], int]:
    return {ops: index for index, ops in enumerate(_official_order())}


def index_of(arch: Arch) -> int:
    """The index of the architecture in the published benchmark."""
    return _official_index()[tuple(str(op) for _, op in arch.genes)]


def from_index(index: int) -> Arch:
    """The architecture that the published benchmark lists under `index`."""
    if not 0 <= index < len(_official_order()):
        raise UsageError(f"NAS-Bench-201 has the indices 0 to {len(_official_order()) - 1}, not {index}")
    genes: Genes = tuple(zip(_NAMES, _official_order()[index], strict=True))
    return Arch("nasbench201", genes, _Notation().format(genes))

"""NAS-Bench-201 (Dong & Yang, ICLR 2020; arXiv:2001.00326), also the topology space of NATS-Bench.

A cell has four nodes; each of its six edges carries one of five operations: 15,625 cells. The
network is that of the benchmark: a stem, three stages of N cells with C, 2C and 4C channels, and a
residual block of stride 2 between stages. Only the chosen operations are built. (zero-cost-nas and
code derived from it score a different network: its convolutions have biases, its batch norms are
not affine, and unused operations are built too. Numbers published with that code differ slightly.)
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from math import prod

import torch
from torch import Tensor, nn

from untrained.drawings.diagrams import CellGraph
from untrained.errors import UsageError
from untrained.options import Count
from untrained.spaces.block_templates import copy_from_template
from untrained.spaces.core.counts import (
    CountedConv,
    Counts,
    can_halve_twice,
    list_residual_block_convs,
    sum_counts,
)
from untrained.spaces.core.layers import ReLUConvBN, Zero
from untrained.spaces.core.notation import make_parse_error
from untrained.spaces.core.space import Choose, NetworkBuilder, Space, register_space, space
from untrained.spaces.core.supernet import (
    EquivalentGenes,
    Mixture,
    OptionScores,
    group_options_by_choice,
    make_uniform_mixture,
    mix_branches,
    rank_combinations,
    share_weights,
)
from untrained.types import Arch, Genes, Task

OPS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
# (target, source) in the order of the official string.
EDGES = ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2))
_EDGE_NAMES = tuple(f"{target}<-{source}" for target, source in EDGES)


# ------------------------------------------------------------------------------ notation, drawing


class Nasbench201Notation:
    """The official string: `|nor_conv_3x3~0|+|none~0|skip_connect~1|+|...~0|...~1|...~2|`."""

    def format(self, genes: Genes) -> str:
        ops = dict(genes)
        node_texts = ["", "", ""]
        for name, (target, source) in zip(_EDGE_NAMES, EDGES, strict=True):
            node_texts[target - 1] += f"|{ops[name]}~{source}"
        return "+".join(f"{text}|" for text in node_texts)

    def parse(self, text: str) -> Genes:
        genes = []
        position = 0
        for name, (target, source) in zip(_EDGE_NAMES, EDGES, strict=True):
            # The first edge of the second and third node starts a new group.
            if source == 0 and target > 1:
                position = _skip_token(text, position, "|+")
            position = _skip_token(text, position, "|")
            op = _find_operation(text, position)
            if op is None:
                expected = f"one of {', '.join(OPS)} and '~{source}'"
                raise make_parse_error(text, position, expected)
            position = _skip_token(text, position + len(op), f"~{source}")
            genes.append((name, op))
        position = _skip_token(text, position, "|")
        if position != len(text):
            raise make_parse_error(text, position, "the end")
        return tuple(genes)


def _skip_token(text: str, position: int, token: str) -> int:
    """Return the position after `token`, which must be at `position`."""
    if not text.startswith(token, position):
        raise make_parse_error(text, position, repr(token))
    return position + len(token)


def _find_operation(text: str, position: int) -> str | None:
    """Return the operation whose name is at `position`, or None."""
    for op in OPS:
        if text.startswith(f"{op}~", position):
            return op
    return None


def _draw_cell(arch: Arch) -> CellGraph:
    edges = []
    for name, (target, source) in zip(_EDGE_NAMES, EDGES, strict=True):
        edges.append((source, target, str(arch[name])))
    return CellGraph(("input", "1", "2", "output"), tuple(edges))


# ---------------------------------------------------------------------------------- the network


class CellSkeleton(nn.Module):
    """A stem, a sequence of cells and residual blocks, and a classifier.

    Args:
        stem: First layers.
        cells: Cells and residual blocks in order.
        channels: Output channels of the last cell.
        task: Number of classes.
    """

    def __init__(
        self, stem: nn.Module, cells: Iterable[nn.Module], channels: int, task: Task
    ) -> None:
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


def build_stem(task: Task, channels: int) -> nn.Sequential:
    """Return the 3x3 convolution and batch norm before the first cell."""
    conv = nn.Conv2d(task.input_shape[0], channels, 3, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(channels))


class ThreeStageNetwork(CellSkeleton):
    """Three stages of equal cells; the channels double from stage to stage.

    Args:
        build_cell: Function of the number of channels that returns a cell.
        task: Input channels and number of classes.
        channels: Channels of the first stage.
        cells: Cells per stage.
    """

    def __init__(
        self,
        build_cell: Callable[[int], nn.Module],
        task: Task,
        channels: int = 16,
        cells: int = 5,
    ) -> None:
        width = channels
        layers: list[nn.Module] = []
        for stage in range(3):
            if stage > 0:
                layers.append(_build_residual_block(width, 2 * width))
                width *= 2
            for _ in range(cells):
                layers.append(build_cell(width))
        super().__init__(build_stem(task, channels), layers, width, task)


class NASBench201(ThreeStageNetwork):
    """The network of one architecture; `ops` are in the order of `EDGES`."""

    def __init__(self, ops: Sequence[str], task: Task, channels: int = 16, cells: int = 5) -> None:
        super().__init__(partial(_Cell201, ops), task, channels, cells)


class _Cell201(nn.Module):
    """Node i is the sum of edge (i <- j) applied to node j over all j < i; node 3 is the output.

    Attributes:
        skips_zeros: Whether edges without an operation are left out of sums with other edges. The
            outputs are the same. An export sets it.
    """

    skips_zeros = False

    def __init__(self, ops: Sequence[str], channels: int) -> None:
        super().__init__()
        self.edges = nn.ModuleList(_build_operation(op, channels) for op in ops)

    def forward(self, x: Tensor) -> Tensor:
        nodes = [x]
        for node in (1, 2, 3):
            terms = []
            for edge in self._list_edges(node):
                source = EDGES[edge][1]
                terms.append(self.apply_edge(edge, nodes[source]))
            nodes.append(sum(terms[1:], terms[0]))
        return nodes[-1]

    def _list_edges(self, node: int) -> list[int]:
        """Return the edges that are summed in a node, at least one."""
        edges = [edge for edge, (target, _) in enumerate(EDGES) if target == node]
        if not self.skips_zeros:
            return edges
        nonzero_edges = [edge for edge in edges if not isinstance(self.edges[edge], Zero)]
        return nonzero_edges or edges[:1]

    def apply_edge(self, edge: int, x: Tensor) -> Tensor:
        out: Tensor = self.edges[edge](x)
        return out


# Torch takes a tenth of a millisecond to construct a layer. A template copies an earlier block and
# only draws new weights.
@copy_from_template
def _build_operation(op: str, channels: int) -> nn.Module:
    if op == "none":
        return Zero()
    if op == "skip_connect":
        return nn.Identity()
    if op == "avg_pool_3x3":
        return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    if op == "nor_conv_1x1":
        return ReLUConvBN(channels, channels, 1)
    return ReLUConvBN(channels, channels, 3)


class ResidualBlock(nn.Module):
    """Two convolutions, the first of stride 2.

    The shortcut is average pooling and a 1x1 convolution without norm.
    """

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.conv_a = ReLUConvBN(cin, cout, 3, stride=2)
        self.conv_b = ReLUConvBN(cout, cout, 3)
        self.downsample = nn.Sequential(
            nn.AvgPool2d(2, stride=2), nn.Conv2d(cin, cout, 1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv_b(self.conv_a(x)) + self.downsample(x)
        return out


_build_residual_block = copy_from_template(ResidualBlock)


# --------------------------------------------------------------------------------- the supernet


class Supernet201(ThreeStageNetwork):
    """All operations on every edge, weighted by `mixture`.

    The cells hold the same dictionary: change entries of `mixture`, do not replace it.
    """

    def __init__(self, task: Task, channels: int = 16, cells: int = 5) -> None:
        mixture = make_uniform_mixture(dict.fromkeys(_EDGE_NAMES, len(OPS)))
        super().__init__(partial(_MixedCell201, mixture), task, channels, cells)
        self.options = dict.fromkeys(_EDGE_NAMES, OPS)
        self.mixture = mixture
        self._task = task
        self._channels = channels
        self._cell_count = cells

    def subnet(self, arch: Arch) -> NASBench201:
        """Return the network of `arch`, which uses the parameters of this supernet."""
        ops = [str(arch[name]) for name in _EDGE_NAMES]
        with torch.device("meta"):
            network = NASBench201(ops, self._task, self._channels, self._cell_count)
        for name, part in network.named_children():
            if name != "cells":
                share_weights(self.get_submodule(name), part)
        for own_cell, cell in zip(self.cells, network.cells, strict=True):
            if isinstance(own_cell, _MixedCell201):
                own_cell.share_operations(cell, ops)
            else:
                share_weights(own_cell, cell)
        return network.train(self.training)

    def decode_scores(self, scores: OptionScores) -> Iterator[EquivalentGenes]:
        """Iterate over architectures, starting with the best operation on every edge."""
        for genes in rank_combinations(group_options_by_choice(self.options, scores)):
            yield (genes,)


class _MixedCell201(_Cell201):
    """The same graph with a mixture of all operations on each edge."""

    def __init__(self, mixture: Mixture, channels: int) -> None:
        super().__init__((), channels)
        self.mixture = mixture
        for _ in EDGES:
            branches = nn.ModuleList(_build_operation(op, channels) for op in OPS)
            self.edges.append(branches)

    def apply_edge(self, edge: int, x: Tensor) -> Tensor:
        weights = self.mixture[_EDGE_NAMES[edge]]
        return mix_branches(weights, list(self.edges[edge].children()), x)

    def share_operations(self, cell: nn.Module, ops: Sequence[str]) -> None:
        """Let `cell`, which has these operations, use the weights of this cell."""
        for edge, op in enumerate(ops):
            branch = self.get_submodule(f"edges.{edge}.{OPS.index(op)}")
            share_weights(branch, cell.get_submodule(f"edges.{edge}"))


# ------------------------------------------------------------------------------------ the space


def _count_network(space: Space, arch: Arch, task: Task) -> Counts | None:
    """Sum over edges, cells and stages."""
    if not can_halve_twice(task):
        return None
    kernels = []
    for _, op in arch.genes:
        if op == "nor_conv_1x1":
            kernels.append(1)
        elif op == "nor_conv_3x3":
            kernels.append(3)
    options = dict(space.options)
    width = options.get("channels", 16)
    cells_per_stage = options.get("cells", 5)
    pixels = prod(task.input_shape[1:])
    convs = [CountedConv(task.input_shape[0], width, 3, pixels)]
    for stage in range(3):
        if stage > 0:
            pixels //= 4
            convs += list_residual_block_convs(width, 2 * width, pixels)
            width *= 2
        cell_convs = [CountedConv(width, width, kernel, pixels) for kernel in kernels]
        convs += cell_convs * cells_per_stage
    return sum_counts(convs, width, task.num_classes, norm=True)


@register_space
@space(
    task=Task("cifar10", (3, 32, 32), 10),
    notation=Nasbench201Notation(),
    draw=_draw_cell,
    size=len(OPS) ** len(EDGES),
    supernet=Supernet201,
    counts=_count_network,
)
def nasbench201(
    choose: Choose, task: Task, channels: Count = 16, cells: Count = 5
) -> NetworkBuilder:
    """Cells of four nodes, five operations per edge; 15,625 architectures with known accuracies."""
    ops = [choose(name, OPS) for name in _EDGE_NAMES]
    return partial(NASBench201, ops, task, channels, cells)


# -------------------------------------------------------------------------------- official index


@cache
def _list_official_order() -> tuple[tuple[str, ...], ...]:
    """Return all cells in the order of the benchmark: lexicographic, then shuffled by its seed."""
    cells = list(product(OPS, repeat=len(EDGES)))
    random.Random(88).shuffle(cells)
    return tuple(cells)


@cache
def _map_official_indices() -> dict[tuple[str, ...], int]:
    return {ops: index for index, ops in enumerate(_list_official_order())}


def find_official_index(arch: Arch) -> int:
    """Return the index of the architecture in the published benchmark."""
    ops = tuple(str(op) for _, op in arch.genes)
    return _map_official_indices()[ops]


def make_arch_from_index(index: int) -> Arch:
    """Return the architecture with this index in the published benchmark."""
    cells = _list_official_order()
    if not 0 <= index < len(cells):
        raise UsageError(f"NAS-Bench-201 has the indices 0 to {len(cells) - 1}, not {index}")
    genes: Genes = tuple(zip(_EDGE_NAMES, cells[index], strict=True))
    return Arch("nasbench201", genes, Nasbench201Notation().format(genes))

"""The supernet of NAS-Bench-1Shot1: every node with every operation, all of them as wide as the cell.

A node's width depends on the architecture, so a subnet uses the leading channels of the shared weights. The mixture is
the network of the cell with all edges: nodes concatenated, as in the authors' one-shot model, with the widths that
follow. It is a relaxation: with one-hot weights its nodes are thinner than those of the subnet.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from untrained.spaces import _spec101 as graphs
from untrained.spaces._net101 import Cell101, ConvBNReLU, NASBench101, Skeleton101, operation
from untrained.spaces._spec101 import OPS, Spec
from untrained.spaces._supernet import Forms, Mixture, Scores, descending, lend, mixed, plain, uniform
from untrained.types import Arch, Choice, Genes, Task

Parents = dict[
    str, tuple[str, ...]
]  # for nodes 1, 2, ... and the output: the name of the choice and its options, `0+1`


class Supernet1Shot1(Skeleton101):
    """`cell` tells the seven vertices of an architecture. Change entries of `mixture`, do not replace it."""

    def __init__(self, parents: Parents, cell: Callable[[Arch], Spec], task: Task, **shape: int) -> None:
        options = parents | {f"op{node}": OPS for node in range(1, len(parents))}
        mixture = uniform({name: len(some) for name, some in options.items()})
        super().__init__(partial(_SuperCell, parents, mixture), task, **shape)
        self.options, self.mixture = options, mixture
        self._cell, self._task, self._shape, self._parents = cell, task, shape, tuple(parents)

    def subnet(self, arch: Arch) -> NASBench101:
        """The network of `arch`, with the leading channels of these weights."""
        whole = self._cell(arch)
        with torch.device("meta"):
            net = NASBench101(graphs.pruned(whole), self._task, **self._shape)
        for full, small in zip(self.layers, net.layers, strict=True):
            if isinstance(full, _SuperCell) and isinstance(small, Cell101):
                full.lend(small, graphs.alive(whole.matrix))
            else:
                lend(full, small)
        lend(self.classifier, net.classifier)
        return net.train(self.training)

    def decoded(self, scores: Scores) -> Iterator[Forms]:
        """The most wanted parents and operations, then what is nearly as wanted; each with all nodes, as a space with
        loose ends has it, and without the nodes that nobody reads."""
        return ((genes, self._tight(dict(genes))) for genes in descending(plain(self.options, scores)))

    def _tight(self, chosen: dict[str, Choice]) -> Genes:
        used, kept = {str(len(self._parents))}, []
        for node, name in reversed(list(enumerate(self._parents, 1))):
            if str(node) in used:
                used |= set(str(chosen[name]).split("+"))
                kept += [name] if node == len(self._parents) else [name, f"op{node}"]
        return tuple((name, chosen[name]) for name in kept)


class _SuperCell(nn.Module):
    """All operations at all nodes, and all projections of the input; the output is the last vertex."""

    def __init__(self, parents: Parents, mixture: Mixture, cin: int, cout: int) -> None:
        super().__init__()
        self.parents, self.mixture, self.last = parents, mixture, len(parents)
        every = [(i, j) for j in range(self.last + 1) for i in range(j)]
        self.widths = graphs.channels(graphs.spec_of(every, OPS[:1] * (self.last - 1)), cin, cout)
        self.project = nn.ModuleList(ConvBNReLU(cin, cout, 1) for _ in range(self.last))
        self.ops = nn.ModuleList(nn.ModuleList(operation(op, cout) for op in OPS) for _ in range(self.last - 1))

    def lend(self, cell: Cell101, vertices: list[int]) -> None:
        """Give a pruned cell the weights of these vertices of seven."""
        for name, block in cell.project.items():
            vertex = min(vertices[int(name)], self.last)  # the output is the last vertex with or without idle ones
            lend(self.project[vertex - 1], block)
        for name, block in cell.ops.items():
            ops = self.ops[vertices[int(name)] - 1]
            assert isinstance(ops, nn.ModuleList)
            lend(ops[OPS.index(cell.spec.ops[int(name)])], block)

    def forward(self, x: Tensor) -> Tensor:
        made: list[Tensor] = []
        for node, width in enumerate(self.widths[1:-1], 1):
            sources = [partial(_thin, self.project[node - 1], width), *(partial(_first, y, width) for y in made)]
            total = mixed(self._edges(node), sources, x)
            ops = self.ops[node - 1]
            assert isinstance(ops, nn.ModuleList)
            made.append(mixed(self.mixture[f"op{node}"], [partial(_thin, op, width) for op in ops], total))
        edges = self._edges(self.last)
        joined = torch.cat([w * y for w, y in zip(edges[1:], made, strict=True)], 1)
        projected: Tensor = edges[0] * self.project[-1](x)
        return joined + projected

    def _edges(self, node: int) -> Tensor:
        """The weight of the edge from every earlier vertex: that of all choices of parents which it is one of."""
        name, options = list(self.parents.items())[node - 1]
        has = [[float(str(i) in option.split("+")) for i in range(node)] for option in options]
        weights = self.mixture[name]
        return weights @ weights.new_tensor(has)


def _first(y: Tensor, width: int, _: Tensor) -> Tensor:
    return y[:, :width]


def _thin(block: nn.Module, width: int, x: Tensor) -> Tensor:
    """What the leading channels of a block make of x."""
    weights: dict[str, Tensor] = {**dict(block.named_parameters()), **dict(block.named_buffers())}
    leading = (width, x.shape[1])
    thin = {name: w[tuple(slice(n) for n in leading[: w.ndim])] for name, w in weights.items()}
    out: Tensor = functional_call(block, thin, (x,))
    return out

"""Supernets of DARTS cells: every operation everywhere, weighted by a `mixture` that a strategy sets.

`supernet.options` names the choices and what can be chosen; `supernet.mixture` gives each option a weight: uniform at
first, then what a strategy sets, also tensors that carry gradients. An operation of weight exactly 0 does not run, and
an edge where all are 0 is cut: so Zero-Cost-PT removes what it wants to judge. As in DARTS's search net, norms have no
affine parameters and one follows each pooling. `subnet(arch)` is the final net with the supernet's weights: without
the norms after pooling, and with affine parameters of its own, which begin at 1 and 0.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.spaces._darts_net import Cell, CellNetwork, Network, Place, Plan, WiredCell
from untrained.spaces._darts_ops import candidates, operation
from untrained.spaces._genotype import KINDS, Edge, Genotype, cell_genes, node_genes
from untrained.spaces._supernet import Forms, Mixture, Scores, descending, lend, mixed, uniform
from untrained.types import Arch, Task

NODES = range(2, 6)
Options = dict[str, tuple[str, ...]]  # what can be chosen, by the name of the choice


class SharedCell(Cell):
    """A cell that holds every operation; a subclass says where."""

    def __init__(self, options: Options, place: Place) -> None:
        super().__init__(place, tuple(NODES), search=True)
        self.nodes, self.options, self.stride = NODES, options, place.stride
        self.branches = nn.ModuleDict()
        for node in NODES:
            for source in range(node):
                choice, stride = self.choice(node, source), place.stride if source < 2 else 1
                if choice not in self.branches:
                    ops = (operation(op, place.channels, stride, search=True) for op in options[choice])
                    self.branches[choice] = nn.ModuleList(ops)

    def mixed(self, choice: str, x: Tensor, how: Mixture) -> Tensor:
        return mixed(how[choice], list(self.branches[choice].children()), x)

    def lend(self, cell: WiredCell) -> None:
        """Let the cell of a genotype work with the weights of this one."""
        lend(self.preprocess0, cell.preprocess0)
        lend(self.preprocess1, cell.preprocess1)
        for i, (op, source) in enumerate(cell.wiring.edges):
            choice = self.choice(2 + i // 2, source)
            known = self.options[choice]
            if op not in known:
                raise UsageError(f"the supernet has no {op} at {choice}, only {', '.join(known)}")
            lend(self.branches[choice].get_submodule(str(known.index(op))), cell.edges[i])

    @abstractmethod
    def choice(self, node: int, source: int) -> str:
        """The name of the choice whose operations work on the edge from `source` to `node`."""

    @staticmethod
    @abstractmethod
    def pairs(options: Options, scores: Scores, kind: str, node: int) -> "Iterator[tuple[float, Edge, Edge]]":
        """The pairs of edges that a node can keep, and how wanted each is."""


class EdgeCell(SharedCell):
    """DARTS: a mixture of operations on the edge from every earlier state. Choices: `normal2<-0`, `normal2<-1`, ..."""

    @staticmethod
    def choices(operations: str) -> Options:
        edges = [(kind, node, source) for kind in KINDS for node in NODES for source in range(node)]
        return {f"{kind}{node}<-{source}": candidates(operations, kind, node, source) for kind, node, source in edges}

    def choice(self, node: int, source: int) -> str:
        return f"{self.kind}{node}<-{source}"

    def node(self, node: int, states: list[Tensor], how: Mixture) -> Tensor:
        names = [self.choice(node, source) for source in range(node)]
        running = [how[name].requires_grad or bool(how[name].any()) for name in names]
        into = [self.mixed(name, x, how) for name, x, runs in zip(names, states, running, strict=True) if runs]
        if not into:
            return torch.zeros_like(states[0][:, :, :: self.stride, :: self.stride])
        return sum(into[1:], into[0])

    @staticmethod
    def pairs(options: Options, scores: Scores, kind: str, node: int) -> Iterator[tuple[float, Edge, Edge]]:
        """As DARTS keeps them: the two edges whose best operations weigh most among the operations of their edge."""
        edges: list[tuple[float, Edge]] = []
        for source in range(node):
            name = f"{kind}{node}<-{source}"
            weights = torch.tensor(scores[name], dtype=torch.float64).softmax(0).tolist()
            edges += [(w, (op, source)) for op, w in zip(options[name], weights, strict=True) if op != "none"]
        for (v, a), (w, b) in combinations(edges, 2):
            if a[1] != b[1]:
                yield v + w, a, b


class NodeCell(SharedCell):
    """NASI: a node is a mixture of operations on a mixture of earlier states, so operations belong to nodes and all
    states must have one size. Choices: `normal2_op`, ..., `normal2_input`, ..."""

    @staticmethod
    def choices(operations: str) -> Options:
        nodes = [(kind, node) for kind in KINDS for node in NODES]
        ops = {f"{kind}{node}_op": candidates(operations, kind, node, 0) for kind, node in nodes}
        return ops | {f"{kind}{node}_input": tuple(map(str, range(node))) for kind, node in nodes}

    def choice(self, node: int, source: int) -> str:
        return f"{self.kind}{node}_op"

    def node(self, node: int, states: list[Tensor], how: Mixture) -> Tensor:
        weights = how[f"{self.kind}{node}_input"]
        x = sum((w * state for w, state in zip(weights, states, strict=True)), torch.zeros_like(states[0]))
        return self.mixed(self.choice(node, 0), x, how)

    @staticmethod
    def pairs(options: Options, scores: Scores, kind: str, node: int) -> Iterator[tuple[float, Edge, Edge]]:
        """As NASI keeps them: two operations and two inputs. The paper does not say which goes with which; the more
        wanted operation gets the more wanted input."""
        ops, inputs = (
            sorted(zip(scores[name], options[name], strict=True), key=lambda one: -one[0])
            for name in (f"{kind}{node}_op", f"{kind}{node}_input")
        )
        for (v, a), (w, b) in combinations(ops, 2):
            for (x, first), (y, second) in combinations(inputs, 2):
                yield v + w + x + y, (a, int(first)), (b, int(second))


class DartsSupernet(CellNetwork):
    """A network of `EdgeCell`s, or of `NodeCell`s. Drop path is for its subnets; an auxiliary tower is shared."""

    def __init__(self, task: Task, plan: Plan, cell: type[EdgeCell] | type[NodeCell], operations: str) -> None:
        if cell is NodeCell and not plan.pooled:
            raise UsageError("NASI's supernet has no strides: leave pooled=False out")
        options = cell.choices(operations)
        super().__init__(task, plan, partial(cell, options))
        self.task, self.options, self._pairs = task, options, partial(cell.pairs, options)
        self.mixture = uniform({name: len(choices) for name, choices in options.items()})

    def how(self) -> Mixture:
        return self.mixture

    def subnet(self, arch: Arch) -> Network:
        """The network of `arch` with the weights of this one; nothing is copied."""
        genotype = Genotype.of(arch.genes)
        if any(genotype[kind].nodes != NODES or genotype[kind].concat != tuple(NODES) for kind in KINDS):
            raise UsageError(f"the supernet has cells of four nodes that are all joined, unlike {arch}")
        with torch.device("meta"):
            network = Network(genotype, self.task, self.plan)
        for name, part in network.named_children():
            if name != "cells":
                lend(self.get_submodule(name), part)
        pairs: Iterable[Any] = zip(self.cells, network.cells, strict=True)
        for ours, theirs in pairs:
            ours.lend(theirs)
        _own_affine(network)
        return network.train(self.training)

    def decoded(self, scores: Scores) -> Iterator[Forms]:
        """For every node the most wanted pair of edges, then what is nearly as wanted."""
        nodes = [(kind, node) for kind in KINDS for node in NODES]
        pairs = ([(s, node_genes(*place, edges)) for s, *edges in self._pairs(scores, *place)] for place in nodes)
        whole = [[(0.0, cell_genes(kind, NODES))] for kind in KINDS]
        return ((genes,) for genes in descending([*whole, *pairs]))


def _own_affine(network: nn.Module) -> None:
    """Affine parameters for the norms that were lent statistics only."""
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm2d) and norm.weight.is_meta and norm.running_mean is not None:
            norm.weight = nn.Parameter(torch.ones_like(norm.running_mean))
            norm.bias = nn.Parameter(torch.zeros_like(norm.running_mean))

"""Supernets of DARTS cells: all operations everywhere, weighted by a `mixture`.

`supernet.options` are the choices and their options. `supernet.mixture` has a weight for each
option. The weights are uniform at first; strategies change them, also to tensors that require
gradients. An operation of weight 0 does not run, and an edge whose weights are all 0 is removed;
Zero-Cost-PT uses this to score operations and edges.

As in DARTS's search network, norms have no affine parameters and a norm follows each pooling.
`subnet(arch)` is the final network with the weights of the supernet. It has no norms after pooling,
and it has affine parameters of its own, initialised to 1 and 0.
"""

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from itertools import combinations

import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.spaces.core.supernet import (
    EquivalentGenes,
    Mixture,
    OptionScores,
    ScoredGenes,
    make_uniform_mixture,
    mix_branches,
    rank_combinations,
    share_weights,
)
from untrained.spaces.darts.genotype import (
    KINDS,
    Edge,
    Genotype,
    list_cell_genes,
    list_node_genes,
)
from untrained.spaces.darts.network import (
    CellNetwork,
    CellPosition,
    DartsCell,
    DartsConfig,
    DartsNetwork,
    WiredCell,
)
from untrained.spaces.darts.operations import build_operation, list_candidates
from untrained.types import Arch, Task

NODES = range(2, 6)
# The options of each choice, by the name of the choice.
ChoiceTable = dict[str, tuple[str, ...]]
ScoredPair = tuple[float, Edge, Edge]


class SharedCell(DartsCell[Mixture]):
    """A cell with all operations; subclasses decide which edges share operations.

    The context of the forward pass is the mixture.
    """

    def __init__(self, options: ChoiceTable, position: CellPosition) -> None:
        super().__init__(position, tuple(NODES), search=True)
        self.nodes = NODES
        self.options = options
        self.stride = position.stride
        self.branches = nn.ModuleDict()
        for node in NODES:
            for source in range(node):
                choice = self.name_edge_choice(node, source)
                if choice in self.branches:
                    continue
                stride = position.get_edge_stride(source)
                operations = nn.ModuleList()
                for op in options[choice]:
                    operations.append(build_operation(op, position.channels, stride, search=True))
                self.branches[choice] = operations

    def mix_operations(self, choice: str, x: Tensor, mixture: Mixture) -> Tensor:
        return mix_branches(mixture[choice], list(self.branches[choice].children()), x)

    def share_operations(self, cell: WiredCell) -> None:
        """Let the cell of a genotype use the weights of this cell."""
        share_weights(self.preprocess0, cell.preprocess0)
        share_weights(self.preprocess1, cell.preprocess1)
        for edge, (op, source) in enumerate(cell.wiring.edges):
            node = 2 + edge // 2
            choice = self.name_edge_choice(node, source)
            options = self.options[choice]
            if op not in options:
                raise UsageError(f"the supernet has no {op} at {choice}, only {', '.join(options)}")
            branch = self.branches[choice].get_submodule(str(options.index(op)))
            share_weights(branch, cell.edges[edge])

    @abstractmethod
    def name_edge_choice(self, node: int, source: int) -> str:
        """Return the name of the choice that decides the operation from `source` to `node`."""

    @staticmethod
    @abstractmethod
    def score_pairs(
        options: ChoiceTable, scores: OptionScores, kind: str, node: int
    ) -> Iterator[ScoredPair]:
        """Yield the pairs of edges that a node can keep, each with its score."""


class EdgeCell(SharedCell):
    """DARTS: a mixture of operations on each edge. The choices are `normal2<-0`, `normal2<-1`..."""

    @staticmethod
    def list_choices(operation_set: str) -> ChoiceTable:
        choices = {}
        for kind in KINDS:
            for node in NODES:
                for source in range(node):
                    candidates = list_candidates(operation_set, kind, node, source)
                    choices[f"{kind}{node}<-{source}"] = candidates
        return choices

    def name_edge_choice(self, node: int, source: int) -> str:
        return f"{self.kind}{node}<-{source}"

    def compute_node(self, node: int, states: list[Tensor], context: Mixture) -> Tensor:
        terms: list[Tensor] = []
        for source in range(node):
            choice = self.name_edge_choice(node, source)
            weights = context[choice]
            if weights.requires_grad or bool(weights.any()):
                terms.append(self.mix_operations(choice, states[source], context))
        if not terms:
            # All edges are removed, so the state is zero, in the size of the cell.
            return torch.zeros_like(states[0][:, :, :: self.stride, :: self.stride])
        return sum(terms[1:], terms[0])

    @staticmethod
    def score_pairs(
        options: ChoiceTable, scores: OptionScores, kind: str, node: int
    ) -> Iterator[ScoredPair]:
        """Score pairs like DARTS: by the softmax weights of their operations.

        DARTS keeps the two edges whose best operations have the largest weights.
        """
        edges: list[tuple[float, Edge]] = []
        for source in range(node):
            choice = f"{kind}{node}<-{source}"
            weights = torch.tensor(scores[choice], dtype=torch.float64).softmax(0).tolist()
            for op, weight in zip(options[choice], weights, strict=True):
                if op != "none":
                    edges.append((weight, (op, source)))
        for (first_weight, first), (second_weight, second) in combinations(edges, 2):
            if first[1] != second[1]:
                yield first_weight + second_weight, first, second


class NodeCell(SharedCell):
    """NASI: a node applies a mixture of operations to a mixture of earlier states.

    Operations belong to nodes, so all states must have one size. The choices are `normal2_op`, ...
    and `normal2_input`, ...
    """

    @staticmethod
    def list_choices(operation_set: str) -> ChoiceTable:
        operation_choices = {}
        input_choices = {}
        for kind in KINDS:
            for node in NODES:
                candidates = list_candidates(operation_set, kind, node, 0)
                operation_choices[f"{kind}{node}_op"] = candidates
                input_choices[f"{kind}{node}_input"] = tuple(map(str, range(node)))
        return operation_choices | input_choices

    def name_edge_choice(self, node: int, source: int) -> str:
        return f"{self.kind}{node}_op"

    def compute_node(self, node: int, states: list[Tensor], context: Mixture) -> Tensor:
        weights = context[f"{self.kind}{node}_input"]
        x = torch.zeros_like(states[0])
        for weight, state in zip(weights, states, strict=True):
            x = x + weight * state
        return self.mix_operations(self.name_edge_choice(node, 0), x, context)

    @staticmethod
    def score_pairs(
        options: ChoiceTable, scores: OptionScores, kind: str, node: int
    ) -> Iterator[ScoredPair]:
        """Score pairs like NASI: two operations and two inputs are kept.

        The paper does not say which input belongs to which operation. Here the better operation
        reads the better input.
        """
        ops = _sort_options(options, scores, f"{kind}{node}_op")
        inputs = _sort_options(options, scores, f"{kind}{node}_input")
        for (op_score_1, op_1), (op_score_2, op_2) in combinations(ops, 2):
            for (input_score_1, input_1), (input_score_2, input_2) in combinations(inputs, 2):
                score = op_score_1 + op_score_2 + input_score_1 + input_score_2
                yield score, (op_1, int(input_1)), (op_2, int(input_2))


def _sort_options(
    options: ChoiceTable, scores: OptionScores, choice: str
) -> list[tuple[float, str]]:
    """Return (score, option) of one choice, best first."""
    pairs = zip(scores[choice], options[choice], strict=True)
    return sorted(pairs, key=lambda pair: -pair[0])


class DartsSupernet(CellNetwork[Mixture]):
    """A network of `EdgeCell`s or of `NodeCell`s.

    Drop path applies to subnets only. An auxiliary tower is shared.
    """

    def __init__(
        self,
        task: Task,
        config: DartsConfig,
        cell_type: type[EdgeCell] | type[NodeCell],
        operation_set: str,
    ) -> None:
        if cell_type is NodeCell and not config.pooled:
            raise UsageError("NASI's supernet has no strides: remove pooled=False")
        options = cell_type.list_choices(operation_set)
        super().__init__(task, config, partial(cell_type, options))
        self.task = task
        self.options = options
        self.mixture = make_uniform_mixture({name: len(ops) for name, ops in options.items()})
        self._cell_type = cell_type

    def make_context(self) -> Mixture:
        return self.mixture

    def subnet(self, arch: Arch) -> DartsNetwork:
        """Return the network of `arch` with the weights of this supernet; nothing is copied."""
        genotype = Genotype.from_genes(arch.genes)
        for kind in KINDS:
            wiring = genotype[kind]
            if wiring.nodes != NODES or wiring.concat != tuple(NODES):
                raise UsageError(
                    f"the supernet has cells of four nodes that are all concatenated, unlike {arch}"
                )
        with torch.device("meta"):
            network = DartsNetwork(genotype, self.task, self.config)
        for name, part in network.named_children():
            if name != "cells":
                share_weights(self.get_submodule(name), part)
        for shared_cell, cell in zip(self.cells, network.cells, strict=True):
            assert isinstance(shared_cell, SharedCell)
            assert isinstance(cell, WiredCell)
            shared_cell.share_operations(cell)
        _create_affine_parameters(network)
        return network.train(self.training)

    def decode_scores(self, scores: OptionScores) -> Iterator[EquivalentGenes]:
        """Iterate over architectures, starting with the best pair of edges for every node."""
        groups: list[list[ScoredGenes]] = []
        for kind in KINDS:
            # The number of nodes and the concatenation have no alternatives.
            groups.append([(0.0, list_cell_genes(kind, NODES))])
        for kind in KINDS:
            for node in NODES:
                groups.append(self._score_node(scores, kind, node))
        for genes in rank_combinations(groups):
            yield (genes,)

    def _score_node(self, scores: OptionScores, kind: str, node: int) -> list[ScoredGenes]:
        alternatives = []
        for score, first, second in self._cell_type.score_pairs(self.options, scores, kind, node):
            alternatives.append((score, list_node_genes(kind, node, (first, second))))
        return alternatives


def _create_affine_parameters(network: nn.Module) -> None:
    """Create affine parameters for norms that share only statistics with the supernet."""
    for norm in network.modules():
        if not isinstance(norm, nn.BatchNorm2d):
            continue
        if norm.weight.is_meta and norm.running_mean is not None:
            norm.weight = nn.Parameter(torch.ones_like(norm.running_mean))
            norm.bias = nn.Parameter(torch.zeros_like(norm.running_mean))

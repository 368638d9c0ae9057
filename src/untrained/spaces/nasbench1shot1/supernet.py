"""The supernet of NAS-Bench-1Shot1: every node has all operations, all as wide as the cell.

The width of a node depends on the architecture, so a subnet uses the leading channels of the shared
weights. The mixture is computed in a cell with all edges. There, as in the authors' one-shot model,
the output concatenates all nodes, so they are narrower than in most subnets. The mixture is
therefore a relaxation: even with one-hot weights it differs from the subnet.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

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
from untrained.spaces.nasbench101.graph import (
    OPS,
    CellSpec,
    compute_channels,
    find_used_vertices,
    list_possible_edges,
    make_spec,
    prune_spec,
)
from untrained.spaces.nasbench101.network import (
    Cell101,
    ConvBNReLU,
    NASBench101,
    Skeleton101,
    build_vertex_operation,
)
from untrained.types import Arch, Choice, Genes, Task

# For nodes 1, 2, ... and the output: the name of the choice of parents and its options, `0+1`.
ParentOptions = dict[str, tuple[str, ...]]


class Supernet1Shot1(Skeleton101):
    """All cells of one of the three spaces.

    The cells hold the same dictionary: change entries of `mixture`, do not replace it.

    Args:
        parent_options: The choices of parents.
        make_full_spec: Returns the cell of an architecture with all seven vertices.
        task: Input channels and number of classes.
        **network_options: `channels`, `stacks` and `cells` of the network.
    """

    def __init__(
        self,
        parent_options: ParentOptions,
        make_full_spec: Callable[[Arch], CellSpec],
        task: Task,
        **network_options: int,
    ) -> None:
        op_options = {f"op{node}": OPS for node in range(1, len(parent_options))}
        options = parent_options | op_options
        option_counts = {name: len(choice_options) for name, choice_options in options.items()}
        mixture = make_uniform_mixture(option_counts)
        super().__init__(partial(_MixedCell101, parent_options, mixture), task, **network_options)
        self.options = options
        self.mixture = mixture
        self._make_full_spec = make_full_spec
        self._task = task
        self._network_options = network_options
        self._parent_choices = tuple(parent_options)

    def subnet(self, arch: Arch) -> NASBench101:
        """Return the network of `arch`, which uses the leading channels of these weights."""
        full_spec = self._make_full_spec(arch)
        used_vertices = find_used_vertices(full_spec.matrix)
        with torch.device("meta"):
            network = NASBench101(prune_spec(full_spec), self._task, **self._network_options)
        for own_layer, layer in zip(self.layers, network.layers, strict=True):
            if isinstance(own_layer, _MixedCell101) and isinstance(layer, Cell101):
                own_layer.share_operations(layer, used_vertices)
            else:
                share_weights(own_layer, layer)
        share_weights(self.classifier, network.classifier)
        return network.train(self.training)

    def decode_scores(self, scores: OptionScores) -> Iterator[EquivalentGenes]:
        """Iterate over architectures, starting with the best parents and operations.

        Each comes in two forms: with all nodes, for a space that allows loose ends, and without
        the nodes that feed nothing.
        """
        for genes in rank_combinations(group_options_by_choice(self.options, scores)):
            yield genes, self._remove_unused_nodes(dict(genes))

    def _remove_unused_nodes(self, values: dict[str, Choice]) -> Genes:
        output = len(self._parent_choices)
        used = {str(output)}
        genes: list[tuple[str, Choice]] = []
        for node in range(output, 0, -1):
            if str(node) not in used:
                continue
            parent_choice = self._parent_choices[node - 1]
            used |= set(str(values[parent_choice]).split("+"))
            genes.append((parent_choice, values[parent_choice]))
            if node < output:
                genes.append((f"op{node}", values[f"op{node}"]))
        return tuple(genes)


class _MixedCell101(nn.Module):
    """All operations at all nodes, all projections of the input; the last vertex is the output."""

    def __init__(
        self, parent_options: ParentOptions, mixture: Mixture, cin: int, cout: int
    ) -> None:
        super().__init__()
        self._parent_choices = tuple(parent_options.items())
        self.mixture = mixture
        self.last = len(parent_options)
        all_edges = list_possible_edges(self.last + 1)
        # Widths do not depend on the operations.
        full_spec = make_spec(all_edges, OPS[:1] * (self.last - 1))
        self.widths = compute_channels(full_spec, cin, cout)
        self.project = nn.ModuleList(ConvBNReLU(cin, cout, 1) for _ in range(self.last))
        self.ops = nn.ModuleList()
        for _ in range(self.last - 1):
            branches = nn.ModuleList(build_vertex_operation(op, cout) for op in OPS)
            self.ops.append(branches)

    def share_operations(self, cell: Cell101, vertices: list[int]) -> None:
        """Let a pruned cell use the weights of this one.

        Args:
            cell: The cell.
            vertices: The number of each of its vertices among all seven.
        """
        for name, block in cell.project.items():
            # The output is the last vertex here, but vertex 6 of the seven in tables.
            vertex = min(vertices[int(name)], self.last)
            share_weights(self.project[vertex - 1], block)
        for name, block in cell.ops.items():
            branches = self._get_branches(vertices[int(name)])
            op = cell.spec.ops[int(name)]
            share_weights(branches[OPS.index(op)], block)

    def forward(self, x: Tensor) -> Tensor:
        outputs: list[Tensor] = []
        for node, width in enumerate(self.widths[1:-1], 1):
            sources = [partial(_run_leading_channels, self.project[node - 1], width)]
            sources += [partial(_truncate_output, output, width) for output in outputs]
            total = mix_branches(self._compute_edge_weights(node), sources, x)
            operations = self._get_branches(node)
            branches = [partial(_run_leading_channels, op, width) for op in operations]
            outputs.append(mix_branches(self.mixture[f"op{node}"], branches, total))
        weights = self._compute_edge_weights(self.last)
        weighted = [weight * output for weight, output in zip(weights[1:], outputs, strict=True)]
        projected: Tensor = weights[0] * self.project[-1](x)
        return torch.cat(weighted, 1) + projected

    def _get_branches(self, node: int) -> nn.ModuleList:
        branches = self.ops[node - 1]
        assert isinstance(branches, nn.ModuleList)
        return branches

    def _compute_edge_weights(self, node: int) -> Tensor:
        """Return a weight for the edge from every earlier vertex.

        It is the sum of the weights of all options that have this vertex among the parents.
        """
        name, options = self._parent_choices[node - 1]
        rows = []
        for option in options:
            parents = option.split("+")
            rows.append([float(str(vertex) in parents) for vertex in range(node)])
        weights = self.mixture[name]
        return weights @ weights.new_tensor(rows)


def _truncate_output(output: Tensor, width: int, _: Tensor) -> Tensor:
    """Return the leading channels of an earlier output; a branch gets the cell input as well."""
    return output[:, :width]


def _run_leading_channels(block: nn.Module, width: int, x: Tensor) -> Tensor:
    """Apply the part of a block that has `width` output channels and the input channels of `x`."""
    tensors: dict[str, Tensor] = {**dict(block.named_parameters()), **dict(block.named_buffers())}
    leading_sizes = (width, x.shape[1])
    views = {}
    for name, tensor in tensors.items():
        # A scalar buffer is not sliced, a vector in its only dimension, a convolution in its first
        # two.
        slices = tuple(slice(size) for size in leading_sizes[: tensor.ndim])
        views[name] = tensor[slices]
    out: Tensor = functional_call(block, views, (x,))
    return out

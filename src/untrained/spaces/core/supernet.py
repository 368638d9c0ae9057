"""Code that supernets share: one set of weights for all architectures, and a mixture of options.

A supernet has `options`, the options of every choice by name, and `mixture`, the weights of these
options: uniform at first, one-hot for a single architecture, anything in between for a search by
gradients. Its forward pass computes that mixture. `subnet(arch)` is an ordinary network that uses
the weights of the supernet (see `share_weights`). `decode_scores(scores)` turns scores of all
options, such as logits, into architectures.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from untrained.types import Arch, Genes

Mixture = dict[str, Tensor]
# Scores of the options of every choice; higher is better.
OptionScores = Mapping[str, Sequence[float]]
# Alternative genes of one architecture; a space accepts one of them.
EquivalentGenes = tuple[Genes, ...]
# One alternative within a group of choices: its score and its genes.
ScoredGenes = tuple[float, Genes]


class Supernet(Protocol):
    """The interface of supernets with a mixture. A supernet is an `nn.Module` too."""

    options: dict[str, tuple[str, ...]]
    mixture: Mixture

    def subnet(self, arch: Arch) -> nn.Module:
        """Return the network of `arch` with the weights of the supernet."""
        ...

    def decode_scores(self, scores: OptionScores) -> Iterator[EquivalentGenes]:
        """Iterate over architectures, best first. Some may be outside of the space."""
        ...

    # A network with an auxiliary tower returns a tuple.
    def __call__(self, x: Tensor) -> object: ...


# -------------------------------------------------------------------------------------- decoding


def group_options_by_choice(
    options: Mapping[str, Sequence[str]], scores: OptionScores
) -> list[list[ScoredGenes]]:
    """Return one group per choice, in which each option is one gene."""
    groups = []
    for name, choice_options in options.items():
        group: list[ScoredGenes] = []
        for option, score in zip(choice_options, scores[name], strict=True):
            group.append((score, ((name, option),)))
        groups.append(group)
    return groups


def rank_combinations(groups: Sequence[Sequence[ScoredGenes]]) -> Iterator[Genes]:
    """Iterate over all combinations of one alternative per group, highest sum of scores first.

    Combinations with equal sums come in the order of their alternatives. The number of
    combinations is exponential, so they are produced lazily from a heap.
    """
    ranked_groups = [sorted(group, key=lambda scored: -scored[0]) for group in groups]
    # A combination is the position of its alternative in each ranked group.
    best = (0,) * len(ranked_groups)
    seen = {best}
    # Entries are (deficit, positions): how far the sum of scores is below that of the best.
    heap = [(0.0, best)]
    while heap:
        deficit, positions = heappop(heap)
        genes: list[tuple[str, int | float | str]] = []
        for group, position in zip(ranked_groups, positions, strict=True):
            genes.extend(group[position][1])
        yield tuple(genes)
        # Each of these successors takes the next alternative in one group. Every combination is the
        # successor of one that is at least as good, so all of them are reached in order.
        for index, (group, position) in enumerate(zip(ranked_groups, positions, strict=True)):
            successor = (*positions[:index], position + 1, *positions[index + 1 :])
            if position + 1 < len(group) and successor not in seen:
                seen.add(successor)
                successor_deficit = deficit + group[position][0] - group[position + 1][0]
                heappush(heap, (successor_deficit, successor))


# --------------------------------------------------------------------------------------- mixture


def make_uniform_mixture(option_counts: Mapping[str, int]) -> Mixture:
    """Return equal weights for the options of each choice, given the number of options."""
    mixture = {}
    for name, count in option_counts.items():
        mixture[name] = torch.full((count,), 1 / count, device="cpu", dtype=torch.float64)
    return mixture


def mix_branches(
    weights: Tensor, branches: Sequence[Callable[[Tensor], Tensor]], x: Tensor
) -> Tensor:
    """Return the weighted sum of all branches applied to `x`.

    A branch of weight 0 is skipped unless the weights need a gradient.
    """
    terms: list[Tensor] = []
    for weight, branch in zip(weights, branches, strict=True):
        if weights.requires_grad or weight != 0:
            terms.append(weight * branch(x))
    if not terms:
        # Run one branch for the shape of the result.
        return branches[0](x) * 0.0
    return sum(terms[1:], terms[0])


# ------------------------------------------------------------------------------- weight sharing


def share_weights(source: nn.Module, target: nn.Module) -> None:
    """Let `target` use the parameters and buffers of `source`; nothing is copied.

    Both have the same tree of modules. Where `source` is wider, `target` gets views of the leading
    entries; where shapes are equal, it gets the same objects. An optimiser step of one is visible
    in the other. Move `source` to its device before calling this function.
    """
    for name, parameter in target._parameters.items():
        source_parameter = source._parameters[name]
        if parameter is None or source_parameter is None:
            continue
        if parameter.shape == source_parameter.shape:
            target._parameters[name] = source_parameter
        else:
            view = _view_leading_entries(source_parameter.data, parameter.shape)
            target._parameters[name] = nn.Parameter(view)
    for name, buffer in target._buffers.items():
        source_buffer = source._buffers[name]
        if buffer is None or source_buffer is None:
            continue
        if buffer.shape == source_buffer.shape:
            target._buffers[name] = source_buffer
        else:
            target._buffers[name] = _view_leading_entries(source_buffer, buffer.shape)
    for name, child in target.named_children():
        share_weights(source.get_submodule(name), child)


def _view_leading_entries(tensor: Tensor, shape: torch.Size) -> Tensor:
    slices = tuple(slice(0, size) for size in shape)
    return tensor[slices]


class ElasticSubnet(nn.Module):
    """An architecture that an elastic supernet runs as `supernet(x, layers)`.

    Its parameters are those of the supernet, so gradients reach them. Its `state_dict` is that of
    the stand-alone network: to score a subnet, load it into the network that the space builds.

    Args:
        supernet: A module with `forward(x, layers)` and `weights(layers)`.
        layers: The layers or blocks of the architecture, in the form that the supernet expects.
    """

    def __init__(self, supernet: nn.Module, layers: object) -> None:
        super().__init__()
        self.supernet = supernet
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.supernet(x, self.layers)
        return logits

    # The signature of torch's `state_dict` has overloads that cannot be repeated here.
    def state_dict(self, *_: object, **__: object) -> Any:
        """Return weights for `build(arch).load_state_dict(...)`, in the order of that network."""
        weights: dict[str, Tensor] = self.supernet.weights(self.layers)  # type: ignore[operator]
        return {name: weight.detach() for name, weight in weights.items()}

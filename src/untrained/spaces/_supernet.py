"""What supernets have in common: one set of weights for all architectures of a space, and a mixture of them.

A supernet has `options`, what can be chosen by the name of the choice, and `mixture`, the weights of these options:
uniform at first, one-hot for a single architecture, anything in between for a search by gradients. Its forward pass is
that mixture. Its `subnet(arch)` is an ordinary network that uses the supernet's weights: `lend` gives them to it. Its
`decoded(scores)` tells which architectures are meant when the options of every choice have scores, such as logits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from untrained.types import Arch, Genes

Mixture = dict[str, Tensor]
Scores = Mapping[str, Sequence[float]]  # of the options of every choice, higher is more wanted
Forms = tuple[Genes, ...]  # the ways to write one architecture, of which a space knows one
Variant = tuple[float, Genes]  # a way to take a decision: its score, and the genes it stands for


class Supernet(Protocol):
    """What a search by a mixture wants of a supernet, which is a module too."""

    options: dict[str, tuple[str, ...]]
    mixture: Mixture

    def subnet(self, arch: Arch) -> nn.Module: ...

    def decoded(self, scores: Scores) -> Iterator[Forms]:
        """Architectures from the most wanted on; some may lie outside of the space."""
        ...

    def __call__(self, x: Tensor) -> Any: ...


def plain(options: Mapping[str, Sequence[str]], scores: Scores) -> list[list[Variant]]:
    """Every choice a decision of its own: one option, one gene."""
    return [
        [(score, ((name, option),)) for option, score in zip(some, scores[name], strict=True)]
        for name, some in options.items()
    ]


def descending(decisions: Sequence[Sequence[Variant]]) -> Iterator[Genes]:
    """The genes of every combination, from the highest sum of scores down; equals in the order of their variants."""
    ranked = [sorted(variants, key=lambda variant: -variant[0]) for variants in decisions]
    first = (0,) * len(ranked)
    heap, met = [(0.0, first)], {first}  # what a combination loses against the first, and its places
    while heap:
        lost, places = heappop(heap)
        yield tuple(gene for variants, n in zip(ranked, places, strict=True) for gene in variants[n][1])
        for i, (variants, n) in enumerate(zip(ranked, places, strict=True)):
            following = (*places[:i], n + 1, *places[i + 1 :])
            if n + 1 < len(variants) and following not in met:
                met.add(following)
                heappush(heap, (lost + variants[n][0] - variants[n + 1][0], following))


def uniform(options: dict[str, int]) -> Mixture:
    """Equal weights for the options of each choice; `options` says how many each has."""
    return {name: torch.full((n,), 1 / n, device="cpu", dtype=torch.float64) for name, n in options.items()}


def mixed(weights: Tensor, branches: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
    """The weighted sum of what the branches make of x. A branch of weight 0 does not run, unless somebody wants the
    gradient of its weight."""
    running = [(w, branch) for w, branch in zip(weights, branches, strict=True) if weights.requires_grad or w != 0]
    if not running:
        return branches[0](x) * 0.0
    terms: list[Tensor] = [w * branch(x) for w, branch in running]
    return sum(terms[1:], terms[0])


def lend(full: nn.Module, small: nn.Module) -> None:
    """Let `small` work with the weights and statistics of `full`, which has the same tree of modules but may be wider:
    then `small` gets the leading entries. Nothing is copied: a step of an optimiser of one is seen by the other, and
    where the shapes agree the parameters are the very same objects. Move `full` to its device before, not after."""
    for name, mine in small._parameters.items():
        theirs = full._parameters[name]
        if mine is not None and theirs is not None:
            same = mine.shape == theirs.shape
            small._parameters[name] = theirs if same else nn.Parameter(_leading(theirs.data, mine))
    for name, buffer in small._buffers.items():
        statistic = full._buffers[name]
        if buffer is not None and statistic is not None:
            small._buffers[name] = statistic if buffer.shape == statistic.shape else _leading(statistic, buffer)
    for name, child in small.named_children():
        lend(full.get_submodule(name), child)


def _leading(tensor: Tensor, like: Tensor) -> Tensor:
    return tensor[tuple(slice(0, n) for n in like.shape)]


class Subnet(nn.Module):
    """An architecture on the weights of an elastic supernet, which runs it as `supernet(x, chosen)`: gradients reach
    those weights, and its parameters are those. `state_dict` is that of the stand-alone network: to be judged, load it
    into the network that the space builds."""

    def __init__(self, supernet: nn.Module, chosen: Any) -> None:
        super().__init__()
        self.supernet, self.chosen = supernet, chosen

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.supernet(x, self.chosen)
        return logits

    def state_dict(self, *_: Any, **__: Any) -> Any:
        """Weights for `build(arch).load_state_dict(...)`: cut out, and in the order of the stand-alone network."""
        weights: dict[str, Tensor] = self.supernet.weights(self.chosen)  # type: ignore[operator]
        return {name: weight.detach() for name, weight in weights.items()}

"""What supernets have in common: one set of weights for all architectures of a space, and a mixture of them.

A supernet has `options`, what can be chosen by the name of the choice, and `mixture`, the weights of these options:
uniform at first, one-hot for a single architecture, anything in between for a search by gradients. Its forward pass is
that mixture. Its `subnet(arch)` is an ordinary network that uses the supernet's weights: `lend` gives them to it.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Mixture = dict[str, Tensor]


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

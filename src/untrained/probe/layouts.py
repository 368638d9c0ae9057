"""Stacks and how they are laid out: what all folds are written with.

A stack holds one value of each of G calls, (G, *shape); a stack may be a Jet, whose tail is (2, G, *shape). A fold does
the work of G calls at once. This file knows how stacks lie in memory, and nothing of what is computed with them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from untrained.probe.jets import Jet, names

Fold = Callable[..., Any]  # (G, signature, *arguments), tensors among them as stacks; None: there is no way
FOLDS: dict[Callable[..., Any], Fold] = {}
_FOR_ONE_KERNEL = 4  # axes


def fold(*spellings: str) -> Callable[[Fold], Fold]:
    """Register a fold for functions by name, and for their in-place and operator spellings."""

    def register(body: Fold) -> Fold:
        for name in spellings:
            for spelling in (name, f"__{name}__", f"{name}_", f"__i{name}__", f"__r{name}__"):
                FOLDS.update(dict.fromkeys(names(spelling), body))
        return body

    return register


def each(move: Callable[[Tensor, int], Any], x: Any) -> Any:
    """`move(tensor, first)` of a stack or of value and tail of a jet; `first` is the axis that counts networks."""
    if not isinstance(x, Jet):
        return move(x, 0)
    value, tail = move(x.value, 0), move(x.tail, 1)
    return tuple(map(Jet.of, value, tail)) if isinstance(value, tuple) else Jet.of(value, tail)


def stacked(values: Sequence[Any]) -> Any:
    """One value of each network as a stack."""
    if not any(isinstance(x, Jet) for x in values):
        return torch.stack(list(values))
    return Jet.of(torch.stack([x.value for x in values]), torch.stack([x.tail for x in values], 1))


def joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """`torch.cat`, which on a GPU is one kernel for up to four axes, and a copy for each part above that."""
    if parts[0].ndim <= _FOR_ONE_KERNEL:
        return torch.cat(list(parts), axis)
    axis %= parts[0].ndim
    before, behind = parts[0].shape[:axis], parts[0].shape[axis + 1 :]
    flat = [part.reshape(before.numel(), part.shape[axis], behind.numel()) for part in parts]
    return torch.cat(flat, 1).reshape(*before, sum(part.shape[axis] for part in parts), *behind)


def channels(x: Any) -> Any:
    """(G, N, C, ...) -> (N, G C, ...); moves nothing in memory where there is one sample."""
    return each(lambda t, first: t.transpose(first, first + 1).flatten(first + 1, first + 2), x)


def from_channels(x: Any, G: int) -> Any:
    return each(lambda t, first: torch.unflatten(t, first + 1, (G, -1)).transpose(first, first + 1), x)


def samples(x: Any) -> Any:
    """(G, N, ...) -> (G N, ...)."""
    return each(lambda t, first: t.flatten(first, first + 1), x)


def from_samples(x: Any, G: int) -> Any:
    return each(lambda t, first: torch.unflatten(t, first, (G, -1)), x)


def broadcasting(*stacks: Any) -> list[Any]:
    """Stacks with as many axes as the largest, and numbers as they are."""
    ndim = max(x.ndim for x in stacks if isinstance(x, Tensor))
    return [deepened(x, ndim - x.ndim) if isinstance(x, Tensor) else x for x in stacks]


def deepened(x: Any, missing: int) -> Any:
    """(G, *shape) -> (G, 1, ..., *shape)."""
    if not missing:
        return x
    return each(lambda t, first: t.reshape(*t.shape[: first + 1], *(1,) * missing, *t.shape[first + 1 :]), x)

"""Stacks of values and how they are arranged in memory.

A stack contains one value of each of G calls, (G, *shape). A stack may be a Jet, whose derivatives
are (2, G, *shape). A fold (in JAX: a batching rule) does the work of G calls at once; all folds are
written with the functions below.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from untrained.probe.jets import Jet, TorchFunction, find_functions

Mapped = TypeVar("Mapped", Tensor, tuple[Tensor, ...])
# (G, signature, *arguments), where tensors are stacks. It returns None if it does not apply.
Fold = Callable[..., object]
FOLDS: dict[TorchFunction, Fold] = {}
# `torch.cat` on a GPU is one kernel up to this number of axes, and one copy per part above it.
_MAX_CAT_AXES = 4


def fold(*names: str) -> Callable[[Fold], Fold]:
    """Register a fold for functions by name, including their in-place and operator forms."""

    def register(body: Fold) -> Fold:
        for name in names:
            forms = (name, f"__{name}__", f"{name}_", f"__i{name}__", f"__r{name}__")
            FOLDS.update(dict.fromkeys(find_functions(*forms), body))
        return body

    return register


def map_stack(function: Callable[[Tensor, int], Mapped], x: Tensor) -> Mapped:
    """Apply a function to a stack, or to value and derivatives of a jet.

    Args:
        function: Receives a tensor and its axis of networks.
        x: The stack.
    """
    if not isinstance(x, Jet):
        return function(x, 0)
    value = function(x.value, 0)
    derivatives = function(x.derivatives, 1)
    if isinstance(value, Tensor) and isinstance(derivatives, Tensor):
        return Jet.of(value, derivatives)
    return tuple(map(Jet.of, value, derivatives))


def stack_values(values: Sequence[Tensor]) -> Tensor:
    """Stack one value of each network."""
    jets = [x for x in values if isinstance(x, Jet)]
    if not jets:
        return torch.stack(list(values))
    assert len(jets) == len(values)  # calls of one group have jets at the same positions
    value = torch.stack([x.value for x in jets])
    derivatives = torch.stack([x.derivatives for x in jets], 1)
    return Jet.of(value, derivatives)


def concatenate(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenate like `torch.cat`, with one kernel on a GPU for any number of axes."""
    if parts[0].ndim <= _MAX_CAT_AXES:
        return torch.cat(list(parts), axis)
    axis %= parts[0].ndim
    before = parts[0].shape[:axis]
    after = parts[0].shape[axis + 1 :]
    flat_parts = []
    length = 0
    for part in parts:
        flat_parts.append(part.reshape(before.numel(), part.shape[axis], after.numel()))
        length += part.shape[axis]
    return torch.cat(flat_parts, 1).reshape(*before, length, *after)


def networks_to_channels(x: Tensor) -> Tensor:
    """(G, N, C, ...) -> (N, G C, ...); copies nothing if there is one sample."""

    def move(t: Tensor, axis: int) -> Tensor:
        return t.transpose(axis, axis + 1).flatten(axis + 1, axis + 2)

    return map_stack(move, x)


def channels_to_networks(x: Tensor, G: int) -> Tensor:
    """(N, G C, ...) -> (G, N, C, ...)"""

    def move(t: Tensor, axis: int) -> Tensor:
        return torch.unflatten(t, axis + 1, (G, -1)).transpose(axis, axis + 1)

    return map_stack(move, x)


def networks_to_samples(x: Tensor) -> Tensor:
    """(G, N, ...) -> (G N, ...)"""
    return map_stack(lambda t, axis: t.flatten(axis, axis + 1), x)


def samples_to_networks(x: Tensor, G: int) -> Tensor:
    """(G N, ...) -> (G, N, ...)"""
    return map_stack(lambda t, axis: torch.unflatten(t, axis, (G, -1)), x)


def align_stacks(*stacks: Tensor | float) -> list[Tensor | float]:
    """Give all stacks as many axes as the largest has; numbers are returned as they are."""
    ndim = max(x.ndim for x in stacks if isinstance(x, Tensor))
    aligned: list[Tensor | float] = []
    for x in stacks:
        if isinstance(x, Tensor):
            aligned.append(insert_axes(x, ndim - x.ndim))
        else:
            aligned.append(x)
    return aligned


def insert_axes(x: Tensor, count: int) -> Tensor:
    """(G, *shape) -> (G, 1, ..., *shape)"""
    if not count:
        return x
    ones = (1,) * count

    def move(t: Tensor, axis: int) -> Tensor:
        return t.reshape(*t.shape[: axis + 1], *ones, *t.shape[axis + 1 :])

    return map_stack(move, x)

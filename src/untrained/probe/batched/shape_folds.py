"""Folds of functions that rearrange entries or sum them: reshaping, moving axes, indexing,
concatenation.

A fold (in JAX: a batching rule) does the work of many networks in one call, see `folds.py`.

Most are the function itself with its axes shifted by the axis of networks. Other linear functions
without weights use `torch.vmap`, which has ten times the Python overhead and needs contiguous
stacks.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from untrained.probe.batched.layouts import FOLDS, Fold, concatenate, map_stack
from untrained.probe.batched.signatures import Signature, TensorSpec, find_tensors
from untrained.probe.jets import Jet, find_functions
from untrained.probe.rules.structure import LINEAR, LINEAR_WITH_CONSTANTS, make_linear_rule


def _make_vmap_fold(with_constants: bool) -> Fold:
    def body(G: int, call: Signature, *args: object, **kwargs: object) -> object:
        stacks = []
        for stack in find_tensors((args, tuple(kwargs.values()))):
            stacks.append(map_stack(lambda t, _: t.contiguous(), stack))

        def call_all(*stacks: Tensor) -> object:
            device = stacks[0].device
            return torch.vmap(lambda *tensors: call.call(tensors, device))(*stacks)

        if any(isinstance(stack, Jet) for stack in stacks):
            return make_linear_rule(call_all, with_constants)(*stacks)
        return call_all(*stacks)

    return body


def _register_vmap_folds() -> None:
    for function in find_functions(*LINEAR):
        FOLDS.setdefault(function, _make_vmap_fold(with_constants=False))
    for function in find_functions(*LINEAR_WITH_CONSTANTS):
        FOLDS.setdefault(function, _make_vmap_fold(with_constants=True))


_register_vmap_folds()


def _fold_exact_names(*names: str) -> Callable[[Fold], Fold]:
    """Register a fold for functions with exactly these names; their in-place forms have no fold."""

    def register(body: Fold) -> Fold:
        FOLDS.update(dict.fromkeys(find_functions(*names), body))
        return body

    return register


@_fold_exact_names("reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze")
def _fold_reshape(
    G: int, call: Signature, input: Tensor, *args: object, **kwargs: object
) -> object:
    result = call.results[0]
    # A view may also read the bytes as another type.
    if not isinstance(result, TensorSpec) or result.dtype != input.dtype:
        return None
    shape = result.shape
    return map_stack(lambda t, axis: t.reshape(*t.shape[: axis + 1], *shape), input)


def _shift_axes(networks_axis: int, *axes: int) -> tuple[int, ...]:
    """Turn axes of a value into axes of a stack; axes counted from the end do not change."""
    shifted = []
    for axis in axes:
        shifted.append(axis if axis < 0 else axis + networks_axis + 1)
    return tuple(shifted)


@_fold_exact_names("transpose", "swapaxes", "swapdims")
def _fold_transpose(G: int, call: Signature, input: Tensor, *axes: int, **named: int) -> object:
    both = (*axes, *named.values())
    return map_stack(lambda t, axis: t.transpose(*_shift_axes(axis, *both)), input)


@_fold_exact_names("permute")
def _fold_permute(G: int, call: Signature, input: Tensor, *dims: Any) -> object:
    order = dims if isinstance(dims[0], int) else dims[0]
    positive = [axis % len(order) for axis in order]

    def move(t: Tensor, axis: int) -> Tensor:
        return t.permute(*range(axis + 1), *_shift_axes(axis, *positive))

    return map_stack(move, input)


@_fold_exact_names("unbind")
def _fold_unbind(G: int, call: Signature, input: Tensor, dim: int = 0) -> object:
    return map_stack(lambda t, axis: t.unbind(*_shift_axes(axis, dim)), input)


@_fold_exact_names("cat", "concat", "concatenate")
def _fold_cat(G: int, call: Signature, tensors: Sequence[Tensor], dim: int = 0) -> object:
    jets = [x for x in tensors if isinstance(x, Jet)]
    if not jets:
        return concatenate(tensors, *_shift_axes(0, dim))
    if len(jets) < len(tensors):
        return _make_vmap_fold(with_constants=True)(G, call, tensors)
    value = concatenate([x.value for x in jets], *_shift_axes(0, dim))
    derivatives = concatenate([x.derivatives for x in jets], *_shift_axes(1, dim))
    return Jet.of(value, derivatives)


@_fold_exact_names("__getitem__")
def _fold_getitem(G: int, call: Signature, input: Tensor, index: object) -> object:
    parts = index if isinstance(index, tuple) else (index,)
    if not all(type(part) in (int, slice) for part in parts):
        return _make_vmap_fold(with_constants=False)(G, call, input)

    def select(t: Tensor, axis: int) -> Tensor:
        everything = (slice(None),) * (axis + 1)
        return t[everything + tuple(parts)]

    return map_stack(select, input)

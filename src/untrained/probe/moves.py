"""Folds of functions that move entries and compute nothing, or nothing but sums: shapes, axes, parts, joining.

Most are the function itself with its axes counted from behind the axis of networks. What is linear, has no weights and
is not written out here goes by `torch.vmap`, which takes Python ten times as long and wants contiguous stacks.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from untrained.probe.jets import Jet, names
from untrained.probe.layouts import FOLDS, Fold, each, joined
from untrained.probe.rules.structure import LIFTING, LINEAR, linear
from untrained.probe.signatures import Fake, Signature, tensors_of


def _mapped(lifting: bool) -> Fold:
    def body(G: int, call: Signature, *args: Any, **kwargs: Any) -> Any:
        stacks = [each(lambda t, _: t.contiguous(), x) for x in tensors_of((args, tuple(kwargs.values())))]

        def mapped(*stacks: Tensor) -> Any:
            return torch.vmap(lambda *rows: call.call(rows, stacks[0].device))(*stacks)

        return (linear(mapped, lifting) if any(isinstance(x, Jet) for x in stacks) else mapped)(*stacks)

    return body


for _spellings, _lifting in ((LINEAR, False), (LIFTING, True)):
    for _name in _spellings:
        for _f in names(_name):
            FOLDS.setdefault(_f, _mapped(_lifting))


def _fold(*spellings: str) -> Callable[[Fold], Fold]:
    """Register a fold under these names alone: in-place spellings have none."""

    def register(body: Fold) -> Fold:
        FOLDS.update(dict.fromkeys(names(*spellings), body))
        return body

    return register


@_fold("reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze")
def _(G: int, call: Signature, input: Any, *args: Any, **kwargs: Any) -> Any:
    made = call.results[0]
    if not isinstance(made, Fake) or made.dtype != input.dtype:  # a view may read bytes as another type
        return None
    return each(lambda t, first: t.reshape(*t.shape[: first + 1], *made.shape), input)


def _behind(first: int, *axes: int) -> tuple[int, ...]:
    """Axes of a value as those of a stack; what is counted from the end stays."""
    return tuple(axis if axis < 0 else axis + first + 1 for axis in axes)


@_fold("transpose", "swapaxes", "swapdims")
def _(G: int, call: Signature, input: Any, *axes: int, **named: int) -> Any:
    return each(lambda t, first: t.transpose(*_behind(first, *axes, *named.values())), input)


@_fold("permute")
def _(G: int, call: Signature, input: Any, *dims: Any) -> Any:
    order = dims if isinstance(dims[0], int) else dims[0]

    def move(t: Tensor, first: int) -> Tensor:
        return t.permute(*range(first + 1), *_behind(first, *(axis % len(order) for axis in order)))

    return each(move, input)


@_fold("unbind")
def _(G: int, call: Signature, input: Any, dim: int = 0) -> Any:
    return each(lambda t, first: t.unbind(*_behind(first, dim)), input)


@_fold("cat", "concat", "concatenate")
def _(G: int, call: Signature, tensors: Any, dim: int = 0) -> Any:
    if any(isinstance(x, Jet) for x in tensors):
        if not all(isinstance(x, Jet) for x in tensors):
            return _mapped(lifting=True)(G, call, tensors)
        value = joined([x.value for x in tensors], *_behind(0, dim))
        return Jet.of(value, joined([x.tail for x in tensors], *_behind(1, dim)))
    return joined(tensors, *_behind(0, dim))


@_fold("__getitem__")
def _(G: int, call: Signature, input: Any, index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    if not all(type(part) in (int, slice) for part in parts):
        return _mapped(lifting=False)(G, call, input)
    return each(lambda t, first: t[(slice(None),) * (first + 1) + tuple(parts)], input)

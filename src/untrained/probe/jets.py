"""Taylor mode: carry a curve through a network and read its value, velocity and acceleration at the other end.

A `Jet` is a tensor that knows two derivatives along a curve parameter t:

    x.value : (*shape)        x(t)
    x.tail  : (2, *shape)     dx/dt, d2x/dt2

Every function of a network maps a jet to a jet. The value is always computed by the network's own call, so that it is
the network's answer to the last bit (a ReLU further on may hang on that bit). What happens to the tail is a *rule*
(`rules/`), and there are only four kinds:

    linear      y_k = f(x_k); a constant summand (a bias) does not move
    pointwise   y' = f'(x) x',   y'' = f''(x) x'^2 + f'(x) x''
    bilinear    (fg)' = f'g + fg',   (fg)'' = f''g + 2 f'g' + fg''
    composed    written in terms of the others (softmax, attention), or worked out once (norms)

This costs one forward pass of a batch of three, for all output coordinates at once. Nested forward mode
(`torch.func.jvp` of `jvp`) would look simpler and is silently wrong through fused batch norm; a test pins that value.

A function without a rule raises `Unscorable("unsupported", name)`; nothing passes silently. This file knows nothing of
models: it sees functions of tensors.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from untrained.errors import Unscorable

Rule = Callable[..., Any]
RULES: dict[Callable[..., Any], Rule] = {}


class Jet(torch.Tensor):
    """A tensor with its first two derivatives along a curve."""

    value: Tensor  # (*shape)
    tail: Tensor  # (2, *shape)

    @staticmethod
    def of(value: Tensor, tail: Tensor) -> "Jet":
        jet = value.as_subclass(Jet)
        jet.value, jet.tail = value, tail
        return jet

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = RULES.get(func)
        if rule is None:
            raise Unscorable("unsupported", f"no Taylor rule for {torch.overrides.resolve_name(func) or func!r}")
        return rule(*args, **(kwargs or {}))


def value_of(x: Any) -> Any:
    return x.value if isinstance(x, Jet) else x


def aligned(tail: Tensor, ndim: int) -> Tensor:
    """`tail` with its tensor axes padded on the left to `ndim`, so that it broadcasts as the value does."""
    missing = ndim - (tail.ndim - 1)
    return tail.reshape(2, *(1,) * missing, *tail.shape[1:]) if missing > 0 else tail


def names(*spellings: str) -> Iterable[Callable[..., Any]]:
    """Every function object torch keeps under these names: `torch.f`, `Tensor.f`, `functional.f` and so on."""
    rooms = (torch, torch.Tensor, torch.nn.functional, torch._C._nn, torch.special)
    found = {getattr(room, name) for name in spellings for room in rooms if hasattr(room, name)}
    return (f for f in found if callable(f))


def rule(*spellings: str) -> Callable[[Rule], Rule]:
    """Register a rule for functions by name, and for their in-place and operator spellings."""

    def register(body: Rule) -> Rule:
        for name in spellings:
            RULES.update(dict.fromkeys(names(name, f"__{name}__"), body))
            RULES.update(dict.fromkeys(names(f"{name}_", f"__i{name}__"), in_place(body)))
            RULES.update(dict.fromkeys(names(f"__r{name}__"), swapped(body)))
        return body

    return register


def in_place(body: Rule) -> Rule:
    """The rule that also overwrites its first argument, as the function it stands for does."""

    def overwrite(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Jet):
            raise Unscorable("unsupported", "an in-place function writes a changing value into a constant tensor")
        new = body(x, *args, **kwargs)
        x.value.copy_(new.value)
        x.tail.copy_(new.tail)
        return x

    return overwrite


def swapped(body: Rule) -> Rule:
    return lambda x, y, *args, **kwargs: body(y, x, *args, **kwargs)

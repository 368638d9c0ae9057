"""Taylor mode: carry a curve through a network and read its value, velocity and acceleration at the other end.

A `Jet` is a tensor that knows two derivatives along a curve parameter t:

    x.series : (3, *x.shape)        rows  x(t), dx/dt, d2x/dt2

Every function of a network maps the three rows to three rows. What a function does to them is a *rule* (`_rules.py`),
and there are only four kinds:

    linear      y_k = f(x_k); a constant summand (a bias) enters row 0 only
    pointwise   y' = f'(x) x',   y'' = f''(x) x'^2 + f'(x) x''
    bilinear    (fg)' = f'g + fg',   (fg)'' = f''g + 2 f'g' + fg''
    composed    written in terms of the others (softmax, attention, norms)

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
    """A tensor (row 0) with its first two derivatives along a curve (rows 1 and 2 of `series`)."""

    series: Tensor

    @staticmethod
    def of(series: Tensor) -> "Jet":
        """The jet whose rows are `series` of shape (3, *shape)."""
        jet = series[0].as_subclass(Jet)
        jet.series = series
        return jet

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = RULES.get(func)
        if rule is None:
            raise Unscorable("unsupported", f"no Taylor rule for {torch.overrides.resolve_name(func) or func!r}")
        return rule(*args, **(kwargs or {}))


def lift(x: Any, like: Tensor) -> Tensor:
    """The series of a jet, or of a constant: its value and two zero derivatives."""
    if isinstance(x, Jet):
        return x.series
    value = torch.as_tensor(x, dtype=like.dtype, device=like.device)
    return torch.stack([value, torch.zeros_like(value), torch.zeros_like(value)])


def aligned(series: Tensor, ndim: int) -> Tensor:
    """`series` with its tensor axes padded on the left to `ndim`, so that rows broadcast against rows."""
    missing = ndim - (series.ndim - 1)
    return series.reshape(3, *(1,) * missing, *series.shape[1:]) if missing > 0 else series


def chain(x: Tensor, slope: Tensor, bend: Tensor | None, value: Tensor) -> Tensor:
    """Second-order chain rule: rows of f(x) from f(x), f'(x) and f''(x) (None: zero everywhere)."""
    out = x * slope
    if bend is not None:
        out[2].addcmul_(bend, x[1] * x[1])
    out[0] = value
    return out


def leibniz(f: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Product rule to second order for a bilinear `f`."""
    first = f(x[1], y[0]) + f(x[0], y[1])
    second = f(x[2], y[0]) + 2 * f(x[1], y[1]) + f(x[0], y[2])
    return torch.stack([f(x[0], y[0]), first, second])


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
        x.series.copy_(body(x, *args, **kwargs).series)
        return x

    return overwrite


def swapped(body: Rule) -> Rule:
    return lambda x, y, *args, **kwargs: body(y, x, *args, **kwargs)

"""Taylor mode: propagate a curve through a network and read value, velocity and acceleration.

A `Jet` is a tensor with its first two derivatives along a curve parameter t:

    x.value       : (*shape)        x(t)
    x.derivatives : (2, *shape)     dx/dt, d2x/dt2

Every function of a network maps a jet to a jet. The value is always computed by the network's own
call, so it equals the network's output to the last bit (a later ReLU may depend on that bit). The
derivatives are computed by a *rule* (see `rules/`). There are four kinds of rules:

    linear      y_k = f(x_k); a constant summand (a bias) has no derivative
    pointwise   y' = f'(x) x',   y'' = f''(x) x'^2 + f'(x) x''
    bilinear    (fg)' = f'g + fg',   (fg)'' = f''g + 2 f'g' + fg''
    composed    written in terms of the others (softmax, attention) or derived by hand (norms)

This costs about as much as three forward passes, for all output coordinates at once. Nested
forward mode (`torch.func.jvp` of `jvp`) would look simpler, but it silently gives a wrong second
derivative of fused batch norm. `tests/probe/test_jets.py` checks whether that is still so.

A function without a rule raises `Unscorable("unsupported", name)`, so nothing is silently ignored.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from untrained.errors import Unscorable

# torch does not declare types of its functions in general.
TorchFunction = Callable[..., Any]
Args = tuple[Any, ...]  # arguments of such a function
Kwargs = dict[str, Any]  # its keyword arguments
Rule = Callable[..., Any]
RULES: dict[TorchFunction, Rule] = {}

# Where torch keeps its functions. Many exist in several of these places as different objects.
_NAMESPACES = (torch, torch.Tensor, torch.nn.functional, torch._C._nn, torch.special)


class Jet(torch.Tensor):
    """A tensor with its first two derivatives along a curve."""

    value: Tensor  # (*shape)
    derivatives: Tensor  # (2, *shape)

    @staticmethod
    def of(value: Tensor, derivatives: Tensor) -> "Jet":
        """Make a jet of a value and its two derivatives."""
        jet = value.as_subclass(Jet)
        jet.value = value
        jet.derivatives = derivatives
        return jet

    @classmethod
    def __torch_function__(
        cls,
        func: TorchFunction,
        types: Sequence[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        rule = RULES.get(func)
        if rule is None:
            name = torch.overrides.resolve_name(func) or repr(func)
            raise Unscorable("unsupported", f"no Taylor rule for {name}")
        return rule(*args, **(kwargs or {}))


def get_value(x: Any) -> Any:
    """Return the value of a jet; anything else is returned as it is."""
    if isinstance(x, Jet):
        return x.value
    return x


def align_derivatives(derivatives: Tensor, ndim: int) -> Tensor:
    """Insert axes of length 1 such that derivatives broadcast like a value of `ndim` axes."""
    missing = ndim - (derivatives.ndim - 1)
    if missing <= 0:
        return derivatives
    ones = (1,) * missing
    return derivatives.reshape(2, *ones, *derivatives.shape[1:])


def find_functions(*names: str) -> list[TorchFunction]:
    """Return every function that torch keeps under these names.

    Examples are `torch.relu`, `Tensor.relu` and `torch.nn.functional.relu`.
    """
    functions = set()
    for name in names:
        for namespace in _NAMESPACES:
            function = getattr(namespace, name, None)
            if callable(function):
                functions.add(function)
    return list(functions)


def taylor_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for functions by name, including their in-place and operator forms."""

    def register(body: Rule) -> Rule:
        for name in names:
            RULES.update(dict.fromkeys(find_functions(name, f"__{name}__"), body))
            in_place = make_in_place(body)
            RULES.update(dict.fromkeys(find_functions(f"{name}_", f"__i{name}__"), in_place))
            reflected = swap_arguments(body)
            RULES.update(dict.fromkeys(find_functions(f"__r{name}__"), reflected))
        return body

    return register


def make_in_place(body: Rule) -> Rule:
    """Return the rule of the in-place form, which also overwrites its first argument."""

    def overwrite(x: object, *args: object, **kwargs: object) -> Jet:
        if not isinstance(x, Jet):
            detail = "an in-place function writes a value that depends on the input into a constant"
            raise Unscorable("unsupported", detail)
        result = body(x, *args, **kwargs)
        x.value.copy_(result.value)
        x.derivatives.copy_(result.derivatives)
        return x

    return overwrite


def swap_arguments(body: Rule) -> Rule:
    """Return the rule of the reflected operator, such as `__rsub__`."""

    def reflected(x: object, y: object, *args: object, **kwargs: object) -> object:
        return body(y, x, *args, **kwargs)

    return reflected

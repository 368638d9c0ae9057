"""Calls of torch functions the way people write them: `a + b`, `x[:, 1:]`, `x.flatten(1)`, `F.pad(x, (0, 1))`."""

from collections.abc import Callable, Mapping
from inspect import signature
from types import FunctionType
from typing import Any

import torch
from torch.overrides import resolve_name

from untrained.exports._expressions import Attribute, Binary, Call, Index, Option, Text, Unary, written
from untrained.exports._layers import Untold, literal

Node = Callable[..., Any]  # a value, and what to call it if it becomes an argument, as an expression
_LOOKS = {  # at values, which another input may have otherwise
    *"item __bool__ __int__ __float__ __index__ __complex__ __contains__ tolist numpy __array__".split(),
    *"equal allclose is_nonzero __format__ __repr__".split(),
}
_OPERATORS = {
    **dict.fromkeys(("add", "__add__"), "+"),
    **dict.fromkeys(("sub", "__sub__"), "-"),
    **dict.fromkeys(("mul", "__mul__"), "*"),
    **dict.fromkeys(("div", "true_divide", "__truediv__"), "/"),
    **dict.fromkeys(("matmul", "__matmul__"), "@"),
    **dict.fromkeys(("pow", "__pow__"), "**"),
    **dict(gt=">", ge=">=", lt="<", le="<=", eq="==", ne="!=", __and__="&", __or__="|"),  # noqa: C408
}
_TURNED = {"__radd__": "+", "__rsub__": "-", "__rmul__": "*", "__rtruediv__": "/", "__rmatmul__": "@", "__rpow__": "**"}


def name_of(func: Any) -> str:
    """`torch.Tensor.add`, `torch.nn.functional.relu`, `torch.cat`."""
    plain = str(getattr(func, "__name__", func))
    return str(resolve_name(func) or (f"torch.{plain}" if getattr(torch, plain, None) is func else plain))


def looks_at_values(name: str) -> bool:
    return name.rpartition(".")[2] in _LOOKS


def acts(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Whether a function changes what it is given."""
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name.endswith("__setitem__") or "out" in kwargs or kwargs.get("inplace") is True


def expression(func: Any, args: Any, kwargs: Mapping[str, Any], node: Node) -> Any:
    """The call of a torch function; `node` tells how a value is called."""
    name = name_of(func)
    where, _, word = name.rpartition(".")
    if word == "__get__":
        return Attribute(node(args[0]), where.rpartition(".")[2])
    if where != "torch.Tensor":
        return call(Text(_qualified(name)), args, kwargs, node, _usual(func))
    base, *rest = args
    if word == "__getitem__":
        return Index(node(base), _items(rest[0], node))
    if word == "__setitem__":
        return Binary("=", Index(node(base), _items(rest[0], node)), node(rest[1]))
    if word == "neg" and not rest:
        return Unary("-", node(base))
    if len(rest) == 1 and not kwargs and word in _OPERATORS | _TURNED:
        left, right = node(base), node(rest[0])
        return Binary(_TURNED[word], right, left) if word in _TURNED else Binary(_OPERATORS[word], left, right)
    return call(Attribute(node(base), word), rest, kwargs, node)


def call(
    function: Any, args: Any, kwargs: Mapping[str, Any], node: Node, usual: Mapping[str, str] | None = None
) -> Call:
    """`usual` are the defaults of the function, as they are written."""
    named = (Option(name, node(value, name), (usual or {}).get(name)) for name, value in kwargs.items())
    return Call(function, (*map(node, args), *named))


def _items(index: Any, node: Node) -> tuple[Any, ...]:
    return tuple(map(node, index if isinstance(index, tuple) else (index,)))


def _usual(func: Any) -> dict[str, str]:
    """The defaults of a function; torch's builtins do not tell theirs."""
    if not isinstance(func, FunctionType):
        return {}
    plain = bool | int | float | str | None
    defaults = {p.name: p.default for p in signature(func).parameters.values() if isinstance(p.default, plain)}
    return {name: written(literal(value)) for name, value in defaults.items()}


def _qualified(name: str) -> str:
    if name.startswith("torch.nn.functional."):
        return "F." + name.rpartition(".")[2]
    name = name.replace("torch.functional.", "torch.")
    if not name.startswith("torch.") or name.endswith(".__set__"):
        raise Untold(f"it calls {name}, which plain source cannot call")
    return name

"""Express calls of torch functions in usual notation: `a + b`, `x[:, 1:]`, `x.flatten(1)`."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from types import FunctionType

import torch
from torch.overrides import resolve_name

from untrained.exports.expressions import (
    Attribute,
    Binary,
    Call,
    Code,
    Expression,
    Keyword,
    Subscript,
    Unary,
    format_expression,
)
from untrained.exports.value_expressions import SourceError, express_value

# Turns a value into an expression. An optional second argument is a name for the numbers in the
# value, in case they become arguments of a class.
ExpressFunction = Callable[..., Expression]

# Functions that turn tensors into Python values. If the control flow of a network depends on such
# values, a trace of one input is not valid for others.
_VALUE_READERS = {
    "item",
    "tolist",
    "numpy",
    "equal",
    "allclose",
    "is_nonzero",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__complex__",
    "__contains__",
    "__array__",
    "__format__",
    "__repr__",
}
_OPERATORS = {
    "add": "+",
    "__add__": "+",
    "sub": "-",
    "__sub__": "-",
    "mul": "*",
    "__mul__": "*",
    "div": "/",
    "true_divide": "/",
    "__truediv__": "/",
    "matmul": "@",
    "__matmul__": "@",
    "pow": "**",
    "__pow__": "**",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "__and__": "&",
    "__or__": "|",
}
_REFLECTED_OPERATORS = {
    "__radd__": "+",
    "__rsub__": "-",
    "__rmul__": "*",
    "__rtruediv__": "/",
    "__rmatmul__": "@",
    "__rpow__": "**",
}


def get_function_name(function: object) -> str:
    """Return `torch.Tensor.add`, `torch.nn.functional.relu` or `torch.cat`."""
    name = resolve_name(function)
    if name:
        return str(name)
    # `resolve_name` does not know functions of torch that cannot be overridden.
    plain = str(getattr(function, "__name__", function))
    if getattr(torch, plain, None) is function:
        return f"torch.{plain}"
    return plain


def reads_values(name: str) -> bool:
    """Return whether a function turns a tensor into a Python value."""
    return name.rpartition(".")[2] in _VALUE_READERS


def changes_arguments(name: str, kwargs: Mapping[str, object]) -> bool:
    """Return whether a function changes tensors that it is called with."""
    if name.endswith("__setitem__"):
        return True
    if name.endswith("_") and not name.endswith("__"):
        return True
    return "out" in kwargs or kwargs.get("inplace") is True


def express_torch_call(
    function: object, args: Sequence[object], kwargs: Mapping[str, object], express: ExpressFunction
) -> Expression:
    """Turn the call of a torch function into an expression.

    Args:
        function: A function or method of torch.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        express: Turns an argument into an expression.

    Raises:
        SourceError: Plain source cannot call the function.
    """
    name = get_function_name(function)
    owner, _, method = name.rpartition(".")
    if method == "__get__":
        # torch.Tensor.shape.__get__ is the attribute `shape`.
        return Attribute(express(args[0]), owner.rpartition(".")[2])
    if owner != "torch.Tensor":
        return make_call(
            Code(_shorten_function_name(name)), args, kwargs, express, _read_defaults(function)
        )
    tensor, *others = args
    if method == "__getitem__":
        return Subscript(express(tensor), _express_index(others[0], express))
    if method == "__setitem__":
        target = Subscript(express(tensor), _express_index(others[0], express))
        return Binary("=", target, express(others[1]))
    if method == "neg" and not others:
        return Unary("-", express(tensor))
    is_binary = len(others) == 1 and not kwargs
    if is_binary and method in _OPERATORS:
        return Binary(_OPERATORS[method], express(tensor), express(others[0]))
    if is_binary and method in _REFLECTED_OPERATORS:
        # `1 - x` arrives as `x.__rsub__(1)`.
        return Binary(_REFLECTED_OPERATORS[method], express(others[0]), express(tensor))
    return make_call(Attribute(express(tensor), method), others, kwargs, express)


def make_call(
    function: Expression,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    express: ExpressFunction,
    defaults: Mapping[str, str] | None = None,
) -> Call:
    """Make a call expression.

    Args:
        function: The function or method.
        args: Positional arguments.
        kwargs: Keyword arguments.
        express: Turns an argument into an expression.
        defaults: Source of the defaults of keyword arguments, which are left out.
    """
    defaults = defaults or {}
    arguments = [express(value) for value in args]
    for name, value in kwargs.items():
        arguments.append(Keyword(name, express(value, name), defaults.get(name)))
    return Call(function, tuple(arguments))


def _express_index(index: object, express: ExpressFunction) -> tuple[Expression, ...]:
    """Express `1, 2:` of `x[1, 2:]`."""
    if isinstance(index, tuple):
        return tuple(express(item) for item in index)
    return (express(index),)


def _read_defaults(function: object) -> dict[str, str]:
    """Return the source of the defaults of a function; empty for builtins without a signature."""
    if not isinstance(function, FunctionType):
        return {}
    defaults = {}
    for parameter in signature(function).parameters.values():
        if isinstance(parameter.default, bool | int | float | str | None):
            defaults[parameter.name] = format_expression(express_value(parameter.default))
    return defaults


def _shorten_function_name(name: str) -> str:
    """Return the name of a function as `F.relu` or `torch.cat`."""
    if name.startswith("torch.nn.functional."):
        return "F." + name.rpartition(".")[2]
    # torch.functional holds functions that are public as torch.einsum and the like.
    name = name.replace("torch.functional.", "torch.")
    if not name.startswith("torch.") or name.endswith(".__set__"):
        raise SourceError(f"it calls {name}, which plain source cannot call")
    return name

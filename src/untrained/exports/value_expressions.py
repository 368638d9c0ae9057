"""Express layers and plain values: `nn.Conv2d(3, 16, 3, padding=1, bias=False)`, `(0, 1)`.

The constructor arguments of a layer are guessed from its attributes. The guess is accepted only if
a layer with these arguments equals the original. If no guess is accepted, the layer is traced like
a module that the user wrote.
"""

import json
from inspect import Parameter, signature
from math import isfinite

import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.exports.expressions import (
    Call,
    Code,
    Collection,
    Expression,
    KeyValue,
    Keyword,
    Slice,
    format_expression,
    make_literal,
)

# Arguments of all layers that the source does not need: `load` puts the network on the CPU.
_PLACEMENT_ARGUMENTS = ("device", "dtype")


class SourceError(UsageError):
    """Plain source cannot be generated for a network or for a part of it."""


def find_constructor_call(layer: nn.Module) -> Call | None:
    """Return the constructor call of a layer of torch, or None if it cannot be found."""
    layer_type = type(layer)
    if getattr(nn, layer_type.__name__, None) is not layer_type:
        return None
    parameters = _list_constructor_parameters(layer_type)
    exact_arguments = {}
    for parameter in parameters:
        if hasattr(layer, parameter.name):
            exact_arguments[parameter.name] = _read_argument(layer, parameter.name)
    # Most layers accept 3 for (3, 3), which is what people write. Some do not.
    short_arguments = {name: _shorten_tuple(value) for name, value in exact_arguments.items()}
    for arguments in (short_arguments, exact_arguments):
        if _makes_equal_layer(layer_type, arguments, layer):
            function = Code(f"nn.{layer_type.__name__}")
            return Call(function, _make_call_arguments(parameters, arguments))
    return None


def _list_constructor_parameters(layer_type: type[nn.Module]) -> list[Parameter]:
    variadic_kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    parameters = []
    for parameter in signature(layer_type).parameters.values():
        if parameter.name in _PLACEMENT_ARGUMENTS or parameter.kind in variadic_kinds:
            continue
        parameters.append(parameter)
    return parameters


def _read_argument(layer: nn.Module, name: str) -> object:
    """Return the probable value of a constructor argument."""
    value = getattr(layer, name)
    # `bias=True` becomes a tensor and `bias=False` becomes None.
    if isinstance(value, Tensor):
        return True
    if name == "bias" and value is None:
        return False
    return value


def _shorten_tuple(value: object) -> object:
    """Turn (3, 3) into 3."""
    if isinstance(value, tuple) and value and len(set(value)) == 1:
        return value[0]
    return value


def _makes_equal_layer(
    layer_type: type[nn.Module], arguments: dict[str, object], layer: nn.Module
) -> bool:
    try:
        # On the meta device no weights are drawn, so the trial is cheap.
        with torch.device("meta"):
            trial = layer_type(**arguments)
            return _describe_layer(trial) == _describe_layer(layer)
    except Exception:
        # Constructors may raise any exception for wrong arguments, and so may comparisons.
        return False


def _describe_layer(layer: nn.Module) -> tuple[object, ...]:
    """Return everything that distinguishes two layers of one type, except for their weights."""
    settings = {}
    for name, value in vars(layer).items():
        if not name.startswith("_") and name != "training":
            settings[name] = value
    weights = []
    for name, tensor in layer.state_dict().items():
        weights.append((name, tuple(tensor.shape), tensor.dtype))
    return settings, weights, str(layer)


def _make_call_arguments(
    parameters: list[Parameter], arguments: dict[str, object]
) -> tuple[Expression, ...]:
    """Return the arguments of a call: required ones by position, the others by name."""
    expressions: list[Expression] = []
    for parameter in parameters:
        if parameter.name not in arguments:
            continue
        value = express_value(arguments[parameter.name], parameter.name)
        if parameter.default is Parameter.empty:
            expressions.append(value)
        else:
            default = format_expression(express_value(parameter.default))
            expressions.append(Keyword(parameter.name, value, default))
    return tuple(expressions)


def express_value(value: object, hint: str = "size") -> Expression:
    """Turn a plain Python value into an expression.

    Args:
        value: A number, text, None, slice, dtype, or a tuple, list or dict of such values.
        hint: Name for the numbers in it if they become arguments of a class.

    Raises:
        SourceError: The value has no plain source.
    """
    if isinstance(value, bool | int):
        return make_literal(value, hint)
    if isinstance(value, float):
        if isfinite(value):
            return make_literal(value, hint)
        return Code(f'float("{value}")')
    if isinstance(value, str):
        return Code(json.dumps(value))
    if value is None:
        return Code("None")
    if value is Ellipsis:
        return Code("...")
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return Code(str(value))
    if isinstance(value, slice):
        start = express_value(value.start, hint)
        stop = express_value(value.stop, hint)
        step = express_value(value.step, hint)
        return Slice(start, stop, step)
    if isinstance(value, tuple | list):
        brackets = "()" if isinstance(value, tuple) else "[]"
        return Collection(brackets, tuple(express_value(item, hint) for item in value))
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        items = []
        for key, item in value.items():
            items.append(KeyValue(json.dumps(key), express_value(item, hint)))
        return Collection("{}", tuple(items))
    raise SourceError(f"a {type(value).__name__} among its arguments cannot be written as source")

"""Torch's own layers as constructor calls: `nn.Conv2d(3, 16, 3, padding=1, bias=False)`.

Arguments are read off a layer's attributes, and believed only if the layer made of them is the same: a layer whose
constructor cannot be told this way is written down like a block of the user's own.
"""

import json
from inspect import Parameter, signature
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.exports._expressions import Call, Listing, Option, Pair, Slice, Text, lit, written

_ELSEWHERE = ("device", "dtype")


class Untold(UsageError):  # noqa: N818 - it names a state of a network
    """Something that no plain source can be written of."""


def constructor(layer: nn.Module) -> Call | None:
    """The call that makes such a layer; None where there is none that we can tell."""
    kind = type(layer)
    if getattr(nn, kind.__name__, None) is not kind:
        return None
    open_ended = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
    parameters = [p for p in signature(kind).parameters.values() if p.name not in _ELSEWHERE]
    parameters = [p for p in parameters if p.kind not in open_ended]
    known = {p.name: _argument(layer, p.name) for p in parameters if hasattr(layer, p.name)}
    for arguments in ({name: _collapsed(value) for name, value in known.items()}, known):
        if _makes(kind, arguments, layer):
            return Call(Text(f"nn.{kind.__name__}"), _told(parameters, arguments))
    return None


def _argument(layer: nn.Module, name: str) -> Any:
    value = getattr(layer, name)
    return value is not None if isinstance(value, Tensor) or (name == "bias" and value is None) else value


def _collapsed(value: Any) -> Any:
    """(3, 3) as people write it: 3."""
    return value[0] if isinstance(value, tuple) and value and len(set(value)) == 1 else value


def _makes(kind: type[nn.Module], arguments: dict[str, Any], layer: nn.Module) -> bool:
    try:
        with torch.device("meta"):
            return _traits(kind(**arguments)) == _traits(layer)
    except Exception:
        return False


def _traits(layer: nn.Module) -> tuple[Any, ...]:
    plain = {name: value for name, value in vars(layer).items() if not name.startswith("_") and name != "training"}
    weights = [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in layer.state_dict().items()]
    return plain, weights, str(layer)


def _told(parameters: list[Parameter], arguments: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments that must be given by place, the others by name."""
    told: list[Any] = []
    for parameter in parameters:
        if parameter.name in arguments:
            value = literal(arguments[parameter.name], parameter.name)
            needed = parameter.default is Parameter.empty
            default = None if needed else written(literal(parameter.default))
            told.append(value if needed else Option(parameter.name, value, default))
    return tuple(told)


def literal(value: Any, hint: str = "size") -> Any:
    """A plain value as an expression."""
    if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return lit(value, hint)
    if isinstance(value, float):
        return Text(f'float("{value}")')
    if isinstance(value, str):
        return Text(json.dumps(value))
    if value is None or value is Ellipsis:
        return Text("None" if value is None else "...")
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return Text(str(value))
    if isinstance(value, slice):
        return Slice(literal(value.start, hint), literal(value.stop, hint), literal(value.step, hint))
    if isinstance(value, tuple | list):
        return Listing("()" if isinstance(value, tuple) else "[]", tuple(literal(item, hint) for item in value))
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return Listing("{}", tuple(Pair(json.dumps(key), literal(item, hint)) for key, item in value.items()))
    raise Untold(f"a {type(value).__name__} among its arguments cannot be written down")

"""Following a network's parameters to the functions that use them.

`Tracking` is a function mode that sees every call a network makes. It opens `nn.MultiheadAttention`, whose projections
torch hides in one function, and follows a parameter through `chunk`, so that whoever listens meets plain linear layers
with samples on the first axis.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from untrained.probe.jets import names
from untrained.probe.rules.attention import attention

_CHUNK = frozenset(names("chunk"))


class Tracking(TorchFunctionMode):
    """Calls `self.call(func, args, kwargs)` for every function; `self.names` knows the parameters by id."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.names = {id(p): name for name, p in parameters.items()}
        self._kept: list[Tensor] = []  # what an id stands for must stay alive

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            with self:
                return attention(*args, **kwargs)
        if func in _CHUNK and id(args[0]) in self.names:
            return self._pieces(self.names[id(args[0])], func(*args, **kwargs))
        return self.call(func, args, kwargs)

    def _pieces(self, name: str, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        for i, part in enumerate(parts):
            self.names[id(part)] = f"{name}[{i}]"
            self._kept.append(part)
        return parts


def whole(name: str) -> str:
    """The name of the parameter that `name` is, or is a piece of."""
    return name.partition("[")[0]


class WithoutNorms(TorchFunctionMode):
    """Every normalisation is the identity."""

    norms = frozenset({F.batch_norm, F.layer_norm, F.group_norm, F.instance_norm, F.rms_norm, F.local_response_norm})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.norms:
            return args[0] if args else (kwargs or {})["input"]
        return func(*args, **(kwargs or {}))

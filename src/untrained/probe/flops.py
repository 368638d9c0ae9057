"""Counting operations with torch's table of formulas, without the bookkeeping per module of its `FlopCounterMode`,
which makes a small network ten times slower to count than to run. Networks on the meta device are counted too."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class Operation(NamedTuple):
    """One call of a torch function: what it was, what torch's formula says of it, and how much memory it made."""

    kind: str  # `convolution 3x3`, `convolution 3x3 grouped`, `addmm`, ...
    flops: int
    bytes: int  # of new tensors; a view or what is written in place makes none


# On the meta device torch works these answers out in Python: three quarters of the time of counting
_SHAPES: dict[Any, Callable[[Tensor], Any]] = {
    torch.ops.aten.relu.default: torch.empty_like,
    torch.ops.aten.native_batch_norm.default: lambda x: (
        torch.empty_like(x),
        x.new_empty(x.shape[1]),
        x.new_empty(x.shape[1]),
    ),
}


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside it, `operations` grows by every call, `flops` by what torch says of convolutions, matrix products and
    attention."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []

    @property
    def flops(self) -> int:
        return sum(operation.flops for operation in self.operations)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch would import its compiler (a second and more) to shield a mode from it; nothing is compiled here."""
        return False

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        known = _SHAPES.get(func) if args and isinstance(args[0], Tensor) and args[0].is_meta else None
        out = known(args[0]) if known else func(*args, **(kwargs or {}))
        formula = flop_registry.get(getattr(func, "_overloadpacket", None))
        flops = int(formula(*args, **(kwargs or {}), out_val=out)) if formula is not None else 0
        made = sum(tensor.numel() * tensor.element_size() for tensor in _new(func, out))
        self.operations.append(Operation(_kind(func, args), flops, made))
        return out


def _kind(func: Any, args: tuple[Any, ...]) -> str:
    name = str(func._schema.name).removeprefix("aten::")
    if name != "convolution":
        return name
    weight, groups = args[1], args[8]
    return f"{name} {'x'.join(map(str, weight.shape[2:]))}{' grouped' if groups > 1 else ''}"


def _new(func: Any, out: Any) -> Iterator[Tensor]:
    """The tensors that a function made: those its schema does not call an alias of an argument."""
    outs = out if isinstance(out, tuple | list) else (out,)
    declared = func._schema.returns
    for place, tensor in enumerate(outs):
        alias = declared[min(place, len(declared) - 1)].alias_info if declared else None
        if isinstance(tensor, Tensor) and alias is None:
            yield tensor

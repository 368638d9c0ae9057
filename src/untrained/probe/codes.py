"""Sign codes: on which side of zero every neuron of every pointwise nonlinearity stands, for every sample.

For a ReLU the code says which linear region of the network a sample lies in. Any other nonlinearity (GELU, SiLU, tanh)
is read the same way, by the sign of what enters it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from untrained.probe.jets import names

_FUNCTIONS = """
relu relu6 leaky_relu prelu rrelu elu selu celu gelu silu mish hardswish hardtanh hardsigmoid sigmoid tanh softplus
softsign tanhshrink softshrink hardshrink logsigmoid threshold
""".split()
NONLINEARITIES = frozenset(f for name in _FUNCTIONS for f in names(name, f"{name}_"))
_RELU = frozenset(names("relu", "relu_"))


@dataclass(eq=False)
class Code:
    """The signs of one call of a nonlinearity: (samples, neurons), True where the pre-activation is positive."""

    signs: Tensor
    images: bool  # whether the pre-activation was a feature map, (samples, channels, height, width)
    relu_modules: int = 0  # how many enclosing modules carry ReLU in the name of their class and take the same input

    @cached_property
    def agreement(self) -> Tensor:
        """On how many neurons two samples agree: z z^T + (1 - z)(1 - z)^T, float64 on the CPU. Exact, since counts of
        neurons stay below 2^24 in float32."""
        on = self.signs.float()
        both, each = (on @ on.mT).double(), on.sum(1).double()
        return (2 * both - each[:, None] - each[None] + on.shape[1]).cpu()


class Codes(TorchFunctionMode):
    """While it is on, collects the codes of all calls in order. `lasting`: to be read at the end, from tensors that a
    graph holds anyway; a ReLU's result is positive where its input is."""

    def __init__(self, lasting: bool = False) -> None:
        super().__init__()
        self._lasting = lasting
        self._found: list[tuple[Tensor, int, int]] = []  # signs or what has them, its version then, `relu_modules`
        self._entered: list[Tensor] = []  # inputs of modules whose class is called after a ReLU

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        """Listen to functions through this mode and to modules through torch's one global hook."""
        known = {module for module in model.modules() if "ReLU" in type(module).__name__}

        def enter(module: nn.Module, inputs: Any) -> None:
            if module in known and inputs:
                self._entered.append(inputs[0])

        handle = register_module_forward_pre_hook(enter)
        try:
            with self:
                yield
        finally:
            handle.remove()

    def read(self) -> tuple[Code, ...] | None:
        """The codes; None where what would tell them was overwritten."""
        if any(kept._version != version for kept, version, _ in self._found):
            return None
        return tuple(Code(_signs(kept), kept.ndim == 4, relu_modules) for kept, _, relu_modules in self._found)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in NONLINEARITIES:
            return func(*args, **kwargs)
        before = args[0] if args else kwargs["input"]
        relu_modules = sum(entered is before for entered in self._entered)
        self._entered.clear()
        if not (self._lasting and func in _RELU):
            self._keep(before, relu_modules)
        out = func(*args, **kwargs)
        if self._lasting and func in _RELU:
            self._keep(out, relu_modules)
        return out

    def _keep(self, tensor: Tensor, relu_modules: int) -> None:
        with torch._C.DisableTorchFunction():
            kept = tensor.detach() if self._lasting else tensor.detach() > 0
            self._found.append((kept, kept._version, relu_modules))


def _signs(kept: Tensor) -> Tensor:
    positive = kept if kept.dtype == torch.bool else kept > 0
    return positive.flatten(1) if positive.ndim > 1 else positive[:, None]

"""All features: the outputs of all modules and of all functions that a network calls.

`features.py` has the outputs of modules only, which is what published proxies read. An activation
that is called as a function, such as `F.gelu(x)`, a sum of two branches or a concatenation is not
the output of a module, so it is added here.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode

from untrained.probe.codes import NONLINEARITIES
from untrained.probe.features import Feature, find_first_tensor
from untrained.probe.jets import Args, Kwargs, TorchFunction


@dataclass(slots=True, eq=False)
class CompleteFeature(Feature):
    """One distinct output tensor of a module or a function.

    Attributes:
        tensor: The output, (samples, ...).
        name: Name of the first module that returned it. If none did, the module that called the
            function.
        calls: Number of module calls that returned it; 0 if only functions did.
        leaf_calls: Number of calls of leaf modules that returned it.
        function: Name of the function that computed it, such as "gelu" or "add"; empty if no
            function was seen.
        before: If the function is a pointwise nonlinearity, its input; otherwise None.
    """

    function: str = ""
    before: Tensor | None = None


class CompleteFeatureCapture(TorchFunctionMode):
    """Collects the outputs of modules and functions in call order.

    The tensors are copied, because functions may overwrite them later. A function that a module
    calls and that returns the output of the module is one feature together with it. Of functions
    that call others, such as `F.multi_head_attention_forward`, only the outer one is seen.

    Args:
        samples: Number of samples that the network runs on. Outputs of functions whose first axis
            has another length, such as those of functions of weights, are left out.
    """

    def __init__(self, samples: int) -> None:
        super().__init__()
        self._samples = samples
        # By id and version of the tensor.
        self._features: dict[tuple[int, int], CompleteFeature] = {}
        # Without them, the id of a tensor could be used again.
        self._tensors: list[Tensor] = []
        # Names of the modules whose call has not ended, the outermost first.
        self._running_modules: list[str] = []

    @property
    def features(self) -> tuple[CompleteFeature, ...]:
        """The collected features in call order."""
        return tuple(self._features.values())

    @contextmanager
    def record(self, model: nn.Module) -> Iterator[None]:
        """Record functions through this mode, and modules through torch's global hooks."""
        modules = {}
        for name, module in model.named_modules():
            modules[module] = (name, not module._modules)

        def enter(module: nn.Module, inputs: Args) -> None:
            if module in modules:
                self._running_modules.append(modules[module][0])

        def leave(module: nn.Module, inputs: Args, output: Any) -> None:
            if module not in modules:
                return
            name, is_leaf = modules[module]
            self._running_modules.pop()
            # Without this, copying would be recorded as a function of the network.
            with torch._C.DisableTorchFunction():
                self._collect_from_module(find_first_tensor(output), name, is_leaf)

        handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_function__(
        self,
        func: TorchFunction,
        types: Sequence[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        kwargs = kwargs or {}
        before = None
        if func in NONLINEARITIES:
            source = args[0] if args else kwargs["input"]
            with torch._C.DisableTorchFunction():
                # The function may work in place.
                before = source.detach().clone()
        output = func(*args, **kwargs)
        outputs = output if isinstance(output, list | tuple) else [output]
        with torch._C.DisableTorchFunction():
            for tensor in outputs:
                self._collect_from_function(tensor, func, before)
        return output

    def _collect_from_module(self, tensor: Tensor | None, name: str, is_leaf: bool) -> None:
        if tensor is None or not _is_feature(tensor):
            return
        feature = self._find_or_add(tensor, name)
        if not feature.calls:
            # Until now, only a function had returned it.
            feature.name = name
        feature.calls += 1
        if is_leaf:
            feature.leaf_calls += 1

    def _collect_from_function(
        self, tensor: object, function: TorchFunction, before: Tensor | None
    ) -> None:
        if not isinstance(tensor, Tensor) or isinstance(tensor, nn.Parameter):
            return
        if not _is_feature(tensor) or len(tensor) != self._samples:
            return
        calling_module = self._running_modules[-1] if self._running_modules else ""
        feature = self._find_or_add(tensor, calling_module)
        if not feature.function:
            feature.function = _get_function_name(function)
        if before is not None:
            feature.before = before

    def _find_or_add(self, tensor: Tensor, name: str) -> CompleteFeature:
        key = (id(tensor), tensor._version)
        if key not in self._features:
            self._tensors.append(tensor)
            self._features[key] = CompleteFeature(tensor.detach().clone(), name)
        return self._features[key]


def _is_feature(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.ndim > 0


def _get_function_name(function: TorchFunction) -> str:
    """Return the name of a function, such as "relu", or of a property, such as "mT"."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", "")
    return str(name)

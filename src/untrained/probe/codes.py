"""Sign codes: for every sample, the sign of every input of every pointwise nonlinearity.

For ReLU networks the code determines the linear region of a sample. Other nonlinearities (GELU,
SiLU, tanh) are read in the same way, by the sign of their input.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from untrained.probe.jets import Args, Kwargs, TorchFunction, find_functions

_NONLINEARITY_NAMES = """
relu relu6 leaky_relu prelu rrelu elu selu celu gelu silu mish hardswish hardtanh hardsigmoid
sigmoid tanh softplus softsign tanhshrink softshrink hardshrink logsigmoid threshold
""".split()


def _find_nonlinearities() -> frozenset[TorchFunction]:
    functions: list[TorchFunction] = []
    for name in _NONLINEARITY_NAMES:
        functions.extend(find_functions(name, f"{name}_"))
    return frozenset(functions)


NONLINEARITIES = _find_nonlinearities()
_RELU = frozenset(find_functions("relu", "relu_"))


@dataclass(eq=False)
class SignCode:
    """The signs of one call of a nonlinearity.

    Attributes:
        signs: (samples, neurons), True where the input of the nonlinearity is positive.
        is_feature_map: Whether that input was a feature map, (samples, channels, height, width).
        relu_module_count: Number of enclosing modules that have ReLU in their class name and
            receive the same input.
    """

    signs: Tensor
    is_feature_map: bool
    relu_module_count: int = 0

    @cached_property
    def agreement(self) -> Tensor:
        """Number of neurons on which two samples agree, (samples, samples).

        z z^T + (1 - z)(1 - z)^T, float64 on the CPU. It is exact, since counts of neurons stay
        below 2^24 in float32.
        """
        z = self.signs.float()
        both_positive = (z @ z.mT).double()
        positive = z.sum(1).double()
        neurons = z.shape[1]
        return (2 * both_positive - positive[:, None] - positive[None] + neurons).cpu()


class SignRecorder(TorchFunctionMode):
    """Records the signs of all inputs of nonlinearities in call order.

    An input without an axis of samples is left out. Such an input does not depend on the batch, as
    in a learned gate, or the network has moved the samples to another axis.

    Args:
        samples: Number of samples that the network runs on.
        keep_tensors: Whether to keep tensors that an autograd graph holds anyway and to compute the
            signs from them at the end. For a ReLU this is the output, which is positive where the
            input is.
    """

    def __init__(self, samples: int, keep_tensors: bool = False) -> None:
        super().__init__()
        self._samples = samples
        self._keep_tensors = keep_tensors
        # (signs, or a tensor with the same signs; its version at that time; relu_module_count)
        self._records: list[tuple[Tensor, int, int]] = []
        # Inputs of modules with ReLU in their class name, since the last nonlinearity.
        self._relu_inputs: list[Tensor] = []

    @contextmanager
    def record(self, model: nn.Module) -> Iterator[None]:
        """Record functions through this mode and modules through torch's global hook."""
        relu_modules = {m for m in model.modules() if "ReLU" in type(m).__name__}

        def record_relu_input(module: nn.Module, inputs: Args) -> None:
            if module in relu_modules and inputs:
                self._relu_inputs.append(inputs[0])

        handle = register_module_forward_pre_hook(record_relu_input)
        try:
            with self:
                yield
        finally:
            handle.remove()

    def read_codes(self) -> tuple[SignCode, ...] | None:
        """Return the codes, or None if a kept tensor has been overwritten since."""
        if any(tensor._version != version for tensor, version, _ in self._records):
            return None
        codes = []
        for tensor, _, relu_module_count in self._records:
            is_feature_map = tensor.ndim == 4
            codes.append(SignCode(_compute_signs(tensor), is_feature_map, relu_module_count))
        return tuple(codes)

    def __torch_function__(
        self,
        func: TorchFunction,
        types: Sequence[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func not in NONLINEARITIES:
            return func(*args, **kwargs)
        input = args[0] if args else kwargs["input"]
        relu_module_count = sum(relu_input is input for relu_input in self._relu_inputs)
        # Inputs of modules that were called earlier are not compared with those of later functions.
        self._relu_inputs.clear()
        if not self._has_samples(input):
            return func(*args, **kwargs)
        use_output = self._keep_tensors and func in _RELU
        if not use_output:
            self._record(input, relu_module_count)
        out = func(*args, **kwargs)
        if use_output:
            self._record(out, relu_module_count)
        return out

    def _has_samples(self, input: Tensor) -> bool:
        """Whether the first axis of an input counts samples."""
        # A parameter may have as many entries as there are samples.
        if isinstance(input, nn.Parameter):
            return False
        # Without this, reading the shape would be recorded by the other function modes.
        with torch._C.DisableTorchFunction():
            return input.ndim > 0 and len(input) == self._samples

    def _record(self, tensor: Tensor, relu_module_count: int) -> None:
        # Without this, `detach` and `>` would be recorded by the other function modes.
        with torch._C.DisableTorchFunction():
            record = tensor.detach()
            if not self._keep_tensors:
                record = record > 0
            self._records.append((record, record._version, relu_module_count))


def _compute_signs(tensor: Tensor) -> Tensor:
    positive = tensor if tensor.dtype == torch.bool else tensor > 0
    if positive.ndim == 1:
        return positive[:, None]
    return positive.flatten(1)

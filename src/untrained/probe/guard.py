"""How the Probe looks at a model without leaving a trace.

`watching(model)` is the only door: inside it the model is in evaluation mode (no dropout, no auxiliary heads, no buffer
updates), batch norm reads the statistics of the batch in front of it (the convention of all training-free work),
randomness is seeded, float32 is float32 also on a GPU, and a caller's inference mode is off (its tensors know no
versions, its functions are fused). After it, parameters, buffers, gradients, modes, hooks and random states are what
they were.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from untrained.errors import Unscorable
from untrained.probe.jets import Jet

_DROPOUTS = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout}


@dataclass(frozen=True)
class NormVariance:
    """What a batch norm divides by: the variance of each channel (biased), and over how many entries it was taken."""

    channels: torch.Tensor
    entries: int


class Scoring(TorchFunctionMode):
    """Batch norm on batch statistics, dropout off; everything else as written. `heard` collects the variances."""

    def __init__(self, heard: "list[NormVariance] | None" = None) -> None:
        super().__init__()
        self.heard = heard

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.batch_norm:
            args, kwargs = on_batch(norm_call(*args, **kwargs)), {}
            if self.heard is not None:
                rows = args[0].movedim(1, 0).flatten(1)
                self.heard.append(NormVariance(rows.var(1, unbiased=False), rows.shape[1]))
        elif func is F.embedding:
            args, kwargs = _on_copy(*args, **kwargs), {}
        elif func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        elif func is F.avg_pool2d and not args[0].is_contiguous():
            closed = self.called(torch.Tensor.contiguous, types, args[:1], {})
            args = (closed, *args[1:])  # its gradient for channels last on a GPU is wrong (dev/LOG.md)
        return self.called(func, types, args, kwargs)

    def called(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call as scoring wants it."""
        if Jet in types:  # straight to the rules: being asked twice costs as much as a small layer
            return Jet.__torch_function__(func, types, args, kwargs)
        return func(*args, **kwargs)


class Norm(NamedTuple):
    """A call of `F.batch_norm` as scoring reads it: on the batch, without running statistics."""

    input: Any
    weight: Any
    bias: Any
    eps: float


def norm_call(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Norm:
    """The arguments of `F.batch_norm`, whose signature this is."""
    return Norm(input, weight, bias, eps)


def on_batch(call: Norm) -> tuple[Any, ...]:
    """The arguments that make `F.batch_norm` read the batch and leave running statistics alone."""
    seen = call.input.value if isinstance(call.input, Jet) else call.input
    if seen.numel() == seen.shape[1]:
        raise Unscorable("unsupported", "a batch norm sees one value a channel: show more samples or larger inputs")
    return call.input, None, None, call.weight, call.bias, True, 0.0, call.eps


def _on_copy(
    input: Any, weight: Any, padding_idx: Any = None, max_norm: float | None = None, *args: Any, **kwargs: Any
) -> tuple[Any, ...]:
    """The arguments of `F.embedding`; with a maximal norm it overwrites its table."""
    more = [
        kwargs.get(name, usual)
        for name, usual in (("norm_type", 2.0), ("scale_grad_by_freq", False), ("sparse", False))
    ]
    return input, weight if max_norm is None else weight.clone(), padding_idx, max_norm, *(args or more)


@contextmanager
def watching(
    model: nn.Module, seed: int = 0, heard: "list[NormVariance] | None" = None, scoring: Scoring | None = None
) -> Iterator[dict[nn.Module, str]]:
    """Look at `model` as scoring does, or as a kind of `scoring` that does more; see the module's docstring. Answers
    with its modules and their names."""
    names = named(model)
    flags = [vars(module) for module in names]  # Module.__setattr__ would cost milliseconds a look
    modes = [flag["training"] for flag in flags]
    try:
        for flag in flags:
            flag["training"] = False
        grad = torch.is_grad_enabled()  # leaving inference mode would turn it on
        with (
            torch.inference_mode(False),
            torch.set_grad_enabled(grad),
            full_precision(),
            random_state(seed),
            scoring or Scoring(heard),
        ):
            yield names
    finally:
        for flag, mode in zip(flags, modes, strict=True):
            flag["training"] = mode


def named(model: nn.Module) -> dict[nn.Module, str]:
    """`model.named_modules()` by module, in the same order, without a generator in a generator for every level."""
    found: dict[nn.Module, str] = {}
    ahead = [("", model)]
    while ahead:
        name, module = ahead.pop()
        if module not in found:
            found[module] = name
            prefix = f"{name}." if name else ""
            ahead += [(prefix + key, child) for key, child in reversed(module._modules.items()) if child is not None]
    return found


@contextmanager
def full_precision() -> Iterator[None]:
    """Convolutions and products on a GPU in float32 as on the CPU, not in its 19-bit format: scores must agree."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = convolutions.allow_tf32, products.allow_tf32
    convolutions.allow_tf32 = products.allow_tf32 = False
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32 = before


def fastest_kernels(device: str) -> AbstractContextManager[None]:
    """On a GPU convolutions try their kernels and take the fastest, which need not add in the same order again. For
    whoever shows it the same shapes hundreds of times."""
    if torch.device(device).type != "cuda":
        return nullcontext()
    flags: AbstractContextManager[None] = torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=True)
    return flags


@contextmanager
def random_state(seed: int) -> Iterator[None]:
    """Seed every generator a model might draw from, and put them back."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(range(torch.cuda.device_count())):  # unnamed, torch warns of there being several
        try:
            seed_torch(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002 - models of strangers draw from the global state
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002


def seed_torch(seed: int) -> None:
    """`torch.manual_seed`, which writes down a stack trace for every kind of device that is not there: 0.8 ms."""
    torch.default_generator.manual_seed(seed)
    if (there := torch.accelerator.current_accelerator(check_available=True)) is not None:
        device = torch.get_device_module(there)
        getattr(device, "manual_seed_all", device.manual_seed)(seed)

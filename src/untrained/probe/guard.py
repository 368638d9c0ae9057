"""Run a model for a measurement without changing it.

The Probe runs models only inside `scoring_mode(model)`. There

* the model is in evaluation mode (no dropout, no auxiliary heads, no updates of buffers),
* batch norm uses the statistics of the current batch, the convention of all training-free work,
* random generators are seeded,
* TF32 is disabled, so that scores on GPU and CPU agree,
* inference mode is off, even if the caller has turned it on: its tensors have no version counters,
  and torch may use fused kernels in it.

Afterwards, parameters, buffers, gradients, modes, hooks and random states are as before.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from untrained.errors import Unscorable
from untrained.probe.jets import Args, Jet, Kwargs, TorchFunction, find_functions, get_value
from untrained.probe.pooling import average_pool, maximum_pool

_DROPOUTS = {
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
    torch.dropout,
}
# Faster functions with the same results; they return None where they do not apply.
_POOLS: dict[TorchFunction, Callable[..., Tensor | None]] = {
    **dict.fromkeys(find_functions("avg_pool2d"), average_pool),
    **dict.fromkeys(find_functions("max_pool2d"), maximum_pool),
}


@dataclass(frozen=True)
class NormVariance:
    """The variances that a batch norm divides by.

    Attributes:
        per_channel: Biased variance of each channel.
        entries: Number of values per channel from which it was computed.
    """

    per_channel: Tensor
    entries: int


class ScoringMode(TorchFunctionMode):
    """Calls functions as scoring needs them: batch norm on batch statistics, no dropout.

    Args:
        variances: If given, the variances of all batch norms are appended to it in call order.
        fast_pooling: Use our own pooling where it is faster. It calls other functions than the
            network does, so it is switched off where operations are counted.
    """

    def __init__(
        self, variances: list[NormVariance] | None = None, fast_pooling: bool = True
    ) -> None:
        super().__init__()
        self.variances = variances
        self.fast_pooling = fast_pooling

    def __torch_function__(
        self,
        func: TorchFunction,
        types: Sequence[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func is F.batch_norm:
            args = make_batch_norm_arguments(parse_batch_norm(*args, **kwargs))
            kwargs = {}
            if self.variances is not None:
                rows = args[0].movedim(1, 0).flatten(1)
                variance = NormVariance(rows.var(1, unbiased=False), rows.shape[1])
                self.variances.append(variance)
        elif func is F.embedding:
            args = _protect_embedding_table(*args, **kwargs)
            kwargs = {}
        elif func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        elif func is F.avg_pool2d and not args[0].is_contiguous():
            # On a GPU the gradient of avg_pool2d is wrong for channels-last inputs (dev/LOG.md).
            contiguous = self.call_function(Tensor.contiguous, types, args[:1], {})
            args = (contiguous, *args[1:])
        pool = _POOLS.get(func)
        if pool is not None and self.fast_pooling:
            pooled = pool(*args, **kwargs)
            if pooled is not None:
                return pooled
        return self.call_function(func, types, args, kwargs)

    def call_function(
        self,
        func: TorchFunction,
        types: Sequence[type],
        args: Args,
        kwargs: Kwargs,
    ) -> object:
        """Call a function whose arguments have been adapted to scoring."""
        if Jet in types:
            # Skip torch's second dispatch, which costs as much as a small layer.
            return Jet.__torch_function__(func, types, args, kwargs)
        return func(*args, **kwargs)


class BatchNormCall(NamedTuple):
    """The arguments of `F.batch_norm` that scoring uses: no running statistics."""

    input: Tensor
    weight: Tensor | None
    bias: Tensor | None
    eps: float


def parse_batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> BatchNormCall:
    """Parse the arguments of `F.batch_norm`, whose signature this is."""
    return BatchNormCall(input, weight, bias, eps)


def make_batch_norm_arguments(call: BatchNormCall) -> Args:
    """Return arguments for `F.batch_norm` that use the batch and ignore running statistics."""
    require_several_values(call)
    return call.input, None, None, call.weight, call.bias, True, 0.0, call.eps


def require_several_values(call: BatchNormCall) -> None:
    """Raise if there is only one value per channel, so that its variance is zero."""
    values = get_value(call.input)
    if values.numel() == values.shape[1]:
        detail = "a batch norm sees one value per channel: use more samples or larger inputs"
        raise Unscorable("unsupported", detail)


def _protect_embedding_table(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> tuple[object, ...]:
    """Return arguments for `F.embedding` with a copied table if it would be overwritten.

    With a maximal norm, `F.embedding` rescales rows of the table in place.
    """
    if max_norm is not None:
        weight = weight.clone()
    return input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse


@contextmanager
def scoring_mode(
    model: nn.Module,
    seed: int = 0,
    variances: list[NormVariance] | None = None,
    mode: ScoringMode | None = None,
) -> Iterator[dict[nn.Module, str]]:
    """Prepare a model for a measurement, and restore everything afterwards.

    Args:
        model: The model that is run inside.
        seed: Seed of all random generators inside.
        variances: If given, the variances of all batch norms are appended to it.
        mode: A function mode to use instead of a plain `ScoringMode`.

    Yields:
        The names of the model's modules, by module.
    """
    names = index_modules(model)
    # Write into __dict__: Module.__setattr__ would take milliseconds per measurement.
    states = [vars(module) for module in names]
    training_flags = [state["training"] for state in states]
    try:
        for state in states:
            state["training"] = False
        grad_enabled = torch.is_grad_enabled()  # leaving inference mode would turn it on
        with (
            torch.inference_mode(False),
            torch.set_grad_enabled(grad_enabled),
            full_precision(),
            random_state(seed),
            mode or ScoringMode(variances),
        ):
            yield names
    finally:
        for state, flag in zip(states, training_flags, strict=True):
            state["training"] = flag


def index_modules(model: nn.Module) -> dict[nn.Module, str]:
    """Return the names of all modules by module, in the order of `model.named_modules()`.

    `named_modules` nests one generator per level of the module tree, which is slow.
    """
    names: dict[nn.Module, str] = {}
    stack = [("", model)]
    while stack:
        name, module = stack.pop()
        if module in names:
            continue
        names[module] = name
        prefix = f"{name}." if name else ""
        for key, child in reversed(module._modules.items()):
            if child is not None:
                stack.append((prefix + key, child))
    return names


@contextmanager
def full_precision() -> Iterator[None]:
    """Disable TF32, so that scores on GPU and CPU agree."""
    convolutions = torch.backends.cudnn
    products = torch.backends.cuda.matmul
    convolutions_before = convolutions.allow_tf32
    products_before = products.allow_tf32
    convolutions.allow_tf32 = False
    products.allow_tf32 = False
    try:
        yield
    finally:
        convolutions.allow_tf32 = convolutions_before
        products.allow_tf32 = products_before


def fastest_kernels(device: str) -> AbstractContextManager[None]:
    """Let convolutions on a GPU try several kernels and use the fastest.

    This pays off when the same shapes are computed hundreds of times. The kernels may add in
    another order each time, so results are not reproducible to the last bit. Convolutions may then
    use TF32. Enter `full_precision` afterwards to prevent it.
    """
    if torch.device(device).type != "cuda":
        return nullcontext()
    flags: AbstractContextManager[None] = torch.backends.cudnn.flags(
        enabled=True,
        benchmark=True,
        allow_tf32=True,
    )
    return flags


@contextmanager
def random_state(seed: int) -> Iterator[None]:
    """Seed every generator that a model might draw from, and restore them afterwards."""
    python_state = random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002 - user models may draw from the global state
    # Without a list of devices torch warns if there are several.
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        try:
            seed_torch(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002


def seed_torch(seed: int) -> None:
    """Seed torch on the CPU and on the accelerator that is present.

    `torch.manual_seed` takes 0.8 ms because it records a stack trace for every kind of device that
    is missing.
    """
    torch.default_generator.manual_seed(seed)
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None:
        device = torch.get_device_module(accelerator)
        seed_all = getattr(device, "manual_seed_all", device.manual_seed)
        seed_all(seed)

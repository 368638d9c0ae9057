"""Derivatives of one scalar of a network: the loss, its curvature along the weights, the summed outputs, and the flow
of a network made positive. Each is one pass; nothing here knows what a proxy makes of it.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from untrained.errors import Unscorable
from untrained.probe.graph import CHANNEL_AXIS, Call, Graph, Network, filled, replaced, tensors
from untrained.probe.layers import substitutes, weights
from untrained.probe.norms import Statistics, batch_norm
from untrained.probe.tracking import Tracking, WithoutNorms
from untrained.types import Batch


def _bce(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Logits against zeros and ones; labels (samples,) are for the one output of each sample."""
    return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype).view_as(outputs), reduction=reduction)


LOSSES: dict[str, Callable[..., Tensor]] = {"cross_entropy": F.cross_entropy, "mse": F.mse_loss, "bce": _bce}


def losses(name: str, outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of each sample, (samples,); their mean is the loss of the batch."""
    per_entry = LOSSES[name](outputs, targets, reduction="none")
    return per_entry if per_entry.ndim == 1 else per_entry.flatten(1).mean(1)


@dataclass(frozen=True)
class Channels:
    """What one call of a convolution or linear layer said, times its gradient."""

    saliency: Tensor  # sum over positions of a dL/da, (samples, channels)
    fan_in: int  # weights behind one channel


@dataclass(frozen=True)
class LossPass:
    """What one backward of the mean loss gives."""

    loss: float
    gradients: dict[str, Tensor]  # of every trainable parameter; zeros where the loss does not reach
    channels: tuple[Channels, ...]


def loss_pass(graph: Graph, parameters: Mapping[str, nn.Parameter], targets: Tensor, loss: str) -> LossPass:
    channels: list[Channels] = []

    def meet(call: Call, grad: Tensor) -> None:
        """Multiply what a layer said with its gradient, as the gradient comes by."""
        if call.said is not None:
            weight = call.args[1] if len(call.args) > 1 else call.kwargs["weight"]
            product = (call.said * grad).movedim(CHANNEL_AXIS[call.func], 1)
            saliency = product.flatten(2).sum(-1) if grad.ndim > 2 else product
            channels.append(Channels(saliency, weight.numel() // len(weight)))

    with torch.enable_grad():
        value = LOSSES[loss](graph.outputs, targets)
    grads = graph.gradients(value, list(parameters.values()), hear=meet)
    if all(g is None for g in grads):
        raise Unscorable("disconnected", "the loss does not depend on any parameter")
    gradients = dict(zip(parameters, filled(grads, list(parameters.values())), strict=True))
    return LossPass(float(value.detach()), gradients, tuple(channels))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not named:
        raise Unscorable("unsupported", "the network has no trainable parameter")
    return named


def growth(model: nn.Module, network: Network, batch: Batch, loss: str) -> dict[str, Tensor]:
    """Gradient of W . dL/dW by the weights W of convolutions and linear layers: dL/dW + H W, H the Hessian of the loss.

    W . dL/dW is the derivative by a gate that every layer's answer passes, and takes no gradient of a weight: two
    thirds of the work of a gradient of gradients. A pass of its own: under a second derivative torch takes the first by
    other kernels (SiLU, group norm) with other last bits, and no score may depend on which others were asked for.
    """
    named = {name: p for name, p in weights(model).items() if p.requires_grad}
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):  # the fused kernels differentiate once
        gate = torch.ones((), dtype=next(model.parameters()).dtype, device=batch.inputs.device, requires_grad=True)
        with _Gated(named, gate):
            outputs = network(batch.inputs.clone())
        value = LOSSES[loss](outputs, batch.targets)
        slope = None
        if value.requires_grad:
            (slope,) = torch.autograd.grad(value, gate, create_graph=True, allow_unused=True)
        if slope is None:
            raise Unscorable("disconnected", "the loss does not depend on any weight")
        grads = torch.autograd.grad(slope, list(named.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(named, grads, strict=True))


class _Gated(Tracking):
    """Multiplies what layers make of their weights by a gate; batch norm by its own second derivative."""

    def __init__(self, parameters: Mapping[str, Tensor], gate: Tensor) -> None:
        super().__init__(parameters)
        self.gate = gate
        self.statistics = Statistics()

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in CHANNEL_AXIS and [id(x) in self.names for x in args[:2]] == [False, True]:
            input, weight, bias, *rest = (*args, kwargs.pop("bias", None)) if len(args) == 2 else args
            said = func(input, weight, None if bias is None else bias / self.gate, *rest, **kwargs)
            return _Gate.apply(said, self.gate)  # type: ignore[no-untyped-call]
        if func is F.batch_norm:
            return batch_norm(self.statistics, *args, **kwargs)
        gated = {id(x): self.gate * x for x in tensors((*args, *kwargs.values())) if id(x) in self.names}
        return func(*replaced(args, gated), **dict(zip(kwargs, replaced(tuple(kwargs.values()), gated), strict=True)))


class _Gate(torch.autograd.Function):
    """The product with a gate that is 1, without the products."""

    @staticmethod
    def forward(ctx: Any, said: Tensor, gate: Tensor) -> Tensor:
        ctx.save_for_backward(said)
        return said.clone()  # which an in-place function may overwrite

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        (said,) = ctx.saved_tensors
        return grad, (grad * said).sum()


def jacobian(graph: Graph) -> Tensor:
    """Gradient of the sum of all outputs by the inputs, (samples, entries of an input)."""
    with torch.enable_grad():
        total = graph.outputs.sum()
    (grad,) = graph.gradients(total, [graph.inputs])
    if grad is None:
        raise Unscorable("disconnected", "the output does not depend on the input")
    return grad.flatten(1)


def flow(
    model: nn.Module, logits: Callable[[Any], Tensor], shape: tuple[int, ...], norms: bool
) -> dict[str, tuple[Tensor, Tensor]]:
    """(|W|, dR/d|W|) of every conv and linear weight: R sums the outputs for an input of ones when every parameter and
    buffer is replaced by its absolute value, in float64; `norms` keeps normalisations, else they are the identity."""
    matrices = weights(model)
    state = substitutes(model, lambda t: t.detach().abs().double() if t.is_floating_point() else t.detach().clone())
    leaves = {name: state[name].requires_grad_() for name in matrices}
    ones = torch.ones(1, *shape, dtype=torch.float64, device=next(iter(state.values())).device)
    with torch.enable_grad(), nullcontext() if norms else WithoutNorms():
        R = logits(functional_call(model, state, (ones,), tie_weights=False)).sum()
        if not R.requires_grad:
            raise Unscorable("disconnected", "the output does not depend on any weight")
        grads = torch.autograd.grad(R, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return {name: (leaves[name].detach(), grad) for name, grad in zip(leaves, grads, strict=True)}

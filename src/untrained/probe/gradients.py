"""Derivatives of one scalar of a network: the loss, its curvature along its own gradient, the summed outputs, and the
flow of a network made positive. Each is one pass; nothing here knows what a proxy makes of it.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from untrained.errors import Unscorable
from untrained.probe.layers import substitutes, weights
from untrained.probe.tracking import Tracking, WithoutNorms
from untrained.types import Batch


def _bce(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Logits against zeros and ones; labels (samples,) are for the one output of each sample."""
    return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype).view_as(outputs), reduction=reduction)


LOSSES: dict[str, Callable[..., Tensor]] = {"cross_entropy": F.cross_entropy, "mse": F.mse_loss, "bce": _bce}
Network = Callable[[Tensor], Tensor]


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
    """One forward and one backward of the mean loss."""

    outputs: Tensor
    loss: float
    gradients: dict[str, Tensor]  # of every trainable parameter; zeros where the loss does not reach
    channels: tuple[Channels, ...]


def loss_pass(model: nn.Module, network: Network, batch: Batch, loss: str) -> LossPass:
    """Twice where an in-place function overwrites what a layer said: then with copies."""
    named = trainable(model)
    for copies in (False, True):
        watch = _Channels(named, copies)
        with torch.enable_grad():
            with watch:
                outputs = network(batch.inputs.clone())
            value = LOSSES[loss](outputs, batch.targets)
            if not value.requires_grad:
                raise Unscorable("disconnected", "the loss does not depend on any parameter")
            grads = torch.autograd.grad(value, list(named.values()), allow_unused=True, materialize_grads=True)
            grads = tuple(g.to_dense() if g.is_sparse else g for g in grads)
        if not watch.overwritten:
            break
    return LossPass(outputs.detach(), float(value.detach()), dict(zip(named, grads, strict=True)), tuple(watch.found))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not named:
        raise Unscorable("unsupported", "the network has no trainable parameter")
    return named


class _Channels(Tracking):
    """Multiplies what convolutions and linear layers say with its gradient, as the gradient comes by."""

    axes: ClassVar = {F.conv1d: 1, F.conv2d: 1, F.conv3d: 1, F.linear: -1}  # of output channels

    def __init__(self, parameters: Mapping[str, Tensor], copies: bool) -> None:
        super().__init__(parameters)
        self.found: list[Channels] = []
        self.overwritten = False
        self._copies = copies

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        if func in self.axes and out.requires_grad:
            weight = args[1] if len(args) > 1 else kwargs["weight"]
            if id(weight) in self.names:
                out = out.clone() if out._is_view() else out  # overwriting a view would take its hook out of the graph
                self._listen(out, self.axes[func], weight.numel() // len(weight))
        return out

    def _listen(self, out: Tensor, axis: int, fan_in: int) -> None:
        kept = out.detach().clone() if self._copies else out.detach()  # the same memory, else
        version = kept._version

        def meet(grad: Tensor) -> None:
            self.overwritten |= kept._version != version
            product = (kept * grad).movedim(axis, 1)
            self.found.append(Channels(product.flatten(2).sum(-1) if grad.ndim > 2 else product, fan_in))

        out.register_hook(meet)  # type: ignore[no-untyped-call]


def hessian_gradient(model: nn.Module, network: Network, batch: Batch, loss: str) -> dict[str, Tensor]:
    """H g over the weights of convolutions and linear layers: g their loss gradient, H the Hessian of the loss.

    A pass of its own: under a second derivative torch takes the first by other kernels (SiLU, group norm), whose last
    bits differ, and no score may depend on which others were asked for.
    """
    named = {name: p for name, p in weights(model).items() if p.requires_grad}
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):  # the fused kernels differentiate once
        value = LOSSES[loss](network(batch.inputs.clone()), batch.targets)
        if not value.requires_grad:
            raise Unscorable("disconnected", "the loss does not depend on any weight")
        g = torch.autograd.grad(value, list(named.values()), create_graph=True, allow_unused=True)
        reached = [a for a in g if a is not None and a.requires_grad]
        if not reached:
            return {name: torch.zeros_like(p) for name, p in named.items()}
        Hg = torch.autograd.grad(
            reached, list(named.values()), [a.detach() for a in reached], allow_unused=True, materialize_grads=True
        )
    return dict(zip(named, Hg, strict=True))


def jacobian(network: Network, inputs: Tensor) -> Tensor:
    """Gradient of the sum of all outputs by the inputs, (samples, entries of an input)."""
    if not inputs.is_floating_point():
        raise Unscorable("unsupported", "a derivative by the input needs real-valued inputs")
    with torch.enable_grad():
        x = inputs.clone().requires_grad_()
        total = network(x * 1).sum()  # a network whose first function works in place must not meet a leaf
        if not total.requires_grad:
            raise Unscorable("disconnected", "the output does not depend on the input")
        (grad,) = torch.autograd.grad(total, x, allow_unused=True, materialize_grads=True)
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

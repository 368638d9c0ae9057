"""Derivatives of one scalar of a network: the loss, its curvature along the weights, the summed outputs, and the flow
of a network made positive. Each is one pass; nothing here knows what a proxy makes of it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.graph import CHANNEL_AXIS, Call, Graph, filled
from untrained.probe.layers import substitutes, weights
from untrained.probe.tracking import WithoutNorms, whole


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
    channels: tuple[Channels, ...]  # empty where nobody wanted to hear of them


def loss_pass(
    graph: Graph, parameters: Mapping[str, nn.Parameter], targets: Tensor, loss: str, *, channels_too: bool = True
) -> LossPass:
    channels: list[Channels] = []

    def meet(call: Call, grad: Tensor) -> None:
        """Multiply what a layer said with its gradient, as the gradient comes by."""
        if call.said is not None:
            _, weight, _ = _arguments(*call.args, **call.kwargs)
            product = (call.said * grad).movedim(CHANNEL_AXIS[call.func], 1)
            saliency = product.flatten(2).sum(-1) if grad.ndim > 2 else product
            channels.append(Channels(saliency, weight.numel() // len(weight)))

    with torch.enable_grad():
        value = LOSSES[loss](graph.outputs, targets)
    grads = graph.gradients(value, list(parameters.values()), hear=meet if channels_too else None)
    if all(g is None for g in grads):
        raise Unscorable("disconnected", "the loss does not depend on any parameter")
    gradients = dict(zip(parameters, filled(grads, list(parameters.values())), strict=True))
    return LossPass(float(value.detach()), gradients, tuple(channels))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not named:
        raise Unscorable("unsupported", "the network has no trainable parameter")
    return named


def growth(graph: Graph, model: nn.Module, targets: Tensor, loss: str) -> dict[str, Tensor]:
    """Gradient of W . dL/dW by the weights W of convolutions and linear layers: dL/dW + H W, H the Hessian of the loss.

    Where a layer says a = W x, W . dL/dW is a . dL/da and takes no gradient of a weight; elsewhere a is W itself. The
    product is not made either: its gradient is that of dL/da along a, and that of a along dL/da.
    """
    named = {name: p for name, p in weights(model).items() if p.requires_grad}
    answers = list(_answers(graph, named))
    with torch.enable_grad():
        value = LOSSES[loss](graph.outputs, targets)
    slopes = graph.gradients(value, [edge for _, edge in answers], again=True)
    met = [(a, edge, slope) for (a, edge), slope in zip(answers, slopes, strict=True) if slope is not None]
    if not met:
        raise Unscorable("disconnected", "the loss does not depend on any weight")
    along = [(slope, a) for a, _, slope in met if slope.requires_grad]
    sources, directions = zip(*along, *((edge, slope.detach()) for _, edge, slope in met), strict=True)
    grads = torch.autograd.grad(
        sources, list(named.values()), directions, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return dict(zip(named, grads, strict=True))


def _answers(graph: Graph, named: Mapping[str, Tensor]) -> Iterator[tuple[Tensor, GradientEdge]]:
    """a = W x of every layer, and where its gradient comes by; W itself where it is used in any other way."""
    layers = {call: _weight_of(call) for call, _ in graph.said}
    otherwise = {whole(name) for call in graph.calls if layers.get(call) is None for name, _ in call.used.values()}
    alone = named.keys() - otherwise
    for call, edge in graph.said:
        if layers[call] in alone:
            yield _without_bias(call), edge
    for name in named:
        if name in otherwise:
            yield named[name].detach(), get_gradient_edge(named[name])


def _weight_of(call: Call) -> str | None:
    """The parameter that a layer multiplies its input with; None where something else stands in one of the places."""
    input, weight, bias = _arguments(*call.args, **call.kwargs)
    plain = id(weight) in call.used and id(input) not in call.used and (bias is None or id(bias) in call.used)
    return whole(call.used[id(weight)][0]) if plain else None


def _without_bias(call: Call) -> Tensor:
    said, (_, _, bias), axis = call.said, _arguments(*call.args, **call.kwargs), CHANNEL_AXIS[call.func]
    assert said is not None  # of a layer
    return said if bias is None else (said.movedim(axis, -1) - bias).movedim(-1, axis)


def _arguments(input: Any, weight: Any, bias: Any = None, *_: Any, **__: Any) -> tuple[Any, Any, Any]:
    """Of a convolution or linear layer, however they were passed."""
    return input, weight, bias


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

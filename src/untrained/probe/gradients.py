"""Derivatives of one scalar of a network.

These are the gradient of the loss, the Hessian of the loss times the weights, the gradient of the
summed outputs with respect to the input, and the flow through a network made positive (SynFlow).
Each takes one backward pass; the Hessian takes two.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call
from torch.nn import functional as F

from untrained.errors import Unscorable
from untrained.probe.graph import CHANNEL_AXIS, Graph, ParameterUse, fill_gradients
from untrained.probe.layers import find_layer_weights, substitute_tensors
from untrained.probe.tracking import NormsAsIdentity, strip_piece

LossFunction = Callable[..., Tensor]


def _binary_cross_entropy(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Compare logits with zeros and ones; labels (samples,) belong to a single output."""
    targets = targets.to(outputs.dtype).view_as(outputs)
    return F.binary_cross_entropy_with_logits(outputs, targets, reduction=reduction)


def _squared_error(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Compare outputs with numbers; numbers (samples,) belong to a single output."""
    targets = targets.to(outputs.dtype).view_as(outputs)
    return F.mse_loss(outputs, targets, reduction=reduction)


LOSSES: dict[str, LossFunction] = {
    "cross_entropy": F.cross_entropy,
    "mse": _squared_error,
    "bce": _binary_cross_entropy,
}


def compute_sample_losses(name: str, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each sample, (samples,). Their mean is the loss of the batch."""
    losses = LOSSES[name](outputs, targets, reduction="none")
    if losses.ndim == 1:
        return losses
    return losses.flatten(1).mean(1)


@dataclass(frozen=True)
class ChannelSaliency:
    """Activation times gradient of one call of a convolution or linear layer.

    Attributes:
        saliency: Sum over positions of a dL/da, (samples, channels).
        fan_in: Number of weights per channel.
    """

    saliency: Tensor
    fan_in: int


@dataclass(frozen=True)
class LossPass:
    """Results of one backward pass of the mean loss.

    Attributes:
        loss: The mean loss.
        gradients: Gradient of every trainable parameter by name; zeros where the loss does not
            depend on it.
        channel_saliency: One entry per call of a layer; empty if it was not requested.
    """

    loss: float
    gradients: dict[str, Tensor]
    channel_saliency: tuple[ChannelSaliency, ...]


def run_loss_pass(
    graph: Graph,
    parameters: Mapping[str, nn.Parameter],
    targets: Tensor,
    loss: str,
    *,
    with_channel_saliency: bool = True,
) -> LossPass:
    """Differentiate the mean loss with respect to all parameters."""
    channel_saliency: list[ChannelSaliency] = []

    def collect_saliency(use: ParameterUse, gradient: Tensor) -> None:
        """Multiply the output of a layer by its gradient as soon as the gradient is available."""
        if use.output is None:
            return
        _, weight, _ = _parse_layer_arguments(*use.args, **use.kwargs)
        # Channels are brought to the second axis; all later axes are positions.
        saliency = (use.output * gradient).movedim(CHANNEL_AXIS[use.func], 1)
        if gradient.ndim > 2:
            saliency = saliency.flatten(2).sum(-1)
        channel_saliency.append(ChannelSaliency(saliency, weight.numel() // len(weight)))

    with torch.enable_grad():
        value = LOSSES[loss](graph.outputs, targets)
    tensors = list(parameters.values())
    on_gradient = collect_saliency if with_channel_saliency else None
    gradients = graph.gradients(value, tensors, on_gradient=on_gradient)
    if all(gradient is None for gradient in gradients):
        raise Unscorable("disconnected", "the loss does not depend on any parameter")
    by_name = dict(zip(parameters, fill_gradients(gradients, tensors), strict=True))
    return LossPass(float(value.detach()), by_name, tuple(channel_saliency))


def find_trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that require gradients, by name; raise if there are none."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise Unscorable("unsupported", "the network has no trainable parameter")
    return parameters


def copy_after_step(
    model: nn.Module,
    gradients: Mapping[str, Tensor],
    step: float,
) -> nn.Module:
    """Return a copy of a network after one step of gradient descent.

    Args:
        model: The network, which does not change.
        gradients: Gradients by name of the parameter.
        step: Size of the step.
    """
    # Parameters that are made in inference mode cannot be differentiated.
    with torch.inference_mode(False), torch.no_grad():
        moved = deepcopy(model)
        for name, gradient in gradients.items():
            moved.get_parameter(name).sub_(gradient, alpha=step)
    return moved


def differentiate_weight_products(
    graph: Graph,
    model: nn.Module,
    targets: Tensor,
    loss: str,
) -> dict[str, Tensor]:
    """Compute dL/dW + H W for the weights W of layers, where H is the Hessian of the loss.

    This is the gradient of P = W . dL/dW with respect to W. For a layer a = W x, P is equal to
    a . dL/da, which is cheaper because no gradient of a weight is computed. For a weight that is
    used in any other way, a = W. Only the gradient of P is computed, never P itself. By the product
    rule it is the vector-Jacobian product of dL/da with the vector a, plus that of a with the
    vector dL/da.
    """
    weights = {}
    for name, weight in find_layer_weights(model).items():
        if weight.requires_grad:
            weights[name] = weight
    factors = list(_find_factors(graph, weights))
    with torch.enable_grad():
        value = LOSSES[loss](graph.outputs, targets)
    edges = [edge for _, edge in factors]
    gradients = graph.gradients(value, edges, create_graph=True)
    functions: list[Tensor | GradientEdge] = []
    vectors: list[Tensor] = []
    # dL/da is a constant if the loss is linear in a; then it has no derivative.
    for (a, _), gradient in zip(factors, gradients, strict=True):
        if gradient is not None and gradient.requires_grad:
            functions.append(gradient)
            vectors.append(a)
    for (_, edge), gradient in zip(factors, gradients, strict=True):
        if gradient is not None:
            functions.append(edge)
            vectors.append(gradient.detach())
    if not functions:
        raise Unscorable("disconnected", "the loss does not depend on any weight")
    results = torch.autograd.grad(
        functions,  # type: ignore[arg-type]
        list(weights.values()),
        vectors,
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return dict(zip(weights, results, strict=True))


def _find_factors(
    graph: Graph,
    weights: Mapping[str, Tensor],
) -> Iterator[tuple[Tensor, GradientEdge]]:
    """Yield every tensor a of `differentiate_weight_products` and the autograd edge of dL/da.

    a = W x for every layer whose weight is used by layers alone, and a = W for every other weight.
    """
    weight_names = {use: _find_weight_name(use) for use, _ in graph.layer_edges}
    used_otherwise: set[str] = set()
    for use in graph.uses:
        if weight_names.get(use) is None:
            used_otherwise.update(strip_piece(name) for name, _ in use.constants.values())
    for use, edge in graph.layer_edges:
        name = weight_names[use]
        if name in weights and name not in used_otherwise:
            yield _subtract_bias(use), edge
    for name, weight in weights.items():
        if name in used_otherwise:
            yield weight.detach(), get_gradient_edge(weight)


def _find_weight_name(use: ParameterUse) -> str | None:
    """Return the name of the parameter by which a layer multiplies its input.

    None if the weight or the bias is computed from parameters, or if the input is a parameter.
    """
    input, weight, bias = _parse_layer_arguments(*use.args, **use.kwargs)
    if id(weight) not in use.constants or id(input) in use.constants:
        return None
    if bias is not None and id(bias) not in use.constants:
        return None
    return strip_piece(use.constants[id(weight)][0])


def _subtract_bias(use: ParameterUse) -> Tensor:
    output = use.output
    assert output is not None  # the use is a layer
    _, _, bias = _parse_layer_arguments(*use.args, **use.kwargs)
    if bias is None:
        return output
    axis = CHANNEL_AXIS[use.func]
    return (output.movedim(axis, -1) - bias).movedim(-1, axis)


def _parse_layer_arguments(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *_: object,
    **__: object,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Parse the first arguments of a convolution or linear layer."""
    return input, weight, bias


def compute_jacobian(graph: Graph) -> Tensor:
    """Return the gradient of the summed outputs with respect to the inputs.

    Its shape is (samples, entries of an input).
    """
    with torch.enable_grad():
        total = graph.outputs.sum()
    (gradient,) = graph.gradients(total, [graph.inputs])
    if gradient is None:
        raise Unscorable("disconnected", "the output does not depend on the input")
    return gradient.flatten(1)


def compute_flow(
    model: nn.Module,
    read_logits: Callable[[object], Tensor],
    shape: tuple[int, ...],
    keep_norms: bool,
) -> dict[str, tuple[Tensor, Tensor]]:
    """Compute (|W|, dR/d|W|) of every layer weight (SynFlow).

    R is the sum of the outputs for an input of ones when every parameter and buffer is replaced by
    its absolute value, in float64.

    Args:
        model: The network.
        read_logits: Finds the logits in the output of the model.
        shape: Shape of an input.
        keep_norms: Whether normalisations are computed; otherwise they are the identity.
    """

    def make_positive(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            return tensor.detach().abs().double()
        return tensor.detach().clone()

    # Only layer weights become leaves; all other tensors are constants.
    names = find_layer_weights(model)
    state = substitute_tensors(model, make_positive)
    leaves = {name: state[name].requires_grad_() for name in names}
    device = next(iter(state.values())).device
    ones = torch.ones(1, *shape, dtype=torch.float64, device=device)
    norms: AbstractContextManager[object] = nullcontext() if keep_norms else NormsAsIdentity()
    with torch.enable_grad(), norms:
        R = read_logits(functional_call(model, state, (ones,), tie_weights=False)).sum()
        if not R.requires_grad:
            raise Unscorable("disconnected", "the output does not depend on any weight")
        gradients = torch.autograd.grad(
            R,
            list(leaves.values()),
            allow_unused=True,
            materialize_grads=True,
        )
    flow = {}
    for (name, weight), gradient in zip(leaves.items(), gradients, strict=True):
        flow[name] = (weight.detach(), gradient)
    return flow

"""Responses: how similarly a network reacts to different samples, before every nonlinearity.

A response is the input of a pointwise nonlinearity, or the gradient of the loss with respect to it.
Only the correlations between samples are kept, (samples, samples) for each response.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode

from untrained.probe.blocks import VersionedTensor, find_blocks, record_trunk
from untrained.probe.circle import Network
from untrained.probe.codes import NONLINEARITIES
from untrained.probe.jets import Args, Kwargs, TorchFunction

# A response counts as constant if its deviation from its mean is at most this fraction of its norm,
# because such a deviation is a rounding error.
CONSTANT_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Response:
    """Correlations between samples at one call of a nonlinearity.

    Attributes:
        block: Number of blocks of the trunk that returned before the call.
        activations: Correlations of the inputs of the nonlinearity, (samples, samples), float64 on
            the CPU; None if the input of some sample is constant.
        gradients: The same for the gradients of the loss with respect to these inputs.
    """

    block: int
    activations: Tensor | None
    gradients: Tensor | None


def measure_responses(
    model: nn.Module,
    network: Network,
    inputs: Tensor,
    compute_loss: Callable[[Tensor], Tensor],
) -> tuple[Response, ...]:
    """Run one forward and one backward pass.

    Args:
        model: The network.
        network: Runs the network.
        inputs: The samples.
        compute_loss: Maps outputs to a scalar.

    Returns:
        One response per call of a nonlinearity, in call order.
    """
    trunk: list[VersionedTensor] = []
    recorder = _ResponseRecorder(len(inputs), trunk)
    x = inputs.clone().requires_grad_(inputs.is_floating_point())
    with torch.enable_grad(), recorder, record_trunk(find_blocks(model), trunk, copies=False):
        # A copy, because a first function that works in place must not write into a leaf.
        loss = compute_loss(network(x.clone()))
    gradients = _differentiate(loss, recorder.edges)
    responses = []
    for index, (block, activations) in enumerate(recorder.activations):
        gradient = gradients.get(index)
        correlations = None if gradient is None else correlate_samples(gradient)
        responses.append(Response(block, activations, correlations))
    return tuple(responses)


def _differentiate(loss: Tensor, edges: dict[int, GradientEdge]) -> dict[int, Tensor]:
    """Return gradients of the loss with respect to recorded inputs, by index of the response.

    Inputs that the loss does not depend on are left out.
    """
    if not (loss.requires_grad and edges):
        return {}
    results = torch.autograd.grad(loss, list(edges.values()), allow_unused=True)
    gradients = {}
    for index, gradient in zip(edges, results, strict=True):
        if gradient is not None:
            gradients[index] = gradient
    return gradients


def correlate_samples(responses: Tensor) -> Tensor | None:
    """Return the Pearson correlations of samples, float64 on the CPU.

    Args:
        responses: (samples, ...).

    Returns:
        (samples, samples), or None if a sample has a constant response, whose correlations are
        undefined.
    """
    rows = responses.detach().reshape(len(responses), -1).double()
    centred = rows - rows.mean(1, keepdim=True)
    norms = centred.norm(dim=1, keepdim=True)
    varies = norms > CONSTANT_TOLERANCE * rows.norm(dim=1, keepdim=True)
    if not bool(varies.all()):
        return None
    unit = centred / norms
    correlations: Tensor = (unit @ unit.mT).cpu()
    return correlations


class _ResponseRecorder(TorchFunctionMode):
    """Correlates the inputs of nonlinearities and keeps the autograd edges of their gradients.

    Attributes:
        activations: Block and correlations of the input of each call, in call order.
        edges: Autograd edges of these inputs, by index in `activations`.
    """

    def __init__(self, samples: int, trunk: Sequence[VersionedTensor]) -> None:
        super().__init__()
        self._samples = samples
        self._trunk = trunk
        self.activations: list[tuple[int, Tensor | None]] = []
        self.edges: dict[int, GradientEdge] = {}

    def __torch_function__(
        self,
        func: TorchFunction,
        types: Sequence[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in NONLINEARITIES:
            input = args[0] if args else kwargs["input"]
            with torch._C.DisableTorchFunction():
                self._record(input)
        return func(*args, **kwargs)

    def _record(self, input: Tensor) -> None:
        # A function of a parameter, such as a learned gate, has no axis of samples.
        is_response = input.ndim > 0 and len(input) == self._samples and not input.is_leaf
        if not is_response:
            return
        if input.requires_grad:
            self.edges[len(self.activations)] = get_gradient_edge(input)
        # The trunk starts with the input of the first block.
        block = max(0, len(self._trunk) - 1)
        self.activations.append((block, correlate_samples(input)))

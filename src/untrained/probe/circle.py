"""The output of a network as its input moves along a circle: value, velocity and acceleration.

Taylor mode (`jets.py`) is tried first. A network with a function that has no Taylor rule is
measured by reverse mode instead.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from untrained.errors import Unscorable
from untrained.probe import rules  # noqa: F401 - importing it fills the table of Taylor rules
from untrained.probe.jets import Jet
from untrained.seeds import make_torch_generator

Network = Callable[[Tensor], Tensor]
Motion = tuple[Tensor, Tensor, Tensor]  # value, velocity, acceleration


@lru_cache(maxsize=8)
def draw_plane(shape: tuple[int, ...], seed: int) -> Tensor:
    """Draw two orthonormal inputs, (2, 1, *shape).

    They depend on shape and seed alone, so all networks are measured on the same circle.
    """
    generator = make_torch_generator("plane", seed)
    u1, u2 = torch.randn(2, 1, *shape, generator=generator, dtype=torch.float64)
    u1 = u1 / u1.norm()
    # Gram-Schmidt: remove the part of u2 that is parallel to u1.
    u2 = u2 - (u1 * u2).sum() * u1
    return torch.stack([u1, u2 / u2.norm()])


def measure_motion(network: Network, u1: Tensor, u2: Tensor) -> Motion:
    """Compute h(0), h'(0), h''(0) of h(t) = network(u1 cos t + u2 sin t).

    Returns:
        Three tensors of shape (outputs,).
    """
    try:
        return measure_by_taylor_mode(network, u1, u2)
    except Unscorable as error:
        if error.kind != "unsupported":
            raise
        return measure_by_reverse_mode(network, u1, u2)


def measure_by_taylor_mode(network: Network, u1: Tensor, u2: Tensor) -> Motion:
    """Propagate the curve forward through the network."""
    # Thousands of small operations: inference mode saves microseconds on each of them.
    with torch.inference_mode():
        # At t = 0 the curve is u1, its velocity u2 and its acceleration -u1.
        out = network(Jet.of(u1, torch.stack([u2, -u1])))
    if not isinstance(out, Jet):
        raise Unscorable("disconnected", "the output does not depend on the input")
    # Copies made outside inference mode are ordinary tensors, which autograd accepts.
    with torch.inference_mode(False):
        velocity, acceleration = out.derivatives.flatten(1).clone()
        return out.value.flatten().clone(), velocity, acceleration


def measure_by_reverse_mode(network: Network, u1: Tensor, u2: Tensor) -> Motion:
    """Differentiate with autograd: exact but slower.

    With a dummy vector w, d/dw of d/dt (w . h(t)) is h'(t); a second d/dt gives h''(t).
    """
    # The fused attention kernels can be differentiated only once.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        t = torch.zeros((), dtype=u1.dtype, device=u1.device, requires_grad=True)
        h = network(u1 * t.cos() + u2 * t.sin()).flatten()
        if not h.requires_grad:
            raise Unscorable("disconnected", "the output does not depend on the input")
        w = torch.ones_like(h, requires_grad=True)
        wh1 = _differentiate(h @ w, t)
        wh2 = _differentiate(wh1, t)
        velocity = _differentiate(wh1, w)
        acceleration = _differentiate(wh2, w)
    return h.detach(), velocity.detach(), acceleration.detach()


def _differentiate(y: Tensor, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(
        y,
        x,
        create_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return gradient

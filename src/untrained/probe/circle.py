"""The output of a network as its input runs along a circle: value, velocity and acceleration.

Taylor mode (`jets.py`) first; a network with a function that has no Taylor rule is measured by reverse mode instead.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from untrained.errors import Unscorable
from untrained.probe import rules  # noqa: F401 - fills the table of Taylor rules
from untrained.probe.jets import Jet
from untrained.rng import torch_generator

Function = Callable[[Tensor], Tensor]
Motion = tuple[Tensor, Tensor, Tensor]


@lru_cache(maxsize=8)
def plane(shape: tuple[int, ...], seed: int) -> Tensor:
    """A random pair of orthonormal inputs, (2, 1, *shape); the same for every network, so that they meet one circle."""
    u1, u2 = torch.randn(2, 1, *shape, generator=torch_generator("plane", seed), dtype=torch.float64)
    u1 = u1 / u1.norm()
    u2 = u2 - (u1 * u2).sum() * u1
    return torch.stack([u1, u2 / u2.norm()])


def motion(network: Function, u1: Tensor, u2: Tensor) -> Motion:
    """h(0), h'(0), h''(0) of h(t) = network(u1 cos t + u2 sin t), all output coordinates, each of shape (outputs,)."""
    try:
        return taylor(network, u1, u2)
    except Unscorable as missing_rule:
        if missing_rule.kind != "unsupported":
            raise
        return reverse(network, u1, u2)


def taylor(network: Function, u1: Tensor, u2: Tensor) -> Motion:
    with torch.inference_mode():  # thousands of small operations: microseconds count
        out = network(Jet.of(u1, torch.stack([u2, -u1])))
    if not isinstance(out, Jet):
        raise Unscorable("disconnected", "the output does not depend on the input")
    with torch.inference_mode(False):  # tensors of the ordinary kind again
        velocity, acceleration = out.tail.flatten(1).clone()
        return out.value.flatten().clone(), velocity, acceleration


def reverse(network: Function, u1: Tensor, u2: Tensor) -> Motion:
    """The slower exact path. With a dummy w: d/dw of d/dt (w . h(t)) is h'(t), and once more for h''(t)."""
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):  # the fused kernels differentiate once
        t = torch.zeros((), dtype=u1.dtype, device=u1.device, requires_grad=True)
        h = network(u1 * t.cos() + u2 * t.sin()).flatten()
        if not h.requires_grad:
            raise Unscorable("disconnected", "the output does not depend on the input")
        w = torch.ones_like(h, requires_grad=True)
        wh1 = _derivative(h @ w, t)
        wh2 = _derivative(wh1, t)
        velocity, acceleration = _derivative(wh1, w), _derivative(wh2, w)
    return h.detach(), velocity.detach(), acceleration.detach()


def _derivative(y: Tensor, x: Tensor) -> Tensor:
    (out,) = torch.autograd.grad(y, x, create_graph=True, allow_unused=True, materialize_grads=True)
    return out

"""The Probe: one network looking at one batch. Every measurement a proxy may read, taken once and only if asked for.

The only room with hooks and autograd transforms. Whatever is measured, the model is left exactly as it was found.
A proxy reads properties; it never touches the model itself except to list its parameters.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from untrained.errors import Unscorable
from untrained.probe import rules  # noqa: F401 - fills the table of Taylor rules
from untrained.probe.features import Capture, Feature, inverse_conditions
from untrained.probe.flops import FlopCounter
from untrained.probe.guard import watching
from untrained.probe.jets import Jet
from untrained.rng import seed_for, torch_generator
from untrained.types import Batch

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": F.cross_entropy,
    "mse": F.mse_loss,
    "bce": F.binary_cross_entropy_with_logits,
}


class Probe:
    """`Probe(model, batch)`; then `probe.outputs`, `probe.features`, `probe.gradients`, `probe.circle_jet(...)`.

    `seed` decides every random choice a measurement makes (the plane of the circle, sampled channels), so that two
    probes with equal arguments measure equal numbers.
    """

    def __init__(self, model: nn.Module, batch: Batch, *, loss: str = "cross_entropy", seed: int = 0) -> None:
        self.model = model
        self.batch = batch
        self.loss_name = loss
        self.seed = seed
        self._ratios: dict[int, float] = {}
        self._jets: dict[tuple[int, ...], tuple[Tensor, Tensor, Tensor]] = {}

    def generator(self, purpose: str) -> torch.Generator:
        """Randomness for one purpose; the same however often and in whatever order measurements are taken."""
        return torch_generator("probe", self.seed, purpose)

    def watching(self) -> AbstractContextManager[None]:
        """Inside, the model may be run as scoring does; after it nothing has changed."""
        return watching(self.model, seed_for("forward", self.seed))

    def _inputs(self) -> Tensor:
        """A copy of the inputs: a network whose first function works in place writes into what it is shown."""
        return self.batch.inputs.clone()

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Outputs of all modules, in call order, each distinct tensor once."""
        capture = self._capture(keep_copies=False)
        if capture.overwritten:
            capture = self._capture(keep_copies=True)
        return capture.features

    def _capture(self, keep_copies: bool) -> Capture:
        capture = Capture(keep_copies)
        with torch.no_grad(), self.watching(), capture.on(self.model):
            self.__dict__["outputs"] = _logits(self.model(self._inputs()))
        return capture

    def inverse_conditions(self, features: Sequence[Feature]) -> Tensor:
        """sigma_min / sigma_max of some of `features`, float64 on the CPU."""
        missing = [feature for feature in features if id(feature) not in self._ratios]
        self._ratios.update(zip(map(id, missing), inverse_conditions(missing).tolist(), strict=True))
        return torch.tensor([self._ratios[id(feature)] for feature in features], dtype=torch.float64)

    @cached_property
    def outputs(self) -> Tensor:
        """What the network answers to the batch, (samples, outputs)."""
        with torch.no_grad(), self.watching():
            return _logits(self.model(self._inputs()))

    @cached_property
    def loss(self) -> float:
        """Mean loss on the batch."""
        self.gradients  # noqa: B018 - the loss is taken on the way
        return float(self.__dict__["_loss"])

    @cached_property
    def gradients(self) -> dict[str, Tensor]:
        """Gradient of the mean loss for each trainable parameter, by name; zeros where the loss does not reach."""
        named = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        if not named:
            raise Unscorable("unsupported", "the network has no trainable parameter")
        with torch.enable_grad(), self.watching():
            loss = LOSSES[self.loss_name](_logits(self.model(self._inputs())), self.batch.targets)
            grads = torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)
        self.__dict__["_loss"] = loss.detach()
        return dict(zip(named, grads, strict=True))

    def circle_jet(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """Value, velocity and acceleration of the output at theta = 0 of the unit circle u1 cos theta + u2 sin theta.

        u1, u2: random orthonormal inputs of the given shape. All output coordinates, each of shape (outputs,).
        Taylor mode; a network with a function that has no Taylor rule is measured by reverse mode instead.
        """
        if not self.batch.inputs.is_floating_point():
            raise Unscorable("unsupported", "a circle in input space needs real-valued inputs")
        if shape not in self._jets:
            u1, u2 = self._plane(shape)
            try:
                self._jets[shape] = self._taylor(u1, u2)
            except Unscorable as missing_rule:
                if missing_rule.kind != "unsupported":
                    raise
                self._jets[shape] = self._reverse(u1, u2)
        return self._jets[shape]

    def _plane(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Two orthonormal directions of input space, each (1, *shape)."""
        with torch.inference_mode(False):
            u1, u2 = plane(shape, self.seed).to(self.batch.inputs, copy=True)  # in-place functions write into it
            return u1, u2

    def _taylor(self, u1: Tensor, u2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with self.watching(), torch.inference_mode():  # thousands of small operations: microseconds count
            out = _logits(self.model(Jet.of(u1, torch.stack([u2, -u1]))))
        if not isinstance(out, Jet):
            raise Unscorable("disconnected", "the output does not depend on the input")
        with torch.inference_mode(False):  # tensors of the ordinary kind again
            velocity, acceleration = out.tail.flatten(1).clone()
            return out.value.flatten().clone(), velocity, acceleration

    def _reverse(self, u1: Tensor, u2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The slower exact path. With a dummy w: d/dw of d/dt (w . h(t)) is h'(t), and once more for h''(t)."""
        with torch.enable_grad(), self.watching(), sdpa_kernel(SDPBackend.MATH):  # the fused kernels differentiate once
            t = torch.zeros((), dtype=u1.dtype, device=u1.device, requires_grad=True)
            h = _logits(self.model(u1 * t.cos() + u2 * t.sin())).flatten()
            if not h.requires_grad:
                raise Unscorable("disconnected", "the output does not depend on the input")
            w = torch.ones_like(h, requires_grad=True)
            wh1 = _derivative(h @ w, t)
            wh2 = _derivative(wh1, t)
            velocity, acceleration = _derivative(wh1, w), _derivative(wh2, w)
        return h.detach(), velocity.detach(), acceleration.detach()

    @cached_property
    def params(self) -> int:
        """Number of trainable parameters."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    @cached_property
    def macs(self) -> int:
        """Multiply-adds of one forward pass of one sample, by torch's own formulas (which count two per pair)."""
        counter = FlopCounter()
        with torch.no_grad(), self.watching(), sdpa_kernel(SDPBackend.MATH), counter:  # no formula for the CPU's kernel
            self.model(self._inputs()[:1])
        return counter.flops // 2


@lru_cache(maxsize=8)
def plane(shape: tuple[int, ...], seed: int) -> Tensor:
    """A random pair of orthonormal inputs, (2, 1, *shape); the same for every network, so that they meet one circle."""
    u1, u2 = torch.randn(2, 1, *shape, generator=torch_generator("plane", seed), dtype=torch.float64)
    u1 = u1 / u1.norm()
    u2 = u2 - (u1 * u2).sum() * u1
    return torch.stack([u1, u2 / u2.norm()])


def _derivative(y: Tensor, x: Tensor) -> Tensor:
    (out,) = torch.autograd.grad(y, x, create_graph=True, allow_unused=True, materialize_grads=True)
    return out


def _logits(output: object) -> Tensor:
    """The tensor a model means by its output: itself, the last of (features, logits), or the `logits` of a record."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, list | tuple) and output and isinstance(output[-1], Tensor):
        return output[-1]
    for source in (output, vars(output) if hasattr(output, "__dict__") else None):
        if isinstance(source, dict) and isinstance(source.get("logits"), Tensor):
            logits: Tensor = source["logits"]
            return logits
    raise Unscorable("unsupported", f"the model returns {type(output).__name__}, from which no logits can be read")

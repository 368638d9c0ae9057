"""NASI: NAS at initialisation (Shu et al., ICLR 2022; arXiv:2109.00817), Algorithm 1. No official code exists.

    alpha   logits of the options of all choices, 0 at first (alpha_0)
    A       an architecture: one option a choice, by straight-through Gumbel-softmax of temperature 1
    t(A)    ||(1/b) sum_x g_x||^2, g_x the loss gradient of sample x in a mini-batch of b                (Eq. 12)
    R(A)    t(A) - mu max(0, t(A) - nu)                                                                 (Eq. 13)
    Delta   (xi / T) sum_t G_t / max(||G_1||, ..., ||G_t||), G_t = dR(A_t)/dalpha at alpha_0, xi = 1    (Eq. 18)

The answer is the most probable architecture under alpha_0 + Delta. nu is fixed to the mean of t over some random
architectures (NASI-FIX, Eq. 40), or follows it: nu_t = (nu_0 + sum_{s<t} t(A_s)) / t (NASI-ADA, Eq. 41).

Published settings: mu = 1 and nu_0 = 1000 on NAS-Bench-1Shot1 (the default), for one epoch; T = 100, b = 64 and mu = 2
on DARTS (`darts_nasi`), with nu_0 = 500, or fixed to 100: `nasi(mu=2,nu=fixed,nu0=100)`. Of NAS-Bench-201 the paper
tells T in seconds (30), that 4T is better, `nasi(steps=400)`, and neither mu nor nu. The operation that answers zero is
left out, as the paper does on DARTS; with it (`zero=True`) the answer may be a network cut off from its input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.data import Source
from untrained.data._source import fingerprint
from untrained.errors import UsageError
from untrained.probe.gradients import LOSSES, find_trainable_parameters
from untrained.probe.guard import fastest_kernels, full_precision, scoring_mode
from untrained.probe.passes import read_logits
from untrained.rng import torch_generator
from untrained.spaces import Space
from untrained.spaces.core.supernet import Supernet
from untrained.strategies._notes import Notes
from untrained.strategies._strategy import STRATEGIES, Fitness, Unseen
from untrained.strategies._supernets import ByChoice, by_choice, feasible, mixable, module, most_wanted, new_seed
from untrained.strategies.limits import Feasible
from untrained.types import Arch, Batch, Record

Logits = dict[str, Tensor]
ZERO = "none"  # the operation that answers zero


def straight_through(alpha: Tensor, gumbel: Tensor) -> Tensor:
    """One-hot at the largest of alpha + gumbel; its gradient is that of their softmax."""
    soft = (alpha + gumbel).softmax(0)
    hard = F.one_hot(soft.argmax(), len(soft)).to(soft)
    return hard - soft.detach() + soft


def trace_norm(supernet: Supernet, batch: Batch, loss: str, *, differentiable: bool = True) -> Tensor:
    """t(A) of the architecture that the mixture is set to, (); its gradient reaches the mixture."""
    parameters = list(find_trainable_parameters(module(supernet)).values())
    with torch.enable_grad(), scoring_mode(module(supernet)):
        value = LOSSES[loss](read_logits(supernet(batch.inputs.clone())), batch.targets)
        found = torch.autograd.grad(value, parameters, create_graph=differentiable, allow_unused=True)
    return sum((g.double().square().sum() for g in found if g is not None), torch.zeros((), dtype=torch.float64))


def objective(t: Tensor, mu: float, nu: float) -> Tensor:
    """R (Eq. 13)."""
    return t - mu * (t - nu).clamp_min(0)


def one_step(gradients: Sequence[Logits], xi: float = 1.0) -> Logits:
    """Delta (Eq. 18); a gradient that is zero adds nothing."""
    delta = {name: torch.zeros_like(g) for name, g in gradients[0].items()}
    largest = 0.0
    for G in gradients:
        largest = max(largest, float(torch.cat(list(G.values())).norm()))
        for name, g in G.items():
            delta[name] += xi / len(gradients) * g / (largest or 1.0)
    return delta


@dataclass(frozen=True, slots=True)
class Draw:
    """What chance says of one look at the supernet: Gumbel noise by choice, and a mini-batch."""

    gumbel: dict[str, Tensor]
    batch: Batch


@dataclass(frozen=True, slots=True)
class Step:
    """A sampled architecture's trace norm, the constraint at that moment, and the norm of the gradient."""

    t: float
    nu: float
    gradient: float


@dataclass(frozen=True, slots=True)
class Search:
    """One run of Algorithm 1: what it saw, the logits it ended with, and what it found."""

    arch: Arch | None
    alpha: ByChoice
    steps: tuple[Step, ...]


class NASI:
    """NAS at initialisation: one step of gradient ascent on a supernet. Every architecture is a search of its own."""

    needs: ClassVar[tuple[str, ...]] = ("source",)
    usual: ClassVar[int] = 1
    portion: ClassVar[int] = 1

    def __init__(
        self,
        space: "Space | Feasible",
        rng: np.random.Generator,
        fitness: Fitness | None = None,
        *,
        source: Source,
        device: str = "cpu",
        notes: Notes | None = None,
        steps: int = 100,
        batch: int = 64,
        mu: float = 1.0,
        nu: Literal["fixed", "adaptive"] = "adaptive",
        nu0: float | None = None,
        samples: int = 50,
        labels: Literal["data", "random"] = "data",
        inputs: Literal["data", "noise"] = "data",
        zero: bool = False,
    ) -> None:
        """`nu0`: what nu is fixed to, in place of the mean over `samples` architectures, or what it starts from."""
        if min(steps, batch, samples) < 1 or mu < 0:
            raise UsageError("nasi takes steps, batch and samples from 1 up, and mu from 0 up")
        for name, value, known in (("nu", nu, ("fixed", "adaptive")), ("labels", labels, ("data", "random")),
                                   ("inputs", inputs, ("data", "noise"))):  # fmt: skip
            if value not in known:
                raise UsageError(f"nasi has no {name} {value!r}; there are: {', '.join(known)}")
        self._space, self._rng, self._source, self._device = feasible(space), rng, source, device
        self._notes = notes or Notes()
        self._steps, self._batch, self._mu, self._samples = steps, batch, mu, samples
        self._adaptive, self._nu0 = nu == "adaptive", nu0
        self._random_labels, self._noise, self._zero = labels == "random", inputs == "noise", zero
        self._unseen = Unseen(self._space)
        self.trace: list[Search] = []

    def ask(self, n: int) -> list[Arch]:
        found: list[Arch] = []
        while len(found) < n and (arch := self._search()) is not None:
            found.append(arch)
        return found

    def tell(self, records: Sequence[Record]) -> None:
        """NASI does not learn from records."""

    # ------------------------------------------------------------------------------------------------ Algorithm 1

    def _search(self) -> Arch | None:
        supernet = mixable(self._space, new_seed(self._rng), self._device, "nasi")
        counted = not self._adaptive and self._nu0 is None
        self._notes.begin(self._steps + (self._samples if counted else 0))
        fixed = None if self._adaptive else self._fixed_nu(supernet)
        steps: list[Step] = []
        gradients: list[Logits] = []
        for number in range(self._steps):
            nu = self._adaptive_nu([step.t for step in steps]) if fixed is None else fixed
            t, G = self._step(supernet, number, nu)
            gradients.append(G)
            steps.append(Step(t, nu, float(torch.cat(list(G.values())).norm())))
        if not any(step.gradient for step in steps):
            raise UsageError(
                f"nasi learned nothing: every sampled trace norm is above nu = {nu:.4g}; give a larger nu0"
            )
        delta, options = one_step(gradients), supernet.options
        scores = {name: (d + self._barred(options[name])).tolist() for name, d in delta.items()}
        arch = most_wanted(self._space, supernet, scores, self._unseen.add)
        self.trace.append(Search(arch, by_choice(options, scores), tuple(steps)))
        return arch

    def _adaptive_nu(self, norms: Sequence[float]) -> float:
        """Eq. 41."""
        start = 1000.0 if self._nu0 is None else self._nu0
        return (start + sum(norms)) / (len(norms) + 1)

    def _fixed_nu(self, supernet: Supernet) -> float:
        """Eq. 40, unless it is given."""
        if self._nu0 is not None:
            return self._nu0
        norms = []
        for number in range(self._samples):
            draw = self._draw(supernet)
            norms.append(self._notes.of(self._key("sample", number, draw), partial(self._sampled, supernet, draw)))
        return float(np.mean(norms))

    def _sampled(self, supernet: Supernet, draw: Draw) -> float:
        """t of a sampled architecture."""
        self._mix(supernet, draw, differentiable=False)
        with fastest_kernels(self._device):
            return float(self._norm(supernet, draw, differentiable=False))

    def _step(self, supernet: Supernet, number: int, nu: float) -> tuple[float, Logits]:
        """t of a sampled architecture, and dR/dalpha at alpha_0 = 0, as they are written down."""
        draw = self._draw(supernet)
        t, G = self._notes.of(self._key("step", number, draw), partial(self._gradient, supernet, draw, nu))
        return t, {name: torch.tensor(g, dtype=torch.float64) for name, g in G.items()}

    def _gradient(self, supernet: Supernet, draw: Draw, nu: float) -> tuple[float, dict[str, list[float]]]:
        alpha = self._mix(supernet, draw)
        with fastest_kernels(self._device), full_precision():
            t = self._norm(supernet, draw)
            found = torch.autograd.grad(objective(t, self._mu, nu), list(alpha.values()))
        return float(t.detach()), {name: g.tolist() for name, g in zip(alpha, found, strict=True)}

    def _key(self, what: str, number: int, draw: Draw) -> str:
        return f"search {len(self.trace)}, {what} {number}, {fingerprint(draw.batch)}"

    def _draw(self, supernet: Supernet) -> Draw:
        """Drawn for every look, also for one that is known: so chance goes on as if nobody had taken notes."""
        options = supernet.options
        gumbel = {name: torch.from_numpy(self._rng.gumbel(size=len(some))) for name, some in options.items()}
        return Draw(gumbel, self._batch_of(new_seed(self._rng)))

    def _mix(self, supernet: Supernet, draw: Draw, *, differentiable: bool = True) -> Logits:
        """Set the mixture to a random architecture; the logits behind it, which are 0."""
        alpha: Logits = {}
        for name, options in supernet.options.items():
            alpha[name] = torch.zeros(len(options), dtype=torch.float64, requires_grad=differentiable)
            supernet.mixture[name] = straight_through(alpha[name], draw.gumbel[name] + self._barred(options))
        return alpha

    def _barred(self, options: Sequence[str]) -> Tensor:
        """Minus infinity where an option is never taken, 0 elsewhere."""
        return torch.tensor([-inf if option == ZERO and not self._zero else 0.0 for option in options])

    def _norm(self, supernet: Supernet, draw: Draw, *, differentiable: bool = True) -> Tensor:
        batch = draw.batch.to(self._device)
        t = trace_norm(supernet, batch, self._source.task.loss, differentiable=differentiable).cpu()
        if not isfinite(float(t.detach())):
            raise UsageError(f"nasi: the gradient of the supernet of {self._space.name} is not finite on this data")
        return t

    def _batch_of(self, seed: int) -> Batch:
        batch, chance = self._source.batch(self._batch, seed), torch_generator("nasi", seed)
        inputs, targets = batch.inputs, batch.targets
        if self._noise:
            inputs = torch.randn(inputs.shape, generator=chance)
        if self._random_labels:
            targets = torch.randint(self._source.task.num_classes, targets.shape, generator=chance)
        return Batch(inputs, targets)


STRATEGIES.add("nasi", NASI)

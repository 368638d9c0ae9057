"""NASI: NAS at initialisation (Shu et al., ICLR 2022; arXiv:2109.00817), Algorithm 1.

    alpha   logits of the options of all choices; alpha_0 = 0 at the start
    A_t     architecture sampled in step t: one option per choice, by a straight-through
            Gumbel-softmax of temperature 1
    b       number of samples in a mini-batch
    g_x     gradient of the loss of sample x with respect to the parameters of A
    t(A)    ||(1/b) sum_x g_x||^2, an estimate of the trace norm of the tangent kernel      (Eq. 12)
    mu, nu  weight and threshold of the constraint on t(A)
    R(A)    t(A) - mu max(0, t(A) - nu), the objective                                      (Eq. 13)
    G_t     dR(A_t) / dalpha at alpha_0
    T       number of steps
    Delta   (xi / T) sum_t G_t / max(||G_1||, ..., ||G_t||) with xi = 1                     (Eq. 18)

The result is the most probable architecture under alpha_0 + Delta. nu is either fixed to the mean
of t over some random architectures (NASI-FIX, Eq. 40), or it adapts:
nu_t = (nu_0 + sum_{s<t} t(A_s)) / t (NASI-ADA, Eq. 41).

Published settings: mu = 1 and nu_0 = 1000 for one epoch on NAS-Bench-1Shot1 (the default); T = 100,
b = 64, mu = 2 and nu_0 = 500 on DARTS (`darts_nasi`), or nu = 100: `nasi(mu=2,nu=fixed,nu0=100)`.
For NAS-Bench-201 the paper gives T only in seconds (30), says that 4T is better
(`nasi(steps=400)`), and gives neither mu nor nu. The operation `none` is left out, as the paper
does on DARTS. If it is included (`zero=True`), the output of the selected network may not depend on
its input. There is no official code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.data import DataSource
from untrained.data.source import fingerprint_batch
from untrained.errors import UsageError
from untrained.probe.gradients import LOSSES, find_trainable_parameters
from untrained.probe.guard import fastest_kernels, full_precision, scoring_mode
from untrained.probe.passes import read_logits
from untrained.runs.step_log import StepLog
from untrained.seeds import make_torch_generator
from untrained.spaces import Space
from untrained.spaces.core.supernet import Supernet
from untrained.strategies.base import Fitness, NewArchSampler, Strategy, register_strategy
from untrained.strategies.limits import ConstrainedSpace
from untrained.strategies.supernets import (
    OptionNumbers,
    as_constrained,
    as_module,
    draw_seed,
    find_best_arch,
    list_option_numbers,
    make_mixed_supernet,
)
from untrained.types import Arch, Batch, Record

Logits = dict[str, Tensor]

NORM_LAYERS = (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d)
# The operation whose output is zero.
ZERO_OPERATION = "none"
# nu_0 of NASI-ADA on NAS-Bench-1Shot1.
_DEFAULT_INITIAL_NU = 1000.0


def sample_straight_through(alpha: Tensor, gumbel: Tensor) -> Tensor:
    """Sample an option by a straight-through Gumbel-softmax.

    Args:
        alpha: Logits, (options,).
        gumbel: Gumbel noise, (options,).

    Returns:
        A one-hot vector at the largest alpha + gumbel, with the gradient of their softmax.
    """
    soft = (alpha + gumbel).softmax(0)
    hard = F.one_hot(soft.argmax(), len(soft)).to(soft)
    return hard - soft.detach() + soft


def compute_trace_norm(
    supernet: Supernet,
    batch: Batch,
    loss: str,
    *,
    differentiable: bool = True,
    norms: bool = True,
) -> Tensor:
    """Compute t(A) of the architecture that the mixture of a supernet selects (Eq. 12).

    Args:
        supernet: The supernet.
        batch: The mini-batch.
        loss: Name of the loss.
        differentiable: Whether the gradient of t(A) with respect to the mixture is needed.
        norms: Whether the scales and shifts of normalisation layers count as parameters.

    Returns:
        t(A) in float64, ().
    """
    parameters = _find_parameters(as_module(supernet), include_norms=norms)
    with torch.enable_grad(), scoring_mode(as_module(supernet)):
        logits = read_logits(supernet(batch.inputs.clone()))
        value = LOSSES[loss](logits, batch.targets)
        gradients = torch.autograd.grad(
            value, parameters, create_graph=differentiable, allow_unused=True
        )
    total = torch.zeros((), dtype=torch.float64)
    for gradient in gradients:
        # Parameters of options that were not sampled have no gradient.
        if gradient is not None:
            total = total + gradient.double().square().sum()
    return total


def _find_parameters(supernet: nn.Module, include_norms: bool) -> list[nn.Parameter]:
    """Return the trainable parameters, with or without those of normalisation layers."""
    parameters = find_trainable_parameters(supernet)
    if include_norms:
        return list(parameters.values())
    without_norms = []
    for name, parameter in parameters.items():
        layer = supernet.get_submodule(name.rpartition(".")[0])
        if not isinstance(layer, NORM_LAYERS):
            without_norms.append(parameter)
    return without_norms


def compute_objective(t: Tensor, mu: float, nu: float) -> Tensor:
    """Return R (Eq. 13)."""
    return t - mu * (t - nu).clamp_min(0)


def compute_one_step(gradients: Sequence[Logits], xi: float = 1.0) -> Logits:
    """Return Delta (Eq. 18).

    Args:
        gradients: G_1, ..., G_T.
        xi: Length of the step.
    """
    delta = {name: torch.zeros_like(g) for name, g in gradients[0].items()}
    largest_norm = 0.0
    for G in gradients:
        largest_norm = max(largest_norm, _compute_norm(G))
        for name, g in G.items():
            # While all gradients so far are zero, the norm is zero too. Dividing by 1 adds nothing.
            delta[name] += xi / len(gradients) * g / (largest_norm or 1.0)
    return delta


def compute_mean(gradients: Sequence[Logits]) -> Logits:
    """Return the mean of G_1, ..., G_T.

    With more and more steps the running maximum of Eq. 18 changes less and less, so Delta tends to
    the direction of the expected G, which this mean estimates.
    """
    mean = {}
    for name in gradients[0]:
        mean[name] = torch.stack([G[name] for G in gradients]).mean(0)
    return mean


def _compute_norm(G: Logits) -> float:
    return float(torch.cat(list(G.values())).norm())


@dataclass(frozen=True, slots=True)
class RandomDraw:
    """The random part of one step: Gumbel noise per choice, and a mini-batch."""

    gumbel: dict[str, Tensor]
    batch: Batch


@dataclass(frozen=True, slots=True)
class NASIStep:
    """One step: t(A_t), nu_t and the norm of G_t."""

    t: float
    nu: float
    gradient_norm: float


@dataclass(frozen=True, slots=True)
class NASIRun:
    """One run of Algorithm 1: its result, the logits at the end, its steps, and the mean of G_t."""

    arch: Arch | None
    alpha: OptionNumbers
    steps: tuple[NASIStep, ...]
    mean_gradient: OptionNumbers = ()


@register_strategy
class NASI(Strategy):
    """NAS at initialisation: one step of gradient ascent on a supernet, once per architecture.

    Args:
        space: A space with a supernet.
        rng: Random generator.
        fitness: Not used, because NASI does not learn from records.
        source: Where mini-batches come from.
        device: Where the supernet computes.
        step_log: Where steps are kept, so that an interrupted search resumes.
        steps: T, the number of steps.
        batch: b, the number of samples per mini-batch.
        mu: Weight of the constraint.
        nu: Whether the threshold is fixed (Eq. 40) or adapts (Eq. 41).
        nu0: The fixed threshold, instead of the mean over `samples` architectures, or the initial
            value of the adaptive one.
        samples: Number of random architectures for the mean of Eq. 40.
        labels: Whether targets are those of the data or random.
        inputs: Whether inputs are those of the data or noise.
        zero: Whether the operation `none` may be chosen.
        norms: Whether the scales and shifts of normalisation layers count as parameters in t(A).
    """

    name = "nasi"
    needs = ("source",)
    default_budget = 1
    ask_size = 1

    def __init__(
        self,
        space: Space | ConstrainedSpace,
        rng: np.random.Generator,
        fitness: Fitness | None = None,
        *,
        source: DataSource,
        device: str = "cpu",
        step_log: StepLog | None = None,
        steps: int = 100,
        batch: int = 64,
        mu: float = 1.0,
        nu: Literal["fixed", "adaptive"] = "adaptive",
        nu0: float | None = None,
        samples: int = 50,
        labels: Literal["data", "random"] = "data",
        inputs: Literal["data", "noise"] = "data",
        zero: bool = False,
        norms: bool = True,
    ) -> None:
        if min(steps, batch, samples) < 1 or mu < 0:
            raise UsageError(
                "steps, batch and samples of nasi must be at least 1, and mu at least 0"
            )
        _check_choice("nu", nu, ("fixed", "adaptive"))
        _check_choice("labels", labels, ("data", "random"))
        _check_choice("inputs", inputs, ("data", "noise"))
        self._space = as_constrained(space)
        self._rng = rng
        self._source = source
        self._device = device
        self._step_log = step_log or StepLog()
        self._steps = steps
        self._batch_size = batch
        self._mu = mu
        self._adaptive = nu == "adaptive"
        self._initial_nu = nu0
        self._samples = samples
        self._random_labels = labels == "random"
        self._noise_inputs = inputs == "noise"
        self._allow_zero = zero
        self._include_norms = norms
        self._sampler = NewArchSampler(self._space)
        self.trace: list[NASIRun] = []

    def ask(self, n: int) -> list[Arch]:
        archs: list[Arch] = []
        while len(archs) < n:
            arch = self._run_algorithm()
            if arch is None:
                break
            archs.append(arch)
        return archs

    def tell(self, records: Sequence[Record]) -> None:
        """Do nothing: NASI does not learn from records."""

    # ------------------------------------------------------------------------------- Algorithm 1

    def _run_algorithm(self) -> Arch | None:
        """Run Algorithm 1 on a new supernet."""
        supernet = make_mixed_supernet(self._space, draw_seed(self._rng), self._device, "nasi")
        self._step_log.begin_proposal(self._count_measurements())
        fixed_nu = None
        if not self._adaptive:
            fixed_nu = self._choose_fixed_nu(supernet)
        steps: list[NASIStep] = []
        gradients: list[Logits] = []
        for number in range(self._steps):
            nu = fixed_nu
            if nu is None:
                nu = self._compute_adaptive_nu([step.t for step in steps])
            t, G = self._take_step(supernet, number, nu)
            gradients.append(G)
            steps.append(NASIStep(t, nu, _compute_norm(G)))
        if not any(step.gradient_norm for step in steps):
            raise UsageError(
                f"nasi learned nothing: every sampled trace norm is above nu = {steps[-1].nu:.4g}; "
                "give a larger nu0"
            )
        scores = {}
        for name, delta in compute_one_step(gradients).items():
            scores[name] = (delta + self._mask_options(supernet.options[name])).tolist()
        arch = find_best_arch(self._space, supernet, scores, self._sampler.mark_seen)
        alpha = list_option_numbers(supernet.options, scores)
        means = {}
        for name, mean in compute_mean(gradients).items():
            means[name] = (mean + self._mask_options(supernet.options[name])).tolist()
        mean_gradient = list_option_numbers(supernet.options, means)
        self.trace.append(NASIRun(arch, alpha, tuple(steps), mean_gradient))
        return arch

    def _count_measurements(self) -> int:
        """Return how many trace norms one run computes, for the progress bar."""
        if not self._adaptive and self._initial_nu is None:
            return self._steps + self._samples
        return self._steps

    def _compute_adaptive_nu(self, trace_norms: Sequence[float]) -> float:
        """Return nu_t of Eq. 41, given t(A_1), ..., t(A_{t-1})."""
        initial_nu = _DEFAULT_INITIAL_NU
        if self._initial_nu is not None:
            initial_nu = self._initial_nu
        return (initial_nu + sum(trace_norms)) / (len(trace_norms) + 1)

    def _choose_fixed_nu(self, supernet: Supernet) -> float:
        """Return `nu0` if the user set it, or else nu of Eq. 40."""
        if self._initial_nu is not None:
            return self._initial_nu
        trace_norms = []
        for number in range(self._samples):
            draw = self._draw(supernet)
            key = self._make_key("sample", number, draw)
            measure = partial(self._measure_sample, supernet, draw)
            trace_norms.append(self._step_log.get_or_compute(key, measure))
        return float(np.mean(trace_norms))

    def _measure_sample(self, supernet: Supernet, draw: RandomDraw) -> float:
        """Return t of a random architecture."""
        self._set_mixture(supernet, draw, differentiable=False)
        with fastest_kernels(self._device):
            return float(self._measure_norm(supernet, draw, differentiable=False))

    def _take_step(self, supernet: Supernet, number: int, nu: float) -> tuple[float, Logits]:
        """Return t(A_t) and G_t, computed now or read from the step log."""
        draw = self._draw(supernet)
        key = self._make_key("step", number, draw)
        compute = partial(self._compute_gradient, supernet, draw, nu)
        t, gradient = self._step_log.get_or_compute(key, compute)
        G = {name: torch.tensor(g, dtype=torch.float64) for name, g in gradient.items()}
        return t, G

    def _compute_gradient(
        self, supernet: Supernet, draw: RandomDraw, nu: float
    ) -> tuple[float, dict[str, list[float]]]:
        """Return t(A_t) and G_t as plain numbers for the step log."""
        alpha = self._set_mixture(supernet, draw)
        with fastest_kernels(self._device), full_precision():
            t = self._measure_norm(supernet, draw)
            objective = compute_objective(t, self._mu, nu)
            gradients = torch.autograd.grad(objective, list(alpha.values()))
        G = {name: g.tolist() for name, g in zip(alpha, gradients, strict=True)}
        return float(t.detach()), G

    def _make_key(self, kind: str, number: int, draw: RandomDraw) -> str:
        """Return the name of a measurement in the step log."""
        return f"search {len(self.trace)}, {kind} {number}, {fingerprint_batch(draw.batch)}"

    def _draw(self, supernet: Supernet) -> RandomDraw:
        """Draw Gumbel noise and a mini-batch.

        They are also drawn for measurements that are read from the step log, so that a resumed
        search draws the same numbers.
        """
        # Drawn with numpy, so that the noise does not depend on the device.
        gumbel = {}
        for name, options in supernet.options.items():
            gumbel[name] = torch.from_numpy(self._rng.gumbel(size=len(options)))
        return RandomDraw(gumbel, self._make_batch(draw_seed(self._rng)))

    def _set_mixture(
        self, supernet: Supernet, draw: RandomDraw, *, differentiable: bool = True
    ) -> Logits:
        """Set the mixture to a random architecture, and return the logits alpha_0 behind it."""
        alpha: Logits = {}
        for name, options in supernet.options.items():
            alpha[name] = torch.zeros(
                len(options), dtype=torch.float64, requires_grad=differentiable
            )
            noise = draw.gumbel[name] + self._mask_options(options)
            supernet.mixture[name] = sample_straight_through(alpha[name], noise)
        return alpha

    def _mask_options(self, options: Sequence[str]) -> Tensor:
        """Return minus infinity for options that are never selected, and 0 for all others."""
        mask = torch.zeros(len(options))
        for index, option in enumerate(options):
            if option == ZERO_OPERATION and not self._allow_zero:
                mask[index] = -inf
        return mask

    def _measure_norm(
        self, supernet: Supernet, draw: RandomDraw, *, differentiable: bool = True
    ) -> Tensor:
        """Return t of the architecture that the mixture selects."""
        batch = draw.batch.to(self._device)
        loss = self._source.task.loss
        t = compute_trace_norm(
            supernet, batch, loss, differentiable=differentiable, norms=self._include_norms
        ).cpu()
        if not isfinite(float(t.detach())):
            raise UsageError(
                f"nasi: the gradient of the supernet of {self._space.name} is not finite "
                "on this data"
            )
        return t

    def _make_batch(self, seed: int) -> Batch:
        """Return a mini-batch, with random labels or inputs if the options say so."""
        batch = self._source.batch(self._batch_size, seed)
        generator = make_torch_generator("nasi", seed)
        inputs = batch.inputs
        targets = batch.targets
        if self._noise_inputs:
            inputs = torch.randn(inputs.shape, generator=generator)
        if self._random_labels:
            classes = self._source.task.num_classes
            targets = torch.randint(classes, targets.shape, generator=generator)
        return Batch(inputs, targets)


def _check_choice(option: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UsageError(f"nasi has no {option} {value!r}; available: {', '.join(allowed)}")

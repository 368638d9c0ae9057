"""HNAS (Shu et al., NeurIPS 2022; arXiv:2201.09785), Algorithm 1.

It scores a large pool with proxies and validates few architectures. The validation is expensive: a
short training, or a look-up in a table of known results.

    M       a gradient metric of an architecture of the pool, such as `trace`
    kappa   condition number of its tangent kernel, `ntk_condition`
    mu, nu  weights of the bound, chosen by Bayesian optimisation
    bound   kappa / M + mu |M^2 - nu|; lower is better                  (Eq. 7; `proxies/hnas.py`);
            with variant=square, mu (M^2 - nu)^2
    step    choose (mu, nu); add random architectures to the pool; propose the architecture with the
            lowest bound that was not proposed before; observe its validation accuracy

The first quarter of the steps tries evenly spaced values of nu, with log mu in the middle of its
range. Metrics differ by many orders of magnitude, so mu and nu are relative to the pool
(`choose_mu_and_nu` in `proxies/hnas.py`): nu is a quantile of M^2, and mu is chosen such that the
median of the second term is 10^-2 to 10 times that of the first. If `max_nu` is set, both are
absolute numbers. The presets set it, and use the formula of the authors' code (mu |M^2 - nu^2|):

    nasbench201    20 steps with 2,000 new architectures each, nu up to 5,000, mu from 10^-4 to 1,
                   expected improvement
    darts          25 steps, one pool of 60,000, nu up to 100, mu from 10^-4 to 10, upper confidence
                   bound

The training-free variant has fixed mu and nu, so it is a proxy:
`untrained search --proxy "hnas(mu=0.01,nu=100)"`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from typing import Literal, get_args

import numpy as np

from untrained.errors import UsageError, make_unknown_name_error
from untrained.proxies.hnas import Variant, bound, choose_mu_and_nu
from untrained.strategies.base import (
    Fitness,
    NewArchSampler,
    PoolEvaluator,
    SpaceLike,
    Strategy,
    group_by_arch,
    make_plan,
    register_strategy,
)
from untrained.strategies.bayes import ACQUISITIONS, Array, fit_gaussian_process, suggest_point
from untrained.types import Arch, Record

KAPPA = "ntk_condition"
VARIANTS: tuple[str, ...] = get_args(Variant)


@dataclass(frozen=True, slots=True)
class HNASPlan:
    """Options of HNAS.

    Attributes:
        metric: The proxy that measures M.
        steps: Number of proposed architectures.
        pool: Number of architectures that are scored before the first step.
        pool_growth: Number of architectures that are added to the pool before each later step.
        min_log_mu: Smallest log10 mu.
        max_log_mu: Largest log10 mu.
        max_nu: Largest nu, or None if mu and nu are relative to the pool.
        acquisition: Acquisition function of Bayesian optimisation.
        variant: Formula of the bound, see `proxies/hnas.py`.
    """

    metric: str = "trace"
    steps: int = 20
    pool: int = 2000
    pool_growth: int = 2000
    min_log_mu: float = -2.0
    max_log_mu: float = 1.0
    max_nu: float | None = None
    acquisition: str = "ei"
    variant: str = "default"

    def __post_init__(self) -> None:
        if min(self.steps, self.pool) < 1 or self.pool_growth < 0:
            raise UsageError(
                "steps and pool of hnas must be at least 1, and pool_growth at least 0"
            )
        if self.min_log_mu > self.max_log_mu:
            raise UsageError("min_log_mu of hnas must not be larger than max_log_mu")
        if self.acquisition not in ACQUISITIONS:
            raise make_unknown_name_error("acquisition", self.acquisition, ACQUISITIONS)
        if self.variant not in VARIANTS:
            raise make_unknown_name_error("variant of hnas", self.variant, VARIANTS)

    @property
    def initial_steps(self) -> int:
        """Number of steps before Bayesian optimisation starts."""
        return max(self.steps // 4, 1)


PRESETS = {
    "": HNASPlan(),
    "nasbench201": HNASPlan(min_log_mu=-4.0, max_log_mu=0.0, max_nu=5e3, variant="published"),
    "darts": HNASPlan(
        steps=25,
        pool=60_000,
        pool_growth=0,
        min_log_mu=-4.0,
        max_nu=1e2,
        acquisition="ucb",
        variant="published",
    ),
}


@dataclass(frozen=True, slots=True)
class HNASStep:
    """One step of the search.

    Attributes:
        point: Position in the unit square: nu as a quantile, or as a fraction of `max_nu`, and the
            position of log10 mu in its range.
        mu: mu at that position.
        nu: nu at that position.
        arch: The proposed architecture.
        value: Its fitness; None if it failed or is not known yet.
    """

    point: tuple[float, float]
    mu: float
    nu: float
    arch: Arch
    value: float | None = None


@dataclass(frozen=True, slots=True)
class GridAxis:
    """One side of the unit square: the name of its variable, and the values at its ends."""

    name: str
    low: float
    high: float
    log: bool = False


@dataclass(frozen=True, slots=True)
class GridPrediction:
    """What the Gaussian process predicts on a grid of the unit square.

    Attributes:
        x_axis: The first coordinate, nu.
        y_axis: The second coordinate, mu.
        points: The grid.
        mean: Predicted mean per point.
        std: Predicted standard deviation per point.
    """

    x_axis: GridAxis
    y_axis: GridAxis
    points: tuple[tuple[float, float], ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


@register_strategy
class HNAS(Strategy):
    """Bayesian optimisation of the two weights of the HNAS bound, with few expensive validations.

    Args:
        space: Where the pool is sampled from.
        rng: Random generator.
        fitness: Reads the validation result of a proposed architecture.
        score_pool: Scores the pool with the proxies of `list_pool_proxies`.
        preset: Name of published settings.
        **options: Fields of `HNASPlan` that differ from the preset.
    """

    name = "hnas"
    needs = ("score_pool",)
    plan_class = HNASPlan

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness,
        *,
        score_pool: PoolEvaluator,
        preset: Literal["", "nasbench201", "darts"] = "",
        **options: object,
    ) -> None:
        self._rng = rng
        self._fitness = fitness
        self._score_pool = score_pool
        self._sampler = NewArchSampler(space)
        self._pending_step: HNASStep | None = None  # proposed, but not validated yet
        self.plan = make_plan("hnas", PRESETS, preset, options)
        self.default_budget = self.plan.steps
        self.pool: dict[Arch, tuple[float, float]] = {}  # (M, kappa)
        self.trace: list[HNASStep] = []

    @staticmethod
    def list_pool_proxies(options: Mapping[str, object]) -> tuple[str, ...]:
        """Return the names of the proxies that the pool is scored with: M and kappa."""
        plan_options = dict(options)
        preset = str(plan_options.pop("preset", ""))
        plan = make_plan("hnas", PRESETS, preset, plan_options)
        return plan.metric, KAPPA

    def ask(self, n: int) -> list[Arch]:
        """Propose the architecture of the next step.

        There is one at a time, because the next step depends on its result.
        """
        if n < 1 or self._pending_step is not None or len(self.trace) == self.plan.steps:
            return []
        if self.trace:
            self._grow_pool(self.plan.pool_growth)
        else:
            self._grow_pool(self.plan.pool)
        proposed = {step.arch for step in self.trace}
        # In a small space, all architectures of the pool may have been proposed.
        if len(proposed) == len(self.pool):
            return []
        M, kappa = np.array(list(self.pool.values())).T
        point = self._choose_point()
        mu, nu = self._compute_weights(point, M, kappa)
        archs = list(self.pool)
        # The sort is stable, so that of equal bounds the first sampled architecture is proposed.
        order = np.argsort(bound(M, kappa, mu, nu, self.plan.variant), kind="stable")
        best = next(archs[index] for index in order if archs[index] not in proposed)
        self._pending_step = HNASStep(point, mu, nu, best)
        return [best]

    def tell(self, records: Sequence[Record]) -> None:
        if self._pending_step is None:
            return
        arch_records = group_by_arch(records).get(self._pending_step.arch)
        if arch_records is None:
            return
        self.trace.append(replace(self._pending_step, value=self._fitness(arch_records)))
        self._pending_step = None

    def predict_grid(self, side: int = 25) -> GridPrediction | None:
        """Predict the fitness on a grid of the unit square.

        Args:
            side: Number of grid points per side.

        Returns:
            The prediction, or None if no step has a result.
        """
        X, y = self._read_observations()
        if not len(y):
            return None
        ticks = np.linspace(0, 1, side)
        grid = np.array(list(product(ticks, ticks)))
        mean, std = fit_gaussian_process(X, y).predict(grid)
        x_axis, y_axis = self._make_axes()
        return GridPrediction(
            x_axis,
            y_axis,
            points=tuple(map(tuple, grid.tolist())),
            mean=tuple(mean.tolist()),
            std=tuple(std.tolist()),
        )

    def _make_axes(self) -> tuple[GridAxis, GridAxis]:
        """Return the axes of nu and mu."""
        low = 10**self.plan.min_log_mu
        high = 10**self.plan.max_log_mu
        if self.plan.max_nu is not None:
            return GridAxis("nu", 0.0, self.plan.max_nu), GridAxis("mu", low, high, log=True)
        nu_name = f"nu: quantile of {self.plan.metric}^2 in the pool"
        mu_name = "mu: ratio of the medians of the second and the first term"
        return GridAxis(nu_name, 0.0, 1.0), GridAxis(mu_name, low, high, log=True)

    def _compute_weights(
        self, point: tuple[float, float], M: Array, kappa: Array
    ) -> tuple[float, float]:
        """Return mu and nu at a point of the unit square.

        Args:
            point: The point.
            M: Metric of the pool, (n,).
            kappa: Condition numbers of the pool, (n,).
        """
        plan = self.plan
        x, y = point
        weight = 10 ** (plan.min_log_mu + y * (plan.max_log_mu - plan.min_log_mu))
        if plan.max_nu is not None:
            return weight, x * plan.max_nu
        mu, nu = choose_mu_and_nu(M, kappa, weight, x, plan.variant)
        # The published formula squares nu.
        if plan.variant == "published":
            return mu, nu**0.5
        return mu, nu

    def _choose_point(self) -> tuple[float, float]:
        """Return the point of the unit square for the next step."""
        step = len(self.trace)
        initial_steps = self.plan.initial_steps
        X, y = self._read_observations()
        # If all steps failed, there is no result that a Gaussian process could be fitted to.
        if step < initial_steps or not len(y):
            return float(np.linspace(0, 1, initial_steps)[step % initial_steps]), 0.5
        first, second = suggest_point(X, y, self.plan.acquisition, self._rng)
        return float(first), float(second)

    def _read_observations(self) -> tuple[Array, Array]:
        """Return the points of steps with a result, (n, 2), and their values, (n,)."""
        points = []
        values = []
        for step in self.trace:
            if step.value is not None:
                points.append(step.point)
                values.append(step.value)
        return np.array(points), np.array(values, dtype=float)

    def _grow_pool(self, n: int) -> None:
        """Score up to n more random architectures; those without M or kappa are left out."""
        archs = self._sampler.sample_new(n, self._rng)
        for arch, records in zip(archs, self._score_pool(archs), strict=True):
            M = _average_seeds(records, self.plan.metric)
            kappa = _average_seeds(records, KAPPA)
            # The bound divides by M.
            if M and kappa is not None:
                self.pool[arch] = (abs(M), kappa)


def _average_seeds(records: Sequence[Record], proxy: str) -> float | None:
    """Return the mean score of a proxy over seeds; None if it failed for one of them.

    Raises:
        UsageError: The pool was not scored with this proxy.
    """
    values = [record.value for record in records if record.proxy == proxy]
    if not values:
        scored_proxies = dict.fromkeys(record.proxy for record in records)
        raise UsageError(
            f"hnas needs a pool that is scored with {proxy}; "
            f"it was scored with {', '.join(scored_proxies) or 'nothing'}"
        )
    scores = [value for value in values if value is not None]
    if len(scores) < len(values):
        return None
    return fmean(scores)

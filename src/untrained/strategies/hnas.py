"""HNAS (Shu et al., NeurIPS 2022; arXiv:2201.09785), Algorithm 1.

It judges a pool by proxies, and asks for few architectures, whose records come from something dearer: a short training,
or a table's validation accuracy. `judge` is the Evaluator of the pool; `fitness` reads the dear records.

    M, kappa    a gradient metric and the condition number of the tangent kernel, of every architecture of the pool
    step        (mu, nu) by Bayesian optimisation; add random architectures to the pool; ask for the one that minimises
                kappa / M + mu |M^2 - nu| (Eq. 7; `proxies/hnas.py`) among those not asked before; hear its accuracy

The first quarter of the steps tries nu evenly at the middle of mu's range, which is logarithmic. Both are told without
units (`trade` in `proxies/hnas.py`), since metrics differ by many orders of magnitude: nu is any quantile of M^2 in the
pool, and mu makes the second term 10^-2 to 10 times the first, in the median. With a `scale`, the largest nu, both are
plain numbers, as in the presets, which have the authors' formula (mu |M^2 - nu^2|):

    nasbench201    20 steps, 2000 more architectures each, nu up to 5000, mu from 10^-4 to 1, expected improvement
    darts          25 steps, one pool of 60,000, nu up to 100, mu from 10^-4 to 10, upper confidence bound

The training-free variant fixes mu and nu: that is a proxy, `untrained search --proxy "hnas(mu=0.01,nu=100)"`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, Literal

import numpy as np

from untrained.errors import UsageError, unknown
from untrained.proxies.hnas import bound, trade
from untrained.strategies import _bayes
from untrained.strategies._strategy import STRATEGIES, Fitness, Judge, SpaceLike, Unseen, by_arch, plan_of
from untrained.types import Arch, Record

CONDITION = "ntk_condition"  # kappa


@dataclass(frozen=True, slots=True)
class Plan:
    """How to look for (mu, nu)."""

    metric: str = "trace"
    steps: int = 20
    pool: int = 2000  # architectures judged before the first step
    more: int = 2000  # and before every other
    lowest: float = -2.0  # of log10 mu
    highest: float = 1.0
    scale: float | None = None  # the largest nu; None: nu and mu are relative to the pool
    acquisition: str = "ei"
    variant: str = "default"

    def __post_init__(self) -> None:
        if min(self.steps, self.pool) < 1 or self.more < 0 or self.lowest > self.highest:
            raise UsageError("hnas takes steps and pool from 1 up, more from 0 up, and lowest not above highest")
        if self.acquisition not in _bayes.ACQUISITIONS:
            raise unknown("acquisition", self.acquisition, _bayes.ACQUISITIONS)
        if self.variant not in ("default", "published"):
            raise unknown("variant of hnas", self.variant, ("default", "published"))

    @property
    def probes(self) -> int:
        """Steps before anything is learned."""
        return max(self.steps // 4, 1)


PRESETS = {
    "": Plan(),
    "nasbench201": Plan(lowest=-4.0, highest=0.0, scale=5e3, variant="published"),
    "darts": Plan(
        steps=25, pool=60_000, more=0, lowest=-4.0, scale=1e2, acquisition="ucb", variant="published"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """One step: where in the square (log mu, nu) it was, what was asked for, and what came of it; None: failed."""

    point: tuple[float, float]  # in [0, 1]^2: the quantile of nu, or nu / scale; the place of log10 mu in its range
    mu: float
    nu: float
    arch: Arch
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """A side of the square: what it means, and from where to where it goes."""

    name: str
    low: float
    high: float
    log: bool = False


@dataclass(frozen=True, slots=True)
class Belief:
    """What the Gaussian process believes on a grid of points: mean and standard deviation of the value."""

    along: Side  # nu
    up: Side  # mu
    points: tuple[tuple[float, float], ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


class HNAS:
    """Bayesian optimisation of the two weights of HNAS's bound, on a few trainings or table look-ups."""

    needs: ClassVar[tuple[str, ...]] = ("judge",)
    planned: ClassVar[type] = Plan

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness,
        *,
        judge: Judge,
        preset: Literal["", "nasbench201", "darts"] = "",
        **plan: Any,
    ) -> None:
        self._rng, self._fitness, self._judge = rng, fitness, judge
        self.plan = plan_of("hnas", PRESETS, preset, plan)
        self.pool: dict[Arch, tuple[float, float]] = {}  # (M, kappa) of what has both
        self.trace: list[Query] = []
        self._unseen = Unseen(space)
        self._open: Query | None = None  # asked and not told yet

    @staticmethod
    def metrics(preset: str = "", **plan: Any) -> tuple[str, ...]:
        """The proxies that the judge must measure."""
        return plan_of("hnas", PRESETS, preset, plan).metric, CONDITION

    @property
    def usual(self) -> int:
        return self.plan.steps

    def ask(self, n: int) -> list[Arch]:
        """The architecture of the next step; one at a time, since the step after it depends on its value."""
        if n < 1 or self._open is not None or len(self.trace) == self.plan.steps:
            return []
        self._grow(self.plan.more if self.trace else self.plan.pool)
        asked = {query.arch for query in self.trace}
        if len(asked) == len(self.pool):
            return []
        M, kappa = np.array(list(self.pool.values())).T
        point = self._next_point()
        mu, nu = self._weights(point, M, kappa)
        archs, order = list(self.pool), np.argsort(bound(M, kappa, mu, nu, self.plan.variant), kind="stable")
        chosen = next(archs[place] for place in order if archs[place] not in asked)
        self._open = Query(point, mu, nu, chosen)
        return [chosen]

    def tell(self, records: Sequence[Record]) -> None:
        found = by_arch(records)
        if self._open is not None and self._open.arch in found:
            self.trace.append(replace(self._open, value=self._fitness(found[self._open.arch])))
            self._open = None

    def belief(self, side: int = 25) -> Belief | None:
        """What is believed of the square now, for a picture; None before anything was told."""
        X, y = self._seen()
        if not len(y):
            return None
        ticks = np.linspace(0, 1, side)
        grid = np.array([(nu, mu) for nu in ticks for mu in ticks])
        mean, std = _bayes.fitted(X, y)(grid)
        return Belief(*self._sides(), tuple(map(tuple, grid.tolist())), tuple(mean.tolist()), tuple(std.tolist()))

    def _sides(self) -> tuple[Side, Side]:
        """nu and mu as they are told: plain numbers, or relative to the pool."""
        plan = self.plan
        sizes = 10**plan.lowest, 10**plan.highest
        if plan.scale is not None:
            return Side("nu", 0.0, plan.scale), Side("mu", *sizes, log=True)
        quantile = Side(f"nu: a quantile of {plan.metric}^2 in the pool", 0.0, 1.0)
        return quantile, Side("mu: second term over first, in the median", *sizes, log=True)

    def _weights(self, point: tuple[float, float], M: _bayes.Array, kappa: _bayes.Array) -> tuple[float, float]:
        """mu and nu at a point of the square."""
        plan, (along, place) = self.plan, point
        size = 10 ** (plan.lowest + place * (plan.highest - plan.lowest))
        if plan.scale is not None:
            return size, along * plan.scale
        mu, nu = trade(M, kappa, size, along)
        return mu, nu**0.5 if plan.variant == "published" else nu

    def _next_point(self) -> tuple[float, float]:
        step, probes = len(self.trace), self.plan.probes
        X, y = self._seen()
        if step < probes or not len(y):
            return float(np.linspace(0, 1, probes)[step % probes]), 0.5
        nu, mu = _bayes.suggest(X, y, self.plan.acquisition, self._rng)
        return float(nu), float(mu)

    def _seen(self) -> tuple[_bayes.Array, _bayes.Array]:
        told = [query for query in self.trace if query.value is not None]
        return np.array([query.point for query in told]), np.array([query.value for query in told], dtype=float)

    def _grow(self, n: int) -> None:
        """Judge up to n more random architectures; one without M or kappa is left out."""
        new = self._unseen.samples(n, self._rng)
        for arch, records in zip(new, self._judge(new), strict=True):
            M, kappa = (_mean(records, proxy) for proxy in (self.plan.metric, CONDITION))
            if M and kappa is not None:
                self.pool[arch] = abs(M), kappa


def _mean(records: Sequence[Record], proxy: str) -> float | None:
    """The mean over seeds of what this proxy says; None if it failed on any, or was not asked."""
    values = [record.value for record in records if record.proxy == proxy]
    known = [value for value in values if value is not None]
    if not values:
        raise UsageError(f"hnas needs a judge that measures {proxy}; it measured {_measured(records)}")
    return fmean(known) if len(known) == len(values) else None


def _measured(records: Sequence[Record]) -> str:
    return ", ".join(dict.fromkeys(record.proxy for record in records)) or "nothing"


STRATEGIES.add("hnas", HNAS)

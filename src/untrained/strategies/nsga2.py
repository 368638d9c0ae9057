"""NSGA-II (Deb et al., IEEE Transactions on Evolutionary Computation 2002): several objectives at once.

Points are tuples of objectives, all of them higher-is-better. One point dominates another if it is nowhere worse and
somewhere better. The population of the next generation is filled front by front; of the last front that fits in part,
those with the most room around them (crowding distance) are taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from untrained.errors import UsageError
from untrained.strategies._strategy import STRATEGIES, Fitness, Generations, SpaceLike
from untrained.types import Arch, Record

Point = tuple[float, ...]


def fronts(points: Sequence[Point]) -> list[list[int]]:
    """Places of the points, sorted into fronts: the first is dominated by none, the next by the first alone, ..."""
    if not points:
        return []
    P = np.asarray(points, dtype=float)  # (points, objectives)
    nowhere_worse = np.all(P[:, None] >= P[None], axis=2)
    dominates = nowhere_worse & ~nowhere_worse.T
    found: list[list[int]] = []
    left = np.ones(len(P), dtype=bool)
    while left.any():
        front = left & ~np.any(dominates[left], axis=0)
        found.append(np.flatnonzero(front).tolist())
        left &= ~front
    return found


def pareto_front(points: Sequence[Point]) -> list[int]:
    """Places of the points that no other dominates."""
    return fronts(points)[0] if points else []


def crowding(points: Sequence[Point]) -> list[float]:
    """For each point of a front, the sides of the box between its neighbours in every objective, relative to the extent
    of the front; infinite at both ends."""
    P = np.asarray(points, dtype=float)
    distance = np.zeros(len(P))
    for values in P.T:
        order = np.argsort(values, kind="stable")
        distance[order[[0, -1]]] = inf
        extent = values[order[-1]] - values[order[0]]
        if extent > 0:
            distance[order[1:-1]] += (values[order[2:]] - values[order[:-2]]) / extent
    found: list[float] = distance.tolist()
    return found


@dataclass(frozen=True, slots=True)
class Front:
    """The non-dominated of the population after a generation."""

    archs: tuple[Arch, ...]
    points: tuple[Point, ...]


class NSGA2(Generations[Point]):
    """Several objectives at once, such as a proxy and parameters: keeps a whole front of trade-offs."""

    needs: ClassVar[tuple[str, ...]] = ("beside",)

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness,
        *,
        beside: Sequence[Fitness] = (),
        population: int = 32,
        crossover: float = 0.9,
    ) -> None:
        """`beside` are the objectives beside `fitness`, one or two; a child has two parents with this probability."""
        if population < 2 or len(beside) > 2 or not 0 <= crossover <= 1:
            raise UsageError("nsga2 takes a population from 2 up, at most three objectives, and crossover from 0 to 1")

        def point(records: Sequence[Record]) -> Point | None:
            values = [objective(records) for objective in (fitness, *beside)]
            known = tuple(value for value in values if value is not None)
            return known if len(known) == len(values) else None

        super().__init__(space, rng, point)
        self.size, self.crossover = population, crossover
        self.population: dict[Arch, Point] = {}  # best first: by front, then by crowding distance
        self.trace: list[Front] = []

    def propose(self) -> list[Arch]:
        if len(self.population) < 2:
            return self.samples(self.size)
        return self.unseen.children(self.size, self._child) or self.samples(self.size)

    def _child(self) -> Arch:
        """Two parents by tournaments of two, crossed; and a mutation, unless crossing made something new by itself."""
        a, b = self._parent(), self._parent()
        child = self.space.cross(a, b, self.rng) if self.rng.random() < self.crossover else a
        new = child not in (a, b) and self.rng.random() < 0.5
        return child if new else self.space.mutate(child, self.rng)

    def _parent(self) -> Arch:
        best_first = list(self.population)
        return best_first[int(self.rng.integers(len(best_first), size=2).min())]

    def learn(self, found: dict[Arch, Point]) -> None:
        everyone = self.population | found
        archs, points = list(everyone), list(everyone.values())
        sorted_fronts = fronts(points)
        best_first: list[int] = []
        for front in sorted_fronts:
            room = crowding([points[i] for i in front])
            best_first += [front[k] for k in sorted(range(len(front)), key=lambda k: -room[k])]
        self.population = {archs[i]: points[i] for i in best_first[: self.size]}
        if sorted_fronts:
            first = [i for i in sorted_fronts[0] if archs[i] in self.population]
            self.trace.append(Front(tuple(archs[i] for i in first), tuple(points[i] for i in first)))


STRATEGIES.add("nsga2", NSGA2)

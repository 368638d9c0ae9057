"""NSGA-II (Deb et al., IEEE Trans. Evolutionary Computation 6(2), 2002): several objectives.

    p               a point: the objectives of one architecture; higher is better for all of them
    p dominates q   p is at least as good as q in every objective and better in one
    F_1, F_2, ...   fronts: no point dominates those of F_1, only points of F_1 dominate those of
                    F_2, and so on (fast-non-dominated-sort, Section III-A)
    d(p)            crowding distance of p in its front: sum over objectives of the distance between
                    its two neighbours, divided by the extent of the front; infinite at both ends
                    (Section III-B)

The next population is filled front by front. If a front does not fit as a whole, its points with
the largest crowding distance are taken (Section III-C).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from untrained.errors import UsageError
from untrained.strategies.base import Fitness, GenerationStrategy, SpaceLike, register_strategy
from untrained.types import Arch, Record

Point = tuple[float, ...]


def sort_into_fronts(points: Sequence[Point]) -> list[list[int]]:
    """Sort points into fronts.

    Args:
        points: Objectives of each architecture; higher is better.

    Returns:
        The fronts F_1, F_2, ... as indices of their points.
    """
    if not points:
        return []
    P = np.asarray(points, dtype=float)  # (points, objectives)
    # at_least_as_good[i, j]: point i is not worse than point j in any objective.
    at_least_as_good = np.all(P[:, None] >= P[None], axis=2)
    dominates = at_least_as_good & ~at_least_as_good.T
    fronts: list[list[int]] = []
    remaining = np.ones(len(P), dtype=bool)
    while remaining.any():
        is_dominated = np.any(dominates[remaining], axis=0)
        front = remaining & ~is_dominated
        fronts.append(np.flatnonzero(front).tolist())
        remaining &= ~front
    return fronts


def find_pareto_front(points: Sequence[Point]) -> list[int]:
    """Return the indices of the points that no other point dominates."""
    if not points:
        return []
    return sort_into_fronts(points)[0]


def measure_crowding(points: Sequence[Point]) -> list[float]:
    """Return the crowding distance d(p) of each point of one front."""
    P = np.asarray(points, dtype=float)  # (points, objectives)
    distances = np.zeros(len(P))
    for values in P.T:
        order = np.argsort(values, kind="stable")
        distances[order[[0, -1]]] = inf
        extent = values[order[-1]] - values[order[0]]
        if extent > 0:
            gaps = values[order[2:]] - values[order[:-2]]
            distances[order[1:-1]] += gaps / extent
    distance_list: list[float] = distances.tolist()
    return distance_list


@dataclass(frozen=True, slots=True)
class FrontStep:
    """The first front of the population after a generation."""

    archs: tuple[Arch, ...]
    points: tuple[Point, ...]


@register_strategy
class NSGA2(GenerationStrategy[Point]):
    """Several objectives at once, such as a proxy and parameters: finds a Pareto front.

    Args:
        space: Where architectures come from.
        rng: Random generator.
        fitness: The first objective.
        other_objectives: One or two more objectives.
        population: Number of members, and of children per generation.
        crossover: Probability that a child has two parents.
    """

    name = "nsga2"
    needs = ("other_objectives",)

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness,
        *,
        other_objectives: Sequence[Fitness] = (),
        population: int = 32,
        crossover: float = 0.9,
    ) -> None:
        if population < 2 or len(other_objectives) > 2 or not 0 <= crossover <= 1:
            raise UsageError(
                "nsga2 needs a population of at least 2, at most three objectives, "
                "and a crossover probability from 0 to 1"
            )
        self._objectives = (fitness, *other_objectives)
        super().__init__(space, rng, self._read_point)
        self.population_size = population
        self.crossover = crossover
        self.population: dict[Arch, Point] = {}  # best first: by front, then by crowding distance
        self.trace: list[FrontStep] = []

    def propose(self) -> list[Arch]:
        # Crossover needs two members.
        if len(self.population) < 2:
            return self.sample_new(self.population_size)
        children = self.sampler.derive_new(self.population_size, self._make_child)
        return children or self.sample_new(self.population_size)

    def learn(self, values: dict[Arch, Point]) -> None:
        candidates = self.population | values
        archs = list(candidates)
        points = list(candidates.values())
        fronts = sort_into_fronts(points)
        best_first: list[int] = []
        for front in fronts:
            best_first += _sort_by_crowding(front, points)
        survivors = best_first[: self.population_size]
        self.population = {archs[index]: points[index] for index in survivors}
        if fronts:
            self._add_to_trace(fronts[0], archs, points)

    def _read_point(self, records: Sequence[Record]) -> Point | None:
        """Return all objectives of an architecture; None if one of them is missing."""
        values: list[float] = []
        for objective in self._objectives:
            value = objective(records)
            if value is None:
                return None
            values.append(value)
        return tuple(values)

    def _make_child(self) -> Arch:
        """Return a child of one or two parents.

        A child of two parents is mutated with a probability of one half. A copy of a parent is
        always mutated.
        """
        first = self._select_parent()
        second = self._select_parent()
        child = first
        if self.rng.random() < self.crossover:
            child = self.space.cross(first, second, self.rng)
        # The second number is drawn only if the child differs from both parents.
        if child not in (first, second) and self.rng.random() < 0.5:
            return child
        return self.space.mutate(child, self.rng)

    def _select_parent(self) -> Arch:
        """Return the better of two random members. The population is sorted, best first."""
        best_first = list(self.population)
        indices = self.rng.integers(len(best_first), size=2)
        return best_first[int(indices.min())]

    def _add_to_trace(
        self, front: Sequence[int], archs: Sequence[Arch], points: Sequence[Point]
    ) -> None:
        members = [index for index in front if archs[index] in self.population]
        front_archs = tuple(archs[index] for index in members)
        front_points = tuple(points[index] for index in members)
        self.trace.append(FrontStep(front_archs, front_points))


def _sort_by_crowding(front: Sequence[int], points: Sequence[Point]) -> list[int]:
    """Return the indices of a front, those with the largest crowding distance first."""
    distances = measure_crowding([points[index] for index in front])
    order = sorted(range(len(front)), key=lambda index: -distances[index])
    return [front[index] for index in order]

"""Regularised evolution (Real et al., AAAI 2019; arXiv:1802.01548), with the settings of two papers as presets.

A population of random architectures; in each generation a tournament among some of them, whose winner gets children,
each a mutation of it; then the oldest die (`dies="oldest"`) or the worst do. What failed has no place in a population.

    sigeo    population 128, tournaments of 64, 8 children, 240 generations (SiGeo, arXiv:2311.13169, on NASRec). As in
             its code a child is mutated six times at first and once at the end. That code returns the two best of each
             generation and never one of the first population; here whatever was judged can be the best.
    zennas   population 1024, a parent at random, one child a generation, 10^5 of them, the worst dies (ZenNAS,
             arXiv:2102.01063; so AZ-NAS and Dextr). It begins with 11 architectures, for which ZenNAS changes one block
             of an initial structure, and takes the space's own samples here. Later it replaces up to two blocks at a
             time: an option of that space, `mobilenetv2(replacements=2)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar, Literal

import numpy as np

from untrained.errors import UsageError
from untrained.strategies._strategy import STRATEGIES, Fitness, Generations, SpaceLike, plan_of
from untrained.types import Arch


@dataclass(frozen=True, slots=True)
class Plan:
    """How to evolve."""

    population: int = 64
    tournament: int = 16  # of how many the best becomes the parent; 1 is any
    children: int = 8  # a generation
    generations: int | None = None  # after which it ends
    dies: Literal["oldest", "worst"] = "oldest"
    initial: int | None = None  # random ones to begin with; None: a whole population
    cooling: bool = False  # mutate more at the start: needs `generations`

    def __post_init__(self) -> None:
        least = min(self.population, self.tournament, self.children, self.initial or 1, self.generations or 1)
        if least < 1 or self.dies not in ("oldest", "worst"):
            raise UsageError("evolution takes whole numbers from 1 up, and dies=oldest or dies=worst")
        if self.cooling and self.generations is None:
            raise UsageError("cooling=True needs to know the end: say generations=240 or the like")

    def mutations(self, generation: int) -> int:
        """How often a child of this generation, counted from 0, is mutated."""
        if not self.cooling or self.generations is None:
            return 1
        return (self.generations - generation) // max(20, self.generations // 5) + 1


PRESETS = {
    "": Plan(),
    "sigeo": Plan(population=128, tournament=64, children=8, generations=240, cooling=True),
    "zennas": Plan(population=1024, tournament=1, children=1, generations=100_000, dies="worst", initial=11),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """The population after a generation; without a parent it is at random."""

    parent: Arch | None
    alive: int
    best: float
    middle: float
    worst: float


class Evolution(Generations[float]):
    """Children of the fittest of a few replace the oldest; presets sigeo and zennas."""

    planned: ClassVar[type] = Plan

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness,
        *,
        preset: Literal["", "sigeo", "zennas"] = "",
        **plan: Any,
    ) -> None:
        super().__init__(space, rng, fitness)
        self.plan = plan_of("evolution", PRESETS, preset, plan)
        self.population: dict[Arch, float] = {}  # from old to young
        self.trace: list[Moment] = []
        self._parent: Arch | None = None
        self._generation = 0  # how many had parents

    def propose(self) -> list[Arch]:
        if self._generation == self.plan.generations:
            return []
        if not self.population:
            return self.samples(self.plan.initial or self.plan.population)
        parent = self._winner()
        children = self.unseen.children(self.plan.children, lambda: self._child(parent))
        self._parent = parent if children else None
        self._generation += 1
        return children or self.samples(self.plan.children)  # where all around the parent is known

    def _winner(self) -> Arch:
        alive = list(self.population)
        some = self.rng.choice(len(alive), min(self.plan.tournament, len(alive)), replace=False)
        entered: list[Arch] = [alive[place] for place in sorted(some)]
        return max(entered, key=self.population.__getitem__)

    def _child(self, parent: Arch) -> Arch:
        child = parent
        for _ in range(self.plan.mutations(self._generation)):
            child = self.space.mutate(child, self.rng)
        return child

    def learn(self, found: dict[Arch, float]) -> None:
        self.population |= found
        while len(self.population) > self.plan.population:
            self.population.pop(self._dying())
        if self.population:
            self.trace.append(_moment(self._parent, list(self.population.values())))

    def _dying(self) -> Arch:
        oldest_first = list(self.population)
        return oldest_first[0] if self.plan.dies == "oldest" else min(oldest_first, key=self.population.__getitem__)


def _moment(parent: Arch | None, values: Sequence[float]) -> Moment:
    return Moment(parent, len(values), max(values), median(values), min(values))


STRATEGIES.add("evolution", Evolution)

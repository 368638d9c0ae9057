"""Regularised evolution (Real et al., AAAI 2019; arXiv:1802.01548), with two published presets.

It starts with a population of random architectures. In each generation, the best of a random
tournament becomes the parent, and its mutations are the children. Then the oldest members are
removed (`dies="oldest"`), or the worst. An architecture that failed never enters the population.

    sigeo    Population 128, tournaments of 64, 8 children, 240 generations (SiGeo,
             arXiv:2311.13169, on NASRec). As in the authors' code, a child is mutated six times in
             the first generations and once in the last. That code returns the two best of each
             generation and never a member of the first population; here every scored architecture
             can win.
    zennas   Population 1024, a random parent, one child per generation, 10^5 generations, the worst
             is removed (ZenNAS, arXiv:2102.01063; also AZ-NAS and Dextr). It starts with 11
             architectures: ZenNAS mutates one block of an initial structure, we sample the space.
             ZenNAS then replaces up to two blocks per mutation, which is an option of the space:
             `mobilenetv2(replacements=2)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from untrained.errors import UsageError
from untrained.strategies.base import (
    Fitness,
    GenerationStrategy,
    SpaceLike,
    make_plan,
    register_strategy,
)
from untrained.types import Arch


@dataclass(frozen=True, slots=True)
class EvolutionPlan:
    """Options of evolution.

    Attributes:
        population: Number of members.
        tournament: Size of the tournament that selects the parent; 1 selects it at random.
        children: Number of children per generation.
        generations: Number of generations after the initial population; None for no limit.
        dies: Which members are removed.
        initial: Number of random architectures to start with; None for `population`.
        cooling: Mutate children several times in the first generations. Needs `generations`.
    """

    population: int = 64
    tournament: int = 16
    children: int = 8
    generations: int | None = None
    dies: Literal["oldest", "worst"] = "oldest"
    initial: int | None = None
    cooling: bool = False

    def __post_init__(self) -> None:
        for name in ("population", "tournament", "children", "initial", "generations"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise UsageError(f"evolution({name}={number}): {name} must be at least 1")
        if self.dies not in ("oldest", "worst"):
            raise UsageError(f"evolution(dies={self.dies}): dies must be oldest or worst")
        if self.cooling and self.generations is None:
            raise UsageError(
                "cooling=True needs the number of generations, such as generations=240"
            )

    def count_mutations(self, generation: int) -> int:
        """Return how often a child of this generation, counted from 0, is mutated."""
        if not self.cooling or self.generations is None:
            return 1
        remaining = self.generations - generation
        return remaining // max(20, self.generations // 5) + 1


PRESETS = {
    "": EvolutionPlan(),
    "sigeo": EvolutionPlan(
        population=128, tournament=64, children=8, generations=240, cooling=True
    ),
    "zennas": EvolutionPlan(
        population=1024, tournament=1, children=1, generations=100_000, dies="worst", initial=11
    ),
}


@dataclass(frozen=True, slots=True)
class PopulationStep:
    """The population after a generation.

    Attributes:
        parent: Parent of the generation; None if the generation was sampled at random.
        alive: Number of members.
        best: Largest fitness.
        median: Median fitness.
        worst: Smallest fitness.
    """

    parent: Arch | None
    alive: int
    best: float
    median: float
    worst: float


@register_strategy
class Evolution(GenerationStrategy[float]):
    """Regularised evolution: mutations of the fittest replace the oldest; presets sigeo, zennas.

    Args:
        space: Where architectures come from.
        rng: Random generator.
        fitness: What to maximise.
        preset: Name of published settings.
        **options: Fields of `EvolutionPlan` that differ from the preset.
    """

    name = "evolution"
    plan_class = EvolutionPlan

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness,
        *,
        preset: Literal["", "sigeo", "zennas"] = "",
        **options: object,
    ) -> None:
        super().__init__(space, rng, fitness)
        self.plan = make_plan("evolution", PRESETS, preset, options)
        self.population: dict[Arch, float] = {}  # oldest first
        self.trace: list[PopulationStep] = []
        self._parent: Arch | None = None
        self._generation = 0  # number of generations after the initial population

    def propose(self) -> list[Arch]:
        if self._generation == self.plan.generations:
            return []
        if not self.population:
            return self.sample_new(self.plan.initial or self.plan.population)
        parent = self._select_parent()
        children = self.sampler.derive_new(self.plan.children, lambda: self._mutate_parent(parent))
        self._generation += 1
        if children:
            self._parent = parent
            return children
        # Every neighbour of the parent was proposed before.
        self._parent = None
        return self.sample_new(self.plan.children)

    def learn(self, values: dict[Arch, float]) -> None:
        self.population |= values
        while len(self.population) > self.plan.population:
            del self.population[self._select_removal()]
        if self.population:
            self.trace.append(_describe_population(self._parent, list(self.population.values())))

    def _select_parent(self) -> Arch:
        """Return the fittest of some random members."""
        members = list(self.population)
        size = min(self.plan.tournament, len(members))
        indices = self.rng.choice(len(members), size, replace=False)
        # The indices are sorted by age, so that `max` returns the oldest of equally fit members.
        contestants: list[Arch] = [members[index] for index in sorted(indices)]
        return max(contestants, key=self.population.__getitem__)

    def _mutate_parent(self, parent: Arch) -> Arch:
        child = parent
        for _ in range(self.plan.count_mutations(self._generation)):
            child = self.space.mutate(child, self.rng)
        return child

    def _select_removal(self) -> Arch:
        """Return the member to remove: the oldest or the worst."""
        oldest_first = list(self.population)
        if self.plan.dies == "oldest":
            return oldest_first[0]
        return min(oldest_first, key=self.population.__getitem__)


def _describe_population(parent: Arch | None, values: Sequence[float]) -> PopulationStep:
    return PopulationStep(parent, len(values), max(values), median(values), min(values))

"""Local search: hill climbing with restarts. On small spaces hard to beat (White et al., UAI 2021; arXiv:2005.02960).

From a random architecture to the best of some new neighbours, as long as that is better; where it is not, again from
another random one. A neighbour is a mutation.
"""

from dataclasses import dataclass

import numpy as np

from untrained.errors import UsageError
from untrained.strategies._strategy import STRATEGIES, Fitness, Generations, SpaceLike
from untrained.types import Arch


@dataclass(frozen=True, slots=True)
class Step:
    """Where the climber stands after a generation, and whether it came there by a restart."""

    arch: Arch
    value: float
    restarted: bool


class LocalSearch(Generations[float]):
    """Hill climbing: to the best of some neighbours while it is better, else again from anywhere."""

    def __init__(
        self, space: SpaceLike, rng: np.random.Generator, fitness: Fitness, *, neighbours: int = 8, patience: int = 2
    ) -> None:
        """`neighbours` are judged at a time; after `patience` times without anything better it starts anew."""
        super().__init__(space, rng, fitness)
        if min(neighbours, patience) < 1:
            raise UsageError("local search takes neighbours and patience from 1 up")
        self.neighbours, self.patience = neighbours, patience
        self.trace: list[Step] = []
        self._here: tuple[Arch, float] | None = None
        self._failures = 0

    def propose(self) -> list[Arch]:
        if self._here is not None and self._failures < self.patience:
            here = self._here[0]
            around = self.unseen.children(self.neighbours, lambda: self.space.mutate(here, self.rng))
            if around:
                return around
        self._here, self._failures = None, 0
        return self.samples(1)

    def learn(self, found: dict[Arch, float]) -> None:
        best = max(found, key=found.__getitem__, default=None)
        if best is None or (self._here is not None and found[best] <= self._here[1]):
            self._failures += 1
            return
        self.trace.append(Step(best, found[best], restarted=self._here is None))
        self._here, self._failures = (best, found[best]), 0


STRATEGIES.add("local", LocalSearch)

"""Local search: hill climbing with restarts (White et al., UAI 2021; arXiv:2005.02960).

It starts at a random architecture and moves to the best of some new neighbours if that is an
improvement. It restarts at another random architecture after `patience` generations without an
improvement, or if no neighbour is new. A neighbour is a mutation. On small spaces this is hard to
beat.
"""

from dataclasses import dataclass

import numpy as np

from untrained.errors import UsageError
from untrained.strategies.base import Fitness, GenerationStrategy, SpaceLike, register_strategy
from untrained.types import Arch


@dataclass(frozen=True, slots=True)
class ClimbStep:
    """A move: the new position, its fitness, and whether it was reached by a restart."""

    arch: Arch
    value: float
    restarted: bool


@register_strategy
class LocalSearch(GenerationStrategy[float]):
    """Hill climbing: move to the best of some neighbours if it is better; restart at a standstill.

    Args:
        space: Where architectures come from.
        rng: Random generator.
        fitness: What to maximise.
        neighbours: Number of neighbours per generation.
        patience: Restart after this many generations without an improvement, or if no neighbour is
            new.
    """

    name = "local"

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness,
        *,
        neighbours: int = 8,
        patience: int = 2,
    ) -> None:
        super().__init__(space, rng, fitness)
        if min(neighbours, patience) < 1:
            raise UsageError("neighbours and patience of local must be at least 1")
        self.neighbours = neighbours
        self.patience = patience
        self.trace: list[ClimbStep] = []
        self._position: Arch | None = None  # None before the first step and at a restart
        self._position_value = 0.0
        self._stalled_generations = 0  # in a row without an improvement

    def propose(self) -> list[Arch]:
        position = self._position
        if position is not None and self._stalled_generations < self.patience:
            neighbours = self.sampler.derive_new(
                self.neighbours, lambda: self.space.mutate(position, self.rng)
            )
            if neighbours:
                return neighbours
        # No improvement for too long, or every neighbour was proposed before: restart.
        self._position = None
        self._stalled_generations = 0
        return self.sample_new(1)

    def learn(self, values: dict[Arch, float]) -> None:
        # After a restart any score is an improvement.
        restarted = self._position is None
        best = max(values, key=values.__getitem__, default=None)
        if best is None or (not restarted and values[best] <= self._position_value):
            self._stalled_generations += 1
            return
        self.trace.append(ClimbStep(best, values[best], restarted))
        self._position = best
        self._position_value = values[best]
        self._stalled_generations = 0

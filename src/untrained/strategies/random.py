"""Random search: every architecture once, in random order. The baseline every other strategy has to beat."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from untrained.strategies._strategy import STRATEGIES, Fitness, SpaceLike, Unseen
from untrained.types import Arch, Record


class RandomSearch:
    """Uniform samples of the space without repetition."""

    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, space: SpaceLike, rng: np.random.Generator, fitness: Fitness | None = None) -> None:
        self._rng, self._unseen = rng, Unseen(space)

    def ask(self, n: int) -> list[Arch]:
        return self._unseen.samples(n, self._rng)

    def tell(self, records: Sequence[Record]) -> None:
        """Random search does not learn."""


STRATEGIES.add("random", RandomSearch)

"""Random search, the baseline of all other strategies: every architecture once, in random order."""

from collections.abc import Sequence

import numpy as np

from untrained.strategies.base import (
    Fitness,
    NewArchSampler,
    SpaceLike,
    Strategy,
    register_strategy,
)
from untrained.types import Arch, Record


@register_strategy
class RandomSearch(Strategy):
    """Uniform samples of the space without repetition."""

    name = "random"

    def __init__(
        self, space: SpaceLike, rng: np.random.Generator, fitness: Fitness | None = None
    ) -> None:
        self._rng = rng
        self._sampler = NewArchSampler(space)

    def ask(self, n: int) -> list[Arch]:
        return self._sampler.sample_new(n, self._rng)

    def tell(self, records: Sequence[Record]) -> None:
        """Do nothing: random search does not learn."""

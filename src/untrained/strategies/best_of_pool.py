"""Score a pool of architectures with a cheap proxy, then validate the best of them.

The validation is expensive: a short training, or a look-up in a table of known results. `hnas.py`
does the same, but learns from the validation how to combine two proxies.
"""

from collections.abc import Sequence

import numpy as np

from untrained.errors import UsageError
from untrained.strategies.base import (
    Fitness,
    NewArchSampler,
    PoolEvaluator,
    SpaceLike,
    Strategy,
    register_strategy,
)
from untrained.types import Arch, Record


@register_strategy
class BestOfPool(Strategy):
    """The best of a pool by any proxy, for validation by a short training or a table.

    Args:
        space: Where the pool is sampled from.
        rng: Random generator.
        fitness: Not used, because nothing is learned from the validation.
        score_pool: Scores the pool.
        pool_fitness: Reads the score of an architecture of the pool from its records.
        pool: Number of architectures in the pool.
        top: How many of them are proposed, best first.

    Raises:
        UsageError: `top` is not between 1 and the size of the pool.
    """

    name = "best_of_pool"
    # The strategy was once called `screen`. Its seeds still derive from that name, so that its
    # searches are reproducible.
    seed_name = "screen"
    needs = ("score_pool", "pool_fitness")

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness | None = None,
        *,
        score_pool: PoolEvaluator,
        pool_fitness: Fitness,
        pool: int = 600,
        top: int = 20,
    ) -> None:
        if not 1 <= top <= pool:
            raise UsageError(
                f"best_of_pool(top={top}): top must be from 1 to {pool}, the size of the pool"
            )
        self._space = space
        self._rng = rng
        self._score_pool = score_pool
        self._pool_fitness = pool_fitness
        self._pool_size = pool
        self._top = top
        self._proposed = 0
        self.default_budget = top
        # The scored pool, best first, without failures; None until the first `ask`.
        self.pool: dict[Arch, float] | None = None

    def ask(self, n: int) -> list[Arch]:
        if self.pool is None:
            self.pool = self._make_pool()
        candidates = list(self.pool)[: self._top]
        archs = candidates[self._proposed : self._proposed + n]
        self._proposed += len(archs)
        return archs

    def tell(self, records: Sequence[Record]) -> None:
        """Do nothing: the strategy does not learn from the validation."""

    def _make_pool(self) -> dict[Arch, float]:
        """Sample and score the pool."""
        archs = NewArchSampler(self._space).sample_new(self._pool_size, self._rng)
        scores: dict[Arch, float] = {}
        for arch, records in zip(archs, self._score_pool(archs), strict=True):
            score = self._pool_fitness(records)
            if score is not None:
                scores[arch] = score
        best_first = sorted(scores, key=lambda arch: -scores[arch])
        return {arch: scores[arch] for arch in best_first}

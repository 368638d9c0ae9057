"""Random search: every architecture once, in random order. The baseline every other strategy has to beat."""

from collections.abc import Sequence

import numpy as np

from untrained.spaces import Space
from untrained.strategies._strategy import STRATEGIES
from untrained.types import Arch, Record

_PATIENCE = 1000  # draws without anything new before the space counts as exhausted


class RandomSearch:
    """Uniform samples of the space without repetition."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        self._seen: set[Arch] = set()

    def ask(self, n: int) -> list[Arch]:
        found: list[Arch] = []
        stale = 0
        while len(found) < n and stale < _PATIENCE and len(self._seen) != self._space.size:
            arch = self._space.sample(self._rng)
            stale = stale + 1 if arch in self._seen else 0
            if not stale:
                self._seen.add(arch)
                found.append(arch)
        return found

    def tell(self, records: Sequence[Record]) -> None:
        """Random search does not learn."""


STRATEGIES.add("random", RandomSearch)

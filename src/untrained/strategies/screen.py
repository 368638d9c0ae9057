"""The plain hybrid: a pool is judged by any proxy, and the best of it are asked for, whose records come from something
dearer: a short training, or a table's validation accuracy. HNAS without its formula; see `hnas.py`."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from untrained.errors import UsageError
from untrained.strategies._strategy import STRATEGIES, Fitness, Judge, SpaceLike, Unseen
from untrained.types import Arch, Record


class Screen:
    """The best of a pool by any proxy, for a dearer judgement: a short training, or a table."""

    needs: ClassVar[tuple[str, ...]] = ("judge", "by")

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        fitness: Fitness | None = None,
        *,
        judge: Judge,
        by: Fitness,
        pool: int = 600,
        top: int = 20,
    ) -> None:
        """`by` reads the judge's records; the `top` architectures of the pool are asked for, best first."""
        if not 1 <= top <= pool:
            raise UsageError(f"screen takes the top of a pool: top from 1 to {pool}, not {top}")
        self._space, self._rng, self._judge, self._by = space, rng, judge, by
        self._size, self._top = pool, top
        self.usual = top
        self._handed = 0
        self.pool: dict[Arch, float] | None = None  # best first, without what failed

    def ask(self, n: int) -> list[Arch]:
        if self.pool is None:
            new = Unseen(self._space).samples(self._size, self._rng)
            found = {arch: self._by(records) for arch, records in zip(new, self._judge(new), strict=True)}
            known = {arch: value for arch, value in found.items() if value is not None}
            self.pool = dict(sorted(known.items(), key=lambda item: -item[1]))
        best = list(self.pool)[: self._top][self._handed : self._handed + n]
        self._handed += len(best)
        return best

    def tell(self, records: Sequence[Record]) -> None:
        """The records are the judgement; nothing is learned from them."""


STRATEGIES.add("screen", Screen)

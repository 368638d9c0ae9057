"""A sieve before a dear proxy: cheap proxies rank everybody, and only the best share is judged.

Each cheap proxy ranks all candidates; their mean rank decides. Who has no score by one of them is sieved out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from untrained._quantities import share
from untrained.engine.aggregates import shares
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy, split_names
from untrained.runs.ranking import fitnesses
from untrained.strategies.budget import Budget
from untrained.types import Arch, Record


@dataclass(frozen=True)
class Sieve:
    """The cheap proxies and the share of architectures that they let pass."""

    proxies: tuple[Proxy, ...]
    keep: float
    names: tuple[str, ...] = ()  # as they were typed

    @staticmethod
    def parse(names: str, keep: str, budget: Budget) -> "Sieve":
        typed = tuple(split_names(names))
        proxies = tuple(load_proxy(name) for name in typed)
        if not proxies or any(proxy.parts for proxy in proxies):
            raise UsageError(f"--screen {names!r}: name proxies that judge a network alone, such as params,naswot")
        if budget.total is None:
            raise UsageError("--screen ranks a pool of known size; give --budget instead of --time or --stable")
        return Sieve(proxies, share(keep), typed)

    def survivors(self, records: Sequence[Record]) -> list[Arch]:
        """The best share of the architectures in `records`, best first."""
        columns = [fitnesses(records, proxy.measure, proxy.higher_is_better) for proxy in self.proxies]
        pool = list(columns[0])
        scored = [arch for arch in pool if all(column[arch] is not None for column in columns)]
        rank_sums = dict.fromkeys(scored, 0.0)
        for column in columns:
            values = [value for arch in scored if (value := column[arch]) is not None]
            for arch, rank in zip(scored, shares(values, higher_is_better=True), strict=True):
                rank_sums[arch] += rank
        best_first = sorted(scored, key=lambda arch: -rank_sums[arch])
        return best_first[: ceil(round(self.keep * len(pool), 9))]


class Listed:
    """A strategy that asks for what it was given."""

    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, archs: Sequence[Arch]) -> None:
        self._left = list(archs)

    def ask(self, n: int) -> list[Arch]:
        asked, self._left = self._left[:n], self._left[n:]
        return asked

    def tell(self, records: Sequence[Record]) -> None:
        """It has nothing to learn."""

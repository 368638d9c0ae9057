"""When a search has done enough: so many architectures, so much time, or a ranking that no longer changes."""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from untrained._quantities import parse_count, parse_optional_count
from untrained.strategies._strategy import Fitness
from untrained.types import Record

USUAL = 100


@dataclass(frozen=True)
class Budget:
    """`count` architectures, `seconds` of this sitting, or until the best `top` have stayed the same for `stable` new
    architectures, whatever comes first; a hundred architectures where nothing is said."""

    count: int | None = None
    seconds: float | None = None
    stable: int | None = None
    top: int = 10

    def __post_init__(self) -> None:
        parse_optional_count(self.count, "budget")
        parse_optional_count(self.stable, "stable")
        parse_count(self.top, "top")

    @property
    def total(self) -> int | None:
        """How many architectures at most; None where something else decides."""
        return self.count or (None if self.seconds or self.stable else USUAL)


@dataclass
class Tally:
    """Counts what a search has done, and says when that is enough."""

    budget: Budget
    fitness: Fitness
    done: int = 0
    _best: list[float] = field(default_factory=list)  # negated, so that the best comes first
    _unchanged: int = 0  # architectures since the last that was among the best

    def left(self, most: int) -> int:
        """How many architectures may be asked for now, at most so many."""
        total = self.budget.total
        return most if total is None else min(most, total - self.done)

    def ended(self, records: Sequence[Record], seconds: float) -> str:
        """Why the search is over after one more architecture, so long after its start; empty where it is not."""
        self.done += 1
        self._unchanged = 0 if self._enters(self.fitness(records)) else self._unchanged + 1
        if self.done == self.budget.total:
            return "budget"
        if self.budget.stable and self._unchanged >= self.budget.stable:
            return "stable"
        return "time" if self.budget.seconds and seconds > self.budget.seconds else ""

    def _enters(self, value: float | None) -> bool:
        """Whether this architecture is one of the best so far."""
        if value is None or (len(self._best) == self.budget.top and -value >= self._best[-1]):
            return False
        insort(self._best, -value)
        del self._best[self.budget.top :]
        return True

"""When a search stops: after a number of architectures, after a time, or at a stable ranking."""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from untrained.config import DEFAULT_BUDGET
from untrained.quantities import check_count, check_optional_count
from untrained.strategies.base import Fitness
from untrained.types import Record


@dataclass(frozen=True)
class Budget:
    """When to stop. A search stops as soon as one of the conditions holds.

    Attributes:
        count: Number of architectures. Without any condition it is `DEFAULT_BUDGET`.
        seconds: Time that scoring may take in this session. At least one architecture is scored,
            even if the time is 0.
        stable: Stop when the best `top` architectures have not changed for this many new ones.
        top: Number of best architectures that `stable` compares.

    Raises:
        UsageError: A number is not a whole number of at least 1.
    """

    count: int | None = None
    seconds: float | None = None
    stable: int | None = None
    top: int = 10

    def __post_init__(self) -> None:
        check_optional_count(self.count, "budget")
        check_optional_count(self.stable, "stable")
        check_count(self.top, "top")

    @property
    def total(self) -> int | None:
        """The largest number of architectures, or None if only time or stability decides."""
        if self.count is not None:
            return self.count
        if self.seconds is not None or self.stable is not None:
            return None
        return DEFAULT_BUDGET

    def subtract_seconds(self, seconds: float) -> "Budget":
        """Return the budget that remains after this many seconds."""
        if self.seconds is None:
            return self
        return replace(self, seconds=self.seconds - seconds)


@dataclass
class BudgetTracker:
    """Counts scored architectures and tells when the budget is spent.

    Attributes:
        budget: When to stop.
        fitness: Reads the score of an architecture, for `Budget.stable`.
        done: Number of scored architectures.
    """

    budget: Budget
    fitness: Fitness
    done: int = 0
    _best: list[float] = field(default_factory=list)  # negated, so that the best comes first
    _unchanged: int = 0  # architectures since the last one that was among the best

    def choose_ask_size(self, n: int) -> int:
        """Return how many architectures to ask for: n, or what is left of the budget if less."""
        total = self.budget.total
        if total is None:
            return n
        return min(n, total - self.done)

    def add(self, records: Sequence[Record], seconds: float) -> str:
        """Count one more architecture.

        Args:
            records: Its records.
            seconds: Time that scoring has taken in this session.

        Returns:
            Why the search ends now, "budget", "stable" or "time"; empty if it continues.
        """
        self.done += 1
        # A failed architecture counts towards the budget, but is never among the best.
        if self._insert_if_best(self.fitness(records)):
            self._unchanged = 0
        else:
            self._unchanged += 1
        if self.done == self.budget.total:
            return "budget"
        if self.budget.stable is not None and self._unchanged >= self.budget.stable:
            return "stable"
        if self.budget.seconds is not None and seconds > self.budget.seconds:
            return "time"
        return ""

    def _insert_if_best(self, value: float | None) -> bool:
        """Insert a value into the best so far if it is one of them, and return whether it is."""
        if value is None:
            return False
        is_full = len(self._best) == self.budget.top
        if is_full and -value >= self._best[-1]:
            return False
        # `insort` inserts behind equal values, so the earlier of two equals ranks higher.
        insort(self._best, -value)
        del self._best[self.budget.top :]
        return True

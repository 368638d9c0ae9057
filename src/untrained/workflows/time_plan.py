"""Divide the time that a user allows for a command among its phases."""

from dataclasses import dataclass
from time import perf_counter

from untrained.formatting import format_duration

SCORING = "scoring"
CONTEST = "contest"
TRAINING = "training"
# Fractions of the time for the phases. What remains is for everything else: starting workers,
# exporting, writing the report.
SHARES = {SCORING: 0.2, CONTEST: 0.35, TRAINING: 0.4}
OTHER_SHARE = 0.05


@dataclass(frozen=True)
class TimePlan:
    """How long the phases of a search may take. The time runs from the creation of the plan.

    A phase that ends early leaves its time to the phases after it.

    Attributes:
        total: Seconds for all phases; None for no limit.
        phases: Names of the phases, in their order; keys of `SHARES`.
        start: When the time began, by `perf_counter`.
    """

    total: float | None
    phases: tuple[str, ...]
    start: float

    @staticmethod
    def begin(total: float | None, has_contest: bool, has_training: bool) -> "TimePlan":
        """Make a plan whose time begins now.

        Args:
            total: Seconds for all phases; None for no limit.
            has_contest: Whether networks are trained briefly to choose the winner.
            has_training: Whether the winner is trained afterwards.
        """
        phases = [SCORING]
        if has_contest:
            phases.append(CONTEST)
        if has_training:
            phases.append(TRAINING)
        return TimePlan(total, tuple(phases), perf_counter())

    def allot_seconds(self, phase: str) -> float | None:
        """Return how long a phase may take that begins now; None for no limit.

        It is the share of the phase in the time that is left for it and the phases after it.
        """
        if self.total is None:
            return None
        remaining = max(0.0, self.total - (perf_counter() - self.start))
        return remaining * self._compute_share(phase)

    def estimate_training_seconds(self) -> float | None:
        """Return how long the winner will be trained if no phase ends early; None for no limit.

        Without a training in the plan, it is assumed that one as long as the share of a training
        follows.
        """
        if self.total is None:
            return None
        return SHARES[TRAINING] * self.total

    def describe(self) -> str:
        """Return how the time is divided, such as "at most 15 min: about 3 min scoring, ...".

        The text is empty if there is no limit, or a single phase.
        """
        if self.total is None or len(self.phases) == 1:
            return ""
        remaining = self.total
        parts = []
        for phase in self.phases:
            seconds = remaining * self._compute_share(phase)
            parts.append(f"{format_duration(seconds)} {phase}")
            remaining -= seconds
        return f"at most {format_duration(self.total)}: about {', '.join(parts)}"

    def _compute_share(self, phase: str) -> float:
        """Return the fraction of the remaining time that a phase gets."""
        later_phases = self.phases[self.phases.index(phase) :]
        shares = [SHARES[later_phase] for later_phase in later_phases]
        all_shares = sum(shares)
        if len(self.phases) > 1:
            all_shares += OTHER_SHARE
        return shares[0] / all_shares

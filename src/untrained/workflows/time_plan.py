"""Divide the time that a user allows for a command among its phases."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from untrained.formatting import format_duration

SCORING = "scoring"
CONTEST_PHASE = "contest"
TRAINING = "training"
# Relative weights by which the time is divided among the phases. The winner gains most from its own
# training, and a few hundred scored networks are enough (docs/results/one-command.md).
SHARES = {SCORING: 0.1, CONTEST_PHASE: 0.25, TRAINING: 0.6}
# Seconds that are reserved for the work after the last phase: testing, the report, the export. They
# were measured on two cores, and do not depend on the length of the phases. The two shares of the
# total time are a lower and an upper bound.
FINAL_SECONDS = 9.0
MIN_FINAL_SHARE = 0.01
MAX_FINAL_SHARE = 0.3
# If less than this fraction of the time will be needed, the plan also says how much is needed.
EARLY_END_SHARE = 0.8


@dataclass(frozen=True)
class TimePlan:
    """How long the phases of a search may take. The time runs from `start`.

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
    def begin(
        total: float | None, has_contest: bool, has_training: bool, start: float | None = None
    ) -> "TimePlan":
        """Make a plan.

        Args:
            total: Seconds for all phases; None for no limit.
            has_contest: Whether networks are trained briefly to choose the winner.
            has_training: Whether the winner is trained afterwards.
            start: When the time began, by `perf_counter`; None for now.
        """
        if start is None:
            start = perf_counter()
        phases = [SCORING]
        if has_contest:
            phases.append(CONTEST_PHASE)
        if has_training:
            phases.append(TRAINING)
        return TimePlan(total, tuple(phases), start)

    def allot_seconds(self, phase: str) -> float | None:
        """Return how long a phase that begins now may take; None for no limit.

        It is a fraction of the remaining time; the rest is for the phases after it.
        """
        remaining = self.get_remaining_seconds()
        if remaining is None:
            return None
        return remaining * self._compute_share(phase)

    def get_remaining_seconds(self) -> float | None:
        """Return how much time is left for all phases from now on; None for no limit."""
        if self.total is None:
            return None
        elapsed = perf_counter() - self.start
        return max(0.0, self.total - self._get_final_seconds() - elapsed)

    def estimate_training_seconds(self) -> float | None:
        """Return how long the winner will be trained if no phase ends early; None for no limit.

        If the plan has no training, the result is as if it had one with the usual share.
        """
        if self.total is None:
            return None
        return (self.total - self._get_final_seconds()) * SHARES[TRAINING] / sum(SHARES.values())

    def describe(self, durations: Mapping[str, float] | None = None) -> str:
        """Return how the time is divided, such as "at most 15 min: about 3 min scoring, ...".

        The text is empty if there is no limit, or a single phase. If the phases need less than the
        limit, the text begins with "about 4 min (at most 15 min): ".

        Args:
            durations: How long phases take if the time suffices, in seconds, as far as it is known.
        """
        if self.total is None or len(self.phases) == 1:
            return ""
        remaining = self.total - self._get_final_seconds()
        parts = []
        expected = self._get_final_seconds()
        for phase in self.phases:
            seconds = remaining * self._compute_share(phase)
            if durations is not None and phase in durations:
                seconds = min(seconds, durations[phase])
            parts.append(f"{format_duration(seconds)} {phase}")
            remaining -= seconds
            expected += seconds
        limit = f"at most {format_duration(self.total)}"
        if expected < EARLY_END_SHARE * self.total:
            limit = f"about {format_duration(expected)} ({limit})"
        return f"{limit}: about {', '.join(parts)}"

    def _get_final_seconds(self) -> float:
        """Return how much time is kept for the work after the last phase.

        A single phase gets all the time.
        """
        if self.total is None or len(self.phases) == 1:
            return 0.0
        seconds = FINAL_SECONDS
        if TRAINING not in self.phases:
            # Only the report follows.
            seconds = 0.0
        lowest = MIN_FINAL_SHARE * self.total
        highest = MAX_FINAL_SHARE * self.total
        return min(max(seconds, lowest), highest)

    def _compute_share(self, phase: str) -> float:
        """Return the fraction of the remaining time that a phase gets.

        The rest is for the phases after it.
        """
        later_phases = self.phases[self.phases.index(phase) :]
        shares = [SHARES[later_phase] for later_phase in later_phases]
        return shares[0] / sum(shares)

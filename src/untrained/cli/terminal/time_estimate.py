"""Estimate how long a stage takes, from the first architectures that were measured."""

from dataclasses import dataclass

from untrained.formatting import format_count, format_duration
from untrained.progress import Progress

ARCHS_PER_WORKER = 4  # measured architectures that an estimate needs
BATCHES_PER_WORKER = 2  # the same, if workers measure several networks in one pass


@dataclass
class _StageTiming:
    """The timing of one stage.

    Attributes:
        batch_size: Largest number of networks that were measured together so far.
        start_count: Number of measured architectures when the timing started.
        start_time: Time at which the timing started.
        is_announced: Whether the estimate was already returned.
    """

    batch_size: int
    start_count: int
    start_time: float
    is_announced: bool = False


class TimeEstimate:
    """Gives one estimate per stage, as soon as a few architectures per worker are timed.

    The time before the first result is not counted, because it includes the start of the workers.
    Workers that measure networks in batches measure the first ones one by one; these are not
    counted either.

    Args:
        time_budget: Seconds that the search may take, if it has no fixed number of architectures.
    """

    def __init__(self, time_budget: float | None = None) -> None:
        self._time_budget = time_budget
        self._stages: dict[str, _StageTiming] = {}

    def update(self, progress: Progress, now: float) -> str:
        """Process an event.

        Args:
            progress: The event.
            now: The time in seconds, on any clock.

        Returns:
            The estimate as text; empty if it is too early or was returned before.
        """
        if progress.measured == 0:
            return ""
        timing = self._update_timing(progress, now)
        if timing.is_announced:
            return ""
        timed_archs = progress.measured - timing.start_count
        archs_per_worker = ARCHS_PER_WORKER
        if timing.batch_size > 1:
            archs_per_worker = max(archs_per_worker, BATCHES_PER_WORKER * timing.batch_size)
        if timed_archs < archs_per_worker * progress.workers or now <= timing.start_time:
            return ""
        timing.is_announced = True
        return self._format_estimate(progress, rate=timed_archs / (now - timing.start_time))

    def _update_timing(self, progress: Progress, now: float) -> _StageTiming:
        """Return the timing of this stage, which starts again at the first batch of networks."""
        batch_size = max((record.networks_in_batch for record in progress.records), default=1)
        timing = self._stages.get(progress.stage)
        if timing is None:
            timing = _StageTiming(batch_size, progress.measured, now)
            self._stages[progress.stage] = timing
        elif timing.batch_size == 1 and batch_size > 1:
            timing.start_count = progress.measured
            timing.start_time = now
        timing.batch_size = max(timing.batch_size, batch_size)
        return timing

    def _format_estimate(self, progress: Progress, rate: float) -> str:
        """Return the estimate for a number of architectures per second."""
        workers = format_count(progress.workers, "worker")
        if progress.total is not None:
            # Architectures that are in the store take no time.
            stored = progress.done - progress.measured
            remaining = progress.total - stored
            duration = format_duration(remaining / rate)
            archs = format_count(remaining, "architecture")
            if stored:
                archs = f"the remaining {archs}"
            return f"about {duration} for {archs} on {workers}"
        if self._time_budget:
            count = f"{rate * self._time_budget:,.0f} architectures"
            return f"about {count} in {format_duration(self._time_budget)} on {workers}"
        return f"about {rate:.3g} architectures per second on {workers}"

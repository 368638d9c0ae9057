"""Choose which entries of a contest take part, if its time is limited.

An entry is left out if its network is too slow to be trained long enough after the contest. If the
entry was selected by score, the next network of the ranking that is fast enough replaces it. If
time is short, only the first entries take part, as many as can be trained for enough steps in the
first round: a few longer trainings say more than many that have hardly begun.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from untrained.data.parts import TRAIN, VAL, PartInMemory
from untrained.engine.failures import catch_failure
from untrained.reports.contest_result import BEST_PREFIX, NO_TIME, TOO_SLOW, ContestEntry
from untrained.types import Arch, Failure
from untrained.workflows.contest_rounds import estimate_first_round, plan_rounds
from untrained.workflows.contest_state import ContestState
from untrained.workflows.contest_training import (
    ContestSettings,
    make_training_setup,
    measure_step_seconds,
)

# At least this many entries take part, even if the first round is too short for them.
MIN_ENTRIES = 4
# At most this many networks are timed to find a substitute for one entry.
MAX_TIMED_FACTOR = 4
# Timing entries, and then their substitutes, takes at most this fraction of the time of the
# contest. `MIN_ENTRIES` are timed in any case.
MAX_TIMING_SHARE = 0.1
# An entry is too slow if it could be trained for fewer epochs after the contest.
MIN_FINAL_EPOCHS = 40


@dataclass(frozen=True)
class Substitutes:
    """Networks that replace entries that were selected by score and are too slow.

    Attributes:
        candidates: The networks that follow those entries in the ranking, best first. Their
            `number` is ignored; a candidate that takes part gets a new one. Some of them may
            already be entries for another reason, for example because they are large.
        add_latency: Returns a network with its latency, if latency is limited; None if it exceeds
            the limit.
    """

    candidates: Sequence[ContestEntry]
    add_latency: Callable[[ContestEntry], ContestEntry | None]


@dataclass(frozen=True)
class StepTimer:
    """Measures how long a training step of an entry takes.

    Attributes:
        archs: The architectures of entries and substitutes, by text.
        settings: How they are trained.
        part: The training samples.
    """

    archs: Mapping[str, Arch]
    settings: ContestSettings
    part: PartInMemory

    def measure(self, arch: str) -> float | Failure:
        """Return the seconds of a step of a network, or why it cannot be trained."""
        setup = make_training_setup(self.archs[arch], self.settings)
        return catch_failure(measure_step_seconds, setup, self.settings, self.part)

    def time_entry(self, state: ContestState, number: int) -> None:
        """Measure the time per step of an entry. An entry that cannot be trained gets an error."""
        seconds = self.measure(state.entries[number].arch)
        if isinstance(seconds, Failure):
            state.set_error(number, str(seconds))
            state.save()
        else:
            state.step_seconds[number] = seconds


def choose_entrants(
    state: ContestState,
    settings: ContestSettings,
    parts: Mapping[str, PartInMemory],
    timer: StepTimer,
    substitutes: Substitutes | None,
) -> None:
    """Choose which entries are trained, if the time is limited.

    A resumed contest keeps the entries that were chosen before. An interrupted choice
    starts over.

    Args:
        state: The contest. Entries that are not chosen get an error in it.
        settings: What the entries have in common.
        parts: The samples to train on and to compare on.
        timer: Measures training steps.
        substitutes: Networks that replace entries that were selected by score and are too slow;
            None for none.
    """
    if settings.seconds is None or state.has_chosen_entrants or state.has_results:
        return
    _discard_unfinished_choice(state)
    samples = len(parts[TRAIN]) + len(parts[VAL])
    _EntrantSelection(state, settings, settings.seconds, samples, timer).run(substitutes)
    state.has_chosen_entrants = True
    state.save()


def _discard_unfinished_choice(state: ContestState) -> None:
    """Let the entries that an interrupted session left out take part again.

    How long their steps take was not saved, so they cannot be compared with the other entries.
    """
    for number in state.first_numbers:
        if state.entries[number].is_left_out:
            state.set_error(number, "")
    state.passed_over = 0
    state.replacements = 0


@dataclass(frozen=True)
class _EntrantSelection:
    """The choice of the entries that are trained.

    Attributes:
        state: The contest.
        settings: What the entries have in common.
        contest_seconds: Longest duration of the contest.
        samples: Number of samples that the winner is trained on afterwards.
        timer: Measures training steps.
    """

    state: ContestState
    settings: ContestSettings
    contest_seconds: float
    samples: int
    timer: StepTimer

    def run(self, substitutes: Substitutes | None) -> None:
        """Set the error of every entry that does not take part, and add substitutes."""
        entrants = self._select_entries()
        if substitutes is not None:
            entrants += self._add_substitutes(substitutes, entrants)
        self._readmit_fastest(MIN_ENTRIES - len(entrants))
        # The step times of entries that take part are used for planning, those of others are not.
        for number in self.state.first_numbers:
            if self.state.entries[number].error:
                self.state.step_seconds.pop(number, None)

    def _select_entries(self) -> list[int]:
        """Time the entries in turn, and return the numbers of those that take part."""
        state = self.state
        max_seconds = MAX_TIMING_SHARE * self.contest_seconds
        is_full = False
        entrants: list[int] = []
        for number in state.first_numbers:
            if state.entries[number].error:
                continue
            if state.elapsed_seconds > max_seconds and len(entrants) >= MIN_ENTRIES:
                is_full = True
            if is_full:
                state.set_error(number, NO_TIME)
                continue
            self.timer.time_entry(state, number)
            if state.entries[number].error:
                continue
            if self._is_too_slow(state.step_seconds[number]):
                state.set_error(number, TOO_SLOW)
            elif self._has_time_for([*entrants, number]):
                entrants.append(number)
            else:
                state.set_error(number, NO_TIME)
                is_full = True
        return entrants

    def _is_too_slow(self, step_seconds: float) -> bool:
        """Return whether a network could not be trained long enough after the contest."""
        if self.settings.final_seconds is None:
            return False
        steps_per_epoch = max(1, self.samples // self.settings.recipe.batch)
        epoch_seconds = self.settings.relative_cost * step_seconds * steps_per_epoch
        return MIN_FINAL_EPOCHS * epoch_seconds > self.settings.final_seconds

    def _has_time_for(self, numbers: Sequence[int]) -> bool:
        """Return whether the first round is long enough for these entries.

        It also trains the best of them with other learning rates.
        """
        if len(numbers) <= MIN_ENTRIES:
            return True
        needed = estimate_first_round([self.state.step_seconds[number] for number in numbers])
        rounds = len(plan_rounds(len(numbers)))
        return needed <= self.contest_seconds / rounds

    def _readmit_fastest(self, count: int) -> None:
        """Readmit the fastest of the entries that are too slow, so that enough entries take part.

        Args:
            count: How many entries to readmit; none if it is not positive.
        """
        slow = []
        for number in self.state.first_numbers:
            if self.state.entries[number].error == TOO_SLOW:
                slow.append(number)
        slow.sort(key=lambda number: self.state.step_seconds[number])
        for number in slow[: max(0, count)]:
            self.state.set_error(number, "")

    def _count_slow_entries_by_score(self) -> int:
        """Return the number of entries that were selected by score and are too slow."""
        count = 0
        for number in self.state.first_numbers:
            entry = self.state.entries[number]
            is_by_score = any(selection.startswith(BEST_PREFIX) for selection in entry.selections)
            if is_by_score and entry.error == TOO_SLOW:
                count += 1
        return count

    def _add_substitutes(self, substitutes: Substitutes, entrants: Sequence[int]) -> list[int]:
        """Replace slow entries that were selected by score with the next networks of the ranking.

        Args:
            substitutes: The next networks.
            entrants: Numbers of the entries that take part so far.

        Returns:
            Numbers of the new entries.
        """
        state = self.state
        missing = self._count_slow_entries_by_score()
        state.passed_over += missing
        numbers = {state.entries[number].arch: number for number in state.first_numbers}
        added: list[int] = []
        timed_count = 0
        start = state.elapsed_seconds
        for candidate in substitutes.candidates:
            if state.replacements == missing:
                break
            if candidate.arch in numbers:
                # The network is already an entry for another reason.
                if self._add_selections(numbers[candidate.arch], candidate.selections):
                    state.replacements += 1
                continue
            timing_seconds = state.elapsed_seconds - start
            is_timing_too_long = timing_seconds > MAX_TIMING_SHARE * self.contest_seconds
            if timed_count == MAX_TIMED_FACTOR * missing or is_timing_too_long:
                break
            timed_count += 1
            new_number = self._add_if_fast(candidate, substitutes, [*entrants, *added])
            if new_number is not None:
                added.append(new_number)
                state.replacements += 1
        return added

    def _add_selections(self, number: int, selections: Sequence[str]) -> bool:
        """Note that an entry was also selected by score, and return whether it takes part."""
        entry = self.state.entries[number]
        if entry.error == TOO_SLOW:
            self.state.passed_over += 1
        if entry.error:
            return False
        self.state.entries[number] = replace(entry, selections=(*entry.selections, *selections))
        return True

    def _add_if_fast(
        self, candidate: ContestEntry, substitutes: Substitutes, entrants: Sequence[int]
    ) -> int | None:
        """Add a substitute if it is fast enough, satisfies the limits, and there is time for it.

        Returns:
            Its number; None if it does not take part.
        """
        state = self.state
        seconds = self.timer.measure(candidate.arch)
        if isinstance(seconds, Failure):
            return None
        if self._is_too_slow(seconds):
            state.passed_over += 1
            return None
        number = max(state.first_numbers) + 1
        state.step_seconds[number] = seconds
        entry = None
        if self._has_time_for([*entrants, number]):
            entry = substitutes.add_latency(replace(candidate, number=number))
        if entry is None:
            del state.step_seconds[number]
            return None
        state.entries[number] = entry
        state.first_numbers.append(number)
        return number

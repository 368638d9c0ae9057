"""A contest between networks: many are trained briefly, the best longer (successive halving).

The entries are the best architectures of a search by its proxy, the largest ones, random ones and
the known designs of the space. Each round trains every remaining entry for the same time, and keeps
about a third of them. An entry continues with the weights of the round before: every round is one
cycle of the learning rate, from its highest value to zero, so that networks are compared after a
complete schedule (SGDR: Loshchilov and Hutter, ICLR 2017). Only a training that takes far longer
than expected is stopped within its cycle (`MAX_OVERRUN`). After the first round, the best entry
enters again with a lower and a higher learning rate.

Entries are compared on validation samples that no entry was trained on. The winner is afterwards
trained on all of them, so that a large validation part costs nothing. Among entries within one
standard error of the best, the one with the lowest latency wins if latency is limited, otherwise
the smallest.

With a limit on the time, entries that could not be trained long enough afterwards are left out.
A slow entry that was selected by score is replaced by the next fast architecture of the ranking. If
time is short, only the first entries take part, as many as can be trained for 100 steps each in the
first round: a few longer trainings say more than many that have hardly begun. A training that turns
out to be slower than expected is shortened; if the time is over, the best entry so far wins.

The state is saved after every training, so that the same command resumes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, inf, sqrt
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from untrained.config import ComputeConfig
from untrained.data import DataSource
from untrained.data.parts import (
    TRAIN,
    VAL,
    ImagePart,
    Part,
    fingerprint_samples,
    join_parts,
    split_by_class,
)
from untrained.engine.failures import catch_failure
from untrained.errors import Interrupted, Unscorable, UsageError
from untrained.files import read_result_file, write_atomically
from untrained.identity import read_torch_version
from untrained.probe.guard import fastest_kernels, random_state
from untrained.progress import Progress, ProgressCallback
from untrained.reports.contest_result import (
    BEST_PREFIX,
    NO_TIME,
    TOO_SLOW,
    Contest,
    ContestEntry,
    RoundResult,
    read_entry,
)
from untrained.seeds import derive_seed, make_torch_generator
from untrained.spaces import Space
from untrained.training.checkpoint import load_tensors, load_weights, save_tensors
from untrained.training.cuda_graph import WARM_UP_STEPS
from untrained.training.distributed import make_training_process
from untrained.training.evaluation import DivergedError, Predictions, evaluate_network
from untrained.training.loop import Training
from untrained.training.memory import release_freed_memory
from untrained.training.recipes import Recipe
from untrained.types import Arch, Failure
from untrained.workflows.subject import load_subject
from untrained.workflows.train_subject import TrainingSubject

FOLDER = "contest"
STATE = "state.json"
STAGE = "contest"
# About this fraction of the entries is trained in the next round.
KEEP = 1 / 3
# Number of entries in the last round.
FINALISTS = 2
# Largest number of epochs of an entry in each round, even if time is left. With few samples an
# epoch has few steps; more epochs are then allowed, up to `ENOUGH_STEPS` steps.
MAX_EPOCHS = (4, 12, 36)
ENOUGH_STEPS = (100, 300, 900)
# Each round uses so few training samples that the median entry has time for this many epochs, but
# at least `MIN_SAMPLES`.
MIN_EPOCHS = 3
# As many entries take part as can be trained for `ENOUGH_STEPS` in the first round, at least this
# many.
MIN_ENTRIES = 4
# At most this many times the intended number of entries by score are timed to find fast ones.
MAX_TIMED_FACTOR = 4
# Timing entries, and then their substitutes, takes at most this fraction of the time of the
# contest. `MIN_ENTRIES` are timed in any case.
MAX_TIMING_SHARE = 0.1
# An entry is too slow if it could be trained for fewer epochs after the contest.
MIN_FINAL_EPOCHS = 40
MIN_SAMPLES = 500
# Fraction of the samples that entries are compared on, and the largest number of them.
VAL_SHARE = 0.25
MAX_VAL_SAMPLES = 5000
# The best entry of the first round is trained again with its learning rate times these factors.
RATE_FACTORS = (1 / 3, 3.0)
# Steps that are timed to estimate how long an epoch takes; the first one is slower. Steps that a
# GPU replays are faster than the first ones, which are not replayed.
TIMED_STEPS = 4
TIMED_REPLAYED_STEPS = WARM_UP_STEPS + 4
# A training is shortened to its share of the time, but has at least one epoch. If this takes more
# than this many times its share, it is stopped.
MAX_OVERRUN = 2.0


@dataclass(frozen=True)
class ContestSettings:
    """What the entries of a contest have in common.

    Attributes:
        space: The space of the architectures, or its name.
        data: Name of the data.
        source: The data.
        recipe: How to train. The contest sets the number of epochs.
        seconds: Longest duration of the contest; None for no limit.
        seed: Seed of weights, order and augmentation.
        compute: The device.
        folder: The run folder.
        search_key: Identity of the ranking that the entries come from.
        final_seconds: Duration of the training of the winner afterwards; None for no limit.
    """

    space: str | Space
    data: str
    source: DataSource
    recipe: Recipe
    seconds: float | None
    seed: int
    compute: ComputeConfig
    folder: Path
    search_key: str
    final_seconds: float | None = None

    def fingerprint(self, parts: Mapping[str, Part]) -> str:
        """Return a text that changes when the results of an earlier contest are of no use here."""
        facts = (
            self.search_key,
            fingerprint_samples(parts),
            self.recipe.label,
            self.seed,
            self.compute.device,
            read_torch_version(),
        )
        return f"{derive_seed('contest', *facts):x}"


@dataclass(frozen=True)
class Substitutes:
    """Networks that take part if entries by score are too slow to train.

    Attributes:
        candidates: The networks after the entries in the ranking, best first. Their `number` is
            ignored and assigned on entry. Networks that are entries for another reason may be among
            them.
        add_latency: Returns a network with its latency, if latency is limited; None if it exceeds
            the limit.
    """

    candidates: Sequence[ContestEntry]
    add_latency: Callable[[ContestEntry], ContestEntry | None]


def run_contest(
    entries: Sequence[ContestEntry],
    archs: Mapping[str, Arch],
    settings: ContestSettings,
    on_progress: ProgressCallback | None = None,
    substitutes: Substitutes | None = None,
) -> Contest | None:
    """Train the entries in rounds and save which one wins.

    Ctrl-C ends the contest. The best entry so far is then the winner, and the same call resumes.

    Args:
        entries: The entries, numbered from 1, none of which has finished a round.
        archs: The architectures of entries and substitutes, by text.
        settings: What they have in common.
        on_progress: Called after every step of a training.
        substitutes: Networks that replace entries by score that are too slow; None for none.

    Returns:
        The contest, or None if no training finished.

    Raises:
        Interrupted: Ctrl-C was pressed before the first training was finished.
    """
    parts = split_for_contest(settings.source, settings.seed)
    contest = RunningContest(entries, archs, settings, parts, on_progress, substitutes)
    try:
        ended = contest.run()
    except KeyboardInterrupt:
        ended = "interrupted"
    concluded = contest.conclude(ended)
    if concluded is None and ended == "interrupted":
        raise Interrupted(
            "stopped by Ctrl-C before the first training of the contest was finished; the same "
            "command resumes"
        )
    return concluded


def plan_rounds(entries: int) -> list[int]:
    """Return the number of entries of each round.

    Example:
        >>> plan_rounds(14)
        [14, 5, 2]
    """
    counts = [entries]
    while counts[-1] > FINALISTS and len(counts) < len(MAX_EPOCHS):
        counts.append(max(FINALISTS, ceil(KEEP * counts[-1])))
    return counts


def split_for_contest(source: DataSource, seed: int) -> dict[str, ImagePart]:
    """Split the training and validation samples again, with more samples for the comparison.

    Every class has the same share of the samples for the comparison.

    Args:
        source: The data. The test part is not used.
        seed: Seed of the split.
    """
    parts = source.parts
    samples = join_parts(parts[TRAIN], parts[VAL])
    assert isinstance(samples, ImagePart)
    val_share = min(VAL_SHARE, MAX_VAL_SAMPLES / len(samples))
    shares = {TRAIN: 1 - val_share, VAL: val_share}
    rows = split_by_class(samples.labels, shares, source.task, seed)
    # A round may train on the first samples only, so these must be of all classes.
    generator = make_torch_generator("contest order", seed)
    order = torch.randperm(len(rows[TRAIN]), generator=generator)
    return {
        TRAIN: select_samples(samples, rows[TRAIN][order]),
        VAL: select_samples(samples, rows[VAL]),
    }


def estimate_longest_contest(entries: int, samples: int, step_seconds: float, batch: int) -> float:
    """Return how long a contest takes if every training has as many epochs as are useful.

    Args:
        entries: Number of entries.
        samples: Number of samples, including those that entries are compared on.
        step_seconds: How long a training step takes.
        batch: Batch size.
    """
    train_samples = round((1 - VAL_SHARE) * samples)
    steps_per_epoch = max(1, train_samples // batch)
    seconds = 0.0
    for round_index, count in enumerate(plan_rounds(entries)):
        if round_index == 0:
            count += len(RATE_FACTORS)
        epochs = choose_max_round_epochs(round_index, steps_per_epoch)
        seconds += count * epochs * steps_per_epoch * step_seconds
    return seconds


def choose_max_round_epochs(round_index: int, steps_per_epoch: int) -> int:
    """Return the longest useful training of an entry in a round, in epochs."""
    enough_epochs = ceil(ENOUGH_STEPS[round_index] / steps_per_epoch)
    return max(MAX_EPOCHS[round_index], enough_epochs)


def select_samples(part: ImagePart, rows: Tensor) -> ImagePart:
    """Return some samples of a part."""
    return replace(part, images=part.images[rows], labels=part.labels[rows])


def get_weights_path(folder: Path, number: int) -> Path:
    """Return the file of the weights of an entry, in a run folder."""
    return folder / FOLDER / f"{number}.pt"


def measure_step_seconds(
    subject: TrainingSubject, settings: ContestSettings, part: ImagePart
) -> float:
    """Return how long a training step of a network takes.

    Args:
        subject: The network.
        settings: How it is trained.
        part: Training samples, of which a few batches are used.
    """
    process = make_training_process(settings.compute.device)
    network = subject.build_network(process.device, settings.seed)
    steps = TIMED_STEPS
    if settings.recipe.graphs and torch.device(process.device).type == "cuda":
        steps = TIMED_REPLAYED_STEPS
    count = min(len(part), steps * settings.recipe.batch)
    parts = {TRAIN: select_samples(part, torch.arange(count)), VAL: part}
    training = Training(
        network, settings.source, settings.recipe, parts, process, settings.seed, select=False
    )
    durations = []
    last = perf_counter()
    with random_state(training.seed), fastest_kernels(training.device):
        training.model.train()
        for batch in training.train_loader.iterate_training_batches(0):
            training.train_step(batch)
            # Reading the loss waits until a GPU has finished the step.
            float(training.epoch_loss)
            now = perf_counter()
            durations.append(now - last)
            last = now
    # The first step is slower, because kernels are prepared in it.
    return min(durations)


def load_training_subject(arch: Arch, settings: ContestSettings) -> TrainingSubject:
    subject = load_subject(arch, settings.space, settings.compute.device)
    return TrainingSubject(str(arch), arch.space, subject, settings.data, settings.source, None)


def read_contest_entries(folder: Path) -> list[ContestEntry]:
    """Read the entries of a contest in progress; an empty list if they cannot be read.

    Args:
        folder: The run folder.
    """
    try:
        with read_result_file(folder / FOLDER / STATE) as state:
            return [read_entry(row) for row in state["entries"]]
    except UsageError:
        return []


class RunningContest:
    """A contest in progress. Every change of its state is saved.

    Args:
        entries: The entries at the beginning.
        archs: The architectures of entries and substitutes, by text.
        settings: What they have in common.
        parts: The samples to train on and to compare on.
        on_progress: Called after every step of a training.
        substitutes: Networks that replace entries by score that are too slow; None for none.
    """

    def __init__(
        self,
        entries: Sequence[ContestEntry],
        archs: Mapping[str, Arch],
        settings: ContestSettings,
        parts: Mapping[str, ImagePart],
        on_progress: ProgressCallback | None,
        substitutes: Substitutes | None = None,
    ) -> None:
        self._settings = settings
        self._substitutes = substitutes
        self._archs = archs
        self._parts = parts
        self._on_progress = on_progress
        self._folder = settings.folder / FOLDER
        self._fingerprint = settings.fingerprint(parts)
        self._start = perf_counter()
        # How long each training of a round may take, by the number of the round.
        self._round_seconds: dict[int, float] = {}
        # Whether the time was over before the last round.
        self._is_late = False
        # True once the entries are selected.
        self._has_chosen_entrants = False
        # Number of slow architectures with high scores that were skipped.
        self._passed_over = 0
        # Number of architectures that replaced them.
        self._replacements = 0
        # A contest that was begun before keeps its entries.
        self._entries = self._read_state()
        if not self._entries:
            self._entries = {entry.number: entry for entry in entries}
        self._first_numbers = []
        for entry in self._entries.values():
            if not entry.is_copy:
                self._first_numbers.append(entry.number)
        self._counts = plan_rounds(len(self._first_numbers))
        # Seconds per step of each entry, as last measured.
        self._step_seconds: dict[int, float] = {}

    def run(self) -> str:
        """Run all rounds, except what an earlier call has finished.

        Returns:
            "finished", or "time" if the time was over before the last round.
        """
        # The page of the run shows the entries from the file.
        self._save_state()
        self._choose_entrants()
        numbers = []
        for number in self._first_numbers:
            if self._entries[number].error not in (TOO_SLOW, NO_TIME):
                numbers.append(number)
        self._counts = plan_rounds(len(numbers))
        for round_index in range(len(self._counts)):
            if self._is_late:
                break
            if round_index > 0:
                numbers = self._select_for_round(numbers, round_index)
            self._run_round(round_index, numbers)
            ranked = self._rank(numbers)
            if not ranked:
                break
            if round_index == 0 and not self._is_late:
                copies = self._enter_other_rates(ranked[0])
                self._run_round(round_index, copies)
                numbers = numbers + copies
        if not self._is_late:
            return "finished"
        for number, entry in self._entries.items():
            if not entry.rounds and not entry.error:
                self._leave_out(number, NO_TIME)
        self._save_state()
        return "time"

    def conclude(self, ended: str) -> Contest | None:
        """Choose the winner, save the contest and delete the weights of the other entries.

        Args:
            ended: "finished", "time" or "interrupted".

        Returns:
            The contest, or None if no training finished.
        """
        finished = self._rank(list(self._entries))
        if not finished:
            return None
        tied = self._find_ties(finished)
        winner = min(tied, key=self._get_size)
        others = [number for number in self._entries if number not in finished]
        entries = tuple(self._entries[number] for number in finished + others)
        settings = self._settings
        contest = Contest(
            winner=self._entries[winner].arch,
            winner_number=winner,
            entries=entries,
            tied=tuple(tied),
            rounds=len(self._counts),
            train_samples=len(self._parts[TRAIN]),
            val_samples=len(self._parts[VAL]),
            recipe=settings.recipe.label,
            data=settings.data,
            seconds=sum(entry.seconds for entry in entries),
            ended=ended,
            search_key=settings.search_key,
            passed_over=self._passed_over,
            replacements=self._replacements,
        )
        contest.save(settings.folder)
        if ended != "interrupted":
            for number in self._entries:
                if number != winner:
                    get_weights_path(self._settings.folder, number).unlink(missing_ok=True)
        return contest

    def _choose_entrants(self) -> None:
        """Choose which entries are trained, if the time is limited.

        Those that are too slow are left out. Of the others, the first ones take part, as many as
        the time suffices for. A resumed contest keeps the entries that were chosen before.
        """
        is_begun = any(entry.rounds for entry in self._entries.values())
        if self._settings.seconds is None or self._has_chosen_entrants or is_begun:
            return
        is_full = False
        entrants: list[int] = []
        max_seconds = MAX_TIMING_SHARE * self._settings.seconds
        for number in self._first_numbers:
            if self._entries[number].error:
                continue
            if perf_counter() - self._start > max_seconds and len(entrants) >= MIN_ENTRIES:
                is_full = True
            if is_full:
                self._leave_out(number, NO_TIME)
                continue
            self._time_steps(number)
            if self._entries[number].error:
                continue
            if self._is_too_slow(self._step_seconds[number]):
                self._leave_out(number, TOO_SLOW)
            elif self._has_time_for([*entrants, number]):
                entrants.append(number)
            else:
                self._leave_out(number, NO_TIME)
                is_full = True
        if self._substitutes is not None:
            entrants += self._enter_substitutes(self._substitutes, entrants)
        self._enter_fastest(MIN_ENTRIES - len(entrants))
        for number in self._first_numbers:
            if self._entries[number].error:
                self._step_seconds.pop(number, None)
        self._has_chosen_entrants = True
        self._save_state()

    def _leave_out(self, number: int, reason: str) -> None:
        self._entries[number] = replace(self._entries[number], error=reason)

    def _is_too_slow(self, step_seconds: float) -> bool:
        """Whether a network could not be trained long enough after the contest."""
        if self._settings.final_seconds is None:
            return False
        samples = len(self._parts[TRAIN]) + len(self._parts[VAL])
        steps_per_epoch = max(1, samples // self._settings.recipe.batch)
        return step_seconds * steps_per_epoch * MIN_FINAL_EPOCHS > self._settings.final_seconds

    def _has_time_for(self, numbers: Sequence[int]) -> bool:
        """Whether the first round is long enough for some entries and for other learning rates."""
        assert self._settings.seconds is not None
        if len(numbers) <= MIN_ENTRIES:
            return True
        needed = sum(ENOUGH_STEPS[0] * self._step_seconds[number] for number in numbers)
        # The trainings with other learning rates take about as long as the average one.
        needed += len(RATE_FACTORS) * needed / len(numbers)
        return needed <= self._settings.seconds / len(plan_rounds(len(numbers)))

    def _enter_fastest(self, count: int) -> None:
        """Let the fastest of the entries that are too slow take part, so that there is a contest.

        Args:
            count: How many; nothing happens if it is not positive.
        """
        slow = []
        for number in self._first_numbers:
            if self._entries[number].error == TOO_SLOW:
                slow.append(number)
        slow.sort(key=lambda number: self._step_seconds[number])
        for number in slow[: max(0, count)]:
            self._leave_out(number, "")

    def _enter_substitutes(self, substitutes: Substitutes, entrants: Sequence[int]) -> list[int]:
        """Enter the next networks by score that are fast enough, for entries that are too slow.

        Args:
            substitutes: The next networks.
            entrants: Numbers of the entries that take part.

        Returns:
            Numbers of the networks that take part now.
        """
        assert self._settings.seconds is not None
        missing = 0
        for number in self._first_numbers:
            entry = self._entries[number]
            is_by_score = any(selection.startswith(BEST_PREFIX) for selection in entry.selections)
            if is_by_score and entry.error == TOO_SLOW:
                missing += 1
        self._passed_over += missing
        max_timed = MAX_TIMED_FACTOR * missing
        numbers = {self._entries[number].arch: number for number in self._first_numbers}
        added: list[int] = []
        timed = 0
        start = perf_counter()
        for candidate in substitutes.candidates:
            if self._replacements == missing:
                break
            if candidate.arch in numbers:
                if self._add_selections(numbers[candidate.arch], candidate.selections):
                    self._replacements += 1
                continue
            is_late = perf_counter() - start > MAX_TIMING_SHARE * self._settings.seconds
            if timed == max_timed or is_late:
                break
            timed += 1
            new_number = self._enter_if_fast(candidate, substitutes, [*entrants, *added])
            if new_number is not None:
                added.append(new_number)
                self._replacements += 1
        return added

    def _add_selections(self, number: int, selections: Sequence[str]) -> bool:
        """Note that an entry was also selected by score; return whether it takes part."""
        entry = self._entries[number]
        if entry.error == TOO_SLOW:
            self._passed_over += 1
        if entry.error:
            return False
        self._entries[number] = replace(entry, selections=(*entry.selections, *selections))
        return True

    def _enter_if_fast(
        self, candidate: ContestEntry, substitutes: Substitutes, entrants: Sequence[int]
    ) -> int | None:
        """Enter a substitute if it is fast enough, within the limits, and if there is time for it.

        Returns:
            Its number; None if it does not take part.
        """
        seconds = self._measure_step_seconds(candidate.arch)
        if isinstance(seconds, Failure):
            return None
        if self._is_too_slow(seconds):
            self._passed_over += 1
            return None
        number = max(self._first_numbers) + 1
        self._step_seconds[number] = seconds
        entry = None
        if self._has_time_for([*entrants, number]):
            entry = substitutes.add_latency(replace(candidate, number=number))
        if entry is None:
            del self._step_seconds[number]
            return None
        self._entries[number] = entry
        self._first_numbers.append(number)
        return number

    def _run_round(self, round_index: int, numbers: Sequence[int]) -> None:
        """Train entries for their share of the round, except those that have finished it."""
        missing = []
        for number in numbers:
            entry = self._entries[number]
            if len(entry.rounds) <= round_index and not entry.error:
                missing.append(number)
        if not missing:
            return
        for number in missing:
            if number not in self._step_seconds:
                self._time_steps(number)
        missing = [number for number in missing if not self._entries[number].error]
        if not missing:
            return
        seconds_each = self._choose_seconds(round_index, len(missing))
        samples = self._choose_sample_count(round_index, seconds_each, missing)
        for number in missing:
            if self._is_time_over():
                self._is_late = True
                return
            epochs = self._choose_epochs(number, round_index, samples, seconds_each)
            self._train_entry(number, round_index, epochs, samples, seconds_each)

    def _choose_seconds(self, round_index: int, count: int) -> float:
        """Return how long each entry is trained in a round.

        The remaining rounds share the remaining time equally. All entries of a round have the same
        time, also those with other learning rates, which are trained later.

        Args:
            round_index: Number of the round, from 0.
            count: Number of entries that will be trained now.
        """
        if self._settings.seconds is None:
            return inf
        if round_index not in self._round_seconds:
            if round_index == 0 and not any(entry.is_copy for entry in self._entries.values()):
                count += len(RATE_FACTORS)
            remaining_seconds = self._settings.seconds - (perf_counter() - self._start)
            rounds = len(self._counts) - round_index
            self._round_seconds[round_index] = max(0.0, remaining_seconds) / rounds / count
        return self._round_seconds[round_index]

    def _is_time_over(self) -> bool:
        """Whether the time is over and at least one entry has finished a round."""
        if self._settings.seconds is None:
            return False
        if perf_counter() - self._start < self._settings.seconds:
            return False
        return any(entry.rounds for entry in self._entries.values())

    def _choose_sample_count(self, round_index: int, seconds: float, numbers: Sequence[int]) -> int:
        """Return the number of training samples with which the median entry has enough epochs.

        All entries of a round have the same samples.
        """
        for entry in self._entries.values():
            if len(entry.rounds) > round_index:
                return entry.rounds[round_index].samples
        total = len(self._parts[TRAIN])
        if seconds == inf:
            return total
        step_seconds = median(self._step_seconds[number] for number in numbers)
        sample_seconds = step_seconds / self._settings.recipe.batch
        affordable = int(seconds / MIN_EPOCHS / sample_seconds)
        return min(total, max(affordable, MIN_SAMPLES))

    def _choose_epochs(self, number: int, round_index: int, samples: int, seconds: float) -> int:
        """Return the number of epochs that an entry has time for, at least 1."""
        steps_per_epoch = max(1, samples // self._settings.recipe.batch)
        max_epochs = choose_max_round_epochs(round_index, steps_per_epoch)
        if seconds == inf:
            return max_epochs
        epochs = int(seconds / (self._step_seconds[number] * steps_per_epoch))
        return max(1, min(epochs, max_epochs))

    def _train_entry(
        self, number: int, round_index: int, epochs: int, samples: int, seconds: float
    ) -> None:
        """Train an entry for one round and save the result and the weights."""
        self._report_progress(number, round_index, 0, 1)
        result = catch_failure(
            self._train_and_compare, number, round_index, epochs, samples, seconds
        )
        release_freed_memory()
        entry = self._entries[number]
        if isinstance(result, Failure):
            self._entries[number] = replace(entry, error=str(result))
        else:
            self._entries[number] = replace(entry, rounds=(*entry.rounds, result))
        self._save_state()

    def _train_and_compare(
        self, number: int, round_index: int, epochs: int, samples: int, seconds: float
    ) -> RoundResult:
        """Train one cycle of the learning rate, and evaluate on the validation samples.

        A training that takes more than `MAX_OVERRUN` times its share of the time is stopped within
        the cycle.

        Raises:
            Unscorable: The training diverged.
        """
        start = perf_counter()
        training = self._make_training(number, round_index, epochs, samples)
        preparation_seconds = perf_counter() - start

        def report_step() -> None:
            self._report_progress(number, round_index, training.step, training.total_steps)

        try:
            with random_state(training.seed), fastest_kernels(training.device):
                ended = training.run(
                    time_limit=MAX_OVERRUN * seconds,
                    finish_in=seconds - preparation_seconds,
                    on_step=report_step,
                )
            # Preparation does not count, because longer trainings have it only once.
            duration = perf_counter() - start - preparation_seconds
            evaluation = evaluate_network(
                training.final_model,
                training.val_loader.iterate_evaluation_batches(),
                training.task,
                training.memory_format,
            )
        except DivergedError as error:
            raise Unscorable("nan", str(error)) from error
        assert isinstance(evaluation, Predictions)
        self._step_seconds[number] = duration / max(training.step, 1)
        save_tensors(
            get_weights_path(self._settings.folder, number), training.final_model.state_dict()
        )
        correct = (evaluation.predicted_labels == evaluation.labels).numpy()
        epochs_trained: float = training.recipe.epochs
        if ended == "time":
            epochs_trained = training.step / training.steps_per_epoch
        return RoundResult(
            epochs=epochs_trained,
            samples=samples,
            seconds=duration,
            accuracy=evaluation.accuracy,
            correct=np.packbits(correct).tobytes().hex(),
        )

    def _make_training(self, number: int, round_index: int, epochs: int, samples: int) -> Training:
        """Prepare the training of an entry, with its weights of the round before."""
        settings = self._settings
        entry = self._entries[number]
        process = make_training_process(settings.compute.device)
        subject = load_training_subject(self._archs[entry.arch], settings)
        network = subject.build_network(process.device, settings.seed)
        if round_index > 0:
            path = get_weights_path(self._settings.folder, number)
            load_weights(network, load_tensors(path), path)
        warm_up = min(settings.recipe.warm_up, epochs / 10)
        recipe = settings.recipe.with_options(epochs=epochs, rate=entry.rate, warm_up=warm_up)
        rows = torch.arange(samples)
        parts = {TRAIN: select_samples(self._parts[TRAIN], rows), VAL: self._parts[VAL]}
        # Another seed per round, so that an entry does not see the same augmented images again.
        seed = settings.seed + round_index
        return Training(network, settings.source, recipe, parts, process, seed, select=False)

    def _time_steps(self, number: int) -> None:
        """Measure how long a training step of an entry takes. A failure ends its participation."""
        seconds = self._measure_step_seconds(self._entries[number].arch)
        if isinstance(seconds, Failure):
            self._entries[number] = replace(self._entries[number], error=str(seconds))
            self._save_state()
        else:
            self._step_seconds[number] = seconds

    def _measure_step_seconds(self, arch: str) -> float | Failure:
        subject = load_training_subject(self._archs[arch], self._settings)
        return catch_failure(measure_step_seconds, subject, self._settings, self._parts[TRAIN])

    def _enter_other_rates(self, best: int) -> list[int]:
        """Enter the best entry again with other learning rates; return the new numbers."""
        copies = []
        for position, factor in enumerate(RATE_FACTORS, 1):
            number = max(self._first_numbers) + position
            copies.append(number)
            # A resumed contest has them already.
            if number not in self._entries:
                entry = self._entries[best]
                rate = float(f"{factor * entry.rate:.2g}")
                self._entries[number] = replace(
                    entry, number=number, rate=rate, rounds=(), is_copy=True
                )
        return copies

    def _select_for_round(self, numbers: Sequence[int], round_index: int) -> list[int]:
        """Return the best entries of the round before.

        An entry that failed in this round keeps its place, so that a resumed contest trains no
        other entry instead.
        """
        finished = []
        for number in numbers:
            if len(self._entries[number].rounds) >= round_index:
                finished.append(number)

        def get_place(number: int) -> tuple[float, int]:
            return (-self._entries[number].rounds[round_index - 1].accuracy, number)

        return sorted(finished, key=get_place)[: self._counts[round_index]]

    def _rank(self, numbers: Sequence[int]) -> list[int]:
        """Return the entries that finished a round: more rounds first, then higher accuracy.

        Entries that failed in a later round are left out.
        """
        finished = []
        for number in numbers:
            entry = self._entries[number]
            if entry.rounds and not entry.error:
                finished.append(number)

        def get_place(number: int) -> tuple[int, float, int]:
            entry = self._entries[number]
            return (-len(entry.rounds), -entry.rounds[-1].accuracy, number)

        return sorted(finished, key=get_place)

    def _find_ties(self, ranked: Sequence[int]) -> list[int]:
        """Return the entries of the last round that are within one standard error of the best.

        The standard error is that of the difference of two accuracies on the same samples.
        """
        best = self._entries[ranked[0]]
        best_correct = _unpack_bits(best.rounds[-1].correct, len(self._parts[VAL]))
        tied = []
        for number in ranked:
            entry = self._entries[number]
            if len(entry.rounds) < len(best.rounds):
                continue
            correct = _unpack_bits(entry.rounds[-1].correct, len(self._parts[VAL]))
            differences = best_correct - correct
            standard_error = float(differences.std()) / sqrt(len(differences))
            if float(differences.mean()) <= standard_error:
                tied.append(number)
        return tied

    def _get_size(self, number: int) -> tuple[float, float, int]:
        """Return what decides between entries that are tied: latency, then parameters."""
        entry = self._entries[number]
        return (entry.latency or 0.0, entry.params or 0, number)

    def _read_state(self) -> dict[int, ContestEntry]:
        """Read the entries of an earlier call; nothing if it was another contest."""
        path = self._folder / STATE
        if not path.is_file():
            return {}
        with read_result_file(path) as state:
            if state["fingerprint"] != self._fingerprint:
                return {}
            entries = [read_entry(row) for row in state["entries"]]
            self._has_chosen_entrants = bool(state["has_chosen_entrants"])
            self._is_late = bool(state.get("is_late", False))
            self._passed_over = int(state["passed_over"])
            self._replacements = int(state["replacements"])
        return {entry.number: entry for entry in entries}

    def _save_state(self) -> None:
        rows = [asdict(entry) for entry in self._entries.values()]
        document = {
            "fingerprint": self._fingerprint,
            "entries": rows,
            "has_chosen_entrants": self._has_chosen_entrants,
            "is_late": self._is_late,
            "passed_over": self._passed_over,
            "replacements": self._replacements,
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder / STATE, json.dumps(document, indent=1) + "\n")

    def _report_progress(self, number: int, round_index: int, step: int, steps: int) -> None:
        """Report how much of the contest is finished, in per cent. All rounds count the same."""
        if self._on_progress is None:
            return
        trainings = self._count_trainings(round_index)
        finished = 0
        for entry in self._entries.values():
            if len(entry.rounds) > round_index:
                finished += 1
        share_of_round = min(1.0, (finished + step / steps) / trainings)
        share = (round_index + share_of_round) / len(self._counts)
        metrics = {"round": round_index + 1, "rounds": len(self._counts), "entry": number}
        self._on_progress(Progress(STAGE, round(100 * share), 100, metrics=metrics))

    def _count_trainings(self, round_index: int) -> int:
        """Return the number of trainings of a round, with those for other learning rates."""
        trainings = self._counts[round_index]
        if round_index == 0:
            trainings += len(RATE_FACTORS)
        return trainings


def _unpack_bits(digits: str, count: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the bits of `RoundResult.correct` as numbers."""
    packed = np.frombuffer(bytes.fromhex(digits), dtype=np.uint8)
    return np.unpackbits(packed, count=count).astype(np.float64)

"""A contest between networks: many are trained briefly, the best longer (successive halving).

The entries are the best architectures of a search by its proxy, the largest ones, random ones and
the known designs of the space. Each round trains every remaining entry for the same time, and keeps
about a third of them. An entry continues with the weights of the round before: every round is one
cycle of the learning rate, from its highest value to zero, so that networks are compared after a
complete schedule (SGDR: Loshchilov and Hutter, ICLR 2017). After the first round, the best entry
enters again with a lower and a higher learning rate.

Entries are compared on validation samples that no entry was trained on. The winner is afterwards
trained on all of them, so that a large validation part costs nothing. Of entries that are within
one standard error of the best one, the smallest wins.

The state is saved after every training, so that the same command resumes.
"""

import json
from collections.abc import Mapping, Sequence
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
from untrained.data.parts import TRAIN, VAL, ImagePart, Part, fingerprint_samples, join_parts
from untrained.engine.failures import catch_failure
from untrained.errors import Unscorable
from untrained.files import read_result_file, write_atomically
from untrained.identity import read_torch_version
from untrained.probe.guard import fastest_kernels, random_state
from untrained.progress import Progress, ProgressCallback
from untrained.reports.contest_result import (
    TOO_SLOW,
    Contest,
    ContestEntry,
    RoundResult,
    read_entry,
)
from untrained.seeds import derive_seed, make_torch_generator
from untrained.spaces import Space
from untrained.training.checkpoint import load_tensors, load_weights, save_tensors
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
# Longest training of an entry in each round, in epochs. Small data need less time than allowed.
MAX_EPOCHS = (4, 12, 36)
# Each round lasts at least this many epochs of the median entry. Large data are thinned for it, and
# the slowest entries are left out.
MIN_EPOCHS = 3
MIN_ENTRIES = 4
# The training of the winner should have at least this many epochs.
MIN_FINAL_EPOCHS = 50
MIN_SAMPLES = 500
# Fraction of the samples that entries are compared on, and the largest number of them.
VAL_SHARE = 0.25
MAX_VAL_SAMPLES = 5000
# The best entry of the first round is trained again with its learning rate times these factors.
RATE_FACTORS = (1 / 3, 3.0)
# Steps that are timed to estimate how long an epoch takes; the first one is slower.
TIMED_STEPS = 4
# A training that takes this many times its share of the time is stopped.
MAX_OVERRUN = 3.0


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


def run_contest(
    entries: Sequence[ContestEntry],
    archs: Mapping[str, Arch],
    settings: ContestSettings,
    on_progress: ProgressCallback | None = None,
) -> Contest | None:
    """Train the entries in rounds and save which one wins.

    Ctrl-C ends the contest. The best entry so far is then the winner, and the same call resumes.

    Args:
        entries: The entries, numbered from 1, none of which has finished a round.
        archs: Their architectures, by text.
        settings: What they have in common.
        on_progress: Called after every step of a training.

    Returns:
        The contest, or None if no training finished.
    """
    parts = split_for_contest(settings.source.parts, settings.seed)
    contest = RunningContest(entries, archs, settings, parts, on_progress)
    ended = "finished"
    try:
        contest.run()
    except KeyboardInterrupt:
        ended = "interrupted"
    return contest.conclude(ended)


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


def split_for_contest(parts: Mapping[str, Part], seed: int) -> dict[str, ImagePart]:
    """Split the training and validation samples again, with more samples for the comparison.

    Args:
        parts: The parts of the data. The test part is not used.
        seed: Seed of the split.
    """
    samples = join_parts(parts[TRAIN], parts[VAL])
    assert isinstance(samples, ImagePart)
    val_count = min(round(VAL_SHARE * len(samples)), MAX_VAL_SAMPLES)
    generator = make_torch_generator("contest split", seed)
    order = torch.randperm(len(samples), generator=generator)
    return {
        TRAIN: select_samples(samples, order[val_count:]),
        VAL: select_samples(samples, order[:val_count]),
    }


def select_samples(part: ImagePart, rows: Tensor) -> ImagePart:
    """Return some samples of a part."""
    return replace(part, images=part.images[rows], labels=part.labels[rows])


def get_weights_path(folder: Path, number: int) -> Path:
    """Return the file of the weights of an entry, in a run folder."""
    return folder / FOLDER / f"{number}.pt"


def estimate_max_flops(
    flops: Mapping[str, float],
    archs: Mapping[str, Arch],
    settings: ContestSettings,
    final_seconds: float,
) -> float:
    """Return how many multiply-adds a network may have to be trained long enough afterwards.

    Some networks are timed for a few training steps. Networks of other kinds may be slower; the
    contest finds out.

    Args:
        flops: Multiply-adds per sample of the networks to time, by architecture.
        archs: Their architectures, by text.
        settings: What the entries of the contest have in common.
        final_seconds: Duration of the training of the winner.

    Returns:
        The largest number with which that training has `MIN_FINAL_EPOCHS`; infinity if no network
        could be timed.
    """
    parts = split_for_contest(settings.source.parts, settings.seed)
    speeds = []
    for text, network_flops in flops.items():
        subject = _load_training_subject(archs[text], settings)
        seconds = catch_failure(measure_step_seconds, subject, settings, parts[TRAIN])
        if not isinstance(seconds, Failure):
            speeds.append(network_flops * settings.recipe.batch / seconds)
    if not speeds:
        return inf
    samples = len(parts[TRAIN]) + len(parts[VAL])
    return median(speeds) * final_seconds / (MIN_FINAL_EPOCHS * samples)


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
    count = min(len(part), TIMED_STEPS * settings.recipe.batch)
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


def _load_training_subject(arch: Arch, settings: ContestSettings) -> TrainingSubject:
    subject = load_subject(arch, settings.space, settings.compute.device)
    return TrainingSubject(str(arch), arch.space, subject, settings.data, settings.source, None)


class RunningContest:
    """A contest in progress. Every change of its state is saved.

    Args:
        entries: The entries at the beginning.
        archs: Their architectures, by text.
        settings: What they have in common.
        parts: The samples to train on and to compare on.
        on_progress: Called after every step of a training.
    """

    def __init__(
        self,
        entries: Sequence[ContestEntry],
        archs: Mapping[str, Arch],
        settings: ContestSettings,
        parts: Mapping[str, ImagePart],
        on_progress: ProgressCallback | None,
    ) -> None:
        self._settings = settings
        self._archs = archs
        self._parts = parts
        self._on_progress = on_progress
        self._folder = settings.folder / FOLDER
        self._fingerprint = settings.fingerprint(parts)
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

    def run(self) -> None:
        """Run all rounds, except what an earlier call has finished."""
        self._leave_out_slow_entries()
        numbers = []
        for number in self._first_numbers:
            if self._entries[number].error != TOO_SLOW:
                numbers.append(number)
        self._counts = plan_rounds(len(numbers))
        for round_index in range(len(self._counts)):
            if round_index > 0:
                numbers = self._rank(numbers)[: self._counts[round_index]]
            self._run_round(round_index, numbers)
            ranked = self._rank(numbers)
            if not ranked:
                return
            if round_index == 0:
                copies = self._enter_other_rates(ranked[0])
                self._run_round(round_index, copies)
                numbers = numbers + copies

    def conclude(self, ended: str) -> Contest | None:
        """Choose the winner, save the contest and delete the weights of the other entries.

        Args:
            ended: "finished" or "interrupted".

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
        )
        contest.save(settings.folder)
        if ended == "finished":
            for number in self._entries:
                if number != winner:
                    get_weights_path(self._settings.folder, number).unlink(missing_ok=True)
        return contest

    def _leave_out_slow_entries(self) -> None:
        """Leave out the slowest entries until all others can train for `MIN_EPOCHS` in a round."""
        seconds = self._settings.seconds
        is_begun = any(entry.rounds or entry.error for entry in self._entries.values())
        if seconds is None or is_begun:
            return
        for number in self._first_numbers:
            self._time_steps(number)
        steps_per_epoch = max(1, len(self._parts[TRAIN]) // self._settings.recipe.batch)
        fastest_first = sorted(self._step_seconds, key=lambda number: self._step_seconds[number])
        needed = 0.0
        for count, number in enumerate(fastest_first, 1):
            needed += MIN_EPOCHS * steps_per_epoch * self._step_seconds[number]
            # The trainings with other learning rates take about as long as the average one.
            needed_for_copies = len(RATE_FACTORS) * needed / count
            round_seconds = seconds / len(plan_rounds(count))
            if count > MIN_ENTRIES and needed + needed_for_copies > round_seconds:
                self._entries[number] = replace(self._entries[number], error=TOO_SLOW)
        self._save_state()

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
        seconds_each = self._choose_seconds(round_index)
        samples = self._choose_sample_count(round_index, seconds_each, missing)
        for number in missing:
            epochs = self._choose_epochs(number, round_index, samples, seconds_each)
            self._train_entry(number, round_index, epochs, samples, seconds_each)

    def _choose_seconds(self, round_index: int) -> float:
        """Return how long each entry is trained in a round. All rounds take the same time."""
        if self._settings.seconds is None:
            return inf
        round_seconds = self._settings.seconds / len(self._counts)
        return round_seconds / self._count_trainings(round_index)

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
        max_epochs = MAX_EPOCHS[round_index]
        if seconds == inf:
            return max_epochs
        steps_per_epoch = max(1, samples // self._settings.recipe.batch)
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

        Raises:
            Unscorable: The training diverged.
        """
        training = self._make_training(number, round_index, epochs, samples)
        start = perf_counter()

        def report_step() -> None:
            self._report_progress(number, round_index, training.step, training.total_steps)

        try:
            with random_state(training.seed), fastest_kernels(training.device):
                training.run(time_limit=MAX_OVERRUN * seconds, on_step=report_step)
            evaluation = evaluate_network(
                training.final_model,
                training.val_loader.iterate_evaluation_batches(),
                training.task,
                training.memory_format,
            )
        except DivergedError as error:
            raise Unscorable("nan", str(error)) from error
        assert isinstance(evaluation, Predictions)
        duration = perf_counter() - start
        self._step_seconds[number] = duration / max(training.step, 1)
        save_tensors(
            get_weights_path(self._settings.folder, number), training.final_model.state_dict()
        )
        correct = (evaluation.predicted_labels == evaluation.labels).numpy()
        return RoundResult(
            epochs=epochs,
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
        subject = _load_training_subject(self._archs[entry.arch], settings)
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
        subject = _load_training_subject(self._archs[self._entries[number].arch], self._settings)
        seconds = catch_failure(measure_step_seconds, subject, self._settings, self._parts[TRAIN])
        if isinstance(seconds, Failure):
            self._entries[number] = replace(self._entries[number], error=str(seconds))
            self._save_state()
        else:
            self._step_seconds[number] = seconds

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
        return {entry.number: entry for entry in entries}

    def _save_state(self) -> None:
        rows = [asdict(entry) for entry in self._entries.values()]
        document = {"fingerprint": self._fingerprint, "entries": rows}
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

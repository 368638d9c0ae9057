"""A contest between networks: many are trained briefly, the best longer (successive halving).

The entries are the best architectures of a search by its proxy, the largest ones, random ones and
the known designs of the space. Each round trains every remaining entry for the same time, and keeps
about a third of them. An entry continues with its weights of the previous round: every round is one
cycle of the learning rate, from its highest value to zero, so that networks are compared after a
complete schedule (SGDR: Loshchilov and Hutter, ICLR 2017). Before a comparison, the statistics of
batch norms are measured with the final weights (`training/norm_statistics.py`). Only a training
that takes far longer than expected is stopped within its cycle (`MAX_OVERRUN`). After the first
round, the best entry enters again with a lower and a higher learning rate.

Entries are compared on validation samples that no entry was trained on: by accuracy, or by RMSE if
labels are numbers. Afterwards the winner is trained on these samples too, so that a large
validation part costs nothing. Among entries within one standard error of the best, the one with the
lowest latency wins if latency is limited, otherwise the smallest.

With a limit on the time, `contest_entrants.py` chooses which entries take part. A training that
turns out to be slower than expected is shortened; if the time runs out, the best entry so far wins.

The state (`contest_state.py`) is saved after every training, so that the same command resumes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, sqrt
from statistics import median
from time import perf_counter

import numpy as np
import torch

from untrained.data.parts import TRAIN, VAL, PartInMemory, select_samples
from untrained.engine.failures import catch_failure
from untrained.errors import Interrupted, Unscorable
from untrained.probe.guard import fastest_kernels, random_state
from untrained.progress import Progress, ProgressCallback
from untrained.reports.contest_result import (
    INTERVAL,
    NO_TIME,
    Contest,
    ContestEntry,
    RoundResult,
)
from untrained.training.checkpoint import load_tensors, load_weights, save_tensors
from untrained.training.ctr_metrics import ClickMetrics
from untrained.training.distributed import make_training_process
from untrained.training.evaluation import DivergedError, Predictions, evaluate_network
from untrained.training.loop import Training
from untrained.training.memory import release_freed_memory
from untrained.training.norm_statistics import measure_norm_statistics
from untrained.training.regression_metrics import RegressionMetrics
from untrained.training.small_pictures import choose_small_share
from untrained.types import REGRESSION, Arch, Failure
from untrained.workflows.contest_entrants import StepTimer, Substitutes, choose_entrants
from untrained.workflows.contest_rounds import (
    RATE_FACTORS,
    choose_max_round_epochs,
    count_trainings,
    plan_rounds,
)
from untrained.workflows.contest_state import ContestState, get_weights_path
from untrained.workflows.contest_training import (
    ContestSettings,
    make_training_setup,
    split_for_contest,
)

STAGE = "contest"
# Each round uses so few training samples that the median entry has time for this many epochs, but
# at least `MIN_SAMPLES`.
MIN_EPOCHS = 3
MIN_SAMPLES = 500
# A training is shortened to its share of the time, but has at least one epoch. If this takes more
# than this many times its share, it is stopped.
MAX_OVERRUN = 2.0


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
        entries: The entries, numbered from 1. None of them has finished a round.
        archs: The architectures of entries and substitutes, by text.
        settings: What they have in common.
        on_progress: Called after every step of a training.
        substitutes: Networks that replace entries that were selected by score and are too slow;
            None for none.

    Returns:
        The contest, or None if no training finished.

    Raises:
        Interrupted: Ctrl-C was pressed before the first training was finished.
    """
    parts = split_for_contest(settings.source, settings.seed)
    contest = RunningContest(entries, archs, settings, parts, on_progress)
    try:
        end_reason = contest.run(substitutes)
    except KeyboardInterrupt:
        end_reason = "interrupted"
    result = contest.conclude(end_reason)
    if result is None and end_reason == "interrupted":
        raise Interrupted(
            "stopped by Ctrl-C before the first training of the contest was finished; the same "
            "command resumes"
        )
    return result


class RunningContest:
    """A contest in progress. Every change of its state is saved.

    Args:
        entries: The entries at the beginning.
        archs: The architectures of entries and substitutes, by text.
        settings: What they have in common.
        parts: The samples to train on and to compare on.
        on_progress: Called after every step of a training.
    """

    def __init__(
        self,
        entries: Sequence[ContestEntry],
        archs: Mapping[str, Arch],
        settings: ContestSettings,
        parts: Mapping[str, PartInMemory],
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self._settings = settings
        self._archs = archs
        self._parts = parts
        self._on_progress = on_progress
        self._state = ContestState(entries, settings, parts)
        self._timer = StepTimer(archs, settings, parts[TRAIN])
        # Number of entries of each round.
        self._counts = plan_rounds(len(self._state.first_numbers))
        # How long each training of a round may take, by the number of the round.
        self._round_seconds: dict[int, float] = {}

    def run(self, substitutes: Substitutes | None = None) -> str:
        """Run all rounds, except what an earlier call has finished.

        Args:
            substitutes: Networks that replace entries that were selected by score and are too slow;
                None for none.

        Returns:
            "finished", or "time" if the time ran out before all rounds were finished.
        """
        state = self._state
        # The page of the run shows the entries from the file.
        state.save()
        choose_entrants(state, self._settings, self._parts, self._timer, substitutes)
        numbers = state.list_entrants()
        self._counts = plan_rounds(len(numbers))
        for round_index in range(len(self._counts)):
            if state.is_late:
                break
            if round_index == 0:
                numbers = self._run_first_round(numbers)
            else:
                numbers = self._select_for_round(numbers, round_index)
                self._train_entries(round_index, numbers)
            if not self._rank(numbers):
                # All trainings failed.
                break
        if not state.is_late:
            return "finished"
        for number, entry in list(state.entries.items()):
            if not entry.rounds and not entry.error:
                state.set_error(number, NO_TIME)
        state.save()
        return "time"

    def conclude(self, end_reason: str) -> Contest | None:
        """Choose the winner, save the contest and delete the weights of the other entries.

        Args:
            end_reason: "finished", "time" or "interrupted".

        Returns:
            The contest, or None if no training finished.
        """
        state = self._state
        settings = self._settings
        finished = self._rank(list(state.entries))
        if not finished:
            return None
        tied = self._find_ties(finished)
        # Of entries that are equally fast and large, such as one network with two learning rates,
        # `min` returns the first, which has the best result.
        winner = min(tied, key=self._make_tie_break_key)
        others = [number for number in state.entries if number not in finished]
        entries = tuple(state.entries[number] for number in finished + others)
        contest = Contest(
            winner=state.entries[winner].arch,
            winner_number=winner,
            entries=entries,
            tied=tuple(tied),
            rounds=len(self._counts),
            train_samples=len(self._parts[TRAIN]),
            val_samples=len(self._parts[VAL]),
            recipe=settings.recipe.label,
            data=settings.data,
            seconds=sum(entry.seconds for entry in entries),
            end_reason=end_reason,
            search_key=settings.search_key,
            passed_over=state.passed_over,
            replacements=state.replacements,
            task=settings.source.task.kind.name,
            label=settings.source.task.target_name,
            constant_rmse=self._compute_constant_rmse(),
            small_share=choose_small_share(settings.source.task, settings.compute.device),
        )
        contest.save(settings.folder)
        # An interrupted contest needs all weights when it is resumed.
        if end_reason != "interrupted":
            for number in state.entries:
                if number != winner:
                    get_weights_path(settings.folder, number).unlink(missing_ok=True)
        return contest

    def _compute_constant_rmse(self) -> float | None:
        """Return the RMSE of always predicting the mean of the training part; None for classes."""
        task = self._settings.source.task
        if task.kind != REGRESSION:
            return None
        # A standardised label is its distance from the mean of the training part.
        distances = task.target_std * self._parts[VAL].read_labels().double()
        return float(distances.square().mean().sqrt())

    # ------------------------------------------------------------------------------------ rounds

    def _run_first_round(self, numbers: Sequence[int]) -> list[int]:
        """Train all entries, then the best one again with other learning rates.

        Args:
            numbers: The entries that take part.

        Returns:
            Their numbers and those of the copies with other learning rates.
        """
        self._train_entries(0, numbers)
        ranked = self._rank(numbers)
        if not ranked or self._state.is_late:
            return list(numbers)
        copies = self._add_copies(ranked[0])
        self._train_entries(0, copies)
        return [*numbers, *copies]

    def _add_copies(self, best: int) -> list[int]:
        """Add copies of the best entry with other learning rates, and return their numbers."""
        state = self._state
        entry = state.entries[best]
        copies = []
        for position, factor in enumerate(RATE_FACTORS, 1):
            number = max(state.first_numbers) + position
            copies.append(number)
            # A resumed contest already has the copies.
            if number not in state.entries:
                rate = float(f"{factor * entry.rate:.2g}")
                state.entries[number] = replace(
                    entry, number=number, rate=rate, rounds=(), is_copy=True
                )
        return copies

    def _select_for_round(self, numbers: Sequence[int], round_index: int) -> list[int]:
        """Return the best entries of the previous round.

        An entry that failed in this round keeps its place, so that a resumed contest trains no
        other entry instead.
        """
        entries = self._state.entries
        finished = []
        for number in numbers:
            if len(entries[number].rounds) >= round_index:
                finished.append(number)

        def make_sort_key(number: int) -> tuple[float, int]:
            return (-entries[number].rounds[round_index - 1].rank_value, number)

        return sorted(finished, key=make_sort_key)[: self._counts[round_index]]

    def _train_entries(self, round_index: int, numbers: Sequence[int]) -> None:
        """Train entries for their share of the round, except those that have finished it."""
        state = self._state
        missing = self._list_untrained(round_index, numbers)
        for number in missing:
            if number not in state.step_seconds:
                self._timer.time_entry(state, number)
        # Entries that could not be timed have failed.
        missing = self._list_untrained(round_index, missing)
        if not missing:
            return
        seconds_each = self._choose_seconds(round_index, len(missing))
        samples = self._choose_sample_count(round_index, seconds_each, missing)
        for number in missing:
            if self._must_stop():
                state.is_late = True
                return
            epochs = self._choose_epochs(number, round_index, samples, seconds_each)
            self._train_entry(number, round_index, epochs, samples, seconds_each)

    def _list_untrained(self, round_index: int, numbers: Sequence[int]) -> list[int]:
        """Return the entries that have neither finished a round nor failed."""
        untrained = []
        for number in numbers:
            entry = self._state.entries[number]
            if len(entry.rounds) <= round_index and not entry.error:
                untrained.append(number)
        return untrained

    # ------------------------------------------------------------------------------ time and size

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
            trainings = count
            if not any(entry.is_copy for entry in self._state.entries.values()):
                trainings = count_trainings(round_index, count)
            remaining_seconds = self._settings.seconds - self._state.elapsed_seconds
            rounds = len(self._counts) - round_index
            self._round_seconds[round_index] = max(0.0, remaining_seconds) / rounds / trainings
        return self._round_seconds[round_index]

    def _must_stop(self) -> bool:
        """Return whether the time has run out and at least one entry has finished a round."""
        if self._settings.seconds is None:
            return False
        if self._state.elapsed_seconds < self._settings.seconds:
            return False
        return self._state.has_results

    def _choose_sample_count(self, round_index: int, seconds: float, numbers: Sequence[int]) -> int:
        """Return how many training samples the entries of a round use.

        The number is such that the median entry has time for `MIN_EPOCHS` epochs. All entries of a
        round use the same samples.
        """
        for entry in self._state.entries.values():
            if len(entry.rounds) > round_index:
                return entry.rounds[round_index].samples
        total = len(self._parts[TRAIN])
        if seconds == inf:
            return total
        step_seconds = median(self._state.step_seconds[number] for number in numbers)
        sample_seconds = step_seconds / self._settings.recipe.batch
        affordable = int(seconds / MIN_EPOCHS / sample_seconds)
        return min(total, max(affordable, MIN_SAMPLES))

    def _choose_epochs(self, number: int, round_index: int, samples: int, seconds: float) -> int:
        """Return the number of epochs that an entry has time for, at least 1."""
        steps_per_epoch = max(1, samples // self._settings.recipe.batch)
        max_epochs = choose_max_round_epochs(round_index, steps_per_epoch)
        if seconds == inf:
            return max_epochs
        epochs = int(seconds / (self._state.step_seconds[number] * steps_per_epoch))
        return max(1, min(epochs, max_epochs))

    # ------------------------------------------------------------------------------- one training

    def _train_entry(
        self, number: int, round_index: int, epochs: int, samples: int, seconds: float
    ) -> None:
        """Train an entry for one round and save the result and the weights."""
        self._report_progress(number, round_index, 0, 1)
        result = catch_failure(
            self._train_and_compare, number, round_index, epochs, samples, seconds
        )
        release_freed_memory()
        if isinstance(result, Failure):
            self._state.set_error(number, str(result))
        else:
            entry = self._state.entries[number]
            self._state.entries[number] = replace(entry, rounds=(*entry.rounds, result))
        self._state.save()

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
                end_reason = training.run(
                    time_limit=MAX_OVERRUN * seconds,
                    finish_in=seconds - preparation_seconds,
                    on_step=report_step,
                )
            # Later rounds and the final training are planned from the time per step. Preparation
            # is left out, because its time does not grow with the number of steps.
            duration = perf_counter() - start - preparation_seconds
            measure_norm_statistics(
                training.final_model,
                training.train_loader.iterate_evaluation_batches(),
                training.memory_format,
            )
            evaluation = evaluate_network(
                training.final_model,
                training.val_loader.iterate_evaluation_batches(),
                training.task,
                training.memory_format,
            )
        except DivergedError as error:
            raise Unscorable("nan", str(error)) from error
        self._state.step_seconds[number] = duration / max(training.step, 1)
        save_tensors(
            get_weights_path(self._settings.folder, number), training.final_model.state_dict()
        )
        epochs_trained: float = training.recipe.epochs
        if end_reason == "time":
            epochs_trained = training.step / training.steps_per_epoch
        return _make_round_result(evaluation, epochs_trained, samples, duration)

    def _make_training(self, number: int, round_index: int, epochs: int, samples: int) -> Training:
        """Prepare the training of an entry, with its weights of the previous round."""
        settings = self._settings
        entry = self._state.entries[number]
        process = make_training_process(settings.compute.device)
        setup = make_training_setup(self._archs[entry.arch], settings)
        network = setup.build_network(process.device, settings.seed)
        if round_index > 0:
            path = get_weights_path(settings.folder, number)
            load_weights(network, load_tensors(path), path)
        warm_up = min(settings.recipe.warm_up, epochs / 10)
        recipe = settings.recipe.with_options(epochs=epochs, rate=entry.rate, warm_up=warm_up)
        rows = torch.arange(samples)
        parts = {TRAIN: select_samples(self._parts[TRAIN], rows), VAL: self._parts[VAL]}
        # Another seed per round, so that an entry does not see the same augmented images twice.
        seed = settings.seed + round_index
        return Training(
            network, settings.source, recipe, parts, process, seed, select_weights=False
        )

    def _report_progress(self, number: int, round_index: int, step: int, steps: int) -> None:
        """Report how much of the contest is finished, in per cent. All rounds count the same."""
        if self._on_progress is None:
            return
        trainings = count_trainings(round_index, self._counts[round_index])
        finished = 0
        for entry in self._state.entries.values():
            if len(entry.rounds) > round_index:
                finished += 1
        share_of_round = min(1.0, (finished + step / steps) / trainings)
        share = (round_index + share_of_round) / len(self._counts)
        metrics = {"round": round_index + 1, "rounds": len(self._counts), "entry": number}
        percentage = round(100 * share)
        self._on_progress(Progress(STAGE, percentage, 100, metrics=metrics, is_percentage=True))

    # -------------------------------------------------------------------------------- the winner

    def _rank(self, numbers: Sequence[int]) -> list[int]:
        """Return the entries that finished a round: more rounds first, then the better result.

        Entries that failed in a later round are left out.
        """
        entries = self._state.entries
        finished = []
        for number in numbers:
            if entries[number].rounds and not entries[number].error:
                finished.append(number)

        def make_sort_key(number: int) -> tuple[int, float, int]:
            entry = entries[number]
            return (-len(entry.rounds), -entry.rounds[-1].rank_value, number)

        return sorted(finished, key=make_sort_key)

    def _find_ties(self, ranked: Sequence[int]) -> list[int]:
        """Return the entries of the last round that are within one standard error of the best.

        The standard error is that of the difference of two accuracies, or of two mean squared
        errors, on the same samples.
        """
        val_samples = len(self._parts[VAL])
        best = self._state.entries[ranked[0]]
        best_errors = _read_errors(best.rounds[-1], val_samples)
        tied = []
        for number in ranked:
            entry = self._state.entries[number]
            if len(entry.rounds) < len(best.rounds):
                continue
            differences = _read_errors(entry.rounds[-1], val_samples) - best_errors
            standard_error = float(differences.std()) / sqrt(len(differences))
            if float(differences.mean()) <= standard_error:
                tied.append(number)
        return tied

    def _make_tie_break_key(self, number: int) -> tuple[float, float]:
        """Return a sort key for entries that are tied: latency, then parameters."""
        entry = self._state.entries[number]
        return (entry.latency or 0.0, entry.params or 0)


def _make_round_result(
    evaluation: Predictions | ClickMetrics | RegressionMetrics,
    epochs: float,
    samples: int,
    seconds: float,
) -> RoundResult:
    """Return the result of a round.

    Args:
        evaluation: The evaluation on the validation samples.
        epochs: Number of epochs that were trained.
        samples: Number of training samples.
        seconds: Duration of the training.
    """
    if isinstance(evaluation, RegressionMetrics):
        squared_errors = evaluation.squared_errors
        # The deviation of the root of a mean, to first order.
        mean_margin = INTERVAL * float(squared_errors.std()) / sqrt(len(squared_errors))
        margin = 0.0
        if evaluation.rmse > 0:
            margin = mean_margin / (2 * evaluation.rmse)
        return RoundResult(
            epochs=epochs,
            samples=samples,
            seconds=seconds,
            rmse=evaluation.rmse,
            rmse_margin=margin,
            r2=evaluation.r2,
            squared_errors=squared_errors.tobytes().hex(),
        )
    assert isinstance(evaluation, Predictions)
    correct = (evaluation.predicted_labels == evaluation.labels).numpy()
    return RoundResult(
        epochs=epochs,
        samples=samples,
        seconds=seconds,
        accuracy=evaluation.accuracy,
        correct=np.packbits(correct).tobytes().hex(),
    )


def _read_errors(result: RoundResult, count: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the error of each sample: its squared error, or 1 if it is classified wrongly.

    Args:
        result: The round.
        count: Number of validation samples.
    """
    if result.rmse is not None:
        return np.frombuffer(bytes.fromhex(result.squared_errors), dtype=np.float64)
    packed = np.frombuffer(bytes.fromhex(result.correct), dtype=np.uint8)
    return 1 - np.unpackbits(packed, count=count).astype(np.float64)

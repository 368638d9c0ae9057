"""Let the best network of a search on a table compete with hand-designed networks.

The hand-designed networks are small, so they are trained first. Candidates are trained briefly
from scratch and evaluated on the validation part. The best of them is then trained on all rows with
the same recipe as the hand-designed networks. No learning rate
suits all networks, so short trainings choose the rate of each network from the same few values, by
the loss on the validation part. The network with the lowest loss on the validation part wins. Each
network is evaluated once on the test part, which does not influence the choice of the winner.

This module does not depend on proxies or on how candidates were searched.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from untrained.config import ComputeConfig
from untrained.data import DataSource
from untrained.data.parts import TEST, TRAIN, VAL, Part, fingerprint_samples
from untrained.data.tables.source import TablePart
from untrained.engine.failures import catch_failure
from untrained.errors import Interrupted, Unscorable, UsageError
from untrained.files import read_result_file, write_atomically
from untrained.identity import read_torch_version
from untrained.probe.gradients import compute_sample_losses
from untrained.probe.guard import fastest_kernels, random_state
from untrained.progress import Progress, ProgressCallback
from untrained.reports.confirmation_result import (
    BEST_OF_SEARCH,
    NO_TIME_LEFT,
    STOPPED_BY_TIME,
    DesignResult,
    list_learning_rates,
)
from untrained.seeds import derive_seed
from untrained.spaces import Space, fingerprint_space
from untrained.training.adaptation import adapt_recipe
from untrained.training.batches import EVALUATION_ROWS
from untrained.training.boosting import BOOSTING, NOT_EXPORTED, train_boosting
from untrained.training.checkpoint import WEIGHTS_FILE
from untrained.training.ctr_designs import list_ctr_designs
from untrained.training.ctr_metrics import compute_row_losses
from untrained.training.distributed import make_training_process
from untrained.training.evaluation import predict_logits
from untrained.training.folder import (
    copy_training,
    list_former_trainings,
    move_training_aside,
    read_training_key,
)
from untrained.training.loop import Training
from untrained.training.recipes import (
    RECIPES,
    Recipe,
    get_default_recipe_name,
    load_recipe,
)
from untrained.training.result import TRAINING_FILE, AnotherTrainingError, TrainingResult
from untrained.types import BINARY, TRANSIENT_FAILURES, Arch, Failure
from untrained.workflows.network_spec import load_network_spec, make_ctr_design_arch
from untrained.workflows.train import get_data_argument, train
from untrained.workflows.training_setup import TrainingSetup

CTR_RECIPE = RECIPES["ctr"]
# Stages of the progress bar. The time plan calls all of them the contest.
DESIGNS_STAGE = "contest: known designs"
CANDIDATES_STAGE = "contest: searched networks"
BEST_STAGE = "contest: best on all rows"
BOOSTING_STAGE = "contest: gradient boosting"
# A candidate is stopped if it takes this many times its share of the time and this many times as
# long as expected.
SLOWNESS_FACTOR = 1.5
# Fraction of the time for the expected duration of the short trainings, because some networks are
# slower than the first one.
EPOCHS_SHARE = 0.75
# Key of the number of epochs in the file of the short trainings.
_EPOCHS_KEY = "epochs in the time"
# Largest number of rows that a candidate sees, over all epochs.
MAX_ROWS_SEEN = 100_000
TRAININGS_FILE = "trainings.json"
DESIGNS_FOLDER = "references"


@dataclass(frozen=True)
class CandidateTrainings:
    """The short trainings of the candidates.

    Attributes:
        metrics: The loss, and AUC, accuracy or R2, by architecture, of those that finished.
        reasons: Why the other architectures have no result.
        epochs: Number of epochs of each training.
    """

    metrics: dict[Arch, dict[str, float]]
    reasons: dict[Arch, str]
    epochs: int


@dataclass(frozen=True)
class TableTrainer:
    """Trains networks of one space, and hand-designed networks, on one table.

    Short trainings read the training and the validation part. Each is saved when it is finished,
    so the same network is not trained twice.

    Attributes:
        space: The space of the candidates, or its name.
        data: Name of the table.
        source: The table.
        seed: Seed of all trainings.
        compute: Device and time limit.
        folder: Where results are kept.
        on_progress: Called before every training and at the end.
        data_root: Folder that contains the data sets; None for the default.
    """

    space: str | Space
    data: str
    source: DataSource
    seed: int
    compute: ComputeConfig
    folder: Path
    on_progress: ProgressCallback | None = None
    data_root: str | Path | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe of all trainings, with its default learning rate."""
        name = get_default_recipe_name(self.source.task, belongs_to_user=True)
        return adapt_recipe(load_recipe(name), self.source)

    def train_candidates(self, archs: Sequence[Arch]) -> dict[Arch, dict[str, float]]:
        """Train candidates from scratch and evaluate them on the validation part.

        Args:
            archs: The candidates.

        Returns:
            Metrics by architecture: the loss, and AUC, accuracy or R2. Failed trainings are left
            out.
        """
        return self.train_candidates_within(archs, None).metrics

    def train_candidates_within(
        self, archs: Sequence[Arch], seconds: float | None
    ) -> CandidateTrainings:
        """Train candidates from scratch, and say which were not trained, and why.

        All candidates are trained for equally many epochs. If the time does not suffice for the
        recipe, the first candidate shows for how many it does. A candidate that takes much longer
        than that is stopped.

        Args:
            archs: The candidates.
            seconds: How long all trainings may take; None for no limit.
        """
        deadline = _get_deadline(seconds)
        metrics: dict[Arch, dict[str, float]] = {}
        reasons: dict[Arch, str] = {}
        self._report_progress(CANDIDATES_STAGE, 0, len(archs), 0)
        epochs, expected_seconds = self._choose_epochs(archs[0], len(archs), deadline)
        trained_count = 0
        for index, arch in enumerate(archs):
            remaining_seconds = deadline - perf_counter()
            share = remaining_seconds / (len(archs) - index)
            limit = min(SLOWNESS_FACTOR * max(share, expected_seconds), remaining_seconds)
            result, was_trained = self._train_briefly(
                self._make_candidate(arch), self.recipe, epochs, limit
            )
            if isinstance(result, str):
                reasons[arch] = result
            else:
                metrics[arch] = result
                if was_trained:
                    trained_count += 1
            # Networks without a result are not counted as done.
            self._report_progress(CANDIDATES_STAGE, len(metrics), len(archs), trained_count)
        return CandidateTrainings(metrics, reasons, epochs)

    def _choose_epochs(self, arch: Arch, count: int, deadline: float) -> tuple[int, float]:
        """Return for how many epochs all candidates are trained, if each has the same time.

        The first call trains one epoch and keeps the number, so that a search that is repeated
        within about the same time reads its earlier trainings.

        Args:
            arch: One of the candidates.
            count: Number of candidates.
            deadline: When the time for all candidates ends, by `perf_counter`.

        Returns:
            The number of epochs, and how long they take for this candidate, in seconds; 0 if it was
            not measured.
        """
        rows = len(thin_part(self.source.parts[TRAIN]))
        longest = shorten_recipe(rows, self.recipe).epochs
        if deadline == inf:
            return longest, 0.0
        start = perf_counter()
        share = (deadline - start) / count
        path = self.folder / TRAININGS_FILE
        stored = _read_results(path).get(_EPOCHS_KEY)
        if stored and 0.5 * share <= stored["share"] <= 2 * share:
            return int(stored["epochs"]), stored["seconds"]
        self._train_briefly(self._make_candidate(arch), self.recipe, 1, deadline - start)
        epoch_seconds = perf_counter() - start
        epochs = min(longest, max(1, int(EPOCHS_SHARE * share / epoch_seconds)))
        results = _read_results(path)
        seconds = epochs * epoch_seconds
        results[_EPOCHS_KEY] = {"epochs": epochs, "share": share, "seconds": seconds}
        write_atomically(path, json.dumps(results, indent=1) + "\n")
        return epochs, seconds

    def compare_with_designs(
        self, best_arch: Arch, designs: Sequence[str] | None = None
    ) -> tuple[DesignResult, ...]:
        """Train the best architecture and hand-designed networks, and compare them with it.

        Args:
            best_arch: The best architecture of the short trainings.
            designs: Names of hand-designed networks; None for all of them.

        Returns:
            One result per network, that of the best architecture first.
        """
        return self.compare_networks(self.train_with_designs(best_arch, designs), BEST_OF_SEARCH)

    def train_with_designs(
        self,
        best_arch: Arch,
        designs: Sequence[str] | None = None,
    ) -> dict[str, TrainingResult | str]:
        """Train the best architecture and hand-designed networks, each with the rate that suits it.

        Args:
            best_arch: The best architecture of the short trainings.
            designs: Names of hand-designed networks; None for all that suit the task.

        Returns:
            The training of each network, or why it failed; that of the best architecture is
            the first.
        """
        design_outcomes = self.train_designs(designs)
        return {BEST_OF_SEARCH: self.train_best_arch(best_arch), **design_outcomes}

    def train_designs(
        self, designs: Sequence[str] | None = None, seconds: float | None = None
    ) -> dict[str, TrainingResult | str]:
        """Train hand-designed networks on all rows, each with the rate that suits it.

        Args:
            designs: Their names; None for all that suit the task.
            seconds: How long all trainings may take; None for no limit. Each network has the same
                time for the choice of its rate and its training, and trains for at least one epoch.

        Returns:
            The training of each network, or why it failed.
        """
        deadline = _get_deadline(seconds)
        if designs is None:
            designs = list_ctr_designs(self.source.task)
        outcomes: dict[str, TrainingResult | str] = {}

        def report_finished_networks(_: Progress | None = None) -> None:
            # This is also called after every step of a training. The step itself is not shown, but
            # the display updates its clock.
            self._report_progress(DESIGNS_STAGE, len(outcomes), len(designs), 0)

        for name in designs:
            report_finished_networks()
            networks_left = len(designs) - len(outcomes)
            seconds_each = (deadline - perf_counter()) / networks_left
            try:
                outcomes[name] = self._train_design(name, report_finished_networks, seconds_each)
            except UsageError as error:
                # A training that diverged is a result too.
                outcomes[name] = str(error)
            report_finished_networks()
        return outcomes

    def train_best_arch(
        self, arch: Arch, epochs: int | None = None, seconds: float | None = None
    ) -> TrainingResult | str:
        """Train the best architecture on all rows, with the rate that suits it.

        It is trained in the folder of the run, as `untrained train` does it.

        Args:
            arch: The best architecture of the short trainings.
            epochs: Number of epochs of the short trainings that choose its rate; None for those of
                a search without a time limit.
            seconds: How long the choice of the rate and the training may take; None for no limit.
                The network trains for at least one epoch.

        Returns:
            The training, or why it failed.
        """
        if seconds is None:
            seconds = inf

        def report_step(_: Progress | None = None) -> None:
            self._report_progress(BEST_STAGE, 0, 1, 0)

        report_step()
        outcome: TrainingResult | str
        try:
            outcome = self._train_best_arch(arch, epochs, report_step, seconds)
        except UsageError as error:
            outcome = str(error)
        self._report_progress(BEST_STAGE, 1, 1, 0)
        return outcome

    def compare_with_boosting(
        self, winner: TrainingResult | str, seconds: float | None = None
    ) -> DesignResult:
        """Train gradient boosting, and compare it with the winner.

        Args:
            winner: The training of the winner, or why it failed.
            seconds: Time for it; None for no limit.

        Returns:
            Its result, or why there is none. It cannot win.

        Raises:
            Interrupted: Ctrl-C was pressed. The winner is saved already.
        """
        if seconds == 0:
            return DesignResult(BOOSTING, error=NO_TIME_LEFT)
        self._report_progress(BOOSTING_STAGE, 0, 1, 0)
        try:
            result = catch_failure(train_boosting, self.source, seconds)
        except KeyboardInterrupt:
            raise Interrupted(
                "stopped by Ctrl-C; the winner is trained, and the same command resumes"
            ) from None
        self._report_progress(BOOSTING_STAGE, 1, 1, 0)
        if isinstance(result, Failure):
            return DesignResult(BOOSTING, error=str(result))
        entry = DesignResult(
            BOOSTING,
            val_loss=result.val_loss,
            val_quality=result.val_quality,
            loss=result.loss,
            quality=result.quality,
            violation=NOT_EXPORTED,
        )
        if not isinstance(winner, TrainingResult):
            return entry
        row_losses = _compute_row_losses(winner, self.source.parts[TEST], self.compute.device)
        differences = result.row_losses - row_losses
        excess_loss = float(differences.mean())
        return replace(entry, excess_loss=excess_loss, margin=_compute_margin(differences))

    def compare_networks(
        self, outcomes: Mapping[str, TrainingResult | str], winner: str
    ) -> tuple[DesignResult, ...]:
        """Compare trained networks with the winner, row by row of the test part.

        Args:
            outcomes: What `train_with_designs` returns.
            winner: Name of the network to compare with.
        """
        return _make_results(outcomes, winner, self.source.parts[TEST], self.compute.device)

    def copy_winner_training(self, training: TrainingResult) -> None:
        """Copy the training of the winner to the run folder, unless the folder contains it already.

        The training of another network is moved aside.
        """
        former_key = read_training_key(self.folder)
        if former_key and former_key.arch == training.key.arch:
            return
        if former_key:
            move_training_aside(self.folder)
        copy_training(Path(training.folder), self.folder)

    def _train_best_arch(
        self, arch: Arch, epochs: int | None, on_progress: ProgressCallback, seconds: float
    ) -> TrainingResult:
        """Train the best architecture, or read the training of an earlier call with its options."""
        data = get_data_argument(self.data, self.source)
        options = self._choose_options(self._make_candidate(arch), epochs, on_progress, seconds)
        if (self.folder / TRAINING_FILE).is_file() and not (self.folder / WEIGHTS_FILE).is_file():
            # The process was killed while it moved this training aside.
            move_training_aside(self.folder)
        # The training with these options may be in the run folder, among the earlier trainings of
        # the run, or in a folder of its own. `train` reads it there, or raises an error if the
        # folder contains a training of the same network with other options.
        own_folder = self.folder / DESIGNS_FOLDER / f"{BEST_OF_SEARCH}-{derive_seed(arch):x}"
        for run in (self.folder, *list_former_trainings(self.folder), own_folder):
            former_key = read_training_key(run)
            if former_key and former_key.arch == str(arch):
                with suppress(AnotherTrainingError):
                    return train(str(arch), data, space=self.space, run=run, **options)
        former_key = read_training_key(self.folder)
        if former_key and former_key.arch == str(arch):
            # The user has trained the network with another recipe. That training stays in place.
            return train(str(arch), data, space=self.space, run=own_folder, **options)
        if former_key:
            move_training_aside(self.folder)
        return train(str(arch), data, space=self.space, run=self.folder, **options)

    def _train_design(
        self, name: str, on_progress: ProgressCallback, seconds: float
    ) -> TrainingResult:
        data = get_data_argument(self.data, self.source)
        options = self._choose_options(self._make_design(name), None, on_progress, seconds)
        folder = self.folder / DESIGNS_FOLDER / name
        try:
            return train(make_ctr_design_arch(name), data, run=folder, **options)
        except AnotherTrainingError:
            # The folder holds a training by an earlier version, or with the rate that was best on
            # fewer rows.
            move_training_aside(folder)
            return train(make_ctr_design_arch(name), data, run=folder, **options)

    def _choose_options(
        self,
        setup: TrainingSetup,
        epochs: int | None,
        on_progress: ProgressCallback,
        seconds: float,
    ) -> dict[str, Any]:
        """Return options of `train` with the learning rate that gives the lowest loss.

        If every short training fails, the default rate is used.

        Args:
            setup: The network and its data.
            epochs: Number of epochs of the short trainings; None for the longest ones.
            on_progress: Called after every step of the training.
            seconds: Time for the choice and the training; infinite for no limit. A third of it is
                for choosing the rate.
        """
        start = perf_counter()
        best_recipe = self.recipe
        best_loss = inf
        for rate in list_learning_rates(self.recipe):
            recipe = self.recipe.with_options(rate=rate)
            rate_seconds = seconds / 3 - (perf_counter() - start)
            result, _ = self._train_briefly(setup, recipe, epochs, rate_seconds)
            if not isinstance(result, str) and result["loss"] < best_loss:
                best_recipe = recipe
                best_loss = result["loss"]
        options = {
            "recipe": best_recipe.label,
            "device": self.compute.device,
            "seed": self.seed,
            "on_progress": on_progress,
            "data_root": self.data_root,
        }
        if seconds < inf:
            options["finish_in"] = max(0.0, seconds - (perf_counter() - start))
        return options

    def _train_briefly(
        self,
        setup: TrainingSetup,
        recipe: Recipe,
        epochs: int | None = None,
        seconds: float = inf,
    ) -> tuple[dict[str, float] | str, bool]:
        """Train a network on few rows, or read the result of an earlier training.

        Args:
            setup: The network and its data.
            recipe: How to train.
            epochs: Largest number of epochs; None for the one that suits the number of rows.
            seconds: The training is stopped after this time.

        Returns:
            Metrics on the validation part, or why there are none; and whether it was trained now.
        """
        parts = {name: thin_part(self.source.parts[name]) for name in (TRAIN, VAL)}
        recipe = shorten_recipe(len(parts[TRAIN]), recipe, epochs)
        path = self.folder / TRAININGS_FILE
        key = self._make_key(setup, recipe, parts)
        results = _read_results(path)
        if key in results:
            return _get_metrics(results[key]), False
        if seconds <= 0:
            return STOPPED_BY_TIME, False
        try:
            result = catch_failure(
                _train_and_validate, setup, recipe, parts, self.seed, self.compute, seconds
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped by Ctrl-C; finished trainings are in {path}, and the same command resumes"
            ) from None
        if isinstance(result, Failure):
            if result.kind in TRANSIENT_FAILURES:
                # A failure of the machine says nothing about the network, so it is not kept.
                return result.detail or str(result), True
            results[key] = {"error": str(result)}
        else:
            results[key] = result
        write_atomically(path, json.dumps(results, indent=1) + "\n")
        return _get_metrics(results[key]), True

    def _make_key(self, setup: TrainingSetup, recipe: Recipe, parts: dict[str, Part]) -> str:
        """Return everything that the result of a short training depends on, as text."""
        if setup.spec.space:
            code = fingerprint_space(self.space)
        else:
            code = setup.fingerprint_code()
        return (
            f"{recipe.label} {setup.space} {setup.name} {self.data} "
            f"{fingerprint_samples(parts)} {code} torch {read_torch_version()}, "
            f"seed {self.seed}, {self.compute.device}"
        )

    def _make_candidate(self, arch: Arch) -> TrainingSetup:
        spec = load_network_spec(arch, self.space, self.compute.device)
        return TrainingSetup(str(arch), arch.space, spec, self.data, self.source, None)

    def _make_design(self, name: str) -> TrainingSetup:
        spec = load_network_spec(make_ctr_design_arch(name), "", self.compute.device)
        return TrainingSetup(name, "", spec, self.data, self.source, None)

    def _report_progress(self, stage: str, done: int, total: int, measured: int) -> None:
        if self.on_progress:
            self.on_progress(Progress(stage, done, total, measured, 1))


def _get_deadline(seconds: float | None) -> float:
    """Return the value of `perf_counter` when the time runs out; infinite for no limit."""
    if seconds is None:
        return inf
    return perf_counter() + seconds


def _read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Read the results of finished short trainings, by key."""
    if not path.is_file():
        return {}
    with read_result_file(path) as results:
        return results


def _get_metrics(result: dict[str, Any]) -> dict[str, float] | str:
    """Return the metrics of a short training, or why it failed."""
    if "error" in result:
        return str(result["error"])
    return result


def _train_and_validate(
    setup: TrainingSetup,
    recipe: Recipe,
    parts: dict[str, Part],
    seed: int,
    compute: ComputeConfig,
    seconds: float,
) -> dict[str, float]:
    """Train a network; return its loss and quality in its best epoch on the validation part.

    Raises:
        Unscorable: It takes longer than `seconds` or than the time limit of the user.
    """
    process = make_training_process(compute.device)
    network = setup.build_network(process.device, seed)
    training = Training(network, setup.source, recipe, parts, process, seed)
    time_limit = compute.time_limit_seconds or inf
    with random_state(seed), fastest_kernels(compute.device):
        end = training.run(time_limit=min(time_limit, seconds))
    if end == "time" and seconds < time_limit:
        raise Unscorable("timeout", STOPPED_BY_TIME)
    if end == "time":
        raise Unscorable("timeout", f"took longer than {compute.time_limit}")
    assert training.best is not None, "an epoch has ended"
    metrics = training.best.metrics
    quality = setup.source.task.kind.quality
    if quality not in metrics:
        raise Unscorable("error", "all validation rows have the same label; take more rows")
    return {"loss": metrics["loss"], quality: metrics[quality]}


def thin_part(part: Part) -> Part:
    """Keep every n-th row of a table, so that at most `MAX_ROWS_SEEN` rows are left."""
    step = ceil(len(part) / MAX_ROWS_SEEN)
    if isinstance(part, TablePart) and step > 1:
        return replace(part, values=part.values[::step])
    return part


def shorten_recipe(rows: int, recipe: Recipe = CTR_RECIPE, longest: int | None = None) -> Recipe:
    """Return the recipe with fewer epochs, so that a candidate sees at most `MAX_ROWS_SEEN` rows.

    With any recipe other than `ctr`, the limit is a quarter of that. At least one epoch is
    trained.

    Epochs are reduced rather than rows (`thin_part`), because the winner is trained on all rows:
    candidates should see as many different rows as possible, even if only once.

    Args:
        rows: Number of rows to train on.
        recipe: How to train.
        longest: Largest number of epochs; None for no other limit.
    """
    max_rows_seen = MAX_ROWS_SEEN
    if recipe.name != CTR_RECIPE.name:
        max_rows_seen = MAX_ROWS_SEEN // 4
    epochs = max(1, min(recipe.epochs, max_rows_seen // max(rows, 1)))
    if longest is not None:
        epochs = min(epochs, longest)
    return recipe.with_options(epochs=epochs, warm_up=min(recipe.warm_up, epochs / 10))


def choose_by_validation(
    outcomes: Mapping[str, TrainingResult | str], excluded: Collection[str]
) -> str:
    """Return the network with the lowest loss on the validation part.

    Args:
        outcomes: What `TableTrainer.train_with_designs` returns.
        excluded: Networks that must not win.

    Returns:
        Its name. Of equally good networks, the first one wins; if all trainings failed,
        `BEST_OF_SEARCH`.
    """
    winner = BEST_OF_SEARCH
    lowest_loss = inf
    for name, training in outcomes.items():
        if isinstance(training, str) or name in excluded:
            continue
        loss = training.best["loss"]
        if loss < lowest_loss:
            winner = name
            lowest_loss = loss
    return winner


def _make_results(
    outcomes: Mapping[str, TrainingResult | str], winner: str, test: Part, device: str
) -> tuple[DesignResult, ...]:
    """Compare all networks with the winner, row by row of the test part.

    Args:
        outcomes: The training of each network, or why it failed.
        winner: Name of the winner.
        test: The test part.
        device: Where to evaluate.
    """
    row_losses = {}
    for name, training in outcomes.items():
        if isinstance(training, TrainingResult):
            row_losses[name] = _compute_row_losses(training, test, device)
    results = []
    for name, training in outcomes.items():
        if isinstance(training, str):
            results.append(DesignResult(name, error=training))
            continue
        best_epoch = training.best
        result = DesignResult(
            name,
            params=training.params,
            val_loss=best_epoch["loss"],
            val_quality=best_epoch.get(training.kind.quality),
            loss=training.loss,
            quality=getattr(training, training.kind.quality),
            rate=training.key.recipe["rate"],
        )
        if name != winner and winner in row_losses:
            differences = row_losses[name] - row_losses[winner]
            excess_loss = float(differences.mean())
            result = replace(result, excess_loss=excess_loss, margin=_compute_margin(differences))
        results.append(result)
    return tuple(results)


def _compute_margin(differences: "np.ndarray[Any, np.dtype[np.float64]]") -> float:
    """Return the half-width of the 95 % interval of a mean; infinite for a single row."""
    if len(differences) < 2:
        return inf
    return 1.96 * float(differences.std(ddof=1)) / sqrt(len(differences))


def _compute_row_losses(
    training: TrainingResult, test: Part, device: str
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return the loss of each test row."""
    assert training.model is not None
    batches = (batch.to(device) for batch in test.batches(EVALUATION_ROWS))
    outputs, labels = predict_logits(training.model, batches, torch.contiguous_format)
    if training.kind != BINARY:
        losses = compute_sample_losses(training.kind.loss, outputs.double(), labels)
        return losses.detach().cpu().numpy()
    return compute_row_losses(
        outputs.double().flatten().cpu().numpy(), labels.double().flatten().cpu().numpy()
    )

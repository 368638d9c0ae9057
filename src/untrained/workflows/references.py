"""Let the best network of a search on a table of clicks compete with hand-designed networks.

Candidates are trained briefly from scratch and evaluated on the validation part. The best of them
and the hand-designed networks are then trained on all rows with the same recipe. A learning rate
that suits one network is wrong for another, so each may choose from the same few rates by short
trainings on the validation part. The network with the lowest log loss on the validation part wins.
Each network reads the test part once, which decides nothing.

This module does not depend on proxies or on how candidates were found.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from pathlib import Path
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
from untrained.probe.guard import fastest_kernels, random_state
from untrained.progress import Progress, ProgressCallback
from untrained.reports.confirmation_result import FOUND, LEARNING_RATES, ReferenceResult
from untrained.seeds import derive_seed
from untrained.spaces import Space, fingerprint_space
from untrained.training.batches import EVALUATION_ROWS
from untrained.training.checkpoint import WEIGHTS_FILE
from untrained.training.ctr_metrics import compute_row_losses
from untrained.training.ctr_references import REFERENCES
from untrained.training.distributed import make_training_process
from untrained.training.evaluation import predict_logits
from untrained.training.folder import (
    copy_training,
    list_former_trainings,
    move_training_aside,
    read_training_key,
)
from untrained.training.loop import Training
from untrained.training.recipes import RECIPES, Recipe
from untrained.training.result import TRAINING_FILE, AnotherTrainingError, TrainingResult
from untrained.types import TRANSIENT_FAILURES, Arch, Failure
from untrained.workflows.subject import load_subject, make_click_arch
from untrained.workflows.train import train
from untrained.workflows.train_subject import TrainingSubject

RECIPE = RECIPES["ctr"]
# Largest number of rows that a candidate sees, over all epochs.
MAX_ROWS_SEEN = 100_000
TRAININGS = "trainings.json"
FOLDER = "references"


@dataclass(frozen=True)
class TrainingTrials:
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
    """

    space: str | Space
    data: str
    source: DataSource
    seed: int
    compute: ComputeConfig
    folder: Path
    on_progress: ProgressCallback | None = None

    def validate(self, archs: Sequence[Arch]) -> dict[Arch, dict[str, float]]:
        """Train candidates from scratch and evaluate them on the validation part.

        Returns:
            Loss and AUC by architecture; failed trainings are left out.
        """
        results = {}
        trained_count = 0
        for index, arch in enumerate(archs):
            self._report_progress("confirming", index, len(archs), trained_count)
            result, was_trained = self._train_briefly(self._make_candidate(arch))
            trained_count += was_trained
            if result:
                results[arch] = result
        self._report_progress("confirming", len(archs), len(archs), trained_count)
        return results

    def compare_with_references(
        self, found: Arch, references: Sequence[str] | None = None
    ) -> tuple[ReferenceResult, ...]:
        """Train a found network and hand-designed networks, and compare them with the found one.

        Args:
            found: The best architecture of the short trainings.
            references: Names of hand-designed networks; None for all of them.

        Returns:
            One result per network, the found one first.
        """
        return self.compare_networks(self.train_with_references(found, references), FOUND)

    def train_with_references(
        self, found: Arch, references: Sequence[str] | None = None
    ) -> dict[str, TrainingResult | str]:
        """Train a found network and hand-designed networks, each with the rate that suits it.

        The found network is trained in the folder of the run, as `untrained train` does it.

        Args:
            found: The best architecture of the short trainings.
            references: Names of hand-designed networks; None for all of them.

        Returns:
            The training of each network, or why it failed; that of the found one is the first.
        """
        if references is None:
            references = list(REFERENCES)
        names = [FOUND, *references]
        outcomes: dict[str, TrainingResult | str] = {}

        def report_networks(_: Progress | None = None) -> None:
            # The steps of one training are not reported, but keep the time in the display moving.
            self._report_progress("comparing", len(outcomes), len(names), 0)

        report_networks()
        for name in names:
            try:
                if name == FOUND:
                    outcomes[name] = self._train_found(found, report_networks)
                else:
                    outcomes[name] = self._train_reference(name, report_networks)
            except Interrupted:
                # Ctrl-C ends the whole comparison.
                raise
            except UsageError as error:
                # A training that diverged is a result too.
                outcomes[name] = str(error)
            report_networks()
        return outcomes

    def compare_networks(
        self, outcomes: Mapping[str, TrainingResult | str], winner: str
    ) -> tuple[ReferenceResult, ...]:
        """Compare trained networks with the winner, row by row of the test part.

        Args:
            outcomes: What `train_with_references` returns.
            winner: Name of the network to compare with.
        """
        return _make_results(outcomes, winner, self.source.parts[TEST], self.compute.device)

    def deliver_training(self, training: TrainingResult) -> None:
        """Copy the training of the winner to the folder of the run, unless it has one of it.

        The training of another network is moved aside.
        """
        former = read_training_key(self.folder)
        if former and former.arch == training.key.arch:
            return
        if former:
            move_training_aside(self.folder)
        copy_training(Path(training.folder), self.folder)

    def _train_found(self, arch: Arch, on_progress: ProgressCallback) -> TrainingResult:
        options = self._choose_options(self._make_candidate(arch), on_progress)
        if (self.folder / TRAINING_FILE).is_file() and not (self.folder / WEIGHTS_FILE).is_file():
            # The process was killed while it moved this training aside.
            move_training_aside(self.folder)
        # The user may have trained the network with another recipe, or a hand-designed network may
        # have taken its place. Then look for its training among the earlier ones of the run.
        own_folder = self.folder / FOLDER / f"{FOUND}-{derive_seed(arch):x}"
        for run in (self.folder, *list_former_trainings(self.folder), own_folder):
            former = read_training_key(run)
            if former and former.arch == str(arch):
                with suppress(AnotherTrainingError):
                    return train(str(arch), self.data, space=self.space, run=run, **options)
        former = read_training_key(self.folder)
        if former and former.arch == str(arch):
            return train(str(arch), self.data, space=self.space, run=own_folder, **options)
        if former:
            move_training_aside(self.folder)
        return train(str(arch), self.data, space=self.space, run=self.folder, **options)

    def _train_reference(self, name: str, on_progress: ProgressCallback) -> TrainingResult:
        options = self._choose_options(self._make_reference(name), on_progress)
        folder = self.folder / FOLDER / name
        try:
            return train(make_click_arch(name), self.data, run=folder, **options)
        except AnotherTrainingError:
            # Such as one by an earlier version, or with the rate that was best on fewer rows.
            move_training_aside(folder)
            return train(make_click_arch(name), self.data, run=folder, **options)

    def _choose_options(
        self, subject: TrainingSubject, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Return options of `train` with the learning rate that gives the lowest log loss.

        If every short training fails, the default rate is used.
        """
        best_recipe = RECIPE
        best_loss = inf
        for rate in LEARNING_RATES:
            recipe = RECIPE.with_options(rate=rate)
            result, _ = self._train_briefly(subject, recipe)
            if result and result["loss"] < best_loss:
                best_recipe = recipe
                best_loss = result["loss"]
        return {
            "recipe": best_recipe.label,
            "device": self.compute.device,
            "seed": self.seed,
            "on_progress": on_progress,
        }

    def _train_briefly(
        self, subject: TrainingSubject, recipe: Recipe = RECIPE
    ) -> tuple[dict[str, float] | None, bool]:
        """Train a network on few rows, or read the result of an earlier training.

        Returns:
            Loss and AUC on the validation part, or None if the training failed; and whether it was
            trained now.
        """
        parts = {name: thin_part(self.source.parts[name]) for name in (TRAIN, VAL)}
        recipe = shorten_recipe(len(parts[TRAIN]), recipe)
        path = self.folder / TRAININGS
        key = self._make_key(subject, recipe, parts)
        results = _read_results(path)
        if key in results:
            return _drop_failure(results[key]), False
        try:
            result = catch_failure(
                _train_and_validate, subject, recipe, parts, self.seed, self.compute
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped by Ctrl-C; finished trainings are in {path}, and the same command resumes"
            ) from None
        if isinstance(result, Failure):
            if result.kind in TRANSIENT_FAILURES:
                # A failure of the machine says nothing about the network, so it is not kept.
                return None, True
            results[key] = {"error": str(result)}
        else:
            results[key] = result
        write_atomically(path, json.dumps(results, indent=1) + "\n")
        return _drop_failure(results[key]), True

    def _make_key(self, subject: TrainingSubject, recipe: Recipe, parts: dict[str, Part]) -> str:
        """Return everything that the result of a short training depends on, as text."""
        if subject.subject.space:
            code = fingerprint_space(self.space)
        else:
            code = subject.fingerprint_code()
        return (
            f"{recipe.label} {subject.space} {subject.name} {self.data} "
            f"{fingerprint_samples(parts)} {code} torch {read_torch_version()}, "
            f"seed {self.seed}, {self.compute.device}"
        )

    def _make_candidate(self, arch: Arch) -> TrainingSubject:
        subject = load_subject(arch, self.space, self.compute.device)
        return TrainingSubject(str(arch), arch.space, subject, self.data, self.source, None)

    def _make_reference(self, name: str) -> TrainingSubject:
        subject = load_subject(make_click_arch(name), "", self.compute.device)
        return TrainingSubject(name, "", subject, self.data, self.source, None)

    def _report_progress(self, stage: str, done: int, total: int, measured: int) -> None:
        if self.on_progress:
            self.on_progress(Progress(stage, done, total, measured, 1))


def _read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Read the results of finished short trainings, by key."""
    if not path.is_file():
        return {}
    with read_result_file(path) as results:
        return results


def _drop_failure(result: dict[str, Any]) -> dict[str, float] | None:
    """Return the result of a short training; None if it failed."""
    if "error" in result:
        return None
    return result


def _train_and_validate(
    subject: TrainingSubject,
    recipe: Recipe,
    parts: dict[str, Part],
    seed: int,
    compute: ComputeConfig,
) -> dict[str, float]:
    """Train a network; return loss and AUC of its best epoch on the validation part."""
    process = make_training_process(compute.device)
    network = subject.build_network(process.device, seed)
    training = Training(network, subject.source, recipe, parts, process, seed)
    time_limit = compute.time_limit_seconds or inf
    with random_state(seed), fastest_kernels(compute.device):
        end = training.run(time_limit=time_limit)
    if end == "time":
        raise Unscorable("timeout", f"took longer than {compute.time_limit}")
    assert training.best is not None, "an epoch has ended"
    metrics = training.best.metrics
    if "auc" not in metrics:
        raise Unscorable("error", "all validation rows have the same label; take more rows")
    return {"loss": metrics["loss"], "auc": metrics["auc"]}


def thin_part(part: Part) -> Part:
    """Keep every n-th row of a table, so that at most `MAX_ROWS_SEEN` rows are left."""
    step = ceil(len(part) / MAX_ROWS_SEEN)
    if isinstance(part, TablePart) and step > 1:
        return TablePart(part.values[::step])
    return part


def shorten_recipe(rows: int, recipe: Recipe = RECIPE) -> Recipe:
    """Return the recipe with fewer epochs, so that a candidate sees at most `MAX_ROWS_SEEN` rows.

    The winner is trained on all rows. So candidates see as many different rows as possible, even if
    they see each of them less often.
    """
    epochs = max(1, min(recipe.epochs, MAX_ROWS_SEEN // max(rows, 1)))
    return recipe.with_options(epochs=epochs, warm_up=min(recipe.warm_up, epochs / 10))


def choose_by_validation(
    outcomes: Mapping[str, TrainingResult | str], excluded: Collection[str]
) -> str:
    """Return the network with the lowest log loss on the validation part.

    Args:
        outcomes: What `TrainingTrials.train_with_references` returns.
        excluded: Networks that must not win.

    Returns:
        Its name. Of equally good networks, the first one wins; if all trainings failed, the found
        network.
    """
    winner = FOUND
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
) -> tuple[ReferenceResult, ...]:
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
            results.append(ReferenceResult(name, error=training))
            continue
        best_epoch = training.best
        result = ReferenceResult(
            name,
            params=training.params,
            val_loss=best_epoch["loss"],
            val_auc=best_epoch.get("auc"),
            loss=training.loss,
            auc=training.auc,
            rate=training.key.recipe["rate"],
        )
        if name != winner and winner in row_losses:
            differences = row_losses[name] - row_losses[winner]
            margin = inf
            if len(differences) > 1:
                margin = 1.96 * float(differences.std(ddof=1)) / sqrt(len(differences))
            result = replace(result, excess_loss=float(differences.mean()), margin=margin)
        results.append(result)
    return tuple(results)


def _compute_row_losses(
    training: TrainingResult, test: Part, device: str
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return the log loss of each test row."""
    assert training.model is not None
    batches = (batch.to(device) for batch in test.batches(EVALUATION_ROWS))
    logits, labels = predict_logits(training.model, batches, torch.contiguous_format)
    return compute_row_losses(
        logits.double().flatten().cpu().numpy(), labels.double().flatten().cpu().numpy()
    )

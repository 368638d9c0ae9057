"""Choose how the winner of a contest is trained: on all samples, for the time that is left."""

from dataclasses import dataclass
from math import ceil
from pathlib import Path

from untrained.reports.contest_result import Contest
from untrained.runs.folder import RunFolder
from untrained.training.checkpoint import fingerprint_weights
from untrained.training.folder import read_training_key
from untrained.training.recipes import format_recipe, load_recipe
from untrained.training.result import TrainingKey
from untrained.training.small_pictures import (
    SHORT_TRAINING_EPOCHS,
    estimate_relative_cost,
)
from untrained.workflows.contest_state import get_weights_path

# Longest training in epochs; small networks gain nothing from more. With few samples, an epoch has
# few steps. A training may then have more epochs, up to `ENOUGH_STEPS` steps.
MAX_EPOCHS = 200
MAX_SMALL_DATA_EPOCHS = 600
ENOUGH_STEPS = 6000


@dataclass(frozen=True)
class FinalTraining:
    """Arguments of `train` for the winner of a contest.

    Attributes:
        recipe: What to type for the recipe; None for that of the earlier training or the default.
        start: File of the weights to begin with; None for fresh ones.
        refit: Which parts it is trained on, see `train`.
    """

    recipe: str | None
    start: Path | None
    refit: bool | str = True


def plan_final_training(
    folder: Path, seconds: float | None, refit: bool | str | None = None
) -> FinalTraining | None:
    """Plan the training of the winner of a run.

    The training begins with the weights of the contest and uses the training and the validation
    part. If an earlier call began such a training, the plan repeats its recipe, so that `train`
    continues or reads it, even if `seconds` differs.

    Args:
        folder: The run folder.
        seconds: Longest duration; None for the length of the recipe.
        refit: Which parts to train on, see `train`; None for those of the training that was begun
            before, or else the training and the validation part.

    Returns:
        The plan, or None if the run has no contest.
    """
    contest = Contest.read(RunFolder.read(folder))
    if contest is None:
        return None
    weights_path = get_weights_path(folder, contest.winner_number)
    start = None
    if weights_path.is_file():
        start = weights_path
    recipe = load_recipe(contest.recipe).with_options(rate=contest.winning_entry.rate)
    former_key = read_training_key(folder)
    is_begun = False
    if former_key is not None and former_key.arch == contest.winner and former_key.refit:
        is_begun = refit is None or refit == former_key.refit
    if start is not None and has_other_initial_weights(former_key, start):
        # The contest was held again, with more time or more networks, and the same network won.
        is_begun = False
    if former_key is not None and is_begun:
        return FinalTraining(format_recipe(former_key.recipe), start, former_key.refit)
    if seconds is not None:
        if refit == "all":
            # There are two trainings, and the second one has more samples.
            seconds = seconds / 2
        epoch_seconds = estimate_epoch_seconds(contest)
        if seconds < SHORT_TRAINING_EPOCHS * epoch_seconds:
            # Most steps see reduced pictures, so that there is time for more epochs.
            recipe = recipe.with_options(small_share=contest.small_share)
            epoch_seconds *= estimate_relative_cost(contest.small_share)
        epochs = int(seconds / epoch_seconds)
        samples = contest.train_samples + contest.val_samples
        epochs = max(1, min(epochs, choose_max_epochs(samples, recipe.batch)))
        # A short training must not spend most of its epochs on the warm-up.
        warm_up = min(recipe.warm_up, epochs / 10)
        recipe = recipe.with_options(epochs=epochs, warm_up=warm_up)
    return FinalTraining(recipe.label, start, refit or True)


def has_other_initial_weights(key: TrainingKey | None, start: Path) -> bool:
    """Return whether a training began with other weights than those in the file `start`."""
    return key is not None and bool(key.start) and key.start != fingerprint_weights(start)


def choose_max_epochs(samples: int, batch: int) -> int:
    """Return the longest useful training in epochs."""
    steps_per_epoch = max(1, samples // batch)
    epochs = ceil(ENOUGH_STEPS / steps_per_epoch)
    return min(max(MAX_EPOCHS, epochs), MAX_SMALL_DATA_EPOCHS)


def estimate_epoch_seconds(contest: Contest) -> float:
    """Return how long an epoch of the winner takes on training and validation samples together.

    The contest trains on pictures of full size.
    """
    last_round = contest.winning_entry.rounds[-1]
    sample_seconds = last_round.seconds / last_round.epochs / last_round.samples
    return sample_seconds * (contest.train_samples + contest.val_samples)


def estimate_longest_training(samples: int, step_seconds: float, batch: int) -> float:
    """Return how long the training of a winner takes if it has as many epochs as are useful.

    Args:
        samples: Number of samples.
        step_seconds: How long a step takes.
        batch: Batch size.
    """
    steps_per_epoch = max(1, samples // batch)
    return choose_max_epochs(samples, batch) * steps_per_epoch * step_seconds

"""Choose how the winner of a contest is trained: on all samples, for the time that is left."""

from dataclasses import dataclass
from pathlib import Path

from untrained.reports.contest_result import Contest
from untrained.runs.folder import RunFolder
from untrained.training.folder import read_training_key
from untrained.training.recipes import format_recipe, load_recipe
from untrained.workflows.contest import get_weights_path

# Longest training in epochs. With more, small networks gain nothing.
MAX_EPOCHS = 200


@dataclass(frozen=True)
class FinalTraining:
    """Arguments of `train` for the winner of a contest.

    Attributes:
        recipe: What to type for the recipe.
        start: File of the weights to begin with; None for fresh ones.
    """

    recipe: str
    start: Path | None


def plan_final_training(folder: Path, seconds: float | None) -> FinalTraining | None:
    """Plan the training of the winner of a run.

    It continues with the weights of the contest, on the training and the validation part. If such a
    training was begun before, it is continued or read, whatever its length.

    Args:
        folder: The run folder.
        seconds: Longest duration; None for the length of the recipe.

    Returns:
        The plan, or None if the run has no contest.
    """
    contest = Contest.read(RunFolder.read(folder))
    if contest is None:
        return None
    start: Path | None = get_weights_path(folder, contest.winner_number)
    if start is not None and not start.is_file():
        start = None
    recipe = load_recipe(contest.recipe).with_options(rate=contest.winning_entry.rate)
    former_key = read_training_key(folder)
    if former_key is not None and former_key.arch == contest.winner and former_key.refit:
        return FinalTraining(format_recipe(former_key.recipe), start)
    if seconds is not None:
        epochs = int(seconds / estimate_epoch_seconds(contest))
        recipe = recipe.with_options(epochs=max(1, min(epochs, MAX_EPOCHS)))
    return FinalTraining(recipe.label, start)


def estimate_epoch_seconds(contest: Contest) -> float:
    """Return how long an epoch of the winner takes on the samples of the contest, all together."""
    last_round = contest.winning_entry.rounds[-1]
    sample_seconds = last_round.seconds / last_round.epochs / last_round.samples
    return sample_seconds * (contest.train_samples + contest.val_samples)

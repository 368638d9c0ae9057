"""The rounds of a contest: the number of entries of each round, and how long they are trained."""

from collections.abc import Sequence
from math import ceil

from untrained.workflows.contest_training import VAL_SHARE

# About this fraction of the entries is trained in the next round.
KEPT_SHARE = 1 / 3
# Number of entries in the last round.
FINALISTS = 2
# Largest number of epochs of an entry in each round, even if time is left. With few samples, an
# epoch has few steps. An entry may then have more epochs, up to `ENOUGH_STEPS` steps.
MAX_EPOCHS = (4, 12, 36)
ENOUGH_STEPS = (100, 300, 900)
# The best entry of the first round is trained again with its learning rate times these factors.
RATE_FACTORS = (1 / 3, 3.0)


def plan_rounds(entries: int) -> list[int]:
    """Return the number of entries of each round.

    Example:
        >>> plan_rounds(14)
        [14, 5, 2]
    """
    counts = [entries]
    while counts[-1] > FINALISTS and len(counts) < len(MAX_EPOCHS):
        counts.append(max(FINALISTS, ceil(KEPT_SHARE * counts[-1])))
    return counts


def count_trainings(round_index: int, entries: int) -> int:
    """Return the number of trainings of a round, with those for other learning rates.

    Args:
        round_index: Number of the round, from 0.
        entries: Number of entries of the round.
    """
    if round_index == 0:
        return entries + len(RATE_FACTORS)
    return entries


def choose_max_round_epochs(round_index: int, steps_per_epoch: int) -> int:
    """Return the longest useful training of an entry in a round, in epochs."""
    enough_epochs = ceil(ENOUGH_STEPS[round_index] / steps_per_epoch)
    return max(MAX_EPOCHS[round_index], enough_epochs)


def estimate_first_round(step_seconds: Sequence[float]) -> float:
    """Return how many seconds the first round needs to train every entry for enough steps.

    Args:
        step_seconds: How long a training step of each entry takes.
    """
    training_seconds = [ENOUGH_STEPS[0] * seconds for seconds in step_seconds]
    total_seconds = sum(training_seconds)
    # The trainings with other learning rates take about as long as the average one.
    return total_seconds + len(RATE_FACTORS) * total_seconds / len(step_seconds)


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
        trainings = count_trainings(round_index, count)
        epochs = choose_max_round_epochs(round_index, steps_per_epoch)
        seconds += trainings * epochs * steps_per_epoch * step_seconds
    return seconds

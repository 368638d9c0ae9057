"""Choose how large networks may be, so that the winner of a search can be trained in the time.

If only parameters are limited, the ranking prefers networks with many multiply-adds, and training
some of them would take hours although the user allows minutes. So a few networks are timed before
the search, and the search only proposes networks whose multiply-adds allow `TARGET_EPOCHS` epochs
in the time. Some kinds of networks need less time per multiply-add than others. The limit is that
of the fastest kind, and the contest leaves out networks that turn out to be too slow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from untrained.data.parts import TRAIN, VAL
from untrained.engine.failures import catch_failure
from untrained.seeds import make_generator
from untrained.strategies.limits import ConstrainedSpace, NetworkSize
from untrained.types import Arch, Failure
from untrained.workflows.contest_training import (
    ContestSettings,
    load_training_subject,
    measure_step_seconds,
    split_for_contest,
)

# The training of the winner should have this many epochs.
TARGET_EPOCHS = 80
# Number of networks that are timed.
TIMED_NETWORKS = 4
# Timing takes at most this fraction of the training of the winner, but times at least one network.
MAX_TIMING_SHARE = 0.1
# The limit is doubled until this fraction of `CHECKED_NETWORKS` random networks satisfies it.
MIN_ALLOWED_FRACTION = 0.1
CHECKED_NETWORKS = 20
# After this many doublings, the limit is a thousand times as large and has no effect any more.
MAX_DOUBLINGS = 10


@dataclass(frozen=True)
class TrainableSize:
    """How large networks may be, and how fast they are.

    Attributes:
        max_flops: The largest number of multiply-adds with which a network can be trained long
            enough, or more if too few networks are that small; None for no limit.
        step_seconds: Median duration of a training step of the timed networks, or the duration for
            a network at the limit of multiply-adds if that is shorter.
        samples: Number of training and validation samples.
        designs: Number of known designs within the limits of the user.
    """

    max_flops: float | None
    step_seconds: float
    samples: int
    designs: int


def measure_trainable_size(
    space: ConstrainedSpace, settings: ContestSettings
) -> TrainableSize | None:
    """Time a few networks, and choose the largest number of multiply-adds.

    Args:
        space: The architectures within the limits on size.
        settings: How networks are trained; `final_seconds` is the time for the winner.

    Returns:
        The size, or None if the time is not limited or no network could be timed.
    """
    if settings.final_seconds is None:
        return None
    parts = split_for_contest(settings.source, settings.seed)
    batch = settings.recipe.batch
    highest_speed = 0.0  # multiply-adds per second
    durations = []
    start = perf_counter()
    designs = list(space.list_known_designs().values())
    for arch in _choose_networks_to_time(space, designs):
        subject = load_training_subject(arch, settings)
        step_seconds = catch_failure(measure_step_seconds, subject, settings, parts[TRAIN])
        if not isinstance(step_seconds, Failure):
            flops = NetworkSize(space.space, arch, space.task).flops
            speed = flops * batch / step_seconds
            highest_speed = max(highest_speed, speed)
            durations.append(step_seconds)
        if perf_counter() - start > MAX_TIMING_SHARE * settings.final_seconds:
            break
    if highest_speed == 0:
        return None
    samples = len(parts[TRAIN]) + len(parts[VAL])
    max_flops = highest_speed * settings.final_seconds / (TARGET_EPOCHS * samples)
    typical_seconds = min(median(durations), max_flops * batch / highest_speed)
    return TrainableSize(
        _raise_until_satisfiable(space, max_flops), typical_seconds, samples, len(designs)
    )


def _choose_networks_to_time(space: ConstrainedSpace, designs: Sequence[Arch]) -> Sequence[Arch]:
    """Return known designs, which are of different kinds, or random networks if there are none."""
    if designs:
        return designs[:TIMED_NETWORKS]
    rng = make_generator("networks to time", space.name)
    return [space.sample(rng) for _ in range(TIMED_NETWORKS)]


def _raise_until_satisfiable(space: ConstrainedSpace, max_flops: float) -> float | None:
    """Raise a limit on multiply-adds until enough random networks satisfy it.

    On a slow machine or in a short time, hardly any network can be trained long enough. Then the
    limits of the user decide, and the contest leaves out what is too slow.

    Returns:
        The limit, or None if too few networks satisfy the limits of the user themselves.
    """
    for _ in range(MAX_DOUBLINGS):
        limits = space.limits.with_max_flops(max_flops)
        smaller_space = ConstrainedSpace(space.space, limits, space.task)
        rng = make_generator("networks within the time", space.name)
        fraction = smaller_space.estimate_allowed_fraction(rng, CHECKED_NETWORKS)
        if fraction >= MIN_ALLOWED_FRACTION:
            return limits.max_flops
        max_flops *= 2
    return None

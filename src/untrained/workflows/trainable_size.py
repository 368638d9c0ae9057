"""Choose how large networks may be, so that the winner of a search can be trained in the time.

If only parameters are limited, the ranking prefers networks with many multiply-adds, and training
some of them would take hours although the user allows minutes. So a few networks of different kinds
are timed before the search. A linear model predicts their times per sample from multiply-adds and
from the memory of weights and activations (least squares of relative errors, no negative
coefficients). The search only proposes networks that can be trained for `TARGET_EPOCHS` epochs
according to this model. The contest times its entries again, and leaves out networks that are far
slower than predicted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median
from time import perf_counter

import numpy as np
from scipy.optimize import nnls

from untrained.config import TrainingTimeLimit
from untrained.data.parts import TRAIN, VAL, PartInMemory
from untrained.engine.failures import catch_failure
from untrained.seeds import make_generator
from untrained.strategies.limits import ConstrainedSpace, NetworkSize
from untrained.types import Arch, Failure
from untrained.workflows.contest_training import (
    ContestSettings,
    make_training_setup,
    measure_step_seconds,
    split_for_contest,
)

# The training of the winner should have this many epochs.
TARGET_EPOCHS = 80
# Number of networks that are timed first.
TIMED_NETWORKS = 4
# Number of random networks at the resulting limit that are timed afterwards.
TIMED_RANDOM_NETWORKS = 6
# Each of these two measurements takes at most this fraction of the time of the final training, but
# times at least one network.
MAX_TIMING_SHARE = 0.05
# The limit is raised until this fraction of `CHECKED_NETWORKS` random networks satisfies it.
MIN_ALLOWED_FRACTION = 0.5
CHECKED_NETWORKS = 20


@dataclass(frozen=True)
class TrainableSize:
    """How large networks may be, and how fast they are.

    Attributes:
        limit: Limit on the training time per sample, such that the winner can be trained long
            enough. It is higher if too few networks satisfy that; None for no limit.
        step_seconds: Median duration of a training step of the timed networks, or the duration for
            a network at the limit if that is shorter.
        samples: Number of training and validation samples.
        designs: Number of known designs within the limits of the user.
    """

    limit: TrainingTimeLimit | None
    step_seconds: float
    samples: int
    designs: int


def measure_trainable_size(
    space: ConstrainedSpace, settings: ContestSettings
) -> TrainableSize | None:
    """Time a few networks, and choose how long training on one sample may take.

    Args:
        space: The architectures within the limits on size.
        settings: How networks are trained; `final_seconds` is the time for the winner.

    Returns:
        The size, or None if the time is not limited or no network could be timed.
    """
    if settings.final_seconds is None:
        return None
    parts = split_for_contest(settings.source, settings.seed)
    samples = len(parts[TRAIN]) + len(parts[VAL])
    max_seconds = settings.final_seconds / (settings.relative_cost * TARGET_EPOCHS * samples)
    designs = list(space.list_known_designs().values())
    timings = _NetworkTimings(space, settings, parts[TRAIN])
    timings.add_networks(_choose_networks_to_time(space, designs))
    if not timings.step_seconds:
        return None
    limit = _raise_until_satisfiable(space, timings.fit(max_seconds))
    if limit is not None:
        # Designs at the limits of the user can be far slower than networks at this limit. Small
        # networks need more time per multiply-add and byte, because every operation has a fixed
        # cost. So networks at the limit are timed too, and the prediction is fitted again.
        timings.add_networks(_sample_at_limit(space, limit))
        limit = _raise_until_satisfiable(space, timings.fit(max_seconds))
    typical_seconds = min(median(timings.step_seconds), max_seconds * settings.recipe.batch)
    return TrainableSize(limit, typical_seconds, samples, len(designs))


class _NetworkTimings:
    """The sizes of networks and the durations of their training steps.

    Attributes:
        sizes: Multiply-adds and bytes of weights and activations of each network, for one sample.
        step_seconds: How long a step of each network takes.
    """

    def __init__(
        self, space: ConstrainedSpace, settings: ContestSettings, part: PartInMemory
    ) -> None:
        self._space = space
        self._settings = settings
        self._part = part
        self.sizes: list[tuple[float, float]] = []
        self.step_seconds: list[float] = []

    def add_networks(self, archs: Iterable[Arch]) -> None:
        """Time networks, at least one, for at most a fraction of the time for the winner."""
        assert self._settings.final_seconds is not None
        start = perf_counter()
        for arch in archs:
            self._add_network(arch)
            if perf_counter() - start > MAX_TIMING_SHARE * self._settings.final_seconds:
                break

    def fit(self, max_seconds: float) -> TrainingTimeLimit:
        """Fit the prediction to the networks so far.

        Args:
            max_seconds: How long training on one sample may take.
        """
        batch = self._settings.recipe.batch
        sample_seconds = [seconds / batch for seconds in self.step_seconds]
        return fit_training_time(self.sizes, sample_seconds, max_seconds)

    def _add_network(self, arch: Arch) -> None:
        """Time a network. One that cannot be trained or counted is left out."""
        size = _count_size(self._space, arch)
        if size is None:
            return
        setup = make_training_setup(arch, self._settings)
        seconds = catch_failure(measure_step_seconds, setup, self._settings, self._part)
        if not isinstance(seconds, Failure):
            self.sizes.append(size)
            self.step_seconds.append(seconds)


def fit_training_time(
    sizes: Sequence[tuple[float, float]], seconds: Sequence[float], max_seconds: float
) -> TrainingTimeLimit:
    """Fit the prediction of training times to networks that were timed.

    Args:
        sizes: Multiply-adds and bytes of weights and activations of each network, for one sample.
        seconds: How long training on one sample takes.
        max_seconds: The longest time that is allowed.
    """
    # Relative errors, so that slow networks do not dominate the fit: every row is divided by its
    # time.
    rows = np.array(sizes) / np.array(seconds)[:, None]
    # Columns of equal size, because the numbers differ by orders of magnitude.
    scales = rows.max(axis=0)
    scales[scales == 0] = 1.0
    coefficients = nnls(rows / scales, np.ones(len(rows)))[0] / scales
    return TrainingTimeLimit(max_seconds, float(coefficients[0]), float(coefficients[1]))


def _count_size(space: ConstrainedSpace, arch: Arch) -> tuple[float, float] | None:
    """Return multiply-adds and memory of a network; None if they cannot be counted."""
    size = NetworkSize(space.space, arch, space.task)

    def count() -> tuple[float, float]:
        return (size.flops, size.memory)

    counts = catch_failure(count)
    if isinstance(counts, Failure):
        return None
    return counts


def _choose_networks_to_time(space: ConstrainedSpace, designs: Sequence[Arch]) -> Sequence[Arch]:
    """Return known designs, which are of different kinds, or random networks if there are none."""
    if designs:
        return designs[:TIMED_NETWORKS]
    rng = make_generator("networks to time", space.name)
    return [space.sample(rng) for _ in range(TIMED_NETWORKS)]


def _sample_at_limit(space: ConstrainedSpace, limit: TrainingTimeLimit) -> Iterator[Arch]:
    """Sample networks that the search would propose."""
    limited_space = ConstrainedSpace(space.space, space.limits, space.task)
    limited_space.limit_training_time(limit)
    rng = make_generator("networks at the limit", space.name)
    for _ in range(TIMED_RANDOM_NETWORKS):
        yield limited_space.sample(rng)


def _raise_until_satisfiable(
    space: ConstrainedSpace, limit: TrainingTimeLimit
) -> TrainingTimeLimit | None:
    """Raise a limit on the training time until enough random networks satisfy it.

    On a slow machine or in a short time, hardly any network can be trained long enough. The limit
    is then the time that `MIN_ALLOWED_FRACTION` of random networks need at their smallest scale,
    and the contest leaves out what is too slow.

    Returns:
        The limit, or None if too few networks satisfy even the limits of the user.
    """
    rng = make_generator("networks within the time", space.name)
    shortest_times = []
    for _ in range(CHECKED_NETWORKS):
        smallest = _find_smallest(space, space.space.sample(rng))
        size = None if smallest is None else _count_size(space, smallest)
        if size is not None:
            shortest_times.append(limit.predict_seconds(*size))
    needed_count = ceil(MIN_ALLOWED_FRACTION * CHECKED_NETWORKS)
    if len(shortest_times) < needed_count:
        return None
    shortest_times.sort()
    return replace(limit, seconds=max(limit.seconds, shortest_times[needed_count - 1]))


def _find_smallest(space: ConstrainedSpace, arch: Arch) -> Arch | None:
    """Return an architecture at the smallest scale that satisfies the limits; None if none does."""
    scaled_archs = [arch]
    if space.space.scale is not None:
        scaled_archs = space.space.list_scaled(arch)
    for scaled_arch in scaled_archs:
        if space.find_violation(scaled_arch) is None:
            return scaled_arch
    return None

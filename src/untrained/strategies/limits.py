"""The architectures of a space that satisfy the limits of the user.

`ConstrainedSpace.find_violation` checks all limits of an architecture, and a strategy never sees an
architecture that violates one. Parameters, multiply-adds and memory come from the formula of the
space if it has one. Otherwise they are counted on the meta device, so that no real network has to
be built. Memory is `Probe.memory`: parameters, buffers and the activations of one
sample, in float32. `max_latency.py` measures or predicts latency.

A search that trains its winner can also limit the predicted time of that training
(`limit_training_time`). The user does not set this limit.

If the space names a choice that scales networks, such as the width, `ConstrainedSpace` sets it to
the largest option within the upper limits on size, so that networks use the size that the user
allows.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from time import perf_counter
from typing import Any

import numpy as np
import torch

from untrained.config import LatencyLimit, Limits, TrainingTimeLimit, name_limit_option
from untrained.engine.failures import catch_failure
from untrained.errors import UsageError
from untrained.probe import Probe
from untrained.spaces import Counts, NoAlternativeError, Space
from untrained.strategies.base import SamplingTimeError
from untrained.types import Arch, Batch, Failure, Task

# After this many samples, `sample` mutates the one that is closest to the limits. After as many
# mutations it gives up.
MAX_ATTEMPTS = 500
# The first architecture of a search with a limited time is sampled for at least this many seconds.
MIN_FIRST_SAMPLE_SECONDS = 20.0
# After this many mutations of an architecture, `mutate` returns a new sample.
_MAX_NEIGHBOURS = 100
# Spaces with small networks for tables, which an error message suggests.
_SMALL_TABLE_SPACES = ("mlp", "nasrec_small(blocks=2)")

# Name of the limit on the predicted training time, which is not a field of `Limits`.
_MAX_TRAINING_TIME = "max_training_time"
# The property of `NetworkSize` that a limit on size restricts.
SIZE_PROPERTIES = {
    "max_params": "params",
    "min_params": "params",
    "max_flops": "flops",
    "max_memory": "memory",
}
_UNITS = {"params": "parameters", "flops": "multiply-adds", "memory": "bytes"}
# What a limit restricts, in the words of a message.
_QUANTITIES = {
    "max_params": "number of parameters",
    "min_params": "number of parameters",
    "max_flops": "number of multiply-adds",
    "max_memory": "memory",
    "max_latency": "latency",
}


class NetworkSize:
    """The size of an architecture's network.

    Values are computed when they are first read, because counting is slow.

    Args:
        space: The space.
        arch: The architecture.
        task: What the network is built for.
    """

    def __init__(self, space: Space, arch: Arch, task: Task) -> None:
        self._space = space
        self._arch = arch
        self._task = task

    @cached_property
    def _counts(self) -> Counts | None:
        return self._space.counts(self._arch, self._task)

    @cached_property
    def probe(self) -> Probe:
        """A probe of the network on the meta device, with one sample."""
        model = self._space.build(self._arch, self._task, device="meta")
        inputs = torch.empty(1, *self._task.input_shape, device="meta")
        targets = torch.zeros(1, dtype=torch.long, device="meta")
        return Probe(model, Batch(inputs, targets))

    @property
    def params(self) -> float:
        """Number of parameters."""
        if self._counts:
            return self._counts.params
        return self.probe.params

    @property
    def flops(self) -> float:
        """Multiply-adds of one sample."""
        if self._counts:
            return self._counts.flops
        return self.probe.macs

    @property
    def has_memory_formula(self) -> bool:
        """Whether `memory` is computed without building the network."""
        return self._counts is not None and self._counts.memory is not None

    @property
    def memory(self) -> float:
        """Bytes of weights and activations of one sample."""
        if self._counts and self._counts.memory is not None:
            return self._counts.memory
        return self.probe.memory


@dataclass(frozen=True, slots=True)
class LimitViolation:
    """A limit that an architecture violates.

    Attributes:
        limit: Name of the limit, such as "max_params" or "max_training_time".
        value: The value of the architecture, or None if it cannot be counted or measured.
        excess: The factor by which the value is too large or too small. If several upper limits on
            size are violated, the largest of their factors. Infinite without a value.
        reason: Why there is no value, if that is known.
    """

    limit: str
    value: float | None
    excess: float
    reason: str = ""


class ConstrainedSpace:
    """The architectures of a space that satisfy all limits. Strategies use it like a space.

    Args:
        space: The space.
        limits: The limits; None for no limits.
        task: What networks are built for; None for the task of the space.
        latency: Function that returns the latency of an architecture in seconds. Required if the
            limits include latency.

    Attributes:
        rejected: How many proposed architectures were rejected, by limit.

    Raises:
        UsageError: The limits include latency, but `latency` is missing.
    """

    def __init__(
        self,
        space: Space,
        limits: Limits | None = None,
        task: Task | None = None,
        latency: Callable[[Arch], float] | None = None,
    ) -> None:
        self.space = space
        self.limits = limits or Limits()
        self.task = task or space.task
        if self.limits.max_latency is not None and latency is None:
            raise UsageError(
                "a latency limit needs a function that measures latency: "
                "ConstrainedSpace(..., latency=...)"
            )
        self._latency = latency
        self.rejected: Counter[str] = Counter()
        self._violations: dict[Arch, LimitViolation | None] = {}
        self._training_time: TrainingTimeLimit | None = None
        # When sampling ends, by `perf_counter`.
        self._deadline = inf
        # An architecture that `sample` returns if it finds none in the time.
        self._fallback: Arch | None = None
        self._has_sampled = False

    @property
    def name(self) -> str:
        """Name of the space."""
        return self.space.name

    @property
    def size(self) -> int | None:
        """Number of architectures; None if it is unknown, as it always is with limits."""
        if self.has_limits:
            return None
        return self.space.size

    @property
    def has_limits(self) -> bool:
        """Whether any limit is set."""
        return bool(self.limits) or self._training_time is not None

    def __iter__(self) -> Iterator[Arch]:
        return filter(self.allows, self.space)

    def sample(self, rng: np.random.Generator) -> Arch:
        """Sample an architecture that satisfies the limits.

        If `MAX_ATTEMPTS` samples violate a limit, the one closest to the limits is mutated, and
        mutations that come closer replace it, for as many attempts again.

        Raises:
            UsageError: No architecture was found.
            SamplingTimeError: The time that `limit_sampling_time` set is over. The first call
                does not raise this, because a search needs at least one architecture. It samples
                for `MIN_FIRST_SAMPLE_SECONDS` if the time is shorter, and then raises a UsageError.
        """
        if self._has_sampled or self._fallback is not None:
            arch = self._sample_until(rng, self._deadline)
        else:
            deadline = max(self._deadline, perf_counter() + MIN_FIRST_SAMPLE_SECONDS)
            arch = self._sample_until(rng, deadline, raises_at_deadline=True)
        if arch is None:
            if self._fallback is None:
                raise SamplingTimeError
            arch = self._fallback
            self._fallback = None
        self._has_sampled = True
        return arch

    def check(self, rng: np.random.Generator, seconds: float) -> Arch:
        """Check that the limits can be satisfied, and return an architecture that does.

        The architecture becomes the fallback of `sample`, see `set_fallback`.

        Args:
            rng: Random generator.
            seconds: How long this may take.

        Raises:
            UsageError: No architecture was found.
        """
        arch = self._sample_until(rng, perf_counter() + seconds, raises_at_deadline=True)
        assert arch is not None
        self.set_fallback(arch)
        return arch

    def set_fallback(self, arch: Arch) -> None:
        """Let `sample` return this architecture once if it finds none in the sampling time."""
        self._fallback = arch

    def limit_sampling_time(self, seconds: float) -> None:
        """From now on, stop sampling and mutating after this many seconds.

        Counting the parameters of a network can take milliseconds, and if few networks satisfy the
        limits, hundreds are counted for one sample.
        """
        if self.has_limits:
            self._deadline = perf_counter() + seconds

    def _sample_until(
        self, rng: np.random.Generator, deadline: float, raises_at_deadline: bool = False
    ) -> Arch | None:
        """Sample an architecture within the limits.

        Args:
            rng: Random generator.
            deadline: When sampling ends, by `perf_counter`.
            raises_at_deadline: Whether to raise an error at the deadline. The error names the
                architecture that is closest to the limits, so at least one is sampled.

        Returns:
            The architecture, or None if none is found before the deadline.

        Raises:
            UsageError: No architecture was found in all attempts, or before the deadline.
        """
        closest: Arch | None = None
        # The closest of those that can be trained in the time. If there are any, the message names
        # the limit that they violate, because more time would not help.
        closest_in_time: Arch | None = None
        for attempt in range(2 * MAX_ATTEMPTS):
            is_time_over = perf_counter() >= deadline
            if is_time_over and not raises_at_deadline:
                return None
            if is_time_over and closest is not None:
                raise UsageError(self._describe_failure(closest_in_time or closest, attempt))
            if closest is None or attempt < MAX_ATTEMPTS:
                proposal = self.space.sample(rng)
            else:
                try:
                    proposal = self.space.mutate(closest, rng)
                except NoAlternativeError:
                    proposal = self.space.sample(rng)
            for arch in self._list_candidates(proposal):
                if self.allows(arch):
                    return arch
                if closest is None or self._get_excess(arch) < self._get_excess(closest):
                    closest = arch
                if self._get_violated_limit(arch) != _MAX_TRAINING_TIME and (
                    closest_in_time is None
                    or self._get_excess(arch) < self._get_excess(closest_in_time)
                ):
                    closest_in_time = arch
        assert closest is not None
        raise UsageError(self._describe_failure(closest_in_time or closest, 2 * MAX_ATTEMPTS))

    def mutate(self, arch: Arch, rng: np.random.Generator) -> Arch:
        """Return a neighbour that satisfies the limits, or a sample if none is found."""
        try:
            neighbour = self._find_allowed(lambda: self.space.mutate(arch, rng), arch)
        except NoAlternativeError:
            neighbour = None
        if neighbour is not None:
            return neighbour
        return self.sample(rng)

    def cross(self, a: Arch, b: Arch, rng: np.random.Generator) -> Arch:
        """Return a child that satisfies the limits, or else a neighbour of the first parent."""
        child = self._find_allowed(lambda: self.space.cross(a, b, rng))
        if child is not None:
            return child
        return self.mutate(a, rng)

    def limit_training_time(self, limit: TrainingTimeLimit) -> None:
        """Limit the predicted training time.

        Call this before the first architecture is proposed.
        """
        self._training_time = limit
        self._violations.clear()

    def list_known_designs(self) -> dict[str, Arch]:
        """Return the known designs of the space by name, each as large as the limits allow.

        Designs that satisfy the limits at no scale are left out. Without limits they have the size
        that they were written with.
        """
        designs = {}
        for name, arch in self.space.known_designs(self.task).items():
            fitting_arch = self._fit_design(arch)
            if fitting_arch is not None:
                designs[name] = fitting_arch
        return designs

    # Supernets of different spaces share no type.
    def supernet(self, device: str = "cpu") -> Any:
        """Return the supernet of the space for the same task."""
        return self.space.supernet(self.task, device)

    def allows(self, arch: Arch) -> bool:
        """Return whether an architecture satisfies all limits. If not, count the rejection."""
        violation = self.find_violation(arch)
        if violation is None:
            return True
        self.rejected[violation.limit] += 1
        return False

    def find_violation(self, arch: Arch) -> LimitViolation | None:
        """Return the first limit that an architecture violates; None if it satisfies all.

        An architecture is checked once, and the result is remembered.
        """
        if arch not in self._violations:
            self._violations[arch] = self._check_limits(arch)
        return self._violations[arch]

    def _scale_to_limits(self, arch: Arch) -> Arch:
        """Return an architecture with the largest scale that satisfies the upper limits on size.

        If no scale satisfies them, it has the smallest one. Without such limits, and in a space
        without a choice that scales networks, it is returned as it is.
        """
        if self.space.scale is None or not self._list_maxima():
            return arch

        def is_within_maxima(scaled: Arch) -> bool:
            return self._check_maxima(scaled) is None

        scaled_archs = self.space.list_scaled(arch)
        largest = _find_largest(scaled_archs, is_within_maxima)
        if largest is None:
            return scaled_archs[0]
        return largest

    def _fit_design(self, design: Arch) -> Arch | None:
        """Return a design at the largest scale that satisfies all limits; None if none does."""

        def is_allowed(arch: Arch) -> bool:
            return self.find_violation(arch) is None

        scaled_arch = self._scale_to_limits(design)
        if is_allowed(scaled_arch):
            return scaled_arch
        if self.space.scale is None:
            return None
        # Latency is measured, which takes time. So smaller scales are tried only if necessary.
        scaled_archs = self.space.list_scaled(design)
        smaller_archs = scaled_archs[: scaled_archs.index(scaled_arch)]
        return _find_largest(smaller_archs, is_allowed)

    def _check_limits(self, arch: Arch) -> LimitViolation | None:
        limits = self.limits
        violation = self._check_maxima(arch)
        if violation is not None:
            return violation
        if limits.min_params is not None:
            size = NetworkSize(self.space, arch, self.task)
            params = _count_size(size, "params")
            if isinstance(params, Failure):
                return LimitViolation("min_params", None, inf, str(params))
            if params < limits.min_params:
                return LimitViolation("min_params", params, limits.min_params / max(params, 1))
        # Latency comes last, because measuring it is expensive (`max_latency.py`).
        if limits.max_latency is not None and self._latency is not None:
            seconds = self._latency(arch)
            if seconds == inf:
                return LimitViolation("max_latency", None, inf)
            if limits.max_latency.is_exceeded_by(seconds):
                return LimitViolation("max_latency", seconds, seconds / limits.max_latency.seconds)
        return None

    def _check_maxima(self, arch: Arch) -> LimitViolation | None:
        """Return the first upper limit on size or training time that an architecture violates."""
        size = NetworkSize(self.space, arch, self.task)
        violation = None
        for limit, maximum in self._list_maxima().items():
            needs_memory = limit in ("max_memory", _MAX_TRAINING_TIME)
            if violation is not None and needs_memory and not size.has_memory_formula:
                # Counting memory builds the network on the meta device, which is not worth the time
                # for an architecture that is rejected anyway.
                break
            value = self._get_value(size, limit)
            if isinstance(value, Failure):
                return LimitViolation(limit, None, inf, str(value))
            if value <= maximum:
                continue
            excess = value / maximum
            if violation is None:
                violation = LimitViolation(limit, value, excess)
            elif excess > violation.excess:
                # Mutations that come closer to one limit must not move away from another.
                violation = replace(violation, excess=excess)
        return violation

    def _list_maxima(self) -> dict[str, float]:
        """Return the upper limits on size and training time that are set, by name."""
        limits = self.limits
        maxima = {
            "max_params": limits.max_params,
            "max_flops": limits.max_flops,
            "max_memory": limits.max_memory,
        }
        if self._training_time is not None:
            maxima[_MAX_TRAINING_TIME] = self._training_time.seconds
        return {name: maximum for name, maximum in maxima.items() if maximum is not None}

    def _get_value(self, size: NetworkSize, limit: str) -> float | Failure:
        """Return the value of a network that an upper limit bounds, or why it cannot be counted."""
        if limit != _MAX_TRAINING_TIME:
            return _count_size(size, SIZE_PROPERTIES[limit])
        assert self._training_time is not None
        flops = _count_size(size, "flops")
        memory = _count_size(size, "memory")
        if isinstance(flops, Failure):
            return flops
        if isinstance(memory, Failure):
            return memory
        return self._training_time.predict_seconds(flops, memory)

    def _find_allowed(self, propose: Callable[[], Arch], parent: Arch | None = None) -> Arch | None:
        """Return the first of some proposals that satisfies the limits; None if none does.

        A proposal that is equal to `parent` after scaling is skipped.
        """
        for _ in range(_MAX_NEIGHBOURS):
            if perf_counter() >= self._deadline:
                return None
            for arch in self._list_candidates(propose()):
                if arch != parent and self.allows(arch):
                    return arch
        return None

    def _list_candidates(self, proposal: Arch) -> list[Arch]:
        """Return what to check for a proposal of the space: the largest scale within the limits.

        With a latency limit, the proposal itself follows, because a network that uses all of the
        allowed size is often too slow.
        """
        scaled_arch = self._scale_to_limits(proposal)
        if self.limits.max_latency is None or scaled_arch == proposal:
            return [scaled_arch]
        return [scaled_arch, proposal]

    def _get_excess(self, arch: Arch) -> float:
        """Return the factor by which a rejected architecture violates the limits."""
        violation = self._violations[arch]
        assert violation is not None
        return violation.excess

    def _get_violated_limit(self, arch: Arch) -> str:
        """Return the name of the limit that a rejected architecture violates."""
        violation = self._violations[arch]
        assert violation is not None
        return violation.limit

    def _get_bound(self, limit: str) -> float:
        """Return the number that the user set for a limit."""
        bound = getattr(self.limits, limit)
        if isinstance(bound, LatencyLimit):
            return bound.seconds
        return float(bound)

    def _describe_failure(self, closest_arch: Arch, attempts: int) -> str:
        """Return a message with the limit that is too strict and the closest value to it.

        Args:
            closest_arch: The architecture that is closest to the limits.
            attempts: Number of sampled architectures.
        """
        violation = self._violations[closest_arch]
        assert violation is not None
        limit = violation.limit
        if limit == _MAX_TRAINING_TIME:
            return (
                f"{self.name}: none of {attempts} sampled architectures within the other "
                "limits can be trained in the available time; raise --time"
            )
        option = name_limit_option(limit)
        if violation.value is None:
            # Any architecture with a value would be closer to the limits.
            reason = f" ({violation.reason})" if violation.reason else ""
            return (
                f"{self.name}: {option} cannot be checked, because the {_QUANTITIES[limit]} could "
                f"not be determined for any sampled architecture{reason}; leave out {option}"
            )
        closest = _format_amount(limit, violation.value)
        bound = _format_amount(limit, self._get_bound(limit))
        comparison = "at most"
        advice = f"raise {option}"
        if limit == "min_params":
            comparison = "at least"
            advice = f"lower {option}"
        elif self.task.vocabularies:
            advice += self._name_smaller_spaces()
        # Architectures that satisfy this limit may violate another one.
        return (
            f"{self.name}: none of {attempts} sampled architectures satisfies all limits; the "
            f"closest has {closest}, but {option} allows {comparison} {bound}; {advice}"
        )

    def _name_smaller_spaces(self) -> str:
        """Return advice to search a smaller space for tables; empty if this space is not large."""
        if self.name.partition("(")[0] not in ("nasrec_small", "nasrec"):
            return ""
        options = []
        for space_name in _SMALL_TABLE_SPACES:
            if space_name != self.name:
                options.append(f'--space "{space_name}"')
        return f", or search smaller networks with {' or '.join(options)}"


def _find_largest(scaled_archs: Sequence[Arch], is_allowed: Callable[[Arch], bool]) -> Arch | None:
    """Return the largest architecture that is allowed; None if none is.

    Args:
        scaled_archs: One architecture at all scales, smallest first. Networks grow with the scale,
            so a binary search finds the largest.
        is_allowed: Whether an architecture satisfies the limits.
    """
    # All architectures before `low` are allowed, those from `high` on are not.
    low = 0
    high = len(scaled_archs)
    while low < high:
        middle = (low + high) // 2
        if is_allowed(scaled_archs[middle]):
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return None
    return scaled_archs[low - 1]


def _count_size(size: NetworkSize, name: str) -> float | Failure:
    """Return a property of a size, or the failure if the network cannot be built or counted."""
    count: float | Failure = catch_failure(getattr, size, name)
    return count


def _format_amount(limit: str, value: float) -> str:
    if limit == "max_latency":
        return f"{value * 1e3:.4g} ms"
    unit = _UNITS[SIZE_PROPERTIES[limit]]
    return f"{value:,.0f} {unit}"

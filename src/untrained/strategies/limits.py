"""Limits, and the part of a space that keeps to them.

Parameters and multiply-adds are those of the space's formula where it has one; otherwise they are counted on the meta
device, as memory always is, before anything is built for real. Memory is what
`Probe.memory` says: parameters, buffers and the activations of one sample, in float32. Latency comes from whoever
measures or predicts it (`latency.py`). This file knows nothing of strategies: `Feasible` looks like a space to them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch

from untrained.engine.measure import device_name
from untrained.errors import Unscorable, UsageError, unknown
from untrained.probe import Probe
from untrained.spaces import Counts, Space
from untrained.types import Arch, Batch, Task

TRIES = 500  # samples, and then steps towards the limits, before they count as unsatisfiable
_NEAR = 100  # mutations of one architecture before another is drawn

# ------------------------------------------------------------------------------------------------- as people write

_TIMES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_NUMBER = r"(\d+(?:\.\d*)?(?:e\+?\d+)?) ?"


@dataclass(frozen=True, slots=True)
class Pace:
    """A latency: seconds for one sample on a device."""

    seconds: float
    device: str = "cpu"

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:.4g} ms on {self.device}"


def number(said: str | float, what: str = "number") -> float:
    """`2M`, `600M`, `1.5k`, `2e6`: powers of 1000."""
    match = re.fullmatch(rf"{_NUMBER}([kKMGT]?)", str(said).strip())
    return _positive(float(match[1]) * _TIMES[match[2]] if match else 0.0, said, what, "2M or 600M")


def size(said: str | float, what: str = "size") -> float:
    """Bytes: `1.5GB`, `300MB`, also `1GiB` (powers of 1024)."""
    match = re.fullmatch(rf"{_NUMBER}([kKMGT]?|[KMG]i)B?", str(said).strip())
    return _positive(float(match[1]) * _TIMES[match[2]] if match else 0.0, said, what, "1.5GB or 300MB")


def pace(said: "str | Pace", what: str = "latency") -> Pace:
    """`5ms`, `5ms@cpu`, `0.2s@cuda`."""
    if isinstance(said, Pace):
        return said
    match = re.fullmatch(rf"{_NUMBER}(s|ms|us)(?:@([\w:]+))?", str(said).strip())
    seconds = _positive(float(match[1]) * _SECONDS[match[2]] if match else 0.0, said, what, "5ms or 5ms@cpu")
    device = match[3] if match else None
    return Pace(seconds, device_name(device or "cpu"))


def _positive(value: float, said: Any, what: str, example: str) -> float:
    if not 0 < value < float("inf"):
        raise UsageError(f"{said!r} is not a {what.replace('_', ' ')}; write it like {example}")
    return value


# ---------------------------------------------------------------------------------------------------------- limits


@dataclass(frozen=True, slots=True)
class Limits:
    """What an architecture must keep to; None where nothing is asked. Memory in bytes."""

    max_params: float | None = None
    min_params: float | None = None
    max_flops: float | None = None
    max_memory: float | None = None
    max_latency: Pace | None = None

    @classmethod
    def read(cls, **said: Any) -> "Limits":
        """The limits as people write them: `Limits.read(max_params="2M", max_latency="5ms@cpu")`."""
        readers: dict[str, Callable[[Any, str], Any]] = {"max_memory": size, "max_latency": pace}
        known = [field.name for field in fields(cls)]
        for name in said:
            if name not in known:
                raise unknown("limit", name, known)
        return cls(**{name: readers.get(name, number)(s, name) for name, s in said.items() if s is not None})

    def __post_init__(self) -> None:
        if self.max_params and self.min_params and self.min_params > self.max_params:
            raise UsageError(
                f"no network has at least {self.min_params:,.0f} and at most {self.max_params:,.0f} parameters; "
                "lower min_params or raise max_params"
            )

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))


class Size:
    """How large an architecture is: by formula, or counted on the meta device and only as far as somebody asks."""

    def __init__(self, space: Space, arch: Arch, task: Task) -> None:
        self._space, self._arch, self._task = space, arch, task

    @cached_property
    def _told(self) -> Counts | None:
        return self._space.counts(self._arch, self._task)

    @cached_property
    def probe(self) -> Probe:
        model = self._space.build(self._arch, self._task, device="meta")
        inputs = torch.empty(1, *self._task.input_shape, device="meta")
        return Probe(model, Batch(inputs, torch.zeros(1, dtype=torch.long, device="meta")))

    @property
    def params(self) -> float:
        return self._told.params if self._told else self.probe.params

    @property
    def flops(self) -> float:
        return self._told.flops if self._told else self.probe.macs

    @property
    def memory(self) -> float:
        return self.probe.memory


@dataclass(frozen=True, slots=True)
class Breach:
    """The limit that an architecture does not keep, and what it has instead; None where that cannot be counted."""

    limit: str
    value: float | None


class Feasible:
    """The architectures of a space within limits. `rejected` counts what was drawn and turned down, by limit."""

    def __init__(
        self,
        space: Space,
        limits: Limits | None = None,
        task: Task | None = None,
        latency: Callable[[Arch], float] | None = None,
    ) -> None:
        """`latency` tells seconds, where these are limited."""
        self.space, self.limits, self.task = space, limits or Limits(), task or space.task
        if self.limits.max_latency is not None and latency is None:
            raise UsageError(
                "a limit of latency needs somebody to measure it: Feasible(..., latency=LatencyModel(...))"
            )
        self._latency = latency
        self.rejected: Counter[str] = Counter()
        self._known: dict[Arch, Breach | None] = {}

    @property
    def name(self) -> str:
        return self.space.name

    @property
    def size(self) -> int | None:
        """How many architectures there are, where that is known: under limits it is not."""
        return None if self.limits else self.space.size

    def __iter__(self) -> Iterator[Arch]:
        return filter(self.allows, self.space)

    def sample(self, rng: np.random.Generator) -> Arch:
        """A sample of the space that keeps to the limits. Where `TRIES` samples do not, the closest of them is mutated
        towards the limits, as often again."""
        closest: Arch | None = None
        for tried in range(2 * TRIES):
            arch = self.space.sample(rng) if closest is None or tried < TRIES else self.space.mutate(closest, rng)
            if self.allows(arch):
                return arch
            if closest is None or self._excess(arch) < self._excess(closest):
                closest = arch
        assert closest is not None
        raise UsageError(self._unsatisfiable(closest))

    def mutate(self, arch: Arch, rng: np.random.Generator) -> Arch:
        """A neighbour within the limits; where none is found, a sample."""
        return self._first(lambda: self.space.mutate(arch, rng)) or self.sample(rng)

    def cross(self, a: Arch, b: Arch, rng: np.random.Generator) -> Arch:
        """A child within the limits; where none is found, a neighbour of the first parent."""
        return self._first(lambda: self.space.cross(a, b, rng)) or self.mutate(a, rng)

    def supernet(self, device: str = "cpu") -> Any:
        """The supernet of the space, for the same task."""
        return self.space.supernet(self.task, device)

    def allows(self, arch: Arch) -> bool:
        """Whether the architecture keeps to the limits; one that does not is counted."""
        breach = self.breach(arch)
        if breach is not None:
            self.rejected[breach.limit] += 1
        return breach is None

    def breach(self, arch: Arch) -> Breach | None:
        """The first limit that the architecture does not keep; each is checked once."""
        if arch not in self._known:
            self._known[arch] = self._check(arch)
        return self._known[arch]

    def _check(self, arch: Arch) -> Breach | None:
        limits, size = self.limits, Size(self.space, arch, self.task)
        for name, limit in (("params", limits.max_params), ("flops", limits.max_flops), ("memory", limits.max_memory)):
            try:
                value = getattr(size, name) if limit is not None else 0
            except Unscorable:
                return Breach(f"max_{name}", None)
            if limit is not None and value > limit:
                return Breach(f"max_{name}", value)
        if limits.min_params is not None and size.params < limits.min_params:
            return Breach("min_params", size.params)
        if limits.max_latency is not None and self._latency is not None:
            seconds = self._latency(arch)
            return Breach("max_latency", seconds) if seconds > limits.max_latency.seconds else None
        return None

    def _first(self, draw: Callable[[], Arch]) -> Arch | None:
        return next((arch for arch in (draw() for _ in range(_NEAR)) if self.allows(arch)), None)

    def _excess(self, arch: Arch) -> float:
        """How far an architecture is beyond the limit it breaks, in proportion."""
        breach = self._known[arch]
        if breach is None or breach.value is None:
            return float("inf")
        ratio = breach.value / self._allowed(breach.limit)
        return 1 / max(ratio, 1e-12) if breach.limit == "min_params" else ratio

    def _allowed(self, limit: str) -> float:
        value = getattr(self.limits, limit)
        return value.seconds if isinstance(value, Pace) else float(value)

    def _unsatisfiable(self, arch: Arch) -> str:
        closest = self._known[arch]
        assert closest is not None
        found = "none that could be counted" if closest.value is None else _said(closest.limit, closest.value)
        wanted = _said(closest.limit, self._allowed(closest.limit))
        side, advice = ("least", "lower") if closest.limit == "min_params" else ("most", "raise")
        return (
            f"{self.name}: none of {2 * TRIES} drawn keeps to at {side} {wanted}; the closest had {found}; "
            f"{advice} {closest.limit}"
        )


def _said(limit: str, value: float) -> str:
    if limit == "max_latency":
        return f"{value * 1e3:.4g} ms"
    unit = {"params": "parameters", "flops": "multiply-adds", "memory": "bytes"}[limit.partition("_")[2]]
    return f"{value:,.0f} {unit}"

"""Which networks of a supernet are trained in a step, and how their gradients come to its weights.

    uniform    one architecture, as the space draws them
    sandwich   the largest, the smallest and two that the space draws (Yu and Huang, arXiv:1903.05134)
    any        any number of options of every choice at once, each kept by the toss of a coin (NASRec, arXiv:2207.07187:
               any-path with binomial-0.5). At first the whole supernet instead, with a chance that falls to nothing
               over a fifth of the steps. A supernet that cannot mix options takes one architecture as the space draws
               it, which in NASRec's spaces has any number of connections, and the largest for the whole.

A step's networks depend on the seed and the number of the step alone. Knows nothing of data, losses or optimisers.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.rng import generator
from untrained.spaces import Space
from untrained.types import Arch, Task

WHOLE = 0.2  # share of the steps of which some train the whole supernet: NASRec has 15,000 of 71,626
TRIES = 60  # mutations on the way to the largest and the smallest


@dataclass
class Paths:
    """`at(step)` gives the networks of a step."""

    kind: str
    space: Space
    task: Task
    supernet: Any
    seed: int
    steps: int

    def at(self, step: int) -> Iterator[nn.Module]:
        rng = generator("warm-up", "paths", self.space.name, self.seed, step)
        if self.kind == "any":
            yield self._any(rng, whole=rng.random() < 1 - step / (WHOLE * self.steps))
            return
        ends = (self.largest, self.smallest) if self.kind == "sandwich" else ()
        for arch in (*ends, *(self.space.sample(rng) for _ in range(2 if ends else 1))):
            yield self.supernet.subnet(arch)

    @property
    def each_step(self) -> int:
        """How many networks a step has."""
        return 4 if self.kind == "sandwich" else 1

    def _any(self, rng: np.random.Generator, whole: bool) -> nn.Module:
        if not hasattr(self.supernet, "mixture"):
            path: nn.Module = self.supernet.subnet(self.largest if whole else self.space.sample(rng))
            return path
        for name, options in self.supernet.options.items():
            kept = np.ones(len(options)) if whole else rng.integers(2, size=len(options))
            kept[rng.integers(len(options))] = 1  # at least one
            self.supernet.mixture[name] = torch.as_tensor(kept / kept.sum(), dtype=torch.float64)
        mixed: nn.Module = self.supernet
        return mixed

    @cached_property
    def largest(self) -> Arch:
        return self._extreme(1)

    @cached_property
    def smallest(self) -> Arch:
        return self._extreme(-1)

    def _extreme(self, sign: int) -> Arch:
        """The architecture with the most parameters (or the fewest) that a climb by mutations comes to."""
        rng = generator("warm-up", "extreme", self.space.name, sign)
        best = self.space.sample(rng)
        most = sign * self._size(best)
        for _ in range(TRIES):
            other = self.space.mutate(best, rng)
            if (size := sign * self._size(other)) > most:
                best, most = other, size
        return best

    def _size(self, arch: Arch) -> int:
        return sum(p.numel() for p in self.space.build(arch, self.task, "meta").parameters())


def hand_over(supernet: nn.Module, path: nn.Module) -> None:
    """Add the gradients of parameters that are views of the supernet's weights to those weights; a path that works with
    the very parameters of the supernet has nothing to hand over."""
    owners = sorted((p for p in supernet.parameters() if p.numel()), key=Tensor.data_ptr)
    starts = [owner.data_ptr() for owner in owners]
    found = False
    for p in path.parameters():
        place = bisect_right(starts, p.data_ptr())  # parameters may lie behind each other in one storage
        owner = owners[place - 1] if place and _together(owners[place - 1], p) else None
        found |= owner is not None
        if owner is None or owner is p or p.grad is None:
            continue
        if owner.grad is None:
            owner.grad = torch.zeros_like(owner)
        start = p.storage_offset() - owner.storage_offset()
        owner.grad.as_strided(p.shape, p.stride(), start).add_(p.grad)
        p.grad = None
    if not found:
        raise UsageError("the subnets of this supernet have weights of their own, so it cannot be warmed up by them; "
                         "say paths=each, such as --warm-up '10%(paths=each)'")  # fmt: skip


def _together(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()

"""`NewArchSampler` finds every architecture of a small space, however many are requested at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from torch import nn

import untrained
from tests.strategies.toys import TASK, ten, twelve
from untrained.seeds import make_generator
from untrained.strategies.base import NewArchSampler
from untrained.types import Arch, Task


@untrained.space(task=TASK, size=4**5)
def thousand(choose: Any, task: Task) -> Any:
    """A space of 1,024: to find the last one by sampling alone takes about as many samples."""
    for i in range(5):
        choose(f"c{i}", (0, 1, 2, 3))
    return nn.Identity


@pytest.mark.parametrize("seed", range(3))
def test_every_architecture_is_found_once(seed):
    archs = NewArchSampler(thousand).sample_new(2000, make_generator(seed))
    assert len(archs) == len(set(archs)) == 4**5
    assert archs != list(thousand)


@pytest.mark.parametrize("space", [thousand, twelve])
def test_the_number_requested_at_a_time_changes_nothing(space):
    at_once = NewArchSampler(space).sample_new(2000, make_generator("chunks"))
    sampler = NewArchSampler(space)
    rng = make_generator("chunks")
    assert [arch for n in (1, 7, 300, 500, 900) for arch in sampler.sample_new(n, rng)] == at_once
    assert sampler.sample_new(1, rng) == []


def test_a_child_is_not_sampled_again():
    """A child may be one of the listed architectures that were not returned yet."""
    sampler = NewArchSampler(thousand)
    rng = make_generator("children")
    early = sampler.sample_new(1000, rng)
    (child,) = sampler.derive_new(1, lambda: next(arch for arch in thousand if arch not in early))
    late = sampler.sample_new(1000, rng)
    assert len(late) == 23
    assert child not in late


class Numbers:
    """A space of 60,000 architectures that are made in no time."""

    name = "numbers"
    size = 60_000

    def __iter__(self) -> Iterator[Arch]:
        return (Arch("numbers", (("number", number),)) for number in range(self.size))

    def sample(self, rng: np.random.Generator) -> Arch:
        return Arch("numbers", (("number", int(rng.integers(self.size))),))

    def mutate(self, arch: Arch, rng: np.random.Generator) -> Arch:
        return self.sample(rng)

    def cross(self, a: Arch, b: Arch, rng: np.random.Generator) -> Arch:
        return self.sample(rng)


@pytest.mark.parametrize("seed", range(4))
def test_the_last_architecture_is_found_however_many_children_were_listed(seed):
    """Listed architectures that became children since do not count as repeated samples."""
    space = Numbers()
    sampler = NewArchSampler(space)
    rng = make_generator(seed)
    archs = list(space)
    for arch in archs[4000:]:
        sampler.mark_seen(arch)
    sampled = sampler.sample_new(200, rng)
    children = [arch for arch in archs[:4000] if arch not in set(sampled)]
    last = children.pop(int(rng.integers(len(children))))
    for arch in children:
        assert sampler.mark_seen(arch)
    assert sampler.sample_new(5, rng) == [last]


def test_in_a_large_space_new_architectures_are_plain_samples():
    rng = make_generator("plain")
    samples = list(dict.fromkeys(ten.sample(rng) for _ in range(100)))
    assert NewArchSampler(ten).sample_new(len(samples), make_generator("plain")) == samples

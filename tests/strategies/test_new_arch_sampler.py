"""`NewArchSampler` finds every architecture of a small space, however many are requested at a time."""

from typing import Any

import pytest
from torch import nn

import untrained
from tests.strategies.toys import TASK, ten, twelve
from untrained.seeds import make_generator
from untrained.strategies.base import NewArchSampler
from untrained.types import Task


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


def test_in_a_large_space_new_architectures_are_plain_samples():
    rng = make_generator("plain")
    samples = list(dict.fromkeys(ten.sample(rng) for _ in range(100)))
    assert NewArchSampler(ten).sample_new(len(samples), make_generator("plain")) == samples

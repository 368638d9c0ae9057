"""Every architecture of a small space is met, also the last one, and however many are asked for at a time."""

from typing import Any

import pytest

import untrained
from tests.strategies.toys import TASK, ten, twelve
from untrained.rng import generator
from untrained.strategies._strategy import Unseen
from untrained.types import Task


@untrained.space(task=TASK, size=4**5)
def thousand(choose: Any, task: Task) -> Any:
    """To meet the last of 1,024 by chance takes about as many draws."""
    return tuple(choose(f"c{i}", (0, 1, 2, 3)) for i in range(5))


@pytest.mark.parametrize("seed", range(3))
def test_the_whole_of_a_space_is_met_once(seed):
    found = Unseen(thousand).samples(2000, generator(seed))
    assert len(found) == len(set(found)) == 4**5
    assert found != list(thousand)


@pytest.mark.parametrize("space", [thousand, twelve])
def test_how_many_are_asked_for_at_a_time_changes_nothing(space):
    at_once = Unseen(space).samples(2000, generator("chunks"))
    unseen, rng = Unseen(space), generator("chunks")
    assert [arch for n in (1, 7, 300, 500, 900) for arch in unseen.samples(n, rng)] == at_once
    assert unseen.samples(1, rng) == []


def test_what_came_another_way_is_not_met_again():
    """A child may be one of those that were listed and not handed out yet."""
    unseen, rng = Unseen(thousand), generator("children")
    early = unseen.samples(1000, rng)
    (child,) = unseen.children(1, lambda: next(arch for arch in thousand if arch not in early))
    late = unseen.samples(1000, rng)
    assert len(late) == 23
    assert child not in late


def test_the_first_of_a_large_space_are_plain_samples():
    rng = generator("plain")
    drawn = list(dict.fromkeys(ten.sample(rng) for _ in range(100)))
    assert Unseen(ten).samples(len(drawn), generator("plain")) == drawn

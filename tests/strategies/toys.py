"""Spaces whose best architecture is known, and a driver that scores without building networks."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

import untrained
from tests.records import make_record
from untrained.strategies import Strategy
from untrained.types import Arch, Failure, Record, Task

TASK = Task("noise", (3, 8, 8), 4)
ScoreFunction = Callable[[Arch], float | None]


@untrained.space(task=TASK, size=4**10)
def ten(choose: Any, task: Task) -> Any:
    """Ten choices of four. Of width w = 1 + their sum, it has 193 w + 4 (w + 1) parameters."""
    width = 1 + sum(choose(f"c{i}", (0, 1, 2, 3)) for i in range(10))
    return lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(192, width), nn.ReLU(), nn.Linear(width, task.num_classes)
    )


@untrained.space(task=TASK, size=12)
def twelve(choose: Any, task: Task) -> Any:
    """A space that is small enough to be exhausted."""
    width = choose("width", (1, 2, 3, 4, 5, 6))
    bias = choose("bias", ("yes", "no"))
    return lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(192, width), nn.Linear(width, 4, bias=bias == "yes")
    )


def sum_choices(arch: Arch) -> float:
    """Return the sum of the choices of `ten`, at most 30."""
    return float(sum(int(value) for _, value in arch.genes))


def make_toy_record(arch: Arch, value: float | None, measure: str = "toy@1") -> Record:
    return make_record(arch, measure, TASK, 0, value, Failure("nan") if value is None else None)


def read_fitness(records: Sequence[Record]) -> float | None:
    """Return the score of one architecture by the measure `toy`; higher is better."""
    assert len({r.arch for r in records}) == 1
    (value,) = [r.value for r in records if r.proxy == "toy"]
    return value


def run_toy_search(
    strategy: Strategy, score_arch: ScoreFunction, budget: int, ask_size: int = 5
) -> dict[Arch, float | None]:
    """Run a strategy and return its proposals with their scores, in order."""
    scores: dict[Arch, float | None] = {}
    while len(scores) < budget and (archs := strategy.ask(min(ask_size, budget - len(scores)))):
        assert len(archs) <= ask_size
        assert not scores.keys() & set(archs)
        scores |= {arch: score_arch(arch) for arch in archs}
        strategy.tell([make_toy_record(arch, scores[arch]) for arch in archs])
    return scores


def get_best(scores: dict[Arch, float | None]) -> float:
    return max(value for value in scores.values() if value is not None)

"""Spaces with a known best, and a driver that answers strategies without building anything."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

import untrained
from tests.records import make_record
from untrained.strategies import Strategy
from untrained.types import Arch, Failure, Record, Task

TASK = Task("noise", (3, 8, 8), 4)
Answer = Callable[[Arch], float | None]


@untrained.space(task=TASK, size=4**10)
def ten(choose: Any, task: Task) -> Any:
    """Ten choices of four. The hidden layer is one wider than their sum: 193 w + 4 (w + 1) parameters."""
    width = 1 + sum(choose(f"c{i}", (0, 1, 2, 3)) for i in range(10))
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, width), nn.ReLU(), nn.Linear(width, task.num_classes))


@untrained.space(task=TASK, size=12)
def twelve(choose: Any, task: Task) -> Any:
    """Small enough to be exhausted."""
    width, bias = choose("width", (1, 2, 3, 4, 5, 6)), choose("bias", ("yes", "no"))
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, width), nn.Linear(width, 4, bias=bias == "yes"))


def total(arch: Arch) -> float:
    """The sum of the choices of `ten`: 30 at the most."""
    return float(sum(int(value) for _, value in arch.genes))


def record(arch: Arch, value: float | None, measure: str = "toy@1") -> Record:
    return make_record(arch, measure, TASK, 0, value, Failure("nan") if value is None else None)


def fitness(records: Sequence[Record]) -> float | None:
    """Higher is better; of one architecture, of the measure `toy`."""
    assert len({r.arch for r in records}) == 1
    (value,) = [r.value for r in records if r.proxy == "toy"]
    return value


def drive(strategy: Strategy, answer: Answer, budget: int, portion: int = 5) -> dict[Arch, float | None]:
    """What was asked and answered, in order."""
    found: dict[Arch, float | None] = {}
    while len(found) < budget and (archs := strategy.ask(min(portion, budget - len(found)))):
        assert len(archs) <= portion
        assert not found.keys() & set(archs)
        found |= {arch: answer(arch) for arch in archs}
        strategy.tell([record(arch, found[arch]) for arch in archs])
    return found


def best(found: dict[Arch, float | None]) -> float:
    return max(value for value in found.values() if value is not None)

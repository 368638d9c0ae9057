"""A supernet that can be computed by hand: two edges in a row, each multiplies by a number.

f(x) = theta s x with theta = 1/2; s is the product of the factors of both edges. For x = 1, y = 0
and the squared error, the loss is (s / 2)^2, its gradient in theta is s^2, and so t = s^4.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

import untrained
from untrained.data import DataSource
from untrained.spaces.core.supernet import (
    EquivalentGenes,
    OptionScores,
    group_options_by_choice,
    make_uniform_mixture,
    mix_branches,
    rank_combinations,
)
from untrained.types import Arch, Batch, Task

TASK = Task("ones", (1,), 1, "mse")
FACTORS = {"a": {"one": 1.0, "two": 2.0}, "b": {"half": 0.5, "three": 3.0}}


class TwoEdges(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self.options = {name: tuple(factors) for name, factors in FACTORS.items()}
        self.mixture = make_uniform_mixture(
            {name: len(some) for name, some in self.options.items()}
        )
        self.theta = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        for name, factors in FACTORS.items():
            x = mix_branches(
                self.mixture[name], [lambda x, k=k: k * x for k in factors.values()], x
            )
        return self.theta * x

    def subnet(self, arch: Arch) -> nn.Module:
        raise NotImplementedError

    def decode_scores(self, scores: OptionScores) -> Iterator[EquivalentGenes]:
        return (
            (genes,) for genes in rank_combinations(group_options_by_choice(self.options, scores))
        )


@untrained.space(task=TASK, size=4, supernet=TwoEdges)
def two_edges(choose: Any, task: Task) -> Any:
    values = [choose(name, tuple(factors)) for name, factors in FACTORS.items()]
    return lambda: nn.Linear(1, len(values))


def make_ones(samples: int, generator: torch.Generator) -> Batch:
    return Batch(torch.ones(samples, 1), torch.zeros(samples, 1))


SOURCE = DataSource(TASK, make_ones)

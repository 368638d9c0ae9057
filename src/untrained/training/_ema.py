"""The moving average of a network's weights, which is steadier than the weights themselves."""

from copy import deepcopy

import torch
from torch import Tensor, nn

State = dict[str, Tensor]


class Average:
    """a <- d a + (1 - d) w after every step, for all numbers of the state, running statistics too; counts are taken
    over. At step n the decay d is at most (1 + n) / (10 + n), so that the first weights are soon forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = deepcopy(model).requires_grad_(False).eval()
        pairs = list(zip(self.model.state_dict().values(), model.state_dict().values(), strict=True))
        self._numbers = [pair for pair in pairs if pair[0].is_floating_point()]  # views: listing them takes its time
        self._counts = [pair for pair in pairs if not pair[0].is_floating_point()]

    def decay_at(self, step: int) -> float:
        return min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights that the model has after this step (from 0)."""
        averages, weights = [a for a, _ in self._numbers], [w for _, w in self._numbers]
        torch._foreach_lerp_(averages, weights, 1 - self.decay_at(step))
        for average, count in self._counts:
            average.copy_(count)


def copied(state: State) -> State:
    """The same numbers in tensors of their own."""
    return {name: tensor.detach().clone() for name, tensor in state.items()}

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
        states = (net.state_dict().values() for net in (self.model, model))  # views: listing takes its time
        pairs = {(a.data_ptr(), a.shape, a.stride()): (a, w) for a, w in zip(*states, strict=True)}  # tied ones once
        ours, theirs = ([pair[side] for pair in pairs.values()] for side in (0, 1))
        self._numbers = [t for t in ours if t.is_floating_point()], [t for t in theirs if t.is_floating_point()]
        self._counts = [t for t in ours if not t.is_floating_point()], [t for t in theirs if not t.is_floating_point()]

    def decay_at(self, step: int) -> float:
        return min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights that the model has after this step (from 0)."""
        (averages, weights), (copies, counts) = self._numbers, self._counts
        torch._foreach_lerp_(averages, weights, 1 - self.decay_at(step))
        if counts:
            torch._foreach_copy_(copies, counts)


def copied(state: State) -> State:
    """The same numbers in tensors of their own."""
    return {name: tensor.detach().clone() for name, tensor in state.items()}

"""The exponential moving average of a network's weights."""

from copy import deepcopy

import torch
from torch import Tensor, nn


class WeightAverage:
    """A copy of a network whose weights are the moving average of the network's weights.

    After each step, a <- d a + (1 - d) w for every floating-point tensor of the state dict,
    including running statistics. Integer tensors, such as counters, are copied. At step n the decay
    d is at most (1 + n) / (10 + n), so that the average soon forgets the initial weights.

    Attributes:
        model: The network with the averaged weights, in evaluation mode.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = deepcopy(model).requires_grad_(False).eval()
        # The tensors are collected once, because `state_dict` is slow and `update` runs every step.
        self._averages: list[Tensor] = []
        self._weights: list[Tensor] = []
        self._counter_copies: list[Tensor] = []
        self._counters: list[Tensor] = []
        averages = self.model.state_dict().values()
        weights = model.state_dict().values()
        # Tied weights appear several times in the state dict, and must be updated once per step.
        pairs: dict[object, tuple[Tensor, Tensor]] = {}
        for average, weight in zip(averages, weights, strict=True):
            memory = (average.data_ptr(), average.shape, average.stride())
            pairs[memory] = (average, weight)
        for average, weight in pairs.values():
            if average.is_floating_point():
                self._averages.append(average)
                self._weights.append(weight)
            else:
                self._counter_copies.append(average)
                self._counters.append(weight)

    def decay_at(self, step: int) -> float:
        """Return the decay of a step, counted from 0."""
        return min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average after a step, counted from 0."""
        # One call for all tensors: a loop would launch hundreds of kernels per step on a GPU.
        torch._foreach_lerp_(self._averages, self._weights, 1 - self.decay_at(step))
        if self._counters:
            torch._foreach_copy_(self._counter_copies, self._counters)

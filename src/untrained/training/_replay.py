"""The gradients of a step, replayed on a GPU from a recording of an earlier one (a CUDA graph).

A small network is hundreds of kernels a step that each last some microseconds, and to launch them one by one takes
longer than they do. A recording is launched as one: the same kernels in the same order on the same memory. So it holds
for batches of one shape, and for networks that do the same in every step. Random numbers are drawn anew each time, by
the seed of the step. Knows nothing of networks, optimisers or recipes.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from untrained.errors import UsageError

Gradients = Callable[[Tensor, Tensor], Tensor]  # of inputs and targets; leaves gradients behind and returns the loss
WARM = 3  # steps that are not recorded: kernels are chosen and memory is found in them


class Replayed:
    """The same function of inputs and targets, launched as one from the fourth call on."""

    def __init__(self, gradients: Gradients, device: str) -> None:
        self._gradients, self._calls = gradients, 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._beside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self._calls += 1
        with torch.cuda.device(inputs.device):
            if self._calls <= WARM:
                return self._aside(inputs, targets)
            if self._graph is None:
                self._graph = self._record(inputs, targets)
            self._inputs.copy_(inputs)
            self._targets.copy_(targets)
            self._graph.replay()
        return self._loss

    def _aside(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """On the stream that will be recorded: by then nothing of autograd may be bound to the usual one."""
        here = torch.cuda.current_stream()
        self._beside.wait_stream(here)
        with torch.cuda.stream(self._beside):
            loss = self._gradients(inputs, targets)
        here.wait_stream(self._beside)
        return loss

    def _record(self, inputs: Tensor, targets: Tensor) -> "torch.cuda.CUDAGraph":
        """A step written down without being done, which reads inputs and targets where they will be put."""
        self._inputs, self._targets = torch.empty_like(inputs), torch.empty_like(targets)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self._beside):
                self._loss = self._gradients(self._inputs, self._targets)
        except RuntimeError as error:
            why = str(error).partition("\n")[0]
            raise UsageError(
                f"this network's steps cannot be recorded: {why}; put graphs=False in the recipe"
            ) from error
        return graph

"""The gradients of a step, replayed on a GPU from a recording of an earlier one (a CUDA graph).

A small network is hundreds of kernels a step that each last some microseconds, and to launch them one by one takes
longer than they do. A recording is launched as one: the same kernels in the same order on the same memory. So it holds
for batches of one shape, and for networks that do the same in every step. Random numbers are drawn anew each time, by
the seed of the step. Knows nothing of networks, optimisers or recipes.

A recording that breaks off leaves traces in torch before 2.12 (its pull requests 171265 and 180395): the stream stays
the current one, memory counts as being recorded, and the generator of the device refuses to draw. So most networks that
cannot be recorded are found out before, and after the others everything is put back.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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
            if self._calls < WARM:
                return self._aside(inputs, targets)
            if self._calls == WARM:
                with _or_refused(), _never_waiting():
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
        graph, memory = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        with _or_refused():
            try:
                with torch.cuda.stream(self._beside), torch.cuda.graph(graph, memory, self._beside):
                    self._loss = self._gradients(self._inputs, self._targets)
            except BaseException:
                self._put_back(graph, memory)
                raise
        return graph

    def _put_back(self, graph: "torch.cuda.CUDAGraph", memory: tuple[int, int]) -> None:
        """After a recording that broke off: what newer versions of torch do when they let go of it, memory that is the
        usual one again, and the end of a whole recording, which frees the generator."""
        with suppress(RuntimeError):
            graph.reset()
        with suppress(RuntimeError):  # newer versions have done it
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), memory)
        whole = torch.cuda.graph(torch.cuda.CUDAGraph(), stream=self._beside)
        with suppress(RuntimeError), torch.cuda.stream(self._beside), whole:
            self._inputs.zero_()


@contextmanager
def _or_refused() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        why = str(error).partition("\n")[0]
        raise UsageError(f"this network's steps cannot be recorded: {why}; put graphs=False in the recipe") from error


@contextmanager
def _never_waiting() -> Iterator[None]:
    """To wait for the device is an error here, as it is in a recording, but one that leaves nothing behind."""
    before = torch.cuda.get_sync_debug_mode()
    _when_waiting("error")
    try:
        yield
    finally:
        _when_waiting(before)


def _when_waiting(mode: str | int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it does not notice everything
        torch.cuda.set_sync_debug_mode(mode)

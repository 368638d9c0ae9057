"""Gradients of a training step on a GPU, replayed from a recording (a CUDA graph).

A step of a small network launches hundreds of kernels that each run for some microseconds, and
launching them one by one takes longer than running them. A recording is launched as a whole: the
same kernels in the same order on the same memory. It is therefore valid only for batches of one shape
and for networks that do the same in every step. Random numbers are drawn again in every replay, from
the seed of the step.

`torch.cuda.make_graphed_callables` does not replace this class. It records forward and backward
passes apart, without the autocast and the loss around them, and it runs its warm-up passes on sample
inputs, which changes the running statistics of batch norms. It also does not repair the state that a
failed recording leaves behind.

A failed recording leaves traces in torch before 2.12 (its pull requests 171265 and 180395): its
stream stays the current one, memory is still allocated for the recording, and the random generator
of the device refuses to draw. Most networks that cannot be recorded are therefore recognised before
the recording, and after other failures the state is restored.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

from untrained.errors import UsageError

# Computes the loss of inputs and targets, and leaves the gradients in the parameters.
GradientFunction = Callable[[Tensor, Tensor], Tensor]
# Steps before the recording. cuDNN selects its kernels and memory is allocated in them.
WARM_UP_STEPS = 3


class ReplayedGradients:
    """A gradient function that is recorded at its fourth call and replayed from then on."""

    def __init__(self, compute_gradients: GradientFunction, device: str) -> None:
        self._compute_gradients = compute_gradients
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self._calls += 1
        with torch.cuda.device(inputs.device):
            if self._calls < WARM_UP_STEPS:
                return self._launch_on_side_stream(inputs, targets)
            if self._calls == WARM_UP_STEPS:
                # A recording cannot wait for the device. This step finds networks that do, in a way
                # that leaves no traces.
                with _explain_failure(), _forbid_synchronisation():
                    return self._launch_on_side_stream(inputs, targets)
            if self._graph is None:
                self._graph = self._record(inputs, targets)
            self._inputs.copy_(inputs)
            self._targets.copy_(targets)
            self._graph.replay()
        return self._loss

    def _launch_on_side_stream(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Run a step on the stream of the recording.

        Autograd binds its nodes to the stream of their first use, and at the time of the recording
        none may be bound to the usual stream.
        """
        usual_stream = torch.cuda.current_stream()
        self._stream.wait_stream(usual_stream)
        with torch.cuda.stream(self._stream):
            loss = self._compute_gradients(inputs, targets)
        usual_stream.wait_stream(self._stream)
        return loss

    def _record(self, inputs: Tensor, targets: Tensor) -> "torch.cuda.CUDAGraph":
        """Record a step that reads its inputs and targets from fixed tensors."""
        self._inputs = torch.empty_like(inputs)
        self._targets = torch.empty_like(targets)
        graph = torch.cuda.CUDAGraph()
        pool = torch.cuda.graph_pool_handle()
        with _explain_failure():
            try:
                with torch.cuda.stream(self._stream), torch.cuda.graph(graph, pool, self._stream):
                    self._loss = self._compute_gradients(self._inputs, self._targets)
            except BaseException:
                self._restore_state(graph, pool)
                raise
        return graph

    def _restore_state(self, graph: "torch.cuda.CUDAGraph", pool: tuple[int, int]) -> None:
        """Restore what a failed recording left behind.

        The reset is what newer versions of torch do themselves. The allocation for the recording is
        ended by a private function of torch, because no public one does it. The recording of a
        trivial step then succeeds, which frees the random generator.
        """
        with suppress(RuntimeError):
            graph.reset()
        # Newer versions of torch have ended the allocation already, and raise.
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
        trivial_recording = torch.cuda.graph(torch.cuda.CUDAGraph(), stream=self._stream)
        with suppress(RuntimeError), torch.cuda.stream(self._stream), trivial_recording:
            self._inputs.zero_()


@contextmanager
def _explain_failure() -> Iterator[None]:
    """Turn an error of torch into one line that says what to do."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"this network's steps cannot be recorded: {reason}; put graphs=False in the recipe"
        ) from error


@contextmanager
def _forbid_synchronisation() -> Iterator[None]:
    """Within this block, an operation that waits for the device raises an error."""
    mode = torch.cuda.get_sync_debug_mode()
    _set_sync_debug_mode("error")
    try:
        yield
    finally:
        _set_sync_debug_mode(mode)


def _set_sync_debug_mode(mode: str | int) -> None:
    with warnings.catch_warnings():
        # torch warns that this mode does not notice every synchronisation.
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode(mode)

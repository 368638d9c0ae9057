"""Gradients of a training step on a GPU, replayed from a recording (a CUDA graph).

A step of a small network launches hundreds of kernels that each run for some microseconds, and
launching them one by one takes longer than running them. A recording is launched as a whole: the
same kernels in the same order on the same memory. It is therefore valid only for batches of one
shape and for networks that launch the same kernels in every step. Random numbers are drawn again in
every replay, from the seed of the step.

`torch.cuda.make_graphed_callables` cannot be used here, for two reasons. Its warm-up runs extra
forward passes in training mode, which update the running statistics of batch norms, so a replayed
training would differ from an ordinary one. And it does not clean up after a failed recording.

Before torch 2.12 (pull requests 171265 and 180395), a failed recording leaves three things behind:
its stream stays the current one, memory is still allocated for the recording, and the random
generator of the device refuses to draw. So a step before the recording detects most networks that
cannot be recorded, and after any other failure this class restores the state itself.

A network that cannot be recorded is trained with ordinary steps, which only take longer.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

# Computes the loss of inputs and targets, and leaves the gradients in the parameters.
GradientFunction = Callable[[Tensor, Tensor], Tensor]
# Ordinary steps before the recording, in which cuDNN selects its kernels and memory is allocated.
WARM_UP_STEPS = 3


class ReplayedGradients:
    """A gradient function that is recorded after WARM_UP_STEPS calls and replayed from then on.

    If the recording fails, the function is called directly from then on.

    Attributes:
        failure: Why the function cannot be recorded; empty as long as nothing failed.
    """

    def __init__(self, compute_gradients: GradientFunction, device: str) -> None:
        """Prepare the recording.

        Args:
            compute_gradients: The function.
            device: The GPU.
        """
        self.failure = ""
        self._compute_gradients = compute_gradients
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        if self.failure:
            return self._compute_gradients(inputs, targets)
        self._calls += 1
        with torch.cuda.device(inputs.device):
            if self._calls < WARM_UP_STEPS:
                return self._launch_on_side_stream(inputs, targets)
            if self._calls == WARM_UP_STEPS:
                return self._run_step_without_waiting(inputs, targets)
            if self._graph is None and not self._try_recording(inputs, targets):
                return self._compute_gradients(inputs, targets)
            assert self._graph is not None
            self._inputs.copy_(inputs)
            self._targets.copy_(targets)
            self._graph.replay()
        return self._loss

    def _run_step_without_waiting(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Run an ordinary step, and set `failure` if the network waits for the GPU in it.

        Such a network cannot be recorded, and the attempt would leave torch in a bad state.
        """
        random_state = torch.cuda.get_rng_state()
        try:
            with _forbid_synchronisation():
                return self._launch_on_side_stream(inputs, targets)
        except RuntimeError as error:
            self.failure = _read_first_line(error)
        torch.cuda.set_rng_state(random_state)
        return self._compute_gradients(inputs, targets)

    def _try_recording(self, inputs: Tensor, targets: Tensor) -> bool:
        """Record a step; return whether that was possible."""
        random_state = torch.cuda.get_rng_state()
        try:
            self._graph = self._record(inputs, targets)
        except RuntimeError as error:
            self.failure = _read_first_line(error)
            torch.cuda.set_rng_state(random_state)
        return not self.failure

    def _launch_on_side_stream(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Run a step on the stream of the recording.

        Autograd binds its nodes to the stream of their first use, and the recording fails if one is
        bound to another stream.
        """
        main_stream = torch.cuda.current_stream()
        self._stream.wait_stream(main_stream)
        with torch.cuda.stream(self._stream):
            loss = self._compute_gradients(inputs, targets)
        main_stream.wait_stream(self._stream)
        return loss

    def _record(self, inputs: Tensor, targets: Tensor) -> "torch.cuda.CUDAGraph":
        """Record a step that reads its inputs and targets from fixed tensors."""
        self._inputs = torch.empty_like(inputs)
        self._targets = torch.empty_like(targets)
        graph = torch.cuda.CUDAGraph()
        pool = torch.cuda.graph_pool_handle()
        try:
            with torch.cuda.stream(self._stream), torch.cuda.graph(graph, pool, self._stream):
                self._loss = self._compute_gradients(self._inputs, self._targets)
        except BaseException:
            self._restore_state(graph, pool)
            raise
        return graph

    def _restore_state(self, graph: "torch.cuda.CUDAGraph", pool: tuple[int, int]) -> None:
        """Restore the state of torch after a failed recording (needed before torch 2.12)."""
        with suppress(RuntimeError):
            graph.reset()
        # Stop allocating memory for the recording. Torch has no public function for it. From 2.12
        # on, torch has done it already, and raises.
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
        # A successful recording, of any step, makes the random generator usable again.
        trivial_recording = torch.cuda.graph(torch.cuda.CUDAGraph(), stream=self._stream)
        with suppress(RuntimeError), torch.cuda.stream(self._stream), trivial_recording:
            self._inputs.zero_()


def _read_first_line(error: RuntimeError) -> str:
    return str(error).partition("\n")[0]


@contextmanager
def _forbid_synchronisation() -> Iterator[None]:
    """Make operations that wait for the device raise an error inside the block."""
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

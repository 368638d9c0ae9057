"""Training in one process, or in several that share every batch through accelerate.

    accelerate launch --num_processes 4 --no_python untrained train ... --device accelerate
    torchrun --standalone --nproc-per-node 2 --no-python -- untrained train ... --device accelerate

The first line is for GPUs. On a machine without one, `accelerate launch` starts a single process,
so the second line is needed.

Each of n processes loads and augments the whole batch and trains on every n-th sample of it.
Gradients and losses are averaged over the processes, weighted by their number of samples. So the
result is that of a single process, with two exceptions: a batch norm sees only the samples of its
own process, and dropout draws other numbers. Only the first process writes files.
"""

from typing import Any

import torch
from torch import Tensor, nn

from untrained.engine.devices import check_device
from untrained.errors import UsageError
from untrained.types import Batch

# The value of `--device` for training with several processes.
ACCELERATE = "accelerate"


class SingleProcess:
    """Training in this process alone.

    Attributes:
        device: Device to train on.
        writes_files: Whether this process writes checkpoints and results.
    """

    writes_files = True

    def __init__(self, device: str) -> None:
        check_device(device)
        self.device = device

    def wrap_model(self, model: nn.Module) -> nn.Module:
        """Return the model as it is."""
        return model

    def select_samples(self, batch: Batch) -> Batch:
        """Return the whole batch."""
        return batch

    def compute_loss_weight(self, batch: Batch) -> float:
        """Return 1: the loss of this process is that of the batch."""
        return 1.0

    def average(self, value: Tensor) -> Tensor:
        """Return the value as it is."""
        return value

    def wait_for_others(self) -> None:
        """Return at once: there is no other process."""


class AccelerateProcess:
    """One of several processes that `accelerate launch` started.

    Attributes:
        device: Device of this process.
        writes_files: Whether this process writes checkpoints and results: the first one does.
    """

    def __init__(self) -> None:
        try:
            from accelerate import Accelerator
        except ImportError as error:
            raise UsageError(
                f"--device {ACCELERATE} needs one more package: pip install accelerate"
            ) from error
        # Without an accelerator, accelerate joins the processes only if `cpu` is set.
        # It is an optional package, hence `Any`.
        self._accelerator: Any = Accelerator(cpu=not torch.accelerator.is_available())
        self.device = str(self._accelerator.device)
        self.writes_files = bool(self._accelerator.is_main_process)

    def wrap_model(self, model: nn.Module) -> nn.Module:
        """Wrap the model so that gradients are averaged over all processes."""
        wrapped: nn.Module = self._accelerator.prepare_model(model)
        return wrapped

    def select_samples(self, batch: Batch) -> Batch:
        """Return the samples of the batch that this process trains on.

        Raises:
            UsageError: The batch has fewer samples than there are processes.
        """
        first = self._accelerator.process_index
        processes = self._accelerator.num_processes
        if len(batch) < processes:
            raise UsageError(
                f"a batch of {len(batch)} samples cannot be divided among {processes} processes; "
                "use larger batches"
            )
        return Batch(batch.inputs[first::processes], batch.targets[first::processes])

    def compute_loss_weight(self, batch: Batch) -> float:
        """Return the weight of this process's mean loss in the average over all processes.

        It is 1 if the processes train on equally many samples of the batch.
        """
        processes = int(self._accelerator.num_processes)
        return len(self.select_samples(batch)) * processes / len(batch)

    def average(self, value: Tensor) -> Tensor:
        """Return the mean of a tensor over all processes, each of which must call this."""
        mean: Tensor = self._accelerator.reduce(value, reduction="mean")
        return mean

    def wait_for_others(self) -> None:
        """Wait until every process has reached this point."""
        self._accelerator.wait_for_everyone()


TrainingProcess = SingleProcess | AccelerateProcess


def make_training_process(device: str) -> TrainingProcess:
    """Return the `SingleProcess` or `AccelerateProcess` for a device.

    Args:
        device: A device for training in this process alone, or "accelerate" if `accelerate launch`
            started this process.

    Raises:
        UsageError: The device cannot be used, or accelerate is not installed.
    """
    if device == ACCELERATE:
        return AccelerateProcess()
    return SingleProcess(device)

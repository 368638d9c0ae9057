"""Training in one process, or in several that share every batch through accelerate.

    accelerate launch --num_processes 4 --no_python untrained train ... --device accelerate

Each of n processes loads and augments the whole batch and trains on every n-th sample of it.
Gradients are averaged over the processes, so the result is that of a single process, except that a
batch norm sees only the samples of its own process. Only the first process writes files.
"""

from typing import Any

from torch import nn

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
        # accelerate is an optional package without type hints.
        self._accelerator: Any = Accelerator()
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

    def wait_for_others(self) -> None:
        """Wait until every process has reached this point."""
        self._accelerator.wait_for_everyone()


TrainingProcess = SingleProcess | AccelerateProcess


def make_training_process(device: str) -> TrainingProcess:
    """Return the role of this process in a training.

    Args:
        device: A device for training in this process alone, or "accelerate" if `accelerate launch`
            started this process.

    Raises:
        UsageError: The device cannot be used, or accelerate is not installed.
    """
    if device == ACCELERATE:
        return AccelerateProcess()
    return SingleProcess(device)

"""Who trains: this process alone, or several that each learn a share of every batch (by accelerate, an extra).

    accelerate launch --num_processes 4 --no_python untrained train ... --device accelerate

Every process draws and distorts the whole batch and learns every n-th sample of it; gradients are averaged. So several
processes learn what one would, except that each batch norm sees its own share. The first process alone writes files.
"""

from typing import Any

from torch import nn

from untrained.engine.measure import usable
from untrained.errors import UsageError
from untrained.types import Batch

SEVERAL = "accelerate"


class Alone:
    """One process."""

    writes = True

    def __init__(self, device: str) -> None:
        usable(device)
        self.device = device

    def join(self, model: nn.Module) -> nn.Module:
        return model

    def share(self, batch: Batch) -> Batch:
        return batch

    def wait(self) -> None:
        """There is nobody to wait for."""


class Several:
    """One of several processes."""

    def __init__(self) -> None:
        try:
            from accelerate import Accelerator
        except ImportError as error:
            raise UsageError(f"--device {SEVERAL} needs one more package: pip install accelerate") from error
        self._all: Any = Accelerator()
        self.device, self.writes = str(self._all.device), bool(self._all.is_main_process)

    def join(self, model: nn.Module) -> nn.Module:
        """The same network, whose gradients are averaged over all processes."""
        joined: nn.Module = self._all.prepare_model(model)
        return joined

    def share(self, batch: Batch) -> Batch:
        first, step = self._all.process_index, self._all.num_processes
        if len(batch) < step:
            raise UsageError(f"batches of {len(batch)} cannot be shared by {step} processes; make them larger")
        return Batch(batch.inputs[first::step], batch.targets[first::step])

    def wait(self) -> None:
        self._all.wait_for_everyone()


def crowd(device: str) -> Alone | Several:
    return Several() if device == SEVERAL else Alone(device)

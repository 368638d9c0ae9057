"""Names of devices, and the clock and memory of the device that a network is measured on."""

import gc

import torch

from untrained.errors import UsageError
from untrained.quantities import show_value


def check_device(device: object) -> str:
    """Return the name of a device, if this machine can compute on it.

    Work is never moved to the CPU silently: a device that is missing is an error.

    Args:
        device: A name, such as `cuda:1`, or a `torch.device`.

    Raises:
        UsageError: The device cannot be used. The message names those that can.
    """
    name = parse_device_name(device)
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise _unusable_device_error(name) from error
    return name


def parse_device_name(device: object) -> str:
    """Return the name of a device, whether or not this machine has it.

    Args:
        device: A name, such as `cuda:1`, or a `torch.device`.

    Raises:
        UsageError: Torch knows no such device, or its tensors hold no numbers.
    """
    if not isinstance(device, str | torch.device):
        raise _unusable_device_error(device)
    name = str(device)
    try:
        parsed = torch.device(name)
    except RuntimeError as error:
        raise _unusable_device_error(name) from error
    # Tensors on `meta` hold no numbers.
    if parsed.type == "meta":
        raise _unusable_device_error(name)
    # Torch accepts any index after `cpu`, although there is only one.
    if parsed.type == "cpu" and parsed.index is not None:
        raise _unusable_device_error(name)
    return name


def _unusable_device_error(device: object) -> UsageError:
    usable = ["cpu"]
    if torch.cuda.is_available():
        usable.append("cuda")
    if torch.backends.mps.is_available():
        usable.append("mps")
    return UsageError(
        f"device {show_value(device)} cannot be used on this machine; try {' or '.join(usable)}"
    )


class DeviceMonitor:
    """Waits for a GPU and reads its peak memory. On any other device it does nothing.

    Creating a monitor resets the peak memory of its GPU.
    """

    def __init__(self, device: str) -> None:
        self._gpu: torch.device | None = None
        parsed = torch.device(device)
        if parsed.type == "cuda":
            self._gpu = parsed
            torch.cuda.reset_peak_memory_stats(parsed)

    def peak_memory(self) -> int | None:
        """Return the peak memory in bytes since this monitor was created; None without a GPU."""
        if self._gpu is None:
            return None
        return torch.cuda.max_memory_allocated(self._gpu)

    def synchronize(self) -> None:
        """Wait until the GPU has finished, so that a clock read afterwards includes its work."""
        if self._gpu is not None:
            torch.cuda.synchronize(self._gpu)

    def free_memory(self) -> None:
        """Release memory that is no longer used."""
        gc.collect()
        if self._gpu is not None:
            torch.cuda.empty_cache()

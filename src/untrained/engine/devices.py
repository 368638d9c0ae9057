"""Check the names of devices, describe them, and measure the memory and time of a GPU."""

import gc
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from untrained.errors import UsageError
from untrained.quantities import show_value


def check_device(device: object) -> str:
    """Return the name of a device, after checking that this machine can compute on it.

    A missing device is an error. Work is never moved to the CPU silently.

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
        UsageError: Torch does not know the device, or it is `meta`, where tensors have no data.
    """
    if not isinstance(device, str | torch.device):
        raise _unusable_device_error(device)
    name = str(device)
    try:
        parsed = torch.device(name)
    except RuntimeError as error:
        raise _unusable_device_error(name) from error
    if parsed.type == "meta":
        raise _unusable_device_error(name)
    # Torch accepts `cpu:1`, although there is only one CPU device.
    if parsed.type == "cpu" and parsed.index is not None:
        raise _unusable_device_error(name)
    return name


def _unusable_device_error(device: object) -> UsageError:
    usable_devices = ["cpu"]
    if torch.cuda.is_available():
        usable_devices.append("cuda")
    if torch.backends.mps.is_available():
        usable_devices.append("mps")
    advice = f"try {' or '.join(usable_devices)}"
    return UsageError(f"device {show_value(device)} cannot be used on this machine; {advice}")


@cache
def describe_hardware(device: str) -> str:
    """Return the model of the processor or GPU behind a device, such as `AMD EPYC 9B45`.

    If the model is unknown, return the architecture, such as `arm64`.
    """
    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        return torch.cuda.get_device_name(device)
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, model = line.partition(":")
            if name.strip() == "model name":
                return model.strip()
    return platform.processor() or platform.machine()


class DeviceMonitor:
    """Synchronises a GPU, reads its peak memory and frees memory.

    On any other device, `free_memory` only collects garbage, and the rest does nothing.
    The constructor resets the peak memory of the GPU.
    """

    def __init__(self, device: str) -> None:
        self._gpu: torch.device | None = None
        parsed = torch.device(device)
        if parsed.type == "cuda":
            self._gpu = parsed
            torch.cuda.reset_peak_memory_stats(parsed)

    def read_peak_memory(self) -> int | None:
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

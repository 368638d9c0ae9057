"""Samples that a caller has in memory: inputs, or inputs and targets, as tensors or numpy arrays."""

import numpy as np
import torch
from torch import Tensor

from untrained._quantities import show_value
from untrained.errors import UsageError

FORMS = "give a tensor of inputs, or a pair (inputs, targets)"


def is_samples(value: object) -> bool:
    """Whether a value is meant as samples: a tensor, an array, or a tuple that has one of them."""
    entries = value if isinstance(value, tuple) else (value,)
    return any(isinstance(entry, Tensor | np.ndarray) for entry in entries)


def read_samples(data: object) -> tuple[Tensor, Tensor | None]:
    """Inputs and targets as tensors; the first axis counts samples.

    Args:
        data: A tensor or a numpy array of inputs, or a tuple of inputs and targets.

    Raises:
        UsageError: For anything else, and for tensors that no network could be scored on.
    """
    entries = data if isinstance(data, tuple) else (data,)
    if len(entries) not in (1, 2):
        raise UsageError(f"data is a tuple of {len(entries)}; {FORMS}")
    inputs = _read_tensor(entries[0], "inputs")
    _check_inputs(inputs)
    if len(entries) == 1 or entries[1] is None:
        return inputs, None
    targets = _read_tensor(entries[1], "targets")
    if targets.ndim == 0 or len(targets) != len(inputs):
        count = len(targets) if targets.ndim else "no"
        raise UsageError(f"there are {len(inputs)} inputs and {count} targets; give one target per input")
    if targets.is_complex():
        raise UsageError("the targets are complex numbers; give labels, such as torch.tensor([0, 1, 2])")
    return inputs, targets


def _read_tensor(value: object, role: str) -> Tensor:
    if isinstance(value, np.ndarray):
        try:
            value = torch.from_numpy(np.ascontiguousarray(value))
        except (TypeError, ValueError) as error:
            raise UsageError(f"the {role} are an array of {value.dtype}; give one of float32 or int64") from error
    if not isinstance(value, Tensor):
        raise UsageError(f"the {role} are {show_value(value)}; {FORMS}, such as torch.randn(8, 3, 32, 32)")
    if value.device.type == "meta":
        raise UsageError(f"the {role} are on the device meta, where there are no numbers; make them on cpu")
    if value.layout != torch.strided:
        raise UsageError(f"the {role} are a sparse tensor; give {role}.to_dense()")
    return value


def _check_inputs(inputs: Tensor) -> None:
    if inputs.ndim == 0 or len(inputs) == 0:
        shape = tuple(inputs.shape)
        raise UsageError(f"the inputs have the shape {shape}, so there is no sample in them; give at least one")
    if inputs.dtype in (torch.bfloat16, torch.float16):
        kind = str(inputs.dtype).removeprefix("torch.")
        raise UsageError(f"the inputs are {kind}, in which scores are not exact; give inputs.float() and model.float()")
    if inputs.is_complex():
        raise UsageError("the inputs are complex numbers; give real ones, such as inputs.real")

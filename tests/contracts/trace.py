"""Everything that a probe could change in a model and around it, in a form that == compares."""

import random
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module


def read_bytes(tensor: Tensor | None) -> bytes | None:
    """Return the content of a tensor."""
    return None if tensor is None else tensor.detach().numpy().tobytes()


def capture_state(model: nn.Module) -> dict[str, Any]:
    """Return the state of a model and the global state."""
    state: dict[str, Any] = {}
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        state[f"{name}: tensor"] = (
            id(tensor),
            tensor.data_ptr(),
            read_bytes(tensor),
            tensor._version,
        )
        state[f"{name}: gradient"] = (
            tensor.requires_grad,
            id(tensor.grad),
            read_bytes(tensor.grad),
            tensor.grad_fn,
        )
    for name, module in model.named_modules():
        state[f"{name}: mode"] = module.training
        state[f"{name}: attributes"] = {
            key: id(value) for key, value in vars(module).items() if key != "training"
        }
        state[f"{name}: hooks"] = {
            key: dict(hooks) for key, hooks in vars(module).items() if key.endswith("_hooks")
        }
    return state | capture_global_state()


def capture_global_state() -> dict[str, Any]:
    """Return the state outside of models: random states, global hooks and modes of torch."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - the global state is the point
    global_hooks = {}
    for name, hooks in vars(torch_module).items():
        if name.startswith("_global_") and hooks:
            global_hooks[name] = dict(hooks)
    return {
        "torch": read_bytes(torch.get_rng_state()),
        "numpy": (kind, keys.tobytes(), *rest),
        "python": random.getstate(),
        "global hooks": global_hooks,
        "modes": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_default_dtype(),
        ),
        "function modes": torch.overrides._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
    }


def list_changes(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Return the names of everything that differs between two states."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}

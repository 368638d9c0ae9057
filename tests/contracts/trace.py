"""A looking glass: everything a probe could have left behind in a model and around it, comparable with ==."""

import random
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module


def bits(tensor: Tensor | None) -> bytes | None:
    return None if tensor is None else tensor.detach().numpy().tobytes()


def state(model: nn.Module) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        found[f"{name}: tensor"] = (id(tensor), tensor.data_ptr(), bits(tensor), tensor._version)
        found[f"{name}: gradient"] = (
            tensor.requires_grad,
            id(tensor.grad),
            bits(tensor.grad),
            tensor.grad_fn,
        )
    for name, module in model.named_modules():
        found[f"{name}: mode"] = module.training
        found[f"{name}: attributes"] = {
            key: id(value) for key, value in vars(module).items() if key != "training"
        }
        found[f"{name}: hooks"] = {
            key: dict(hooks) for key, hooks in vars(module).items() if key.endswith("_hooks")
        }
    return found | surroundings()


def surroundings() -> dict[str, Any]:
    """What belongs to no model: random states, torch's global hooks and modes."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - the global state is what is looked at
    return {
        "torch": bits(torch.get_rng_state()),
        "numpy": (kind, keys.tobytes(), *rest),
        "python": random.getstate(),
        "global hooks": {
            n: dict(hooks)
            for n, hooks in vars(torch_module).items()
            if n.startswith("_global_") and hooks
        },
        "modes": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_default_dtype(),
        ),
        "function modes": torch.overrides._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
    }


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}

"""Tensors in files: written whole or not at all, and read without running anybody's code."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from untrained._files import written_whole
from untrained.errors import UsageError

CHECKPOINT, WEIGHTS = "checkpoint.pt", "model.pt"


def save(path: Path, content: Any) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as part:
            torch.save(content, part)
    except (OSError, RuntimeError) as error:  # torch tells a full disk by a RuntimeError
        raise UsageError(f"{path} cannot be written: {error}") from error


def load(path: Path) -> Any:
    """What `save` wrote, on the CPU; a file that holds anything but tensors and plain data is refused."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the damage looks like
        said = str(error).partition("\n")[0]
        raise UsageError(f"{path} is damaged or not ours: {said}; delete it, or choose another --run") from error


def portable(model: nn.Module) -> dict[str, Tensor]:
    """The weights as any machine can read them: on the CPU, in the usual order of memory."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}


def fill(model: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    """Put weights from a file into a network; those of another one are refused."""
    try:
        model.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} holds the weights of another network; delete it, or choose another --run") from error

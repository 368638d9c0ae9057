"""Checkpoints of a training, and reading and writing of tensors in general.

A file is written completely or not at all, and reading a file never runs code from it.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from untrained.errors import UsageError
from untrained.files import replace_atomically
from untrained.identity import fingerprint_file
from untrained.training.result import TrainingKey

CHECKPOINT_FILE = "checkpoint.pt"
WEIGHTS_FILE = "model.pt"
# A training writes a checkpoint after every epoch and after this many steps. A training and a
# warm-up also write one after the first step that ends this long after the previous checkpoint.
CHECKPOINT_STEPS = 200
CHECKPOINT_SECONDS = 30.0

Weights = dict[str, Tensor]  # a state dict


@dataclass(frozen=True)
class BestWeights:
    """The best weights of a training so far, and their validation metrics.

    Attributes:
        epoch: Epoch after which they were evaluated, counted from 1.
        kind: "weights", or "average" for the moving average of the weights.
        metrics: Validation metrics as in `summary` of the evaluation; empty if nothing was
            selected.
        weights: The state dict.
    """

    epoch: int
    kind: str
    metrics: dict[str, float]
    weights: Weights

    def to_document(self) -> dict[str, Any]:
        """Return everything except the weights as plain data."""
        return {"epoch": self.epoch, "kind": self.kind, **self.metrics}


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training between two steps: everything that is needed to resume it.

    Attributes:
        key: The training that the checkpoint belongs to.
        step: Number of finished steps.
        model: Weights of the network.
        average: Moving average of the weights; empty if the recipe has none.
        optimiser: State of the optimiser.
        epoch_loss: Sum of the losses of the steps of the current epoch.
        curve: One row of metrics per finished epoch.
        best: The best weights so far; None before the end of the first epoch.
        seconds: Training time in total.
        epoch_seconds: Training time of finished epochs, without evaluation.
        epoch_samples: Number of samples that were trained on in that time.
        epochs: Number of epochs, which may be smaller than that of the recipe; None in files of
            earlier versions, in which it is that of the recipe.
    """

    key: TrainingKey
    step: int
    model: Weights
    average: Weights
    optimiser: dict[str, Any]
    epoch_loss: Tensor
    curve: list[dict[str, float]]
    best: BestWeights | None
    seconds: float
    epoch_seconds: float
    epoch_samples: int
    epochs: int | None = None

    def save(self, path: Path) -> None:
        """Write the checkpoint to a file."""
        # `asdict(self)` would copy every tensor, so only the nested objects are converted.
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content["key"] = asdict(self.key)
        if self.best is not None:
            content["best"] = vars(self.best)
        save_tensors(path, content)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        UsageError: The file is damaged, or is not a checkpoint.
    """
    content = load_tensors(path)
    try:
        key = TrainingKey(**content.pop("key"))
        best = content.pop("best")
        if best is not None:
            best = BestWeights(**best)
        return Checkpoint(key=key, best=best, **content)
    except (AttributeError, KeyError, TypeError) as error:
        raise _damaged_file_error(path, error) from error


def fingerprint_weights(path: Path) -> str:
    """Return a fingerprint of a file of weights, as in `TrainingKey.start`."""
    return fingerprint_file(path)[:16]


def save_tensors(path: Path, content: object) -> None:
    """Write tensors and plain data to a file.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_atomically(path) as part:
            torch.save(content, part)
    # torch raises a RuntimeError if the disk is full.
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{path} cannot be written: {error}") from error


def load_tensors(path: Path) -> Any:
    """Read a file of `save_tensors`. Tensors are loaded to the CPU.

    Raises:
        UsageError: The file is damaged, or contains anything but tensors and plain data.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    # The type of the exception depends on the kind of damage.
    except Exception as error:
        raise _damaged_file_error(path, error) from error


def _damaged_file_error(path: Path, error: Exception) -> UsageError:
    reason = str(error).partition("\n")[0]
    return UsageError(
        f"{path} is damaged or was not written by untrained: {reason}; "
        "delete it, or choose another --run"
    )


def copy_portable_weights(model: nn.Module) -> Weights:
    """Return the weights on the CPU and in contiguous memory, so that any machine can load them."""
    weights = {}
    for name, tensor in model.state_dict().items():
        weights[name] = tensor.detach().cpu().contiguous()
    return weights


def load_weights(model: nn.Module, weights: Weights, path: Path) -> None:
    """Load weights that were read from a file into a network.

    Raises:
        UsageError: They are the weights of another network.
    """
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} holds the weights of another network; delete it, or choose another --run"
        ) from error

"""Small images that can be learned, a network with all kinds of randomness, and helpers that train it."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from untrained.data import DataSource
from untrained.data.parts import ImagePart
from untrained.identity import fingerprint_tensors
from untrained.spaces.core.layers import drop_path
from untrained.training.result import TrainingResult
from untrained.types import Batch, Task
from untrained.workflows.train import train

SHAPE = (1, 6, 6)
CLASSES = 3


def write_archive(folder: Path, each: int = 20) -> str:
    """Write 6x6 images and return `npz:PATH`.

    Images of class k are bright in columns 2k and 2k + 1; the rest is dim noise.
    """
    draws = np.random.default_rng(0)
    x = draws.integers(0, 60, (CLASSES * each, 6, 6), dtype=np.uint8)
    y = np.arange(CLASSES * each) % CLASSES
    for image, label in zip(x, y, strict=True):
        image[:, 2 * label : 2 * label + 2] += 150
    np.savez(folder / "stripes.npz", x=x, y=y)
    return f"npz:{folder / 'stripes.npz'}"


class Busy(nn.Module):
    """A convolution, a batch norm, dropout and a path that is dropped at random."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(144, CLASSES)
        self.drop_path = 0.3

    def forward(self, x: Tensor) -> Tensor:
        maps = self.norm(self.conv(x)).relu()
        if self.training:
            maps = drop_path(maps, self.drop_path)
        out: Tensor = self.head(self.dropout(maps.flatten(1)))
        return out


def make_busy() -> Busy:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return Busy()


RECIPE = "quick(epochs=3,batch=10,crop=1,flip=True,cutout=2,mixup=0.4,average=0.9)"


def train_toy(folder: Path, data: str, recipe: str = RECIPE, **options: Any) -> TrainingResult:
    """Train `what`, by default the toy network, in a folder."""
    options = {"input_shape": SHAPE, "run": folder} | options
    what = options.pop("what", None) or make_busy()
    return train(what, data, recipe, **options)


def get_weights(result: TrainingResult) -> dict[str, Tensor]:
    assert result.model is not None
    return dict(result.model.state_dict())


def states_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether two state dicts are equal bit for bit."""
    if first.keys() != second.keys():
        return False
    return all(torch.equal(first[name], second[name]) for name in first)


# Samples of one dimension would be a table, whose weights are selected by the loss.
ROWS = Task("rows", (2, 2), 2)


@dataclass
class CountedRows:
    """A part of rows, not images, that counts how often it was read from the first to the last row."""

    inputs: Tensor
    targets: Tensor
    passes: int = 0
    orders: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.inputs)

    def read_labels(self) -> Tensor:
        return self.targets

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        self.passes += 1
        self.orders.append(order is not None)
        if order is None:
            indices = torch.arange(len(self))
        else:
            indices = torch.randperm(len(self), generator=order)
        for rows in indices.split(size):
            yield Batch(self.inputs[rows], self.targets[rows])

    def fingerprint(self) -> str:
        return fingerprint_tensors([self.inputs, self.targets])


def make_rows(n: int, columns: int = 4, classes: int = 2, seed: int = 0) -> CountedRows:
    """Make rows whose class is the sign of the first column; without classes, the target is that column."""
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, columns, generator=draws)
    targets = (inputs[:, 0] > 0).long() if classes else inputs[:, 0]
    return CountedRows(inputs, targets)


def use_parts(monkeypatch: pytest.MonkeyPatch, task: Task, parts: dict[str, Any]) -> None:
    """Make every training use these parts, whatever data it names."""
    train_part = parts["train"]

    def draw(samples: int, generator: torch.Generator) -> Batch:
        if isinstance(train_part, ImagePart):
            return next(iter(train_part.batches(samples)))
        return Batch(train_part.inputs[:samples], train_part.targets[:samples])

    source = DataSource(task, draw, lambda: parts)
    monkeypatch.setattr("untrained.workflows.training_setup.load_source_for", lambda *_: source)


def fake_accelerate(monkeypatch: pytest.MonkeyPatch, place: int, processes: int) -> list[str]:
    """Replace the package accelerate in process `place` of several; return the list of its calls."""
    calls: list[str] = []

    class Accelerator:
        device = torch.device("cpu")
        process_index = place
        num_processes = processes
        is_main_process = place == 0

        def __init__(self, cpu: bool) -> None:
            assert cpu is not torch.accelerator.is_available()

        def prepare_model(self, model: nn.Module) -> nn.Module:
            calls.append("model")
            return nn.Sequential(model)

        def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
            assert reduction == "mean"
            return tensor

        def wait_for_everyone(self) -> None:
            calls.append("wait")

    fake: Any = SimpleNamespace(Accelerator=Accelerator)
    monkeypatch.setitem(sys.modules, "accelerate", fake)
    return calls

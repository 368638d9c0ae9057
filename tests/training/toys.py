"""Small pictures that can be learned, a network with everything that chance touches, and folders to train in."""

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


def archive(folder: Path, each: int = 20) -> str:
    """`npz:PATH` of pictures 6x6: class k is bright in the two columns from 2k on, the rest is dim noise."""
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
        self.conv, self.norm, self.dropout = (
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.Dropout(0.2),
        )
        self.head, self.drop_path = nn.Linear(144, CLASSES), 0.3

    def forward(self, x: Tensor) -> Tensor:
        maps = self.norm(self.conv(x)).relu()
        maps = drop_path(maps, self.drop_path) if self.training else maps
        out: Tensor = self.head(self.dropout(maps.flatten(1)))
        return out


def busy() -> Busy:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return Busy()


RECIPE = "quick(epochs=3,batch=10,crop=1,flip=True,cutout=2,mixup=0.4,average=0.9)"


def trained(folder: Path, data: str, recipe: str = RECIPE, **options: Any) -> TrainingResult:
    options = {"input_shape": SHAPE, "run": folder} | options
    what = options.pop("what", None) or busy()
    return train(what, data, recipe, **options)


def weights(found: TrainingResult) -> dict[str, Tensor]:
    assert found.model is not None
    return dict(found.model.state_dict())


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@dataclass
class Counted:
    """A part that is not pictures: rows, and how often they were read from the first to the last."""

    inputs: Tensor
    targets: Tensor
    passes: int = 0
    orders: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.inputs)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        self.passes += 1
        self.orders.append(order is not None)
        places = (
            torch.arange(len(self)) if order is None else torch.randperm(len(self), generator=order)
        )
        for rows in places.split(size):
            yield Batch(self.inputs[rows], self.targets[rows])

    def fingerprint(self) -> str:
        return fingerprint_tensors([self.inputs, self.targets])


def make_rows(n: int, columns: int = 4, classes: int = 2, seed: int = 0) -> Counted:
    """Rows whose class is the sign of the first column."""
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, columns, generator=draws)
    return Counted(inputs, (inputs[:, 0] > 0).long() if classes else inputs[:, 0])


def use(monkeypatch: pytest.MonkeyPatch, task: Task, parts: dict[str, Any]) -> None:
    """Whatever data are named, these are trained on."""
    first = parts["train"]

    def draw(samples: int, generator: torch.Generator) -> Batch:
        return next(iter(first.batches(samples))) if isinstance(first, ImagePart) else Batch(
            first.inputs[:samples], first.targets[:samples]
        )  # fmt: skip

    source = DataSource(task, draw, lambda: parts)
    monkeypatch.setattr("untrained.workflows.train_subject.load_source_for", lambda *_: source)


def accelerate(monkeypatch: pytest.MonkeyPatch, place: int, processes: int) -> list[str]:
    """Stands in for the package in one of several processes, and notes what it is asked for."""
    asked: list[str] = []

    class Accelerator:
        device, process_index, num_processes = torch.device("cpu"), place, processes
        is_main_process = place == 0

        def prepare_model(self, model: nn.Module) -> nn.Module:
            asked.append("model")
            return nn.Sequential(model)

        def wait_for_everyone(self) -> None:
            asked.append("wait")

    fake: Any = SimpleNamespace(Accelerator=Accelerator)
    monkeypatch.setitem(sys.modules, "accelerate", fake)
    return asked

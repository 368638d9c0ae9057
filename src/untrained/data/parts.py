"""The parts of a data set: one to learn from, one to choose by, one to be judged on once. Whoever only scores networks
at initialisation draws from the first.

A `Part` hands out its samples in passes. Pictures are held as bytes in one size, so that a training can keep all of
them on its device and distort them there; rows of a table may be read from a file while they are asked for.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from untrained.identity import fingerprint_tensors
from untrained.rng import torch_generator
from untrained.types import Batch, Task

TRAIN, VAL, TEST = "train", "val", "test"
_IMAGES_AT_ONCE = 4096  # of a file that may be larger than memory
Rows = TypeVar("Rows", Tensor, list[Any])


class Part(Protocol):
    """Samples of one part."""

    def __len__(self) -> int: ...

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        """One pass: every sample once, in an order that the generator decides or, without one, as they lie."""
        ...

    def fingerprint(self) -> str:
        """A text that is another one when any sample is."""
        ...


Parts = Mapping[str, Part]


@dataclass(frozen=True)
class Pictures:
    """A part that is held in memory: uint8 (N, H, W, C) of one size, with the statistics that make them normal."""

    images: Tensor
    labels: Tensor
    mean: Tensor  # (C,), on the scale 0 to 1
    std: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        places = torch.arange(len(self)) if order is None else torch.randperm(len(self), generator=order)
        for rows in places.split(size):  # type: ignore[no-untyped-call]
            yield Batch(self.normal(self.images[rows]), self.labels[rows])

    def fingerprint(self) -> str:
        images = self.images.split(_IMAGES_AT_ONCE)  # type: ignore[no-untyped-call]
        return fingerprint_tensors([*images, self.labels, self.mean, self.std])

    def normal(self, images: Tensor) -> Tensor:
        """(N, C, H, W), each channel of mean zero and deviation one over the data set."""
        pixels = images.permute(0, 3, 1, 2).float() / 255
        return (pixels - self.mean.reshape(1, -1, 1, 1)) / self.std.reshape(1, -1, 1, 1)


def shares(given: Container[str]) -> dict[str, float]:
    """What the samples to learn from are cut into: themselves, and every part that their publisher does not keep apart.
    15 % to be judged on, 15 % to choose by; 10 % to choose by where the publisher has a test."""
    cut = {} if VAL in given else {VAL: 0.1 if TEST in given else 0.15}
    cut |= {} if TEST in given else {TEST: 0.15}
    return {TRAIN: 1 - sum(cut.values()), **cut}


def shared_out(rows: Rows, shares: Mapping[str, float]) -> dict[str, Rows]:
    """Rows in a random order cut into shares; what rounding leaves over is in the first."""
    first, *others = shares
    counts, found = {name: round(shares[name] * len(rows)) for name in others}, {}
    for name, count in counts.items():
        found[name], rows = rows[:count], rows[count:]
    return {first: rows, **found}


def stratified(labels: Tensor, shares: Mapping[str, float], task: Task, seed: int = 0) -> dict[str, Tensor]:
    """Places of each part, in rising order: every class in the same shares."""
    places: dict[str, list[Tensor]] = {name: [] for name in shares}
    for label in labels.unique():  # type: ignore[no-untyped-call]
        rows = (labels == label).nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=torch_generator("split", task.dataset, int(label), seed))]
        for name, found in shared_out(rows, shares).items():
            places[name].append(found)
    return {name: torch.cat(found).sort().values for name, found in places.items()}

"""The parts of a data set: `train` for training, `val` for selection, `test` for the final test.

A `Part` iterates over its samples in batches. Images are kept in memory as bytes of one size, so
that training can keep all of them on its device and augment them there. Arrays of numbers are kept
in memory too, but are not augmented. Rows of a table may be read from a file when they are needed.
"""

import hashlib
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from untrained.identity import fingerprint_tensors
from untrained.seeds import make_torch_generator
from untrained.types import Batch, Task

TRAIN = "train"
VAL = "val"
TEST = "test"
# Share of the samples that are kept for testing.
TEST_SHARE = 0.1
# If fewer rows are split, a part may be empty.
MIN_SPLIT_ROWS = 4
_SAMPLES_PER_STEP = 4096  # samples that are fingerprinted at once; all may be larger than memory
Rows = TypeVar("Rows", Tensor, list[Any])


class Part(Protocol):
    """Samples of one part."""

    def __len__(self) -> int: ...

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        """Make one pass over all samples.

        Args:
            size: Samples per batch.
            order: Generator for a random order; None to keep the order of the samples.
        """
        ...

    def read_labels(self) -> Tensor:
        """Return the labels of all samples, in order."""
        ...

    def fingerprint(self) -> str:
        """Return a text that changes when any sample changes."""
        ...


Parts = Mapping[str, Part]


@dataclass(frozen=True)
class ImagePart:
    """A part of images in memory.

    Attributes:
        images: Images (N, H, W, C) of uint8.
        labels: Their classes (N,), or for a regression their standardised labels (N,) of float32.
        mean: Mean per channel (C,), on the scale 0 to 1.
        std: Standard deviation per channel (C,).
    """

    images: Tensor
    labels: Tensor
    mean: Tensor
    std: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        for rows in _iterate_rows(len(self), size, order):
            yield self.read_rows(rows)

    def read_rows(self, rows: Tensor) -> Batch:
        """Return the samples with these indices as one batch."""
        return Batch(self.normalise(self.images[rows]), self.labels[rows])

    def read_labels(self) -> Tensor:
        return self.labels

    def fingerprint(self) -> str:
        images = self.images.split(_SAMPLES_PER_STEP)  # type: ignore[no-untyped-call]
        return fingerprint_tensors([*images, self.labels, self.mean, self.std])

    def normalise(self, images: Tensor) -> Tensor:
        """Convert images to floats (N, C, H, W) with mean 0 and deviation 1 per channel."""
        pixels = images.permute(0, 3, 1, 2).float() / 255
        return (pixels - self.mean.reshape(1, -1, 1, 1)) / self.std.reshape(1, -1, 1, 1)


@dataclass(frozen=True)
class ArrayPart:
    """A part of numbers in memory: vectors, series, images or arrays of any other shape.

    Attributes:
        inputs: Inputs (N, F) or (N, C, ...) of any real type, as the user gave them.
        targets: Classes (N,), or standardised numbers (N,) of float32.
        mean: Mean per feature (F,) or channel (C,) of the training part, in float64.
        std: Standard deviation per feature (F,) or channel (C,), in float64.
    """

    inputs: Tensor
    targets: Tensor
    mean: Tensor
    std: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        for rows in _iterate_rows(len(self), size, order):
            yield self.read_rows(rows)

    def read_rows(self, rows: Tensor) -> Batch:
        """Return the samples with these indices as one batch."""
        return Batch(self.normalise(self.inputs[rows]), self.targets[rows])

    def read_labels(self) -> Tensor:
        return self.targets

    def fingerprint(self) -> str:
        inputs = self.inputs.split(_SAMPLES_PER_STEP)  # type: ignore[no-untyped-call]
        return fingerprint_tensors([*inputs, self.targets, self.mean, self.std])

    def normalise(self, inputs: Tensor) -> Tensor:
        """Convert inputs to float32 with mean 0 and deviation 1 per feature or channel."""
        shape = (1, -1) + (1,) * (inputs.ndim - 2)
        # In float64, because large numbers of similar size would be rounded in float32.
        return ((inputs - self.mean.reshape(shape)) / self.std.reshape(shape)).float()


# Parts in memory, of which single samples can be selected.
PartInMemory = ImagePart | ArrayPart


def _iterate_rows(count: int, size: int, order: torch.Generator | None) -> Iterator[Tensor]:
    """Yield the indices of `count` samples, `size` at a time, in order or shuffled."""
    if order is None:
        rows = torch.arange(count)
    else:
        rows = torch.randperm(count, generator=order)
    yield from rows.split(size)  # type: ignore[no-untyped-call]


def draw_samples(
    parts: Mapping[str, PartInMemory], samples: int, generator: torch.Generator
) -> Batch:
    """Draw samples of the first part, and of the later ones only if it has too few.

    Args:
        parts: The parts, the training part first.
        samples: Number of samples to draw; fewer are returned if the parts have fewer.
        generator: Source of random numbers.
    """
    inputs = []
    targets = []
    missing_count = samples
    for part in parts.values():
        # Every part is shuffled, so that a small batch is the start of a large one.
        rows = torch.randperm(len(part), generator=generator)[:missing_count]
        batch = part.read_rows(rows)
        inputs.append(batch.inputs)
        targets.append(batch.targets)
        missing_count -= len(rows)
    return Batch(torch.cat(inputs), torch.cat(targets))


@dataclass(frozen=True)
class JoinedPart:
    """Two parts as one, without a copy of their samples.

    Attributes:
        first: The first part.
        second: The second part.
    """

    first: Part
    second: Part

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[Batch]:
        """Make one pass over all samples.

        In a random order, each full batch has samples of one part only, and the batches of both
        parts are shuffled. The samples that are left over in both parts follow, so only the last
        batch may be smaller.
        """
        if order is None:
            yield from self.first.batches(size)
            yield from self.second.batches(size)
            return
        iterators = [self.first.batches(size, order), self.second.batches(size, order)]
        # For each full batch, whether it comes from the first part (0) or from the second (1).
        part_indices = [0] * (len(self.first) // size) + [1] * (len(self.second) // size)
        for position in torch.randperm(len(part_indices), generator=order).tolist():
            yield next(iterators[part_indices[position]])
        remaining_batches = []
        for iterator in iterators:
            for batch in iterator:
                remaining_batches.append(batch)
        if remaining_batches:
            inputs = torch.cat([batch.inputs for batch in remaining_batches])
            targets = torch.cat([batch.targets for batch in remaining_batches])
            for start in range(0, len(inputs), size):
                end = start + size
                yield Batch(inputs[start:end], targets[start:end])

    def read_labels(self) -> Tensor:
        return torch.cat([self.first.read_labels(), self.second.read_labels()])

    def fingerprint(self) -> str:
        return f"{self.first.fingerprint()} {self.second.fingerprint()}"


def join_parts(first: Part, second: Part) -> Part:
    """Return the samples of two parts of the same data set as one part."""
    if isinstance(first, ArrayPart) and isinstance(second, ArrayPart):
        inputs = torch.cat([first.inputs, second.inputs])
        targets = torch.cat([first.targets, second.targets])
        return ArrayPart(inputs, targets, first.mean, first.std)
    if not isinstance(first, ImagePart) or not isinstance(second, ImagePart):
        return JoinedPart(first, second)
    images = torch.cat([first.images, second.images])
    labels = torch.cat([first.labels, second.labels])
    return ImagePart(images, labels, first.mean, first.std)


def select_samples(part: PartInMemory, rows: Tensor) -> PartInMemory:
    """Return some samples of a part in memory."""
    if isinstance(part, ArrayPart):
        return replace(part, inputs=part.inputs[rows], targets=part.targets[rows])
    return replace(part, images=part.images[rows], labels=part.labels[rows])


def choose_shares(
    existing_parts: Container[str], test_share: float = TEST_SHARE
) -> dict[str, float]:
    """Choose which shares of the training samples become other parts.

    Validation is 15 %, or 10 % if there is a test part already.

    Args:
        existing_parts: Names of the parts that the data have already.
        test_share: Share of the test part, if there is none yet.

    Returns:
        Shares by part; they sum to 1, and `train` is the first.
    """
    shares = {}
    if VAL not in existing_parts:
        shares[VAL] = 0.1 if TEST in existing_parts else 0.15
    if TEST not in existing_parts:
        shares[TEST] = test_share
    return {TRAIN: 1 - sum(shares.values()), **shares}


def split_rows(rows: Rows, shares: Mapping[str, float]) -> dict[str, Rows]:
    """Split rows by shares. The first part gets all rows that the other parts do not get.

    If there are at least four rows, every part gets at least one.
    """
    first_part, *other_parts = shares
    min_count = 1 if len(rows) >= MIN_SPLIT_ROWS else 0
    rows_of_parts = {}
    remaining_rows = rows
    for part in other_parts:
        count = max(min_count, round(shares[part] * len(rows)))
        rows_of_parts[part] = remaining_rows[:count]
        remaining_rows = remaining_rows[count:]
    return {first_part: remaining_rows, **rows_of_parts}


def split_by_class(
    labels: Tensor, shares: Mapping[str, float], task: Task, seed: int = 0
) -> dict[str, Tensor]:
    """Split samples into parts such that every class has the same shares.

    The split of a class depends on its own samples only, not on those of other classes. Samples
    with numbers as labels are split at random.

    Args:
        labels: Classes of the samples (N,), or numbers, which are floats.
        shares: Shares by part.
        task: Task of the data, whose name decides the random order.
        seed: Seed of the random order.

    Returns:
        Rows of each part, in increasing order.
    """
    if labels.is_floating_point():
        # Numbers have no classes, so all samples are split like one class.
        labels = torch.zeros(len(labels), dtype=torch.long)
    rows_of_parts: dict[str, list[Tensor]] = {part: [] for part in shares}
    for label in labels.unique():  # type: ignore[no-untyped-call]
        rows = (labels == label).nonzero()[:, 0]
        generator = make_torch_generator("split", task.dataset, int(label), seed)
        shuffled_rows = rows[torch.randperm(len(rows), generator=generator)]
        for part, part_rows in split_rows(shuffled_rows, shares).items():
            rows_of_parts[part].append(part_rows)
    return {part: torch.cat(rows).sort().values for part, rows in rows_of_parts.items()}


def fingerprint_samples(parts: Parts) -> str:
    """Return a fingerprint of every sample of a data set."""
    digest = hashlib.sha256()
    for name, part in parts.items():
        digest.update(f"{name} {len(part)} {part.fingerprint()}\n".encode())
    return digest.hexdigest()[:16]

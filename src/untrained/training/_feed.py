"""A part of the data on the device of a training, in batches. Knows parts and recipes, nothing of networks.

Pictures that fit are moved once, as bytes, and distorted where they lie; those that do not fit are moved batch by
batch. Rows of a table come as their part hands them out and are never distorted. The order of an epoch and the
distortions of a step follow from the seed and their number alone, so that a training goes on from any step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.data.parts import Part, Pictures
from untrained.rng import seed_for, torch_generator
from untrained.training.augment import cut_out, flipped, mixed, mixing, shifted
from untrained.training.recipes import Recipe
from untrained.types import Batch, Task

SHARE = 0.5  # of the free memory of a GPU that pictures may take
ROWS = 4096  # of a table that are judged at once
TIMES = 4  # as many pictures are judged at once as learned: without gradients they take less memory still


@dataclass(frozen=True)
class Feed:
    """Batches of one part. `seed` decides everything that is drawn."""

    part: Part
    task: Task
    recipe: Recipe
    device: str
    seed: int = 0

    @staticmethod
    def of(part: Part, task: Task, recipe: Recipe, device: str, seed: int) -> "Feed":
        return Feed(_moved(part, device), task, recipe, device, seed)

    @property
    def size(self) -> int:
        """Samples of a batch; all of them where there are fewer than the recipe asks for."""
        return min(self.recipe.batch, len(self.part))

    @property
    def steps(self) -> int:
        """Batches of an epoch; an incomplete last one is left out."""
        return len(self.part) // self.size

    def judged(self) -> Iterator[Batch]:
        """All samples as they are."""
        part, size = self.part, TIMES * self.size
        if not isinstance(part, Pictures):
            return (batch.to(self.device) for batch in part.batches(ROWS))
        pairs = zip(part.images.split(size), part.labels.split(size), strict=True)  # type: ignore[no-untyped-call]
        return (Batch(part.normal(x.to(self.device)), y.to(self.device)) for x, y in pairs)

    def learned(self, epoch: int, done: int = 0) -> Iterator[Batch]:
        """The batches of an epoch in its order, distorted, from the one after the first `done`."""
        order = torch_generator("order", self.seed, epoch)
        if not isinstance(self.part, Pictures):
            passes = self.part.batches(self.size, order)
            return (batch.to(self.device) for batch in islice(passes, done, self.steps))
        places = torch.randperm(len(self.part), generator=order).to(self.part.images.device)
        rows = places.split(self.size)[done : self.steps]  # type: ignore[no-untyped-call]
        return (self._distorted(some, epoch * self.steps + done + i) for i, some in enumerate(rows))

    def _distorted(self, rows: Tensor, step: int) -> Batch:
        """The pictures at these places, as step number `step` sees them."""
        assert isinstance(self.part, Pictures)
        recipe = self.recipe
        images, labels = self.part.images[rows].to(self.device), self.part.labels[rows].to(self.device)
        draws = torch.Generator(self.device).manual_seed(seed_for("distort", self.seed, step))
        images = shifted(images, recipe.crop, draws) if recipe.crop else images
        images = flipped(images, draws) if recipe.flip else images
        pixels = self.part.normal(images)
        pixels = cut_out(pixels, recipe.cutout, draws) if recipe.cutout else pixels
        if not recipe.mixup:
            return Batch(pixels, labels)
        shares, partners = (each.to(self.device) for each in mixing(len(rows), recipe.mixup, self.seed, step))
        return Batch(*mixed(pixels, F.one_hot(labels, self.task.num_classes).float(), shares, partners))


def _moved(part: Part, device: str) -> Part:
    """Pictures on the device, or all but the bytes where these would not fit."""
    if not isinstance(part, Pictures):
        return part
    there = replace(part, mean=part.mean.to(device), std=part.std.to(device))
    if not _fits(part, device):
        return there
    return replace(there, images=part.images.to(device), labels=part.labels.to(device))


def _fits(part: Pictures, device: str) -> bool:
    if torch.device(device).type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return part.images.nbytes < SHARE * free

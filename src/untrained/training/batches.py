"""Batches of one part of the data on the device of a training.

Images that fit into the memory of the device are moved there once, as bytes, and augmented there.
Larger data sets are moved batch by batch. Rows of a table and arrays are not augmented. The order
of an epoch depends only on the seed and the number of the epoch, and the augmentation of a step
only on the seed and the number of the step, so a training can resume at any step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.data.parts import ImagePart, Part
from untrained.seeds import derive_seed, make_torch_generator
from untrained.training.augment import (
    cut_out_squares,
    draw_mixup,
    flip_images,
    mix_samples,
    shift_images,
)
from untrained.training.recipes import Recipe
from untrained.training.trivial_augment import augment_trivially
from untrained.types import REGRESSION, Batch, Task

# Fraction of the free memory of a GPU that images may occupy.
GPU_MEMORY_SHARE = 0.5
# Rows of a table per batch of an evaluation.
EVALUATION_ROWS = 4096
# An evaluation needs no memory for gradients, so its batches of images and arrays are larger by
# this factor.
EVALUATION_FACTOR = 4


@dataclass(frozen=True)
class BatchLoader:
    """Batches of one part of the data.

    Attributes:
        part: The part.
        task: The task, for the number of classes.
        recipe: Batch size and augmentation.
        device: Device of the batches.
        seed: Seed of the order and of the augmentation.
    """

    part: Part
    task: Task
    recipe: Recipe
    device: str
    seed: int = 0

    @staticmethod
    def open(part: Part, task: Task, recipe: Recipe, device: str, seed: int) -> "BatchLoader":
        """Return a loader, after moving images to the device if they fit into its memory."""
        return BatchLoader(_move_part(part, device), task, recipe, device, seed)

    @property
    def batch_size(self) -> int:
        """The batch size of the recipe, or the number of samples if that is smaller."""
        return min(self.recipe.batch, len(self.part))

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch. An incomplete last batch is left out."""
        return len(self.part) // self.batch_size

    def iterate_evaluation_batches(self) -> Iterator[Batch]:
        """Yield batches of all samples, in order and without augmentation."""
        if not isinstance(self.part, ImagePart):
            size = EVALUATION_FACTOR * self.batch_size
            if self.task.is_table:
                size = EVALUATION_ROWS
            for batch in self.part.batches(size):
                yield batch.to(self.device)
            return
        size = EVALUATION_FACTOR * self.batch_size
        for start in range(0, len(self.part), size):
            images = self.part.images[start : start + size].to(self.device)
            labels = self.part.labels[start : start + size].to(self.device)
            yield Batch(self.part.normalise(images), labels)

    def iterate_training_batches(self, epoch: int, first_step: int = 0) -> Iterator[Batch]:
        """Yield the augmented batches of an epoch.

        Args:
            epoch: Number of the epoch, from 0. It determines the order of the samples.
            first_step: Number of batches to skip, when an epoch is resumed.
        """
        generator = make_torch_generator("order", self.seed, epoch)
        if not isinstance(self.part, ImagePart):
            batches = self.part.batches(self.batch_size, generator)
            for batch in islice(batches, first_step, self.steps_per_epoch):
                yield batch.to(self.device)
            return
        order = torch.randperm(len(self.part), generator=generator)
        order = order.to(self.part.images.device)
        for step_in_epoch in range(first_step, self.steps_per_epoch):
            start = step_in_epoch * self.batch_size
            indices = order[start : start + self.batch_size]
            yield self._load_augmented(indices, epoch * self.steps_per_epoch + step_in_epoch)

    def _load_augmented(self, indices: Tensor, step: int) -> Batch:
        """Load the images at these indices, with the augmentation of a step, counted from 0."""
        assert isinstance(self.part, ImagePart)
        recipe = self.recipe
        images = self.part.images[indices].to(self.device)
        labels = self.part.labels[indices].to(self.device)
        generator = torch.Generator(self.device)
        generator.manual_seed(derive_seed("distort", self.seed, step))
        if recipe.crop:
            images = shift_images(images, recipe.crop, generator)
        if recipe.flip:
            images = flip_images(images, generator)
        if recipe.augment == "trivial":
            images = augment_trivially(images, generator)
        pixels = self.part.normalise(images)
        if recipe.cutout:
            pixels = cut_out_squares(pixels, recipe.cutout, generator)
        if not recipe.mixup:
            return Batch(pixels, labels)
        weights, partners = draw_mixup(len(indices), recipe.mixup, self.seed, step)
        if self.task.kind == REGRESSION:
            targets = labels[:, None]
        else:
            targets = F.one_hot(labels, self.task.num_classes).float()
        mixed_pixels, mixed_targets = mix_samples(
            pixels, targets, weights.to(self.device), partners.to(self.device)
        )
        return Batch(mixed_pixels, mixed_targets)


def _move_part(part: Part, device: str) -> Part:
    """Return a part whose images are on the device, or only their statistics if they do not fit."""
    if not isinstance(part, ImagePart):
        return part
    moved_part = replace(part, mean=part.mean.to(device), std=part.std.to(device))
    if not _fits_on_device(part, device):
        return moved_part
    return replace(moved_part, images=part.images.to(device), labels=part.labels.to(device))


def _fits_on_device(part: ImagePart, device: str) -> bool:
    if torch.device(device).type != "cuda":
        return True
    free_bytes, _ = torch.cuda.mem_get_info(device)
    return part.images.nbytes < GPU_MEMORY_SHARE * free_bytes

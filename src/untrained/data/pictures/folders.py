"""Data sources of the user's pictures: a folder with one subfolder per class, or a label file.

Pictures are decoded when samples, parts or the card are first needed, all of them at once.
"""

from functools import cache
from pathlib import Path

import torch

from untrained.data.held_out import split_test_path
from untrained.data.images import (
    compute_channel_statistics,
    make_image_regression_task,
    make_image_task,
)
from untrained.data.mirror import may_be_mirrored
from untrained.data.parts import TRAIN, ImagePart, Parts, draw_samples
from untrained.data.pictures.cache import DecodingSummary, load_pictures
from untrained.data.pictures.card import (
    PictureCard,
    limit_input_size,
    make_picture_card,
    propose_input_size,
)
from untrained.data.pictures.label_file import list_label_file, parse_label_file
from untrained.data.pictures.listing import (
    PART_NAMES,
    Listing,
    list_folder,
    measure_shorter_side,
)
from untrained.data.registry import register_source
from untrained.data.regression import standardise_labels
from untrained.data.source import DataSource
from untrained.data.tables.values import read_label
from untrained.errors import UsageError
from untrained.types import Batch, Task


@register_source(
    "folder:PATH, your pictures: one subfolder per class, or train, val and test with such "
    "subfolders; also folder:PATH?test=PATH",
    belongs_to_user=True,
)
def folder(argument: str, like: Task, root: Path) -> DataSource:
    if not argument:
        raise UsageError("name the folder: folder:PATH, such as --data folder:./photos")
    return make_picture_source(list_folder(*split_test_path(argument)), like, root)


@register_source(
    "images:PATH.csv, your pictures: a table with the columns path, label (classes or numbers) and "
    "perhaps split; also images:PATH.csv?label=age&task=regression",
    belongs_to_user=True,
)
def images(argument: str, like: Task, root: Path) -> DataSource:
    if not argument:
        raise UsageError("name the table: images:PATH.csv, such as --data images:./photos.csv")
    return make_picture_source(list_label_file(*parse_label_file(argument)), like, root)


def make_picture_source(listing: Listing, like: Task, root: Path) -> DataSource:
    """Make a source of the pictures in a listing.

    Args:
        listing: The pictures.
        like: Task with the input shape that networks take.
        root: Data root, which holds the cache of decoded pictures.
    """
    task = _make_task(listing, like)
    if task.input_shape[0] not in (1, 3):
        raise UsageError(
            f"pictures have 1 or 3 channels, not {task.input_shape[0]}; "
            "set the input shape to match"
        )

    @cache
    def open_pictures() -> tuple[dict[str, ImagePart], DecodingSummary]:
        pixels, facts = load_pictures(listing, task.input_shape, root)
        return _split_pictures(listing, task, pixels, facts), facts

    def draw(samples: int, generator: torch.Generator) -> Batch:
        parts, _ = open_pictures()
        return draw_samples(parts, samples, generator)

    def open_parts() -> Parts:
        parts, _ = open_pictures()
        return parts

    def make_card() -> PictureCard:
        parts, facts = open_pictures()
        train_part = parts[TRAIN]
        mirrored = may_be_mirrored(train_part.images, train_part.labels)
        return make_picture_card(listing, facts, task.input_shape, mirrored)

    def propose_side() -> int:
        shorter_side = measure_shorter_side(listing)
        if shorter_side is None:
            return task.input_shape[-1]
        return limit_input_size(propose_input_size(shorter_side), len(listing.files))

    return DataSource(task, draw, open_parts, listing.classes, make_card, propose_side=propose_side)


def _make_task(listing: Listing, like: Task) -> Task:
    target = listing.target
    if target is None or not listing.has_numbers:
        return make_image_task(listing.title, like, len(listing.classes))
    return make_image_regression_task(listing.title, like, target.column, target.mean, target.std)


def _split_pictures(
    listing: Listing, task: Task, pixels: torch.Tensor, facts: DecodingSummary
) -> dict[str, ImagePart]:
    """Split decoded pictures, which are sorted by part, into the parts of their listing."""
    files = listing.list_readable_files(facts.unreadable)
    if listing.has_numbers:
        numbers = [read_label(file.label, None) for file in files]
        labels = standardise_labels(torch.tensor(numbers, dtype=torch.float64), task)
    else:
        class_indices = {name: index for index, name in enumerate(listing.classes)}
        labels = torch.tensor([class_indices[file.label] for file in files])
    rows_of_parts = {}
    start = 0
    for part in PART_NAMES:
        count = sum(file.part == part for file in files)
        rows_of_parts[part] = slice(start, start + count)
        start += count
    mean, std = compute_channel_statistics(pixels[rows_of_parts[TRAIN]])
    parts = {}
    for part, rows in rows_of_parts.items():
        parts[part] = ImagePart(pixels[rows], labels[rows], mean, std)
    return parts

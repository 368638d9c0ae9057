"""Pictures of one's own: a folder with a subfolder a class, or a CSV of paths and labels. Nothing is decoded before
somebody asks for samples, parts or the card; then everything is, once."""

from functools import cache
from itertools import accumulate
from pathlib import Path

import torch

from untrained.data._cache import Facts, shelved
from untrained.data._listing import PARTS, Listing, of_folder, of_table
from untrained.data._source import Source, channel_statistics, image_task, source
from untrained.data.parts import Parts, Pictures
from untrained.data.picture_card import PictureCard, picture_card
from untrained.errors import UsageError
from untrained.types import Batch, Task


@source(
    "folder", "folder:PATH, your pictures: a subfolder a class, or train, val and test with such subfolders", own=True
)
def folder(argument: str, like: Task, root: Path) -> Source:
    if not argument:
        raise UsageError("say which folder: folder:PATH, such as --data folder:./photos")
    return from_listing(of_folder(Path(argument)), like, root)


@source("images", "images:PATH.csv, your pictures: a table with the columns path, label and perhaps split", own=True)
def images(argument: str, like: Task, root: Path) -> Source:
    if not argument:
        raise UsageError("say which table: images:PATH.csv, such as --data images:./photos.csv")
    return from_listing(of_table(Path(argument)), like, root)


def from_listing(listing: Listing, like: Task, root: Path) -> Source:
    """Pictures that are listed: read when they are first needed, and held where the cache has them."""
    task = image_task(listing.title, like, len(listing.classes))
    if task.input_shape[0] not in (1, 3):
        raise UsageError(f"pictures have 1 or 3 channels, not {task.input_shape[0]}; set the input shape to match")

    @cache
    def opened() -> tuple[dict[str, Pictures], Facts]:
        images, facts = shelved(listing, task.input_shape, root)
        lost = dict(facts.lost)
        used = [entry for place, entry in enumerate(listing.entries) if place not in lost]
        label = {kind: place for place, kind in enumerate(listing.classes)}
        labels = torch.tensor([label[entry.kind] for entry in used])
        ends = [0, *accumulate(sum(entry.part == part for entry in used) for part in PARTS)]
        mean, std = channel_statistics(images[: ends[1]])
        places = dict(zip(PARTS, map(slice, ends, ends[1:]), strict=True))
        return {part: Pictures(images[rows], labels[rows], mean, std) for part, rows in places.items()}, facts

    def draw(samples: int, generator: torch.Generator) -> Batch:
        found = []
        for part in opened()[0].values():
            rows = torch.randperm(len(part), generator=generator)[:samples]
            found.append(Batch(part.normal(part.images[rows]), part.labels[rows]))
            samples -= len(rows)
        return Batch(torch.cat([batch.inputs for batch in found]), torch.cat([batch.targets for batch in found]))

    def parts() -> Parts:
        return opened()[0]

    def card() -> PictureCard:
        return picture_card(listing, opened()[1], task.input_shape)

    return Source(task, draw, parts, listing.classes, card)

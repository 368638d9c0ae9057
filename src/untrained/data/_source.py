"""A Source hands out batches. The same seed gives the same samples, and a small batch is the head of a large one.

This room knows shapes, classes and files; it knows nothing of networks.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from untrained._quantities import parse_count, parse_path, show_value
from untrained._root import data_root as data_root
from untrained.data.parts import Parts, Pictures, shares, stratified
from untrained.errors import UsageError
from untrained.registry import Registry
from untrained.rng import torch_generator
from untrained.types import Batch, Task

if TYPE_CHECKING:
    from untrained.data._schema import Schema

LARGEST_SIDE = 16_384  # pixels
Draw = Callable[[int, torch.Generator], Batch]
Arrays = tuple[Tensor, Tensor]  # images (N, H, W, C) of uint8 and their labels


class Card(Protocol):
    """What an inspection of somebody's data found: a frozen dataclass that can be told in a few lines, and in more with
    all `details`. `problems` are the files or lines that were not used, or that ought to be looked at, each with
    its reason."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def problems(self) -> tuple[tuple[str, str], ...]: ...

    def lines(self) -> list[str]: ...

    def details(self) -> list[str]: ...


@dataclass(frozen=True)
class Source:
    """Samples for a task: `draw(n, generator)` gives n of them to look at, none of which a network is judged on later.
    `open_parts()` gives all of them to whoever trains; it gives nothing where samples are made up. `classes` are the
    names of the labels where they have names, `card()` inspects data that are somebody's own, and `schema`
    is how the rows of a table became numbers."""

    task: Task
    draw: Draw
    open_parts: Callable[[], Parts] = dict
    classes: tuple[str, ...] = ()
    card: Callable[[], Card] | None = None
    schema: "Schema | None" = None

    @cached_property
    def parts(self) -> Parts:
        """Train, val and test, opened when first asked for; a UsageError where there are none."""
        found = self.open_parts()
        if not found:
            raise UsageError(f"{self.task.dataset} has nothing to learn from; take data with labels, such as digits")
        return found

    def batch(self, samples: int, seed: int = 0) -> Batch:
        return self.draw(samples, torch_generator("batch", self.task.dataset, seed))


@dataclass(frozen=True)
class Kind:
    """How to open one kind of data: `open(argument, like, root)`. `own` are the user's data, whose argument begins with
    a path; `argument` says whether there may be one at all."""

    about: str
    open: Callable[[str, Task, Path], Source]
    own: bool
    argument: bool


SOURCES: Registry[Kind] = Registry("data set")


def source(
    name: str, about: str, *, own: bool = False, argument: bool = False
) -> Callable[[Callable[[str, Task, Path], Source]], Callable[..., Source]]:
    """Register a way to open data under `name`; `name:ARGUMENT` passes the argument on."""

    def register(opener: Callable[[str, Task, Path], Source]) -> Callable[..., Source]:
        SOURCES.add(name, Kind(about, opener, own, argument or own))
        return opener

    return register


def load(name: str, like: Task, root: str | Path | None = None) -> Source:
    """The data called `name`, shaped like `like` (input size, and classes where the data have none of their own)."""
    if not isinstance(name, str):
        raise UsageError(f"data is {show_value(name)}; give a name as text, such as 'digits' or 'folder:./photos'")
    parse_path(name, "data")
    said, _, argument = name.partition(":")
    if not like.input_shape or any(n < 1 for n in like.input_shape):
        raise UsageError(f"impossible input shape {like.input_shape}; give channels x height x width, such as 3x32x32")
    if name not in SOURCES and os.path.exists(name):  # a Path would raise on a name of many columns
        raise UsageError(f"{name} is a path; say what lies there: {_kind_of(Path(name))}:{name}")
    kind = SOURCES[said]
    if argument and not kind.argument:
        raise UsageError(f"{said} takes nothing behind its name, and {argument!r} is there; write --data {said}")
    if kind.own:
        argument = os.path.expanduser(argument)  # no shell does that behind a colon
    return kind.open(argument, like, data_root(root))


def _kind_of(path: Path) -> str:
    """What data a path is likely to hold."""
    ending = path.suffix.lstrip(".")
    return "folder" if path.is_dir() else ending if ending in ("npz", "parquet") else "csv"


def fingerprint(batch: Batch) -> str:
    """Sixteen hexadecimal digits that say which numbers were looked at."""
    digest = sha256()
    for tensor in (batch.inputs, batch.targets):
        digest.update(str((tuple(tensor.shape), tensor.dtype)).encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def from_tensors(inputs: Tensor, targets: Tensor | None, task: Task) -> Source:
    """The user's own samples, in their own order; without targets, random ones."""

    def draw(samples: int, generator: torch.Generator) -> Batch:
        labels = random_labels(len(inputs), task, generator) if targets is None else targets
        return Batch(inputs[:samples], labels[:samples])

    return Source(task, draw)


def from_arrays(
    images: Tensor,
    labels: Tensor,
    task: Task,
    statistics: tuple[Tensor, Tensor] | None = None,
    *,
    held: Mapping[str, Callable[[], Arrays]] | None = None,
    classes: tuple[str, ...] = (),
) -> Source:
    """Images (N, H, W, C) of uint8 and their labels: random samples, resized to the task and normalised per channel.
    They are of the part that is learned from, and of the others only where that one has too few.

    `held` are the parts that the publisher keeps apart, read when somebody asks for them; the others are cut from the
    images, in equal shares of each class.
    """
    labels, apart = labels.long(), held or {}
    places = stratified(labels, shares(apart), task)
    mean, std = (fit_statistic(value, task) for value in statistics or channel_statistics(images))

    def draw(samples: int, generator: torch.Generator) -> Batch:
        order = torch.cat([rows[torch.randperm(len(rows), generator=generator)] for rows in places.values()])[:samples]
        pixels = fit_channels(images[order].permute(0, 3, 1, 2).float() / 255, task)
        return Batch(resize((pixels - mean) / std, task), labels[order])

    def parts() -> Parts:
        found = {name: (images[rows], labels[rows]) for name, rows in places.items()}
        found |= {name: open_part() for name, open_part in apart.items()}
        normal = mean.flatten(), std.flatten()
        return {name: Pictures(fitted(x, task), y.long(), *normal) for name, (x, y) in found.items()}

    return Source(task, draw, parts, classes)


def fitted(images: Tensor, task: Task) -> Tensor:
    """Images (N, H, W, C) of uint8 in the size and with the channels of the task."""
    if images.shape[1:] == (*task.input_shape[1:], task.input_shape[0]):
        return images
    scaled = [resize(fit_channels(few.permute(0, 3, 1, 2).float(), task), task) for few in images.split(1000)]  # type: ignore[no-untyped-call]
    return torch.cat([few.round().clamp(0, 255).to(torch.uint8) for few in scaled]).permute(0, 2, 3, 1).contiguous()


def random_labels(samples: int, task: Task, generator: torch.Generator) -> Tensor:
    classes = 2 if task.loss == "bce" else max(task.num_classes, 1)
    return torch.randint(classes, (samples,), generator=generator)


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel of (N, H, W, C) uint8 images, 2,000 at most, on the scale 0 to 1."""
    some = images[:: -(-len(images) // 2000)].double().div_(255)  # from all over: files often lie class by class
    return some.mean((0, 1, 2)).float(), some.std((0, 1, 2)).clamp_min(1e-3).float()


def fit_channels(pixels: Tensor, task: Task) -> Tensor:
    """(N, C, H, W) with the task's number of channels: grey repeats, colour averages to grey."""
    have, want = pixels.shape[1], task.input_shape[0]
    if have == want:
        return pixels
    if have == 1:
        return pixels.expand(-1, want, -1, -1)
    if want == 1:
        return pixels.mean(1, keepdim=True)
    raise UsageError(f"images of {have} channels cannot be shown to a network of {want}; set the input shape to match")


def fit_statistic(value: Tensor, task: Task) -> Tensor:
    want = task.input_shape[0]
    return (value if len(value) == want else value.mean().expand(want)).reshape(1, -1, 1, 1)


def resize(images: Tensor, task: Task) -> Tensor:
    size = task.input_shape[1:]
    if tuple(images.shape[2:]) == size:
        return images
    return F.interpolate(images, size=size, mode="bilinear", align_corners=False, antialias=True)


def image_task(name: str, like: Task, classes: int | None = None) -> Task:
    """`like` for the image data called `name`."""
    if len(like.input_shape) != 3:
        table = "; networks of tables take --data csv:PATH, or clicks for a trial" if len(like.input_shape) == 1 else ""
        told = f"{name} holds images: the input shape is channels x height x width, not {like.input_shape}"
        raise UsageError(told + table)
    return replace(like, dataset=name, num_classes=classes or like.num_classes)


def sized(task: Task, side: int | None) -> Task:
    """The task with square images of so many pixels a side; as it is without a side."""
    if side is None:
        return task
    side = parse_count(side, "input_size", 1, LARGEST_SIDE)
    if len(task.input_shape) != 3:
        raise UsageError(f"--input-size {side} is for images, and these networks take {task.input_shape}; leave it out")
    return replace(task, input_shape=(task.input_shape[0], side, side))

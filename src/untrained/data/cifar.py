"""CIFAR-10 and CIFAR-100 as their publisher packs them, binary or python. The test images are read when somebody asks
for them, so whoever only scores networks needs the training files alone.

The python batches are pickles; they are read by an unpickler that knows arrays and plain data and refuses the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from untrained.data._source import Arrays, Source, from_arrays, image_task, source
from untrained.data.parts import TEST
from untrained.errors import UsageError
from untrained.identity import file_state
from untrained.readers.pickle_file import read_pickle
from untrained.types import Task


@dataclass(frozen=True)
class _Published:
    """How one of the two is packed: `labels` bytes lie before the pixels of an image, the last of them is its class."""

    title: str
    folder: str  # with -FORM at its end
    forms: tuple[str, str]  # what FORM is: binary, python
    train: tuple[str, ...]
    test: str
    labels: int
    key: bytes
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    classes: tuple[str, ...]


_TEN = _Published(
    "CIFAR-10",
    "cifar-10-batches",
    ("bin", "py"),
    tuple(f"data_batch_{k}" for k in range(1, 6)),
    "test_batch",
    1,
    b"labels",
    (0.4914, 0.4822, 0.4465),
    (0.2470, 0.2435, 0.2616),
    tuple("airplane automobile bird cat deer dog frog horse ship truck".split()),
)
_HUNDRED = _Published(
    "CIFAR-100",
    "cifar-100",
    ("binary", "python"),
    ("train",),
    "test",
    2,
    b"fine_labels",
    (0.5071, 0.4865, 0.4409),
    (0.2673, 0.2564, 0.2762),
    tuple(
        """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
        castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
        elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
        man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
        pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
        skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
        tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm""".split()
    ),
)


@source("cifar10", "CIFAR-10, from the publisher's files under the data root")
def cifar10(argument: str, like: Task, root: Path) -> Source:
    return _opened(_TEN, image_task("cifar10", like, classes=10), root)


@source("cifar100", "CIFAR-100 with its hundred fine classes, from the publisher's files under the data root")
def cifar100(argument: str, like: Task, root: Path) -> Source:
    return _opened(_HUNDRED, image_task("cifar100", like, classes=100), root)


def _opened(published: _Published, task: Task, root: Path) -> Source:
    statistics = torch.tensor(published.mean), torch.tensor(published.std)
    held = {TEST: partial(_read, published, (published.test,), root)}
    images, labels = _read(published, published.train, root)
    return from_arrays(images, labels, task, statistics, held=held, classes=published.classes)


def _read(published: _Published, names: Sequence[str], root: Path) -> Arrays:
    """The images (N, H, W, C) of these batches and their labels."""
    binary, python = (f"{published.folder}-{form}" for form in published.forms)
    for folder, suffix in ((binary, ".bin"), (python, "")):
        files = tuple(root / folder / f"{name}{suffix}" for name in names)
        if all(file.is_file() for file in files):
            return _read_files(published, files, tuple(file_state(file) for file in files))
    more = f" to _{len(names)}" if len(names) > 1 else ""
    raise UsageError(
        f"{published.title} is not under {root}: looked for {binary}/{names[0]}.bin{more and f'{more}.bin'} and for "
        f"{python}/{names[0]}{more}. Unpack the publisher's archive there, or name another folder with "
        f"--data-root or UNTRAINED_DATA. Without it, --data digits needs no files."
    )


@lru_cache(maxsize=8)
def _read_files(published: _Published, files: tuple[Path, ...], states: tuple[tuple[int, ...], ...]) -> Arrays:
    """The content of these files, kept as long as their states are the same."""
    read = _binary if files[0].suffix == ".bin" else _python
    pixels, labels = zip(*(read(file, published) for file in files), strict=True)
    planes = torch.cat(pixels).reshape(-1, 3, 32, 32)
    return planes.permute(0, 2, 3, 1).contiguous(), torch.cat(labels)


def _binary(file: Path, published: _Published) -> tuple[Tensor, Tensor]:
    """The bytes of its labels and 3,072 of pixels (red, green, blue planes) an image."""
    raw, size = np.fromfile(file, dtype=np.uint8), published.labels + 3072
    if raw.size == 0 or raw.size % size:
        raise UsageError(f"{file} is damaged: {raw.size} bytes is not a whole number of {size:,}-byte images")
    rows = torch.from_numpy(raw).reshape(-1, size)
    return rows[:, published.labels :], rows[:, published.labels - 1].long()


def _python(file: Path, published: _Published) -> tuple[Tensor, Tensor]:
    batch = read_pickle(file)
    if not isinstance(batch, dict) or not {b"data", published.key} <= batch.keys():
        raise UsageError(f"{file} is damaged: it is no dictionary of data and {published.key.decode()}")
    pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[published.key])
    if pixels.dtype != np.uint8 or pixels.shape != (labels.size, 3072):
        raise UsageError(f"{file} is damaged: {pixels.dtype} data {pixels.shape} with {labels.size} labels")
    return torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))

"""CIFAR-10 and CIFAR-100, in the binary or in the Python version of the publisher.

Test images are read only when they are needed, so scoring works without the test file. The files of
the Python version are pickles, read by a restricted reader (`readers/pickle_file.py`) that accepts
arrays and plain data and rejects everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from untrained.data.images import LabelledImages, make_image_source, make_image_task
from untrained.data.parts import TEST
from untrained.data.registry import register_source
from untrained.data.source import DataSource
from untrained.errors import UsageError
from untrained.identity import read_file_state
from untrained.readers.limits import name_file_in_errors
from untrained.readers.pickle_file import read_pickle
from untrained.types import Task

_PIXEL_BYTES = 3 * 32 * 32


@dataclass(frozen=True)
class _CifarDataset:
    """One of the two data sets: its published files and its classes.

    Attributes:
        title: Name in messages.
        binary_folder: Folder of the binary version.
        python_folder: Folder of the Python version.
        train_files: Names of the training files; binary ones end in `.bin`.
        test_file: Name of the test file.
        label_bytes: Bytes in front of the pixels of an image; the last one is its class.
        label_key: Key of the labels in the Python version.
        mean: Mean of each colour channel, on the scale 0 to 1.
        std: Standard deviation of each colour channel.
        classes: Names of the classes.
    """

    title: str
    binary_folder: str
    python_folder: str
    train_files: tuple[str, ...]
    test_file: str
    label_bytes: int
    label_key: bytes
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    classes: tuple[str, ...]


_CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100_CLASSES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
    camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
    cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
    lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
_CIFAR10 = _CifarDataset(
    title="CIFAR-10",
    binary_folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    train_files=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test_file="test_batch",
    label_bytes=1,
    label_key=b"labels",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    classes=tuple(_CIFAR10_CLASSES.split()),
)
_CIFAR100 = _CifarDataset(
    title="CIFAR-100",
    binary_folder="cifar-100-binary",
    python_folder="cifar-100-python",
    train_files=("train",),
    test_file="test",
    label_bytes=2,
    label_key=b"fine_labels",
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    classes=tuple(_CIFAR100_CLASSES.split()),
)


def _find_files(dataset: _CifarDataset, names: Sequence[str], root: Path) -> tuple[Path, ...]:
    """Return these files of the binary or of the Python version; nothing if one is missing."""
    binary_files = tuple(root / dataset.binary_folder / f"{name}.bin" for name in names)
    python_files = tuple(root / dataset.python_folder / name for name in names)
    for files in (binary_files, python_files):
        if all(file.is_file() for file in files):
            return files
    return ()


@register_source(
    "CIFAR-10, from the publisher's files under the data root",
    find_files=partial(_find_files, _CIFAR10, _CIFAR10.train_files),
)
def cifar10(argument: str, like: Task, root: Path) -> DataSource:
    return _open_dataset(_CIFAR10, make_image_task("cifar10", like, classes=10), root)


@register_source(
    "CIFAR-100 with its hundred fine classes, from the publisher's files under the data root",
    find_files=partial(_find_files, _CIFAR100, _CIFAR100.train_files),
)
def cifar100(argument: str, like: Task, root: Path) -> DataSource:
    return _open_dataset(_CIFAR100, make_image_task("cifar100", like, classes=100), root)


def _open_dataset(dataset: _CifarDataset, task: Task, root: Path) -> DataSource:
    images, labels = _read_images(dataset, dataset.train_files, root)
    statistics = (torch.tensor(dataset.mean), torch.tensor(dataset.std))
    read_test = partial(_read_images, dataset, (dataset.test_file,), root)
    return make_image_source(
        images,
        labels,
        task,
        statistics,
        existing_parts={TEST: read_test},
        classes=dataset.classes,
    )


def _read_images(dataset: _CifarDataset, names: Sequence[str], root: Path) -> LabelledImages:
    """Read the images (N, H, W, C) and the labels of some files.

    Raises:
        UsageError: The files do not exist.
    """
    files = _find_files(dataset, names, root)
    if files:
        states = tuple(read_file_state(file) for file in files)
        return _read_files(dataset, files, states)

    binary_example = f"{dataset.binary_folder}/{names[0]}.bin"
    python_example = f"{dataset.python_folder}/{names[0]}"
    if len(names) > 1:
        binary_example += f" to _{len(names)}.bin"
        python_example += f" to _{len(names)}"
    raise UsageError(
        f"{dataset.title} is not under {root}: looked for {binary_example} and for "
        f"{python_example}. Unpack the publisher's archive there, or name another folder with "
        "--data-root or UNTRAINED_DATA. To try untrained without files, use "
        "--data digits."
    )


# `states` (sizes and modification times) are part of the cache key, so that changed files are read
# again.
@lru_cache(maxsize=8)
def _read_files(
    dataset: _CifarDataset, files: tuple[Path, ...], states: tuple[tuple[int, ...], ...]
) -> LabelledImages:
    """Return the images and labels of all files together; cached while the files do not change."""
    pixels = []
    labels = []
    for file in files:
        if file.suffix == ".bin":
            file_pixels, file_labels = _read_binary_file(file, dataset)
        else:
            file_pixels, file_labels = _read_python_file(file, dataset)
        pixels.append(file_pixels)
        labels.append(file_labels)
    # The publisher stores the red, the green and the blue plane of an image one after the other.
    planes = torch.cat(pixels).reshape(-1, 3, 32, 32)
    return planes.permute(0, 2, 3, 1).contiguous(), torch.cat(labels)


def _read_binary_file(file: Path, dataset: _CifarDataset) -> tuple[Tensor, Tensor]:
    """Return pixels (N, 3072) and labels (N,)."""
    with name_file_in_errors(file):
        content = np.fromfile(file, dtype=np.uint8)
    image_bytes = dataset.label_bytes + _PIXEL_BYTES
    if content.size == 0 or content.size % image_bytes:
        raise UsageError(
            f"{file} is damaged: {content.size} bytes is not a whole number of "
            f"{image_bytes:,}-byte images"
        )
    rows = torch.from_numpy(content).reshape(-1, image_bytes)
    labels = rows[:, dataset.label_bytes - 1].long()
    return rows[:, dataset.label_bytes :], labels


def _read_python_file(file: Path, dataset: _CifarDataset) -> tuple[Tensor, Tensor]:
    """Return pixels (N, 3072) and labels (N,)."""
    content = read_pickle(file)
    label_key = dataset.label_key
    if not isinstance(content, dict) or not {b"data", label_key} <= content.keys():
        raise UsageError(
            f"{file} is damaged: it is not a dictionary of data and {label_key.decode()}"
        )
    pixels = np.asarray(content[b"data"])
    labels = np.asarray(content[label_key])
    if pixels.dtype != np.uint8 or pixels.shape != (labels.size, _PIXEL_BYTES):
        raise UsageError(
            f"{file} is damaged: {pixels.dtype} data {pixels.shape} with {labels.size} labels"
        )
    return torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))

"""MNIST and Fashion-MNIST: the four IDX files of the publisher, or one numpy archive.

The IDX files may be compressed by gzip.
"""

import math
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from untrained.data.images import LabelledImages, make_image_task
from untrained.data.npz import make_source_from_parts, read_npz
from untrained.data.parts import TEST, TRAIN
from untrained.data.registry import register_source
from untrained.data.source import DataSource
from untrained.errors import UsageError
from untrained.identity import read_file_state
from untrained.readers.compressed_file import read_whole_file
from untrained.readers.limits import name_file_in_errors
from untrained.types import Task

_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_FILE_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_UNSIGNED_BYTES = 8  # code of this type in an IDX file


def _find_files(folder: str, root: Path) -> tuple[Path, ...]:
    """Return the four IDX files, or else the first archive, of a folder; nothing without them."""
    return _find_idx_files(root / folder) or _find_archive(root / folder)


def _find_idx_files(folder: Path) -> tuple[Path, ...]:
    files = []
    for name in _FILE_NAMES:
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                files.append(file)
                break
    if len(files) < len(_FILE_NAMES):
        return ()
    return tuple(files)


def _find_archive(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("*.npz"))[:1])


@register_source(
    "MNIST, digits of 28x28 pixels: the publisher's files in the folder mnist of the data root",
    find_files=partial(_find_files, "mnist"),
)
def mnist(argument: str, like: Task, root: Path) -> DataSource:
    task = make_image_task("mnist", like, classes=10)
    return _open_folder(root / "mnist", task, mean=0.1307, std=0.3081, classes=_DIGITS)


@register_source(
    "Fashion-MNIST, clothes of 28x28 pixels: the publisher's files in the folder fashion_mnist",
    find_files=partial(_find_files, "fashion_mnist"),
)
def fashion_mnist(argument: str, like: Task, root: Path) -> DataSource:
    task = make_image_task("fashion_mnist", like, classes=10)
    return _open_folder(root / "fashion_mnist", task, mean=0.2860, std=0.3530, classes=_CLOTHES)


def _open_folder(
    folder: Path, task: Task, mean: float, std: float, classes: tuple[str, ...]
) -> DataSource:
    statistics = (torch.tensor([mean]), torch.tensor([std]))
    return make_source_from_parts(_read_folder(folder), task, statistics, classes)


def _read_folder(folder: Path) -> dict[str, LabelledImages]:
    """Return the training and the test images of a folder, by part."""
    files = _find_idx_files(folder)
    if files:
        states = tuple(read_file_state(file) for file in files)
        return _read_files(files, states)
    archives = _find_archive(folder)
    if not archives:
        raise UsageError(
            f"{folder.name} is not in {folder}: looked for {', '.join(_FILE_NAMES)}, each also "
            "with .gz, and for an .npz archive. Put them there, or name another data root with "
            "--data-root or UNTRAINED_DATA. To try untrained without files, use --data digits."
        )
    return read_npz(archives[0])


# `states` (sizes and modification times) are part of the cache key, so that changed files are read
# again.
@lru_cache(maxsize=4)
def _read_files(
    files: tuple[Path, ...], states: tuple[tuple[int, ...], ...]
) -> dict[str, LabelledImages]:
    """Return the images of the four files by part; cached while the files do not change."""
    train_images, train_labels, test_images, test_labels = files
    return {
        TRAIN: _read_part(train_images, train_labels),
        TEST: _read_part(test_images, test_labels),
    }


def _read_part(image_file: Path, label_file: Path) -> LabelledImages:
    images = _read_idx(image_file, axes=3)
    labels = _read_idx(label_file, axes=1)
    if len(images) != len(labels):
        raise UsageError(
            f"{image_file} has {len(images)} images and {label_file.name} {len(labels)} labels; "
            "one of them is damaged"
        )
    return images[..., None], labels.long()


def _read_idx(file: Path, axes: int) -> Tensor:
    """Read an IDX file of bytes.

    It starts with two zeros, the code of the type and the number of axes. The lengths of the axes
    follow, four bytes each, then the numbers.
    """
    with name_file_in_errors(file):
        content = read_whole_file(file)
    start = 4 + 4 * axes
    shape: tuple[int, ...] = ()
    if len(content) > start:
        shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    is_header_valid = content[:4] == bytes((0, 0, _UNSIGNED_BYTES, axes))
    if not is_header_valid or math.prod(shape) != len(content) - start:
        raise UsageError(
            f"{file} is damaged: it is not an IDX file of bytes with {axes} axes, or it is cut off"
        )
    numbers = np.frombuffer(content, dtype=np.uint8, offset=start)
    return torch.from_numpy(numbers.reshape(shape).copy())

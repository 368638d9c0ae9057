"""MNIST and Fashion-MNIST: the publishers' four IDX files, packed by gzip or not, or one numpy archive of them."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from untrained.data._source import Arrays, Source, image_task, source
from untrained.data.npz import from_read, read_npz
from untrained.data.parts import TEST, TRAIN
from untrained.errors import UsageError
from untrained.identity import file_state
from untrained.readers.compressed_file import read_whole_file
from untrained.readers.limits import named_problems
from untrained.types import Task

_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_FILES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
_BYTES = 8  # the code of unsigned bytes in an IDX file


@source("mnist", "MNIST, digits of 28x28 pixels: the publisher's files in the folder mnist of the data root")
def mnist(argument: str, like: Task, root: Path) -> Source:
    return _opened("mnist", like, root / "mnist", (0.1307, 0.3081), tuple("0123456789"))


@source("fashion_mnist", "Fashion-MNIST, clothes of 28x28 pixels: the publisher's files in the folder fashion_mnist")
def fashion_mnist(argument: str, like: Task, root: Path) -> Source:
    return _opened("fashion_mnist", like, root / "fashion_mnist", (0.2860, 0.3530), tuple(_CLOTHES.split(",")))


def _opened(name: str, like: Task, folder: Path, statistics: tuple[float, float], classes: tuple[str, ...]) -> Source:
    mean, std = (torch.tensor([value]) for value in statistics)
    return from_read(_read(folder), image_task(name, like, classes=10), (mean, std), classes)


def _read(folder: Path) -> dict[str, Arrays]:
    files = tuple(file for name in _FILES if (file := _packed_or_not(folder / name)).is_file())
    if len(files) == len(_FILES):
        return _read_files(files, tuple(file_state(file) for file in files))
    archive = next(iter(sorted(folder.glob("*.npz"))), None)
    if archive is None:
        raise UsageError(
            f"{folder.name} is not in {folder}: looked for {', '.join(_FILES)}, each also with .gz, "
            f"and for an .npz archive. Put them there, or name another data root with --data-root or UNTRAINED_DATA. "
            f"Without them, --data digits needs no files."
        )
    return read_npz(archive)


@lru_cache(maxsize=4)
def _read_files(files: tuple[Path, ...], states: tuple[tuple[int, ...], ...]) -> dict[str, Arrays]:
    """The content of the four files, kept as long as their states are the same."""
    return {TRAIN: _pair(*files[:2]), TEST: _pair(*files[2:])}


def _packed_or_not(file: Path) -> Path:
    return file if file.is_file() else file.with_name(f"{file.name}.gz")


def _pair(images: Path, labels: Path) -> Arrays:
    x, y = _idx(images, 3), _idx(labels, 1)
    if len(x) != len(y):
        raise UsageError(f"{images} has {len(x)} images and {labels.name} {len(y)} labels; one of them is damaged")
    return x[..., None], y.long()


def _idx(file: Path, axes: int) -> Tensor:
    """Two zeros, the code of the type, the number of axes; then their lengths, four bytes each; then the numbers."""
    with named_problems(file):
        raw = read_whole_file(file)
    start = 4 + 4 * axes
    shape = tuple(np.frombuffer(raw[4:start], dtype=">u4").tolist()) if len(raw) > start else ()
    if raw[:4] != bytes((0, 0, _BYTES, axes)) or math.prod(shape) != len(raw) - start:
        raise UsageError(f"{file} is damaged: it is no IDX file of bytes with {axes} axes, or it is cut off")
    return torch.from_numpy(np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape).copy())

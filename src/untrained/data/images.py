"""Images from files: CIFAR-10 as its publisher packs it (binary or python), and any `.npz` of images and labels.

The python batches are pickles; they are read by an unpickler that knows arrays and plain data and refuses the rest.
"""

import zlib
from functools import cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from untrained._unpickle import read_pickle
from untrained.data._source import Source, from_arrays, image_task, source
from untrained.errors import UsageError
from untrained.types import Task

_BATCHES = [f"data_batch_{k}" for k in range(1, 6)]
_CIFAR10_MEAN = torch.tensor([0.4914, 0.4822, 0.4465])
_CIFAR10_STD = torch.tensor([0.2470, 0.2435, 0.2616])


@source("cifar10", "CIFAR-10 training images, from the publisher's files under the data root")
def cifar10(argument: str, like: Task, root: Path) -> Source:
    images, labels = _cifar10(root)
    return from_arrays(images, labels, image_task("cifar10", like, classes=10), (_CIFAR10_MEAN, _CIFAR10_STD))


@source("npz", "npz:PATH, a numpy archive with images x (N, H, W[, C], uint8) and labels y")
def npz(argument: str, like: Task, root: Path) -> Source:
    if not argument:
        raise UsageError("say which file: npz:PATH, such as --data npz:./images.npz")
    images, labels = _npz(Path(argument))
    return from_arrays(images, labels, image_task(f"npz:{Path(argument).name}", like, classes=int(labels.max()) + 1))


@cache
def _cifar10(root: Path) -> tuple[Tensor, Tensor]:
    """The 50,000 training images (N, H, W, C) and labels."""
    for folder, suffix, read in (("cifar-10-batches-bin", ".bin", _binary), ("cifar-10-batches-py", "", _python)):
        files = [root / folder / f"{name}{suffix}" for name in _BATCHES]
        if all(file.is_file() for file in files):
            pixels, labels = zip(*map(read, files), strict=True)
            planes = torch.cat(pixels).reshape(-1, 3, 32, 32)
            return planes.permute(0, 2, 3, 1).contiguous(), torch.cat(labels)
    raise UsageError(
        f"CIFAR-10 is not under {root}: looked for cifar-10-batches-bin/data_batch_1.bin to _5.bin and for "
        f"cifar-10-batches-py/data_batch_1 to _5. Unpack the publisher's archive there, or name another folder with "
        f"--data-root or UNTRAINED_DATA. Without it, --data digits needs no files."
    )


def _binary(file: Path) -> tuple[Tensor, Tensor]:
    """One label byte and 3,072 pixel bytes (red, green, blue planes) an image."""
    raw = np.fromfile(file, dtype=np.uint8)
    if raw.size == 0 or raw.size % 3073:
        raise UsageError(f"{file} is damaged: {raw.size} bytes is not a whole number of 3,073-byte images")
    rows = torch.from_numpy(raw).reshape(-1, 3073)
    return rows[:, 1:], rows[:, 0].long()


def _python(file: Path) -> tuple[Tensor, Tensor]:
    batch = read_pickle(file)
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        raise UsageError(f"{file} is damaged: it is no dictionary of data and labels")
    pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
    if pixels.dtype != np.uint8 or pixels.shape != (labels.size, 3072):
        raise UsageError(f"{file} is damaged: {pixels.dtype} data {pixels.shape} with {labels.size} labels")
    return torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))


@cache
def _npz(path: Path) -> tuple[Tensor, Tensor]:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, TypeError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise UsageError(f"{path} is not a readable numpy archive: {error}") from error
    x, y = (next((arrays[n] for n in names if n in arrays), None) for names in (("x", "x_train"), ("y", "y_train")))
    if x is None or y is None:
        raise UsageError(f"{path} holds {', '.join(arrays) or 'nothing'}; it needs x and y (or x_train and y_train)")
    if x.dtype != np.uint8 or x.ndim not in (3, 4) or len(x) == 0:
        raise UsageError(f"{path}: x is {x.dtype} {x.shape}; wanted uint8 (N, H, W[, C])")
    if y.dtype.kind not in "iu" or y.size != len(x) or y.min() < 0:
        raise UsageError(f"{path}: y is {y.dtype} {y.shape}; wanted {len(x)} whole numbers from 0 up, one an image")
    return torch.from_numpy(x if x.ndim == 4 else x[..., None]), torch.from_numpy(y.reshape(-1).astype(np.int64))

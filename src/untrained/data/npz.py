"""Images in numpy archives: `x` and `y`, or `x_train` and `y_train`, and the parts that are kept apart beside them.
Archives are read without pickles, so that a stranger's file runs nothing."""

import zlib
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from untrained.data._source import Arrays, Source, from_arrays, image_task, source
from untrained.data.parts import TEST, TRAIN, VAL
from untrained.errors import UsageError
from untrained.identity import fingerprint_file
from untrained.types import Task

_NAMES = {TRAIN: (("x", "y"), ("x_train", "y_train")), VAL: (("x_val", "y_val"),), TEST: (("x_test", "y_test"),)}


@source(
    "npz",
    "npz:PATH, a numpy archive: images x (N, H, W[, C], uint8), labels y; also x_val, y_val, x_test, y_test",
    own=True,
)
def npz(argument: str, like: Task, root: Path) -> Source:
    if not argument:
        raise UsageError("say which file: npz:PATH, such as --data npz:./images.npz")
    found = read_npz(Path(argument))
    classes = 1 + max(int(labels.max()) for _, labels in found.values())
    return from_read(found, image_task(f"npz:{Path(argument).name}", like, classes))


def from_read(
    found: Mapping[str, Arrays],
    task: Task,
    statistics: tuple[torch.Tensor, torch.Tensor] | None = None,
    classes: tuple[str, ...] = (),
) -> Source:
    """Parts that are in memory already; those that are missing are cut from the one to learn from."""
    held = {part: partial(found.__getitem__, part) for part in found if part != TRAIN}
    return from_arrays(*found[TRAIN], task, statistics, held=held, classes=classes)


def read_npz(path: Path) -> dict[str, Arrays]:
    """Images and labels of every part that the archive holds."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    return _read_content(path, fingerprint_file(path))


@lru_cache(maxsize=4)
def _read_content(path: Path, content: str) -> dict[str, Arrays]:
    """The archive at `path`, kept as long as its content is the same."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, TypeError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise UsageError(f"{path} is not a readable numpy archive: {error}") from error
    named = {part: next((pair for pair in pairs if arrays.keys() >= {*pair}), None) for part, pairs in _NAMES.items()}
    if named[TRAIN] is None:
        raise UsageError(f"{path} holds {', '.join(arrays) or 'nothing'}; it needs x and y (or x_train and y_train)")
    return {part: _checked(path, arrays, *pair) for part, pair in named.items() if pair}


def _checked(path: Path, arrays: Mapping[str, np.ndarray], x_name: str, y_name: str) -> Arrays:
    x, y = arrays[x_name], arrays[y_name]
    if x.dtype != np.uint8 or x.ndim not in (3, 4) or len(x) == 0:
        raise UsageError(f"{path}: {x_name} is {x.dtype} {x.shape}; wanted uint8 (N, H, W[, C])")
    if y.dtype.kind not in "iu" or y.size != len(x) or y.min() < 0:
        raise UsageError(
            f"{path}: {y_name} is {y.dtype} {y.shape}; wanted {len(x)} whole numbers from 0 up, one an image"
        )
    return torch.from_numpy(x if x.ndim == 4 else x[..., None]), torch.from_numpy(y.reshape(-1).astype(np.int64))

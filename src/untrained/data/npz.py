"""Images in numpy archives: `x` and `y`, or `x_train` and `y_train`, and the parts that are kept apart beside them.
Archives are read without pickles, so that a stranger's file runs nothing."""

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch

from untrained.data._source import Arrays, Source, from_arrays, image_task, source
from untrained.data.parts import TEST, TRAIN, VAL
from untrained.errors import SHOWN, UsageError
from untrained.identity import fingerprint_file
from untrained.readers.npz_file import list_npz_names, read_npz_arrays
from untrained.types import Task

# The names of images and labels in an archive, by part.
_NAMES = {
    TRAIN: (("x", "y"), ("x_train", "y_train")),
    VAL: (("x_val", "y_val"),),
    TEST: (("x_test", "y_test"),),
}
MOST_CLASSES = 100_000


@source(
    "npz",
    "npz:PATH, a numpy archive: images x (N, H, W[, C], uint8), labels y; also x_val, y_val, x_test, y_test",
    own=True,
)
def npz(argument: str, like: Task, root: Path) -> Source:
    if not argument:
        raise UsageError("say which file: npz:PATH, such as --data npz:./images.npz")
    path = Path(argument)
    parts = read_npz(path)
    classes = 1 + max(int(labels.max()) for _, labels in parts.values())
    return from_read(parts, image_task(f"npz:{path.name}", like, classes))


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
    """Read images and labels of every part that the archive holds."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        content = fingerprint_file(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    return _read_content(path, content)


@lru_cache(maxsize=4)
def _read_content(path: Path, content: str) -> dict[str, Arrays]:
    """Read the archive at `path`; the answer is kept as long as its content is the same."""
    names = list_npz_names(path)
    pairs = {}
    for part, candidates in _NAMES.items():
        for pair in candidates:
            if pair[0] in names and pair[1] in names:
                pairs[part] = pair
                break
    if TRAIN not in pairs:
        listed = ", ".join(names[:SHOWN]) or "nothing"
        raise UsageError(f"{path} holds {listed}; it needs x and y (or x_train and y_train)")
    wanted = [name for pair in pairs.values() for name in pair]
    arrays = read_npz_arrays(path, wanted)
    return {part: _check_images(path, arrays, *pair) for part, pair in pairs.items()}


def _check_images(path: Path, arrays: Mapping[str, np.ndarray], x_name: str, y_name: str) -> Arrays:
    x = arrays[x_name]
    y = arrays[y_name]
    if x.dtype != np.uint8 or x.ndim not in (3, 4) or x.size == 0:
        raise UsageError(f"{path}: {x_name} is {x.dtype} {x.shape}; wanted uint8 (N, H, W[, C])")
    if y.dtype.kind not in "iu" or y.size != len(x) or y.min() < 0:
        raise UsageError(
            f"{path}: {y_name} is {y.dtype} {y.shape}; wanted {len(x)} whole numbers from 0 up, one per image"
        )
    if y.max() >= MOST_CLASSES:
        raise UsageError(
            f"{path}: {y_name} has the label {y.max()}; number the classes 0, 1, 2 and so on, "
            f"at most {MOST_CLASSES:,} of them"
        )
    if x.ndim == 3:
        x = x[..., None]
    return torch.from_numpy(x), torch.from_numpy(y.reshape(-1).astype(np.int64))

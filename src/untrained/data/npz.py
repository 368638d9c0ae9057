"""Images or other inputs in numpy archives.

The arrays are called `x` and `y`, or `x_train` and `y_train`. Other parts are optional: `x_val` and
`y_val`, `x_test` and `y_test`.

Inputs of uint8 are images, which are resized, normalised and augmented like all pictures. Floats
are inputs of any shape (`arrays.py`). Labels are classes if they are integers, and numbers to
predict if they are floats.

Archives are read without pickles, so that a file from the internet cannot run code.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from untrained.data.arrays import MAX_CLASSES, make_array_source
from untrained.data.held_out import make_two_test_parts_error, split_test_path
from untrained.data.images import (
    LabelledImages,
    make_image_regression_task,
    make_image_source,
    make_image_task,
)
from untrained.data.parts import TEST, TRAIN, VAL
from untrained.data.pictures.card import limit_input_size, propose_input_size
from untrained.data.registry import register_source
from untrained.data.source import DataSource
from untrained.errors import MAX_NAMES_SHOWN, UsageError
from untrained.identity import fingerprint_file
from untrained.readers.npz_file import list_npz_names, read_npz_arrays
from untrained.types import Task

# Possible names of images and labels in an archive, by part.
_ARRAY_NAMES = {
    TRAIN: (("x", "y"), ("x_train", "y_train")),
    VAL: (("x_val", "y_val"),),
    TEST: (("x_test", "y_test"),),
}
_TARGET_NAME = "y"  # of numbers as labels

NamedArray = tuple[str, np.ndarray]  # name in the archive, and content


@register_source(
    "npz:PATH, a numpy archive: images x (N, H, W[, C], uint8) or floats x of any shape (N, ...), "
    "labels y (classes as integers, numbers as floats); also x_val, y_val, x_test, y_test",
    belongs_to_user=True,
)
def npz(argument: str, like: Task, root: Path) -> DataSource:
    if not argument:
        raise UsageError("name the file: npz:PATH, such as --data npz:./images.npz")
    path, test_path = split_test_path(argument)
    if _has_float_inputs(path):
        return _make_float_source(path, test_path)
    parts = read_npz(path)
    if test_path is not None:
        if TEST in parts:
            raise make_two_test_parts_error(path, test_path)
        parts = {**parts, TEST: read_npz(test_path)[TRAIN]}
    task = _make_task(f"npz:{path.name}", like, parts)
    source = make_source_from_parts(parts, task)
    images, _ = parts[TRAIN]
    proposed_side = propose_input_size(min(images.shape[1:3]))
    picture_count = sum(len(part_images) for part_images, _ in parts.values())
    limited_side = limit_input_size(proposed_side, picture_count)
    return replace(source, propose_side=lambda: limited_side)


def _make_task(name: str, like: Task, parts: Mapping[str, LabelledImages]) -> Task:
    """Return the task of the labels of all parts.

    Raises:
        UsageError: Some parts have classes and others have numbers.
    """
    number_parts = []
    class_parts = []
    for part, (_, labels) in parts.items():
        if labels.is_floating_point():
            number_parts.append(part)
        else:
            class_parts.append(part)
    if number_parts and class_parts:
        raise UsageError(
            f"{name} has floats as labels in the part {number_parts[0]} and integers in the part "
            f"{class_parts[0]}; save both as floats for numbers, or as integers for classes"
        )
    if number_parts:
        return make_image_regression_task(name, like, _TARGET_NAME)
    largest_label = max(int(labels.max()) for _, labels in parts.values())
    return make_image_task(name, like, largest_label + 1)


def _has_float_inputs(path: Path) -> bool:
    """Return whether the inputs of the training part are floats and not pixels of uint8."""
    (_, inputs), _ = _read_named_arrays(path)[TRAIN]
    return inputs.dtype.kind == "f"


def _make_float_source(path: Path, test_path: Path | None) -> DataSource:
    """Make a source of an archive of floats, with the test part of another one if it is named."""
    named_arrays = dict(_read_named_arrays(path))
    if test_path is not None:
        if TEST in named_arrays:
            raise make_two_test_parts_error(path, test_path)
        named_arrays[TEST] = _read_named_arrays(test_path)[TRAIN]
    arrays_of_parts = {}
    for part, ((input_name, inputs), (target_name, targets)) in named_arrays.items():
        for name, array in ((input_name, inputs), (target_name, targets)):
            if array.dtype.kind not in "fiub":
                raise UsageError(f"{path}: {name} is {array.dtype}; expected numbers")
        arrays_of_parts[part] = (
            torch.from_numpy(np.ascontiguousarray(inputs)),
            torch.from_numpy(np.ascontiguousarray(targets)),
        )
    try:
        return make_array_source(arrays_of_parts, f"npz:{path.name}")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def make_source_from_parts(
    parts: Mapping[str, LabelledImages],
    task: Task,
    statistics: tuple[torch.Tensor, torch.Tensor] | None = None,
    classes: tuple[str, ...] = (),
) -> DataSource:
    """Make a source of parts in memory. Missing parts are split off from the training part."""
    images, labels = parts[TRAIN]
    existing_parts = {}
    for part in parts:
        if part != TRAIN:
            existing_parts[part] = partial(parts.__getitem__, part)
    return make_image_source(
        images, labels, task, statistics, existing_parts=existing_parts, classes=classes
    )


def read_npz(path: Path) -> dict[str, LabelledImages]:
    """Read images and labels of every part in an archive.

    Raises:
        UsageError: The file cannot be read, or does not contain such arrays.
    """
    parts = {}
    for part, (named_images, named_labels) in _read_named_arrays(path).items():
        parts[part] = _convert_part(path, named_images, named_labels)
    return parts


def _read_named_arrays(path: Path) -> dict[str, tuple[NamedArray, NamedArray]]:
    """Return the inputs and the labels of every part, with the names of the arrays."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        fingerprint = fingerprint_file(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    return _read_archive(path, fingerprint)


# The fingerprint is part of the cache key, so that a changed file is read again.
@lru_cache(maxsize=4)
def _read_archive(path: Path, fingerprint: str) -> dict[str, tuple[NamedArray, NamedArray]]:
    """Return the arrays of every part; cached while the file does not change."""
    names = list_npz_names(path)
    names_by_part = {}
    for part, candidates in _ARRAY_NAMES.items():
        for image_name, label_name in candidates:
            if image_name in names and label_name in names:
                names_by_part[part] = (image_name, label_name)
                break
    if TRAIN not in names_by_part:
        shown_names = ", ".join(names[:MAX_NAMES_SHOWN]) or "nothing"
        raise UsageError(f"{path} holds {shown_names}; it needs x and y (or x_train and y_train)")

    needed_names: list[str] = []
    for pair in names_by_part.values():
        needed_names.extend(pair)
    arrays = read_npz_arrays(path, needed_names)
    parts = {}
    for part, (image_name, label_name) in names_by_part.items():
        parts[part] = ((image_name, arrays[image_name]), (label_name, arrays[label_name]))
    return parts


def _convert_part(path: Path, named_images: NamedArray, named_labels: NamedArray) -> LabelledImages:
    """Check the two arrays of a part, and return them as tensors."""
    image_name, images = named_images
    label_name, labels = named_labels
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.size == 0:
        raise UsageError(
            f"{path}: {image_name} is {images.dtype} {images.shape}; expected uint8 (N, H, W[, C]) "
            "for images, or floats (N, ...) for other inputs"
        )
    if images.ndim == 3:
        images = images[..., None]
    if labels.dtype.kind == "f" and labels.size == len(images):
        numbers = labels.reshape(-1).astype(np.float64)
        _check_finite(path, label_name, numbers)
        return torch.from_numpy(images), torch.from_numpy(numbers)
    if labels.dtype.kind not in "iu" or labels.size != len(images) or labels.min() < 0:
        raise UsageError(
            f"{path}: {label_name} is {labels.dtype} {labels.shape}; "
            f"expected {len(images)} non-negative integers for classes, or floats for numbers, one "
            "per image"
        )
    if labels.max() >= MAX_CLASSES:
        raise UsageError(
            f"{path}: {label_name} has the label {labels.max()}; number the classes 0, 1, 2 and so "
            f"on, at most {MAX_CLASSES:,} of them"
        )
    return torch.from_numpy(images), torch.from_numpy(labels.reshape(-1).astype(np.int64))


def _check_finite(path: Path, label_name: str, numbers: NDArray[np.float64]) -> None:
    is_wrong = ~np.isfinite(numbers)
    if is_wrong.any():
        index = int(is_wrong.argmax())
        raise UsageError(
            f"{path}: {label_name}[{index}] is {numbers[index]}; labels must be finite numbers, so "
            "leave that image out"
        )

"""Data sources of arrays of numbers: inputs of any shape, with a class or a number per sample.

Inputs are vectors (N, F), series (N, C, L), images (N, C, H, W) or arrays with more axes. Networks
read them as float32, standardised to mean 0 and standard deviation 1 on the training part: each
feature of vectors, each channel of all other inputs. Integer targets are classes. Floats are the
labels of a regression, which are standardised too.

Parts that the user does not provide are split off from the training samples, 10 % for validation
and 10 % for testing. The split depends only on the samples and their order. Every class has the
same shares.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from untrained.data.parts import (
    MIN_SPLIT_ROWS,
    TEST,
    TRAIN,
    VAL,
    ArrayPart,
    Parts,
    draw_samples,
    split_by_class,
    split_rows,
)
from untrained.data.source import DataSource
from untrained.errors import UsageError
from untrained.seeds import make_torch_generator
from untrained.types import CLASSIFICATION, REGRESSION, Batch, Task

# All arrays are split under this name, so that the same arrays in a file and in memory have the
# same parts.
_SPLIT_NAME = "arrays"
VAL_SHARE = 0.1
TEST_SHARE = 0.1
# The confusion matrix of a training has a row and a column for each class.
MAX_CLASSES = 100_000
_SAMPLES_PER_STEP = 4096  # samples whose statistics are computed at once

Arrays = tuple[Tensor, Tensor]  # inputs (N, ...) and targets (N,)


def make_array_source(
    arrays_of_parts: Mapping[str, Arrays], name: str, min_classes: int = 2
) -> DataSource:
    """Make a source of arrays to train on.

    Args:
        arrays_of_parts: Inputs and targets of the training part, and of the other parts that the
            user provides.
        name: Name of the data.
        min_classes: The least number of classes, for a network with a fixed number of outputs.

    Raises:
        UsageError: The arrays cannot be trained on.
    """
    checked_arrays = {}
    for part, (inputs, targets) in arrays_of_parts.items():
        where = "" if part == TRAIN else f" of the {part} part"
        _check_inputs(inputs, where)
        checked_arrays[part] = (inputs, _check_targets(targets, len(inputs), where))
    _check_parts_match(checked_arrays)
    split_arrays = _split_off_parts(checked_arrays)
    train_inputs, train_targets = split_arrays[TRAIN]
    mean, std = _compute_statistics(train_inputs)
    task = _make_task(name, split_arrays, min_classes)
    parts = {}
    for part, (inputs, targets) in split_arrays.items():
        if task.kind == REGRESSION:
            targets = ((targets.double() - task.target_mean) / task.target_std).float()
        parts[part] = ArrayPart(inputs, targets, mean, std)

    def draw(samples: int, generator: torch.Generator) -> Batch:
        return draw_samples(parts, samples, generator)

    def open_parts() -> Parts:
        for part in parts.values():
            if len(part) == 0:
                raise UsageError(
                    f"{name} has too few samples to train on: {len(train_targets)} are left after "
                    f"the split; give at least {MIN_SPLIT_ROWS} samples of one class; for a "
                    f"regression, at least {MIN_SPLIT_ROWS} samples"
                )
        return parts

    return DataSource(task, draw, open_parts)


def _make_task(name: str, arrays_of_parts: Mapping[str, Arrays], min_classes: int) -> Task:
    """Make the task of networks that learn from arrays."""
    inputs, targets = arrays_of_parts[TRAIN]
    input_shape = tuple(inputs.shape[1:])
    if targets.is_floating_point():
        mean, std = _compute_target_statistics(targets)
        return Task(name, input_shape, 1, REGRESSION.loss, target_mean=mean, target_std=std)
    classes = min_classes
    for _, part_targets in arrays_of_parts.values():
        if len(part_targets):
            classes = max(classes, int(part_targets.max()) + 1)
    return Task(name, input_shape, classes, CLASSIFICATION.loss)


def _check_inputs(inputs: Tensor, where: str) -> None:
    """Refuse inputs without features, and inputs that are not finite.

    Args:
        inputs: The inputs.
        where: The part that they belong to, for the message.
    """
    shape = tuple(inputs.shape)
    if inputs.ndim < 2 or inputs.numel() == 0:
        raise UsageError(
            f"the inputs{where} have the shape {shape}; expected (samples, features), (samples, "
            "channels, length) or (samples, channels, height, width)"
        )
    if not inputs.is_floating_point():
        return
    for start in range(0, len(inputs), _SAMPLES_PER_STEP):
        chunk = inputs[start : start + _SAMPLES_PER_STEP]
        is_finite = chunk.flatten(1).isfinite().all(1)
        if not is_finite.all():
            index = start + int((~is_finite).nonzero()[0, 0])
            raise UsageError(
                f"sample {index} of the inputs{where} has a NaN or an infinite value; replace such "
                "values or remove the samples"
            )


def _check_targets(targets: Tensor, count: int, where: str) -> Tensor:
    """Return targets of the shape (N,): integers for classes, floats for numbers.

    Args:
        targets: The targets as the user gave them.
        count: Number of inputs.
        where: The part that they belong to, for the message.

    Raises:
        UsageError: There is not one target per input, or a target is neither a class nor a number.
    """
    shape = tuple(targets.shape)
    if targets.numel() != count or targets.ndim == 0 or len(targets) != count:
        advice = "give one class or one number per input"
        if targets.ndim == 2 and len(targets) == count:
            advice += "; for rows of class probabilities: targets.argmax(1)"
        raise UsageError(f"the targets{where} have the shape {shape} for {count} inputs; {advice}")
    targets = targets.reshape(-1)
    if targets.is_floating_point():
        is_finite = targets.isfinite()
        if not is_finite.all():
            index = int((~is_finite).nonzero()[0, 0])
            raise UsageError(
                f"target {index}{where} is {float(targets[index])}; remove samples without a target"
            )
        return targets
    targets = targets.long()
    smallest = int(targets.min())
    largest = int(targets.max())
    if smallest < 0 or largest >= MAX_CLASSES:
        label = smallest if smallest < 0 else largest
        raise UsageError(
            f"the targets{where} are integers, so they are classes, and one of them is {label}; "
            f"number the classes 0, 1, 2 and so on, at most {MAX_CLASSES:,} of them, or give "
            "floats for a regression"
        )
    return targets


def _check_parts_match(arrays_of_parts: Mapping[str, Arrays]) -> None:
    """Refuse parts whose inputs or targets do not match those of the training part."""
    train_inputs, train_targets = arrays_of_parts[TRAIN]
    for part, (inputs, targets) in arrays_of_parts.items():
        if inputs.shape[1:] != train_inputs.shape[1:]:
            raise UsageError(
                f"the inputs of the {part} part have the shape {tuple(inputs.shape[1:])}, and "
                f"those of the train part {tuple(train_inputs.shape[1:])}; they must be equal"
            )
        if targets.is_floating_point() != train_targets.is_floating_point():
            raise UsageError(
                f"the targets of the {part} part are {targets.dtype}, and those of the train part "
                f"{train_targets.dtype}; give integers for classes or floats for a regression"
            )


def _split_off_parts(given_parts: Mapping[str, Arrays]) -> dict[str, Arrays]:
    """Split the parts that the user does not provide off from the training samples."""
    shares = {}
    if VAL not in given_parts:
        shares[VAL] = VAL_SHARE
    if TEST not in given_parts:
        shares[TEST] = TEST_SHARE
    shares = {TRAIN: 1 - sum(shares.values()), **shares}
    inputs, targets = given_parts[TRAIN]
    if targets.is_floating_point():
        generator = make_torch_generator("split", _SPLIT_NAME)
        order = torch.randperm(len(targets), generator=generator)
        rows_of_parts = split_rows(order, shares)
    else:
        rows_of_parts = split_by_class(targets, shares, Task(_SPLIT_NAME, (), 1))
    arrays_of_parts = {}
    for part in (TRAIN, VAL, TEST):
        if part in rows_of_parts:
            rows = rows_of_parts[part].sort().values
            arrays_of_parts[part] = (inputs[rows], targets[rows])
        else:
            arrays_of_parts[part] = given_parts[part]
    return arrays_of_parts


def _compute_statistics(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean and standard deviation of each feature (N, F) or channel (N, C, ...).

    The standard deviation of a constant feature is set to 1, so that its standardised value is 0.
    """
    count = inputs.numel() // inputs.shape[1]
    other_axes = [axis for axis in range(inputs.ndim) if axis != 1]
    mean_shape = (1, -1) + (1,) * (inputs.ndim - 2)
    # In steps, because a copy of all inputs in float64 may be larger than the memory.
    chunks = inputs.split(_SAMPLES_PER_STEP)  # type: ignore[no-untyped-call]
    total = torch.zeros(inputs.shape[1], dtype=torch.float64)
    for chunk in chunks:
        total += chunk.double().sum(other_axes)
    mean = total / count
    squares = torch.zeros(inputs.shape[1], dtype=torch.float64)
    for chunk in chunks:
        squares += (chunk.double() - mean.reshape(mean_shape)).square().sum(other_axes)
    std = (squares / count).sqrt()
    # Deviations below the precision of a float32 are rounding errors.
    is_constant = std <= torch.finfo(torch.float32).eps * mean.abs()
    return mean, torch.where(is_constant, 1.0, std)


def _compute_target_statistics(targets: Tensor) -> tuple[float, float]:
    """Return mean and standard deviation of numbers; 1 as deviation if all are equal."""
    mean = float(targets.double().mean())
    std = float(targets.double().std(correction=0))
    return mean, std or 1.0

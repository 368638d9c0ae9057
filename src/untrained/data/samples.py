"""Data that a caller has in Python: tensors, numpy arrays, a torch Dataset or a DataLoader.

`make_samples_source` and `make_scoring_source` make a data source to score networks on,
`make_training_source` one that also has parts to train on.

Like all other scores, those on such data are identified by a fingerprint of the samples that the
network sees (`fingerprint_batch`).
"""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from untrained.data.arrays import make_array_source
from untrained.data.parts import TRAIN
from untrained.data.source import DataSource, draw_random_labels, make_tensor_source
from untrained.errors import UsageError
from untrained.names import make_user_code_error
from untrained.quantities import show_value
from untrained.types import Batch, Task

# The task of all samples from Python has this name, so equal samples have equal keys.
DATASET_NAME = "tensor"
# Number of samples whose labels are read to find out how many classes there are.
_SAMPLES_FOR_CLASSES = 1024
_EXPECTED_DATA = "give a tensor of inputs, or a pair (inputs, targets)"


class Samples(Protocol):
    """Data of the caller, before their task is known."""

    def read_first_input(self) -> Tensor:
        """Return the first input as a batch of one."""
        ...

    def make_source(self, task: Task) -> DataSource:
        """Make a data source of these samples, in the types that the caller gave them."""
        ...

    def read_all(self) -> tuple[Tensor, Tensor | None]:
        """Return all inputs, and the targets if there are any.

        Raises:
            UsageError: The number of samples is unknown, or they cannot be read by index.
        """
        ...


def is_samples(value: object) -> bool:
    """Return whether a value is meant as data: a tensor, array, pair, Dataset or DataLoader."""
    if isinstance(value, Dataset | DataLoader):
        return True
    entries = value if isinstance(value, tuple) else (value,)
    # One tensor or array is enough: `read_samples` has a message for what is wrong with a pair.
    return any(isinstance(entry, Tensor | np.ndarray) for entry in entries)


def open_samples(data: object) -> Samples:
    """Check data of the caller and prepare to read them.

    Args:
        data: A tensor or numpy array of inputs; a pair of inputs and targets; a torch Dataset,
            whose samples are drawn at random; or a DataLoader, whose batches are taken in its own
            order. Samples of a Dataset are an input or a pair of input and target.

    Raises:
        UsageError: The data are something else, or no network could be scored on them.
    """
    if isinstance(data, DataLoader):
        return _LoaderSamples(data)
    if isinstance(data, Dataset):
        return _DatasetSamples(data)
    inputs, targets = read_samples(data)
    return _TensorSamples(inputs, targets)


def open_training_samples(data: object) -> Samples:
    """Check data of the caller as `open_samples` does, and that the number of samples is known.

    Of a DataLoader, the dataset is used.
    """
    if isinstance(data, DataLoader):
        data = _get_whole_dataset(data)
    if isinstance(data, Dataset):
        _check_fixed_samples(data)
    return open_samples(data)


def read_samples(data: object) -> tuple[Tensor, Tensor | None]:
    """Convert inputs and targets in memory to tensors whose first axis counts samples.

    Args:
        data: A tensor or a numpy array of inputs, or a tuple of inputs and targets.

    Returns:
        Inputs and targets; None for targets that are missing.

    Raises:
        UsageError: The data are something else, or no network could be scored on them.
    """
    entries = data if isinstance(data, tuple) else (data,)
    if len(entries) not in (1, 2):
        raise UsageError(f"data is a tuple of {len(entries)}; {_EXPECTED_DATA}")
    inputs = _read_tensor(entries[0], "inputs")
    _check_inputs(inputs)
    if len(entries) == 1 or entries[1] is None:
        return inputs, None
    targets = _read_tensor(entries[1], "targets")
    if targets.ndim == 0 or len(targets) != len(inputs):
        target_count = "no"
        if targets.ndim > 0:
            target_count = str(len(targets))
        raise UsageError(
            f"there are {len(inputs)} inputs and {target_count} targets; give one target per input"
        )
    if targets.is_complex():
        raise UsageError(
            "the targets are complex numbers; give labels, such as torch.tensor([0, 1, 2])"
        )
    return inputs, targets


def make_training_source(samples: Samples, min_classes: int = 2) -> DataSource:
    """Make a data source of samples from Python with parts to train on (`arrays.py`).

    All samples are read into memory.

    Args:
        samples: The samples, with targets.
        min_classes: The least number of classes, for a network with a fixed number of outputs.

    Raises:
        UsageError: The samples cannot be trained on.
    """
    inputs, targets = samples.read_all()
    if targets is None:
        raise UsageError(
            "there are no targets to train on; give a pair (inputs, targets), or a Dataset of "
            "such pairs"
        )
    return make_array_source({TRAIN: (inputs, targets)}, DATASET_NAME, min_classes)


def make_scoring_source(
    samples: Samples, task: Task, dtype: torch.dtype = torch.float32
) -> DataSource:
    """Make a data source of samples from Python to score networks on.

    Args:
        samples: The samples.
        task: The task of the networks.
        dtype: Type of the weights. Inputs that are floats are converted to it, because numpy
            creates float64 by default, and a layer refuses inputs of another type.
    """
    source = samples.make_source(task)

    def draw(sample_count: int, generator: torch.Generator) -> Batch:
        batch = source.draw(sample_count, generator)
        return Batch(convert_floats(batch.inputs, dtype), batch.targets)

    return replace(source, draw=draw)


def convert_floats(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return inputs with another floating type; integers, such as indices, stay as they are."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def make_samples_source(samples: Samples, like: Task) -> DataSource:
    """Make a data source of samples from Python, for networks that are built to fit them.

    Args:
        samples: The samples.
        like: Task with the loss and the least number of classes. If the first samples have more
            classes, the task of the source has that number.
    """
    input_shape = tuple(samples.read_first_input().shape[1:])
    task = Task(DATASET_NAME, input_shape, like.num_classes, like.loss)
    source = make_scoring_source(samples, task)
    labels = source.batch(_SAMPLES_FOR_CLASSES).targets
    if like.loss == "cross_entropy" and not labels.is_floating_point():
        classes = max(like.num_classes, int(labels.max()) + 1)
        source = make_scoring_source(samples, replace(task, num_classes=classes))
    return source


class _TensorSamples:
    """Samples in memory, which keep their order."""

    def __init__(self, inputs: Tensor, targets: Tensor | None) -> None:
        self._inputs = inputs
        self._targets = targets

    def read_first_input(self) -> Tensor:
        return self._inputs[:1]

    def make_source(self, task: Task) -> DataSource:
        return make_tensor_source(self._inputs, self._targets, task)

    def read_all(self) -> tuple[Tensor, Tensor | None]:
        return self._inputs.detach().cpu(), self._detach_targets()

    def _detach_targets(self) -> Tensor | None:
        if self._targets is None:
            return None
        return self._targets.detach().cpu()


class _DatasetSamples:
    """Samples of a Dataset with indices, drawn at random like those of every other data source."""

    def __init__(self, dataset: "Dataset[Any]") -> None:
        name = type(dataset).__name__
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise UsageError(
                f"{name} has no indices to draw samples by; give a DataLoader of it: "
                "torch.utils.data.DataLoader(dataset, batch_size=64)"
            )
        if not isinstance(dataset, Sized):
            raise UsageError(
                f"{name} has no length, so no samples can be drawn from it; give it a method "
                "__len__, or give a DataLoader of it"
            )
        if len(dataset) == 0:
            raise UsageError(f"{name} has no samples; give at least one")
        self._dataset = dataset
        self._count = len(dataset)
        self._name = name
        # A sample may be augmented at random, so each one is read once: otherwise proxies that
        # need a different number of samples would see different ones.
        self._cached_samples: dict[int, object] = {}

    def read_first_input(self) -> Tensor:
        inputs, _ = self._read_samples([0])
        return inputs

    def make_source(self, task: Task) -> DataSource:
        def draw(samples: int, generator: torch.Generator) -> Batch:
            order = torch.randperm(self._count, generator=generator)
            inputs, targets = self._read_samples(order[:samples].tolist())
            if targets is None:
                targets = draw_random_labels(self._count, task, generator)[:samples]
            return Batch(inputs, targets)

        return DataSource(task, draw)

    def read_all(self) -> tuple[Tensor, Tensor | None]:
        # A Dataset may augment its samples at random. With the same seed, the same call reads the
        # same samples again, so that a training can resume.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self._read_samples(range(self._count))

    def _read_samples(self, indices: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Return the samples with these indices as one batch."""
        for index in indices:
            if index in self._cached_samples:
                continue
            try:
                self._cached_samples[index] = self._dataset[index]
            except Exception as error:
                raise make_user_code_error(self._name, f"for sample {index}", error) from error
        entries = [self._cached_samples[index] for index in indices]
        try:
            batch = default_collate(entries)
        except Exception as error:
            # The samples have different shapes, or are not numbers.
            reason = str(error).partition("\n")[0]
            raise UsageError(
                f"samples of {self._name} cannot be stacked into a batch: {reason}; "
                "give each sample as a pair (tensor, label) of equal shapes"
            ) from error
        return _read_batch(batch, self._name)


class _LoaderSamples:
    """Samples of a DataLoader, in the order in which it provides them."""

    def __init__(self, loader: "DataLoader[Any]") -> None:
        self._loader = loader
        self._batches: Iterator[object] | None = None
        self._inputs: list[Tensor] = []
        self._targets: list[Tensor] = []

    def read_first_input(self) -> Tensor:
        inputs, _ = self._read_samples(1)
        return inputs

    def make_source(self, task: Task) -> DataSource:
        def draw(samples: int, generator: torch.Generator) -> Batch:
            inputs, targets = self._read_samples(samples)
            if targets is None:
                targets = draw_random_labels(samples, task, generator)[: len(inputs)]
            return Batch(inputs, targets)

        return DataSource(task, draw)

    def read_all(self) -> tuple[Tensor, Tensor | None]:
        return _DatasetSamples(_get_whole_dataset(self._loader)).read_all()

    def _read_samples(self, count: int) -> tuple[Tensor, Tensor | None]:
        """Return the first samples of the loader, or all if it has fewer."""
        # The loader is iterated once, and only as far as needed: it may shuffle, and it may never
        # end. A loader that shuffles uses torch's global random state, which belongs to the caller.
        with torch.random.fork_rng(devices=[]):
            while sum(map(len, self._inputs)) < count and self._read_next_batch():
                pass
        if not self._inputs:
            raise UsageError("the DataLoader has no samples; give at least one")
        inputs = torch.cat(self._inputs)[:count]
        if not self._targets:
            return inputs, None
        return inputs, torch.cat(self._targets)[:count]

    def _read_next_batch(self) -> bool:
        """Read one more batch; return whether there was one."""
        try:
            if self._batches is None:
                self._batches = iter(self._loader)
            batch = next(self._batches)
        except StopIteration:
            return False
        except Exception as error:
            raise make_user_code_error("the DataLoader", "for a batch", error) from error
        inputs, targets = _read_batch(batch, "the DataLoader")
        self._inputs.append(inputs)
        if targets is not None:
            self._targets.append(targets)
        return True


def _check_fixed_samples(dataset: "Dataset[Any]") -> None:
    """Refuse a dataset without indices or without a length."""
    if isinstance(dataset, IterableDataset) or not isinstance(dataset, Sized):
        raise UsageError(
            f"{type(dataset).__name__} has no indices or no length, and a training splits samples "
            "into parts; read them into tensors first: (inputs, targets)"
        )


def _get_whole_dataset(loader: "DataLoader[Any]") -> "Dataset[Any]":
    """Return the dataset of a DataLoader, to train on all of its samples.

    Raises:
        UsageError: The dataset has no indices or no length, or the loader selects or changes its
            samples.
    """
    dataset = loader.dataset
    _check_fixed_samples(dataset)
    if not isinstance(loader.sampler, SequentialSampler | RandomSampler):
        raise UsageError(
            f"the DataLoader has a {type(loader.sampler).__name__}, and a training reads the whole "
            "dataset; select samples with torch.utils.data.Subset(dataset, indices)"
        )
    if loader.collate_fn is not default_collate:
        raise UsageError(
            "the DataLoader has its own collate_fn, and a training reads single samples; convert "
            "them in the __getitem__ of the dataset"
        )
    return dataset


def _read_batch(batch: object, origin: str) -> tuple[Tensor, Tensor | None]:
    """Convert a batch of a Dataset or DataLoader: inputs, or a pair of inputs and targets."""
    if isinstance(batch, list):
        batch = tuple(batch)
    entries = batch if isinstance(batch, tuple) else (batch,)
    if len(entries) not in (1, 2) or not all(isinstance(entry, Tensor) for entry in entries):
        kinds = ", ".join(type(entry).__name__ for entry in entries)
        raise UsageError(
            f"a batch of {origin} is made of {kinds}; it must be a tensor of inputs, "
            "or a pair (inputs, targets) of tensors"
        )
    return read_samples(batch)


def _read_tensor(value: object, role: str) -> Tensor:
    if isinstance(value, np.ndarray):
        try:
            value = torch.from_numpy(np.ascontiguousarray(value))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"the {role} are an array of {value.dtype}; give one of float32 or int64"
            ) from error
    if not isinstance(value, Tensor):
        raise UsageError(
            f"the {role} are {show_value(value)}; {_EXPECTED_DATA}, "
            "such as torch.randn(8, 3, 32, 32)"
        )
    if value.device.type == "meta":
        raise UsageError(
            f"the {role} are on the device meta, which holds no numbers; create them on cpu"
        )
    if value.layout != torch.strided:
        raise UsageError(f"the {role} are a sparse tensor; give {role}.to_dense()")
    return value


def _check_inputs(inputs: Tensor) -> None:
    if inputs.ndim == 0 or len(inputs) == 0:
        shape = tuple(inputs.shape)
        raise UsageError(
            f"the inputs have the shape {shape}, so there is no sample in them; give at least one"
        )
    if inputs.dtype in (torch.bfloat16, torch.float16):
        kind = str(inputs.dtype).removeprefix("torch.")
        raise UsageError(
            f"the inputs are {kind}, in which scores are not exact; "
            "give inputs.float() and model.float()"
        )
    if inputs.is_complex():
        raise UsageError("the inputs are complex numbers; give real ones, such as inputs.real")

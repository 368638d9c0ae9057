"""A DataSource provides batches of samples for a task, and parts of the data for training.

The same seed gives the same samples, and a small batch is the start of a large one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor

from untrained.data.parts import Parts
from untrained.errors import UsageError
from untrained.quantities import check_count
from untrained.seeds import make_torch_generator
from untrained.types import BINARY, REGRESSION, Batch, Task

if TYPE_CHECKING:
    from untrained.data.tables.schema import Schema

LARGEST_SIDE = 16_384  # pixels
Draw = Callable[[int, torch.Generator], Batch]


class Card(Protocol):
    """A summary of the user's own data; a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        """Files or lines that were not used or that the user should look at, with the reason."""
        ...

    def lines(self) -> list[str]:
        """Return the summary in a few lines."""
        ...

    def details(self) -> list[str]:
        """Return further lines, such as one per column."""
        ...


@dataclass(frozen=True)
class DataSource:
    """Samples for a task.

    Attributes:
        task: The task of the networks on these data.
        draw: Function that draws samples with a random generator. They come from the training part
            as long as it has enough, so that networks are not scored on their test samples.
        open_parts: Function that opens the parts for training. It returns no parts if the samples
            are random.
        classes: Names of the classes; empty if they have no names.
        card: Function that inspects the user's own data; None for other data.
        schema: How rows of a table are encoded as numbers; None for other data.
        propose_side: Function that proposes the side of square images for networks that take any
            size; None for data without a proposal.
    """

    task: Task
    draw: Draw
    open_parts: Callable[[], Parts] = dict
    classes: tuple[str, ...] = ()
    card: Callable[[], Card] | None = None
    schema: "Schema | None" = None
    propose_side: Callable[[], int] | None = None

    @property
    def is_table(self) -> bool:
        """Whether these are rows of a table, for which `ctr_designs.py` has known designs."""
        return self.schema is not None or self.task.is_table

    @cached_property
    def parts(self) -> Parts:
        """The parts `train`, `val` and `test`, opened at the first use.

        Raises:
            UsageError: There is nothing to train on.
        """
        parts = self.open_parts()
        if not parts:
            raise UsageError(
                f"{self.task.dataset} has no parts to train on; "
                "use data with labels, such as digits"
            )
        return parts

    def batch(self, samples: int, seed: int = 0) -> Batch:
        """Draw a batch of samples."""
        return self.draw(samples, make_torch_generator("batch", self.task.dataset, seed))


def make_tensor_source(inputs: Tensor, targets: Tensor | None, task: Task) -> DataSource:
    """Make a source of tensors. Samples keep their order, whatever the seed.

    Args:
        inputs: Inputs; the first axis counts samples.
        targets: One target per input; None for random targets.
        task: The task of the networks.
    """

    def draw(samples: int, generator: torch.Generator) -> Batch:
        if targets is None:
            # Labels of all samples are drawn, so that a small batch is the start of a large one.
            labels = draw_random_labels(len(inputs), task, generator)
        else:
            labels = targets
        return Batch(inputs[:samples], labels[:samples])

    return DataSource(task, draw)


def draw_random_labels(samples: int, task: Task, generator: torch.Generator) -> Tensor:
    """Draw a random class for each sample, or for a regression a number from N(0, 1)."""
    if task.kind == REGRESSION and task.num_classes <= 1:
        return torch.randn(samples, generator=generator)
    classes = 2 if task.kind == BINARY else max(task.num_classes, 1)
    return torch.randint(classes, (samples,), generator=generator)


def fingerprint_batch(batch: Batch) -> str:
    """Return 16 hexadecimal digits that identify the numbers of a batch."""
    digest = sha256()
    for tensor in (batch.inputs, batch.targets):
        digest.update(str((tuple(tensor.shape), tensor.dtype)).encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def set_input_size(task: Task, side: int | None) -> Task:
    """Return the task with square images of another size.

    Args:
        task: The task.
        side: Height and width in pixels; None to keep the size.

    Raises:
        UsageError: The task is not about images, or the size is impossible.
    """
    if side is None:
        return task
    side = check_count(side, "input_size", 1, LARGEST_SIDE)
    if len(task.input_shape) != 3:
        raise UsageError(
            f"--input-size {side} is for images, and these networks take {task.input_shape}; "
            "leave it out"
        )
    return replace(task, input_shape=(task.input_shape[0], side, side))

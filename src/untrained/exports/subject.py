"""What is exported: a network with its weights, and what is known about it."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from untrained.data import load_data
from untrained.data.tables.schema import Schema
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import Standing
from untrained.types import Task


@dataclass(frozen=True)
class ExportSubject:
    """A network with its weights, and what is known about it.

    Attributes:
        arch: The architecture, or the name of the network.
        space: The search space; empty for a network of the user.
        network: The network with its weights, on the CPU and in evaluation mode.
        task: What it reads and answers.
        weights: Where the weights come from; empty if they are untrained as far as is known.
        data: The data that it was trained for, as the user named them.
        classes: The names of its classes.
        mean: The mean of each channel, on the scale 0 to 1.
        std: The standard deviation of each channel.
        schema: How rows of a table become numbers.
        training: The content of `train.json`; empty without a training.
        run: The run folder that it comes from.
        standing: Its place in the ranking of the run.
    """

    arch: str
    space: str
    network: nn.Module
    task: Task
    weights: str
    data: str = ""
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    schema: Schema | None = None
    training: dict[str, Any] = field(default_factory=dict)
    run: RunFolder | None = None
    standing: Standing | None = None

    @property
    def is_trained(self) -> bool:
        """Whether the weights come from a file or a module rather than from initialisation."""
        return bool(self.weights)

    def make_inputs(self, samples: int) -> Tensor:
        """Make random inputs that the network can read; few are the first of many."""
        return load_data("noise", self.task).batch(samples).inputs

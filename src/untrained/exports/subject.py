"""What is exported: a network, and the facts that config.json and README.md state about it."""

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
    """A network to export, and the facts that its documents state.

    Attributes:
        arch: The architecture, or the name of the network.
        space: The search space; empty for a network of the user.
        network: The network with its weights, on the CPU and in evaluation mode.
        task: The shapes of its inputs and outputs.
        weights: Where the weights come from; empty if they are not known to be trained.
        data: The training data, as the user named it.
        classes: The names of its classes.
        mean: The mean of each channel of images, whose values are from 0 to 1, or of each feature
            or channel of arrays.
        std: The standard deviation of each channel or feature.
        schema: How the rows of a table are encoded; None for other data.
        was_trained_on_arrays: Whether the training data are arrays and not images or a table.
        training: The content of `train.json`; empty without a training.
        run: The run folder that it comes from.
        standing: Its place in the ranking of the run.
        verdict: For a hand-designed network that won in the run: how it won, without a full stop.
            Empty for any other network.
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
    was_trained_on_arrays: bool = False
    training: dict[str, Any] = field(default_factory=dict)
    run: RunFolder | None = None
    standing: Standing | None = None
    verdict: str = ""

    @property
    def is_trained(self) -> bool:
        """Whether the weights come from a file or a module rather than from initialisation."""
        return bool(self.weights)

    @property
    def reads_arrays(self) -> bool:
        """Whether predict.py reads files of arrays, and not images or the columns of a table."""
        is_image = len(self.task.input_shape) == 3
        return self.was_trained_on_arrays or (self.schema is None and not is_image)

    def make_inputs(self, samples: int) -> Tensor:
        """Make random inputs for the network. A smaller batch is the start of a larger one."""
        return load_data("noise", self.task).batch(samples).inputs

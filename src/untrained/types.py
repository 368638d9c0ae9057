"""Data types that all packages share: Arch, Task, Batch, ScoreRequest, Record, Failure.

A Strategy proposes Archs, an Evaluator turns Archs into Records, everything later reads Records.
This module does not import torch.
"""

import json
import re
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from untrained.identity import read_torch_version
from untrained.pairs import format_pairs

if TYPE_CHECKING:
    import torch

Choice = int | float | str
Genes = tuple[tuple[str, Choice], ...]


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture of a search space.

    `str(arch)` is the usual notation of the architecture in the literature if there is one, and
    `load_space(arch.space).parse(str(arch)) == arch`.

    Attributes:
        space: Name of the space.
        genes: Names and values of the choices, in order.
        text: Notation of the architecture; empty for `name=value,name=value`.
    """

    space: str
    genes: Genes
    text: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> Choice:
        return dict(self.genes)[name]

    def __str__(self) -> str:
        return self.text or format_pairs(self.genes)

    @property
    def seed_name(self) -> str:
        """The text that seeds derive from.

        It is `str(self)`, except for a factory in a file: its seeds do not depend on how the user
        typed the path.
        """
        if self.space == "factory":
            return str(self["factory"])
        return str(self)


@dataclass(frozen=True, slots=True)
class TaskKind:
    """What the networks of a task predict, and how predictions are judged.

    Attributes:
        name: "binary", "classification" or "regression".
        loss: The loss that networks are trained and scored with.
        loss_title: The loss in words; lower is better.
        error_title: Heading of the loss in tables. It is the loss itself, or the root of the mean
            squared error in the unit of the label.
        quality: Key of the metric that is shown beside the loss; higher is better.
        quality_title: The name of that metric in tables.
    """

    name: str
    loss: str
    loss_title: str
    error_title: str
    quality: str
    quality_title: str


BINARY = TaskKind("binary", "bce", "log loss", "log loss", "auc", "AUC")
CLASSIFICATION = TaskKind(
    "classification", "cross_entropy", "log loss", "log loss", "accuracy", "accuracy"
)
REGRESSION = TaskKind("regression", "mse", "squared error", "RMSE", "r2", "R2")
TASK_KINDS = {kind.name: kind for kind in (BINARY, CLASSIFICATION, REGRESSION)}


def get_kind_of_loss(loss: str) -> TaskKind:
    """Return what networks that are trained with this loss predict.

    Raises:
        ValueError: There is no such loss.
    """
    for kind in TASK_KINDS.values():
        if kind.loss == loss:
            return kind
    raise ValueError(f"{loss!r} is not a loss")


@dataclass(frozen=True, slots=True)
class Task:
    """What a network must solve.

    A row of a table has the shape (columns,): first the dense columns, then one categorical column
    for each entry of `vocabularies`. Its categories are whole numbers from 0 up to that entry
    (excluded), stored as float32 like the rest of the row.

    Attributes:
        dataset: Name of the data.
        input_shape: Shape of one sample, channels first.
        num_classes: Number of outputs.
        loss: "cross_entropy" for classes, "bce" for one logit per sample, "mse" for numbers.
        vocabularies: Number of categories of each categorical column; empty for images.
        target_mean: Mean of the label of a regression. Networks predict standardised labels, so a
            prediction times `target_std` plus `target_mean` is in the unit of the label.
            `target_mean`, `target_std` and `target_name` are not part of the key of a score, whose
            fingerprint of the data covers the standardised labels.
        target_std: Standard deviation of the label of a regression.
        target_name: Name of the label of a regression on images; empty if it has none.
    """

    dataset: str
    input_shape: tuple[int, ...]
    num_classes: int
    loss: str = "cross_entropy"
    vocabularies: tuple[int, ...] = ()
    target_mean: float = 0.0
    target_std: float = 1.0
    target_name: str = ""

    @property
    def kind(self) -> TaskKind:
        """What networks predict."""
        return get_kind_of_loss(self.loss)

    @property
    def is_table(self) -> bool:
        """Whether a sample is a row of columns."""
        return len(self.input_shape) == 1

    def __str__(self) -> str:
        shape = "x".join(map(str, self.input_shape))
        text = f"{self.dataset}:{shape}:{self.num_classes}:{self.loss}"
        if self.vocabularies:
            text += f":{len(self.vocabularies)} categorical columns"
        return text


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs and targets of some samples. The first axis of both counts samples."""

    inputs: "torch.Tensor"
    targets: "torch.Tensor"

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, device: str) -> "Batch":
        """Copy the batch to a device."""
        return Batch(self.inputs.to(device), self.targets.to(device))


FailureKind = Literal[
    "crashed",  # the worker process died, twice
    "disconnected",  # no path from the input or the parameters to the output
    "error",  # an unexpected exception
    "inf",  # the score is infinite
    "latency",  # slower than the limit, or not measurable
    "missing",  # not in the benchmark table
    "nan",  # the score, a feature map or a training loss is not a number
    "oom",  # out of memory
    "singular",  # a matrix that must be inverted is singular
    "timeout",  # slower than --time-limit
    "unsupported",  # the proxy has no rule for this kind of network
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)

# Failures of the machine, not of the network: another run measures the network again.
TRANSIENT_FAILURES: tuple[FailureKind, ...] = ("crashed", "oom", "timeout")


def check_failure_kind(kind: str) -> None:
    """Raise ValueError unless `kind` is one of `FAILURE_KINDS`."""
    if kind not in FAILURE_KINDS:
        raise ValueError(
            f"{kind!r} is not a kind of failure; available: {', '.join(FAILURE_KINDS)}"
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a network has no score.

    Attributes:
        kind: One of `FAILURE_KINDS`, by which failures are counted.
        detail: The reason as a sentence or phrase.
        trace: Traceback, for debugging.
    """

    kind: FailureKind
    detail: str = ""
    trace: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_failure_kind(self.kind)

    @property
    def is_transient(self) -> bool:
        """Whether the machine caused the failure, so that another run should try again."""
        return self.kind in TRANSIENT_FAILURES

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


FRESH = "default"  # `init` of a request: weights as the layers initialise them


@dataclass(frozen=True, slots=True)
class ScoreKey:
    """The identity of a score, as plain strings and numbers.

    Requests with equal keys have the same result. The fields are the key columns of a store, in the
    same order (`runs/schema.py`).
    """

    space: str
    arch: str
    measure: str
    task: str
    data: str
    init: str
    dtype: str
    device: str
    seed: int
    code: str
    torch: str
    networks_per_batch: int


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """What to measure: one proxy on one architecture, with everything that the value depends on.

    Attributes:
        arch: The architecture.
        measure: Name, options and version of the proxy: "dextr@1", "dextr(variant=published)@1".
        task: What the network must solve.
        seed: Seed of the weights and of the samples.
        data: Fingerprint of the batch that the network sees.
        init: Where the weights come from.
        dtype: Type of the weights and inputs.
        device: Device on which the network is measured.
        code: Fingerprint of the user's code that builds the network. For built-in spaces, it is the
            version of the space, or empty for version 1.
        torch: Version of torch.
        networks_per_batch: How many networks are measured in one pass. If there are several, their
            values differ in the last digits from those of a single one, and a proxy may amplify the
            difference.
    """

    arch: Arch
    measure: str
    task: Task
    seed: int
    data: str = ""
    init: str = FRESH
    dtype: str = "float32"
    device: str = "cpu"
    code: str = ""
    torch: str = field(default_factory=read_torch_version)
    networks_per_batch: int = 1

    @property
    def key(self) -> ScoreKey:
        """The identity of the score. Keys are made only here."""
        return ScoreKey(
            space=self.arch.space,
            arch=str(self.arch),
            measure=self.measure,
            task=_format_task_key(self.task),
            data=self.data,
            init=self.init,
            dtype=self.dtype,
            device=self.device,
            seed=self.seed,
            code=self.code,
            torch=self.torch,
            networks_per_batch=self.networks_per_batch,
        )


@cache
def _format_task_key(task: Task) -> str:
    """Format a task as JSON. Empty vocabularies are left out, as in stores of earlier versions."""
    fields: list[Any] = [task.dataset, list(task.input_shape), task.num_classes, task.loss]
    if task.vocabularies:
        fields.append(list(task.vocabularies))
    return json.dumps(fields)


def read_task_key(text: str) -> Task:
    """Parse the field `task` of a `ScoreKey`."""
    dataset, input_shape, num_classes, loss, *rest = json.loads(text)
    vocabularies = tuple(rest[0]) if rest else ()
    return Task(dataset, tuple(input_shape), num_classes, loss, vocabularies)


# Versions at the end of a measure, see `Proxy.measure`: "@1", "@1+meco@2", "@1-5e884898".
_VERSIONS = re.compile(r"@\d+(\+\w+@\d+)*(-\w+)?$")


def remove_version(measure: str) -> str:
    """Return the name and the options in a measure: `dextr` for `dextr@1`."""
    return _VERSIONS.sub("", measure)


class RecordFacts(TypedDict, total=False):
    """Fields of a `Record` that describe the measurement."""

    note: str
    build_seconds: float
    transfer_seconds: float
    measure_seconds: float
    peak_bytes: int | None


class RecordRow(TypedDict):
    """A record as plain columns: the key of its request, the result, and what measuring it cost."""

    space: str
    arch: str
    proxy: str
    measure: str
    task: str
    data: str
    init: str
    dtype: str
    device: str
    seed: int
    code: str
    torch: str
    networks_per_batch: int
    value: float | None
    error: str | None
    note: str
    build_seconds: float
    transfer_seconds: float
    measure_seconds: float
    peak_bytes: int | None


@dataclass(frozen=True, slots=True)
class Record:
    """The result of a request: either a value or a failure, never both.

    Attributes:
        request: What was measured.
        value: The score.
        error: Why there is no score.
        note: Only in old stores: the value was measured on fewer samples, so it will be measured
            again.
        build_seconds: Time to build the network.
        transfer_seconds: Time to move the network and the samples to the device.
        measure_seconds: Time to compute the proxy.
        peak_bytes: Peak memory of the device with this network; None if unknown.
        networks_in_batch: Number of networks that were measured in the same pass; not stored.
    """

    request: ScoreRequest
    value: float | None = None
    error: Failure | None = None
    note: str = ""
    build_seconds: float = 0.0
    transfer_seconds: float = 0.0
    measure_seconds: float = 0.0
    peak_bytes: int | None = None
    networks_in_batch: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        if (self.value is None) == (self.error is None):
            raise ValueError("a record holds either a value or an error")
        if self.value is not None and not isfinite(self.value):
            raise ValueError(f"{self.value} is not a valid score; record it as a failure")

    @staticmethod
    def of(
        request: ScoreRequest, outcome: float | Failure, **facts: Unpack[RecordFacts]
    ) -> "Record":
        """Make the record of a score or a failure.

        Args:
            request: What was measured.
            outcome: The score or the failure.
            **facts: Other fields of the record, such as `build_seconds`.
        """
        if isinstance(outcome, Failure):
            return Record(request, error=outcome, **facts)
        return Record(request, value=outcome, **facts)

    @property
    def key(self) -> ScoreKey:
        return self.request.key

    @property
    def arch(self) -> Arch:
        return self.request.arch

    @property
    def is_reusable(self) -> bool:
        """Whether a run that needs this record can take it from a store.

        A failure of the machine is measured again, and so is a value that an earlier version
        measured on half of the samples after running out of memory, which has a note.
        """
        if self.error is not None and self.error.is_transient:
            return False
        return not self.note

    @property
    def measure(self) -> str:
        return self.request.measure

    @property
    def proxy(self) -> str:
        """Name and options of the proxy, without its version."""
        return remove_version(self.request.measure)

    @property
    def task(self) -> Task:
        return self.request.task

    @property
    def seed(self) -> int:
        return self.request.seed

    @property
    def data(self) -> str:
        return self.request.data

    @property
    def init(self) -> str:
        return self.request.init

    @property
    def dtype(self) -> str:
        return self.request.dtype

    @property
    def device(self) -> str:
        return self.request.device

    def row(self) -> RecordRow:
        """Return this record as plain columns, for `--json` and for data frames."""
        return RecordRow(
            space=self.arch.space,
            arch=str(self.arch),
            proxy=self.proxy,
            measure=self.measure,
            task=str(self.task),
            data=self.data,
            init=self.init,
            dtype=self.dtype,
            device=self.device,
            seed=self.seed,
            code=self.request.code,
            torch=self.request.torch,
            networks_per_batch=self.request.networks_per_batch,
            value=self.value,
            error=str(self.error) if self.error else None,
            note=self.note,
            build_seconds=self.build_seconds,
            transfer_seconds=self.transfer_seconds,
            measure_seconds=self.measure_seconds,
            peak_bytes=self.peak_bytes,
        )

"""The types that all packages share: Arch, Task, Batch, ScoreRequest, Record, Failure. Frozen data, no torch.

A Strategy asks for Archs, an Evaluator turns Archs into Records, everything after reads Records.
"""

import json
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, get_args

from untrained.identity import torch_version

if TYPE_CHECKING:
    import torch

Choice = int | float | str
Genes = tuple[tuple[str, Choice], ...]


@dataclass(frozen=True, slots=True)
class Arch:
    """One point of a search space: the choices made, in order, and the notation people write it in.

    `str(arch)` is the community's own notation where one exists; `load_space(arch.space).parse(str(arch)) == arch`.
    """

    space: str
    genes: Genes
    text: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> Choice:
        return dict(self.genes)[name]

    def __str__(self) -> str:
        return self.text or ",".join(f"{name}={value}" for name, value in self.genes)

    @property
    def seed_name(self) -> str:
        """What seeds derive from: the notation, except that it does not matter how the path to a file was typed."""
        return str(self["factory"]) if self.space == "factory" else str(self)


@dataclass(frozen=True, slots=True)
class Task:
    """What a network is for: the data it will see, their shape (channels first) and the loss.

    A table has rows of shape (columns,): first the dense columns, then one column of identifiers for each entry of
    `vocabularies`, whole numbers from 0 up to that entry, held as float32 like the rest of the row.
    """

    dataset: str
    input_shape: tuple[int, ...]
    num_classes: int
    loss: str = "cross_entropy"
    vocabularies: tuple[int, ...] = ()

    def __str__(self) -> str:
        words = self.dataset, "x".join(map(str, self.input_shape)), self.num_classes, self.loss
        return ":".join(map(str, words)) + (f":{len(self.vocabularies)} of identifiers" if self.vocabularies else "")


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs and targets of some samples; the first axis counts samples."""

    inputs: "torch.Tensor"
    targets: "torch.Tensor"

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, device: str) -> "Batch":
        return Batch(self.inputs.to(device), self.targets.to(device))


FailureKind = Literal[
    "crashed",  # the worker process died, twice
    "disconnected",  # no path from the input or the parameters to the output
    "error",  # an exception that nobody raised on purpose
    "inf",  # the score is infinite
    "latency",  # slower than the limit, or not measurable
    "missing",  # not in the table of known results
    "nan",  # the score, a feature map or a training is not a number
    "oom",  # out of memory
    "singular",  # a matrix that must be inverted is singular
    "timeout",  # slower than --time-limit
    "unsupported",  # the proxy has no rule for this kind of network
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)

# Failures of the machine and not of the network: another run tries again.
PASSING: tuple[FailureKind, ...] = ("crashed", "oom", "timeout")


def check_failure_kind(kind: str) -> None:
    """Raise ValueError unless `kind` is one of `FAILURE_KINDS`."""
    if kind not in FAILURE_KINDS:
        raise ValueError(f"{kind!r} is not a kind of failure; there are: {', '.join(FAILURE_KINDS)}")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a network has no score: a kind to count by, a detail to read, a traceback to debug."""

    kind: FailureKind
    detail: str = ""
    trace: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_failure_kind(self.kind)

    @property
    def passing(self) -> bool:
        """Whether the machine failed and not the network, so that another run tries again."""
        return self.kind in PASSING

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


FRESH = "default"  # weights as they are drawn


@dataclass(frozen=True, slots=True)
class ScoreKey:
    """The identity of a score, as plain strings and numbers: two requests with equal keys have the same answer.

    The fields are the key columns of a store, in the same order (`engine/_schema.py`).
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
    networks_per_pass: int


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """What to measure: one proxy on one architecture. Everything that the value depends on is in here."""

    arch: Arch
    measure: str  # proxy name, options and version: "dextr@1", "dextr(variant=published)@1"
    task: Task
    seed: int
    data: str = ""  # fingerprint of the batch that the network sees
    init: str = FRESH  # where the weights come from
    dtype: str = "float32"
    device: str = "cpu"
    code: str = ""  # fingerprint of the user's code that builds the network; empty where it is ours
    torch: str = field(default_factory=torch_version)
    networks_per_pass: int = 1  # together their values differ in the last digits, which proxies may amplify

    @property
    def key(self) -> ScoreKey:
        """The identity of the score. This is the only place that makes it."""
        return ScoreKey(
            space=self.arch.space,
            arch=str(self.arch),
            measure=self.measure,
            task=_task_key(self.task),
            data=self.data,
            init=self.init,
            dtype=self.dtype,
            device=self.device,
            seed=self.seed,
            code=self.code,
            torch=self.torch,
            networks_per_pass=self.networks_per_pass,
        )


@cache
def _task_key(task: Task) -> str:
    """A task as JSON. Vocabularies are left out where there are none, as in the stores of earlier versions."""
    words: list[Any] = [task.dataset, list(task.input_shape), task.num_classes, task.loss]
    if task.vocabularies:
        words.append(list(task.vocabularies))
    return json.dumps(words)


def read_task_key(text: str) -> Task:
    """The task that `ScoreKey.task` stands for."""
    dataset, input_shape, num_classes, loss, *rest = json.loads(text)
    vocabularies = tuple(rest[0]) if rest else ()
    return Task(dataset, tuple(input_shape), num_classes, loss, vocabularies)


@dataclass(frozen=True, slots=True)
class Record:
    """The answer to a request: a value or the reason why there is none, never both, never neither."""

    request: ScoreRequest
    value: float | None = None
    error: Failure | None = None
    note: str = ""  # only in old stores: the value was measured on fewer samples, and will be measured again
    build_seconds: float = 0.0
    transfer_seconds: float = 0.0  # moving network and samples to the device
    measure_seconds: float = 0.0
    peak_bytes: int | None = None  # memory of the device while this network was there; None where unknown
    together: int = field(default=1, compare=False)  # networks measured in the same kernels; not stored

    def __post_init__(self) -> None:
        if (self.value is None) == (self.error is None):
            raise ValueError("a record holds a value or an error, one of the two")
        if self.value is not None and not isfinite(self.value):
            raise ValueError(f"{self.value} is not a score; record it as a failure")

    @staticmethod
    def of(request: ScoreRequest, outcome: float | Failure, **facts: Any) -> "Record":
        """The record of an outcome, which is a score or a failure; `facts` are notes and costs."""
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
    def measure(self) -> str:
        return self.request.measure

    @property
    def proxy(self) -> str:
        """The measure without its version."""
        return self.request.measure.rsplit("@", 1)[0]

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

    def row(self) -> dict[str, Any]:
        """This record as flat, JSON-ready columns: what `--json` prints and `frame()` holds."""
        return {
            "space": self.arch.space,
            "arch": str(self.arch),
            "proxy": self.proxy,
            "measure": self.measure,
            "task": str(self.task),
            "data": self.data,
            "init": self.init,
            "dtype": self.dtype,
            "device": self.device,
            "seed": self.seed,
            "code": self.request.code,
            "torch": self.request.torch,
            "networks_per_pass": self.request.networks_per_pass,
            "value": self.value,
            "error": str(self.error) if self.error else None,
            "note": self.note,
            "build_seconds": self.build_seconds,
            "transfer_seconds": self.transfer_seconds,
            "measure_seconds": self.measure_seconds,
            "peak_bytes": self.peak_bytes,
        }

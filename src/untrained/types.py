"""The nouns that travel between rooms: Arch, Task, Batch, Failure, Record. Frozen data, no behaviour, no torch.

A Strategy asks for Archs, an Evaluator turns Archs into Records, everything after reads Records.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

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


PASSING = ("crashed", "oom", "timeout")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a network has no score. `kind` is one word to count by (`disconnected`, `singular`, `nan`, `inf`,
    `unsupported`, `oom`, `timeout`, `crashed`, `error`), `detail` is for reading, `trace` for whoever mends it."""

    kind: str
    detail: str = ""
    trace: str = field(default="", compare=False)

    @property
    def passing(self) -> bool:
        """Whether the machine failed and not the network: another sitting tries again."""
        return self.kind in PASSING

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


FRESH = "default"  # weights as they are drawn


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement of one architecture: a value or the reason why there is none, never both, never neither."""

    arch: Arch
    measure: str  # proxy name, options and version: "dextr@1", "dextr(variant=published)@1"
    task: Task
    seed: int
    value: float | None = None
    error: Failure | None = None
    data: str = ""  # fingerprint of the batch that was looked at
    init: str = FRESH  # where the weights come from
    dtype: str = "float32"
    device: str = "cpu"
    note: str = ""  # what a reader of the value must know, such as that it was measured on fewer samples
    build_seconds: float = 0.0
    transfer_seconds: float = 0.0  # moving network and samples to the device
    measure_seconds: float = 0.0
    peak_bytes: int | None = None  # of the device, while this network was there; None where that cannot be told
    together: int = field(default=1, compare=False)  # networks that were looked at in the same kernels; not stored

    def __post_init__(self) -> None:
        if (self.value is None) == (self.error is None):
            raise ValueError("a record holds a value or an error, one of the two")
        if self.value is not None and not isfinite(self.value):
            raise ValueError(f"{self.value} is not a score; record it as a failure")

    @property
    def proxy(self) -> str:
        return self.measure.rsplit("@", 1)[0]

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
            "value": self.value,
            "error": str(self.error) if self.error else None,
            "note": self.note,
            "build_seconds": self.build_seconds,
            "transfer_seconds": self.transfer_seconds,
            "measure_seconds": self.measure_seconds,
            "peak_bytes": self.peak_bytes,
        }

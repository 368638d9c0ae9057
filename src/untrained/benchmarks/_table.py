"""A table of ground truth: what architectures of a space are known to reach, and what proxies of others said of them.

Validation and test accuracy cannot be confused: a metric is asked for by data set, split and epochs, or by its full
name, never by position. Tables may be partial, and say so. This file knows nothing of networks, nor of how the numbers
were gathered.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from untrained._numbers import counted
from untrained.benchmarks import _parquet
from untrained.errors import UsageError, unknown
from untrained.types import Arch

Split = Literal["train", "val", "test"]


@dataclass(frozen=True)
class Metric:
    """What one column of numbers is. `split` and `epochs` are None where nothing was trained, as for a latency."""

    kind: str  # accuracy, ssim, negative loss; params, flops, seconds, latency, energy
    unit: str
    higher_is_better: bool
    dataset: str = ""
    split: Split | None = None
    epochs: int | None = None
    variant: str = ""  # what sets it apart from the usual one of its kind: a device, one seed, another source
    about: str = ""
    source: str = ""

    @property
    def name(self) -> str:
        """The full name, which is also the column: `cifar10_test_200`, `latency_raspi4`."""
        parts = (self.dataset, self.split or self.kind, self.epochs, self.variant)
        return "_".join(str(part) for part in parts if part)


@dataclass(frozen=True)
class Score:
    """A proxy of others. Runs (other weights, other samples) are kept apart: they show the noise."""

    proxy: str
    dataset: str
    run: str
    higher_is_better: bool = True
    source: str = ""

    @property
    def name(self) -> str:
        return f"{self.proxy}/{self.dataset}/{self.run}"


Column = Metric | Score
C = TypeVar("C", Metric, Score)


@dataclass(frozen=True)
class Source:
    """A file the numbers came from."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Table:
    """The known results of a benchmark. Columns are read when they are first asked for."""

    name: str
    space: str
    path: Path
    rows: int
    size: int  # of the whole benchmark
    metrics: tuple[Metric, ...]
    scores: tuple[Score, ...]
    counts: dict[str, int]  # how many architectures have a number, by column
    sources: tuple[Source, ...]
    _read: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(cls, path: Path, name: str) -> "Table":
        header = _parquet.read_header(path, name)
        try:
            return cls(
                name,
                header["space"],
                path,
                header["rows"],
                header["size"],
                metrics=tuple(Metric(**metric) for metric in header["metrics"]),
                scores=tuple(Score(**score) for score in header["scores"]),
                counts=header["counts"],
                sources=tuple(Source(**source) for source in header["sources"]),
            )
        except (KeyError, TypeError) as error:
            raise _parquet.damaged(path, name, f"has a header that cannot be read ({error})") from error

    @property
    def about(self) -> str:
        size = f"{self.size:,}" if self.size < 1e9 else f"about {self.size:.1e}"
        held = f"{self.rows:,} of {size} architectures"
        return (
            f"{held}, {counted(len(self.metrics), 'metric')}, {counted(len(self.scores), 'score')} by proxies of others"
        )

    def __len__(self) -> int:
        return self.rows

    def archs(self) -> tuple[str, ...]:
        """All architectures, in the space's own notation."""
        return tuple(self._rows)

    # ----------------------------------------------------------------------------------------------------- columns

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.metrics, *self.scores)

    def metric(
        self,
        name: str | None = None,
        *,
        dataset: str | None = None,
        split: Split | None = None,
        epochs: int | None = None,
    ) -> Metric:
        """The metric of this full name, or the only one of this data set, split and epochs; of several, the usual one
        (without a variant). Unless a name is given the split must be said: there is no default between val and test."""
        if name is not None:
            named = {metric.name: metric for metric in self.metrics}
            if name not in named:
                raise unknown(f"metric of {self.name}", name, named)
            return named[name]
        if split is None:
            raise UsageError(f"say which accuracy of {self.name}: split='val' or split='test', or a full name")
        asked = {"dataset": dataset, "split": split, "epochs": epochs}
        found = _matching(self.metrics, asked)
        usual = [metric for metric in found if not metric.variant]
        return self._only(usual or found, [metric for metric in self.metrics if metric.split], asked)

    def score(self, proxy: str, *, dataset: str | None = None, run: str | None = None) -> Score:
        """The scores by a proxy of others, or of this full name; where there are several runs, say which."""
        if "/" in proxy:
            proxy, dataset, run = (*proxy.split("/"), "", "")[:3]
        asked = {"proxy": proxy, "dataset": dataset, "run": run}
        same = _matching(self.scores, {"proxy": proxy})
        if not same:
            raise unknown(f"score in {self.name}", proxy, {score.proxy for score in self.scores})
        return self._only(_matching(self.scores, asked), same, asked)

    def count(self, column: Column | str) -> int:
        """How many architectures have this number."""
        return self.counts[self._named(column)]

    # ------------------------------------------------------------------------------------------------------ values

    def value(self, arch: Arch | str, column: Column | str) -> float | None:
        """None where the architecture or its number is not in the table."""
        numbers, row = self.column(column), self._rows.get(str(arch))
        return None if row is None or np.isnan(numbers[row]) else float(numbers[row])

    def values(self, archs: Iterable[Arch | str], column: Column | str) -> NDArray[np.float64]:
        """One number an architecture; NaN where there is none."""
        rows = np.array([self._rows.get(str(arch), self.rows) for arch in archs], dtype=np.intp)
        return np.append(self.column(column), np.nan)[rows]

    def column(self, column: Column | str) -> NDArray[np.float64]:
        """The numbers of all architectures in the order of `archs()`; NaN where there is none."""
        name = self._named(column)
        if name not in self._read:
            self._read[name] = _parquet.read_numbers(self.path, self.name, name)
            self._read[name].flags.writeable = False
        return self._read[name]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {arch: row for row, arch in enumerate(_parquet.read_archs(self.path, self.name))}

    def _named(self, column: Column | str) -> str:
        name = column if isinstance(column, str) else column.name
        if name not in self.counts:
            raise unknown(f"column of {self.name}", name, self.counts)
        return name

    def _only(self, found: Sequence[C], others: Sequence[C], asked: dict[str, Any]) -> C:
        if len(found) == 1:
            return found[0]
        said = ", ".join(f"{key}={value!r}" for key, value in asked.items() if value is not None)
        names = ", ".join(column.name for column in found or others)
        raise UsageError(f"{self.name} has {len(found) or 'no'} columns with {said}; name one: {names or 'none'}")


def _matching(columns: Iterable[C], asked: dict[str, Any]) -> list[C]:
    wanted = {key: value for key, value in asked.items() if value is not None}
    return [column for column in columns if all(getattr(column, key) == value for key, value in wanted.items())]


def header(name: str, space: str, size: int, counts: dict[Column, int], sources: Iterable[Source]) -> _parquet.Header:
    """What `Table.open` reads."""
    return {
        "benchmark": name,
        "space": space,
        "size": size,
        "metrics": [asdict(column) for column in counts if isinstance(column, Metric)],
        "scores": [asdict(column) for column in counts if isinstance(column, Score)],
        "counts": {column.name: count for column, count in counts.items()},
        "sources": [asdict(source) for source in sources],
    }

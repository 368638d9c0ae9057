"""A table of known results of a space: accuracies, costs and published scores per architecture.

A metric is requested by data set, split and epochs, or by its full name, never by position, so that
validation and test accuracy cannot be confused. A table may contain only a part of its benchmark;
`rows` and `size` tell how much.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks import parquet
from untrained.errors import UsageError, make_unknown_name_error
from untrained.formatting import format_count
from untrained.types import Arch

Split = Literal["train", "val", "test"]

# Above this size a benchmark is described by its order of magnitude.
_LARGEST_EXACT_SIZE = 1e9
# Variant of a metric that is the result of one training.
_SEED_VARIANT = re.compile(r"seed\d+")


@dataclass(frozen=True)
class Metric:
    """The meaning of a column of results.

    Attributes:
        kind: accuracy, ssim, negative loss; params, flops, seconds, latency, throughput or energy.
        unit: Unit of the numbers, such as "%".
        higher_is_better: Whether higher values are better.
        dataset: Name of the data set; empty if the metric does not depend on one.
        split: Which part of the data; None if nothing was trained, as for a latency.
        epochs: Length of the training; None if nothing was trained.
        variant: A device, one seed or another source, if this is not the default metric of its
            kind.
        about: A remark of a few words.
        source: The publication or project that it comes from.
    """

    kind: str
    unit: str
    higher_is_better: bool
    dataset: str = ""
    split: Split | None = None
    epochs: int | None = None
    variant: str = ""
    about: str = ""
    source: str = ""

    @property
    def name(self) -> str:
        """Full name, which also names the column: `cifar10_test_200`, `latency_raspi4`."""
        parts = (self.dataset, self.split or self.kind, self.epochs, self.variant)
        return "_".join(str(part) for part in parts if part)


@dataclass(frozen=True)
class PublishedScore:
    """The meaning of a column of scores that others computed with a proxy.

    Runs with other weights or samples are separate columns; their differences show the noise.
    """

    proxy: str
    dataset: str
    run: str
    higher_is_better: bool = True
    source: str = ""

    @property
    def name(self) -> str:
        """Full name, which also names the column: `synflow/cifar10/suite_zero`."""
        return f"{self.proxy}/{self.dataset}/{self.run}"


Column = Metric | PublishedScore
ColumnType = TypeVar("ColumnType", Metric, PublishedScore)


@dataclass(frozen=True)
class TableSource:
    """A file that numbers of a table come from."""

    file: str
    sha256: str


@dataclass(frozen=True)
class BenchmarkTable:
    """Known results of a benchmark. A column is read when it is first used.

    Attributes:
        name: Name of the benchmark.
        space: Name of the space.
        path: The file.
        rows: Number of architectures in the table.
        size: Number of architectures in the whole benchmark; None for a user's own table and for
            a sample of the space.
        metrics: Columns of results.
        scores: Columns of scores that others published.
        counts: Number of architectures that have a number, by column.
        sources: Files that the numbers come from.
        origin: How the numbers were made, for a table of our own: command, recipe, machine, dates.
    """

    name: str
    space: str
    path: Path
    rows: int
    size: int | None
    metrics: tuple[Metric, ...]
    scores: tuple[PublishedScore, ...]
    counts: dict[str, int]
    sources: tuple[TableSource, ...]
    origin: Mapping[str, str] = field(default_factory=dict)
    _numbers: dict[str, NDArray[np.float64]] = field(
        default_factory=dict, repr=False, compare=False
    )
    # The architectures of a table in memory; empty if they are in the file.
    _archs: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def open(cls, path: Path, name: str) -> "BenchmarkTable":
        """Open the table file of a benchmark.

        Raises:
            UsageError: The file is missing, damaged or of another benchmark.
        """
        header = parquet.read_header(path, name)
        try:
            return cls(
                name=name,
                space=header["space"],
                path=path,
                rows=header["rows"],
                size=header["size"],
                metrics=tuple(Metric(**metric) for metric in header["metrics"]),
                scores=tuple(PublishedScore(**score) for score in header["scores"]),
                counts=header["counts"],
                sources=tuple(TableSource(**source) for source in header["sources"]),
                origin={key: str(text) for key, text in header.get("origin", {}).items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            reason = f"has a header that cannot be read ({error})"
            raise parquet.unusable_table_error(path, name, reason) from error

    @classmethod
    def make(
        cls,
        name: str,
        space: str,
        archs: tuple[str, ...],
        columns: Mapping[Metric, NDArray[np.float64]],
        sources: tuple[TableSource, ...] = (),
    ) -> "BenchmarkTable":
        """Make a table in memory, such as a user's own table.

        Args:
            name: Name of the table.
            space: Name of the space.
            archs: The architectures, each of them once.
            columns: One number per architecture, NaN where a number is missing.
            sources: Files that the numbers come from.
        """
        numbers = {}
        counts = {}
        for metric, values in columns.items():
            values.flags.writeable = False
            numbers[metric.name] = values
            counts[metric.name] = int(np.isfinite(values).sum())
        return cls(
            name=name,
            space=space,
            path=Path(name),
            rows=len(archs),
            size=None,
            metrics=tuple(columns),
            scores=(),
            counts=counts,
            sources=sources,
            _numbers=numbers,
            _archs=archs,
        )

    @property
    def about(self) -> str:
        """A short description of the content."""
        if self.size is None:
            default_metrics = [metric for metric in self.metrics if not metric.variant]
            archs = format_count(self.rows, "architecture")
            return f"{archs} and {format_count(len(default_metrics), 'metric')}"
        size = f"{self.size:,}"
        if self.size >= _LARGEST_EXACT_SIZE:
            size = f"about {self.size:.1e}"
        metrics = format_count(len(self.metrics), "metric")
        scores = format_count(len(self.scores), "score")
        return f"{self.rows:,} of {size} architectures, {metrics}, {scores} published for proxies"

    def __len__(self) -> int:
        return self.rows

    def list_archs(self) -> tuple[str, ...]:
        """Return all architectures, in the notation of the space."""
        return tuple(self._row_by_arch)

    # -------------------------------------------------------------------------------- columns

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns."""
        return (*self.metrics, *self.scores)

    def find_metric(
        self,
        name: str | None = None,
        *,
        dataset: str | None = None,
        split: Split | None = None,
        epochs: int | None = None,
    ) -> Metric:
        """Return a metric.

        If several metrics match, the one without a variant is returned.

        Args:
            name: Full name, such as `cifar10_test_200`.
            dataset: Name of the data set.
            split: Required without a name: there is no default between "val" and "test".
            epochs: Length of the training.

        Raises:
            UsageError: No metric or several metrics match.
        """
        if name is not None:
            by_name = {metric.name: metric for metric in self.metrics}
            if name not in by_name:
                raise make_unknown_name_error(f"metric of {self.name}", name, by_name)
            return by_name[name]
        if split is None:
            raise UsageError(
                f"choose an accuracy of {self.name}: split='val' or split='test', or a full name"
            )
        conditions = {"dataset": dataset, "split": split, "epochs": epochs}
        matching = _filter_columns(self.metrics, conditions)
        without_variant = [metric for metric in matching if not metric.variant]
        trained = [metric for metric in self.metrics if metric.split]
        return self._require_one(without_variant or matching, trained, conditions)

    def find_score(
        self, proxy: str, *, dataset: str | None = None, run: str | None = None
    ) -> PublishedScore:
        """Return a column of published scores.

        Args:
            proxy: Name of the proxy, or the full name of the column, such as
                `synflow/cifar10/suite_zero`.
            dataset: Name of the data set.
            run: Name of the run.

        Raises:
            UsageError: No column or several columns match.
        """
        if "/" in proxy:
            # Missing parts of the full name become empty, which matches no column.
            parts = [*proxy.split("/"), "", ""]
            proxy, dataset, run = parts[:3]
        conditions = {"proxy": proxy, "dataset": dataset, "run": run}
        scores_of_proxy = _filter_columns(self.scores, {"proxy": proxy})
        if not scores_of_proxy:
            names = {score.proxy for score in self.scores}
            raise make_unknown_name_error(f"score in {self.name}", proxy, names)
        matching = _filter_columns(self.scores, conditions)
        return self._require_one(matching, scores_of_proxy, conditions)

    def list_seed_metrics(self, metric: Metric) -> list[Metric]:
        """Return the metrics that are single trainings of a metric: variants `seed0`, `seed1`."""
        seed_metrics = []
        for candidate in self.metrics:
            same_except_seed = replace(
                candidate, variant=metric.variant, about=metric.about, source=metric.source
            )
            if same_except_seed == metric and _SEED_VARIANT.fullmatch(candidate.variant):
                seed_metrics.append(candidate)
        return seed_metrics

    def count_values(self, column: Column | str) -> int:
        """Return how many architectures have a number in a column."""
        return self.counts[self._find_column_name(column)]

    # --------------------------------------------------------------------------------- values

    def read_value(self, arch: Arch | str, column: Column | str) -> float | None:
        """Return one number; None if the table does not have it."""
        numbers = self.read_column(column)
        row = self._row_by_arch.get(str(arch))
        if row is None or np.isnan(numbers[row]):
            return None
        return float(numbers[row])

    def read_values(self, archs: Iterable[Arch | str], column: Column | str) -> NDArray[np.float64]:
        """Return one number per architecture, NaN where the table has none."""
        # Architectures that are not in the table get the row after the last one, which is NaN.
        rows = [self._row_by_arch.get(str(arch), self.rows) for arch in archs]
        return np.append(self.read_column(column), np.nan)[np.array(rows, dtype=np.intp)]

    def read_column(self, column: Column | str) -> NDArray[np.float64]:
        """Return one number per architecture in the order of `list_archs()`; NaN if missing."""
        name = self._find_column_name(column)
        if name not in self._numbers:
            numbers = parquet.read_numbers(self.path, self.name, name)
            numbers.flags.writeable = False
            self._numbers[name] = numbers
        return self._numbers[name]

    @cached_property
    def _row_by_arch(self) -> dict[str, int]:
        archs = self._archs or parquet.read_archs(self.path, self.name)
        return {arch: row for row, arch in enumerate(archs)}

    def _find_column_name(self, column: Column | str) -> str:
        name = column if isinstance(column, str) else column.name
        if name not in self.counts:
            raise make_unknown_name_error(f"column of {self.name}", name, self.counts)
        return name

    def _require_one(
        self,
        matching: Sequence[ColumnType],
        alternatives: Sequence[ColumnType],
        conditions: Mapping[str, object],
    ) -> ColumnType:
        """Return the only matching column; the error lists what could be requested instead."""
        if len(matching) == 1:
            return matching[0]
        words = []
        for key, value in conditions.items():
            if value is not None:
                words.append(f"{key}={value!r}")
        request = ", ".join(words)
        names = ", ".join(column.name for column in matching or alternatives)
        raise UsageError(
            f"{self.name} has {len(matching) or 'no'} columns with {request}; "
            f"name one: {names or 'none'}"
        )


def _filter_columns(
    columns: Iterable[ColumnType], conditions: Mapping[str, object]
) -> list[ColumnType]:
    """Return the columns whose attributes have these values; None allows any value."""
    required = {name: value for name, value in conditions.items() if value is not None}
    matching = []
    for column in columns:
        if all(getattr(column, name) == value for name, value in required.items()):
            matching.append(column)
    return matching


def make_table_header(
    name: str,
    space: str,
    size: int | None,
    counts: Mapping[Column, int],
    sources: Iterable[TableSource],
    origin: Mapping[str, str] | None = None,
) -> parquet.Header:
    """Return the header that `BenchmarkTable.open` reads.

    Args:
        name: Name of the benchmark.
        space: Name of the space.
        size: Number of architectures in the whole benchmark; None for a sample of the space.
        counts: The columns, and how many architectures have a number in each.
        sources: Files that the numbers come from.
        origin: How the numbers were made; see `BenchmarkTable.origin`.
    """
    return {
        "benchmark": name,
        "space": space,
        "size": size,
        "metrics": [asdict(column) for column in counts if isinstance(column, Metric)],
        "scores": [asdict(column) for column in counts if isinstance(column, PublishedScore)],
        "counts": {column.name: count for column, count in counts.items()},
        "sources": [asdict(source) for source in sources],
        "origin": dict(origin or {}),
    }

"""`--validate`: an expensive measure that ranks the few final candidates of a strategy.

    table:cifar10_val_12               a metric of the default benchmark table of the space
    table:darts1000:cifar10_val_200    a metric of another table of the space
    training(epochs=3,samples=1500)    a short training on the data of the search

Only the requested architectures are looked up in a table. A short training is a proxy like any
other, see `training/short_training.py`.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from untrained.benchmarks import BenchmarkTable, Metric, list_benchmarks, open_table
from untrained.engine import Evaluator
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.quantities import show_value
from untrained.runs.store import Store
from untrained.training.short_training import SHORT_TRAINING
from untrained.types import Arch, Failure, Record, ScoreRequest, Task

EXAMPLES = '--validate table:cifar10_val_12 or --validate "training(epochs=3,samples=1500)"'


@dataclass(frozen=True)
class TableMetric:
    """One metric of one benchmark table.

    Attributes:
        table: The table.
        metric: The metric.
        measure: Name of the metric in the keys of records. It names the table too, unless that is
            the default table of the space.
    """

    table: BenchmarkTable
    metric: Metric
    measure: str

    @staticmethod
    def parse(text: str, space: str, root: str | Path | None) -> "TableMetric":
        """Open the table of a metric.

        Args:
            text: `METRIC` for the default table of the space, or `TABLE:METRIC`.
            space: Name of the space.
            root: Folder of data sets; None for the default.

        Raises:
            UsageError: There is no such table or metric, or the table is not on this machine.
        """
        table_names = list_benchmarks(space)
        default_name = table_names[0]
        typed_name, _, metric_name = text.rpartition(":")
        if typed_name and typed_name not in table_names:
            raise UsageError(
                f"{space} has no table {typed_name!r}; it has {', '.join(table_names)}; "
                f"type table:{default_name}:METRIC"
            )
        table_name = typed_name or default_name
        try:
            table = open_table(table_name, root)
            metric = table.find_metric(metric_name)
        except UsageError as error:
            others = [f"table:{name}:METRIC" for name in table_names if name != table_name]
            if not others:
                raise
            raise UsageError(f"{error}; {space} also has {' or '.join(others)}") from error
        key = metric.name
        if table.name != default_name:
            key = f"{table.name}:{metric.name}"
        return TableMetric(table, metric, f"table:{key}@1")


@dataclass(frozen=True)
class Validation:
    """The measure that ranks the final candidates: a metric of a table, or a short training.

    Attributes:
        measure: Name of the validation in the keys of records.
        higher_is_better: The direction of the measure.
        about: A description of the measure for the report.
        table_metric: The metric of a table; None for a short training.
        training: The short training; None for a table.
        training_name: The name by which a worker loads the training.
    """

    measure: str
    higher_is_better: bool
    about: str
    table_metric: TableMetric | None = None
    training: Proxy | None = None
    training_name: str = ""

    @staticmethod
    def parse(text: str, space: str, root: str | Path | None) -> "Validation":
        """Parse the value of `--validate`.

        Args:
            text: What the user typed.
            space: Name of the space.
            root: Folder of data sets; None for the default.

        Raises:
            UsageError: The text names neither a table nor a training.
        """
        if not isinstance(text, str):
            raise UsageError(f"{show_value(text)} is not a validation; type {EXAMPLES}")
        kind, colon, metric_text = text.partition(":")
        if kind == "table" and colon:
            return _make_table_validation(TableMetric.parse(metric_text, space, root))
        if kind.partition("(")[0].strip() == "training":
            return _make_training_validation(text.strip().removeprefix("training"))
        raise UsageError(f"{text!r} is not a validation; type {EXAMPLES}")

    def extend_evaluator(
        self, evaluator: Evaluator, task: Task, seed: int, store: Store
    ) -> Evaluator:
        """Return an evaluator that also adds the records of the validation.

        Args:
            evaluator: Scores architectures with proxies. A short training is one of them already.
            task: What networks are built for.
            seed: Seed in the keys of the records of a table.
            store: Where records of a table are kept.
        """
        if self.table_metric is None:
            return evaluator
        return TableEvaluator(self.table_metric, evaluator, task, seed, store)


def _make_table_validation(table_metric: TableMetric) -> Validation:
    metric = table_metric.metric
    return Validation(
        measure=table_metric.measure,
        higher_is_better=metric.higher_is_better,
        about=f"{metric.about or metric.name}, from the table {table_metric.table.name}",
        table_metric=table_metric,
    )


def _make_training_validation(options: str) -> Validation:
    """Return a validation by a short training; `options` are in brackets, or empty."""
    training_name = SHORT_TRAINING + options
    training = load_proxy(training_name)
    return Validation(
        measure=training.measure,
        higher_is_better=training.higher_is_better,
        about=training.about,
        training=training,
        training_name=training_name,
    )


@dataclass(frozen=True)
class TableEvaluator:
    """Adds a metric of a table to the records of another evaluator.

    Attributes:
        table_metric: What to look up.
        evaluator: Scores the same architectures.
        task: What networks are built for.
        seed: Seed in the keys of the records.
        store: Where records of the table are kept; None to keep none.
    """

    table_metric: TableMetric
    evaluator: Evaluator
    task: Task
    seed: int = 0
    store: Store | None = None

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        """Yield the records of one architecture after the other, that of the table first."""
        with closing(self.evaluator(archs)) as evaluations:
            for arch, records in zip(archs, evaluations, strict=True):
                table_record = self._look_up(arch)
                if self.store is not None:
                    self.store.add([table_record])
                yield [table_record, *records]

    def _look_up(self, arch: Arch) -> Record:
        table = self.table_metric.table
        value = table.read_value(arch, self.table_metric.metric)
        request = ScoreRequest(arch, self.table_metric.measure, self.task, self.seed)
        if value is None:
            return Record(request, error=Failure("missing", f"not in the table of {table.name}"))
        return Record(request, value)

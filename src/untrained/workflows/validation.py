"""Who has the last word where a pool was judged by proxies: a table of known results, or a short training.

table:cifar10_val_12                 what the first table of that space says; only what is asked for is looked up
table:darts1000:cifar10_val_200      what another table of the space says, by its name
training(epochs=3,samples=1500)      a training on the data of the search (`training/short_training.py`), as any proxy
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
from untrained.types import Arch, Failure, Record, ScoreRequest, Task

FORMS = '--validate table:cifar10_val_12 or --validate "training(epochs=3,samples=1500)"'


@dataclass(frozen=True)
class TableMetric:
    """One metric of one table, and what its records are filed under: the table is named unless it is the usual one."""

    table: BenchmarkTable
    metric: Metric
    measure: str

    @staticmethod
    def of(said: str, space: str, root: str | Path | None) -> "TableMetric":
        """`METRIC` of the first table of a space, or `BENCHMARK:METRIC`."""
        usual, *others = list_benchmarks(space)
        named, _, name = said.rpartition(":")
        if named and named not in (usual, *others):
            tables = ", ".join((usual, *others))
            raise UsageError(
                f"{space} has no table {named!r}; it has {tables}; type table:{usual}:METRIC"
            )
        try:
            table = open_table(named or usual, root)
            metric = table.metric(name)
        except UsageError as error:
            more = " or ".join(
                f"table:{other}:METRIC" for other in (usual, *others) if other != (named or usual)
            )
            raise UsageError(f"{error}; {space} has also {more}" if more else str(error)) from error
        filed = metric.name if table.name == usual else f"{table.name}:{metric.name}"
        return TableMetric(table, metric, f"table:{filed}@1")


@dataclass(frozen=True)
class Validation:
    """What decides in the end: one metric of a table, or a training."""

    measure: str
    higher_is_better: bool
    about: str
    known: TableMetric | None = None
    training: Proxy | None = None
    typed: str = ""  # the name under which the training can be loaded

    @staticmethod
    def parse(said: str, space: str, root: str | Path | None) -> "Validation":
        if not isinstance(said, str):
            raise UsageError(f"nothing validates by {show_value(said)}; type {FORMS}")
        kind, colon, name = said.partition(":")
        if kind == "table" and colon:
            known = TableMetric.of(name, space, root)
            about = f"{known.metric.about or known.metric.name} as the table {known.table.name} knows it"
            return Validation(known.measure, known.metric.higher_is_better, about, known)
        if kind.partition("(")[0].strip() == "training":
            from untrained.training.short_training import SHORT_TRAINING

            typed = SHORT_TRAINING + said.strip().removeprefix("training")
            training = load_proxy(typed)
            return Validation(
                training.measure, training.higher_is_better, training.about, None, training, typed
            )
        raise UsageError(f"nothing validates by {said!r}; type {FORMS}")

    def evaluator(self, asked: Evaluator, task: Task, seed: int, store: Store) -> Evaluator:
        """`asked` with what the table says in front; a training is among those that are asked anyway."""
        return TableEvaluator(self.known, asked, task, seed, store) if self.known else asked


@dataclass(frozen=True)
class TableEvaluator:
    """What a table knows of an architecture, and what others say of it."""

    known: TableMetric
    beside: Evaluator
    task: Task
    seed: int = 0
    store: Store | None = None

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        with closing(self.beside(archs)) as others:
            for arch, records in zip(archs, others, strict=True):
                found = self._look_up(arch)
                if self.store is not None:
                    self.store.add([found])
                yield [found, *records]

    def _look_up(self, arch: Arch) -> Record:
        table, metric = self.known.table, self.known.metric
        value = table.value(arch, metric)
        request = ScoreRequest(arch, self.known.measure, self.task, self.seed)
        if value is None:
            return Record(request, error=Failure("missing", f"not in the table of {table.name}"))
        return Record(request, value)

"""Who has the last word where a pool was judged by proxies: a table of known results, or a short training.

table:cifar10_val_12                 what the first table of that space says; only what is asked for is looked up
training(epochs=3,samples=1500)      a training on the data of the search (`training/brief.py`), as any proxy
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from untrained.benchmarks import Metric, Table, benchmark_of, open_table
from untrained.engine import Evaluator, Store
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.types import Arch, Failure, Record, Task

FORMS = '--validate table:cifar10_val_12 or --validate "training(epochs=3,samples=1500)"'


@dataclass(frozen=True)
class Validation:
    """What decides in the end: one metric of a table, or a training."""

    measure: str
    higher_is_better: bool
    about: str
    known: tuple[Table, Metric] | None = None
    training: Proxy | None = None
    typed: str = ""  # the name under which the training can be loaded

    @staticmethod
    def parse(said: str, space: str, root: str | Path | None) -> "Validation":
        kind, colon, name = said.partition(":")
        if kind == "table" and colon:
            table = open_table(benchmark_of(space), root)
            metric = table.metric(name)
            about = f"{metric.about or metric.name} as the table {table.name} knows it"
            return Validation(f"{said}@1", metric.higher_is_better, about, known=(table, metric))
        if kind.partition("(")[0].strip() == "training":
            from untrained.training.brief import NAME

            typed = NAME + said.strip().removeprefix("training")
            training = load_proxy(typed)
            return Validation(training.measure, training.higher_is_better, training.about, None, training, typed)
        raise UsageError(f"nothing validates by {said!r}; type {FORMS}")

    def evaluator(self, asked: Evaluator, task: Task, seed: int, store: Store) -> Evaluator:
        """`asked` with what the table says in front; a training is among those that are asked anyway."""
        return TableEvaluator(*self.known, asked, task, seed, store) if self.known else asked


@dataclass(frozen=True)
class TableEvaluator:
    """What a table knows of an architecture, and what others say of it."""

    table: Table
    metric: Metric
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
        value = self.table.value(arch, self.metric)
        error = Failure("missing", f"not in the table of {self.table.name}") if value is None else None
        return Record(arch, f"table:{self.metric.name}@1", self.task, self.seed, value, error)

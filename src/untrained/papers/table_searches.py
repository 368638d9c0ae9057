"""Search among the architectures of a table whose scores were measured once.

The strategies are those of `untrained search`. Proxy scores are read from the measurements, and a
query reads the validation accuracy after 12 epochs from the table. The winner is evaluated by its
test accuracy after 200 epochs, which no search reads.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np

from untrained.papers.samples import Sample
from untrained.papers.table_lines import make_seeds_line
from untrained.reports.reproduction_result import TableLine
from untrained.runs import ranking
from untrained.seeds import make_generator
from untrained.spaces import Space, load_space
from untrained.strategies.base import Fitness, Strategy, group_by_arch
from untrained.strategies.budget import Budget
from untrained.strategies.driver import run_strategy
from untrained.strategies.hnas import HNAS
from untrained.strategies.limits import ConstrainedSpace, LimitViolation
from untrained.types import Arch, Failure, Record, ScoreRequest
from untrained.workflows.validation import TableEvaluator, TableMetric

SEARCH_COUNT = 10  # independent searches per algorithm
QUERIES = 20  # validation accuracies that a search may read, as in the paper
VALIDATION = "cifar10_val_12"  # the metric that a query reads: CIFAR-10 after 12 epochs
MEASURE = f"table:{VALIDATION}@1"
DATASETS = {"C10": "cifar10", "C100": "cifar100", "IN-16": "ImageNet16-120"}


class MeasuredSpace(ConstrainedSpace):
    """The measured architectures of a space, as a space of their own."""

    def __init__(self, space: Space, archs: Sequence[Arch]) -> None:
        super().__init__(space)
        self._archs = archs
        self._members = frozenset(archs)

    @property
    def size(self) -> int:
        return len(self._archs)

    def sample(self, rng: np.random.Generator) -> Arch:
        return self._archs[int(rng.random() * len(self._archs))]

    def find_violation(self, arch: Arch) -> LimitViolation | None:
        """Return None for a measured architecture, and a violation for all others."""
        # Mutations may leave the sample; the base class then tries again.
        if arch in self._members:
            return None
        return LimitViolation("measured", None, inf)


@dataclass(frozen=True)
class MeasuredTable:
    """A sample of a table that strategies can search: a space, proxy scores and accuracies."""

    sample: Sample

    @cached_property
    def space(self) -> MeasuredSpace:
        """The architectures of the sample."""
        return MeasuredSpace(load_space(self.sample.truth.space), self.sample.truth.archs)

    @cached_property
    def records(self) -> dict[Arch, list[Record]]:
        """The measured scores of each architecture, as records."""
        records: dict[Arch, list[Record]] = {}
        for index, arch in enumerate(self.sample.truth.archs):
            arch_records = []
            for name, scores in self.sample.scores.items():
                for seed, row in enumerate(scores):
                    arch_records.append(self._make_record(arch, name, seed, float(row[index])))
            records[arch] = arch_records
        return records

    def _make_record(self, arch: Arch, name: str, seed: int, value: float) -> Record:
        request = ScoreRequest(arch, f"{name}@1", self.sample.source.task, seed)
        if not np.isfinite(value):
            return Record.of(request, Failure("missing"))
        return Record.of(request, value)

    def read_scores(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        """Yield the measured scores of architectures, as an evaluator does."""
        for arch in archs:
            yield self.records[arch]

    def make_fitness(self, proxy: str) -> Fitness:
        """Return a function that reads the score of a proxy from records."""
        higher_is_better = self.sample.proxies[proxy].higher_is_better
        return partial(
            ranking.compute_fitness, measure=f"{proxy}@1", higher_is_better=higher_is_better
        )

    def read_accuracy(self, records: Sequence[Record]) -> float | None:
        """Read the validation accuracy of an architecture from its records."""
        return ranking.compute_fitness(records, MEASURE, higher_is_better=True)

    def search_with_queries(self, strategy: Strategy, queries: int = QUERIES) -> list[Arch]:
        """Search with queries of the validation accuracy.

        Returns:
            The best architecture after every query.
        """
        table = self.sample.truth.table
        # This is also the evaluator of `untrained search --validate table:...`.
        metric = TableMetric(table, table.find_metric(VALIDATION), MEASURE)
        evaluator = TableEvaluator(metric, _score_nothing, self.sample.source.task)
        result = run_strategy(strategy, evaluator, Budget(queries), self.read_accuracy)
        return list_incumbents(self.read_accuracy, result.records)

    def search_by_proxy(self, strategy: Strategy, proxy: str, count: int) -> list[Arch]:
        """Search by a measured score alone, without any query.

        Returns:
            The best architecture so far, after each scored architecture.
        """
        fitness = self.make_fitness(proxy)
        result = run_strategy(strategy, self.read_scores, Budget(count), fitness)
        return list_incumbents(fitness, result.records)

    def read_test_accuracies(self, archs: Sequence[Arch]) -> np.ndarray:
        """Return test accuracies of shape (data sets, architectures)."""
        table = self.sample.truth.table
        rows = []
        for dataset in DATASETS.values():
            metric = table.find_metric(dataset=dataset, split="test", epochs=200)
            rows.append(table.read_values(archs, metric))
        return np.array(rows)


def _score_nothing(archs: Sequence[Arch]) -> Generator[list[Record]]:
    """Evaluate no proxy, for searches that only query the table."""
    for _ in archs:
        yield []


def list_incumbents(fitness: Fitness, records: Sequence[Record]) -> list[Arch]:
    """Return the best architecture so far, after every evaluated architecture.

    The list starts with the first architecture that has a value, so it may be shorter than the
    number of architectures.
    """
    incumbents: list[Arch] = []
    best_value = -np.inf
    for arch, arch_records in group_by_arch(records).items():
        value = fitness(arch_records)
        # Strictly greater, so that the first of several equal architectures stays the best.
        if value is not None and (not incumbents or value > best_value):
            best_value = value
            incumbents.append(arch)
        elif incumbents:
            incumbents.append(incumbents[-1])
    return incumbents


# A search: it returns the best architecture after every query.
Algorithm = Callable[[MeasuredTable, np.random.Generator], list[Arch]]


def make_hnas_strategy(
    table: MeasuredTable, rng: np.random.Generator, metric: str, **plan: Any
) -> HNAS:
    """Return the strategy HNAS with one of its metrics and options of its plan."""
    return HNAS(
        table.space,
        rng,
        table.read_accuracy,
        score_pool=table.read_scores,
        metric=metric,
        **plan,
    )


def make_hnas_search(metric: str, **plan: Any) -> Algorithm:
    """Return a search by HNAS with one of its metrics and options of its plan."""

    def run_hnas(table: MeasuredTable, rng: np.random.Generator) -> list[Arch]:
        return table.search_with_queries(make_hnas_strategy(table, rng, metric, **plan))

    return run_hnas


def repeat_search(table: MeasuredTable, label: str, algorithm: Algorithm) -> list[list[Arch]]:
    """Run independent searches.

    Their seeds depend on the label only, so a search is the same in every experiment.
    """
    return [algorithm(table, make_generator("search", label, run)) for run in range(SEARCH_COUNT)]


def compare_algorithms(
    table: MeasuredTable,
    algorithms: Mapping[str, Algorithm],
    published: Mapping[str, tuple[float | None, ...]],
    alternatives: Collection[str] = (),
) -> list[TableLine]:
    """Compare the test accuracies of the winners of several algorithms.

    Args:
        table: The table in which they search.
        algorithms: The algorithms by label.
        published: By label: mean and standard deviation, data set by data set.
        alternatives: Labels of variants of a row that has the same published numbers.

    Returns:
        Mean and standard deviation over searches, one line per algorithm and data set.
    """
    lines = []
    for label, algorithm in algorithms.items():
        winners = []
        for incumbents in repeat_search(table, label, algorithm):
            if incumbents:
                winners.append(incumbents[-1])
        accuracies = table.read_test_accuracies(winners)
        for line in make_accuracy_lines(label, accuracies, published.get(label, ())):
            lines.append(replace(line, alternative=label in alternatives))
    return lines


def make_accuracy_lines(
    label: str, accuracies: np.ndarray, published: Sequence[float | None] = ()
) -> list[TableLine]:
    """Make one line per data set from accuracies of shape (data sets, searches).

    Args:
        label: Start of the descriptions of the lines.
        accuracies: The accuracies.
        published: Mean and standard deviation of the paper, data set by data set; may be empty.
    """
    lines = []
    for index, (dataset, row) in enumerate(zip(DATASETS, accuracies, strict=True)):
        mean = None
        note = ""
        if published:
            mean, spread = published[2 * index : 2 * index + 2]
            if spread is not None:
                note = f"paper: \u00b1 {spread:.2f}"
        lines.append(make_seeds_line(f"{label}, {dataset}", mean, row, note))
    return lines

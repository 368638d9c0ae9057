"""Searches on a table: the product's own strategies among architectures whose scores were measured once.

A judge reads the measured scores, and a query is a look at the table's validation accuracy after 12 epochs. What a
search has chosen is told by test accuracies after 200 epochs, which no search sees.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from untrained.papers.samples import Sample
from untrained.reports.reproduction_facts import TableLine
from untrained.rng import generator
from untrained.runs.ranking import fitness
from untrained.spaces import Space, load_space
from untrained.strategies import _validate
from untrained.strategies._strategy import Fitness, Strategy, by_arch
from untrained.strategies.budget import Budget
from untrained.strategies.drive import drive
from untrained.strategies.hnas import HNAS
from untrained.strategies.limits import Breach, Feasible
from untrained.types import Arch, Failure, Record, ScoreRequest

RUNS, QUERIES = 10, 20
VALIDATION = "cifar10_val_12"
MEASURE = f"table:{VALIDATION}@1"
SETS = {"C10": "cifar10", "C100": "cifar100", "IN-16": "ImageNet16-120"}


class Known(Feasible):
    """The architectures of a space whose scores were measured, as a space of their own."""

    def __init__(self, space: Space, archs: Sequence[Arch]) -> None:
        super().__init__(space)
        self._archs, self._all = archs, frozenset(archs)

    @property
    def size(self) -> int:
        return len(self._archs)

    def sample(self, rng: np.random.Generator) -> Arch:
        return self._archs[int(rng.random() * len(self._archs))]

    def breach(self, arch: Arch) -> Breach | None:
        return None if arch in self._all else Breach("measured", None)


@dataclass(frozen=True)
class Ground:
    """A sample with everything a search wants: a space, a judge, queries."""

    sample: Sample

    @cached_property
    def space(self) -> Known:
        return Known(load_space(self.sample.truth.space), self.sample.truth.archs)

    @cached_property
    def records(self) -> dict[Arch, list[Record]]:
        """What was measured, under the names that were asked for."""
        columns = [(name, seed, row) for name, scores in self.sample.scores.items() for seed, row in enumerate(scores)]
        return {
            arch: [self._record(arch, name, seed, float(row[place])) for name, seed, row in columns]
            for place, arch in enumerate(self.sample.truth.archs)
        }

    def _record(self, arch: Arch, name: str, seed: int, value: float) -> Record:
        request = ScoreRequest(arch, f"{name}@1", self.sample.source.task, seed)
        return Record.of(request, value if np.isfinite(value) else Failure("missing"))

    def judge(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        """The measured scores."""
        for arch in archs:
            yield self.records[arch]

    def by(self, proxy: str) -> Fitness:
        """How well an architecture does by its measured score."""
        better = self.sample.proxies[proxy].higher_is_better
        return partial(fitness, measure=f"{proxy}@1", higher_is_better=better)

    def accuracy(self, records: Sequence[Record]) -> float | None:
        """How well it does by what a query said."""
        return fitness(records, MEASURE, higher_is_better=True)

    def validated(self, strategy: Strategy, queries: int = QUERIES) -> list[Arch]:
        """The best by validation accuracy after every query."""
        table = self.sample.truth.table
        known = _validate.Known(table, table.metric(VALIDATION), MEASURE)
        ask = _validate.TableEvaluator(known, _silent, self.sample.source.task)
        return incumbents(self.accuracy, drive(strategy, ask, Budget(queries), self.accuracy, _deaf).records)

    def judged(self, strategy: Strategy, proxy: str, count: int) -> list[Arch]:
        """The best by a measured score after every architecture; the table is never asked."""
        by = self.by(proxy)
        return incumbents(by, drive(strategy, self.judge, Budget(count), by, _deaf).records)

    def tests(self, archs: Sequence[Arch]) -> np.ndarray:
        """Test accuracies, (data sets, architectures)."""
        table = self.sample.truth.table
        metrics = [table.metric(dataset=dataset, split="test", epochs=200) for dataset in SETS.values()]
        return np.array([table.values(archs, metric) for metric in metrics])


def _silent(archs: Sequence[Arch]) -> Generator[list[Record]]:
    """Nobody has a say beside the table."""
    yield from ([] for _ in archs)


def _deaf(done: int, records: Sequence[Record]) -> None:
    """A table answers at once: nobody needs to hear how far a search is."""


def incumbents(fitness: Fitness, records: Sequence[Record]) -> list[Arch]:
    """The best so far after every architecture, from the first that has a value on; of equals the first."""
    best: list[tuple[float, Arch]] = []
    for arch, found in by_arch(records).items():
        value = fitness(found)
        if value is not None and (not best or value > best[-1][0]):
            best.append((value, arch))
        elif best:
            best.append(best[-1])
    return [arch for _, arch in best]


Algorithm = Callable[[Ground, np.random.Generator], list[Arch]]  # the best after every query


def bayesian(ground: Ground, rng: np.random.Generator, metric: str, **plan: Any) -> HNAS:
    return HNAS(ground.space, rng, ground.accuracy, judge=ground.judge, metric=metric, **plan)


def hnas(metric: str, **plan: Any) -> Algorithm:
    """HNAS with one of its metrics."""
    return lambda ground, rng: ground.validated(bayesian(ground, rng, metric, **plan))


def runs(ground: Ground, label: str, algorithm: Algorithm) -> list[list[Arch]]:
    """Independent searches; equal for the same label, whatever the table they stand in."""
    return [algorithm(ground, generator("search", label, run)) for run in range(RUNS)]


def compared(
    ground: Ground, algorithms: Mapping[str, Algorithm], published: Mapping[str, tuple[float | None, ...]]
) -> list[TableLine]:
    """Test accuracy of what each algorithm chose, mean and standard deviation over its searches. Published numbers are
    mean and standard deviation, data set by data set."""
    lines = []
    for label, algorithm in algorithms.items():
        chosen = [found[-1] for found in runs(ground, label, algorithm) if found]
        lines += reached(label, ground.tests(chosen), published.get(label, ()))
    return lines


def reached(label: str, accuracies: np.ndarray, published: Sequence[float | None] = ()) -> list[TableLine]:
    """Lines of accuracies (data sets, searches)."""
    lines = []
    for place, (dataset, row) in enumerate(zip(SETS, accuracies, strict=True)):
        theirs, spread = (*published[2 * place : 2 * place + 2], None, None)[:2]
        known = row[np.isfinite(row)]
        mean = float(known.mean()) if len(known) else None
        ours = float(known.std(ddof=1)) if len(known) > 1 else None
        note = f"paper: \u00b1 {spread:.2f}" if spread is not None else ""
        lines.append(TableLine(f"{label}, {dataset}", theirs, mean, spread=ours, note=note))
    return lines

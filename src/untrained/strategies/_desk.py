"""Where a search has its questions answered: evaluators made of one executor and one store, and somebody who is told
how far it is. Knows nothing of folders or terminals."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from untrained.engine import Evaluator, ProxyEvaluator, Samples, Store
from untrained.engine.executor import Executor
from untrained.proxies import Proxy
from untrained.strategies._notes import Notes
from untrained.strategies._panel import Panel
from untrained.strategies._strategy import Fitness, Strategy
from untrained.strategies.budget import Budget
from untrained.strategies.drive import CHUNK, Drive, drive
from untrained.strategies.sieve import Listed, Sieve
from untrained.types import FRESH, Arch, Record, ScoreRequest


@dataclass(frozen=True)
class Progress:
    """How far a search is: architectures done and at most to do, how many of them had to be measured, by how many
    workers; and the records of the last one."""

    stage: str
    done: int
    total: int | None
    measured: int
    workers: int
    records: Sequence[Record] = ()


Watcher = Callable[[Progress], None]
LOOKING = "looking at the supernet"


def stepping(stage: str, watch: Watcher | None) -> Callable[[int, int], None] | None:
    """Tell whoever watches how many steps of a stage are done, of how many."""
    return (lambda done, steps: watch(Progress(stage, done, steps, 0, 1))) if watch else None


def warming(watch: Watcher | None) -> Callable[[int, int], None] | None:
    """The same of a warm-up."""
    return stepping("warming up", watch)


@dataclass(frozen=True)
class NotingEvaluator:
    """An evaluator that notes in the store which records the run asked for, as it passes them on.

    Records that arrive early and are never passed on, because the search ends before, are not noted.
    """

    evaluate: Evaluator
    store: Store
    question: str

    def __call__(self, archs: Sequence[Arch]) -> Generator[list[Record]]:
        with closing(self.evaluate(archs)) as answers:
            for records in answers:
                self.store.add_to_question(self.question, records)
                yield records


@dataclass
class Desk:
    """Stages of a search. Executor and store come when the work begins."""

    panel: Panel
    samples: Samples
    device: str
    watch: Watcher | None
    code: str = ""  # fingerprint of the user's code that defines the space
    networks_per_pass: int = 1
    init: str = FRESH  # the weights that networks are judged with; a screen always looks at fresh ones
    chunk: int = CHUNK  # architectures asked for at a time; workers fall idle at the end of each
    executor: Executor = field(init=False)
    store: Store = field(init=False)
    question: str = field(init=False)
    notes: Notes = field(init=False)
    _judged: int = 0
    _measured: int = 0

    def __post_init__(self) -> None:
        self.notes = Notes(stepping(LOOKING, self.watch))

    def work(self, asker: Strategy, budget: Budget, fit: Fitness) -> Drive:
        """Screen where that was asked for, then score. What was asked for is noted in the store."""
        sieve = self.panel.sieve
        if sieve is None:
            return self._scoring(asker, budget, fit)
        screening = self._screening(sieve, asker, replace(budget, stable=None))
        if screening.ended == "interrupted":
            return screening
        survivors = sieve.survivors(screening.records)
        seconds_left = budget.seconds and budget.seconds - screening.seconds
        budget = replace(budget, count=max(1, len(survivors)), seconds=seconds_left)
        scoring = self._scoring(Listed(survivors), budget, fit)
        return replace(scoring, seconds=screening.seconds + scoring.seconds)

    def requests(self) -> list[ScoreRequest]:
        """What is asked about an architecture at any stage. Requests for architectures differ in the latter only."""
        anything = Arch("", ())
        requests = self._proxies(self.panel.judges, self.init).requests_for(anything)
        if self.panel.sieve:
            requests += self._proxies(self.panel.sieve.proxies, FRESH).requests_for(anything)
        return requests

    def _screening(self, sieve: Sieve, asker: Strategy, budget: Budget) -> Drive:
        """Score all candidates with the cheap proxies."""
        evaluate = self._proxies(sieve.proxies, FRESH)
        listener = self._listener("screening", evaluate, budget)
        return drive(asker, self._noting(evaluate), budget, lambda records: None, listener, self.chunk)

    def _scoring(self, asker: Strategy, budget: Budget, fit: Fitness) -> Drive:
        """Score the proposed architectures with all proxies."""
        proxies = self._proxies(self.panel.judges, self.init)
        evaluate: Evaluator = proxies
        validation = self.panel.validation
        if validation:
            source = self.samples.source
            evaluate = validation.evaluator(proxies, source.task, self.samples.seeds[0], self.store)
        listener = self._listener("validating" if validation else "scoring", proxies, budget)
        return drive(asker, self._noting(evaluate), budget, fit, listener, self.chunk)

    def judge(self, archs: Sequence[Arch]) -> Iterator[list[Record]]:
        """Score a pool for a strategy that has one; a pool that grows is shown as one stage."""
        proxies = self._proxies(self.panel.pool, self.init)
        total = self._judged + len(archs)
        with closing(self._noting(proxies)(archs)) as answers:
            for records in answers:
                self._judged += 1
                self._tell("judging the pool", self._judged, total, self._measured + proxies.measured, records)
                yield records
        self._measured += proxies.measured

    def _proxies(self, proxies: Sequence[Proxy], init: str) -> ProxyEvaluator:
        return ProxyEvaluator(
            self.samples,
            proxies,
            self.executor,
            self.device,
            self.store,
            init,
            self.code,
            self.networks_per_pass,
        )

    def _noting(self, evaluate: Evaluator) -> "NotingEvaluator":
        return NotingEvaluator(evaluate, self.store, self.question)

    def _listener(self, stage: str, asked: ProxyEvaluator, budget: Budget) -> Callable[[int, Sequence[Record]], None]:
        return lambda done, records: self._tell(stage, done, budget.total, asked.measured, records)

    def _tell(self, stage: str, done: int, total: int | None, measured: int, records: Sequence[Record]) -> None:
        if self.watch:
            self.watch(Progress(stage, done, total, measured, self.executor.workers, records))

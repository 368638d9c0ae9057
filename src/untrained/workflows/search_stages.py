"""Where a search has its questions answered: evaluators made of one executor and one store, and somebody who is told
how far it is. Knows nothing of folders or terminals."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from untrained.engine import Evaluator, ProxyEvaluator, SeedBatches
from untrained.engine.executors.base import Executor
from untrained.progress import Progress, ProgressCallback
from untrained.proxies import Proxy
from untrained.runs.step_log import StepLog
from untrained.runs.store import Store
from untrained.strategies.base import Fitness, Strategy
from untrained.strategies.budget import Budget
from untrained.strategies.driver import DEFAULT_ASK, DriverResult, run_strategy
from untrained.strategies.screening import FixedCandidates, Screening
from untrained.types import FRESH, Arch, Record, ScoreRequest
from untrained.workflows.scoring_plan import ScoringPlan

LOOKING = "looking at the supernet"


def stepping(stage: str, on_progress: ProgressCallback | None) -> Callable[[int, int], None] | None:
    """Tell whoever watches how many steps of a stage are done, of how many."""
    return (
        (lambda done, steps: on_progress(Progress(stage, done, steps, 0, 1)))
        if on_progress
        else None
    )


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
class SearchStages:
    """Stages of a search. Executor and store come when the work begins."""

    panel: ScoringPlan
    samples: SeedBatches
    device: str
    on_progress: ProgressCallback | None
    code: str = ""  # fingerprint of the user's code that defines the space
    networks_per_pass: int = 1
    init: str = (
        FRESH  # the weights that networks are judged with; a screen always looks at fresh ones
    )
    chunk: int = (
        DEFAULT_ASK  # architectures asked for at a time; workers fall idle at the end of each
    )
    executor: Executor = field(init=False)
    store: Store = field(init=False)
    question: str = field(init=False)
    notes: StepLog = field(init=False)
    _judged: int = 0
    _measured: int = 0

    def __post_init__(self) -> None:
        self.notes = StepLog(stepping(LOOKING, self.on_progress))

    def work(self, asker: Strategy, budget: Budget, fit: Fitness) -> DriverResult:
        """Screen where that was asked for, then score. What was asked for is noted in the store."""
        sieve = self.panel.sieve
        if sieve is None:
            return self._scoring(asker, budget, fit)
        screening = self._screening(sieve, asker, replace(budget, stable=None))
        if screening.ended == "interrupted":
            return screening
        survivors = sieve.select_survivors(screening.records)
        seconds_left = budget.seconds and budget.seconds - screening.seconds
        budget = replace(budget, count=max(1, len(survivors)), seconds=seconds_left)
        scoring = self._scoring(FixedCandidates(survivors), budget, fit)
        return replace(scoring, seconds=screening.seconds + scoring.seconds)

    def requests(self) -> list[ScoreRequest]:
        """What is asked about an architecture at any stage. Requests for architectures differ in the latter only."""
        anything = Arch("", ())
        requests = self._proxies(self.panel.judges, self.init).make_requests(anything)
        if self.panel.sieve:
            requests += self._proxies(self.panel.sieve.proxies, FRESH).make_requests(anything)
        return requests

    def _screening(self, sieve: Screening, asker: Strategy, budget: Budget) -> DriverResult:
        """Score all candidates with the cheap proxies."""
        evaluate = self._proxies(sieve.proxies, FRESH)
        listener = self._listener("screening", evaluate, budget)
        return run_strategy(
            asker, self._noting(evaluate), budget, lambda records: None, listener, self.chunk
        )

    def _scoring(self, asker: Strategy, budget: Budget, fit: Fitness) -> DriverResult:
        """Score the proposed architectures with all proxies."""
        proxies = self._proxies(self.panel.judges, self.init)
        evaluate: Evaluator = proxies
        validation = self.panel.validation
        if validation:
            source = self.samples.source
            evaluate = validation.evaluator(proxies, source.task, self.samples.seeds[0], self.store)
        listener = self._listener("validating" if validation else "scoring", proxies, budget)
        return run_strategy(asker, self._noting(evaluate), budget, fit, listener, self.chunk)

    def judge(self, archs: Sequence[Arch]) -> Iterator[list[Record]]:
        """Score a pool for a strategy that has one; a pool that grows is shown as one stage."""
        proxies = self._proxies(self.panel.pool, self.init)
        total = self._judged + len(archs)
        with closing(self._noting(proxies)(archs)) as answers:
            for records in answers:
                self._judged += 1
                self._tell(
                    "judging the pool",
                    self._judged,
                    total,
                    self._measured + proxies.measured,
                    records,
                )
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

    def _listener(
        self, stage: str, asked: ProxyEvaluator, budget: Budget
    ) -> Callable[[int, Sequence[Record]], None]:
        return lambda done, records: self._tell(stage, done, budget.total, asked.measured, records)

    def _tell(
        self, stage: str, done: int, total: int | None, measured: int, records: Sequence[Record]
    ) -> None:
        if self.on_progress:
            self.on_progress(Progress(stage, done, total, measured, self.executor.workers, records))

"""Where a search has its questions answered: evaluators made of one executor and one store, and somebody who is told
how far it is. Knows nothing of folders or terminals."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from untrained.engine import ProxyEvaluator, Samples, Store
from untrained.engine.executor import Executor
from untrained.proxies import Proxy
from untrained.strategies._notes import Notes
from untrained.strategies._panel import Panel
from untrained.strategies._strategy import Fitness, Strategy
from untrained.strategies.budget import Budget
from untrained.strategies.drive import CHUNK, Drive, drive
from untrained.strategies.sieve import Listed, Sieve
from untrained.types import FRESH, Arch, Record


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
    notes: Notes = field(init=False)
    _pool: list[Record] = field(default_factory=list)  # what was judged for a strategy alone
    _judged: int = 0
    _measured: int = 0

    def __post_init__(self) -> None:
        self.notes = Notes(stepping(LOOKING, self.watch))

    def work(self, asker: Strategy, budget: Budget, fit: Fitness) -> Drive:
        """Screen where that was asked for, then judge: all records, also those of a pool, and the time of all."""
        sieve, before = self.panel.sieve, Drive()
        if sieve:
            before = self._screening(sieve, asker, replace(budget, stable=None))
            survivors = sieve.survivors(before.records)
            left = budget.seconds and budget.seconds - before.seconds
            asker, budget = Listed(survivors), replace(budget, count=max(1, len(survivors)), seconds=left)
        done = before if before.ended == "interrupted" else self._scoring(asker, budget, fit)
        seconds = done.seconds if done is before else before.seconds + done.seconds
        if done.ended == "interrupted":
            done.records = list(self.store)  # some may have come out of turn, and are not told yet
        return Drive(list(dict.fromkeys(before.records + self._pool + done.records)), done.ended, seconds)

    def _screening(self, sieve: Sieve, asker: Strategy, budget: Budget) -> Drive:
        """The cheap proxies see everybody."""
        asked = self._proxies(sieve.proxies, FRESH)
        return drive(asker, asked, budget, lambda records: None, self._listener("screening", asked, budget), self.chunk)

    def _scoring(self, asker: Strategy, budget: Budget, fit: Fitness) -> Drive:
        """Everybody who has a say sees what the strategy asks for."""
        asked, dear = self._proxies(self.panel.judges, self.init), self.panel.validation
        source = self.samples.source
        evaluate = dear.evaluator(asked, source.task, self.samples.seeds[0], self.store) if dear else asked
        stage = "validating" if dear else "scoring"
        return drive(asker, evaluate, budget, fit, self._listener(stage, asked, budget), self.chunk)

    def judge(self, archs: Sequence[Arch]) -> Iterator[list[Record]]:
        """The records of a pool, for a strategy that has one; a pool that grows is one stage all the same."""
        asked, total = self._proxies(self.panel.pool, self.init), self._judged + len(archs)
        with closing(asked(archs)) as answers:
            for records in answers:
                self._pool += records
                self._judged += 1
                self._tell("judging the pool", self._judged, total, self._measured + asked.measured, records)
                yield records
        self._measured += asked.measured

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

    def _listener(self, stage: str, asked: ProxyEvaluator, budget: Budget) -> Callable[[int, Sequence[Record]], None]:
        return lambda done, records: self._tell(stage, done, budget.total, asked.measured, records)

    def _tell(self, stage: str, done: int, total: int | None, measured: int, records: Sequence[Record]) -> None:
        if self.watch:
            self.watch(Progress(stage, done, total, measured, self.executor.workers, records))

"""The pool: keeps workers busy and survives their deaths. It knows nothing of processes or clusters; a Crew does.

A worker answers its questions in order, so a dead worker was at work on the first it had not answered. That question is
asked once more; who kills two workers has crashed. The others it held are handed to somebody else. Where a worker looks
at many networks together, any of them may have killed it: each is asked again by itself, and only then is one blamed.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass, replace
from itertools import count, groupby
from math import ceil, inf
from time import perf_counter
from typing import Protocol

from untrained.engine.executor import Answer, Cost
from untrained.engine.measure import Requests
from untrained.errors import UsageError
from untrained.types import Failure, Record

AHEAD = 0.2  # seconds of work that lie ready at a worker, so that it never waits for the next question
MOST = 64  # questions at a time
LIVES = 2  # workers that a question may cost
STILLBORN = 3  # workers in a row that may die before they are ready
GLANCE = 1.0  # seconds between looks at the clock


@dataclass(frozen=True)
class Ready:
    """A worker has opened its job."""

    worker: int


@dataclass(frozen=True)
class Answered:
    """A worker has answered the first question it held."""

    worker: int
    records: list[Record]


@dataclass(frozen=True)
class Refused:
    """A worker says that the request is wrong: no failure of a network, and the end of the run."""

    worker: int
    message: str


@dataclass(frozen=True)
class Died:
    """A worker is gone; `why` is one line, `trace` the last it said."""

    worker: int
    why: str
    trace: str = ""


Event = Ready | Answered | Refused | Died


class Crew(Protocol):
    """Workers by number, on one kind of machine."""

    name: str

    def hire(self, worker: int, slot: int) -> None: ...

    def give(self, worker: int, questions: list[Requests]) -> None: ...

    def events(self, timeout: float) -> Iterable[Event]: ...

    def dismiss(self, worker: int) -> None: ...

    def close(self) -> None: ...


@dataclass
class _Worker:
    slot: int
    held: deque[tuple[int, Requests]]
    hired: float
    ready: bool = False
    began: float = 0.0  # when it took up the first question it holds


class Pool:
    """An Executor over any crew. Workers are hired once and replaced when they die."""

    def __init__(self, crew: Crew, workers: int, time_limit: float | None = None, at_once: int = 1) -> None:
        self.crew, self.workers, self.time_limit, self.at_once = crew, workers, time_limit or inf, at_once
        self._numbers, self._stillborn = count(), 0
        self._costs = [Cost(f"{crew.name} {slot + 1}") for slot in range(workers)]
        self._staff: dict[int, _Worker] = {}
        self._fresh: Iterator[tuple[int, Requests]] = iter(())
        self._again: deque[tuple[int, Requests]] = deque()  # to be asked once more
        self._strikes: Counter[int] = Counter()
        self._suspects: set[int] = set()  # to be asked by themselves
        self._portion = at_once  # questions for a worker to answer together
        self._fill()

    def map(self, questions: Iterable[Requests]) -> Iterator[Answer]:
        self._fill()
        self._fresh, self._again, self._strikes = iter(enumerate(questions)), deque(), Counter()
        self._suspects, self._portion = set(), self.at_once
        if isinstance(questions, Sized):  # few questions are shared out, so that nobody is idle
            self._portion = max(1, min(self.at_once, ceil(len(questions) / (2 * self.workers))))
        try:
            while self._feed():
                answers: list[Answer] = []  # all is taken in before any is told: a listener may be slow, or stop
                for event in self.crew.events(min(GLANCE, self._patience())):
                    if event.worker in self._staff:  # the last words of somebody dismissed are not heard
                        answers += self._hear(event)
                answers += self._overdue()
                yield from answers
        finally:
            for number in [number for number, worker in self._staff.items() if worker.held]:
                self._dismiss(number)  # nobody waits for their answers any more

    def costs(self) -> list[Cost]:
        now = perf_counter()
        alive = {worker.slot: now - worker.hired for worker in self._staff.values()}
        return [replace(cost, alive=cost.alive + alive.get(slot, 0.0)) for slot, cost in enumerate(self._costs)]

    def close(self) -> None:
        for number in list(self._staff):
            self._dismiss(number)
        self.crew.close()

    # ---------------------------------------------------------------------------------------------------- questions

    def _feed(self) -> bool:
        """Hand out questions; whether any is left to wait for."""
        for number, worker in self._staff.items():
            if worker.ready and len(worker.held) <= self._ahead // 2:
                room = (self._ahead - len(worker.held)) // self._portion * self._portion  # whole populations
                chunk = [q for _ in range(room) if (q := self._next()) is not None]
                if chunk:
                    worker.began = worker.began if worker.held else perf_counter()
                    worker.held.extend(chunk)
                    for _, together in groupby(chunk, lambda question: self._suspect(question[0])):
                        self.crew.give(number, [requests for _, requests in together])
        if any(worker.held for worker in self._staff.values()):
            return True
        if (first := self._next()) is None:
            return False
        self._again.appendleft(first)  # nobody is ready yet
        return True

    def _next(self) -> tuple[int, Requests] | None:
        return self._again.popleft() if self._again else next(self._fresh, None)

    def _suspect(self, place: int) -> int | None:
        """The place itself where it must not be asked together with others."""
        return place if place in self._suspects else None

    @property
    def _ahead(self) -> int:
        """How many questions a worker holds: those at work, and what fills the time until it can be given more."""
        return 2 * self._portion if self.at_once > 1 else self._few

    @property
    def _few(self) -> int:
        done = sum(cost.networks for cost in self._costs)
        busy = sum(cost.build + cost.transfer + cost.measure for cost in self._costs)
        return min(MOST, 1 + ceil(AHEAD * done / busy)) if done and busy else 1

    # ------------------------------------------------------------------------------------------------------- events

    def _hear(self, event: Event) -> Iterator[Answer]:
        worker = self._staff[event.worker]
        match event:
            case Ready():
                worker.ready, self._stillborn = True, 0
            case Answered(records=records):
                place, _ = worker.held.popleft()
                worker.began = perf_counter()
                self._costs[worker.slot].charge(records)
                yield place, records
            case Refused(message=message):
                raise UsageError(message)
            case Died(why=why, trace=trace):
                self._costs[worker.slot].deaths += 1
                self._stillborn += not worker.ready
                if self._stillborn >= STILLBORN:
                    raise UsageError(f"no worker can be started: {why}{f'; it said: {trace}' if trace else ''}")
                yield from self._blame(event.worker, Failure("crashed", why, trace), lives=LIVES)

    def _overdue(self) -> Iterator[Answer]:
        """Stop who has been at one architecture for too long."""
        now = perf_counter()
        late = [n for n, worker in self._staff.items() if worker.held and now - worker.began > self.time_limit]
        for number in late:
            yield from self._blame(number, Failure("timeout", f"took longer than {self.time_limit:g} s"), lives=1)

    def _patience(self) -> float:
        began = min((worker.began for worker in self._staff.values() if worker.held), default=inf)
        return max(0.0, began + self.time_limit - perf_counter())

    def _blame(self, number: int, failure: Failure, lives: int) -> Iterator[Answer]:
        """Replace a worker. What it was at is asked again while it has lives left, and fails after that."""
        held = self._staff[number].held
        alone = self.at_once == 1 or (bool(held) and held[0][0] in self._suspects)
        if held and not alone:
            self._suspects.update(place for place, _ in list(held)[: self.at_once])
        elif held:
            place, requests = held.popleft()
            self._strikes[place] += 1
            if self._strikes[place] < lives:
                self._again.append((place, requests))
            else:
                yield place, [Record(request, error=failure) for request in requests]
        self._again.extend(held)
        self._dismiss(number)
        self._fill()

    # -------------------------------------------------------------------------------------------------------- staff

    def _hire(self, slot: int) -> None:
        number = next(self._numbers)
        self._staff[number] = _Worker(slot, deque(), perf_counter())
        self.crew.hire(number, slot)

    def _dismiss(self, number: int) -> None:
        worker = self._staff.pop(number)
        self._costs[worker.slot].alive += perf_counter() - worker.hired
        self.crew.dismiss(number)

    def _fill(self) -> None:
        """Somebody for every slot."""
        taken = {worker.slot for worker in self._staff.values()}
        for slot in set(range(self.workers)) - taken:
            self._hire(slot)

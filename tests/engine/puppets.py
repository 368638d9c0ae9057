"""A crew without processes: what becomes of a worker or a question is written in a script, and time is a number."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from untrained import Arch, Record, Task
from untrained.engine._pool import Answered, Died, Event, Ready, Refused
from untrained.engine.measure import Requests
from untrained.types import ScoreRequest

TASK = Task("noise", (3, 8, 8), 4)
DEATH, WORDS = "its worker was killed by SIGKILL", "Fatal Python error"


def question(number: int) -> list[ScoreRequest]:
    """Two requests about architecture `number`."""
    arch = Arch("toy", (("number", number),))
    return [ScoreRequest(arch, measure, TASK, 0) for measure in ("one@1", "two@1")]


def number_of(requests: Requests) -> int:
    return int(requests[0].arch["number"])


def answer(requests: Requests, seconds: float = 0.0) -> list[Record]:
    """The number of the architecture, from both proxies, each of which took half of the time."""
    value = float(number_of(requests))
    return [Record(b, value, build_seconds=seconds / 4, measure_seconds=seconds / 4) for b in requests]


@dataclass
class Puppets:
    """A Crew. `fates[number]` says what becomes of the first, second, ... worker that takes up that question: `answer`
    (the rule), `die`, `hang` or `refuse`; `births` the same for workers in the order of hiring: `ready` (the rule),
    `die` or `refuse`. Each answer takes `seconds`. Whose turn it is, `chance` decides."""

    fates: dict[int, list[str]] = field(default_factory=dict)
    births: list[str] = field(default_factory=list)
    seconds: Callable[[int], float] = lambda number: 0.001
    chance: Random = field(default_factory=lambda: Random(0))
    prompt: bool = False  # everybody who can says something whenever the pool listens
    name: str = "puppet"
    now: float = 1000.0
    slots: dict[int, int] = field(default_factory=dict)
    desks: dict[int, deque[Requests]] = field(default_factory=dict)
    opening: dict[int, str] = field(default_factory=dict)
    hanging: set[int] = field(default_factory=set)
    taken: list[tuple[int, int]] = field(default_factory=list)  # (question, worker), as they were taken up
    given: list[tuple[int, int]] = field(default_factory=list)  # (worker, how many it then held)
    dismissed: list[int] = field(default_factory=list)
    late: deque[Event] = field(default_factory=deque)  # what is still on its way from people who are gone
    closed: bool = False

    def hire(self, worker: int, slot: int) -> None:
        assert worker not in self.slots, "a number is given once"
        assert slot not in [self.slots[w] for w in self.desks], "one worker a slot"
        self.slots[worker], self.desks[worker] = slot, deque()
        self.opening[worker] = self.births.pop(0) if self.births else "ready"

    def give(self, worker: int, questions: list[Requests]) -> None:
        assert worker not in self.opening, "nothing is given to who is not ready"
        self.desks[worker].extend(questions)
        self.given.append((worker, len(self.desks[worker])))

    def events(self, timeout: float) -> Iterable[Event]:
        """Some of what can happen now; where nothing can, time passes."""
        able = [w for w in self.desks if w in self.opening or (self.desks[w] and w not in self.hanging)]
        if not able and not self.late:
            assert timeout < 100, "nothing will ever happen"
            self.now += max(timeout, 0.001)  # looking at the clock takes a moment
            return []
        found = [self.late.popleft()] if self.late else []
        some = len(able) if self.prompt else self.chance.randint(min(1, len(able)), len(able))
        for worker in self.chance.sample(able, some):
            found += [self._born(worker)] if worker in self.opening else self._work(worker)
        return found

    def dismiss(self, worker: int) -> None:
        del self.desks[worker]
        self.opening.pop(worker, None)
        self.dismissed.append(worker)

    def close(self) -> None:
        assert not self.desks, "everybody is dismissed before"
        self.closed = True

    def _born(self, worker: int) -> Event:
        match self.opening.pop(worker):
            case "ready":
                return Ready(worker)
            case "refuse":
                return Refused(worker, "no space is called 'toy'")
        return self._dies(worker)

    def _work(self, worker: int) -> list[Event]:
        requests = self.desks[worker][0]
        fates = self.fates.get(number_of(requests), [])
        self.taken.append((number_of(requests), worker))
        match fates.pop(0) if fates else "answer":
            case "hang":
                self.hanging.add(worker)
                return []
            case "die":
                return [self._dies(worker)]
            case "refuse":
                return [Refused(worker, "no variant is called 'fast'")]
        self.desks[worker].popleft()
        seconds = self.seconds(number_of(requests))
        self.now += seconds
        return [Answered(worker, answer(requests, seconds))]

    def _dies(self, worker: int) -> Event:
        self.hanging.add(worker)  # it does nothing any more
        return Died(worker, DEATH, WORDS)

    def times_taken(self) -> Counter[int]:
        return Counter(number for number, _ in self.taken)

"""A worker backend without processes: a script decides what happens, and time is a number."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from untrained import Arch, Record, Task
from untrained.engine.executors.backend import (
    WorkerDied,
    WorkerEvent,
    WorkerReady,
    WorkerRefused,
    WorkerScored,
)
from untrained.engine.worker import RequestGroup
from untrained.types import ScoreRequest

TASK = Task("noise", (3, 8, 8), 4)
DEATH_REASON = "its worker was killed by SIGKILL"
DEATH_OUTPUT = "Fatal Python error"


def make_group(number: int) -> list[ScoreRequest]:
    """Return two requests about architecture `number`."""
    arch = Arch("toy", (("number", number),))
    return [ScoreRequest(arch, measure, TASK, 0) for measure in ("one@1", "two@1")]


def get_number(requests: RequestGroup) -> int:
    """Return the number of the architecture that requests are about."""
    return int(requests[0].arch["number"])


def make_records(requests: RequestGroup, seconds: float = 0.0) -> list[Record]:
    """Return records with the number of the architecture as value; each took half of the time."""
    value = float(get_number(requests))
    records = []
    for request in requests:
        record = Record(request, value, build_seconds=seconds / 4, measure_seconds=seconds / 4)
        records.append(record)
    return records


@dataclass
class ScriptedBackend:
    """A worker backend that follows a script.

    Attributes:
        actions: By number of an architecture, what the first, second, ... worker does that begins
            with it: `score` (the default), `die`, `hang` or `refuse`.
        starts: What happens to workers in the order in which they start: `ready` (the default),
            `die` or `refuse`.
        seconds: Time to score an architecture.
        random: Decides which workers report an event.
        prompt: Whether all workers that can report an event do so at once.
        now: The time.
        slots: The slot of every worker that was ever started.
        queues: Groups of every running worker.
        starting: Workers that are not ready yet, with what will happen to them.
        silent: Workers that hang or are dead.
        begun: Architecture and worker, in the order in which workers began with them.
        queue_lengths: Worker and length of its queue, whenever groups were sent.
        stopped: Workers that the pool has stopped.
        late_events: Events that are reported although their worker was stopped.
        closed: Whether the backend was closed.
    """

    actions: dict[int, list[str]] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)
    seconds: Callable[[int], float] = lambda number: 0.001
    random: Random = field(default_factory=lambda: Random(0))
    prompt: bool = False
    name: str = "scripted worker"
    now: float = 1000.0
    slots: dict[int, int] = field(default_factory=dict)
    queues: dict[int, deque[RequestGroup]] = field(default_factory=dict)
    starting: dict[int, str] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    begun: list[tuple[int, int]] = field(default_factory=list)
    queue_lengths: list[tuple[int, int]] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)
    late_events: deque[WorkerEvent] = field(default_factory=deque)
    closed: bool = False

    def start_worker(self, worker: int, slot: int) -> None:
        assert worker not in self.slots, "the number of a worker is used once"
        used_slots = [self.slots[running] for running in self.queues]
        assert slot not in used_slots, "there is one worker per slot"
        self.slots[worker] = slot
        self.queues[worker] = deque()
        self.starting[worker] = self.starts.pop(0) if self.starts else "ready"

    def send_groups(self, worker: int, groups: list[RequestGroup]) -> None:
        assert worker not in self.starting, "nothing is sent to a worker that is not ready"
        self.queues[worker].extend(groups)
        self.queue_lengths.append((worker, len(self.queues[worker])))

    def wait_for_events(self, timeout: float) -> Iterable[WorkerEvent]:
        """Return some of the events that can happen now; if none can, time passes."""
        able = []
        for worker, queue in self.queues.items():
            if worker in self.starting or (queue and worker not in self.silent):
                able.append(worker)
        if not able and not self.late_events:
            assert timeout < 100, "nothing will ever happen"
            self.now += max(timeout, 0.001)  # checking the clock takes a moment
            return []
        events: list[WorkerEvent] = []
        if self.late_events:
            events.append(self.late_events.popleft())
        count = len(able)
        if not self.prompt:
            count = self.random.randint(min(1, len(able)), len(able))
        for worker in self.random.sample(able, count):
            if worker in self.starting:
                events.append(self._finish_start(worker))
            else:
                events += self._process_first_group(worker)
        return events

    def stop_worker(self, worker: int) -> None:
        del self.queues[worker]
        self.starting.pop(worker, None)
        self.stopped.append(worker)

    def close(self) -> None:
        assert not self.queues, "all workers are stopped before"
        self.closed = True

    def count_begun(self) -> Counter[int]:
        """Return how often a worker began with each architecture."""
        return Counter(number for number, _ in self.begun)

    def _finish_start(self, worker: int) -> WorkerEvent:
        match self.starting.pop(worker):
            case "ready":
                return WorkerReady(worker)
            case "refuse":
                return WorkerRefused(worker, "no space is called 'toy'")
        return self._die(worker)

    def _process_first_group(self, worker: int) -> list[WorkerEvent]:
        requests = self.queues[worker][0]
        number = get_number(requests)
        self.begun.append((number, worker))
        actions = self.actions.get(number, [])
        match actions.pop(0) if actions else "score":
            case "hang":
                self.silent.add(worker)
                return []
            case "die":
                return [self._die(worker)]
            case "refuse":
                return [WorkerRefused(worker, "no variant is called 'fast'")]
        self.queues[worker].popleft()
        seconds = self.seconds(number)
        self.now += seconds
        return [WorkerScored(worker, make_records(requests, seconds))]

    def _die(self, worker: int) -> WorkerEvent:
        self.silent.add(worker)
        return WorkerDied(worker, DEATH_REASON, DEATH_OUTPUT)

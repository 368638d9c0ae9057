"""The pool keeps workers busy and replaces those that die.

A `WorkerBackend` starts and stops the workers, which are processes or Ray actors.

A worker scores its queue in order, so a worker that dies was working on the first group of its
queue. That group is sent once more; a group that kills two workers is recorded as `crashed`. The
rest of the queue goes to other workers. If a worker measures several networks in one pass, any of
them may have killed it. They become suspects, and each is sent again in its own pass, which
shows which one kills its worker.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import count
from math import ceil, inf
from time import perf_counter

from untrained.engine.executors.backend import (
    WorkerBackend,
    WorkerDied,
    WorkerEvent,
    WorkerReady,
    WorkerRefused,
    WorkerScored,
)
from untrained.engine.executors.base import IndexedRecords, WorkerCost
from untrained.engine.worker import RequestGroup
from untrained.errors import UsageError
from untrained.types import Failure, Record

# Seconds of work in the queue of a worker, so that it does not wait for the next group.
SECONDS_AHEAD = 0.2
# Largest number of groups in the queue of a worker.
MAX_QUEUED = 64
# A group that kills this many workers is recorded as a failure.
MAX_CRASHES = 2
# The run ends if this many workers in a row die before they are ready.
MAX_FAILED_STARTS = 3
# Longest time in seconds between two checks of the time limit.
MAX_CHECK_INTERVAL = 1.0


@dataclass(frozen=True)
class _QueuedGroup:
    """A request group and its index among the groups of `map`."""

    index: int
    requests: RequestGroup


@dataclass
class _WorkerState:
    """State of a worker.

    Attributes:
        slot: Its position among the workers. A worker that dies is replaced in the same slot.
        start_time: When it was started.
        queue: Groups that were sent and not answered yet.
        is_ready: Whether it has opened its setup.
        busy_since: When it began with the first group of its queue.
    """

    slot: int
    start_time: float
    queue: deque[_QueuedGroup] = field(default_factory=deque)
    is_ready: bool = False
    busy_since: float = 0.0


class PoolExecutor:
    """Runs workers of any backend. They are started once and replaced when they die.

    Args:
        backend: Starts and stops workers.
        workers: Number of workers.
        time_limit: Longest time in seconds for one group.
        networks_per_batch: Number of networks that a worker measures in one pass.
    """

    def __init__(
        self,
        backend: WorkerBackend,
        workers: int,
        time_limit: float | None = None,
        networks_per_batch: int = 1,
    ) -> None:
        self.backend = backend
        self.workers = workers
        self.time_limit = time_limit or inf
        self.networks_per_batch = networks_per_batch
        self._worker_numbers = count()
        self._states: dict[int, _WorkerState] = {}
        self._failed_starts = 0
        self._costs = []
        for slot in range(workers):
            self._costs.append(WorkerCost(f"{backend.name} {slot + 1}"))
        self._reset(())
        try:
            self._start_missing_workers()
        except BaseException:
            # The caller gets no executor to close.
            self.close()
            raise

    def map(self, groups: Iterable[RequestGroup]) -> Iterator[IndexedRecords]:
        """Score groups and yield their records in the order in which they arrive.

        Groups are taken from the iterable when a worker needs them. If the caller stops early,
        workers that are still busy are stopped.

        Raises:
            UsageError: A worker refused the setup, or no worker can be started.
        """
        self._start_missing_workers()
        self._reset(groups)
        try:
            self._send_groups()
            while self._has_unfinished_groups():
                # All events are handled before records are yielded, because the caller may take
                # a long time with the records, or may stop.
                results: list[IndexedRecords] = []
                timeout = min(MAX_CHECK_INTERVAL, self._compute_seconds_left())
                for event in self.backend.wait_for_events(timeout):
                    # Events of a worker that was stopped may still arrive.
                    if event.worker in self._states:
                        results += self._handle_event(event)
                results += self._replace_late_workers()
                yield from results
                self._send_groups()
        finally:
            # The records of groups that are still in a queue would not be read.
            for worker, state in list(self._states.items()):
                if state.queue:
                    self._stop_worker(worker)

    def costs(self) -> list[WorkerCost]:
        """Return the cost of the workers of each slot so far."""
        now = perf_counter()
        costs = [replace(cost) for cost in self._costs]
        for state in self._states.values():
            costs[state.slot].alive += now - state.start_time
        return costs

    def close(self) -> None:
        """Stop all workers."""
        for worker in list(self._states):
            self._stop_worker(worker)
        self.backend.close()

    def _reset(self, groups: Iterable[RequestGroup]) -> None:
        """Prepare for the groups of a new call of `map`."""
        self._new_groups = enumerate(groups)
        self._returned_groups: deque[_QueuedGroup] = deque()  # from workers that died
        self._crash_counts: Counter[int] = Counter()  # by index of the group
        self._suspects: set[int] = set()  # indices of groups that need a pass of their own
        self._portion_size = self.networks_per_batch  # a worker is sent multiples of it
        if isinstance(groups, Sized):
            # If there are few groups, portions are smaller, so that all workers get some.
            fair_size = ceil(len(groups) / (2 * self.workers))
            self._portion_size = max(1, min(self.networks_per_batch, fair_size))

    # ---------------------------------------------------------------------------- sending groups

    def _send_groups(self) -> None:
        """Fill the queues of workers."""
        for worker, state in self._states.items():
            limit = self._compute_queue_limit()
            if not state.is_ready or len(state.queue) > limit // 2:
                continue
            # Only whole portions are sent, because a smaller portion would make a smaller pass.
            portions = (limit - len(state.queue)) // self._portion_size
            groups = self._take_groups(portions * self._portion_size)
            if not groups:
                continue
            if not state.queue:
                state.busy_since = perf_counter()
            state.queue.extend(groups)
            for message in self._separate_suspects(groups):
                self.backend.send_groups(worker, [queued.requests for queued in message])

    def _has_unfinished_groups(self) -> bool:
        """Return whether there are groups without records."""
        if any(state.queue for state in self._states.values()):
            return True
        # No worker is busy. Either all groups are done, or no worker is ready yet. To find out,
        # take a group and put it back.
        next_group = self._take_groups(1)
        self._returned_groups.extendleft(next_group)
        return bool(next_group)

    def _take_groups(self, max_count: int) -> list[_QueuedGroup]:
        """Return up to `max_count` groups, those of dead workers first."""
        groups: list[_QueuedGroup] = []
        while len(groups) < max_count:
            if self._returned_groups:
                groups.append(self._returned_groups.popleft())
                continue
            indexed_group = next(self._new_groups, None)
            if indexed_group is None:
                break
            groups.append(_QueuedGroup(*indexed_group))
        return groups

    def _separate_suspects(self, groups: Sequence[_QueuedGroup]) -> list[list[_QueuedGroup]]:
        """Split groups into messages such that every suspect is alone in its message.

        A worker never measures groups of different messages in one pass.
        """
        messages: list[list[_QueuedGroup]] = []
        can_extend_last = False
        for queued in groups:
            is_suspect = queued.index in self._suspects
            if can_extend_last and not is_suspect:
                messages[-1].append(queued)
            else:
                messages.append([queued])
            can_extend_last = not is_suspect
        return messages

    def _compute_queue_limit(self) -> int:
        """Return how many groups a worker may have: those that it measures, and some in reserve."""
        if self.networks_per_batch > 1:
            return 2 * self._portion_size
        networks = sum(cost.networks for cost in self._costs)
        busy_seconds = sum(cost.build + cost.transfer + cost.measure for cost in self._costs)
        if not networks or not busy_seconds:
            return 1
        reserve = ceil(SECONDS_AHEAD * networks / busy_seconds)
        return min(MAX_QUEUED, 1 + reserve)

    # --------------------------------------------------------------------------- handling events

    def _handle_event(self, event: WorkerEvent) -> list[IndexedRecords]:
        """Update the state of a worker, and return the records that the event carries."""
        state = self._states[event.worker]
        match event:
            case WorkerReady():
                state.is_ready = True
                self._failed_starts = 0
            case WorkerScored(records=records):
                queued = state.queue.popleft()
                state.busy_since = perf_counter()
                self._costs[state.slot].add_network(records)
                return [(queued.index, records)]
            case WorkerRefused(message=message):
                raise UsageError(message)
            case WorkerDied():
                return self._handle_death(event, state)
        return []

    def _handle_death(self, event: WorkerDied, state: _WorkerState) -> list[IndexedRecords]:
        """Replace a worker that died.

        Returns:
            The records of the group that it was working on, if that group is not sent again.

        Raises:
            UsageError: Too many workers in a row died before they were ready.
        """
        self._costs[state.slot].deaths += 1
        if not state.is_ready:
            self._failed_starts += 1
        if self._failed_starts >= MAX_FAILED_STARTS:
            message = f"no worker can be started: {event.reason}"
            if event.output:
                message += f"; its output: {event.output}"
            raise UsageError(message)
        failure = Failure("crashed", event.reason, event.output)
        return self._replace_worker(event.worker, failure, MAX_CRASHES)

    def _replace_late_workers(self) -> list[IndexedRecords]:
        """Replace workers that exceed the time limit, and return the failures of their groups."""
        now = perf_counter()
        late_workers = []
        for worker, state in self._states.items():
            if state.queue and now - state.busy_since > self.time_limit:
                late_workers.append(worker)
        results: list[IndexedRecords] = []
        for worker in late_workers:
            failure = Failure("timeout", f"took longer than {self.time_limit:g} s")
            # The group would be just as slow again, so it is not sent a second time.
            results += self._replace_worker(worker, failure, 1)
        return results

    def _compute_seconds_left(self) -> float:
        """Return the time until the first worker exceeds the time limit."""
        earliest = inf
        for state in self._states.values():
            if state.queue:
                earliest = min(earliest, state.busy_since)
        return max(0.0, earliest + self.time_limit - perf_counter())

    def _replace_worker(
        self, worker: int, failure: Failure, max_crashes: int
    ) -> list[IndexedRecords]:
        """Replace a worker and return its queue to the pool.

        Args:
            worker: The worker that died or was too slow.
            failure: The failure of the group that it was working on.
            max_crashes: The group is sent again until this many workers were replaced because of
                it. Then it is recorded as a failure.

        Returns:
            The records of the group, which hold the failure, if the group is not sent again.
        """
        results: list[IndexedRecords] = []
        queue = self._states[worker].queue
        if queue:
            first = queue[0]
            was_alone_in_pass = self.networks_per_batch == 1 or first.index in self._suspects
            if was_alone_in_pass:
                queue.popleft()
                results = self._resend_or_record(first, failure, max_crashes)
            else:
                # Any network of the pass may be responsible.
                groups_in_pass = list(queue)[: self.networks_per_batch]
                self._suspects.update(queued.index for queued in groups_in_pass)
        self._returned_groups.extend(queue)
        self._stop_worker(worker)
        self._start_missing_workers()
        return results

    def _resend_or_record(
        self, queued: _QueuedGroup, failure: Failure, max_crashes: int
    ) -> list[IndexedRecords]:
        """Return a group to the pool, or the records of its failure after too many crashes."""
        self._crash_counts[queued.index] += 1
        if self._crash_counts[queued.index] < max_crashes:
            self._returned_groups.append(queued)
            return []
        records = [Record(request, error=failure) for request in queued.requests]
        return [(queued.index, records)]

    # -------------------------------------------------------------- starting and stopping workers

    def _start_missing_workers(self) -> None:
        """Start a worker in every slot that has none."""
        used_slots = {state.slot for state in self._states.values()}
        for slot in range(self.workers):
            if slot not in used_slots:
                worker = next(self._worker_numbers)
                start_time = perf_counter()
                self.backend.start_worker(worker, slot)
                self._states[worker] = _WorkerState(slot, start_time)

    def _stop_worker(self, worker: int) -> None:
        state = self._states.pop(worker)
        self._costs[state.slot].alive += perf_counter() - state.start_time
        self.backend.stop_worker(worker)

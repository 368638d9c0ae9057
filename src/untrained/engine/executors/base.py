"""The interface of executors, and the executor that works in this process.

All executors return equal records; only the order of arrival and the cost differ. `InlineExecutor`
is the specification of the others: they must return the records that it returns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from time import perf_counter
from typing import Protocol

import torch

from untrained.engine.threads import use_threads
from untrained.engine.worker import RequestGroup, Worker
from untrained.types import Record

# The index of a request group and the records that answer it.
IndexedRecords = tuple[int, list[Record]]


@dataclass
class WorkerCost:
    """How one worker spent its time.

    Attributes:
        worker: Name of the worker.
        networks: Number of networks that it scored.
        build: Seconds for building networks.
        transfer: Seconds for moving networks and samples to the device.
        measure: Seconds for measuring.
        alive: Seconds between its start and its end, or until now. For the inline executor: only
            the time of scoring.
        deaths: How often its process died and was replaced.
        batched_networks: Number of networks that were measured in one pass with others.
    """

    worker: str
    networks: int = 0
    build: float = 0.0
    transfer: float = 0.0
    measure: float = 0.0
    alive: float = 0.0
    deaths: int = 0
    batched_networks: int = 0

    @property
    def idle(self) -> float:
        """Seconds for starting, waiting for requests and sending records."""
        return max(0.0, self.alive - self.build - self.transfer - self.measure)

    def add_network(self, records: Sequence[Record]) -> None:
        """Add the cost of one network."""
        self.networks += 1
        if any(record.networks_in_batch > 1 for record in records):
            self.batched_networks += 1
        for record in records:
            self.build += record.build_seconds
            self.transfer += record.transfer_seconds
            self.measure += record.measure_seconds

    def row(self) -> dict[str, object]:
        """Return the cost as it is written to `run.json`."""
        row = asdict(self)
        # The key in `run.json` is older than the name of the attribute.
        row["batched"] = row.pop("batched_networks")
        row["idle"] = self.idle
        return row


class Executor(Protocol):
    """Sends request groups to workers."""

    @property
    def workers(self) -> int:
        """Number of workers."""
        ...

    def map(self, groups: Iterable[RequestGroup]) -> Iterator[IndexedRecords]:
        """Yield the index of each group with its records, in the order in which they arrive."""
        ...

    def costs(self) -> list[WorkerCost]:
        """Return the cost of each worker so far."""
        ...

    def close(self) -> None:
        """Stop all workers."""
        ...


@dataclass
class InlineExecutor:
    """Scores networks in this process, without other workers.

    Attributes:
        worker: Scores the networks.
        single_thread: Whether to compute with one thread, as worker processes do. Records are then
            equal bit for bit, whatever the executor.
        workers: Number of workers.
        cost: Cost of the worker so far.
    """

    worker: Worker
    single_thread: bool = True
    workers: int = 1
    cost: WorkerCost = field(default_factory=lambda: WorkerCost("this process"))

    def map(self, groups: Iterable[RequestGroup]) -> Iterator[IndexedRecords]:
        """Score groups in order."""
        indexed_groups = enumerate(groups)
        while portion := list(islice(indexed_groups, self.worker.networks_per_batch)):
            results = self.worker.score_groups([requests for _, requests in portion])
            for index, _ in portion:
                start = perf_counter()
                with use_threads(self._get_thread_count()):
                    records = next(results)
                self.cost.add_network(records)
                self.cost.alive += perf_counter() - start
                yield index, records

    def costs(self) -> list[WorkerCost]:
        """Return the cost of this process."""
        return [self.cost]

    def close(self) -> None:
        """Do nothing, because no process was started."""

    def _get_thread_count(self) -> int:
        if self.single_thread:
            return 1
        return torch.get_num_threads()


@dataclass
class LazyExecutor:
    """Opens an executor at the first request.

    A run whose records are all in the store therefore needs neither workers nor the device.

    Attributes:
        open_executor: Opens the executor.
        executor: The executor; None before the first request.
    """

    open_executor: Callable[[], Executor]
    executor: Executor | None = None

    @property
    def workers(self) -> int:
        """Number of workers; 0 before the first request."""
        if self.executor is None:
            return 0
        return self.executor.workers

    def map(self, groups: Iterable[RequestGroup]) -> Iterator[IndexedRecords]:
        """Open the executor if necessary, and send the groups to it."""
        if self.executor is None:
            self.executor = self.open_executor()
        return self.executor.map(groups)

    def costs(self) -> list[WorkerCost]:
        """Return the cost of each worker so far."""
        if self.executor is None:
            return []
        return self.executor.costs()

    def close(self) -> None:
        """Close the executor if it was opened."""
        if self.executor is not None:
            self.executor.close()

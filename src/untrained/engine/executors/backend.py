"""The interface between the pool and its workers: start, send requests, wait for events, stop."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from untrained.engine.worker import RequestGroup
from untrained.types import Record


@dataclass(frozen=True)
class WorkerReady:
    """A worker is ready for requests."""

    worker: int


@dataclass(frozen=True)
class WorkerScored:
    """A worker has finished the first group of its queue."""

    worker: int
    records: list[Record]


@dataclass(frozen=True)
class WorkerRefused:
    """A worker reports a usage error, which ends the run. It is not the failure of a network."""

    worker: int
    message: str


@dataclass(frozen=True)
class WorkerDied:
    """A worker has ended unexpectedly.

    Attributes:
        worker: The worker.
        reason: One line for the record.
        output: The last lines that the worker printed.
    """

    worker: int
    reason: str
    output: str = ""


WorkerEvent = WorkerReady | WorkerScored | WorkerRefused | WorkerDied


class WorkerBackend(Protocol):
    """Workers of one kind, such as processes. Every worker has its own number."""

    name: str

    def start_worker(self, worker: int, slot: int) -> None:
        """Start a worker. `slot` determines its GPU."""
        ...

    def send_groups(self, worker: int, groups: list[RequestGroup]) -> None:
        """Add request groups to the queue of a worker."""
        ...

    def wait_for_events(self, timeout: float) -> Iterable[WorkerEvent]:
        """Wait for an event, at most `timeout` seconds, and return all events so far."""
        ...

    def stop_worker(self, worker: int) -> None:
        """Stop a worker immediately. Events that it sent before may still arrive."""
        ...

    def close(self) -> None:
        """Release what the workers shared, after all of them were stopped."""
        ...

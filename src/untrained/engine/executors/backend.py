"""What the pool needs from a kind of worker: start it, send requests, wait for events, stop it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from untrained.engine.worker import RequestGroup
from untrained.types import Record


@dataclass(frozen=True)
class WorkerReady:
    """A worker is open and waits for requests."""

    worker: int


@dataclass(frozen=True)
class WorkerScored:
    """A worker has finished the first group of its queue."""

    worker: int
    records: list[Record]


@dataclass(frozen=True)
class WorkerRefused:
    """A worker reports wrong usage, which ends the run. It is not the failure of a network."""

    worker: int
    message: str


@dataclass(frozen=True)
class WorkerDied:
    """A worker has ended without being asked to.

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
    """Workers of one kind, such as processes. A worker is a number that is never used again."""

    name: str

    def start_worker(self, worker: int, slot: int) -> None:
        """Start a worker. `slot` decides which GPU it uses."""
        ...

    def send_groups(self, worker: int, groups: list[RequestGroup]) -> None:
        """Add request groups to the queue of a worker."""
        ...

    def wait_for_events(self, timeout: float) -> Iterable[WorkerEvent]:
        """Wait until something happens, at most `timeout` seconds, and return what happened."""
        ...

    def stop_worker(self, worker: int) -> None:
        """Stop a worker at once. Events of it may still arrive."""
        ...

    def close(self) -> None:
        """Release what the workers shared, after all of them were stopped."""
        ...

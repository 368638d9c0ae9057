"""Who does the work. An executor answers questions; all give equal records, only the order of arrival and the cost
differ. `Inline` does it here and is the specification."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from time import perf_counter
from typing import Any, Protocol

import torch

from untrained.engine.measure import Examiner, Requests
from untrained.types import Record

Answer = tuple[int, list[Record]]  # the place of the question, and its records


@dataclass
class Cost:
    """What one worker did with its time, in seconds."""

    worker: str
    networks: int = 0
    build: float = 0.0
    transfer: float = 0.0
    measure: float = 0.0
    alive: float = 0.0  # from being hired to being dismissed
    deaths: int = 0
    batched: int = 0  # networks that were looked at together with others

    @property
    def idle(self) -> float:
        """Starting, waiting for questions, sending answers."""
        return max(0.0, self.alive - self.build - self.transfer - self.measure)

    def charge(self, records: Sequence[Record]) -> None:
        self.networks += 1
        self.batched += any(record.together > 1 for record in records)
        for record in records:
            self.build += record.build_seconds
            self.transfer += record.transfer_seconds
            self.measure += record.measure_seconds

    def row(self) -> dict[str, Any]:
        return asdict(self) | {"idle": self.idle}


class Executor(Protocol):
    """`map` answers questions in the order in which answers come; `costs` says what each worker has done so far."""

    @property
    def workers(self) -> int: ...

    def map(self, questions: Iterable[Requests]) -> Iterator[Answer]: ...

    def costs(self) -> list[Cost]: ...

    def close(self) -> None: ...


@dataclass
class Inline:
    """One question after the other, in this process."""

    examiner: Examiner
    alike: bool = True  # count with one thread, as every worker does, so that records are equal bit by bit
    workers: int = 1
    cost: Cost = field(default_factory=lambda: Cost("this process"))

    def map(self, questions: Iterable[Requests]) -> Iterator[Answer]:
        asked = enumerate(questions)
        while portion := list(islice(asked, self.examiner.population)):
            answers = self.examiner.answers([requests for _, requests in portion])
            for place, _ in portion:
                start = perf_counter()
                with threads(1 if self.alike else torch.get_num_threads()):
                    records = next(answers)
                self.cost.charge(records)
                self.cost.alive += perf_counter() - start
                yield place, records

    def costs(self) -> list[Cost]:
        return [self.cost]

    def close(self) -> None:
        """Nothing was started."""


@dataclass
class OnCall:
    """Nobody, until there is a question: who finds all answers in a store needs no workers and no device."""

    hire: Callable[[], Executor]
    staff: Executor | None = None

    @property
    def workers(self) -> int:
        return self.staff.workers if self.staff else 0

    def map(self, questions: Iterable[Requests]) -> Iterator[Answer]:
        self.staff = self.staff or self.hire()
        return self.staff.map(questions)

    def costs(self) -> list[Cost]:
        return self.staff.costs() if self.staff else []

    def close(self) -> None:
        if self.staff:
            self.staff.close()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Inside, the CPU counts with so many threads. How many there are decides the order of sums, and so last digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

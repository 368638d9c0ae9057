"""What a strategy is: two methods. It knows nothing of networks, data or devices, and depends only on its seed and on
what it was told, so that a search resumes by asking again and reading the answers from the store.

A strategy is made by `STRATEGIES[name](space, rng, fitness, **options)`. Its `needs` name options that it cannot do
without: `source` (samples to look at), `judge` (an Evaluator of its own, for a pool), `by` (what ranks that pool),
`beside` (more objectives). One that works hard itself takes `notes`, and writes its steps down. It may say more:
`usual`, how many architectures it asks for where nobody says how many; `portion`, how many at a time where asking is
dear; `trace`, what it believed, a list of plain frozen dataclasses; `belief()`, what it believes of a square of numbers
in the end, one of them or None.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from untrained.errors import unknown
from untrained.registry import Registry
from untrained.types import Arch, Record

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
P = TypeVar("P", bound="DataclassInstance")
Fitness = Callable[[Sequence[Record]], float | None]  # of one architecture's records: higher is better, None: failed
Judge = Callable[[Sequence[Arch]], Iterable[list[Record]]]  # the records of one architecture after the other
_PATIENCE = 1000  # samples without anything new before a space counts as exhausted
_SMALL, _LUCK = 100_000, 50  # a space that can be listed is listed after fewer of them
_NEAR = 100  # and mutations, before all around a parent counts as known


class SpaceLike(Protocol):
    """What a strategy wants of a space: `Space` itself, or `Feasible`, which keeps to limits."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int | None: ...

    def sample(self, rng: np.random.Generator) -> Arch: ...

    def mutate(self, arch: Arch, rng: np.random.Generator) -> Arch: ...

    def cross(self, a: Arch, b: Arch, rng: np.random.Generator) -> Arch: ...


class Strategy(Protocol):
    """Proposes architectures and hears how they fared. Nothing is proposed twice."""

    needs: ClassVar[tuple[str, ...]]

    def ask(self, n: int) -> list[Arch]:
        """At most n new architectures; none when the space is exhausted or the strategy has ended, nor as long as it
        must hear of others first."""
        ...

    def tell(self, records: Sequence[Record]) -> None:
        """The records of architectures that were asked for, all records of an architecture at once."""
        ...


STRATEGIES: Registry[type[Any]] = Registry("strategy")  # of classes that are a Strategy


def plan_of(strategy: str, presets: Mapping[str, P], preset: str, said: Mapping[str, Any]) -> P:
    """The plan of a preset, in which what was said is otherwise."""
    if preset not in presets:
        raise unknown(f"preset of {strategy}", preset, filter(None, presets))
    known = [field.name for field in fields(presets[preset])]
    if wrong := next((name for name in said if name not in known), None):
        raise unknown(f"option of {strategy}", wrong, known)
    return replace(presets[preset], **said)


class Unseen:
    """Remembers what was proposed, and finds what was not."""

    def __init__(self, space: SpaceLike) -> None:
        self._space = space
        self._seen: set[Arch] = set()
        self._in_vain = 0  # samples since the last that was new
        self._rest: Iterator[Arch] | None = None  # the last of a small space: to meet each by chance takes too long

    def samples(self, n: int, rng: np.random.Generator) -> list[Arch]:
        """Up to n new architectures at random, fewer where the space has no more. Whoever asks for them one by one
        gets the same."""
        found: list[Arch] = []
        while len(found) < n and len(self._seen) != self._space.size and self._in_vain < _PATIENCE:
            if self._rest is None and self._in_vain >= _LUCK and self._can_be_listed():
                left = [arch for arch in self._space if arch not in self._seen]  # type: ignore[attr-defined]
                self._rest = iter([left[i] for i in rng.permutation(len(left))])
            arch = next(self._rest or iter(()), None) or self._space.sample(rng)
            self._in_vain = 0 if self.add(arch) else self._in_vain + 1
            found += [] if self._in_vain else [arch]
        return found

    def _can_be_listed(self) -> bool:
        return isinstance(self._space, Iterable) and self._space.size is not None and self._space.size <= _SMALL

    def children(self, n: int, child: Callable[[], Arch]) -> list[Arch]:
        """Up to n new architectures from `child`, fewer where it finds no more."""
        found: list[Arch] = []
        in_vain = 0
        while len(found) < n and in_vain < _NEAR and len(self._seen) != self._space.size:
            arch = child()
            in_vain = 0 if self.add(arch) else in_vain + 1
            found += [] if in_vain else [arch]
        return found

    def add(self, arch: Arch) -> bool:
        """Whether the architecture is new; from now on it is not."""
        before = len(self._seen)
        self._seen.add(arch)
        return len(self._seen) > before


def by_arch(records: Iterable[Record]) -> dict[Arch, list[Record]]:
    """Records by architecture, in the order of their first."""
    found: dict[Arch, list[Record]] = {}
    for record in records:
        found.setdefault(record.arch, []).append(record)
    return found


class Generations(ABC, Generic[T]):
    """A strategy that proposes a generation, hears of all of it, learns, and proposes the next.

    A generation is handed out in portions, and learned from in the order in which it was proposed: so nothing depends
    on how many are asked for at a time, nor on the order of the answers. `value` is what a subclass learns of one
    architecture's records; what failed is never learned from.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, space: SpaceLike, rng: np.random.Generator, value: Callable[[Sequence[Record]], T | None]
    ) -> None:
        self.space, self.rng, self.value = space, rng, value
        self.unseen = Unseen(space)
        self._waiting: list[Arch] = []  # of this generation: not handed out yet
        self._answers: dict[Arch, list[Record] | None] = {}  # of this generation: what was told, None before

    def ask(self, n: int) -> list[Arch]:
        if not self._answers:
            self._waiting = self.propose()
            self._answers = dict.fromkeys(self._waiting)
        handed, self._waiting = self._waiting[:n], self._waiting[n:]
        return handed

    def tell(self, records: Sequence[Record]) -> None:
        for arch, found in by_arch(records).items():
            if arch in self._answers:
                self._answers[arch] = found
        told = {arch: found for arch, found in self._answers.items() if found is not None}
        if told and len(told) == len(self._answers):
            self._answers = {}
            values = {arch: self.value(found) for arch, found in told.items()}
            self.learn({arch: value for arch, value in values.items() if value is not None})

    @abstractmethod
    def propose(self) -> list[Arch]:
        """The next generation, of new architectures; empty at the end."""

    @abstractmethod
    def learn(self, found: dict[Arch, T]) -> None:
        """The values of a generation, in the order of the proposal; without those that failed."""

    def samples(self, n: int) -> list[Arch]:
        """Up to n new architectures at random."""
        return self.unseen.samples(n, self.rng)

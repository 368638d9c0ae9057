"""What a strategy is: a class with two methods, `ask` and `tell`.

Most strategies need no networks, data or devices. Their proposals depend only on their random
generator and on the records that they received. An interrupted search therefore resumes by running
the strategy again from the start: the records of everything scored before are in the store.

A new strategy is a subclass of `Strategy`, decorated with `@register_strategy`. Its constructor
starts with `(space, rng, fitness)`. Further keyword arguments are options that users type in
brackets, such as `evolution(population=64)`, except for those that the search supplies
(`StrategyInputs`). A strategy that learns from scores has `fitness` without a default, or needs
`pool_fitness` (`StrategySpec.learns` reads this from the signature).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from untrained.errors import make_unknown_name_error
from untrained.registry import Registry
from untrained.types import Arch, Record

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from untrained.data import DataSource
    from untrained.runs.step_log import StepLog

Value = TypeVar("Value")
Plan = TypeVar("Plan", bound="DataclassInstance")

# Computes what a search maximises from the records of one architecture; None if it failed.
Fitness = Callable[[Sequence[Record]], float | None]
# Scores a pool and yields the records of one architecture after the other.
PoolEvaluator = Callable[[Sequence[Arch]], Iterable[list[Record]]]

# Repeated samples in a row after which a space counts as exhausted.
_MAX_REPEATED_SAMPLES = 1000
# After this many repeated samples in a row, the unseen architectures of a space are listed, if the
# space has at most `_LISTABLE_SIZE` architectures.
_REPEATED_SAMPLES_BEFORE_LISTING = 50
_LISTABLE_SIZE = 100_000
# Repeated children in a row after which the neighbourhood of a parent counts as exhausted.
_MAX_REPEATED_CHILDREN = 100


class SamplingTimeError(Exception):
    """Sampling took longer than `ConstrainedSpace.limit_sampling_time` allows."""


class SpaceLike(Protocol):
    """What a strategy needs from a space: a `Space`, or a `ConstrainedSpace` with limits."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int | None: ...

    def sample(self, rng: np.random.Generator) -> Arch: ...

    def mutate(self, arch: Arch, rng: np.random.Generator) -> Arch: ...

    def cross(self, a: Arch, b: Arch, rng: np.random.Generator) -> Arch: ...


class Strategy(ABC):
    """Proposes architectures and learns from their records. Nothing is proposed twice.

    Attributes:
        name: Public name, which users type.
        seed_name: Name from which the seed of a search derives, if it is not `name`.
        needs: Fields of `StrategyInputs` that the strategy requires.
        plan_class: Dataclass whose fields are options of the strategy, or None.
        default_budget: Number of architectures to propose if the user gives no budget, or None.
        ask_size: Number of architectures to ask for at a time, if proposing them is expensive.
        trace: One frozen dataclass per step of the strategy. The report shows them as tables.
    """

    name: ClassVar[str] = ""
    seed_name: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    plan_class: "ClassVar[type[DataclassInstance] | None]" = None
    default_budget: int | None = None
    ask_size: int | None = None
    trace: Sequence[object] = ()

    @abstractmethod
    def ask(self, n: int) -> list[Arch]:
        """Propose new architectures.

        Args:
            n: The largest number of architectures to return.

        Returns:
            New architectures. The list is empty if the space is exhausted, if the strategy has
            finished, or if the strategy still waits for records of its last proposals. A search
            passes all records to `tell` before the next `ask`, so an empty list ends the search.
        """

    @abstractmethod
    def tell(self, records: Sequence[Record]) -> None:
        """Receive records of proposed architectures, all records of an architecture at once."""

    @staticmethod
    def list_pool_proxies(options: Mapping[str, object]) -> tuple[str, ...]:
        """Return the proxies that the pool of the strategy must be scored with.

        Args:
            options: Options of the strategy.

        Returns:
            Names of proxies; empty if the user chooses the proxy.
        """
        return ()

    def predict_grid(self) -> object | None:
        """Return the final prediction of the strategy's surrogate model, for a chart in the report.

        Returns:
            A frozen dataclass, or None if the strategy has no surrogate model.
        """
        return None


@dataclass(frozen=True)
class StrategyInputs:
    """What a search can supply. A strategy gets the fields that are parameters of its constructor.

    Attributes:
        source: Where mini-batches come from.
        device: The device on which the strategy itself computes.
        step_log: Where an expensive strategy writes its steps, so that it can resume.
        score_pool: Scores a pool of architectures with proxies.
        pool_fitness: Reads the score of an architecture of the pool from its records.
        other_objectives: Further objectives (`--also`).
    """

    source: "DataSource | None" = None
    device: str = "cpu"
    step_log: "StepLog | None" = None
    score_pool: PoolEvaluator | None = None
    pool_fitness: Fitness | None = None
    other_objectives: Sequence[Fitness] = ()


STRATEGIES: Registry[type[Strategy]] = Registry("strategy")
StrategyClass = TypeVar("StrategyClass", bound=type[Strategy])


def register_strategy(strategy_class: StrategyClass) -> StrategyClass:
    """Add a strategy to the registry under its `name`."""
    STRATEGIES.add(strategy_class.name, strategy_class)
    return strategy_class


def make_plan(
    strategy: str, presets: Mapping[str, Plan], preset: str, options: Mapping[str, object]
) -> Plan:
    """Return the plan of a preset with some of its fields replaced.

    Args:
        strategy: Name of the strategy, for error messages.
        presets: Plans by name; the default plan has an empty name.
        preset: Which of them to start from.
        options: Fields to replace.

    Raises:
        UsageError: There is no such preset or no such field.
    """
    if preset not in presets:
        raise make_unknown_name_error(f"preset of {strategy}", preset, filter(None, presets))
    plan = presets[preset]
    field_names = [field.name for field in fields(plan)]
    for option in options:
        if option not in field_names:
            raise make_unknown_name_error(f"option of {strategy}", option, field_names)
    return replace(plan, **options)


class NewArchSampler:
    """Samples architectures that were not proposed before.

    Args:
        space: Where architectures come from.
    """

    def __init__(self, space: SpaceLike) -> None:
        self._space = space
        self._seen: set[Arch] = set()
        self._repeated_samples = 0  # since the last new one
        # The unseen architectures of a small space in random order. Sampling alone would take too
        # long to find the last ones.
        self._unseen: Iterator[Arch] | None = None

    def sample_new(self, n: int, rng: np.random.Generator) -> list[Arch]:
        """Sample new architectures.

        Two calls for 5 architectures return the same ones as one call for 10.

        Args:
            n: How many architectures to return.
            rng: Random generator.

        Returns:
            n new architectures, or fewer if the space has no more or the time runs out.
        """
        new_archs: list[Arch] = []
        while (
            len(new_archs) < n
            and not self._has_seen_all()
            and self._repeated_samples < _MAX_REPEATED_SAMPLES
        ):
            try:
                arch = self._sample(rng)
            except SamplingTimeError:
                break
            if self.mark_seen(arch):
                self._repeated_samples = 0
                new_archs.append(arch)
            else:
                self._repeated_samples += 1
        return new_archs

    def derive_new(self, n: int, make_child: Callable[[], Arch]) -> list[Arch]:
        """Collect new architectures from a function that makes random children.

        Args:
            n: How many architectures to return.
            make_child: Returns an architecture, which may have been proposed before.

        Returns:
            n new architectures, or fewer if the function makes only repeated ones or the time is
            over.
        """
        new_archs: list[Arch] = []
        repeated = 0
        while len(new_archs) < n and repeated < _MAX_REPEATED_CHILDREN and not self._has_seen_all():
            try:
                arch = make_child()
            except SamplingTimeError:
                break
            if self.mark_seen(arch):
                repeated = 0
                new_archs.append(arch)
            else:
                repeated += 1
        return new_archs

    def mark_seen(self, arch: Arch) -> bool:
        """Remember an architecture, and return whether it was new."""
        is_new = arch not in self._seen
        self._seen.add(arch)
        return is_new

    def _has_seen_all(self) -> bool:
        return len(self._seen) == self._space.size

    def _sample(self, rng: np.random.Generator) -> Arch:
        if self._unseen is None and self._repeated_samples >= _REPEATED_SAMPLES_BEFORE_LISTING:
            self._list_unseen(rng)
        # Some of the listed architectures may have been marked as seen since.
        for arch in self._unseen or ():
            if arch not in self._seen:
                return arch
        return self._space.sample(rng)

    def _list_unseen(self, rng: np.random.Generator) -> None:
        """List the unseen architectures in random order, if the space is small enough."""
        if not isinstance(self._space, Iterable):
            return
        if self._space.size is None or self._space.size > _LISTABLE_SIZE:
            return
        unseen = [arch for arch in self._space if arch not in self._seen]
        order = rng.permutation(len(unseen))
        self._unseen = iter([unseen[index] for index in order])


def group_by_arch(records: Iterable[Record]) -> dict[Arch, list[Record]]:
    """Return records by architecture; architectures are in the order of their first records."""
    groups: dict[Arch, list[Record]] = {}
    for record in records:
        groups.setdefault(record.arch, []).append(record)
    return groups


class GenerationStrategy(Strategy, Generic[Value]):
    """A strategy that proposes a generation, waits for all its records, learns, and repeats.

    A generation is proposed in parts, and its values are learned in the order of the proposals. The
    search therefore depends neither on the number of architectures per `ask`, nor on the order in
    which records arrive.

    Args:
        space: Where architectures come from.
        rng: Random generator.
        read_value: Computes what the subclass learns from the records of one architecture. Returns
            None if the architecture failed; such architectures are left out.
    """

    def __init__(
        self,
        space: SpaceLike,
        rng: np.random.Generator,
        read_value: Callable[[Sequence[Record]], Value | None],
    ) -> None:
        self.space = space
        self.rng = rng
        self.read_value = read_value
        self.sampler = NewArchSampler(space)
        # Members of the current generation that `ask` has not returned yet.
        self._remaining: list[Arch] = []
        # Records of all members of the current generation; None until they arrive.
        self._records: dict[Arch, list[Record] | None] = {}

    def ask(self, n: int) -> list[Arch]:
        if not self._records:
            self._remaining = self.propose()
            self._records = dict.fromkeys(self._remaining)
        archs = self._remaining[:n]
        self._remaining = self._remaining[n:]
        return archs

    def tell(self, records: Sequence[Record]) -> None:
        for arch, new_records in group_by_arch(records).items():
            if arch in self._records:
                self._records[arch] = new_records
        is_complete = all(arch_records is not None for arch_records in self._records.values())
        if not self._records or not is_complete:
            return
        values: dict[Arch, Value] = {}
        for arch, arch_records in self._records.items():
            value = self.read_value(arch_records or ())
            if value is not None:
                values[arch] = value
        self._records = {}
        self.learn(values)

    @abstractmethod
    def propose(self) -> list[Arch]:
        """Return the next generation of new architectures; empty if there is none."""

    @abstractmethod
    def learn(self, values: dict[Arch, Value]) -> None:
        """Learn from a generation.

        Args:
            values: Value by architecture, in the order of the proposal, without failures.
        """

    def sample_new(self, n: int) -> list[Arch]:
        """Sample up to n new architectures."""
        return self.sampler.sample_new(n, self.rng)

"""The limits of one search: check them, apply them to the space, compare the winner with them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from untrained.config import Limits, TrainingTimeLimit
from untrained.runs.store import Store
from untrained.seeds import make_generator
from untrained.spaces import Space
from untrained.strategies.latency_table import TableLatency
from untrained.strategies.limits import SIZE_PROPERTIES, ConstrainedSpace, NetworkSize
from untrained.strategies.max_latency import ContendersFunction, MaxLatency, RankFunction
from untrained.types import Arch, Record, ScoreRequest, Task

# How long the check before a search may take, in seconds and as a fraction of the time limit.
MAX_CHECK_SECONDS = 20.0
MAX_CHECK_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """A limit and the value of the winner.

    Attributes:
        limit: Name of the limit.
        text: The limit as the user typed it.
        rejected: Number of proposed architectures that violated it.
        value: Value of the winner; None without a winner, or if it cannot be measured.
    """

    limit: str
    text: str
    rejected: int
    value: float | None


class SearchLimits:
    """The limits of a search.

    Args:
        space: The space to search.
        task: What networks are built for.
        texts: The limits as the user typed them, by name; None for no limit.
        code: Fingerprint of the user's code that defines the space.
        latency_table: Latencies of another device, as a CSV file; None to measure on this machine.

    Attributes:
        texts: The limits that are set, as text.
        space: The architectures of the space that satisfy them.
        max_latency: Enforces the latency limit; None if there is none.

    Raises:
        UsageError: A limit or the latency table is wrong.
    """

    def __init__(
        self,
        space: Space,
        task: Task,
        texts: Mapping[str, str | None],
        code: str = "",
        latency_table: Path | None = None,
    ) -> None:
        self.texts = {name: str(text) for name, text in texts.items() if text is not None}
        self._limits = Limits.parse(**self.texts)
        self._full_space = space
        self._task = task
        # An architecture that satisfies the limits on size; None before `check`.
        self._fallback: Arch | None = None
        self.max_latency: MaxLatency | TableLatency | None = None
        max_latency = self._limits.max_latency
        if max_latency is None:
            self.space = ConstrainedSpace(space, self._limits, task)
        else:
            if latency_table is not None:
                self.max_latency = TableLatency(space, task, max_latency, latency_table)
            else:
                self.max_latency = MaxLatency(space, task, max_latency, code)
            self.space = ConstrainedSpace(
                space, self._limits, task, self.max_latency.estimate_seconds
            )

    def check(self, total_seconds: float | None = None) -> None:
        """Check that the limits can be satisfied, before anything is measured or written.

        This samples one architecture within the size limits. The latency limit is not checked,
        because measuring latency is part of the search.

        Args:
            total_seconds: The time limit of the whole search; None for no limit.

        Raises:
            UsageError: No architecture satisfies the limits, or there is no such device.
        """
        if isinstance(self.max_latency, MaxLatency):
            self.max_latency.check_device()
        size_space = self.make_size_space()
        if size_space.limits:
            seconds = MAX_CHECK_SECONDS
            if total_seconds is not None:
                seconds = min(seconds, MAX_CHECK_SHARE * total_seconds)
            rng = make_generator("limits", self._full_space.name)
            self._fallback = size_space.check(rng, seconds)
            if self.max_latency is None:
                self.space.set_fallback(self._fallback)

    def make_size_space(self) -> ConstrainedSpace:
        """Return the architectures that satisfy the user's limits on size.

        Latency and training time are not limited, so sampling from this space does not measure
        latency.
        """
        size_limits = replace(self._limits, max_latency=None)
        size_space = ConstrainedSpace(self._full_space, size_limits, self._task)
        if self._fallback is not None:
            size_space.set_fallback(self._fallback)
        return size_space

    def limit_training_time(self, limit: TrainingTimeLimit) -> None:
        """Limit the predicted training time too.

        Call this before the first architecture is proposed.
        """
        self.space.limit_training_time(limit)

    def use_store(self, store: Store, search_key: str) -> None:
        """Read latencies from a store and write them to it, as records of a search."""
        if isinstance(self.max_latency, MaxLatency):
            self.max_latency.meter.use_store(store, search_key)

    def measure_finalists(
        self,
        records: Sequence[Record],
        rank: RankFunction,
        list_contenders: ContendersFunction | None = None,
    ) -> None:
        """Measure the latency of every architecture that may win; see `MaxLatency`."""
        if isinstance(self.max_latency, MaxLatency):
            self.max_latency.measure_finalists(records, rank, list_contenders)

    def measure_latency_within_limit(self, arch: Arch) -> float | None:
        """Return the latency of an architecture; None if it exceeds the limit or cannot be run.

        Call this only if latency is limited.
        """
        assert self._limits.max_latency is not None
        seconds = self._get_value("max_latency", arch)
        if seconds is None or self._limits.max_latency.is_exceeded_by(seconds):
            return None
        return seconds

    def describe(self, winner: Arch | None) -> list[dict[str, object]]:
        """Return every limit with the value of the winner, as plain rows for `run.json`.

        If the latency comes from a table, its row also has `source`, a text, and `predicted`.
        """
        rows = []
        for name, text in self.texts.items():
            value = self._get_value(name, winner)
            row = asdict(LimitStatus(name, text, self.space.rejected[name], value))
            table = self.max_latency
            if name == "max_latency" and isinstance(table, TableLatency) and winner is not None:
                row["source"] = table.describe_source(winner)
                row["predicted"] = table.is_predicted(winner)
            rows.append(row)
        return rows

    def list_requests(self) -> list[ScoreRequest]:
        """Return a request that identifies the latency table; empty if there is none.

        The table decides which architectures are proposed, so it is part of the key of the search.
        """
        if isinstance(self.max_latency, TableLatency):
            return [self.max_latency.make_request()]
        return []

    def _get_value(self, limit: str, arch: Arch | None) -> float | None:
        """Return the value of an architecture that a limit restricts; None if it is not known."""
        if arch is None:
            return None
        if limit == "max_latency" and isinstance(self.max_latency, TableLatency):
            return self.max_latency.estimate_seconds(arch)
        if limit == "max_latency" and isinstance(self.max_latency, MaxLatency):
            return self.max_latency.measure_winner(arch)
        size = NetworkSize(self._full_space, arch, self._task)
        value: float = getattr(size, SIZE_PROPERTIES[limit])
        return value

"""Known designs of a space as candidates of a search; `KnownDesignsStrategy` adds them."""

from collections.abc import Sequence

from untrained.strategies.base import Strategy, group_by_arch
from untrained.strategies.limits import ConstrainedSpace
from untrained.types import Arch, Record


class KnownDesignsStrategy(Strategy):
    """Proposes the known designs of a space first, then what another strategy proposes.

    The other strategy does not learn from the designs, so that it makes the same proposals as
    without them. If it proposes a design itself, it receives the existing records of that design,
    and the design is not evaluated again.

    Args:
        strategy: The other strategy.
        space: The space with the limits of the search.
        max_designs: Largest number of designs to propose; None for all.

    Attributes:
        designs: Names of the proposed designs by architecture. They are listed at the first `ask`,
            because a latency limit needs measurements.
    """

    def __init__(
        self, strategy: Strategy, space: ConstrainedSpace, max_designs: int | None = None
    ) -> None:
        self._strategy = strategy
        self._space = space
        self._max_designs = max_designs
        self._is_listed = False
        self._remaining: list[Arch] = []
        self._design_records: dict[Arch, list[Record]] = {}
        self.designs: dict[Arch, str] = {}
        self.default_budget = strategy.default_budget
        self.ask_size = strategy.ask_size

    # A property and not an attribute, because the other strategy may replace its own `trace`.
    @property
    def trace(self) -> Sequence[object]:  # type: ignore[override]
        """The steps of the other strategy."""
        return self._strategy.trace

    def ask(self, n: int) -> list[Arch]:
        if not self._is_listed:
            self._list_designs()
        if self._remaining:
            archs = self._remaining[:n]
            self._remaining = self._remaining[n:]
            return archs
        while True:
            proposals = self._strategy.ask(n)
            archs = [arch for arch in proposals if arch not in self.designs]
            for arch in proposals:
                if arch in self.designs:
                    self._strategy.tell(self._design_records.get(arch, []))
            # If all proposals are designs, the strategy now has their records and proposes more.
            if archs or not proposals:
                return archs

    def tell(self, records: Sequence[Record]) -> None:
        other_records = []
        for arch, arch_records in group_by_arch(records).items():
            if arch in self.designs:
                self._design_records[arch] = arch_records
            else:
                other_records += arch_records
        if other_records:
            self._strategy.tell(other_records)

    def predict_grid(self) -> object | None:
        return self._strategy.predict_grid()

    def _list_designs(self) -> None:
        self._is_listed = True
        for name, arch in self._space.list_known_designs().items():
            if self._max_designs is not None and len(self.designs) >= self._max_designs:
                break
            self.designs.setdefault(arch, name)
        self._remaining = list(self.designs)

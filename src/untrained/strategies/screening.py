"""`--screen`: cheap proxies rank all candidates, and the main proxy scores only the best of them.

Candidates are ordered by their mean rank over the cheap proxies. A candidate is dropped if one of
these proxies cannot score it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy, split_names
from untrained.quantities import parse_share
from untrained.runs.aggregates import compute_rank_fractions
from untrained.runs.ranking import compute_fitnesses
from untrained.strategies.base import Strategy
from untrained.strategies.budget import Budget
from untrained.types import Arch, Record


@dataclass(frozen=True)
class Screening:
    """The options `--screen` and `--keep`.

    Attributes:
        proxies: The cheap proxies.
        keep: Fraction of the candidates that pass.
        names: The proxies as the user typed them.
    """

    proxies: tuple[Proxy, ...]
    keep: float
    names: tuple[str, ...] = ()

    @staticmethod
    def parse(names: str, keep: str, budget: Budget) -> "Screening":
        """Read the options.

        Args:
            names: Proxies, such as `params,naswot`.
            keep: The fraction that passes, such as `20%`.
            budget: Budget of the search.

        Raises:
            UsageError: A name or the fraction is wrong, a proxy compares candidates, or the number
                of candidates is unknown.
        """
        name_list = tuple(split_names(names))
        proxies = tuple(load_proxy(name) for name in name_list)
        if not proxies or any(proxy.parts for proxy in proxies):
            raise UsageError(
                f"--screen {names!r}: name proxies that score a single network, "
                "such as params,naswot"
            )
        if budget.total is None:
            raise UsageError(
                "--screen ranks a pool of known size; give --budget instead of --time or --stable"
            )
        return Screening(proxies, parse_share(keep), name_list)

    def select_survivors(self, records: Sequence[Record]) -> list[Arch]:
        """Return the architectures in `records` that pass, best first."""
        scores_by_proxy = []
        for proxy in self.proxies:
            scores_by_proxy.append(
                compute_fitnesses(records, proxy.measure, proxy.higher_is_better)
            )
        # Every proxy has records of the same architectures, failures included.
        candidates = list(scores_by_proxy[0])
        scored = []
        for arch in candidates:
            if all(scores[arch] is not None for scores in scores_by_proxy):
                scored.append(arch)
        rank_sums = dict.fromkeys(scored, 0.0)
        for scores in scores_by_proxy:
            values = []
            for arch in scored:
                value = scores[arch]
                assert value is not None
                values.append(value)
            ranks = compute_rank_fractions(values, higher_is_better=True)
            for arch, rank in zip(scored, ranks, strict=True):
                rank_sums[arch] += rank
        best_first = sorted(scored, key=lambda arch: -rank_sums[arch])
        # Rounded before `ceil`, because 0.07 * 100 is a little more than 7 in floating point.
        count = ceil(round(self.keep * len(candidates), 9))
        return best_first[:count]


class FixedCandidates(Strategy):
    """A strategy that proposes the architectures of a list in order."""

    def __init__(self, archs: Sequence[Arch]) -> None:
        self._remaining = list(archs)

    def ask(self, n: int) -> list[Arch]:
        archs = self._remaining[:n]
        self._remaining = self._remaining[n:]
        return archs

    def tell(self, records: Sequence[Record]) -> None:
        """Do nothing: there is nothing to learn."""

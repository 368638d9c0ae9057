"""The scores of one network: a mapping from proxy to score."""

from collections.abc import Iterator, Mapping
from html import escape
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from untrained.errors import Unscorable
from untrained.formatting import format_number
from untrained.runs.ranking import make_record_rows
from untrained.types import Failure, Record

if TYPE_CHECKING:
    import pandas as pd


class Scores(Mapping[str, float]):
    """The scores of one network by proxy, as `ut.score` returns them.

    `scores["zico"]` is the mean over the seeds. If the proxy failed for any seed, it raises
    `Unscorable` with the reason. `failures` contains all reasons.

    Attributes:
        records: One record per proxy and seed.

    Example:
        >>> import torch
        >>> import untrained as ut
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
        >>> ut.score(model, torch.randn(8, 3, 32, 32), proxies=["params", "flops"])
        Scores of Sequential
          params  30,730
          flops   30,720
    """

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self._by_proxy: dict[str, list[Record]] = {}
        for record in records:
            self._by_proxy.setdefault(record.proxy, []).append(record)

    def __getitem__(self, proxy: str) -> float:
        """Return the mean score over seeds.

        Raises:
            KeyError: The network was not scored with this proxy.
            Unscorable: The proxy failed.
        """
        if proxy not in self._by_proxy:
            raise KeyError(f"no score by {proxy!r}; available: {', '.join(self._by_proxy)}")
        failure = self.failures.get(proxy)
        if failure:
            detail = f"{proxy} has no score for {self.network}"
            if failure.detail:
                detail += f": {failure.detail}"
            raise Unscorable(failure.kind, detail)
        return fmean(self._list_values(proxy))

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_proxy)

    def __len__(self) -> int:
        return len(self._by_proxy)

    def __contains__(self, proxy: object) -> bool:
        # The default implementation reads the score, which raises an error for a failed proxy.
        return proxy in self._by_proxy

    @property
    def network(self) -> str:
        """Name of the network."""
        return str(self.records[0].arch)

    @property
    def failures(self) -> dict[str, Failure]:
        """The first failure of each failed proxy."""
        failures: dict[str, Failure] = {}
        for record in self.records:
            if record.error:
                failures.setdefault(record.proxy, record.error)
        return failures

    def frame(self) -> "pd.DataFrame":
        """Return the records as a pandas DataFrame, with mean and deviation over the seeds."""
        import pandas as pd

        return pd.DataFrame(make_record_rows(self.records))

    def __repr__(self) -> str:
        width = max(len(proxy) for proxy in self)
        lines = [f"Scores of {self.network}"]
        for proxy in self:
            lines.append(f"  {proxy:<{width}}  {self._format_score(proxy)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        lines = [
            f"<table><caption>Scores of {escape(self.network)}</caption>",
            "<tr><th>proxy</th><th>score</th></tr>",
        ]
        for proxy in self:
            score = escape(self._format_score(proxy))
            lines.append(f"<tr><td>{escape(proxy)}</td><td>{score}</td></tr>")
        lines.append("</table>")
        return "\n".join(lines)

    def _format_score(self, proxy: str) -> str:
        failure = self.failures.get(proxy)
        if failure:
            return f"failed: {failure}"
        values = self._list_values(proxy)
        text = format_number(fmean(values))
        if len(values) > 1:
            text += f" \u00b1 {stdev(values):.3g} ({len(values)} seeds)"
        return text

    def _list_values(self, proxy: str) -> list[float]:
        return [record.value for record in self._by_proxy[proxy] if record.value is not None]

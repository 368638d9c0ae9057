"""How far proxies can be trusted, as plain facts: what `untrained bench` and `calibrate` find and a page shows.

Knows nothing of networks, tables or how anything was measured.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from untrained._files import reading_study, write_study

FILE = "trust.json"


@dataclass(frozen=True)
class Estimate:
    """A statistic with its 95 % interval over architectures, and its standard deviation over seeds (None with one)."""

    value: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None

    def apart(self, other: "Estimate") -> bool | None:
        """Whether the intervals tell the two apart; None where one of them has none."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return None
        return self.low > other.high or other.low > self.high


@dataclass(frozen=True)
class Judged:
    """One proxy against the truth. What could not be scored is counted and takes no part."""

    proxy: str
    about: str
    kind: str  # proxy, baseline, other (the scores of somebody else) or combination
    higher_is_better: bool
    cost: float | None  # forward passes
    n: int  # architectures with a score
    failures: dict[str, int]  # by kind
    statistics: dict[str, Estimate | None]  # by name; None where it is not defined
    scores: tuple[float | None, ...]  # means over seeds, one an architecture

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    def row(self) -> dict[str, Any]:
        """Flat and JSON-ready; the interval of the rank correlation is `low` and `high`."""
        main = self.statistics.get("spearman")
        told: dict[str, Any] = {"proxy": self.proxy, "kind": self.kind, "n": self.n, "failed": self.failed}
        told |= {"low": main.low if main else None, "high": main.high if main else None, "cost": self.cost}
        for name, estimate in self.statistics.items():
            told[name] = estimate.value if estimate else None
            if name != "spearman":
                told |= {f"{name}_{side}": getattr(estimate, side, None) for side in ("low", "high")}
            told[f"{name}_spread"] = estimate.spread if estimate else None
        return told


@dataclass(frozen=True)
class Trust:
    """Proxies against the truth on the same architectures, best first."""

    title: str
    command: str
    space: str
    truth_about: str  # what the truth is: test accuracy on CIFAR-10 after 200 epochs, nasbench201
    truth_unit: str  # %
    archs: tuple[str, ...]
    truth: tuple[float, ...]  # higher is better
    judged: tuple[Judged, ...]
    notes: tuple[str, ...] = ()  # what a reader must know: how many rows the table holds, which data were looked at
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)  # seconds
    batched: int = 0  # networks that were looked at together with others
    seeds: int = 1
    made_on: str = ""
    folder: str = ""  # where it is kept
    advice: str = ""  # what to do, in a sentence
    following: str = ""  # and the command that does it
    recommended: str = ""  # the proxy to go by

    def rows(self) -> list[dict[str, Any]]:
        return [judged.row() for judged in self.judged]

    def save(self) -> "Trust":
        """Write `trust.json`, whole or not at all, and the rows as `trust.csv`."""
        write_study(Path(self.folder, FILE), asdict(self), self.rows())
        return self

    @staticmethod
    def read(folder: str | Path) -> "Trust":
        with reading_study(Path(folder, FILE)) as facts:
            judged = tuple(_judged(**row) for row in facts["judged"])
            tuples = {name: tuple(facts[name]) for name in ("archs", "truth", "notes")}
            return Trust(**facts | tuples | {"judged": judged, "folder": str(folder)})


def _judged(statistics: dict[str, dict[str, Any] | None], scores: list[float | None], **facts: Any) -> Judged:
    estimates = {name: Estimate(**estimate) if estimate else None for name, estimate in statistics.items()}
    return Judged(statistics=estimates, scores=tuple(scores), **facts)

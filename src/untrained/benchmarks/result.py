"""The result of `untrained bench` and `untrained calibrate`: how well each proxy ranks."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from untrained.files import read_result_file, write_result_files
from untrained.formatting import format_count

BENCHMARK_FILE = "benchmark.json"
# Number of proxies that the representation of a result names.
_PROXIES_IN_REPR = 3


@dataclass(frozen=True)
class Estimate:
    """A statistic and its uncertainty.

    Attributes:
        value: The statistic.
        low: Lower end of the 95 % interval over architectures; None if there is no interval.
        high: Upper end of the interval.
        spread: Standard deviation over seeds; None with one seed.
    """

    value: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None

    def has_disjoint_interval(self, other: "Estimate") -> bool | None:
        """Return whether the two intervals do not overlap; None if an interval is missing.

        This is a conservative test of a difference: two statistics can differ significantly
        although their intervals overlap.
        """
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return None
        return self.low > other.high or other.low > self.high


@dataclass(frozen=True)
class ProxyResult:
    """One proxy compared with the ground truth.

    Architectures that the proxy could not score are counted and left out of the statistics.

    Attributes:
        proxy: Name of the proxy.
        about: What it measures, in one sentence.
        kind: `proxy`, `baseline`, `combination`, or `other` for scores that others published.
        higher_is_better: The direction of the scores.
        cost: Cost in forward passes; None if unknown.
        n: Number of architectures with a score.
        failures: Number of failures by kind.
        statistics: Estimates by the name of the statistic; None where it is undefined.
        scores: Mean over seeds per architecture; None where there is no score.
        failure_example: Kind and reason of one failure; empty if there is none.
    """

    proxy: str
    about: str
    kind: str
    higher_is_better: bool
    cost: float | None
    n: int
    failures: dict[str, int]
    statistics: dict[str, Estimate | None]
    scores: tuple[float | None, ...]
    failure_example: str = ""

    @property
    def failed(self) -> int:
        """Number of architectures without a score."""
        return sum(self.failures.values())

    def row(self) -> dict[str, object]:
        """Return flat, JSON-ready facts; `low` and `high` belong to the rank correlation."""
        main = self.statistics.get("spearman")
        row: dict[str, object] = {
            "proxy": self.proxy,
            "kind": self.kind,
            "n": self.n,
            "failed": self.failed,
            "low": main.low if main else None,
            "high": main.high if main else None,
            "cost": self.cost,
        }
        for name, estimate in self.statistics.items():
            row[name] = estimate.value if estimate else None
            if name != "spearman":
                row[f"{name}_low"] = estimate.low if estimate else None
                row[f"{name}_high"] = estimate.high if estimate else None
            row[f"{name}_spread"] = estimate.spread if estimate else None
        row["failure_example"] = self.failure_example
        return row


@dataclass(frozen=True)
class BenchmarkResult:
    """Proxies compared with the ground truth on the same architectures.

    Attributes:
        title: Heading of the report.
        command: The command that repeats the comparison; empty if the data were objects in Python.
        space: Name of the space.
        truth_about: Description of the ground truth, such as "test accuracy on cifar10 after 200
            epochs, nasbench201".
        truth_unit: Unit of the ground truth, such as "%".
        archs: The architectures.
        truth: The ground truth per architecture; higher is better.
        proxy_results: One result per proxy, best first.
        notes: Remarks for the reader, such as which part of the benchmark the table contains.
        settings: Settings as the report lists them.
        versions: Versions of the software.
        cost: Seconds by part of the work.
        batched: Number of networks that were scored in batches.
        seeds: Number of seeds per architecture.
        made_on: Date and time.
        folder: Where the result is kept.
        advice: Recommended next step, in one sentence.
        next_command: The command for the next step.
        recommended: The proxy to search with.
    """

    title: str
    command: str
    space: str
    truth_about: str
    truth_unit: str
    archs: tuple[str, ...]
    truth: tuple[float, ...]
    proxy_results: tuple[ProxyResult, ...]
    notes: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    batched: int = 0
    seeds: int = 1
    made_on: str = ""
    folder: str = ""
    advice: str = ""
    next_command: str = ""
    recommended: str = ""

    def __repr__(self) -> str:
        # All scores of all architectures would fill several pages.
        parts = [format_count(len(self.archs), "architecture")]
        best_proxies = []
        for result in self.proxy_results[:_PROXIES_IN_REPR]:
            correlation = result.statistics.get("spearman")
            if correlation is not None:
                best_proxies.append(f"{result.proxy} {correlation.value:.3f}")
        if best_proxies:
            parts.append(f"best rank correlations: {', '.join(best_proxies)}")
        return f"<BenchmarkResult {self.title}; {'; '.join(parts)}>"

    def rows(self) -> list[dict[str, object]]:
        """Return one flat row per proxy, best first."""
        return [result.row() for result in self.proxy_results]

    def save(self) -> "BenchmarkResult":
        """Write `benchmark.json` and the rows as `benchmark.csv`; return the result itself."""
        write_result_files(Path(self.folder, BENCHMARK_FILE), asdict(self), self.rows())
        return self

    @staticmethod
    def read(folder: str | Path) -> "BenchmarkResult":
        """Read the result in a folder.

        Raises:
            UsageError: There is no result, or the file is damaged.
        """
        with read_result_file(Path(folder, BENCHMARK_FILE)) as facts:
            facts["proxy_results"] = tuple(_read_result(**row) for row in facts["proxy_results"])
            for name in ("archs", "truth", "notes"):
                facts[name] = tuple(facts[name])
            # The folder may have been moved since.
            facts["folder"] = str(folder)
            return BenchmarkResult(**facts)


def choose_truth_digits(truth: Sequence[float]) -> int:
    """Return the number of decimals with which to show differences of the ground truth.

    It is four for fractions from 0 to 1, and two for larger numbers such as per cent.
    """
    if truth and max(truth) - min(truth) <= 1:
        return 4
    return 2


def _read_result(
    statistics: dict[str, dict[str, Any] | None], scores: list[float | None], **facts: Any
) -> ProxyResult:
    estimates: dict[str, Estimate | None] = {}
    for name, estimate in statistics.items():
        estimates[name] = Estimate(**estimate) if estimate else None
    return ProxyResult(statistics=estimates, scores=tuple(scores), **facts)

"""From scores and truth to a judgement with intervals. Knows nothing of where either comes from."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, stdev

from untrained.benchmarks.statistics import STATISTICS, Statistic, interval, spearman
from untrained.rng import generator
from untrained.studies.trust import Estimate, Judged
from untrained.types import Arch, Record

Scores = tuple[float | None, ...]  # one an architecture; None where there is none


@dataclass(frozen=True)
class Column:
    """What one proxy said of all architectures, a list for each seed."""

    proxy: str
    about: str
    kind: str
    higher_is_better: bool
    by_seed: tuple[Scores, ...]
    cost: float | None = None
    failures: dict[str, int] | None = None
    partial: bool = False  # not every seed is about every architecture

    @property
    def means(self) -> Scores:
        """Over seeds; an architecture that failed on any seed has none."""
        rows = [[score for score in row if score is not None] for row in zip(*self.by_seed, strict=True)]
        least = 1 if self.partial else len(self.by_seed)
        return tuple(fmean(row) if len(row) >= least else None for row in rows)


def column(
    records: Sequence[Record], measure: str, archs: Sequence[Arch], seeds: Sequence[int]
) -> tuple[tuple[Scores, ...], dict[str, int]]:
    """The scores of a measure by seed, and how many architectures failed, by kind."""
    found = {(r.arch, r.seed): r for r in records if r.measure == measure}
    by_seed = tuple(tuple(found[arch, seed].value for arch in archs) for seed in seeds)
    firsts = [next((r.error for seed in seeds if (r := found[arch, seed]).error), None) for arch in archs]
    return by_seed, dict(Counter(error.kind for error in firsts if error))


def judged(column: Column, truth: Sequence[float], seed: int = 0) -> Judged:
    """Every statistic of a column: the mean over seeds, the interval over architectures, the spread over seeds."""
    return Judged(
        proxy=column.proxy,
        about=column.about,
        kind=column.kind,
        higher_is_better=column.higher_is_better,
        cost=column.cost,
        n=sum(score is not None for score in column.means),
        failures=column.failures or {},
        statistics={statistic.name: _estimate(statistic, column, truth, seed) for statistic in STATISTICS},
        scores=column.means,
    )


def best_first(rows: Iterable[Judged]) -> tuple[Judged, ...]:
    """By rank correlation; what has none comes last."""

    def place(row: Judged) -> float:
        estimate = row.statistics["spearman"]
        return -estimate.value if estimate else inf

    return tuple(sorted(rows, key=place))


def on_the_same(rows: Sequence[Judged], truth: Sequence[float], baseline: str = "params") -> str:
    """What a baseline reaches on the architectures that the best proxy ranks, in words; empty where these are all, or
    where there is no such baseline. A network that cannot work is easily ranked last, and a proxy that says so instead
    of ranking it is compared on other networks than one that ranks everything."""
    best = next((row for row in rows if row.kind == "proxy" and row.statistics["spearman"]), None)
    by_name = {row.proxy: row for row in rows}
    if best is None or baseline not in by_name or best.n == len(truth):
        return ""
    shared = zip(best.scores, by_name[baseline].scores, truth, strict=True)
    both = [(size, known) for score, size, known in shared if score is not None and size is not None]
    found = spearman([size for size, _ in both], [known for _, known in both])
    ranked = f"On the {len(both):,} architectures that {best.proxy} ranks"
    return "" if found is None else f"{ranked}, {baseline} has {found:.3f}."


def estimated(
    statistic: Statistic, pairs: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int = 0
) -> Estimate | None:
    """A statistic of scores and truth, one pair a seed. With several, value and interval are means over them: what one
    run with one seed can expect."""
    values = [value for x, y in pairs if (value := statistic(x, y)) is not None]
    if not values:
        return None
    sides = [interval(statistic, x, y, generator("bootstrap", statistic.name, seed)) for x, y in pairs]
    lows, highs = zip(*(side for side in sides if side), strict=True) if any(sides) else ((), ())
    spread = stdev(values) if len(values) > 1 else None
    return Estimate(fmean(values), fmean(lows) if lows else None, fmean(highs) if highs else None, spread)


def _estimate(statistic: Statistic, column: Column, truth: Sequence[float], seed: int) -> Estimate | None:
    return estimated(statistic, [_known(scores, truth, column.higher_is_better) for scores in column.by_seed], seed)


def _known(scores: Scores, truth: Sequence[float], higher_is_better: bool) -> tuple[list[float], list[float]]:
    """Scores turned so that higher is better, and the truth of the same architectures."""
    sign = 1 if higher_is_better else -1
    both = [(sign * score, known) for score, known in zip(scores, truth, strict=True) if score is not None]
    return [score for score, _ in both], [known for _, known in both]

"""From records to a ranking. The only file that knows directions: everywhere else a score is just a number."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev

from untrained.types import Arch, Failure, Record


@dataclass(frozen=True, slots=True)
class Standing:
    """An architecture's place: mean score over its seeds, standard deviation (None with one seed)."""

    arch: Arch
    score: float
    spread: float | None
    seeds: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """Best first; and what could not be ranked, with the first reason of each. Nothing is dropped silently."""

    standings: tuple[Standing, ...]
    failed: tuple[tuple[Arch, Failure], ...]


def rank(records: Iterable[Record], measure: str, higher_is_better: bool) -> Ranking:
    """Order architectures by `measure`. One that failed on any seed is not ranked; ties keep the order of discovery."""
    by_arch: dict[Arch, list[Record]] = {}
    for record in records:
        if record.measure == measure:
            by_arch.setdefault(record.arch, []).append(record)
    standings, failed = [], []
    for arch, found in by_arch.items():
        failure = next((r.error for r in found if r.error), None)
        values = [r.value for r in found if r.value is not None]
        if failure is not None:
            failed.append((arch, failure))
        else:
            spread = stdev(values) if len(values) > 1 else None
            standings.append(Standing(arch, fmean(values), spread, len(values)))
    best_first = sorted(standings, key=lambda s: -s.score if higher_is_better else s.score)
    return Ranking(tuple(best_first), tuple(failed))

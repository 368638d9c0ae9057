"""From records to a ranking. The only file that knows directions: everywhere else a score is just a number.

`rank_records` makes every ranking of the package. Which records belong to a run is decided in `runs/winner.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from untrained.types import Arch, Failure, Record

# Student's t, 97.5 %, for 1, 2, ... degrees of freedom; beyond the table 2.0 is near enough
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)


@dataclass(frozen=True, slots=True)
class Standing:
    """An architecture's place: mean score over its seeds, their standard deviation and the half-width of the 95 %
    interval of the mean (None with one seed), and whether seeds cannot tell it from the best."""

    arch: Arch
    score: float
    spread: float | None
    seeds: int
    margin: float | None = None
    tied: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """Best first; and what could not be ranked, with the first reason of each. Nothing is dropped silently."""

    standings: tuple[Standing, ...]
    failed: tuple[tuple[Arch, Failure], ...]


def rank_records(
    records: Iterable[Record],
    measure: str,
    higher_is_better: bool,
    excluded: Mapping[Arch, Failure] | None = None,
) -> Ranking:
    """Order architectures by a measure.

    Values of one architecture are averaged over seeds. An architecture that failed on any seed is not ranked. Ties
    keep the order of discovery.

    Args:
        records: Records that answer one question: the same task, data, weights and device for all architectures.
        measure: What to rank by.
        higher_is_better: The direction of the measure.
        excluded: Architectures that must not be ranked, such as those over a limit, and why.

    Returns:
        The ranking, with the architectures that could not be ranked and why.
    """
    excluded = excluded or {}
    by_arch: dict[Arch, list[Record]] = {}
    for record in records:
        if record.measure == measure:
            by_arch.setdefault(record.arch, []).append(record)
    standings = []
    failed = []
    for arch, own_records in by_arch.items():
        if arch in excluded:
            continue
        failure = next((record.error for record in own_records if record.error), None)
        if failure is not None:
            failed.append((arch, failure))
            continue
        values = [record.value for record in own_records if record.value is not None]
        spread = stdev(values) if len(values) > 1 else None
        standings.append(Standing(arch, fmean(values), spread, len(values), margin(values)))
    failed += [(arch, failure) for arch, failure in excluded.items() if arch in by_arch]
    standings.sort(key=lambda standing: -standing.score if higher_is_better else standing.score)
    return Ranking(tuple(_mark_ties(standings, by_arch)), tuple(failed))


def _mark_ties(standings: Sequence[Standing], by_arch: dict[Arch, list[Record]]) -> Iterator[Standing]:
    """Mark the architectures that the seeds cannot tell from the best."""
    for place, standing in enumerate(standings):
        if place == 0:
            best = scores(by_arch[standing.arch])
            yield standing
        else:
            yield replace(standing, tied=tied(best, scores(by_arch[standing.arch])))


def choose_winner(ranked: Sequence[str], confirmed: str | None) -> str | None:
    """Name the winner of a run: the one that short trainings confirmed, else the first of the ranking.

    Args:
        ranked: Architectures of the ranking, best first.
        confirmed: What the confirmation of this ranking named, or None where there was none.
    """
    if confirmed in ranked:
        return confirmed
    return ranked[0] if ranked else None


def rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Records as flat rows, each with mean, standard deviation and number of the scores over its seeds."""
    kept = list(records)
    groups: dict[tuple[Arch, str, str], list[float]] = {}
    for r in kept:
        groups.setdefault((r.arch, r.measure, r.init), []).extend([r.value] if r.value is not None else [])
    return [r.row() | _spread(groups[r.arch, r.measure, r.init]) for r in kept]


def _spread(values: Sequence[float]) -> dict[str, Any]:
    return {
        "mean": fmean(values) if values else None,
        "std": stdev(values) if len(values) > 1 else None,
        "n": len(values),
    }


def fitness(records: Iterable[Record], measure: str, higher_is_better: bool) -> float | None:
    """The mean score of one architecture over its seeds, turned so that higher is better; None where one failed."""
    values = [record.value for record in records if record.measure == measure]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return fmean(known) if higher_is_better else -fmean(known)


def fitnesses(records: Iterable[Record], measure: str, higher_is_better: bool) -> dict[Arch, float | None]:
    """The fitness of every architecture."""
    by_arch: dict[Arch, list[Record]] = {}
    for record in records:
        by_arch.setdefault(record.arch, []).append(record)
    return {arch: fitness(found, measure, higher_is_better) for arch, found in by_arch.items()}


def scores(records: Iterable[Record]) -> dict[int, float]:
    """Values by seed."""
    return {r.seed: r.value for r in records if r.value is not None}


def margin(values: Sequence[float]) -> float | None:
    """Half-width of the 95 % interval of the mean; None with one value."""
    n = len(values)
    return None if n < 2 else student(n) * stdev(values) / sqrt(n)


def student(n: int) -> float:
    """Student's t, 97.5 %, for a mean of n values, of which there are at least two."""
    return _T[n - 2] if n - 2 < len(_T) else 2.0


def tied(best: dict[int, float], other: dict[int, float]) -> bool:
    """Whether the seeds cannot tell two architectures apart: the 95 % interval of their difference, seed by seed, holds
    zero. With one seed nothing is known, and nothing is marked."""
    differences = [best[seed] - other[seed] for seed in best if seed in other]
    half = margin(differences)
    return half is not None and abs(fmean(differences)) <= half

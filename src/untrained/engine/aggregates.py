"""Scores that exist among candidates only: AZ-NAS, TE-NAS. Their parts are measured a network at a time and recorded as
usual; the aggregate is worked out from those records whenever it is asked for, and never stored."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from untrained.benchmarks.aggregate import places
from untrained.proxies import PROXIES, Proxy
from untrained.types import Arch, Failure, Record, ScoreRequest


def expanded(proxies: Iterable[Proxy]) -> list[Proxy]:
    """Aggregates replaced by those of their parts that are not asked for anyway."""
    asked = list(proxies)
    single = [p for p in asked if not p.parts]
    parts = {part.measure: part for p in asked for part in parts_of(p)}
    return single + [part for part in parts.values() if part.measure not in [p.measure for p in single]]


def parts_of(judge: Proxy) -> list[Proxy]:
    """What an aggregate combines; those of its parts that look at samples look at as many as it says."""
    parts = [PROXIES[name] for name in judge.parts]
    return [part.configured(samples=judge.samples) if "data" in part.needs else part for part in parts]


def shares(values: Sequence[float], higher_is_better: bool) -> list[float]:
    """Rank / number of candidates, 1 for the best; ties share the mean of their ranks."""
    oriented = [value if higher_is_better else -value for value in values]
    return list(map(float, places(oriented)))


def aggregated(records: Sequence[Record], judge: Proxy) -> list[Record]:
    """Compute the records of an aggregate such as AZ-NAS from the records of its parts.

    Candidates are compared with each other, seed by seed. A candidate with a failed part has no aggregate: it takes
    the failure of that part, and the others are compared without it.

    Args:
        records: Records of all candidates; measures that are no part of the aggregate are ignored.
        judge: The aggregate.

    Returns:
        One record per candidate and seed that has records of all parts.
    """
    parts = parts_of(judge)
    by_seed: dict[int, dict[Arch, dict[str, Record]]] = {}
    for record in records:
        by_arch = by_seed.setdefault(record.seed, {})
        by_arch.setdefault(record.arch, {})[record.measure] = record
    aggregates = []
    for by_arch in by_seed.values():
        aggregates += _aggregate_one_seed(by_arch, parts, judge)
    return aggregates


def _aggregate_one_seed(by_arch: dict[Arch, dict[str, Record]], parts: Sequence[Proxy], judge: Proxy) -> list[Record]:
    outcomes: dict[Arch, float | Failure] = {}
    values_of_parts: dict[Arch, list[float]] = {}  # of candidates without a failure
    requests: dict[Arch, ScoreRequest] = {}
    notes: dict[Arch, str] = {}
    for arch, by_measure in by_arch.items():
        if not all(part.measure in by_measure for part in parts):
            continue
        rows = [by_measure[part.measure] for part in parts]
        requests[arch] = replace(rows[0].request, measure=judge.measure)
        notes[arch] = "; ".join(dict.fromkeys(row.note for row in rows if row.note))
        failure = _first_failure(rows)
        if failure is None:
            values_of_parts[arch] = [row.value for row in rows if row.value is not None]
        else:
            outcomes[arch] = failure
    if values_of_parts:
        columns = []
        for place, part in enumerate(parts):
            column = [values[place] for values in values_of_parts.values()]
            columns.append(shares(column, part.higher_is_better))
        aggregate_values: list[float] = judge.function(*columns)  # type: ignore[assignment]
        outcomes |= dict(zip(values_of_parts, aggregate_values, strict=True))
    return [Record.of(request, outcomes[arch], note=notes[arch]) for arch, request in requests.items()]


def _first_failure(records: Sequence[Record]) -> Failure | None:
    """The failure of a disconnected network if there is one, since it explains the others, else the first."""
    failures = [record.error for record in records if record.error]
    for failure in failures:
        if failure.kind == "disconnected":
            return failure
    return failures[0] if failures else None

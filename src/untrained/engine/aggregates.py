"""Scores that exist among candidates only: AZ-NAS, TE-NAS. Their parts are measured a network at a time and recorded as
usual; the aggregate is worked out from those records whenever it is asked for, and never stored."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import nan

from untrained.benchmarks.aggregate import places
from untrained.proxies import PROXIES, Proxy
from untrained.types import Record


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


def shares(values: Sequence[float | None], higher_is_better: bool) -> list[float]:
    """Rank / number of candidates, 1 for the best; ties share the mean of their ranks, what has no value is last."""
    oriented = [nan if v is None else v if higher_is_better else -v for v in values]
    return list(map(float, places(oriented)))


def aggregated(records: Sequence[Record], judge: Proxy) -> list[Record]:
    """The records of an aggregate such as AZ-NAS, made of the records of its parts among the same candidates, seed by
    seed. A candidate cut off from its input is a failure; one without some part is last on it."""
    parts = parts_of(judge)
    made = []
    for seed in dict.fromkeys(record.seed for record in records):
        found = {(r.arch, r.measure): r for r in records if r.seed == seed}
        archs = [a for a in dict.fromkeys(arch for arch, _ in found) if all((a, p.measure) in found for p in parts)]
        rows = [[found[arch, part.measure] for part in parts] for arch in archs]
        cut = [next((r.error for r in row if r.error and r.error.kind == "disconnected"), None) for row in rows]
        good = [row for row, failure in zip(rows, cut, strict=True) if failure is None]
        columns = [shares([row[i].value for row in good], part.higher_is_better) for i, part in enumerate(parts)]
        values = iter(judge.function(*columns))  # type: ignore[call-overload]
        for row, failure in zip(rows, cut, strict=True):
            value = None if failure else next(values)
            request = replace(row[0].request, measure=judge.measure)
            made.append(replace(row[0], request=request, value=value, error=failure, build_seconds=0.0,
                                measure_seconds=0.0))  # fmt: skip
    return made

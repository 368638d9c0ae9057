"""Aggregates: proxies that combine the scores of other proxies, such as AZ-NAS and TE-NAS.

The other proxies are the parts of the aggregate. They are measured network by network and recorded
as usual. AZ-NAS and TE-NAS compare all candidates with each other, so they are computed from these
records whenever they are needed, and are never stored. Aggregates that compare a candidate with a
reference sample, such as `consensus`, are stored (`reference.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from untrained.benchmarks.aggregate import compute_relative_ranks
from untrained.benchmarks.statistics import orient_score
from untrained.proxies import Proxy
from untrained.proxies.base import list_members
from untrained.runs.reference import FittedAggregate
from untrained.types import Arch, Failure, Record, ScoreRequest


def expand_aggregates(proxies: Iterable[Proxy]) -> list[Proxy]:
    """Replace each aggregate by its parts; a part that is already in the list is not repeated."""
    proxies = list(proxies)
    expanded = [proxy for proxy in proxies if not proxy.parts]
    measures = {proxy.measure for proxy in expanded}
    for proxy in proxies:
        for part in list_members(proxy):
            if part.measure not in measures:
                measures.add(part.measure)
                expanded.append(part)
    return expanded


def compute_rank_fractions(values: Sequence[float], higher_is_better: bool) -> list[float]:
    """Return rank / number of candidates, 1 for the best; ties share the mean of their ranks."""
    scores = [orient_score(value, higher_is_better) for value in values]
    return [float(fraction) for fraction in compute_relative_ranks(scores)]


def compute_aggregates(records: Sequence[Record], aggregate: Proxy) -> list[Record]:
    """Compute the records of an aggregate such as AZ-NAS from the records of its parts.

    If the aggregate needs a reference sample, the first candidates are that sample. A search draws
    a sample of its own instead (`SearchSetup.sample_reference`).

    Other aggregates compare the candidates with each other, separately for each seed. The record of
    a candidate with a failed part has the failure of that part, and the other candidates are
    compared without it.

    Args:
        records: Records of all candidates. Records of other measures are ignored.
        aggregate: The aggregate.

    Returns:
        One record per candidate and seed that has records of all parts.
    """
    if aggregate.reference_size:
        if not records:
            return []
        return fit_to_first_candidates(records, aggregate).compute_records(records)
    parts = list_members(aggregate)
    by_seed: dict[int, dict[Arch, dict[str, Record]]] = {}
    for record in records:
        by_arch = by_seed.setdefault(record.seed, {})
        by_measure = by_arch.setdefault(record.arch, {})
        by_measure[record.measure] = record
    aggregates = []
    for by_arch in by_seed.values():
        aggregates += _aggregate_one_seed(by_arch, parts, aggregate)
    return aggregates


def fit_to_first_candidates(records: Sequence[Record], aggregate: Proxy) -> FittedAggregate:
    """Fit an aggregate, with the first candidates as its reference sample.

    Args:
        records: Records of all candidates, at least one. Only the first seed is used.
        aggregate: The aggregate.
    """
    archs = list(dict.fromkeys(record.arch for record in records))
    reference_archs = set(archs[: aggregate.reference_size])
    first_seed = records[0].seed
    reference = []
    for record in records:
        if record.arch in reference_archs and record.seed == first_seed:
            reference.append(record)
    return FittedAggregate.fit(aggregate, reference)


def _aggregate_one_seed(
    by_arch: Mapping[Arch, Mapping[str, Record]], parts: Sequence[Proxy], aggregate: Proxy
) -> list[Record]:
    """Compute the aggregate of all candidates for one seed."""
    outcomes: dict[Arch, float | Failure] = {}
    requests: dict[Arch, ScoreRequest] = {}
    notes: dict[Arch, str] = {}
    part_values: dict[Arch, list[float]] = {}  # only candidates without a failure
    for arch, by_measure in by_arch.items():
        if not all(part.measure in by_measure for part in parts):
            continue
        records = [by_measure[part.measure] for part in parts]
        requests[arch] = replace(records[0].request, measure=aggregate.measure)
        distinct_notes = dict.fromkeys(record.note for record in records if record.note)
        notes[arch] = "; ".join(distinct_notes)
        failure = _choose_failure(records)
        if failure is None:
            part_values[arch] = [record.value for record in records if record.value is not None]
        else:
            outcomes[arch] = failure
    if part_values:
        columns = []
        for index, part in enumerate(parts):
            column = [values[index] for values in part_values.values()]
            columns.append(compute_rank_fractions(column, part.higher_is_better))
        aggregate_values: list[float] = aggregate.function(*columns)
        for arch, value in zip(part_values, aggregate_values, strict=True):
            outcomes[arch] = value
    aggregates = []
    for arch, request in requests.items():
        aggregates.append(Record.of(request, outcomes[arch], note=notes[arch]))
    return aggregates


def _choose_failure(records: Sequence[Record]) -> Failure | None:
    """Return the failure that explains a missing aggregate; None if no part failed.

    It is the first failure, except that `disconnected` comes before all others: a disconnected
    network also explains why other parts failed.
    """
    failures = [record.error for record in records if record.error]
    for failure in failures:
        if failure.kind == "disconnected":
            return failure
    if not failures:
        return None
    return failures[0]

"""Rank architectures by their records.

`rank_records` makes every ranking in the package, and `choose_winner` names the winner.
`runs/winner.py` selects the records of a run, and reads which architecture won short trainings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import sqrt
from statistics import fmean, stdev

from scipy.special import stdtrit

from untrained.benchmarks.statistics import orient_score
from untrained.formatting import format_count, format_number
from untrained.types import Arch, Failure, Record, RecordRow, remove_version

CONFIDENCE = 0.95  # level of all confidence intervals
ROWS_SHOWN = 10  # architectures in the text of a ranking


@dataclass(frozen=True, slots=True)
class Standing:
    """An architecture in a ranking.

    Attributes:
        arch: The architecture.
        score: Mean score over its seeds.
        spread: Standard deviation over its seeds; None with one seed.
        seeds: Number of seeds.
        margin: Half-width of the 95 % interval of the mean; None with one seed.
        tied: Whether the seeds cannot distinguish it from the best.
    """

    arch: Arch
    score: float
    spread: float | None
    seeds: int
    margin: float | None = None
    tied: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """Architectures sorted by score. Those without a score are listed with the reason.

    Attributes:
        standings: The architectures with a score, best first.
        failed: The others, each with its first failure.
    """

    standings: tuple[Standing, ...]
    failed: tuple[tuple[Arch, Failure], ...]

    def __repr__(self) -> str:
        lines = [self._format_title()]
        rows = self._make_rows()
        place_width = len(str(len(rows)))
        score_width = max((len(score) for _, score, _ in rows), default=0)
        for place, score, arch in rows:
            lines.append(f"  {place:>{place_width}}  {score:>{score_width}}  {arch}")
        hidden = len(self.standings) - len(rows)
        if hidden:
            lines.append(f"  and {hidden:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        lines = [
            f"<table><caption>{escape(self._format_title())}</caption>",
            "<tr><th>#</th><th>score</th><th>architecture</th></tr>",
        ]
        for place, score, arch in self._make_rows():
            lines.append(f"<tr><td>{place}</td><td>{score}</td><td>{escape(arch)}</td></tr>")
        lines.append("</table>")
        return "\n".join(lines)

    def _format_title(self) -> str:
        title = f"Ranking of {format_count(len(self.standings), 'architecture')}"
        shown = min(len(self.standings), ROWS_SHOWN)
        if shown < len(self.standings):
            title += f", the best {shown}"
        if self.failed:
            title += f"; {len(self.failed):,} failed"
        return title

    def _make_rows(self) -> list[tuple[str, str, str]]:
        """Return place, score and architecture of the best, as text."""
        rows = []
        for place, standing in enumerate(self.standings[:ROWS_SHOWN], 1):
            score = format_number(standing.score)
            if standing.margin is not None:
                score += f" \u00b1 {standing.margin:.3g}"
            rows.append((str(place), score, str(standing.arch)))
        return rows


def rank_records(
    records: Iterable[Record],
    measure: str,
    higher_is_better: bool,
    excluded: Mapping[Arch, Failure] | None = None,
) -> Ranking:
    """Order architectures by a measure.

    Values of one architecture are averaged over seeds. An architecture that failed on any seed is
    not ranked. Equal scores keep the order of the records.

    Args:
        records: Records with the same task, data, weights and device for all architectures.
        measure: The measure to rank by.
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
        failure = _find_first_failure(own_records)
        if failure is None:
            standings.append(_make_standing(arch, own_records))
        else:
            failed.append((arch, failure))
    for arch, failure in excluded.items():
        if arch in by_arch:
            failed.append((arch, failure))

    # Sorting is stable, also with `reverse`, so equal scores keep the order of the records.
    standings.sort(
        key=lambda standing: orient_score(standing.score, higher_is_better), reverse=True
    )
    return Ranking(_mark_ties(standings, by_arch), tuple(failed))


def _find_first_failure(records: Sequence[Record]) -> Failure | None:
    for record in records:
        if record.error:
            return record.error
    return None


def _make_standing(arch: Arch, records: Sequence[Record]) -> Standing:
    values = [record.value for record in records if record.value is not None]
    spread = None
    if len(values) > 1:
        spread = stdev(values)
    return Standing(arch, fmean(values), spread, len(values), compute_margin(values))


def _mark_ties(
    standings: Sequence[Standing], by_arch: Mapping[Arch, Sequence[Record]]
) -> tuple[Standing, ...]:
    """Mark the architectures that the seeds cannot distinguish from the best."""
    if not standings:
        return ()
    best = standings[0]
    best_scores = _index_by_seed(by_arch[best.arch])
    marked = [best]
    for standing in standings[1:]:
        scores = _index_by_seed(by_arch[standing.arch])
        marked.append(replace(standing, tied=is_tied(best_scores, scores)))
    return tuple(marked)


def _index_by_seed(records: Iterable[Record]) -> dict[int, float]:
    values = {}
    for record in records:
        if record.value is not None:
            values[record.seed] = record.value
    return values


def is_tied(best: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Whether the seeds cannot distinguish two architectures.

    They are tied if the 95 % interval of their differences, seed by seed, contains zero. One seed
    gives no interval, so the result is False.

    Args:
        best: Scores of one architecture by seed.
        other: Scores of the other one by seed.
    """
    differences = [best[seed] - other[seed] for seed in best if seed in other]
    margin = compute_margin(differences)
    if margin is None:
        return False
    return abs(fmean(differences)) <= margin


def compute_margin(values: Sequence[float]) -> float | None:
    """Return the half-width of the 95 % interval of the mean; None for fewer than two values."""
    count = len(values)
    if count < 2:
        return None
    return compute_t_quantile(count) * stdev(values) / sqrt(count)


def compute_t_quantile(count: int) -> float:
    """Return the factor of a two-sided 95 % interval of the mean of `count` values, at least two.

    It is the 97.5 % quantile of Student's t distribution with `count - 1` degrees of freedom.
    """
    return float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))


def choose_winner(ranked_names: Sequence[str], trained_winner: str | None) -> str | None:
    """Return the winner of a run: what short trainings chose, else the first of the ranking.

    Args:
        ranked_names: Architectures of the ranking, best first.
        trained_winner: The architecture that won the short trainings; None if there were none.
    """
    if trained_winner in ranked_names:
        return trained_winner
    if not ranked_names:
        return None
    return ranked_names[0]


def compute_fitness(
    records: Iterable[Record], measure: str, higher_is_better: bool
) -> float | None:
    """Return the mean score of one architecture over its seeds, such that higher is better.

    Args:
        records: Records of one architecture, of any measures.
        measure: The measure to average.
        higher_is_better: The direction of the measure.

    Returns:
        The fitness, or None if there is no record of the measure or one of them failed.
    """
    values = []
    for record in records:
        if record.measure != measure:
            continue
        if record.value is None:
            return None
        values.append(record.value)
    if not values:
        return None
    return orient_score(fmean(values), higher_is_better)


def compute_fitnesses(
    records: Iterable[Record], measure: str, higher_is_better: bool
) -> dict[Arch, float | None]:
    """Return the fitness of every architecture; None as in `compute_fitness`."""
    by_arch: dict[Arch, list[Record]] = {}
    for record in records:
        by_arch.setdefault(record.arch, []).append(record)
    fitnesses = {}
    for arch, own_records in by_arch.items():
        fitnesses[arch] = compute_fitness(own_records, measure, higher_is_better)
    return fitnesses


def collect_columns(
    records: Sequence[Record], measures: Iterable[str]
) -> dict[str, dict[Arch, float | None]]:
    """Return further columns of a ranking: means over the seeds by label and architecture.

    Args:
        records: All records.
        measures: The measures, such as those of `--also`. Sizes have columns of their own.
    """
    columns = {}
    for measure in measures:
        label = remove_version(measure)
        if label not in ("params", "flops"):
            columns[label] = compute_fitnesses(records, measure, higher_is_better=True)
    return columns


class ScoreRow(RecordRow):
    """A record and the statistics of the scores over its seeds, as plain columns."""

    mean: float | None
    std: float | None
    n: int


def make_record_rows(records: Iterable[Record]) -> list[ScoreRow]:
    """Return records as flat rows for JSON and tables.

    Each row also has the mean, the standard deviation and the number of the scores over the seeds
    of its architecture, measure and weights.
    """
    records = list(records)
    groups: dict[tuple[Arch, str, str], list[float]] = {}
    for record in records:
        values = groups.setdefault((record.arch, record.measure, record.init), [])
        if record.value is not None:
            values.append(record.value)
    rows = []
    for record in records:
        values = groups[record.arch, record.measure, record.init]
        mean = None
        if values:
            mean = fmean(values)
        std = None
        if len(values) > 1:
            std = stdev(values)
        rows.append(ScoreRow(**record.row(), mean=mean, std=std, n=len(values)))
    return rows

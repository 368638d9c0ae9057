"""Compute the lines of a table from measurements: correlations and means, with intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.comparison import estimate_statistic
from untrained.benchmarks.statistics import (
    Statistic,
    bootstrap_statistic,
    kendall,
    pearson,
    percentile_interval,
    spearman,
)
from untrained.papers.experiment import ExperimentConfig, Findings
from untrained.papers.samples import BenchmarkTask, Sample, Scores, measure_sample
from untrained.reports.reproduction_result import Curve, TableLine
from untrained.runs.ranking import compute_margin
from untrained.seeds import make_generator

BINS = 20
BINS_NOTE = (
    "All bins have the same size; the paper does not say how it chooses bins. It gives no numbers."
)
MIN_PUBLISHED_SCORES = 30  # with fewer published scores, their correlation is not reported
STATISTICS = {"Spearman": spearman, "Kendall": kendall, "Pearson": pearson}
PublishedTable = dict[str, tuple[float | None, ...]]


def make_correlation_line(
    what: str,
    published: float | None,
    statistic: Statistic,
    x: Scores,
    y: Scores,
    note: str = "",
) -> TableLine:
    """Correlate two arrays of scores, seed by seed.

    Args:
        what: Description of the number.
        published: The number in the paper.
        statistic: The correlation.
        x: Scores of shape (seeds, architectures), or (1, architectures) if they hold for all seeds.
        y: Scores or accuracies of one of these shapes.
        note: A remark.

    Returns:
        The mean over seeds, with its interval over architectures and its spread over seeds.
    """
    seeds = max(len(x), len(y))
    pairs = []
    # Scores that hold for all seeds have one row, which is repeated.
    for seed in range(seeds):
        x_row = x[min(seed, len(x) - 1)]
        y_row = y[min(seed, len(y) - 1)]
        pairs.append(_drop_missing(x_row, y_row))
    estimate = estimate_statistic(statistic, pairs)
    if estimate is None:
        note = join_notes(note, "not defined on this sample")
        return TableLine(what, published, None, note=note)
    return TableLine(
        what, published, estimate.value, estimate.low, estimate.high, estimate.spread, note
    )


def make_gain_line(
    what: str, statistic: Statistic, new: Scores, old: Scores, y: Scores
) -> TableLine:
    """Compute by how much a statistic of `new` and `y` exceeds that of `old` and `y`.

    Only architectures that have both scores are used. The number is the mean over seeds. The
    interval is a paired bootstrap interval: every resample uses the same architectures for both.
    """
    gains = []
    for new_scores, old_scores in zip(new, old, strict=True):
        gain = _compute_gain(statistic, new_scores, old_scores, y[0])
        if gain is not None:
            gains.append(gain)
    if not gains:
        return TableLine(what, None, None, note="not defined on this sample")
    mean, low, high = np.mean(gains, axis=0).tolist()
    return TableLine(what, None, mean, low, high)


def _compute_gain(
    statistic: Statistic, new_scores: Scores, old_scores: Scores, y: Scores
) -> tuple[float, float, float] | None:
    """Return the difference of a statistic and its interval; None if it is not defined."""
    # The difference is only meaningful if both sides use the same architectures.
    complete = np.isfinite(new_scores) & np.isfinite(old_scores) & np.isfinite(y)
    values = []
    resamples = []
    for scores in (new_scores, old_scores):
        # The same generator for both sides draws the same architectures.
        rng = make_generator("bootstrap", "gain", statistic.name)
        values.append(statistic(scores[complete], y[complete]))
        resamples.append(bootstrap_statistic(statistic, scores[complete], y[complete], rng))
    new_value, old_value = values
    new_resamples, old_resamples = resamples
    if new_value is None or old_value is None or new_resamples is None or old_resamples is None:
        return None
    interval = percentile_interval(new_resamples - old_resamples)
    if interval is None:
        return None
    return (new_value - old_value, *interval)


def make_mean_line(what: str, published: float | None, scores: Scores, note: str = "") -> TableLine:
    """Average over the architectures that have a score on every seed.

    The interval is the mean plus and minus 1.96 standard errors.
    """
    # Otherwise every seed would average over other architectures.
    complete = scores[:, np.isfinite(scores).all(0)]
    seeds, archs = complete.shape
    if archs == 0:
        return TableLine(what, published, None, note=note)
    mean = float(complete.mean())
    if archs == 1:
        return TableLine(what, published, mean, note=note)
    # The interval is over architectures, so seeds are averaged first.
    half_width = 1.96 * float(complete.mean(0).std(ddof=1)) / sqrt(archs)
    spread = None
    if seeds > 1:
        spread = float(complete.mean(1).std(ddof=1))
    return TableLine(what, published, mean, mean - half_width, mean + half_width, spread, note)


def make_seeds_line(
    what: str, published: float | None, values: Scores, note: str = "", missing_note: str = ""
) -> TableLine:
    """Average over seeds or searches, with the 95 % interval and the standard deviation.

    Missing values are left out.

    Args:
        what: Description of the number.
        published: The number in the paper.
        values: One value per seed or search, NaN where there is none.
        note: A remark.
        missing_note: Replaces the remark if there is no value at all.
    """
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return TableLine(what, published, None, note=missing_note or note)
    mean = float(finite.mean())
    half_width = compute_margin(finite.tolist())
    if half_width is None:
        return TableLine(what, published, mean, note=note)
    spread = float(finite.std(ddof=1))
    return TableLine(what, published, mean, mean - half_width, mean + half_width, spread, note)


def join_notes(*notes: str) -> str:
    """Join the remarks that are not empty."""
    return "; ".join(note for note in notes if note)


def make_points(name: str, x: Scores, y: Scores) -> Curve:
    """Return the points of a plot for which both values exist."""
    complete = np.isfinite(x) & np.isfinite(y)
    return Curve(name, tuple(x[complete].tolist()), tuple(y[complete].tolist()))


def _drop_missing(x: Scores, y: Scores) -> tuple[list[float], list[float]]:
    complete = np.isfinite(x) & np.isfinite(y)
    return x[complete].tolist(), y[complete].tolist()


@dataclass(frozen=True)
class CorrelationRow:
    """One row of a table of correlations.

    Attributes:
        label: Its name in the table.
        proxies: The proxies that must be measured.
        compute: Computes the scores of the row from the measured ones; higher is better.
        published: The numbers of the paper: task by task, and for each task statistic by statistic.
        note: A remark.
        alternative: Whether it is a variant of a row with the same published numbers.
    """

    label: str
    proxies: tuple[str, ...]
    compute: Callable[[Sample], Scores]
    published: tuple[float | None, ...]
    note: str = ""
    alternative: bool = False


def make_proxy_row(
    label: str, proxy: str, published: tuple[float | None, ...], note: str = ""
) -> CorrelationRow:
    """Return a row that shows a single proxy."""

    def read_scores(sample: Sample) -> Scores:
        return sample.get_oriented_scores(proxy)

    return CorrelationRow(label, (proxy,), read_scores, published, note)


def make_correlation_table(
    config: ExperimentConfig,
    tasks: Sequence[BenchmarkTask],
    rows: Sequence[CorrelationRow],
    statistics: Sequence[str] = ("Spearman",),
    differences: Sequence[tuple[str, str]] = (),
    rank_labels: Sequence[str] = (),
) -> Findings:
    """Correlate every row with the accuracies of every task.

    Args:
        config: Number of architectures and seeds, folder, device.
        tasks: The columns of the table.
        rows: The rows of the table.
        statistics: Names of the correlations.
        differences: Pairs of labels of rows; a line shows by how much the first correlation exceeds
            the second one, by the first statistic.
        rank_labels: Labels of rows; a line shows the rank of each among all rows, by the first
            statistic.
    """
    names: dict[str, None] = {}  # a dict keeps the order and has each proxy once
    for row in rows:
        names.update(dict.fromkeys(row.proxies))
    lines: list[TableLine] = []
    deviations: list[str] = []
    for column, task in enumerate(tasks):
        # All rows of a task are measured together: networks are built once.
        sample = measure_sample(config, list(names), task)
        deviations += sample.deviations
        rows_with_scores = [row for row in rows if sample.have_scores(*row.proxies)]
        for row in rows:
            # Without scores, rows of the paper are shown without a value; variants are left out.
            if row.alternative and row not in rows_with_scores:
                continue
            lines += _make_row_lines(task, sample, row, column, statistics)
        labels = {row.label for row in rows_with_scores}
        pairs = [pair for pair in differences if labels.issuperset(pair)]
        lines += _make_difference_lines(task, sample, rows, pairs, statistics[0])
        # A rank among all rows is only known if all rows have scores.
        if all(row in rows_with_scores for row in rows if not row.alternative):
            lines += _make_rank_lines(task, sample, rows, rank_labels, column, statistics)
    return Findings(tuple(lines), tuple(deviations))


def _make_row_lines(
    task: BenchmarkTask,
    sample: Sample,
    row: CorrelationRow,
    column: int,
    statistics: Sequence[str],
) -> list[TableLine]:
    """Correlate a row with the accuracies of a task; return one line per statistic.

    Args:
        task: The task.
        sample: Its architectures, scores and accuracies.
        row: The row.
        column: Position of the task among all tasks, which is that of its published numbers.
        statistics: Names of the correlations.
    """
    lines = []
    for index, name in enumerate(statistics):
        what = f"{task.label}, {row.label}"
        if len(statistics) > 1:
            what = f"{what}, {name}"
        statistic = STATISTICS[name]
        published_scores = ""
        if len(row.proxies) == 1:
            published_scores = describe_published_scores(sample, row.proxies[0], statistic)
        note = join_notes(row.note, sample.describe_failures(*row.proxies), published_scores)
        number = row.published[column * len(statistics) + index]
        scores = sample.rank_failures(row.compute(sample), *row.proxies)
        line = make_correlation_line(what, number, statistic, scores, sample.accuracies, note)
        lines.append(replace(line, alternative=row.alternative))
    return lines


def _make_difference_lines(
    task: BenchmarkTask,
    sample: Sample,
    rows: Sequence[CorrelationRow],
    differences: Sequence[tuple[str, str]],
    statistic_name: str,
) -> list[TableLine]:
    """Compare the correlations of pairs of rows on the same architectures."""
    rows_by_label = {row.label: row for row in rows}
    lines = []
    for first, second in differences:
        what = f"{task.label}, {first} minus {second}, {statistic_name}"
        pair = []
        for label in (first, second):
            row = rows_by_label[label]
            pair.append(sample.rank_failures(row.compute(sample), *row.proxies))
        scores, other_scores = pair
        statistic = STATISTICS[statistic_name]
        lines.append(make_gain_line(what, statistic, scores, other_scores, sample.accuracies))
    return lines


def _make_rank_lines(
    task: BenchmarkTask,
    sample: Sample,
    rows: Sequence[CorrelationRow],
    rank_labels: Sequence[str],
    column: int,
    statistics: Sequence[str],
) -> list[TableLine]:
    """Return the rank of rows among all rows that are not variants; 1 is the best correlation.

    Equal correlations share the better rank.
    """
    candidates = [row for row in rows if not row.alternative]
    published = {}
    ours = {}
    for row in candidates:
        published[row.label] = row.published[column * len(statistics)]
        scores = sample.rank_failures(row.compute(sample), *row.proxies)
        line = make_correlation_line("", None, STATISTICS[statistics[0]], scores, sample.accuracies)
        ours[row.label] = line.ours
    lines = []
    for label in rank_labels:
        what = f"{task.label}, place of {label} among {len(candidates)}"
        published_rank = find_rank(published, label)
        line = TableLine(what, published_rank, find_rank(ours, label), better="lower")
        # A rank follows from the correlations, which are counted already.
        lines.append(replace(line, alternative=True))
    return lines


def find_rank(values: Mapping[str, float | None], label: str) -> float | None:
    """Return the rank of a value among all values, 1 for the largest; None if it is missing."""
    value = values[label]
    if value is None:
        return None
    return 1.0 + sum(other is not None and other > value for other in values.values())


def describe_published_scores(sample: Sample, proxy: str, statistic: Statistic) -> str:
    """Return the correlation of published scores of a proxy, if the table contains such scores.

    Published scores were measured with other code on other batches. If our correlation is
    surprising, they show whether the table or our implementation is the reason.

    Returns:
        A remark such as "published scores 0.57 (n = 4,096)"; empty without such scores.
    """
    table = sample.truth.table
    metric = sample.truth.metric
    candidates = []
    for score in table.scores:
        if score.proxy == proxy and score.dataset == metric.dataset:
            candidates.append(score)
    if not candidates:
        return ""
    # If several columns of scores are published, the most complete one is used.
    most_complete = max(candidates, key=table.count_values)
    x, y = _drop_missing(table.read_column(most_complete), table.read_column(metric))
    if len(x) < MIN_PUBLISHED_SCORES:
        return ""
    value = statistic(x, y)
    if value is None:
        return ""
    # The sign is that of the correlation if both are oriented so that higher is better.
    if most_complete.higher_is_better != metric.higher_is_better:
        value = -value
    return f"published scores {value:.2f} (n = {len(x):,})"


def parse_table(text: str) -> PublishedTable:
    """Parse a table whose lines have a name and numbers, in which `-` is a missing number."""
    table: PublishedTable = {}
    for line in text.strip().splitlines():
        name, *words = line.split()
        numbers = []
        for word in words:
            numbers.append(None if word == "-" else float(word))
        table[name] = tuple(numbers)
    return table


def split_into_bins(values: Scores) -> list[NDArray[np.intp]]:
    """Split the indices of values, in ascending order, into at most 20 bins of at least three.

    Missing values are left out.
    """
    finite_count = int(np.isfinite(values).sum())
    order = np.argsort(values)[:finite_count]  # NaN comes last
    bins = max(1, min(BINS, len(order) // 3))
    return np.array_split(order, bins)

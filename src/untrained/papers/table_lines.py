"""From measurements to the lines of a table: correlations and means, with intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.statistics import Statistic, between, kendall, pearson, resampled, spearman
from untrained.papers.experiment import ExperimentConfig, Findings
from untrained.papers.samples import Place, Sample, Scores, look
from untrained.reports.reproduction_facts import TableLine
from untrained.rng import generator
from untrained.studies._judge import estimated

BINS = 20
ENOUGH = 30  # scores of others that are worth a word
STATISTICS = {"Spearman": spearman, "Kendall": kendall, "Pearson": pearson}


def line(what: str, published: float | None, statistic: Statistic, x: Scores, y: Scores, note: str = "") -> TableLine:
    """A statistic of two kinds of scores, seed by seed; (1, architectures) holds for all seeds."""
    seeds = max(len(x), len(y))
    pairs = [_known(x[min(k, len(x) - 1)], y[min(k, len(y) - 1)]) for k in range(seeds)]
    found = estimated(statistic, pairs)
    if found is None:
        return TableLine(what, published, None, note="; ".join(filter(None, (note, "not defined on this sample"))))
    return TableLine(what, published, found.value, found.low, found.high, found.spread, note)


def gain_line(what: str, statistic: Statistic, x: Scores, before: Scores, y: Scores) -> TableLine:
    """How much more of a statistic the scores have than those before, on architectures that have both; the mean over
    seeds. The interval is that of the difference: the same architectures are drawn for both."""
    gains = [_gain(statistic, new, old, y[0]) for new, old in zip(x, before, strict=True)]
    known = [gain for gain in gains if gain]
    if not known:
        return TableLine(what, None, None, note="not defined on this sample")
    return TableLine(what, None, *np.mean(known, axis=0).tolist())


def _gain(statistic: Statistic, new: Scores, old: Scores, y: Scores) -> tuple[float, float, float] | None:
    both = np.isfinite(new) & np.isfinite(old) & np.isfinite(y)
    after, before = (statistic(side[both], y[both]) for side in (new, old))
    more, less = (
        resampled(statistic, side[both], y[both], generator("bootstrap", "gain", statistic.name)) for side in (new, old)
    )
    if after is None or before is None or more is None or less is None:
        return None
    sides = between(more - less)
    return (after - before, *sides) if sides else None


def mean_line(what: str, published: float | None, scores: Scores, note: str = "") -> TableLine:
    """The mean over architectures that have a score on every seed, with 1.96 standard errors to either side."""
    good = scores[:, np.isfinite(scores).all(0)]
    seeds, n = good.shape
    if n < 2:
        return TableLine(what, published, float(good.mean()) if n else None, note=note)
    mean, error = float(good.mean()), 1.96 * float(good.mean(0).std(ddof=1)) / sqrt(n)
    spread = float(good.mean(1).std(ddof=1)) if seeds > 1 else None
    return TableLine(what, published, mean, mean - error, mean + error, spread, note)


def _known(x: Scores, y: Scores) -> tuple[list[float], list[float]]:
    both = np.isfinite(x) & np.isfinite(y)
    return x[both].tolist(), y[both].tolist()


@dataclass(frozen=True)
class Row:
    """One row of a table of correlations: what it is called, how it comes from what is measured, and its numbers."""

    label: str
    needs: tuple[str, ...]
    of: Callable[[Sample], Scores]
    published: tuple[float | None, ...]  # place by place, and for each statistic by statistic
    note: str = ""


def row(label: str, proxy: str, published: tuple[float | None, ...], note: str = "") -> Row:
    """A row that is one proxy."""
    return Row(label, (proxy,), partial(_better, proxy), published, note)


def _better(proxy: str, sample: Sample) -> Scores:
    return sample.better(proxy)


def correlations(
    effort: ExperimentConfig, places: Sequence[Place], rows: Sequence[Row], statistics: Sequence[str] = ("Spearman",)
) -> Findings:
    """A table of correlations with the truth: rows are measures, columns are places."""
    needs = list(dict.fromkeys(need for each in rows for need in each.needs))
    lines: list[TableLine] = []
    deviations: list[str] = []
    for column_, place in enumerate(places):
        sample = look(effort, needs, place)
        deviations += sample.deviations
        for each in rows:
            for k, name in enumerate(statistics):
                what = ", ".join((place.label, each.label) + ((name,) if len(statistics) > 1 else ()))
                others = by_others(sample, each.needs[0], STATISTICS[name]) if len(each.needs) == 1 else ""
                said = "; ".join(filter(None, (each.note, sample.failed(*each.needs), others)))
                number = each.published[column_ * len(statistics) + k]
                lines.append(line(what, number, STATISTICS[name], each.of(sample), sample.reached, said))
    return Findings(tuple(lines), tuple(deviations))


def by_others(sample: Sample, proxy: str, statistic: Statistic) -> str:
    """What the scores that others left in the table reach on all of its architectures that have one; empty where there
    are none. They are measured by other code on other batches, so they tell a strange table from a mistake of ours."""
    table, metric = sample.truth.table, sample.truth.metric
    known = [score for score in table.scores if score.proxy == proxy and score.dataset == metric.dataset]
    if not known:
        return ""
    theirs = max(known, key=table.count)
    x, y = _known(table.column(theirs), table.column(metric))
    found = statistic(x, y) if len(x) >= ENOUGH else None
    sign = 1 if theirs.higher_is_better == metric.higher_is_better else -1
    return "" if found is None else f"by others {sign * found:.2f} ({len(x):,})"


def grid(text: str) -> dict[str, tuple[float | None, ...]]:
    """A table as it is printed: a line is one word and its numbers; `-` is no number."""
    rows = [said.split() for said in text.strip().splitlines()]
    return {name: tuple(None if value == "-" else float(value) for value in values) for name, *values in rows}


def binned(values: Scores) -> list[NDArray[np.intp]]:
    """Places of the values in ascending order, in at most 20 groups of at least three; those without a value are left
    out."""
    order = np.argsort(values)[: int(np.isfinite(values).sum())]  # NaN comes last
    return np.array_split(order, max(1, min(BINS, len(order) // 3)))

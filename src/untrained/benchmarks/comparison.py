"""Compare the scores of proxies with known results: statistics, intervals, failures.

The ground truth is what a score should predict: a published accuracy, or the result of a short
training.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, stdev
from typing import Literal, get_args

from untrained.benchmarks.result import Estimate, ProxyResult
from untrained.benchmarks.statistics import (
    STATISTICS,
    Statistic,
    bootstrap_interval,
    orient_score,
    size_controlled,
    spearman,
)
from untrained.errors import make_unknown_name_error
from untrained.seeds import make_generator
from untrained.types import Arch, Failure, Record

# One number per architecture, such as the scores of one seed; None if it is missing.
ScoreColumn = tuple[float | None, ...]

# Whether statistics omit architectures without a score, or rank them last.
FailureRule = Literal["omit", "last"]
FAILURE_RULES: tuple[FailureRule, ...] = get_args(FailureRule)

# The baselines that say how large an architecture is.
SIZE_BASELINES = ("params", "flops")


@dataclass(frozen=True)
class ProxyScores:
    """The scores of one proxy for all architectures.

    Attributes:
        proxy: Name of the proxy.
        about: What it measures, in one sentence.
        kind: As in `ProxyResult`.
        higher_is_better: The direction of the scores.
        by_seed: The scores of each seed.
        cost: Cost in forward passes; None if unknown.
        failures: Number of failed architectures by kind.
        failure_example: Kind and reason of one failure; empty if there is none.
        partial: Whether a seed may lack scores of some architectures, as published runs do.
    """

    proxy: str
    about: str
    kind: str
    higher_is_better: bool
    by_seed: tuple[ScoreColumn, ...]
    cost: float | None = None
    failures: dict[str, int] | None = None
    failure_example: str = ""
    partial: bool = False

    @property
    def means(self) -> ScoreColumn:
        """Mean over seeds per architecture.

        An architecture that failed on any seed has no mean, unless seeds are partial.
        """
        required = len(self.by_seed)
        if self.partial:
            required = 1
        means: list[float | None] = []
        for arch_scores in zip(*self.by_seed, strict=True):
            scores = [score for score in arch_scores if score is not None]
            means.append(fmean(scores) if len(scores) >= required else None)
        return tuple(means)


def collect_scores(
    records: Sequence[Record], measure: str, archs: Sequence[Arch], seeds: Sequence[int]
) -> tuple[tuple[ScoreColumn, ...], dict[str, int]]:
    """Arrange the records of a measure by seed and architecture.

    Args:
        records: Records of all measures, one per architecture, seed and measure.
        measure: The measure to collect.
        archs: Architectures, in the order of the result.
        seeds: Seeds, in the order of the result.

    Returns:
        The scores of each seed, and the number of failed architectures by kind. The first failure
        of an architecture counts.
    """
    by_arch_and_seed = {}
    for record in records:
        if record.measure == measure:
            by_arch_and_seed[record.arch, record.seed] = record
    by_seed = []
    for seed in seeds:
        by_seed.append(tuple(by_arch_and_seed[arch, seed].value for arch in archs))
    kinds: Counter[str] = Counter()
    for arch in archs:
        failure = _find_first_failure([by_arch_and_seed[arch, seed] for seed in seeds])
        if failure:
            kinds[failure.kind] += 1
    return tuple(by_seed), dict(kinds)


def find_failure_example(records: Iterable[Record], measure: str) -> str:
    """Return kind and reason of the first failure of a measure; empty if there is none."""
    failure = _find_first_failure(record for record in records if record.measure == measure)
    return str(failure) if failure else ""


def _find_first_failure(records: Iterable[Record]) -> Failure | None:
    for record in records:
        if record.error:
            return record.error
    return None


def parse_failure_rule(text: str) -> FailureRule:
    """Return the rule of this name.

    Raises:
        UsageError: There is no such rule.
    """
    for rule in FAILURE_RULES:
        if rule == text:
            return rule
    raise make_unknown_name_error("rule for failures", text, FAILURE_RULES)


def rank_failures_last(by_seed: Sequence[ScoreColumn], higher_is_better: bool) -> list[ScoreColumn]:
    """Replace missing scores by one that is worse than all others.

    Args:
        by_seed: The scores of each seed.
        higher_is_better: The direction of the scores.
    """
    scores = [score for seed_scores in by_seed for score in seed_scores if score is not None]
    if not scores:
        return list(by_seed)
    if higher_is_better:
        worst = min(scores) - 1.0
    else:
        worst = max(scores) + 1.0
    filled: list[ScoreColumn] = []
    for seed_scores in by_seed:
        filled.append(tuple(worst if score is None else score for score in seed_scores))
    return filled


def collect_sizes(columns: Iterable[ProxyScores]) -> tuple[ScoreColumn, ...]:
    """Return the sizes of architectures, parameters and FLOPs, for `compare_with_truth`.

    The size-controlled correlation compares ranks, so it needs no logarithm of the sizes.

    Args:
        columns: Scores of all proxies and baselines.

    Returns:
        One column per size; empty if a baseline is missing.
    """
    sizes = []
    for column in columns:
        if column.kind == "baseline" and column.proxy in SIZE_BASELINES:
            sizes.append(column.means)
    if len(sizes) < len(SIZE_BASELINES):
        return ()
    return tuple(sizes)


def compare_with_truth(
    scores: ProxyScores,
    truth: Sequence[float],
    seed: int = 0,
    sizes: Sequence[ScoreColumn] = (),
) -> ProxyResult:
    """Compute every statistic of a proxy.

    Args:
        scores: The scores of the proxy.
        truth: The ground truth of the same architectures; higher is better.
        seed: Seed of the bootstrap.
        sizes: Sizes of the same architectures. Without them, the size-controlled correlation is
            undefined.

    Returns:
        Statistics with their mean over seeds, interval over architectures and spread over seeds.
    """
    pairs = []
    for seed_scores in scores.by_seed:
        pairs.append(_pair_with_truth(seed_scores, truth, scores.higher_is_better))
    statistics = {}
    for statistic in STATISTICS:
        statistics[statistic.name] = estimate_statistic(statistic, pairs, seed)
    statistics[size_controlled.name] = _estimate_size_controlled(scores, truth, seed, sizes)
    means = scores.means
    return ProxyResult(
        proxy=scores.proxy,
        about=scores.about,
        kind=scores.kind,
        higher_is_better=scores.higher_is_better,
        cost=scores.cost,
        n=sum(score is not None for score in means),
        failures=scores.failures or {},
        failure_example=scores.failure_example,
        statistics=statistics,
        scores=means,
    )


def sort_results(results: Iterable[ProxyResult]) -> tuple[ProxyResult, ...]:
    """Sort by rank correlation, best first; results without one come last."""

    def sort_key(result: ProxyResult) -> float:
        estimate = result.statistics["spearman"]
        return -estimate.value if estimate else inf

    return tuple(sorted(results, key=sort_key))


def describe_baseline_on_scored_archs(
    results: Sequence[ProxyResult], truth: Sequence[float], baseline: str = "params"
) -> str:
    """Describe how well a baseline ranks the architectures that the best proxy could score.

    Broken networks are easy to rank last. A proxy that cannot score them is compared on the other,
    harder architectures, whereas a baseline that scores all networks profits from the easy ones.

    Args:
        results: Results of all proxies, best first.
        truth: The ground truth of all architectures.
        baseline: Name of the baseline.

    Returns:
        One sentence. It is empty if the best proxy scored all architectures, or if there is no
        such baseline.
    """
    best = None
    for result in results:
        if result.kind == "proxy" and result.statistics["spearman"]:
            best = result
            break
    by_name = {result.proxy: result for result in results}
    if best is None or baseline not in by_name or best.n == len(truth):
        return ""
    baseline_scores = []
    shared_truth = []
    for score, baseline_score, value in zip(
        best.scores, by_name[baseline].scores, truth, strict=True
    ):
        if score is not None and baseline_score is not None:
            baseline_scores.append(baseline_score)
            shared_truth.append(value)
    correlation = spearman(baseline_scores, shared_truth)
    if correlation is None:
        return ""
    return (
        f"On the {len(shared_truth):,} architectures that {best.proxy} can score, "
        f"{baseline} has a rank correlation of {correlation:.3f}."
    )


def _estimate_size_controlled(
    scores: ProxyScores, truth: Sequence[float], seed: int, sizes: Sequence[ScoreColumn]
) -> Estimate | None:
    """Estimate the size-controlled correlation from the architectures that have all sizes."""
    pairs = []
    controls = []
    for seed_scores in scores.by_seed:
        sized_scores = _drop_scores_without_size(seed_scores, sizes)
        pairs.append(_pair_with_truth(sized_scores, truth, scores.higher_is_better))
        seed_controls = []
        for column in sizes:
            control = []
            for score, size in zip(sized_scores, column, strict=True):
                if score is not None and size is not None:
                    control.append(size)
            seed_controls.append(control)
        controls.append(seed_controls)
    return estimate_statistic(size_controlled, pairs, seed, controls)


def _drop_scores_without_size(scores: ScoreColumn, sizes: Sequence[ScoreColumn]) -> ScoreColumn:
    """Return the scores, with None for architectures that lack a size."""
    sized_scores: list[float | None] = []
    for index, score in enumerate(scores):
        arch_sizes = [column[index] for column in sizes]
        if None in arch_sizes:
            sized_scores.append(None)
        else:
            sized_scores.append(score)
    return tuple(sized_scores)


def estimate_statistic(
    statistic: Statistic,
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]],
    seed: int = 0,
    controls: Sequence[Sequence[Sequence[float]]] = (),
) -> Estimate | None:
    """Estimate a statistic from scores of several seeds.

    Value and interval are averaged over the seeds, so they say what to expect of a run with a
    single seed.

    Args:
        statistic: The statistic.
        pairs: Scores, oriented so that higher is better, and the ground truth; one pair per seed.
        seed: Seed of the bootstrap.
        controls: The controls of the same architectures, one list of columns per pair; empty for a
            statistic without controls.

    Returns:
        The estimate, or None if the statistic is undefined for every seed.
    """
    if not controls:
        controls = [()] * len(pairs)
    values = []
    for (scores, truth), pair_controls in zip(pairs, controls, strict=True):
        value = statistic(scores, truth, pair_controls)
        if value is not None:
            values.append(value)
    if not values:
        return None
    lows = []
    highs = []
    for (scores, truth), pair_controls in zip(pairs, controls, strict=True):
        # All seeds use the same resamples.
        rng = make_generator("bootstrap", statistic.name, seed)
        interval = bootstrap_interval(statistic, scores, truth, rng, controls=pair_controls)
        if interval:
            lows.append(interval[0])
            highs.append(interval[1])
    return Estimate(
        value=fmean(values),
        low=fmean(lows) if lows else None,
        high=fmean(highs) if highs else None,
        spread=stdev(values) if len(values) > 1 else None,
    )


def _pair_with_truth(
    scores: ScoreColumn, truth: Sequence[float], higher_is_better: bool
) -> tuple[list[float], list[float]]:
    """Return scores, oriented so that higher is better, and their ground truth."""
    oriented = []
    shared_truth = []
    for score, value in zip(scores, truth, strict=True):
        if score is not None:
            oriented.append(orient_score(score, higher_is_better))
            shared_truth.append(value)
    return oriented, shared_truth

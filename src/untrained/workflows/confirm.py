"""Confirm a search by short trainings: did the proxy help on these data?

The best of a finished search by its proxy, as many by parameters and as many random ones from the
same records are trained briefly with equal budgets and compared. The best of all becomes the winner
of the run.

On a table of clicks they are trained with the recipe for tables, the one with the least log loss on
the validation part wins, and hand-designed networks are compared with it (`references.py`).

A few trainings per group can refute a proxy or show a large gain, not more, and the report says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb, sqrt
from statistics import fmean, variance
from time import perf_counter

from untrained.config import ComputeConfig
from untrained.data import DataSource
from untrained.data.parts import TRAIN
from untrained.progress import ProgressCallback
from untrained.proxies import load_proxy
from untrained.reports.confirmation_result import Confirmation, Contrast, TrainedGroup
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import Ranking, compute_t_quantile
from untrained.seeds import derive_seed, make_generator
from untrained.spaces import Space
from untrained.training.short_training import SHORT_TRAINING
from untrained.types import Arch, Record
from untrained.workflows.references import TrainingTrials, shorten_recipe, thin_part
from untrained.workflows.score_architectures import score_architectures

EPOCHS = 3
MAX_SAMPLES = 1500
STORE = "confirmed.sqlite"
# Two groups are split in all possible ways up to this number, else in so many random ways.
MAX_SPLITS = 20_000

_GROUP_TEXTS = {
    "params": "the largest of the same records",
    "random": "drawn from the same records",
}


def confirm(
    run: RunFolder,
    ranking: Ranking,
    records: Sequence[Record],
    space: str | Space,
    source: DataSource,
    count: int,
    compute: ComputeConfig,
    on_progress: ProgressCallback | None = None,
) -> Confirmation | None:
    """Train the best architectures by score, by parameters and random ones; save which one wins.

    Args:
        run: The run folder of the search.
        ranking: Its ranking.
        records: Its records.
        space: The space, or its name.
        source: The data.
        count: Number of architectures per group.
        compute: Device, workers and time limit.
        on_progress: Called after every training.

    Returns:
        The confirmation, or None if no training finished.
    """
    groups = choose_groups(ranking, records, count, run)
    archs: list[Arch] = []
    for group in groups.values():
        archs += [arch for arch in group if arch not in archs]
    if source.task.loss == "bce":
        return _confirm_on_table(groups, archs, run, space, source, compute, on_progress)
    # Only the training part is used: on the others the winner is evaluated later.
    samples = min(MAX_SAMPLES, len(source.parts[TRAIN]))
    training_name = f"{SHORT_TRAINING}(epochs={EPOCHS},samples={samples})"
    training = load_proxy(training_name)
    work = score_architectures(
        space,
        archs,
        [training],
        source,
        (run.config.seed,),
        compute,
        run.folder / STORE,
        {training.measure: training_name},
        on_progress,
        stage="confirming",
    )
    accuracies = {}
    for record in work.records:
        if record.value is not None:
            accuracies[record.arch] = 100 * record.value
    if not accuracies:
        return None
    confirmation = conclude_confirmation(
        groups, accuracies, accuracies, run, (EPOCHS, samples), work.seconds
    )
    return confirmation.save(run.folder)


def _confirm_on_table(
    groups: dict[str, list[Arch]],
    archs: Sequence[Arch],
    run: RunFolder,
    space: str | Space,
    source: DataSource,
    compute: ComputeConfig,
    on_progress: ProgressCallback | None,
) -> Confirmation | None:
    """Confirm on a table of clicks, and compare the winner with hand-designed networks."""
    start = perf_counter()
    config = run.config
    trials = TrainingTrials(
        space, config.data, source, config.seed, compute, run.folder, on_progress
    )
    results = trials.validate(archs)
    if not results:
        return None
    values = {arch: -result["loss"] for arch, result in results.items()}
    aucs = {arch: 100 * result["auc"] for arch, result in results.items()}
    rows = len(thin_part(source.parts[TRAIN]))
    effort = (shorten_recipe(rows).epochs, rows)
    confirmation = conclude_confirmation(groups, aucs, values, run, effort, perf_counter() - start)
    # Saved before the long comparison, so that an interruption does not lose the winner.
    confirmation.save(run.folder)
    winner = max(values, key=lambda arch: values[arch])
    entries = trials.compare_with_references(winner)
    confirmation = replace(confirmation, entries=entries, seconds=perf_counter() - start)
    return confirmation.save(run.folder)


def choose_groups(
    ranking: Ranking, records: Sequence[Record], count: int, run: RunFolder
) -> dict[str, list[Arch]]:
    """Choose what to train: the best by score, the largest, and random ones of the ranking.

    Each architecture has a random number of its own, so that one that drops out does not change
    the choice of the others.

    Returns:
        Non-empty groups by name; the group of the proxy is the first.
    """
    ranked = [standing.arch for standing in ranking.standings]
    sizes = {}
    for record in records:
        if record.proxy == "params" and record.value is not None:
            sizes[record.arch] = record.value
    measured = [arch for arch in ranked if arch in sizes]
    largest = sorted(measured, key=lambda arch: -sizes[arch])
    config = run.config
    lots = {}
    for arch in ranked:
        lots[arch] = derive_seed("confirm", config.data, config.seed, arch.space, arch)
    drawn = sorted(ranked, key=lambda arch: lots[arch])[:count]
    groups = {
        config.score_name: ranked[:count],
        "params": largest[:count],
        "random": sorted(drawn, key=ranked.index),
    }
    return {name: group for name, group in groups.items() if group}


def conclude_confirmation(
    groups: Mapping[str, Sequence[Arch]],
    reached: Mapping[Arch, float],
    values: Mapping[Arch, float],
    run: RunFolder,
    effort: tuple[int, int],
    seconds: float,
) -> Confirmation:
    """Name the winner and compare the groups.

    Args:
        groups: Architectures by group; that of the proxy is the first.
        reached: What finished trainings reached, in per cent.
        values: What decides the winner, higher is better. The first of equal ones wins.
        run: The run folder.
        effort: Epochs and samples of each training.
        seconds: Duration of all trainings.
    """
    finished = []
    for archs in groups.values():
        finished += [arch for arch in archs if arch in reached]
    winner = max(finished, key=lambda arch: values[arch])
    group_facts = []
    winner_groups = []
    for name, archs in groups.items():
        about = _GROUP_TEXTS.get(name, "the best of the ranking")
        results = tuple(reached.get(arch) for arch in archs)
        group_facts.append(TrainedGroup(name, about, tuple(str(arch) for arch in archs), results))
        if winner in archs:
            winner_groups.append(name)
    first = group_facts[0]
    contrasts = []
    for other in group_facts[1:]:
        if first.finished and other.finished:
            contrasts.append(compare_groups(first, other))
    epochs, samples = effort
    return Confirmation(
        winner=str(winner),
        reached=reached[winner],
        by=tuple(winner_groups),
        groups=tuple(group_facts),
        contrasts=tuple(contrasts),
        epochs=epochs,
        samples=samples,
        data=run.config.data,
        seconds=seconds,
        question=run.question,
    )


def compare_groups(first: TrainedGroup, other: TrainedGroup) -> Contrast:
    """Compare the means of two groups, with a 95 % interval and a permutation test."""
    a = first.finished
    b = other.finished
    difference = fmean(a) - fmean(b)
    low = None
    high = None
    smaller = min(len(a), len(b))
    if smaller > 1:
        standard_error = sqrt(variance(a) / len(a) + variance(b) / len(b))
        half_width = compute_t_quantile(smaller) * standard_error
        low = difference - half_width
        high = difference + half_width
    shared = len(set(first.archs) & set(other.archs))
    return Contrast(other.name, difference, low, high, compute_permutation_p(a, b), shared)


def compute_permutation_p(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return the p-value of a permutation test of the difference of two means.

    It is the share of all splits into groups of these sizes whose means differ at least as much.
    None if a group has fewer than two values.
    """
    n = len(a)
    m = len(b)
    if min(n, m) < 2:
        return None
    values = [*a, *b]
    splits: list[set[int]] = []
    if comb(n + m, n) <= MAX_SPLITS:
        splits = [set(split) for split in combinations(range(n + m), n)]
    else:
        rng = make_generator("splits", n, m)
        for _ in range(MAX_SPLITS):
            splits.append(set(rng.permutation(n + m)[:n].tolist()))
    observed = abs(fmean(a) - fmean(b))
    total = sum(values)
    as_large = 0
    for split in splits:
        inside = sum(values[index] for index in split)
        difference = abs(inside / n - (total - inside) / m)
        # Rounding must not exclude the observed split itself.
        if difference >= observed - 1e-9:
            as_large += 1
    return as_large / len(splits)

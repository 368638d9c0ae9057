"""Confirm a search by short trainings: did the proxy help on these data?

After a search, three groups of the same size are trained briefly and compared: the best
architectures by the proxy, the largest ones and random ones, all from the same records. The best
architecture of all groups becomes the winner of the run.

On a table of clicks, the networks are trained with the recipe for tables. The one with the lowest
log loss on the validation part wins and is compared with hand-designed networks (`references.py`).

A few trainings per group can only refute a proxy or show a large gain, and the report says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
# If there are at most this many ways to split the results into two groups, all are compared, else
# this many random ones.
MAX_SPLITS = 20_000

_GROUP_TEXTS = {
    "params": "the largest of the same records",
    "random": "sampled from the same records",
}


@dataclass(frozen=True)
class ConfirmationTrainings:
    """The short trainings of a confirmation.

    Attributes:
        results: Accuracy or AUC in per cent, of the trainings that finished.
        scores: The scores that decide the winner, by architecture; higher is better.
        epochs: Length of each training.
        samples: Number of samples that each training sees.
        seconds: Duration of all trainings.
    """

    results: Mapping[Arch, float]
    scores: Mapping[Arch, float]
    epochs: int
    samples: int
    seconds: float


def confirm_ranking(
    run: RunFolder,
    ranking: Ranking,
    records: Sequence[Record],
    space: str | Space,
    source: DataSource,
    on_progress: ProgressCallback | None = None,
) -> Confirmation | None:
    """Briefly train the best, the largest and random architectures, and save which one wins.

    Args:
        run: The run folder of the search. Its config says how many architectures per group.
        ranking: The ranking of the search.
        records: The records of the search.
        space: The space, or its name.
        source: The data.
        on_progress: Called after every training.

    Returns:
        The confirmation, or None if no training finished.

    Raises:
        Interrupted: Ctrl-C was pressed. Finished trainings stay.
    """
    groups = choose_groups(ranking, records, run.config.confirm, run)
    archs: list[Arch] = []
    for group in groups.values():
        for arch in group:
            if arch not in archs:
                archs.append(arch)
    if source.task.loss == "bce":
        return _confirm_on_table(run, groups, archs, space, source, on_progress)
    trainings = _train_on_images(run, archs, space, source, on_progress)
    if not trainings.results:
        return None
    return conclude_confirmation(groups, trainings, run).save(run.folder)


def _train_on_images(
    run: RunFolder,
    archs: Sequence[Arch],
    space: str | Space,
    source: DataSource,
    on_progress: ProgressCallback | None,
) -> ConfirmationTrainings:
    """Train architectures briefly on samples of the training part."""
    # The other parts are not used: the winner is evaluated on them later.
    samples = min(MAX_SAMPLES, len(source.parts[TRAIN]))
    training_name = f"{SHORT_TRAINING}(epochs={EPOCHS},samples={samples})"
    training = load_proxy(training_name)
    scoring = score_architectures(
        space,
        archs,
        [training],
        source,
        (run.config.seed,),
        _choose_compute(run),
        run.folder / STORE,
        {training.measure: training_name},
        on_progress,
        stage="confirming",
    )
    accuracies = {}
    for record in scoring.records:
        if record.value is not None:
            accuracies[record.arch] = 100 * record.value
    return ConfirmationTrainings(accuracies, accuracies, EPOCHS, samples, scoring.seconds)


def _confirm_on_table(
    run: RunFolder,
    groups: Mapping[str, Sequence[Arch]],
    archs: Sequence[Arch],
    space: str | Space,
    source: DataSource,
    on_progress: ProgressCallback | None,
) -> Confirmation | None:
    """Confirm on a table of clicks, and compare the winner with hand-designed networks."""
    start = perf_counter()
    config = run.config
    compute = _choose_compute(run)
    trials = TrainingTrials(
        space, config.data, source, config.seed, compute, run.folder, on_progress
    )
    results = trials.validate(archs)
    if not results:
        return None
    aucs = {}
    scores = {}
    for arch, result in results.items():
        aucs[arch] = 100 * result["auc"]
        scores[arch] = -result["loss"]
    rows = len(thin_part(source.parts[TRAIN]))
    epochs = shorten_recipe(rows).epochs
    trainings = ConfirmationTrainings(aucs, scores, epochs, rows, perf_counter() - start)
    confirmation = conclude_confirmation(groups, trainings, run)
    # Saved before the long comparison, so that an interruption does not lose the winner.
    confirmation.save(run.folder)
    winner = max(scores, key=lambda arch: scores[arch])
    entries = trials.compare_with_references(winner)
    confirmation = replace(confirmation, entries=entries, seconds=perf_counter() - start)
    return confirmation.save(run.folder)


def _choose_compute(run: RunFolder) -> ComputeConfig:
    """Return the compute settings of the search, with one network per batch for training."""
    return replace(run.config.compute, networks_per_batch=1)


def choose_groups(
    ranking: Ranking, records: Sequence[Record], count: int, run: RunFolder
) -> dict[str, list[Arch]]:
    """Choose what to train: the best by score, the largest, and random ones of the ranking.

    Args:
        ranking: The ranking of a search.
        records: Its records.
        count: Number of architectures per group.
        run: Its run folder.

    Returns:
        Non-empty groups by name; the group of the proxy is the first.
    """
    ranked = [standing.arch for standing in ranking.standings]
    sizes = {}
    for record in records:
        if record.proxy == "params" and record.value is not None:
            sizes[record.arch] = record.value
    with_size = [arch for arch in ranked if arch in sizes]
    largest_first = sorted(with_size, key=lambda arch: -sizes[arch])
    config = run.config
    # Each architecture has a random number of its own, so that the choice of the others stays the
    # same if one drops out.
    random_numbers = {}
    for arch in ranked:
        random_numbers[arch] = derive_seed("confirm", config.data, config.seed, arch.space, arch)
    random_order = sorted(ranked, key=lambda arch: random_numbers[arch])
    groups = {
        config.score_name: ranked[:count],
        "params": largest_first[:count],
        "random": sorted(random_order[:count], key=ranked.index),
    }
    return {name: group for name, group in groups.items() if group}


def conclude_confirmation(
    groups: Mapping[str, Sequence[Arch]], trainings: ConfirmationTrainings, run: RunFolder
) -> Confirmation:
    """Choose the winner and compare the groups.

    Args:
        groups: Architectures by group; that of the proxy is the first.
        trainings: Their trainings, of which at least one has finished.
        run: The run folder.

    Returns:
        The confirmation, which is not saved yet.
    """
    finished = []
    for archs in groups.values():
        finished += [arch for arch in archs if arch in trainings.results]
    # Of equally good architectures, the first one wins.
    winner = max(finished, key=lambda arch: trainings.scores[arch])
    trained_groups = []
    winner_groups = []
    for name, archs in groups.items():
        about = _GROUP_TEXTS.get(name, "the best of the ranking")
        arch_names = tuple(str(arch) for arch in archs)
        results = tuple(trainings.results.get(arch) for arch in archs)
        trained_groups.append(TrainedGroup(name, about, arch_names, results))
        if winner in archs:
            winner_groups.append(name)
    proxy_group = trained_groups[0]
    contrasts = []
    for other in trained_groups[1:]:
        if proxy_group.finished_results and other.finished_results:
            contrasts.append(compare_groups(proxy_group, other))
    return Confirmation(
        winner=str(winner),
        winner_result=trainings.results[winner],
        selected_by=tuple(winner_groups),
        groups=tuple(trained_groups),
        contrasts=tuple(contrasts),
        epochs=trainings.epochs,
        samples=trainings.samples,
        data=run.config.data,
        seconds=trainings.seconds,
        search_key=run.search_key,
    )


def compare_groups(first: TrainedGroup, other: TrainedGroup) -> Contrast:
    """Compare the means of two groups, with a 95 % interval and a permutation test."""
    a = first.finished_results
    b = other.finished_results
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

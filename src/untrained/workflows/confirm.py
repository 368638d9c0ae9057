"""Confirm a search on a table of clicks by short trainings: did the proxy help on these data?

After a search, three groups of the same size are trained briefly and compared: the best
architectures by the proxy, the largest ones and random ones, all from the same records. The
architecture with the lowest log loss on the validation part then competes with hand-designed
networks (`references.py`): all are trained on all rows, and the one with the lowest log loss on the
validation part, found or hand-designed, becomes the winner of the run. A hand-designed network that
violates a limit of the search cannot win.

On images, a contest takes the place of the confirmation (`contest.py`).

A few trainings per group can only refute a proxy or show a large gain, and the report says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from untrained.config import SearchConfig
from untrained.data import DataSource
from untrained.data.parts import TRAIN
from untrained.progress import ProgressCallback
from untrained.reports.confirmation_result import FOUND, Confirmation
from untrained.reports.group_comparison import TrainedGroup, compare_groups
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import Ranking
from untrained.seeds import derive_seed
from untrained.spaces import Space
from untrained.training.result import TrainingResult
from untrained.types import Arch, Record
from untrained.workflows.reference_limits import describe_violation, measure_reference
from untrained.workflows.references import (
    TrainingTrials,
    choose_by_validation,
    shorten_recipe,
    thin_part,
)

_GROUP_TEXTS = {
    "params": "the largest of the same records",
    "random": "sampled from the same records",
}


@dataclass(frozen=True)
class ConfirmationTrainings:
    """The short trainings of a confirmation.

    Attributes:
        results: AUC in per cent, of the trainings that finished.
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
    """Briefly train the best, the largest and random architectures, and save which network wins.

    Args:
        run: The run folder of the search. Its config says how many architectures per group.
        ranking: The ranking of the search.
        records: The records of the search.
        space: The space, or its name.
        source: The table of clicks.
        on_progress: Called after every training.

    Returns:
        The confirmation, or None if no short training finished.

    Raises:
        Interrupted: Ctrl-C was pressed. Finished trainings stay.
    """
    groups = choose_groups(ranking, records, run.config.confirm, run)
    archs: list[Arch] = []
    for group in groups.values():
        for arch in group:
            if arch not in archs:
                archs.append(arch)
    start = perf_counter()
    config = run.config
    # Training needs one network per pass.
    compute = replace(config.compute, networks_per_batch=1)
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
    found = max(scores, key=lambda arch: scores[arch])
    confirmation = _compete_with_references(confirmation, found, trials, config, records)
    confirmation = replace(confirmation, seconds=perf_counter() - start)
    return confirmation.save(run.folder)


def _compete_with_references(
    confirmation: Confirmation,
    found: Arch,
    trials: TrainingTrials,
    config: SearchConfig,
    records: Sequence[Record],
) -> Confirmation:
    """Train the best architecture and hand-designed networks on all rows, and choose the winner.

    The training of the winner is in the run folder afterwards.
    """
    outcomes = trials.train_with_references(found)
    limit_values = {}
    violations = {}
    for name in outcomes:
        if name == FOUND:
            # The search has proposed only architectures that satisfy the limits.
            continue
        limit_values[name] = measure_reference(name, trials.source.task, config, records)
        violation = describe_violation(limit_values[name], config.limit_texts)
        if violation:
            violations[name] = violation
    winner = choose_by_validation(outcomes, violations)
    training = outcomes[winner]
    if isinstance(training, TrainingResult):
        trials.deliver_training(training)
    entries = []
    for entry in trials.compare_networks(outcomes, winner):
        entry = replace(
            entry,
            violation=violations.get(entry.name, ""),
            limit_values=limit_values.get(entry.name, {}),
        )
        entries.append(entry)
    reference = ""
    if winner != FOUND:
        reference = winner
    return replace(confirmation, entries=tuple(entries), reference=reference)


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

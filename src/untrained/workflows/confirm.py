"""Confirm a search on a table by short trainings, which show whether the proxy helped.

Hand-designed networks are trained on all rows first, because they are small (`design_trials.py`).
Then three groups of the same size are trained briefly and compared: the best architectures by the
proxy, the largest ones and random ones, all from the same records. The architecture with the lowest
loss on the validation part is trained on all rows too. The network with the lowest loss on the
validation part, searched or hand-designed, becomes the winner of the run. A hand-designed network
that violates a limit of the search cannot win. Gradient boosting of decision trees is compared with
the winner, but cannot win, because an export needs a network.

On images, and on arrays whose samples are not rows, a contest takes the place of the confirmation
(`contest.py`).

A few trainings per group can only refute a proxy or show a large gain, and the report says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from untrained.config import SearchConfig
from untrained.data import DataSource
from untrained.data.parts import TRAIN
from untrained.progress import ProgressCallback
from untrained.reports.confirmation_result import (
    BEST_OF_SEARCH,
    STOPPED_BY_TIME,
    Confirmation,
)
from untrained.reports.group_comparison import TrainedGroup, compare_groups
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import Ranking
from untrained.seeds import derive_seed
from untrained.spaces import Space
from untrained.training.result import TrainingResult
from untrained.types import Arch, Record
from untrained.workflows.design_limits import describe_violation, measure_design
from untrained.workflows.design_trials import (
    TableTrainer,
    choose_by_validation,
    thin_part,
)

# Fraction of the time for the hand-designed networks, which need less on most tables.
DESIGNS_SHARE = 0.5
# Fraction of the remaining time for the short trainings.
SHORT_TRAINING_SHARE = 0.5
# Fraction of the remaining time for training the best searched network on all rows. What is left
# after that is for gradient boosting.
ALL_ROWS_SHARE = 0.9
_GROUP_TEXTS = {
    "params": "the largest of the same records",
    "random": "sampled from the same records",
}


@dataclass(frozen=True)
class ConfirmationTrainings:
    """The short trainings of a confirmation.

    Attributes:
        results: AUC, accuracy or R2 in per cent, of the trainings that finished.
        scores: The scores that decide the winner, by architecture; higher is better.
        epochs: Length of each training.
        samples: Number of samples that each training sees.
        seconds: Duration of all trainings.
        reasons: Why the other architectures have no result.
    """

    results: Mapping[Arch, float]
    scores: Mapping[Arch, float]
    epochs: int
    samples: int
    seconds: float
    reasons: Mapping[Arch, str] = field(default_factory=dict)


def confirm_ranking(
    run: RunFolder,
    ranking: Ranking,
    records: Sequence[Record],
    space: str | Space,
    source: DataSource,
    on_progress: ProgressCallback | None = None,
    seconds: float | None = None,
) -> Confirmation | None:
    """Briefly train the best, the largest and random architectures, and save which network wins.

    Args:
        run: The run folder of the search. Its config says how many architectures per group.
        ranking: The ranking of the search.
        records: The records of the search.
        space: The space, or its name.
        source: The table.
        on_progress: Called after every training.
        seconds: How long all trainings may take; None for no limit.

    Returns:
        The confirmation, or None if no network could be trained.

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
    trainer = TableTrainer(
        space=space,
        data=config.data,
        source=source,
        seed=config.seed,
        compute=compute,
        folder=run.folder,
        on_progress=on_progress,
        data_root=config.data_root,
    )

    def allot_seconds(share: float) -> float | None:
        """Return a fraction of the remaining time; None for no limit."""
        if seconds is None:
            return None
        return share * max(0.0, seconds - (perf_counter() - start))

    outcomes = trainer.train_designs(seconds=allot_seconds(DESIGNS_SHARE))
    candidates = trainer.train_candidates_within(archs, allot_seconds(SHORT_TRAINING_SHARE))
    has_design = any(isinstance(outcome, TrainingResult) for outcome in outcomes.values())
    if not candidates.metrics and not has_design:
        return None
    qualities = {}
    scores = {}
    for arch, result in candidates.metrics.items():
        qualities[arch] = 100 * result[source.task.kind.quality]
        scores[arch] = -result["loss"]
    trainings = ConfirmationTrainings(
        results=qualities,
        scores=scores,
        epochs=candidates.epochs,
        samples=len(thin_part(source.parts[TRAIN])),
        seconds=perf_counter() - start,
        reasons=candidates.reasons,
    )
    confirmation = replace(
        make_confirmation(groups, trainings, run),
        task=source.task.kind.name,
        label_std=source.task.target_std,
    )
    # Save before the long trainings, so that an interruption does not lose the winner.
    confirmation.save(run.folder)
    archs_by_name = {str(arch): arch for arch in archs}
    best_arch = archs_by_name[confirmation.best_arch]
    best_outcome: TrainingResult | str = STOPPED_BY_TIME
    if best_arch in candidates.metrics:
        best_outcome = trainer.train_best_arch(
            best_arch, candidates.epochs, allot_seconds(ALL_ROWS_SHARE)
        )
    elif best_arch in candidates.reasons:
        best_outcome = candidates.reasons[best_arch]
    outcomes = {BEST_OF_SEARCH: best_outcome, **outcomes}
    confirmation, winner_training = _choose_final_winner(
        confirmation, outcomes, trainer, config, records
    )
    # Save before gradient boosting, which cannot change the winner.
    confirmation.save(run.folder)
    boosting = trainer.compare_with_boosting(winner_training, allot_seconds(1.0))
    confirmation = replace(
        confirmation,
        entries=(*confirmation.entries, boosting),
        seconds=perf_counter() - start,
    )
    return confirmation.save(run.folder)


def _choose_final_winner(
    confirmation: Confirmation,
    outcomes: Mapping[str, TrainingResult | str],
    trainer: TableTrainer,
    config: SearchConfig,
    records: Sequence[Record],
) -> tuple[Confirmation, TrainingResult | str]:
    """Choose the winner among the networks that were trained on all rows.

    The training of the winner is in the run folder afterwards.

    Args:
        confirmation: The result of the short trainings.
        outcomes: The training of the best architecture and of each hand-designed network, or why
            it failed.
        trainer: What has trained them.
        config: The config of the search, with its limits.
        records: The records of the search.

    Returns:
        The confirmation, and the training of the winner, or why it failed.
    """
    limit_values = {}
    violations = {}
    for name in outcomes:
        if name == BEST_OF_SEARCH:
            # The search has proposed only architectures that satisfy the limits.
            continue
        limit_values[name] = measure_design(name, trainer.source.task, config, records)
        violation = describe_violation(limit_values[name], config.limit_texts)
        if violation:
            violations[name] = violation
    winner = choose_by_validation(outcomes, violations)
    training = outcomes[winner]
    if isinstance(training, TrainingResult):
        trainer.copy_winner_training(training)
    entries = []
    for entry in trainer.compare_networks(outcomes, winner):
        entry = replace(
            entry,
            violation=violations.get(entry.name, ""),
            limit_values=limit_values.get(entry.name, {}),
        )
        entries.append(entry)
    winning_design = ""
    if winner != BEST_OF_SEARCH:
        winning_design = winner
    constant = ""
    if isinstance(training, TrainingResult):
        constant = training.constant_text
    confirmation = replace(
        confirmation, entries=tuple(entries), winning_design=winning_design, constant=constant
    )
    return confirmation, training


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
        Non-empty groups by name. The group of the proxy comes first. If the proxy is `params` or
        `random`, there is no other group of this name.
    """
    ranked = [standing.arch for standing in ranking.standings]
    sizes = {}
    for record in records:
        if record.proxy == "params" and record.value is not None:
            sizes[record.arch] = record.value
    with_size = [arch for arch in ranked if arch in sizes]
    largest_first = sorted(with_size, key=lambda arch: -sizes[arch])
    config = run.config
    # Each architecture has its own random number, so that removing one architecture does not change
    # the choice among the others.
    random_numbers = {}
    for arch in ranked:
        random_numbers[arch] = derive_seed("confirm", config.data, config.seed, arch.space, arch)
    random_order = sorted(ranked, key=lambda arch: random_numbers[arch])
    groups = {config.score_name: ranked[:count]}
    groups.setdefault("params", largest_first[:count])
    groups.setdefault("random", sorted(random_order[:count], key=ranked.index))
    return {name: group for name, group in groups.items() if group}


def make_confirmation(
    groups: Mapping[str, Sequence[Arch]], trainings: ConfirmationTrainings, run: RunFolder
) -> Confirmation:
    """Choose the winner and compare the groups.

    Args:
        groups: Architectures by group. The group of the proxy comes first.
        trainings: Their trainings. If none has finished, the first of the ranking is the best.
        run: The run folder.

    Returns:
        The confirmation, which is not saved yet.
    """
    finished = []
    for archs in groups.values():
        finished += [arch for arch in archs if arch in trainings.results]
    winner = next(iter(groups.values()))[0]
    if finished:
        # Of equally good architectures, the first one wins.
        winner = max(finished, key=lambda arch: trainings.scores[arch])
    trained_groups = []
    winner_groups = []
    for name, archs in groups.items():
        about = "the best of the ranking"
        if name != run.config.score_name:
            about = _GROUP_TEXTS[name]
        arch_names = tuple(str(arch) for arch in archs)
        results = tuple(trainings.results.get(arch) for arch in archs)
        reasons = tuple(trainings.reasons.get(arch, "") for arch in archs)
        trained_groups.append(TrainedGroup(name, about, arch_names, results, reasons))
        if winner in archs:
            winner_groups.append(name)
    proxy_group = trained_groups[0]
    contrasts = []
    for other in trained_groups[1:]:
        if proxy_group.is_comparable_with(other):
            contrasts.append(compare_groups(proxy_group, other))
    return Confirmation(
        best_arch=str(winner),
        best_arch_result=trainings.results.get(winner),
        selected_by=tuple(winner_groups),
        groups=tuple(trained_groups),
        contrasts=tuple(contrasts),
        epochs=trainings.epochs,
        samples=trainings.samples,
        data=run.config.data,
        seconds=trainings.seconds,
        search_key=run.search_key,
    )

"""Train and export the winner of a search: what `search(export=...)` does at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from untrained.data import DataSource
from untrained.errors import Interrupted
from untrained.progress import ProgressCallback
from untrained.spaces import Space
from untrained.training import recipes
from untrained.training.folder import move_training_aside, read_training_key
from untrained.training.result import AnotherTrainingError, TrainingResult
from untrained.workflows.export import ExportResult, check_export
from untrained.workflows.export import export as export_network
from untrained.workflows.final_training import (
    FinalTraining,
    has_other_initial_weights,
    plan_final_training,
)
from untrained.workflows.report import RELOAD_SECONDS, write_report
from untrained.workflows.search import SearchResult
from untrained.workflows.train import train as train_network


@dataclass(frozen=True)
class WinnerExportOptions:
    """How the winner of a search is trained and exported.

    Attributes:
        run: Run folder of the search.
        out: Folder to export to.
        space: The space of the search, or its name.
        recipe: Recipe of the training; None for the default.
        device: Device of the training.
        data_root: Folder that contains the data sets; None for the default.
        seconds: Longest duration of the training; None for that of the recipe.
        refit: "all" to train on all samples in the end, test part included; empty for the default.
        source: The data; None to load those of the run by their name.
    """

    run: Path
    out: Path
    space: str | Space
    recipe: str | None
    device: str
    data_root: str | Path | None = None
    seconds: float | None = None
    refit: str = ""
    source: DataSource | None = None


def check_winner_export(out: Path, recipe: str | None, run: Path | None) -> None:
    """Check before a search that its winner can be exported.

    Args:
        out: Folder to export to.
        recipe: Recipe of the training; None for the default.
        run: Run folder; None for the default.

    Raises:
        UsageError: The folder cannot be written, a package is missing or there is no such recipe.
    """
    # The default run folder is somewhere below runs/; its name does not matter for the check.
    check_export(out, run or Path("runs", "..."))
    if recipe is not None:
        recipes.load_recipe(recipe)


def announce_winner_export(
    result: SearchResult, out: Path, recipe: str | None, refit: str | None
) -> SearchResult:
    """Note in the run folder that the winner will be exported, and write the report.

    The report shows the command that repeats search, training and export. It reloads if a training
    follows.
    """
    run = replace(
        result.run,
        export=str(out),
        export_recipe=recipe or "",
        export_refit=refit or "",
    ).save()
    reload_seconds = None
    if result.has_winner:
        reload_seconds = RELOAD_SECONDS
    write_report(run.folder, reload_seconds)
    return replace(result, run=run)


@contextmanager
def rewrite_report_on_failure(run: Path) -> Iterator[None]:
    """Write the report again if the block fails, because the current page reloads for ever."""
    try:
        yield
    except BaseException:
        write_report(run)
        raise


def train_winner(
    options: WinnerExportOptions, on_progress: ProgressCallback | None = None
) -> TrainingResult:
    """Train the winner of a run on its data.

    Raises:
        Interrupted: Ctrl-C was pressed. The message says how to export without the training.
    """
    try:
        return _train_winner(options, on_progress)
    except Interrupted as error:
        raise Interrupted(f"{error}{_describe_untrained_export(options)}") from None


def _train_winner(
    options: WinnerExportOptions, on_progress: ProgressCallback | None
) -> TrainingResult:
    run = options.run
    plan: FinalTraining | None = None
    if options.recipe is None:
        plan = plan_final_training(run, options.seconds, options.refit or True)
    if plan is None:
        plan = FinalTraining(options.recipe, None, options.refit or False)

    def train_once() -> TrainingResult:
        return train_network(
            run,
            data=options.source,
            space=options.space,
            recipe=plan.recipe,
            refit=plan.refit,
            start=plan.start,
            finish_in=options.seconds,
            device=options.device,
            data_root=options.data_root,
            on_progress=on_progress,
        )

    try:
        return train_once()
    except AnotherTrainingError:
        # On a table, the confirmation has trained the winner with a recipe of its own; on pictures,
        # an earlier command may have trained it on other parts, or with the weights of an earlier
        # contest. What the user asks for now replaces that training.
        is_requested = options.recipe is not None or options.refit
        if (
            not is_requested
            and not _is_trained_on_all(run)
            and not _began_with_other_weights(run, plan)
        ):
            raise
        move_training_aside(run)
        return train_once()


def _is_trained_on_all(run: Path) -> bool:
    """Return whether the training in a run folder used all samples, test part included."""
    key = read_training_key(run)
    return key is not None and key.refit == "all"


def _began_with_other_weights(run: Path, plan: FinalTraining) -> bool:
    """Return whether the training in a run folder began with the weights of an earlier contest."""
    if plan.start is None:
        return False
    return has_other_initial_weights(read_training_key(run), plan.start)


def _describe_untrained_export(options: WinnerExportOptions) -> str:
    """Return how to export the winner of a contest with the weights that the contest left."""
    plan = plan_final_training(options.run, None)
    if plan is None or plan.start is None:
        return ""
    command = (
        f"untrained export {quote(str(options.run))} --weights {quote(str(plan.start))} "
        f"--out {quote(str(options.out))}"
    )
    return f"; to export the weights of the contest instead: {command}"


def export_trained_winner(options: WinnerExportOptions) -> ExportResult:
    """Export the trained winner of a run, and write the report of the run.

    Raises:
        Interrupted: Ctrl-C was pressed. The message says how to continue.
    """
    write_report(options.run)
    try:
        exported = export_network(
            options.run, options.out, space=options.space, data_root=options.data_root
        )
    except KeyboardInterrupt:
        command = f"untrained export {quote(str(options.run))} --out {quote(str(options.out))}"
        raise Interrupted(
            "stopped by Ctrl-C during the export; the network has been trained; to export it: "
            f"{command}"
        ) from None
    # The report says where the exported model is.
    write_report(options.run)
    return exported

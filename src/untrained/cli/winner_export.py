"""Train and export the winner of a search: what `untrained search --export` does at the end."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from untrained.training.result import TrainingResult


def check_winner_export(out: Path, recipe: str | None, run: Path | None) -> None:
    """Check before a search that `export_winner` can export its winner.

    Args:
        out: Folder to export to.
        recipe: Recipe of the training; None for the default.
        run: Run folder; None for the default.

    Raises:
        UsageError: The folder cannot be written, a package is missing or there is no such recipe.
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.training import recipes
    from untrained.workflows.export import check_export

    # The default run folder is somewhere below runs/; its name does not matter for the check.
    check_export(out, run or Path("runs", "..."))
    if recipe is not None:
        recipes.load_recipe(recipe)


def export_winner(
    run: Path,
    out: Path,
    recipe: str | None,
    device: str,
    data_root: Path | None,
    as_json: bool,
    seconds: float | None = None,
) -> None:
    """Train the winner of a run on its data and export it.

    Args:
        run: Run folder of the search.
        out: Folder to export to.
        recipe: Recipe of the training; None for the default.
        device: Device of the training.
        data_root: Folder that contains the data sets; None for the default.
        as_json: Whether to print nothing, because standard output already has a JSON document.
        seconds: Longest duration of the training after a contest; None for that of the recipe.
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.export_result import show_export_result
    from untrained.cli.terminal.json_output import reserve_stdout
    from untrained.cli.terminal.text import print_line
    from untrained.cli.terminal.training_result import show_training_result
    from untrained.workflows.export import export as export_network
    from untrained.workflows.report import report as write_report

    with reserve_stdout(as_json):
        training = _train_winner(run, recipe, device, data_root, as_json, seconds)
        if not as_json:
            print_line(f"exporting to {out}", err=True)
        page = write_report(run)
        exported = export_network(run, out, data_root=data_root)
    if not as_json:
        show_training_result(training, page)
        show_export_result(exported)


def _train_winner(
    run: Path,
    recipe: str | None,
    device: str,
    data_root: Path | None,
    quiet: bool,
    seconds: float | None,
) -> "TrainingResult":
    from untrained.cli.terminal.training_result import show_training_progress
    from untrained.training.folder import move_training_aside
    from untrained.training.result import AnotherTrainingError
    from untrained.workflows.final_training import plan_final_training
    from untrained.workflows.train import train as train_network

    plan = None
    if recipe is None:
        plan = plan_final_training(run, seconds)
    with show_training_progress(quiet) as on_progress:
        if plan is not None:
            return train_network(
                run,
                recipe=plan.recipe,
                refit=True,
                start=plan.start,
                device=device,
                data_root=data_root,
                on_progress=on_progress,
            )
        try:
            return train_network(
                run, recipe=recipe, device=device, data_root=data_root, on_progress=on_progress
            )
        except AnotherTrainingError:
            # On a table, the confirmation has trained the winner with a recipe of its own. A recipe
            # that the user names replaces that training.
            if recipe is None:
                raise
            move_training_aside(run)
            return train_network(
                run, recipe=recipe, device=device, data_root=data_root, on_progress=on_progress
            )

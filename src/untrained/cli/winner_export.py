"""The end of `untrained search --export`: train the winner, export it, and show the results."""

from pathlib import Path


def export_winner(
    run: Path,
    out: Path,
    space: str,
    recipe: str | None,
    device: str,
    data_root: Path | None,
    as_json: bool,
    seconds: float | None = None,
    refit: str = "",
) -> None:
    """Train the winner of a run on its data and export it.

    Args:
        run: Run folder of the search.
        out: Folder to export to.
        space: Name of the space of the search.
        recipe: Recipe of the training; None for the default.
        device: Device of the training.
        data_root: Folder that contains the data sets; None for the default.
        as_json: Whether to print nothing, because standard output already has a JSON document.
        seconds: Longest duration of the training; None for that of the recipe.
        refit: "all" to train on all samples in the end, test part included; empty for the default.
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.export_result import show_export_result
    from untrained.cli.terminal.json_output import reserve_stdout
    from untrained.cli.terminal.text import print_line
    from untrained.cli.terminal.training_result import show_training_progress, show_training_result
    from untrained.runs.winner import CONFIRMATION_FILE
    from untrained.workflows.report import REPORT_FILE
    from untrained.workflows.winner_export import (
        WinnerExportOptions,
        export_trained_winner,
        rewrite_report_on_failure,
        train_winner,
    )

    options = WinnerExportOptions(run, out, space, recipe, device, data_root, seconds, refit)
    with reserve_stdout(as_json), rewrite_report_on_failure(run):
        with show_training_progress(as_json) as on_progress:
            training = train_winner(options, on_progress)
        if not as_json:
            print_line(f"exporting to {out}", err=True)
        exported = export_trained_winner(options)
    if not as_json:
        is_from_contest = (run / CONFIRMATION_FILE).is_file()
        show_training_result(
            training, run / REPORT_FILE, of_search=True, is_from_contest=is_from_contest
        )
        show_export_result(exported)

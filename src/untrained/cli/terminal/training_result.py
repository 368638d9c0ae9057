"""The progress and the result of a training."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from time import perf_counter

from rich.progress import TextColumn

from untrained.cli.terminal.console import SafeConsole
from untrained.cli.terminal.progress_bar import ProgressLog, open_progress_bar
from untrained.files import find_free_folder
from untrained.formatting import format_duration, format_measured, format_percent
from untrained.progress import Progress, ProgressCallback
from untrained.reports.pages.training_sections import make_training_headline
from untrained.training.result import TrainingResult
from untrained.types import BINARY, REGRESSION

STAGE = "training"


@contextmanager
def show_training_progress(quiet: bool) -> Iterator[ProgressCallback | None]:
    """Show a progress bar with epoch, loss and validation result.

    Args:
        quiet: Whether to show nothing.

    Yields:
        The callback for progress events, or None if `quiet` is true.
    """
    if quiet:
        yield None
        return
    with (
        open_progress_bar(TextColumn("{task.fields[metrics]}")) as bar,
        ProgressLog(bar.console) as log,
    ):
        task = bar.add_task(STAGE, metrics="")

        def on_progress(progress: Progress) -> None:
            epoch = f"epoch {progress.metrics['epoch']} of {progress.metrics['epochs']}"
            metrics = format_metrics(progress)
            status = f"{epoch}, {metrics}" if metrics else epoch
            bar.start()
            log.write(STAGE, status, perf_counter())
            bar.update(
                task,
                description=epoch,
                total=progress.total,
                completed=progress.done,
                metrics=metrics,
            )

        yield on_progress


def format_metrics(progress: Progress) -> str:
    """Return the numbers of the last complete epoch, or "" before its end."""
    loss = progress.metrics["loss"]
    val_loss = progress.metrics["val_loss"]
    val_accuracy = progress.metrics["val_accuracy"]
    if loss is None:
        return ""
    if val_loss is None:
        # A refit has no validation part.
        return f"loss {loss:.3f}"
    val_rmse = progress.metrics.get("val_rmse")
    if val_rmse is not None:
        return f"loss {loss:.3f}, validation RMSE {format_measured(val_rmse)}"
    if val_accuracy is None:
        # Binary labels have no accuracy; their validation result is the loss.
        return f"loss {loss:.3f}, validation {val_loss:.4f}"
    return f"loss {loss:.3f}, validation {format_percent(val_accuracy)}"


def show_training_result(
    result: TrainingResult, page: Path, of_search: bool = False, is_from_contest: bool = False
) -> None:
    """Print the result, the selected epoch, the cost and the paths of the files.

    Args:
        result: The training.
        page: Path of its report.
        of_search: Whether a search trained its winner. No advice on training again is printed.
        is_from_contest: Whether it was trained in the contest of this search on a table, so that
            it is finished although nothing was repeated.
    """
    console = SafeConsole()
    if result.was_finished and not of_search:
        other_folder = quote(str(find_free_folder(Path(result.folder))))
        console.print_plain(
            "this training was already finished, so nothing was trained now; to train again, use "
            f"untrained train with --run {other_folder}"
        )
    elif result.was_finished and not is_from_contest:
        console.print_plain("this training was already finished, so nothing was trained now")
    console.print(f"[bold]{make_training_headline(result)}[/]", highlight=False)
    console.print_plain(_describe_selection(result))
    if result.end_reason == "time":
        console.print_plain("stopped early: --time was reached; the same command resumes")
    elif result.end_reason != "epochs":
        console.print_plain("stopped early: the validation result no longer improved")
    if result.bias_text:
        console.print_plain(result.bias_text)
    if result.constant_text:
        console.print_plain(result.constant_text)
    for note in result.notes:
        console.print_plain(note)
    if result.chance_warning:
        console.print_plain(f"warning: {result.chance_warning}")
    if result.warning:
        console.print_plain(f"warning: {result.warning}")
    console.print_plain(f"training took {_format_cost(result)}")
    weights = Path(result.folder, "model.pt")
    console.print_plain(f"weights: {weights}", wrap=False)
    console.print_plain(f"report: {page}", wrap=False)


def _describe_selection(result: TrainingResult) -> str:
    """Return `selected on the validation part: the weights after epoch 3, 91.2 %`."""
    selected = result.best
    weights = "the weights"
    if selected["kind"] == "average":
        weights = "the moving average of the weights"
    weights += f" after epoch {selected['epoch']}"
    if result.estimated_by:
        return f"{weights}; {result.estimate_text}"
    if result.key.refit:
        return f"trained on the training and the validation part: {weights}"
    if result.kind == REGRESSION:
        quality = f"RMSE {format_measured(selected['rmse'])}"
    elif result.kind == BINARY:
        quality = f"log loss {selected['loss']:.4f}"
    else:
        quality = format_percent(selected["accuracy"])
    return f"selected on the validation part: {weights}, {quality}"


def _format_cost(result: TrainingResult) -> str:
    """Return `45 s, 1,200 samples per second on cpu`."""
    speed = ""
    # The speed is known after the first complete epoch.
    if result.samples_per_second:
        speed = f", {result.samples_per_second:,.0f} samples per second"
    return f"{format_duration(result.seconds)}{speed} on {result.key.device}"

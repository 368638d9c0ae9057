"""What the terminal shows of a training: a bar with epoch, loss and what validation said, what came out, and how it
stands beside networks made by hand."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from time import perf_counter

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.progress import TextColumn
from rich.table import Table

from untrained._numbers import duration
from untrained._terminal_bar import Lines, bar
from untrained._terminal_console import SafeConsole
from untrained.reports.pages.training_sections import make_training_headline
from untrained.studies.confirm import Confirmation
from untrained.studies.references import COLUMNS, Entry
from untrained.training.train import Moment, Watcher
from untrained.training.trained import Trained


@contextmanager
def training_bar(quiet: bool) -> Iterator[Watcher | None]:
    """A progress bar on the error stream."""
    if quiet:
        yield None
        return
    with bar(TextColumn("{task.fields[so_far]}")) as shown:
        task, lines = shown.add_task("training", so_far=""), Lines(shown.console)

        def watch(at: Moment) -> None:
            shown.start()
            said = f"epoch {at.epoch} of {at.epochs}"
            lines.tell("training", ", ".join(filter(None, (said, told(at)))), perf_counter())
            shown.update(task, description=said, total=at.steps, completed=at.step, so_far=told(at))

        yield watch


def told(at: Moment) -> str:
    """What the last whole epoch brought."""
    if at.loss is None or at.val_loss is None:
        return ""
    said = f"{at.val_loss:.4f}" if at.accuracy is None else f"{100 * at.accuracy:.1f} %"
    return f"loss {at.loss:.3f}, validation {said}"


def show_trained(found: Trained, page: Path) -> None:
    """The result, what it cost, and where everything is."""
    console = SafeConsole()
    console.print(f"[bold]{make_training_headline(found)}[/]", highlight=False)
    best = found.chosen
    of = "the moving average" if best["kind"] == "average" else "the weights"
    said = f"log loss {best['loss']:.4f}" if found.of_clicks else f"{100 * best['accuracy']:.2f} %"
    console.print(f"chosen by validation: {of} of epoch {best['epoch']}, {said}", highlight=False)
    if found.ended != "epochs":
        why = "the time was up; the same command goes on" if found.ended == "time" else "nothing better came"
        console.print(f"stopped early: {why}", highlight=False)
    if found.caution:
        console.print(f"careful: {escape(found.caution)}", highlight=False)
    rate = f", {found.samples_per_second:,.0f} samples a second" if found.samples_per_second else ""  # of whole epochs
    console.print(f"training took {duration(found.seconds)}{rate} on {found.asked.device}", highlight=False)
    console.print(f"weights: {escape(str(Path(found.folder, 'model.pt')))}", soft_wrap=True)
    console.print(f"report: {escape(str(page))}", soft_wrap=True)


def show_confirmed(found: Confirmation) -> None:
    """The found network beside those made by hand, where there are some, what the trainings said, what they cost."""
    console = SafeConsole()
    if found.entries:
        console.print(_references(found.entries))
    failed = (f"{entry.name} failed: {entry.error}" for entry in found.entries if entry.error)
    for line in (*failed, *found.lines, f"{found.won}."):
        console.print(escape(line), highlight=False)
    console.print(f"confirming took {duration(found.seconds)}", highlight=False)


def _references(entries: Sequence[Entry]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("Network")
    for name in COLUMNS:
        table.add_column("\n".join(wrap(name, 10)), justify="right")
    for entry in entries:
        table.add_row(escape(entry.name), *entry.told)
    return table

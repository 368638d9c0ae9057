"""`untrained data`: inspect data, and import tables of known results."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.help_text import GroupWithFlags, add_command
from untrained.cli.options import (
    DataRootOption,
    InputSizeOption,
    JsonOption,
    LabelOption,
    TaskOption,
    add_label,
)
from untrained.errors import UsageError

data_app = typer.Typer(
    cls=GroupWithFlags,
    help="Inspect your data, and import tables of known results.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def import_table(
    name: Annotated[str, typer.Argument(help="Benchmark; see `untrained list benchmarks`.")],
    path: Annotated[Path, typer.Argument(help="File or folder from the authors of the table.")],
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import a table of known results from the files of its authors.

    Results that were imported before are kept.

    Example: untrained data import nasbench201 ~/NATS-tss-v1_0-3ffb9-simple
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.benchmarks import import_benchmark
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.text import print_line

    table = import_benchmark(name, path, data_root)
    if as_json:
        print_json(
            {"name": name, "file": str(table.path), "rows": len(table), "about": table.about}
        )
    else:
        print_line(f"{table.path}: {table.about}")


def show_data_card(
    name: Annotated[
        str,
        typer.Argument(help="Data, as for --data: folder:PATH, images:PATH, csv:PATH."),
    ],
    label: LabelOption = None,
    task: TaskOption = None,
    input_size: InputSizeOption = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Summarise a data set and list its problems.

    The card describes what the data contain, which files or values are broken, unusual or missing,
    and how a search uses the data.

    Example: untrained data card folder:./photos

    Example: untrained data card csv:clicks.csv --label click
    """
    # Imported here and not above, because `--help` must not load torch.
    from dataclasses import asdict

    from untrained.cli.terminal.data_card import show_card
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.progress_bar import show_progress
    from untrained.data import load_data, set_input_size
    from untrained.types import Task

    # Classes and channels come from the data; the task only suggests the size of images.
    like = set_input_size(Task(name, (3, 32, 32), 2), input_size)
    # Reading many images takes a while; loading and inspecting both report progress.
    with show_progress(as_json):
        source = load_data(add_label(name, label, task) or name, like, data_root)
        if source.card is None:
            raise UsageError(
                f"{name} has no card; only your own data have one, such as folder:./photos or "
                "csv:clicks.csv"
            )
        card = source.card()
    if as_json:
        print_json(asdict(card))
    else:
        show_card(card)


add_command(data_app, "import", import_table)
add_command(data_app, "card", show_data_card)

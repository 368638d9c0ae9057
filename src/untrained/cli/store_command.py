"""`untrained store`: inspect, export and merge stores of records."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.help_text import GroupWithFlags, add_command
from untrained.cli.options import OUTPUT, JsonOption

store_app = typer.Typer(
    cls=GroupWithFlags,
    help="Inspect, export and merge stores of records.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

StoreArgument = Annotated[Path, typer.Argument(help="Run folder, or the SQLite file in it.")]


def show_info(store: StoreArgument, as_json: JsonOption = False) -> None:
    """Show what a store contains: architectures, records, measures and failures.

    Example: untrained store info runs/mine
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.listing import show_facts
    from untrained.runs import store_files

    facts = store_files.describe_store(store)
    if as_json:
        print_json(facts)
    else:
        show_facts(facts)


def export_records(
    store: StoreArgument,
    out: Annotated[
        Path,
        typer.Argument(help="File to write; it ends in .parquet or .csv, or .db with --as optuna."),
    ],
    file_format: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="FORMAT",
            help="optuna: an Optuna study with one trial per architecture. "
            "Without this option, the end of the file name decides.",
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Write all records of a store to a Parquet or CSV file, or a run as an Optuna study.

    In a CSV file, a text that begins with =, +, -, @, a tab, a carriage return or an apostrophe
    gets an apostrophe in front, so that no spreadsheet interprets it as a formula.

    Example: untrained store export runs/mine records.parquet
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.text import print_line
    from untrained.errors import UsageError
    from untrained.formatting import format_count
    from untrained.runs import optuna_study, store_files

    if file_format not in ("", "optuna"):
        raise UsageError(f"--as {file_format} is unknown; use --as optuna, or leave it out")
    if file_format == "optuna":
        count = optuna_study.export_study(store, out)
        unit = "trial"
    else:
        count = store_files.export_store(store, out)
        unit = "record"
    if as_json:
        print_json({"rows": count, "file": str(out)})
    else:
        print_line(f"{format_count(count, unit)}: {out}")


def merge_stores(
    store: StoreArgument,
    others: Annotated[
        list[Path],
        typer.Argument(help="Stores whose records are added. They are not changed."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Add the records of other stores to a store.

    Records that the store already contains are skipped.

    Example: untrained store merge runs/mine runs/yours
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.text import print_line
    from untrained.formatting import format_count
    from untrained.runs import store_files

    count = store_files.merge_stores(store, others)
    if as_json:
        print_json({"added": count, "store": str(store)})
    else:
        print_line(f"{format_count(count, 'record')} added to {store}")


add_command(store_app, "info", show_info)
add_command(store_app, "export", export_records)
add_command(store_app, "merge", merge_stores)

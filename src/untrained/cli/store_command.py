"""`untrained store`: look into a store of records, export it, merge stores."""

from pathlib import Path
from typing import Annotated

import typer

from untrained.cli.help_text import add_command
from untrained.cli.options import JsonOption

store_app = typer.Typer(
    help="Look into a store of records, export it, merge several.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

StoreArgument = Annotated[Path, typer.Argument(help="Run folder, or the SQLite file in it.")]


def show_info(where: StoreArgument, as_json: JsonOption = False) -> None:
    """Show what a store contains: architectures, records, measures and failures.

    Example: untrained store info runs/mine
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.listing import show_facts
    from untrained.runs import store_files

    facts = store_files.describe_store(where)
    if as_json:
        print_json(facts)
    else:
        show_facts(facts)


def export_records(
    where: StoreArgument,
    out: Annotated[Path, typer.Argument(help="File that ends in .parquet or .csv.")],
    as_json: JsonOption = False,
) -> None:
    """Write all records of a store as a table.

    In CSV, a text that a spreadsheet would read as a formula, or that begins with ', gets a ' in
    front.

    Example: untrained store export runs/mine records.parquet
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.text import print_line
    from untrained.formatting import format_count
    from untrained.runs import store_files

    count = store_files.export_store(where, out)
    if as_json:
        print_json({"rows": count, "file": str(out)})
    else:
        print_line(f"{format_count(count, 'record')}: {out}")


def merge_stores(
    into: StoreArgument,
    others: Annotated[
        list[Path], typer.Argument(help="Stores to read from. They are not changed.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Add records of other stores to a store.

    Records that the store already contains are skipped.

    Example: untrained store merge runs/mine runs/yours
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json
    from untrained.cli.terminal.text import print_line
    from untrained.formatting import format_count
    from untrained.runs import store_files

    added = store_files.merge_stores(into, others)
    if as_json:
        print_json({"added": added, "store": str(into)})
    else:
        print_line(f"{format_count(added, 'record')} added to {into}")


add_command(store_app, "info", show_info)
add_command(store_app, "export", export_records)
add_command(store_app, "merge", merge_stores)

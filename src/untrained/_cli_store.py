"""The commands about files: stores of records, one's own data, and tables of known results."""

from pathlib import Path
from typing import Annotated

import typer

from untrained._cli import DataRoot, InputSize, Json, Label, app, labelled, print_json
from untrained._numbers import counted
from untrained._terminal_text import print_line
from untrained.errors import UsageError

data_app = typer.Typer(
    help="Look at data of your own; import tables of known results.", no_args_is_help=True, rich_markup_mode="rich"
)
app.add_typer(data_app, name="data")
store = typer.Typer(help="Look into a store of records, take it elsewhere, put two together.", no_args_is_help=True)
app.add_typer(store, name="store")
Where = Annotated[Path, typer.Argument(help="A run folder, or the SQLite file in it.")]


@store.command()
def info(where: Where, as_json: Json = False) -> None:
    """Say what a store holds: architectures, records, failures, measures.

    Example: untrained store info runs/mine
    """
    from untrained._terminal_list import show_facts
    from untrained.engine import stores

    facts = stores.info(where)
    print_json(facts) if as_json else show_facts(facts)


@store.command()
def export(
    where: Where,
    out: Annotated[Path, typer.Argument(help="A file that ends in .parquet or .csv.")],
    as_json: Json = False,
) -> None:
    """Write all records of a store as a table.

    In CSV, texts that a spreadsheet would take for a formula, and those that begin with ', get a ' in front.

    Example: untrained store export runs/mine records.parquet
    """
    from untrained.engine import stores

    rows = stores.export(where, out)
    print_json({"rows": rows, "file": str(out)}) if as_json else print_line(f"{counted(rows, 'record')}: {out}")


@store.command()
def merge(
    into: Where,
    others: Annotated[list[Path], typer.Argument(help="Stores to read from; they are left as they are.")],
    as_json: Json = False,
) -> None:
    """Add to one store what others know and it does not.

    Example: untrained store merge runs/mine runs/yours
    """
    from untrained.engine import stores

    added = stores.merge(into, others)
    told = f"{counted(added, 'record')} added to {into}"
    print_json({"added": added, "store": str(into)}) if as_json else print_line(told)


@data_app.command("import")
def data_import(
    name: Annotated[str, typer.Argument(help="The benchmark; see `untrained list benchmarks`.")],
    path: Annotated[Path, typer.Argument(help="A file or folder of its publishers.")],
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Make the table of a benchmark from its publishers' files; what is there already stays.

    Example: untrained data import nasbench201 ~/NATS-tss-v1_0-3ffb9-simple
    """
    from untrained.benchmarks import import_benchmark

    table = import_benchmark(name, path, data_root)
    row = {"name": name, "file": str(table.path), "rows": len(table), "about": table.about}
    print_json(row) if as_json else print_line(f"{table.path}: {table.about}")


@data_app.command()
def card(
    name: Annotated[str, typer.Argument(help="Your data as --data takes them: folder:PATH, images:PATH, csv:PATH.")],
    label: Label = None,
    input_size: InputSize = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Inspect data before anything is searched: what there is, what is broken, odd or missing, what becomes of it.

    Example: untrained data card folder:./photos

    Example: untrained data card csv:clicks.csv --label click
    """
    from dataclasses import asdict

    from untrained._terminal import watching
    from untrained._terminal_data import show_card
    from untrained.data import load, sized
    from untrained.types import Task

    with watching(as_json):
        source = load(labelled(name, label) or name, sized(Task(name, (3, 32, 32), 2), input_size), data_root)
        if source.card is None:
            raise UsageError(f"{name} has no card; data of your own have, such as folder:./photos or csv:clicks.csv")
        found = source.card()
    print_json(asdict(found)) if as_json else show_card(found)

"""What the commands share: the program, options that mean the same everywhere, and how a document is printed."""

import json
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Find neural architectures without training them.",
    epilog="Start with `untrained search`: no option is needed, and no data. `untrained list` shows what there is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Space = Annotated[str, typer.Option(help="A space by name, or your own: ./mine.py:mynet.")]
Proxies = Annotated[str, typer.Option("--proxy", help="Separated by commas: dextr,params or ./mine.py:mine; or all.")]
Data = Annotated[str | None, typer.Option(help="noise, photos, digits, cifar10 or npz:PATH.", show_default="digits")]
DataRoot = Annotated[
    Path | None, typer.Option(help="Folder of data sets.", show_default="$UNTRAINED_DATA or the cache")
]
Seeds = Annotated[int, typer.Option(min=1, help="Initialisations and batches to average over.")]
RunFolder = Annotated[Path | None, typer.Option(help="Run folder; the same command resumes.", show_default="runs/...")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps.")]

Workers = Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one a core, or one a GPU")]
Population = Annotated[
    int | None,
    typer.Option(min=1, help="Networks to look at together.", show_default="as many as fit on a GPU, else 1"),
]
Ray = Annotated[str | None, typer.Option(help="Work on a Ray cluster: local, or its address.")]
TimeLimit = Annotated[str | None, typer.Option(help="Fail an architecture that takes longer: 30s.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides sampling, weights and batches.")]


def default_data() -> str:
    from untrained.engine.score import DEFAULT_DATA

    return DEFAULT_DATA


def stdout_kept(as_json: bool) -> AbstractContextManager[object]:
    """Under --json standard output is one document: what the user's own code prints goes to the error stream."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def print_json(document: dict[str, Any] | list[Any]) -> None:
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")

"""What the commands share: the program, options that mean the same everywhere, and how a document is printed."""

import json
import os
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, overload
from urllib.parse import quote

import typer

from untrained import __version__
from untrained.errors import UsageError

DAEMON, PIPES = "nvidia-cuda-mps-control", "/tmp/nvidia-mps"  # who lets processes share a GPU, and where it listens

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
Data = Annotated[
    str | None,
    typer.Option(help="digits, cifar10, folder:PATH, images:PATH, csv:PATH, clicks, npz:PATH.", show_default="digits"),
]
Label = Annotated[str | None, typer.Option(help="The column to predict, where the data are csv:PATH or parquet:PATH.")]
InputSize = Annotated[
    int | None, typer.Option(min=8, help="Show square images of this side: 64.", show_default="as the space")
]
DataRoot = Annotated[
    Path | None, typer.Option(help="Folder of data sets.", show_default="$UNTRAINED_DATA or the cache")
]
Seeds = Annotated[int, typer.Option(min=1, help="Initialisations and batches to average over.")]
RunFolder = Annotated[Path | None, typer.Option(help="Run folder; the same command resumes.", show_default="runs/...")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps.")]

Workers = Annotated[int | None, typer.Option(help="Processes.", show_default="one per core, or one per GPU")]
Population = Annotated[
    int,
    typer.Option(
        min=1,
        help="Networks looked at together: 64 on a GPU make dextr 3 times as fast; on a CPU small ones only. Values "
        "differ slightly from those of single networks and are kept apart.",
    ),
]
Ray = Annotated[str | None, typer.Option(help="Work on a Ray cluster: local, or its address.")]
TimeLimit = Annotated[str | None, typer.Option(help="Fail an architecture that takes longer: 30s.")]
WarmUp = Annotated[
    str, typer.Option(help="Train on a share of the data before judging: 10%, 10%(paths=each), 1%(preset=nasrec).")
]
Seed = Annotated[int, typer.Option(min=0, help="Decides sampling, weights and batches.")]


# The error that typer raises for a wrong option. It comes from click, of which some versions of typer carry a copy.
ClickUsageError: type[Exception] = typer.BadParameter.__bases__[0]


def describe_click_error(error: Any) -> str:
    """A wrong option in one line, with the command whose help lists the right ones."""
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    command = error.ctx.command_path if error.ctx is not None else "untrained"
    return f"{message}; `{command} --help` lists what it takes"


def version(asked: bool) -> None:
    """Print which version this is, and nothing else."""
    if asked:
        typer.echo(f"untrained {__version__}")
        raise typer.Exit


@app.callback()
def program(
    _: Annotated[bool, typer.Option("--version", is_eager=True, callback=version, help="Print the version.")] = False,
) -> None:
    """Options of the program itself."""


def belongs(name: str, given: object, to: str, there: object) -> None:
    """Refuse an option that says more about another one, where that one is missing."""
    if given is not None and not there:
        raise UsageError(f"{name} {given} means nothing without {to.split()[0]}: add {to}, or leave out {name}")


def default_data() -> str:
    from untrained.engine.score import DEFAULT_DATA

    return DEFAULT_DATA


@overload
def labelled(data: str | None, label: str | None, default: str) -> str: ...


@overload
def labelled(data: str | None, label: str | None, default: None = None) -> str | None: ...


def labelled(data: str | None, label: str | None, default: str | None = None) -> str | None:
    """`--label X` is short for a table that says so itself: csv:clicks.csv?label=X.

    Args:
        data: What --data names.
        label: What --label names.
        default: What is taken where neither is given.
    """
    if label is None:
        return default if data is None else data
    if data is None:
        raise UsageError(f"--label {label} names a column of a table: add --data csv:PATH or --data parquet:PATH")
    if os.path.exists(data):  # a Path would raise on a name of many columns
        return data  # whoever opens a path says what to write instead
    if not data.startswith(("csv:", "parquet:")):
        raise UsageError(f"--label {label} names a column of a table, csv:PATH or parquet:PATH, and {data} is none")
    return f"{data}{'&' if '?' in data else '?'}label={quote(label)}"


def mind_the_gpu(device: str, workers: int | None, quiet: bool) -> None:
    """Processes take turns on a GPU unless NVIDIA's daemon lets them share it: said once, where it could be started."""
    if quiet or workers is None or not device.startswith("cuda") or not shutil.which(DAEMON):
        return
    import torch

    gpus = min(torch.cuda.device_count(), 1 if ":" in device else workers)
    if 0 < gpus < workers and not Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", PIPES)).exists():
        typer.echo(f"several workers on one GPU: start `{DAEMON} -d` first, and they share it", err=True)


def stdout_kept(as_json: bool) -> AbstractContextManager[object]:
    """Under --json standard output is one document: what the user's own code prints goes to the error stream."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def print_json(document: dict[str, Any] | list[Any]) -> None:
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")

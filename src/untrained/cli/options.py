"""Options that several commands share, and the groups in which `--help` shows them."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from untrained.errors import UsageError

# Groups of options, as titles of the panels of `--help`.
WHAT = "What"
LIMITS = "Limits"
BUDGET = "Budget"
DATA = "Data"
OUTPUT = "Output"
COMPUTE = "Compute"

# What
SpaceOption = Annotated[
    str,
    typer.Option(
        help="Search space: a name, or your own as ./mine.py:mynet.", rich_help_panel=WHAT
    ),
]
ProxiesOption = Annotated[
    str,
    typer.Option(
        "--proxy",
        help="Proxies, separated by commas: dextr,params or ./mine.py:mine; or all.",
        rich_help_panel=WHAT,
    ),
]
WarmUpOption = Annotated[
    str,
    typer.Option(
        help="Train on a share of the data before scoring: 10%, 10%(paths=each), "
        "1%(preset=nasrec).",
        rich_help_panel=WHAT,
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        min=0,
        help="Random seed of sampling, weights and batches.",
        rich_help_panel=WHAT,
    ),
]
SeedsOption = Annotated[
    int,
    typer.Option(
        min=1,
        help="Number of initialisations and batches to average over.",
        rich_help_panel=WHAT,
    ),
]
InputShapeOption = Annotated[
    str | None,
    typer.Option(
        help="Shape of one input of your network, such as 3x224x224.", rich_help_panel=WHAT
    ),
]
ClassesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of classes.",
        show_default="the network's outputs",
        rich_help_panel=WHAT,
    ),
]

# Data
# The default is None and not "digits": commands have to know whether the user named data.
DataOption = Annotated[
    str | None,
    typer.Option(
        help="Data set: digits, cifar10, folder:PATH, images:PATH, csv:PATH, clicks, npz:PATH.",
        show_default="digits",
        rich_help_panel=DATA,
    ),
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        help="Column to predict, if the data are csv:PATH or parquet:PATH.",
        rich_help_panel=DATA,
    ),
]
InputSizeOption = Annotated[
    int | None,
    typer.Option(
        min=8,
        help="Scale images to this many pixels per side: 64.",
        show_default="as the space",
        rich_help_panel=DATA,
    ),
]
DataRootOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder that contains the data sets.",
        show_default="$UNTRAINED_DATA or the cache",
        rich_help_panel=DATA,
    ),
]

# Output
# Without a name, each command derives the folder from its options, so that it resumes too.
RunOption = Annotated[
    Path | None,
    typer.Option(
        help="Run folder. The same command with the same folder resumes.",
        show_default="runs/...",
        rich_help_panel=OUTPUT,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON document instead of tables.",
        rich_help_panel=OUTPUT,
    ),
]

# Compute
# `ComputeConfig` checks these values, with messages that say what this machine has.
DeviceOption = Annotated[
    str,
    typer.Option(help="Device: cpu, cuda, cuda:1 or mps.", rich_help_panel=COMPUTE),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        help="Number of worker processes.",
        show_default="one per core or per GPU",
        rich_help_panel=COMPUTE,
    ),
]
NetworksPerBatchOption = Annotated[
    int,
    typer.Option(
        min=1,
        help="Networks that a worker measures in one pass. 64 on a GPU make dextr 3 times as "
        "fast; on a CPU only small networks become faster. The values differ slightly from "
        "those of single networks and are stored separately.",
        rich_help_panel=COMPUTE,
    ),
]
RayOption = Annotated[
    str | None,
    typer.Option(
        help="Run the workers on a Ray cluster: local, or its address.", rich_help_panel=COMPUTE
    ),
]
TimeLimitOption = Annotated[
    str | None,
    typer.Option(
        help="Longest time for one architecture: 30s. A slower one counts as failed.",
        rich_help_panel=COMPUTE,
    ),
]


def require_option(name: str, value: object, needed: str, needed_value: object) -> None:
    """Refuse an option that has no effect without another one.

    Args:
        name: The option, such as "--keep".
        value: Its value; None if it was not given.
        needed: The other option with an example value, such as "--screen params,naswot".
        needed_value: Its value; empty if it was not given.

    Raises:
        UsageError: If the option was given without the other one.
    """
    if value is not None and not needed_value:
        needed_name = needed.split()[0]
        raise UsageError(
            f"{name} {value} has no effect without {needed_name}: add {needed}, or leave out {name}"
        )


def add_label(data: str | None, label: str | None) -> str | None:
    """Add the value of `--label` to the name of a table: `csv:clicks.csv?label=click`.

    Args:
        data: Value of `--data`.
        label: Value of `--label`.

    Returns:
        The complete name of the data; None if no data were named.

    Raises:
        UsageError: If there is a label but the data are not a table.
    """
    if label is None:
        return data
    if data is None:
        raise UsageError(
            f"--label {label} names a column of a table: add --data csv:PATH or --data parquet:PATH"
        )
    # A path without "csv:" is refused when the data are opened, and that message says what to
    # write instead. (`Path.exists` would raise on a name that is too long for a path.)
    if os.path.exists(data):
        return data
    if not data.startswith(("csv:", "parquet:")):
        raise UsageError(
            f"--label {label} names a column of a table, csv:PATH or parquet:PATH, "
            f"and {data} is not a table"
        )
    separator = "&" if "?" in data else "?"
    return f"{data}{separator}label={quote(label)}"

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
        help="Proxies, separated by commas: dextr,params or ./mine.py:mine; all for every proxy.",
        rich_help_panel=WHAT,
    ),
]
WarmUpOption = Annotated[
    str,
    typer.Option(
        help="Train on a share of the data before scoring, for example 10%. This trains the "
        "supernet of the space; 10%(paths=each) trains each architecture on its own, and "
        "1%(preset=nasrec) uses the schedule of NASRec.",
        rich_help_panel=WHAT,
    ),
]
FailuresOption = Annotated[
    str,
    typer.Option(
        help="How statistics treat networks without a score: omit leaves them out, last ranks them "
        "last.",
        rich_help_panel=WHAT,
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        min=0,
        help="Random seed for sampling, weights and batches.",
        rich_help_panel=WHAT,
    ),
]
SeedsOption = Annotated[
    int,
    typer.Option(
        min=1,
        help="Number of seeds to average over, each with its own weights and batch.",
        rich_help_panel=WHAT,
    ),
]
InputShapeOption = Annotated[
    str | None,
    typer.Option(
        help="Shape of one input of your own network, such as 3x224x224.", rich_help_panel=WHAT
    ),
]
ClassesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of classes.",
        show_default="number of outputs",
        rich_help_panel=WHAT,
    ),
]

# Limits
MaxParamsOption = Annotated[
    str | None,
    typer.Option(help="Largest number of parameters, for example 1M.", rich_help_panel=LIMITS),
]
MinParamsOption = Annotated[
    str | None,
    typer.Option(help="Smallest number of parameters, for example 100k.", rich_help_panel=LIMITS),
]
MaxFlopsOption = Annotated[
    str | None,
    typer.Option(help="Largest number of multiply-adds, for example 150M.", rich_help_panel=LIMITS),
]
MaxMemoryOption = Annotated[
    str | None,
    typer.Option(
        help="Largest memory for weights and activations of one sample in float32, for example "
        "300MB.",
        rich_help_panel=LIMITS,
    ),
]

# Data
TABLE_KINDS = ("csv", "parquet", "criteo", "avazu", "kdd2012", "frappe")
# Kinds of data that accept --test.
KINDS_WITH_TEST = ("folder", "images", "npz", *TABLE_KINDS)

# The default is None, not "digits", because commands need to know whether the user named data.
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
        help="Column to predict in csv:PATH, parquet:PATH or images:PATH.csv.",
        rich_help_panel=DATA,
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        help="Kind of the label: binary (tables only), classification or regression.",
        show_default="inferred from the label",
        rich_help_panel=DATA,
    ),
]
TestOption = Annotated[
    str | None,
    typer.Option(
        help="Your own test data, of the same kind as --data: folder:./held, csv:held.csv.",
        show_default="a tenth of the data",
        rich_help_panel=DATA,
    ),
]
InputSizeOption = Annotated[
    int | None,
    typer.Option(
        min=8,
        help="Scale images to this number of pixels per side, for example 64.",
        show_default="that of the space, or what suits your pictures in the default space",
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
# By default, the folder is named after the options, so the same command resumes even without --run.
RunOption = Annotated[
    Path | None,
    typer.Option(
        help="Run folder. Repeating the command with the same folder resumes the run.",
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
# `ComputeConfig` checks these values; its messages say what this machine has.
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
        help="Number of networks that a worker measures in one pass. On a GPU, 64 makes dextr 3 "
        "times as fast; on a CPU, only small networks become faster. The scores differ slightly "
        "from those of one network per pass and are stored separately.",
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
        help="Longest time for scoring one architecture, for example 30s. Slower architectures are "
        "recorded as failures. This option does not limit the whole command.",
        rich_help_panel=COMPUTE,
    ),
]


def require_option(name: str, value: object, other_example: str, other_value: object) -> None:
    """Refuse an option that has no effect without another one.

    Args:
        name: The option, such as "--keep".
        value: Its value; None if it is not set.
        other_example: The other option with an example value, such as "--screen params,naswot".
        other_value: The value of the other option; empty or None if it is not set.

    Raises:
        UsageError: The option is set and the other one is not.
    """
    if value is not None and not other_value:
        other_name = other_example.split()[0]
        raise UsageError(
            f"{name} {value} has no effect without {other_name}: "
            f"add {other_example}, or leave out {name}"
        )


def add_label(data: str | None, label: str | None, task: str | None = None) -> str | None:
    """Add `--label` and `--task` to the name of a table: `csv:clicks.csv?label=click`.

    A label file of pictures, `images:PATH.csv`, is such a table.

    Args:
        data: Value of `--data`.
        label: Value of `--label`.
        task: Value of `--task`.

    Returns:
        The complete name of the data; None if there is no `--data`.

    Raises:
        UsageError: There is a label or a task, but the data are not a table.
    """
    data = _add_table_option(data, "label", label, "names a column of a table")
    return _add_table_option(data, "task", task, "says what the label of a table is")


def _add_table_option(data: str | None, name: str, value: str | None, purpose: str) -> str | None:
    """Add the value of an option to the name of a table.

    Args:
        data: The name of the data so far.
        name: The option without dashes.
        value: Its value; None if it is not set.
        purpose: What the option does, for the messages.
    """
    if value is None:
        return data
    if data is None:
        raise UsageError(
            f"--{name} {value} {purpose}: add --data csv:PATH, parquet:PATH or images:PATH.csv"
        )
    # A path without "csv:" is refused when the data are loaded, with a message that says what to
    # write instead. (`Path.exists` would raise an error for a name that is too long for a path.)
    if os.path.exists(data):
        return data
    if not data.startswith(("csv:", "parquet:", "images:")):
        raise UsageError(
            f"--{name} {value} {purpose}, and {data} is not a table; write csv:PATH, parquet:PATH "
            "or images:PATH.csv"
        )
    separator = "&" if "?" in data else "?"
    return f"{data}{separator}{name}={quote(value)}"


def add_test(data: str | None, test: str | None) -> str | None:
    """Add the value of `--test` to the name of data: `folder:./photos?test=./held`.

    Args:
        data: The name of the data, with `--label`.
        test: Value of `--test`: a path, or a kind and a path.

    Returns:
        The complete name of the data; None if there are none.

    Raises:
        UsageError: The test data cannot belong to the data.
    """
    if test is None:
        return data
    kind = ""
    if data is not None and ":" in data:
        kind = data.partition(":")[0]
    if kind not in KINDS_WITH_TEST:
        raise UsageError(
            f"--test {test} needs data of your own, such as --data folder:./photos; it works with "
            f"the kinds {', '.join(KINDS_WITH_TEST)}"
        )
    test_kind, colon, path_after_kind = test.partition(":")
    # Any other colon belongs to the path.
    path = test
    if colon and test_kind == kind:
        path = path_after_kind
    elif colon and test_kind in KINDS_WITH_TEST:
        raise UsageError(
            f"--test {test} and --data {data} are of different kinds; write --test {kind}:PATH"
        )
    if not path:
        raise UsageError(f"--test {test} names no path; write it like --test {kind}:./held")
    if os.path.exists(str(data)):
        # Data without a kind are refused when they are loaded.
        return data
    # Only tables and label files have other options. In the names of other files and folders, a
    # question mark is an ordinary character.
    has_options = kind in (*TABLE_KINDS, "images") and "?" in str(data)
    separator = "&" if has_options else "?"
    return f"{data}{separator}test={quote(path)}"

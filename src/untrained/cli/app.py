"""The program `untrained`: registers all commands and prints errors."""

import sys
from typing import Annotated, Protocol, cast

import typer

from untrained.cli.bench_command import bench
from untrained.cli.calibrate_command import calibrate
from untrained.cli.data_command import data_app
from untrained.cli.doctor_command import doctor
from untrained.cli.exit_codes import INTERRUPTED, WRONG_USAGE
from untrained.cli.export_command import export
from untrained.cli.help_text import GroupWithFlags, add_command
from untrained.cli.latency_command import latency_app
from untrained.cli.list_command import list_entries
from untrained.cli.report_command import report
from untrained.cli.reproduce_command import reproduce
from untrained.cli.score_command import score
from untrained.cli.search_command import search
from untrained.cli.store_command import store_app
from untrained.cli.terminal.text import print_line
from untrained.cli.train_command import train
from untrained.errors import Interrupted, UsageError
from untrained.quantities import is_utf8, make_printable
from untrained.version import __version__

app = typer.Typer(
    cls=GroupWithFlags,
    help="Find neural architectures without training them.",
    epilog="Start with `untrained search`: it needs no options and no data. "
    "`untrained list` shows the names of all spaces, proxies, strategies, data sets and more.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
# `--help` lists the commands in this order: from the main job to the tools around it.
add_command(app, "search", search)
add_command(app, "score", score)
add_command(app, "bench", bench)
add_command(app, "calibrate", calibrate)
add_command(app, "train", train)
add_command(app, "export", export)
add_command(app, "report", report)
add_command(app, "reproduce", reproduce)
add_command(app, "list", list_entries)
add_command(app, "doctor", doctor)
app.add_typer(latency_app, name="latency")
app.add_typer(data_app, name="data")
app.add_typer(store_app, name="store")

# Typer reports wrong options with click's UsageError. Some versions of typer contain a copy of
# click, so the class is taken from the base of an exception that typer exports.
TyperUsageError: type[Exception] = typer.BadParameter.__bases__[0]


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"untrained {__version__}")
        raise typer.Exit


@app.callback()
def accept_program_options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    # Typer takes the options of the program itself from the parameters of this callback. A
    # docstring would replace the help text of the app.
    pass


def main() -> None:
    """Run the command line.

    A wrong command prints one line and never a traceback of this package.
    """
    try:
        _check_encoding(sys.argv[1:])
        # In standalone mode, typer would print errors in its own format and exit.
        exit_code = app(standalone_mode=False)
    except TyperUsageError as error:
        _print_error(_describe_typer_error(cast(_TyperError, error)))
        sys.exit(WRONG_USAGE)
    except Interrupted as error:
        _print_error(str(error))
        sys.exit(INTERRUPTED)
    except (UsageError, OSError) as error:
        _print_error(str(error))
        sys.exit(WRONG_USAGE)
    except KeyboardInterrupt:
        _print_error("stopped by Ctrl-C")
        sys.exit(INTERRUPTED)
    # Typer returns the code of `typer.Exit`, or what the command returned, which is None.
    sys.exit(exit_code if isinstance(exit_code, int) else 0)


def _check_encoding(arguments: list[str]) -> None:
    """Refuse names that are not UTF-8: reports, JSON and the store cannot contain them."""
    for argument in arguments:
        if not is_utf8(argument):
            raise UsageError(
                f"{make_printable(argument)!r} is not UTF-8; "
                "rename the file or folder, and type its new name"
            )


class _TyperError(Protocol):
    """The part of `TyperUsageError` that every copy of click has."""

    ctx: typer.Context | None

    def format_message(self) -> str: ...


def _describe_typer_error(error: _TyperError) -> str:
    """Describe a wrong option in one line, with the command that shows the help."""
    message = " ".join(error.format_message().split()).rstrip(".")
    command = "untrained" if error.ctx is None else error.ctx.command_path
    return f"{message}; see `{command} --help`"


def _print_error(message: str) -> None:
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    print_line(message, err=True)

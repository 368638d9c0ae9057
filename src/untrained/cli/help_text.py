"""Register commands whose help text fills the width of the terminal."""

from collections.abc import Callable
from functools import wraps
from inspect import cleandoc
from typing import Any

import typer
import typer.core

from untrained.errors import Interrupted


class CommandWithFlags(typer.core.TyperCommand):
    """A command whose help shows no type for flags, which take no value."""

    def get_params(self, ctx: Any) -> Any:
        return _hide_types_of_flags(super().get_params(ctx))


class GroupWithFlags(typer.core.TyperGroup):
    """A group of commands whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> Any:
        return _hide_types_of_flags(super().get_params(ctx))


def _hide_types_of_flags(params: Any) -> Any:
    for param in params:
        # Some versions of typer would show "--help <bool>".
        is_flag = getattr(param, "is_bool_flag", False) or getattr(param, "is_flag", False)
        if is_flag and param.metavar is None:
            param.metavar = ""
    return params


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Add a command whose help is the docstring of its function.

    Typer keeps the line breaks of a docstring, which suit only a terminal of that width. Here each
    paragraph becomes one line, which Typer wraps at the width of the terminal.

    Args:
        app: The program, or a group of commands.
        name: Name of the command.
        function: Runs the command. Its parameters are the arguments and options of the command.
    """

    @wraps(function)
    def run_command(*arguments: object, **options: object) -> None:
        # Typer would end the program without a message.
        try:
            function(*arguments, **options)
        except KeyboardInterrupt:
            raise Interrupted("stopped by Ctrl-C before there was a result") from None

    paragraphs = cleandoc(function.__doc__ or "").split("\n\n")
    joined_paragraphs = [" ".join(paragraph.split()) for paragraph in paragraphs]
    help_text = "\n\n".join(joined_paragraphs)
    app.command(name, cls=CommandWithFlags, help=help_text)(run_command)

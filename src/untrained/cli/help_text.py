"""Register commands with help that fills the width of the terminal."""

from collections.abc import Callable
from inspect import cleandoc

import typer


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Add a command whose help is the docstring of its function.

    Typer prints the line breaks of a docstring, which are right for 100 columns only. Here each
    paragraph becomes one line, and the terminal wraps it.

    Args:
        app: The program, or a group of commands.
        name: What the user types.
        function: What the command does. Its parameters are the options of the command.
    """
    paragraphs = cleandoc(function.__doc__ or "").split("\n\n")
    joined = [" ".join(paragraph.split()) for paragraph in paragraphs]
    app.command(name, help="\n\n".join(joined))(function)

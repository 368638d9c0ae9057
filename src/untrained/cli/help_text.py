"""Register commands whose help text fills the width of the terminal."""

from collections.abc import Callable
from functools import wraps
from inspect import cleandoc

import typer

from untrained.errors import Interrupted


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
    app.command(name, help="\n\n".join(joined_paragraphs))(run_command)

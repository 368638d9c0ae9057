"""Command lines to print, such as the one that repeats a run."""

from collections.abc import Callable, Mapping
from inspect import signature
from shlex import quote


def format_options(function: Callable[..., object], arguments: Mapping[str, object]) -> str:
    """Format arguments as command line options: `--budget 1000 --seeds 3`.

    Args:
        function: The function that the command calls. Arguments that equal its defaults are left
            out, and so are None and empty texts.
        arguments: Values by the names of the function's parameters.
    """
    parameters = signature(function).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    options = []
    for name, value in arguments.items():
        if value in ("", None, defaults.get(name)):
            continue
        options.append(f"--{name.replace('_', '-')} {quote(str(value))}")
    return " ".join(options)

"""A line that says that a command has begun, because importing torch takes seconds."""

import os
import sys

from untrained.cli.terminal.text import print_line


def announce_loading(what: str, quiet: bool) -> None:
    """Print a line before torch is imported, on the error stream.

    Nothing is printed if torch is imported already, or in the further processes of a distributed
    training.

    Args:
        what: What is loaded, such as "torch and the data".
        quiet: Whether to print nothing.
    """
    is_first_process = os.environ.get("RANK", "0") == "0"
    if not quiet and is_first_process and "torch" not in sys.modules:
        print_line(f"loading {what} ...", err=True)

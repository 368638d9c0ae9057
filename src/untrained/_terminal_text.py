"""Texts of others on a terminal: names of files and classes, messages of their code.

A terminal obeys control characters: a name that holds them could move the cursor, change the title of the window or
overwrite lines. Everything that we print goes through `clean_text`; `SafeConsole` does so for tables and bars.
"""

import re

# Control characters except for tab and line feed, halves of surrogate pairs (bytes of names that are no UTF-8), line
# and paragraph separators, and marks that reverse the direction of text.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean_text(text: str) -> str:
    """Replace all characters that a terminal obeys instead of showing them."""
    return _OBEYED.sub(_REPLACEMENT, text)


def print_line(text: str, *, err: bool = False) -> None:
    """Print a text on standard output or on the error stream."""
    import typer

    typer.echo(clean_text(text), err=err)

"""Print text from outside this package: names of files and classes, messages of other code.

A terminal interprets control characters: a name that contains them could move the cursor, change
the title of the window or overwrite lines. All text that the commands print passes through
`clean_text`; `SafeConsole` applies it to tables and progress bars. JSON escapes such characters.
"""

import re

# Control characters except tab and line feed, surrogates (bytes of names that are not UTF-8), line
# and paragraph separators, and marks that change the direction of text.
_UNSAFE_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean_text(text: str) -> str:
    """Replace every character that a terminal would interpret instead of showing it."""
    return _UNSAFE_CHARACTERS.sub(_REPLACEMENT, text)


def print_line(text: str, *, err: bool = False) -> None:
    """Print a line on standard output, or on the error stream if `err` is true."""
    import typer

    typer.echo(clean_text(text), err=err)

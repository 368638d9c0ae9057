"""The JSON document that a command prints with `--json`."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout


def print_json(document: Mapping[str, object] | Sequence[object]) -> None:
    """Print one JSON document on standard output."""
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


def reserve_stdout(as_json: bool) -> AbstractContextManager[object]:
    """Keep standard output free for the JSON document.

    If `as_json` is true, everything that user code prints within the block goes to the error
    stream.
    """
    if as_json:
        return redirect_stdout(sys.stderr)
    return nullcontext()

"""The exceptions that this package raises on purpose.

A `UsageError` is shown to the user: one line that says what is wrong and what to type instead
(`UserCodeError` adds the traceback of the user's code).
An `Interrupted` is shown in the same way after Ctrl-C; the exit code differs.
An `Unscorable` does not stop a run: it becomes the `Failure` in the record of one architecture.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from untrained.types import FailureKind, check_failure_kind

MAX_NAMES_SHOWN = 12  # names in a message; `untrained list` shows all of them


class UntrainedError(Exception):
    """Base class of every error that this package raises on purpose."""


class UsageError(UntrainedError):
    """A request is wrong; the message says what to type instead."""


class Interrupted(UntrainedError):  # noqa: N818 - it names a state, not a mistake
    """Stopped by Ctrl-C; the message says what was saved."""


class Unscorable(UntrainedError):  # noqa: N818 - it names a state of a network, not a mistake
    """The proxy cannot score this network. The record stores the reason."""

    def __init__(self, kind: FailureKind, detail: str = "") -> None:
        check_failure_kind(kind)
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind: FailureKind = kind
        self.detail = detail


def make_unknown_name_error(what: str, name: object, available_names: Iterable[str]) -> UsageError:
    """Make the error for an unknown name. It suggests similar names or lists the available ones.

    Args:
        what: What the name stands for, such as "space".
        name: The unknown name.
        available_names: The names that exist.
    """
    names = sorted(available_names)
    similar_names = get_close_matches(str(name), names, n=3, cutoff=0.5)
    if similar_names:
        hint = f"did you mean {' or '.join(similar_names)}?"
    elif len(names) > MAX_NAMES_SHOWN + 3:
        shown_names = ", ".join(names[:MAX_NAMES_SHOWN])
        hint = f"available: {shown_names} and {len(names) - MAX_NAMES_SHOWN} more"
    else:
        hint = f"available: {', '.join(names) or 'none'}"
    return UsageError(f"no {what} is called {name!r}; {hint}")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception means that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    # torch raises a RuntimeError, which only its message distinguishes from other errors.
    message = str(error)
    return "out of memory" in message or "can't allocate memory" in message

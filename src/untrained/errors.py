"""What can go wrong, in two kinds: a question that cannot be answered, and a network that cannot be judged.

`UsageError` is for the person at the keyboard: one line that says what was wrong, what was wanted and what to type
instead. `Unscorable` is for the record: it never stops a run, it becomes the `Failure` of one architecture.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from untrained.types import FailureKind, check_failure_kind

SHOWN = 12  # names in a message; `untrained list` shows them all


class UntrainedError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(UntrainedError):
    """The request is wrong; the message says what to type instead."""


class Interrupted(UsageError):  # noqa: N818 - it names a state, not a mistake
    """Stopped by Ctrl-C; the message says what was kept."""


class Unscorable(UntrainedError):  # noqa: N818 - it names a state of a network, not a mistake of a caller
    """This network has no such score, for a reason that belongs in its record."""

    def __init__(self, kind: FailureKind, detail: str = "") -> None:
        check_failure_kind(kind)
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind: FailureKind = kind
        self.detail = detail


def unknown(what: str, name: object, known: Iterable[str]) -> UsageError:
    """The error for a name nobody registered, with the near ones listed."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=3, cutoff=0.5)
    listed = f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more" if len(names) > SHOWN + 3 else ", ".join(names)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {listed or 'none'}"
    return UsageError(f"no {what} is called {name!r}; {hint}")


def out_of_memory(error: BaseException) -> bool:
    """Whether the machine failed and not what it was asked to do; torch says so in words."""
    text = str(error)
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text

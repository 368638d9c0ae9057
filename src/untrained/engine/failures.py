"""Failures are values: an exception about one network becomes the `Failure` in its record.

`catch_failure` is the only function that turns exceptions into failures. `built_network.py` puts
them into records, and so does `executors/pool.py` for networks that kill or block their worker.
"""

import functools
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch

from untrained.errors import Unscorable, UsageError, is_out_of_memory
from untrained.types import Failure, FailureKind

P = ParamSpec("P")
T = TypeVar("T")


def catch_failure(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Failure:
    """Call a function and return its result, or the failure if it raises.

    Args:
        work: A function that does something with one network.
        *args: Arguments of the function.
        **kwargs: Keyword arguments of the function.

    Returns:
        The result of the function, or why there is none.

    Raises:
        UsageError: The user asked for something impossible, which is not the fault of a network.
        KeyboardInterrupt: The user pressed Ctrl-C.
    """
    try:
        return work(*args, **kwargs)
    except UsageError:
        raise
    except Unscorable as reason:
        return Failure(reason.kind, reason.detail)
    # A network that calls sys.exit must end its own score only, so SystemExit is caught too.
    except (Exception, SystemExit) as error:
        return Failure(classify_error(error), _describe_error(error), _format_traceback(error))


def classify_error(error: BaseException) -> FailureKind:
    """Return the kind of failure that an unexpected exception is recorded as."""
    if is_out_of_memory(error) or isinstance(error, torch.OutOfMemoryError):
        return "oom"
    if isinstance(error, NotImplementedError):
        return "unsupported"
    if re.search("derivative for .* is not implemented", str(error)):
        return "unsupported"
    return "error"


def get_first_line(error: BaseException) -> str:
    """Return the first line of the message of an exception, or an empty string."""
    lines = str(error).strip().splitlines()
    if not lines:
        return ""
    return lines[0]


def _describe_error(error: BaseException) -> str:
    """Return type, message and, where there is one, the last place in the user's own code."""
    # Cached properties are called through functools, which is not the user's code either.
    library_paths = (
        str(Path(__file__).parents[1]),
        str(Path(torch.__file__).parent),
        functools.__file__,
    )
    description = f"{type(error).__name__}: {get_first_line(error)}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(library_paths):
            return f"{description} ({frame.name}, line {frame.lineno})"
    return description


def _format_traceback(error: BaseException) -> str:
    """Return the traceback without the frames of this file."""
    frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename != __file__:
            frames.append(frame)
    lines = traceback.format_list(frames)
    lines += traceback.format_exception_only(error)
    return "".join(lines).rstrip()

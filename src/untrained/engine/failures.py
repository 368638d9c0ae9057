"""Turn an exception that a network raises into the `Failure` in its record.

Only `catch_failure` does this. `worker.py` puts failures into records. `executors/pool.py` makes
the failures of networks that kill a worker or exceed the time limit.
"""

import functools
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch

from untrained.errors import Interrupted, Unscorable, UsageError, is_out_of_memory
from untrained.types import Failure, FailureKind

P = ParamSpec("P")
T = TypeVar("T")


def catch_failure(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Failure:
    """Call a function and return its result, or a failure if it raises.

    Args:
        function: A function that works on one network.
        *args: Arguments of the function.
        **kwargs: Keyword arguments of the function.

    Returns:
        The result of the function, or the failure.

    Raises:
        UsageError: The user made a mistake that concerns the whole run, not one network.
        KeyboardInterrupt, Interrupted: The user pressed Ctrl-C.
    """
    try:
        return function(*args, **kwargs)
    except (UsageError, Interrupted):
        raise
    except Unscorable as unscorable:
        return Failure(unscorable.kind, unscorable.detail)
    # SystemExit is caught too, so that a network that calls sys.exit does not end the run.
    except (Exception, SystemExit) as error:
        return Failure(classify_error(error), _describe_error(error), _format_traceback(error))


def classify_error(error: BaseException) -> FailureKind:
    """Return the failure kind under which an unexpected exception is recorded."""
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
    """Return type and message of an exception, and the last line of user code in its traceback."""
    # functools calls cached properties, so it is not user code either.
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

"""Failures are values: whatever goes wrong with one architecture becomes the `Failure` in its record, and the run goes
on."""

import functools
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch

from untrained.errors import Unscorable, UsageError, out_of_memory
from untrained.types import Failure, FailureKind

P = ParamSpec("P")
T = TypeVar("T")


def attempt(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Failure:
    """The result of `work`, or why there is none. Wrong usage and Ctrl-C are no failures of the network."""
    try:
        return work(*args, **kwargs)
    except UsageError:
        raise
    except Unscorable as reason:
        return Failure(reason.kind, reason.detail)
    except (Exception, SystemExit) as error:  # a network that calls sys.exit ends its own score and nothing else
        return Failure(kind_of(error), _last_line(error), _trace(error))


def kind_of(error: BaseException) -> FailureKind:
    """The kind of failure that an unexpected exception is counted as."""
    if out_of_memory(error) or isinstance(error, torch.OutOfMemoryError):
        return "oom"
    if isinstance(error, NotImplementedError) or re.search("derivative for .* is not implemented", str(error)):
        return "unsupported"
    return "error"


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _last_line(error: BaseException) -> str:
    """Type, message, and the last place in code that is neither ours nor torch's, where there is one. A property that
    is kept goes through functools."""
    libraries = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent), functools.__file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(libraries)]
    place = f" ({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {first_line(error)}{place}"


def _trace(error: BaseException) -> str:
    """The traceback from the first line below this file on."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    return "".join(lines).rstrip()

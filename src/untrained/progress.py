"""How a long operation tells its caller how far it is: one event, one callback."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from untrained.types import Record


@dataclass(frozen=True)
class Progress:
    """How far a stage of a long operation is.

    Attributes:
        stage: What is being done, such as "scoring" or "training".
        done: Finished units: architectures, steps or pictures.
        total: Units of the whole stage, or None if it is not known yet.
        measured: Of the finished architectures, how many were measured now. The others came from the
            store, which takes no time, so only these count for an estimate.
        workers: Number of workers that share the stage.
        records: Records of the last architecture.
        metrics: Latest numbers of a training: `epoch`, `epochs`, `loss`, `val_loss`, `val_accuracy`.
    """

    stage: str
    done: int
    total: int | None
    measured: int = 0
    workers: int = 1
    records: Sequence[Record] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)


ProgressCallback = Callable[[Progress], None]

# Data are opened in many places whose functions need not pass a callback on just for that.
_CALLBACK: ContextVar[ProgressCallback | None] = ContextVar("progress_callback", default=None)


@contextmanager
def use_progress_callback(callback: ProgressCallback) -> Iterator[None]:
    """Within this block, `report_progress` calls the callback."""
    token = _CALLBACK.set(callback)
    try:
        yield
    finally:
        _CALLBACK.reset(token)


def report_progress(stage: str, done: int, total: int | None) -> None:
    """Report progress to the callback of the surrounding `use_progress_callback`, if there is one."""
    callback = _CALLBACK.get()
    if callback is not None:
        callback(Progress(stage, done, total))

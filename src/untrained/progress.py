"""Progress of long operations: one event type and one callback signature for all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from untrained.types import Record


@dataclass(frozen=True)
class BestSoFar:
    """The best architecture of a search that is in progress.

    Attributes:
        arch: The architecture as text.
        score: Its score, the mean over its seeds.
    """

    arch: str
    score: float


@dataclass(frozen=True)
class Progress:
    """Progress of one stage of a long operation.

    Attributes:
        stage: Name of the stage, such as "scoring" or "training".
        done: Number of finished units: architectures, steps or images.
        total: Number of units of the whole stage, or None if it is not known yet.
        measured: Number of finished architectures that were measured in this run. The others were
            read from the store, which takes no time, so an estimate ignores them.
        workers: Number of workers that share the stage.
        records: Records of the last architecture.
        metrics: Latest metrics of a training: `epoch`, `epochs`, `loss`, `val_loss`, `val_rmse` and
            `val_accuracy`.
        best: The best architecture so far, in a search whose score is known while it runs. Limits
            that are measured at the end, such as latency, are not considered yet.
        is_percentage: Whether the units are per cent, so that `total` is 100.
        remark: What the user should know before the next stage; usually empty.
        end_reason: Why the stage has ended before `total`, such as "time"; empty while it runs.
    """

    stage: str
    done: int
    total: int | None
    measured: int = 0
    workers: int = 1
    records: Sequence[Record] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    best: BestSoFar | None = None
    is_percentage: bool = False
    remark: str = ""
    end_reason: str = ""


ProgressCallback = Callable[[Progress], None]

# Data are loaded in many places. With a context variable, the functions that load them need no
# callback parameter.
_CALLBACK: ContextVar[ProgressCallback | None] = ContextVar("progress_callback", default=None)


@contextmanager
def use_progress_callback(callback: ProgressCallback) -> Iterator[None]:
    """Make `report_progress` call the callback within the block."""
    token = _CALLBACK.set(callback)
    try:
        yield
    finally:
        _CALLBACK.reset(token)


def report_progress(stage: str, done: int, total: int | None) -> None:
    """Call the callback of the surrounding `use_progress_callback`, if there is one."""
    callback = _CALLBACK.get()
    if callback is not None:
        callback(Progress(stage, done, total))

"""What the page of a run shows while the run is in progress."""

from dataclasses import dataclass

from untrained.progress import BestSoFar
from untrained.reports.contest_result import ContestEntry


@dataclass(frozen=True)
class LivePhase:
    """A phase of a run that has begun.

    Attributes:
        name: What is done, such as "scoring".
        done: Number of finished units.
        total: Number of units; None if unknown.
        seconds: How long it has taken so far.
        seconds_left: How long it will probably still take; None if unknown, or if it is finished.
        is_finished: Whether a later phase has begun.
        is_percentage: Whether the units are per cent.
    """

    name: str
    done: int
    total: int | None
    seconds: float
    seconds_left: float | None = None
    is_finished: bool = False
    is_percentage: bool = False


@dataclass(frozen=True)
class FailureCount:
    """Architectures that failed for the same reason, and the first example."""

    kind: str
    count: int
    arch: str
    detail: str


@dataclass(frozen=True)
class LiveSummary:
    """Everything that the page of a run in progress shows.

    Attributes:
        title: The data in words, or what is searched.
        command: The command that repeats or resumes the run; empty if the data are objects in
            Python.
        space: Name of the space.
        proxy: Name of the score.
        higher_is_better: The direction of the score.
        phases: The phases that have begun; the last one is in progress.
        remark: What the reader should know about the phases; may be empty.
        scored: Number of architectures with a score.
        best: The best of them; None if there is none yet.
        improvements: How many architectures had been scored when the best score changed, and the
            new score.
        failures: Architectures without a score, the most frequent reason first.
        entries: The networks of the contest, if it has begun.
        metrics: Latest metrics of a training.
        seconds: How long this session has taken.
        earlier_seconds: How long earlier sessions took.
        written_on: Local date and time.
        notice: What the reader should know about an earlier session; may be empty.
        ending: Why the session ended without a result; empty while it lasts.
        reload_seconds: The page reloads after this time; None if the session has ended.
    """

    title: str
    command: str
    space: str
    proxy: str
    higher_is_better: bool
    phases: tuple[LivePhase, ...]
    remark: str = ""
    scored: int = 0
    best: BestSoFar | None = None
    improvements: tuple[tuple[int, float], ...] = ()
    failures: tuple[FailureCount, ...] = ()
    entries: tuple[ContestEntry, ...] = ()
    metrics: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    earlier_seconds: float = 0.0
    written_on: str = ""
    notice: str = ""
    ending: str = ""
    reload_seconds: int | None = None

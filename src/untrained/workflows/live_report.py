"""Write `report.html` while a run is in progress, so that a browser can follow it.

A thread writes the page every few seconds from the latest progress event. It takes at most
`MAX_SHARE` of the time of the run, and it reads no records. At the end, the report replaces it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import Event, Thread
from time import perf_counter

from untrained.benchmarks.statistics import orient_score
from untrained.errors import Interrupted, UsageError
from untrained.files import use_run_folder, write_atomically
from untrained.formatting import format_now, format_percent
from untrained.progress import BestSoFar, Progress, ProgressCallback
from untrained.reports.contest_result import ContestEntry
from untrained.reports.live_summary import FailureCount, LivePhase, LiveSummary
from untrained.reports.pages.live_page import render_live_page
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import compute_fitness
from untrained.runs.session import Session, SessionFile, read_session, remove_killed_session
from untrained.runs.winner import CONTEST_FILE
from untrained.types import Record
from untrained.workflows.contest import STAGE as CONTEST_STAGE
from untrained.workflows.contest_state import read_contest_entries
from untrained.workflows.report import (
    RELOAD_SECONDS,
    REPORT_FILE,
    describe_killed_session,
    make_search_title,
    write_report,
)

# The first page is written after this time, so that short runs write none.
FIRST_SECONDS = 1.5
# Shortest time between two pages, and largest share of the time that writing them may take.
MIN_SECONDS = 3.0
MAX_SHARE = 0.01
# The stage in which the winner is trained.
TRAINING_STAGE = "training"
# An estimate of the remaining time needs this many seconds of a phase.
MIN_ESTIMATE_SECONDS = 5.0


@dataclass
class _PhaseClock:
    """When a phase began and ended, by `perf_counter`, and its first and its last event."""

    start: float
    first: Progress
    latest: Progress
    end: float | None = None


class BestTracker:
    """Keeps the best score, its history and the failures of a search in progress."""

    def __init__(self, measure: str, higher_is_better: bool) -> None:
        self.best: BestSoFar | None = None
        self.improvements: list[tuple[int, float]] = []
        self.scored = 0
        self.failures: dict[str, FailureCount] = {}
        self._measure = measure
        self._higher_is_better = higher_is_better

    def add(self, records: Sequence[Record]) -> None:
        """Add the records of one architecture."""
        own_records = [record for record in records if record.measure == self._measure]
        if not own_records:
            return
        fitness = compute_fitness(own_records, self._measure, self._higher_is_better)
        if fitness is None:
            self._add_failure(own_records)
            return
        self.scored += 1
        if self.best is not None:
            best_fitness = orient_score(self.best.score, self._higher_is_better)
            if fitness <= best_fitness:
                return
        # Orienting a score twice restores it.
        score = orient_score(fitness, self._higher_is_better)
        self.best = BestSoFar(str(own_records[0].arch), score)
        self.improvements.append((self.scored, score))

    def _add_failure(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.error is None:
                continue
            kind = record.error.kind
            failure = self.failures.get(kind)
            if failure is None:
                failure = FailureCount(kind, 0, str(record.arch), record.error.detail)
            self.failures[kind] = replace(failure, count=failure.count + 1)
            return


class LiveReport:
    """Passes progress events on, adds the best so far to them, and writes the page of a run.

    Args:
        on_progress: Receives the events; None for no receiver.

    Attributes:
        training_follows: Whether the same command trains the winner afterwards, so that the report
            has to reload.
        remarks: The remarks of the events so far.
    """

    def __init__(self, on_progress: ProgressCallback | None = None) -> None:
        self.training_follows = False
        self.remarks: list[str] = []
        self._on_progress = on_progress
        self._tracker: BestTracker | None = None
        self._phases: dict[str, _PhaseClock] = {}

    def update(self, progress: Progress) -> None:
        """Process an event. This is a progress callback."""
        now = perf_counter()
        if self._tracker is not None:
            if progress.records:
                self._tracker.add(progress.records)
            if self._tracker.best is not None:
                progress = replace(progress, best=self._tracker.best)
        if progress.remark:
            self.remarks.append(progress.remark)
        clock = self._phases.get(progress.stage)
        if clock is None:
            # Phases run one after the other, so the beginning of one ends all earlier ones.
            phases = dict(self._phases)
            for former in phases.values():
                former.end = former.end or now
            phases[progress.stage] = _PhaseClock(now, progress, progress)
            # Replace the whole dictionary, because the writing thread iterates over it.
            self._phases = phases
        else:
            clock.latest = progress
        if progress.end_reason:
            phases_clock = self._phases[progress.stage]
            phases_clock.end = phases_clock.end or now
        if self._on_progress is not None:
            self._on_progress(progress)

    @contextmanager
    def follow(self, run: RunFolder, remark: str = "") -> Iterator[None]:
        """Write the page of a run until the block ends, then its report.

        If the block ends before the first page was written, no report is written either.

        Args:
            run: The run.
            remark: What the reader should know about the phases.
        """
        self._tracker = BestTracker(run.measure, run.higher_is_better)
        writer = _PageWriter(run, remark, self)
        try:
            yield
        except BaseException as error:
            writer.stop()
            writer.write_end(_describe_error(error))
            raise
        writer.stop()
        if writer.has_page:
            reload_seconds = None
            if self.training_follows:
                reload_seconds = RELOAD_SECONDS
            write_report(run.folder, reload_seconds)

    def describe_session(self) -> Session:
        """Return the current phase and its progress, for the session file."""
        if not self._phases:
            return Session("", 0, None)
        name, clock = list(self._phases.items())[-1]
        latest = clock.latest
        return Session(name, latest.done, latest.total, is_percentage=latest.is_percentage)

    def summarise(self, run: RunFolder, seconds: float) -> LiveSummary:
        """Return what the page shows.

        Args:
            run: The run.
            seconds: How long the session has taken.
        """
        assert self._tracker is not None
        phases = []
        metrics: Mapping[str, float | None] = {}
        for name, clock in self._phases.items():
            phases.append(_summarise_phase(name, clock))
            metrics = clock.latest.metrics
        entries: Sequence[ContestEntry] = ()
        # A training continues with the winner of a contest, if there was one.
        is_after_contest = TRAINING_STAGE in self._phases and (run.folder / CONTEST_FILE).is_file()
        if CONTEST_STAGE in self._phases or is_after_contest:
            entries = read_contest_entries(run.folder)
        failures = sorted(self._tracker.failures.values(), key=lambda failure: -failure.count)
        return LiveSummary(
            title=make_search_title(run),
            command=run.to_command(),
            space=run.config.space,
            proxy=run.config.score_name,
            higher_is_better=run.higher_is_better,
            phases=tuple(phases),
            scored=self._tracker.scored,
            best=self._tracker.best,
            improvements=tuple(self._tracker.improvements),
            failures=tuple(failures),
            entries=tuple(entries),
            metrics=tuple(_format_metrics(metrics).items()),
            seconds=seconds,
            earlier_seconds=run.wall_seconds,
            written_on=format_now(),
        )


class _PageWriter:
    """The thread that writes the page.

    Args:
        run: The run.
        remark: What the reader should know about the phases.
        report: What the page shows.

    Attributes:
        has_page: Whether there is a page that reloads and has to be replaced at the end.
    """

    def __init__(self, run: RunFolder, remark: str, report: LiveReport) -> None:
        self._run = run
        self._remark = remark
        self._report = report
        self._start = perf_counter()
        self._notice = ""
        killed_session = read_session(run.folder)
        if killed_session is not None and not killed_session.is_running:
            self._notice = describe_killed_session(killed_session)
        # A killed session left a page that reloads for ever.
        self.has_page = bool(self._notice)
        self._stopped = Event()
        self._thread = Thread(target=self._write_pages, name="live report", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop writing, and remove the session file of a killed session if there is one."""
        self._stopped.set()
        self._thread.join()
        if self._notice:
            remove_killed_session(self._run.folder)

    def write_end(self, ending: str) -> None:
        """Replace the page by one that does not reload, because no report will follow."""
        if self.has_page:
            with suppress(OSError, UsageError):
                self._write_page(ending)

    def _write_pages(self) -> None:
        if self._stopped.wait(FIRST_SECONDS):
            return
        # An error here, such as a full disk, must not stop the search. The search itself raises it
        # when it writes its own files.
        folder = self._run.folder
        with (
            suppress(OSError, UsageError),
            use_run_folder(folder),
            SessionFile.open(folder) as session_file,
        ):
            # It is None if another process works on the same run and writes its page.
            if session_file is not None:
                self._write_until_stopped(session_file)

    def _write_until_stopped(self, session_file: SessionFile) -> None:
        while True:
            start = perf_counter()
            session_file.write(self._report.describe_session())
            self._write_page()
            if self._stopped.wait(choose_pause(perf_counter() - start)):
                return

    def _write_page(self, ending: str = "") -> None:
        summary = self._report.summarise(self._run, perf_counter() - self._start)
        remarks = [self._remark, *self._report.remarks]
        remark = " ".join(text for text in remarks if text)
        summary = replace(summary, remark=remark, notice=self._notice, ending=ending)
        if not ending:
            summary = replace(summary, reload_seconds=RELOAD_SECONDS)
        write_atomically(self._run.folder / REPORT_FILE, render_live_page(summary))
        self.has_page = True


def choose_pause(seconds: float) -> float:
    """Return how long to wait after writing a page.

    Args:
        seconds: How long writing took.

    Example:
        >>> choose_pause(0.01)
        3.0
        >>> choose_pause(0.2)
        20.0
    """
    return max(MIN_SECONDS, seconds / MAX_SHARE)


def _summarise_phase(name: str, clock: _PhaseClock) -> LivePhase:
    latest = clock.latest
    end = clock.end or perf_counter()
    seconds = end - clock.start
    phase = LivePhase(
        name,
        latest.done,
        latest.total,
        seconds,
        is_finished=clock.end is not None,
        is_percentage=latest.is_percentage,
    )
    if phase.is_finished or not latest.total or seconds < MIN_ESTIMATE_SECONDS:
        return phase
    # A resumed training begins at a later step, and the clock starts at the first event.
    measured_count = latest.done - clock.first.done
    if latest.records:
        # Architectures whose records are read from the store take no time, so they are not counted.
        measured_count = latest.measured
    if not measured_count:
        return phase
    seconds_left = seconds / measured_count * max(0, latest.total - latest.done)
    return replace(phase, seconds_left=seconds_left)


def _format_metrics(metrics: Mapping[str, float | None]) -> dict[str, str]:
    """Return the metrics of a training as texts by name."""
    texts = {}
    for name, value in metrics.items():
        if value is None:
            continue
        text = f"{value:.4g}"
        if "accuracy" in name:
            text = format_percent(value)
        texts[name.replace("val_", "validation ")] = text
    return texts


def _describe_error(error: BaseException) -> str:
    """Return why a session ended without a result, in a sentence."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return "Stopped by Ctrl-C: what was finished is kept, and the same command resumes."
    message = " ".join(str(error).split())
    return f"This command ended with an error: {type(error).__name__}: {message}"

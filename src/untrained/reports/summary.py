"""What a page is made of: plain facts of a finished (or interrupted) run, ready to be shown.

The page knows nothing of stores, strategies or networks; whoever writes a report fills a `Summary` first.
"""

from dataclasses import dataclass, field
from typing import Any

from untrained.runs.ranking import choose_winner
from untrained.spaces.core.diagrams import Diagram
from untrained.studies.confirm import Confirmation
from untrained.training.trained import Trained


@dataclass(frozen=True, slots=True)
class Ranked:
    """One architecture of the ranking. `spread` is the standard deviation over seeds, None with one seed."""

    rank: int
    arch: str
    score: float
    spread: float | None = None
    params: float | None = None
    flops: float | None = None  # multiply-adds
    margin: float | None = None  # half-width of the 95 % interval of the mean
    tied: bool = False  # the seeds cannot tell it from the best


@dataclass(frozen=True, slots=True)
class Failed:
    """One architecture without a score, and why."""

    arch: str
    kind: str
    detail: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Worker:
    """What one worker did, in seconds."""

    name: str
    networks: int
    build: float
    transfer: float
    measure: float
    idle: float
    deaths: int = 0
    batched: int = 0  # of the networks, those that were looked at together with others


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit as it was typed, how many drawn architectures it turned down, and what the best has."""

    name: str
    asked: str
    rejected: int
    value: float | None


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The score against another objective, for all that have both."""

    name: str
    higher_is_better: bool
    objectives: int  # how many were weighed
    points: tuple[tuple[float, float, str, bool], ...]  # the other, the score, the architecture, beaten by none


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything the page of a search shows."""

    title: str
    command: str  # what to type to get (or resume) this run
    space: str
    space_size: int | None
    proxy: str
    proxy_about: str  # one sentence: what it measures, and the paper
    higher_is_better: bool
    ranking: tuple[Ranked, ...]  # best first
    failed: tuple[Failed, ...] = ()
    drawing: Diagram | None = None  # of the best architecture
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)  # seconds: build, transfer, measure, total
    workers: tuple[Worker, ...] = ()
    peak_bytes: int | None = None  # the most memory of a GPU that one architecture took
    notes: tuple[str, ...] = ()  # what must be said of some of the scores, once each
    screened: str = ""  # what was sieved out before, in a sentence
    course: tuple[float, ...] = ()  # scores in the order in which they were judged
    tradeoff: Tradeoff | None = None
    limits: tuple[Limit, ...] = ()
    trace: tuple[dict[str, Any], ...] = ()  # what the strategy believed, as plain JSON
    belief: dict[str, Any] | None = None  # and in the end, of a square of numbers
    seeds: int = 1
    stopped_early: bool = False
    ending: str = ""  # why it stopped, in a sentence
    made_on: str = ""  # date and time, local
    confirmed: Confirmation | None = None  # what short trainings said of the best
    trained: Trained | None = None  # the winner, where it was trained in the same folder

    @property
    def best(self) -> str:
        """The architecture that the run is about: the confirmed one, else the first of the ranking."""
        ranked = [row.arch for row in self.ranking]
        winner = choose_winner(ranked, self.confirmed.winner if self.confirmed else None)
        assert winner is not None  # whoever asks knows that something was ranked
        return winner

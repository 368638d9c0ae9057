"""Everything that the page of a finished or interrupted search shows."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from untrained.drawings.diagrams import Diagram
from untrained.reports.confirmation_result import Confirmation
from untrained.reports.contest_result import Contest
from untrained.runs.ranking import choose_winner
from untrained.runs.trace import TraceStep
from untrained.training.result import TrainingResult


@dataclass(frozen=True, slots=True)
class RankedArch:
    """One architecture of the ranking."""

    rank: int
    arch: str
    score: float
    spread: float | None = None  # standard deviation over seeds; None with one seed
    params: float | None = None
    flops: float | None = None  # multiply-adds
    margin: float | None = None  # half-width of the 95 % confidence interval of the mean
    tied: bool = False  # not significantly worse than the best
    other_scores: tuple[float | None, ...] = ()  # by the proxies of `SearchSummary.other_proxies`


@dataclass(frozen=True, slots=True)
class FailedArch:
    """One architecture without a score, and the reason."""

    arch: str
    kind: str
    detail: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """How one worker spent its time, in seconds."""

    name: str
    networks: int
    build: float
    transfer: float
    measure: float
    idle: float
    crashes: int = 0  # how often its process died and was replaced
    batched: int = 0  # networks that were measured together with others


@dataclass(frozen=True, slots=True)
class LimitResult:
    """A limit of the search, and how it affected the search."""

    name: str
    requested: str  # as the user typed it
    rejected: int  # proposed architectures that violated it
    value: float | None  # of the best architecture
    source: str = ""  # where the value comes from, if that is not obvious


@dataclass(frozen=True, slots=True)
class ConsensusSummary:
    """What a consensus of proxies learnt from its reference sample."""

    label: str
    description: str  # how far the members agree, in a sentence
    reference_size: int  # networks
    weights: tuple[tuple[str, float], ...]  # of the members, highest first
    left_out: tuple[tuple[str, str], ...]  # other members, and the reason
    scale: str = ""  # what a score means, in a sentence


class TradeoffPoint(NamedTuple):
    """One architecture in the plane of the score and another objective."""

    objective: float
    score: float
    arch: str
    # No other architecture is at least as good in all objectives and better in one.
    on_front: bool


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The score against another objective, for all architectures that have both."""

    name: str
    higher_is_better: bool
    objectives: int  # number of objectives of the search, including the score
    points: tuple[TradeoffPoint, ...]


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """Everything that the page of a search shows."""

    title: str
    command: str  # repeats or resumes the search; empty if the data were objects in Python
    space: str
    space_size: int | None
    proxy: str
    proxy_about: str  # what it measures, and the paper, in one sentence
    higher_is_better: bool
    ranking: tuple[RankedArch, ...]  # best first
    other_proxies: tuple[str, ...] = ()  # those of --also
    failed: tuple[FailedArch, ...] = ()
    diagram: Diagram | None = None  # of the best architecture
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)  # seconds by kind of work
    workers: tuple[WorkerTimes, ...] = ()
    peak_bytes: int | None = None  # largest GPU memory that one architecture needed
    notes: tuple[str, ...] = ()  # remarks about some of the scores
    consensus: tuple[ConsensusSummary, ...] = ()
    export: str = ""  # folder of the exported winner; empty if it is not exported
    screening: str = ""  # what was removed before scoring, in a sentence
    scores_in_order: tuple[float, ...] = ()  # in the order in which they were computed
    tradeoff: Tradeoff | None = None
    limits: tuple[LimitResult, ...] = ()
    trace: tuple[TraceStep, ...] = ()  # steps of the strategy
    prediction: dict[str, Any] | None = None  # of the final model, see svg/prediction_map.py
    seeds: int = 1
    stopped_early: bool = False
    ending: str = ""  # why it stopped, in a sentence
    made_on: str = ""  # local date and time
    confirmation: Confirmation | None = None  # short trainings of the best, on a table
    contest: Contest | None = None  # short trainings of the best, on images
    training: TrainingResult | None = None  # of the winner, if it was trained in the same folder
    has_timed_trainings: bool = False  # whether the command trains networks within a time limit

    @property
    def best(self) -> str:
        """The best architecture by short trainings if there were any, else by the ranking."""
        trained_winner = None
        if self.contest:
            trained_winner = self.contest.winner
        elif self.confirmation:
            trained_winner = self.confirmation.best_arch
        winner = choose_winner([row.arch for row in self.ranking], trained_winner)
        assert winner is not None, "`best` needs a ranking"
        return winner

    @property
    def winner_name(self) -> str:
        """The network to train and export: `best`, or the hand-designed network that won."""
        if self.confirmation and self.confirmation.winning_design:
            return self.confirmation.winning_design
        return self.best

    @property
    def arch_count(self) -> int:
        """Number of architectures, with and without a score."""
        return len(self.ranking) + len(self.failed)

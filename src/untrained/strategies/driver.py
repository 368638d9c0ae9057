"""The loop of a search: ask the strategy, evaluate, tell the strategy, until the budget is spent.

It is independent of networks, run folders and terminals.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

from untrained.engine import Evaluator
from untrained.progress import Progress, ProgressCallback
from untrained.strategies.base import Fitness, SamplingTimeError, Strategy
from untrained.strategies.budget import Budget, BudgetTracker
from untrained.types import Record

# Architectures to ask for at a time.
DEFAULT_ASK_SIZE = 256
# An `ask` may take this fraction of the remaining time. The rest is for scoring.
MAX_ASK_SHARE = 0.5


@dataclass
class DriverResult:
    """The result of running a strategy.

    Attributes:
        records: All records, in the order in which their architectures were proposed.
        end_reason: Why it ended: "budget", "time", "stable", "exhausted" or "interrupted".
        seconds: How long it took.
        batched_networks: Number of networks that were measured in one pass with others.
    """

    records: list[Record] = field(default_factory=list)
    end_reason: str = ""
    seconds: float = 0.0
    batched_networks: int = 0


def run_strategy(
    strategy: Strategy,
    evaluate: Evaluator,
    budget: Budget,
    fitness: Fitness,
    on_progress: ProgressCallback | None = None,
    ask_size: int = DEFAULT_ASK_SIZE,
    stage: str = "scoring",
    limit_sampling_time: Callable[[float], None] | None = None,
) -> DriverResult:
    """Run a strategy until its budget is spent, the space is exhausted, or Ctrl-C.

    Records arrive in the order in which their architectures were proposed, so that a search with
    many workers takes the same path as a search with one. Ctrl-C keeps all records so far.

    Args:
        strategy: Proposes architectures.
        evaluate: Scores them.
        budget: When to stop.
        fitness: Reads the score of an architecture.
        on_progress: Called after each architecture, once before the first, and once more if the
            stage ends before its total.
        ask_size: Number of architectures per `ask`, unless the strategy sets its own `ask_size`.
        stage: Name of the stage in progress events.
        limit_sampling_time: Called before each `ask` with the seconds that it may take, if the time
            is limited; see `ConstrainedSpace.limit_sampling_time`.

    Returns:
        The records, and why the search ended.
    """
    result = DriverResult()
    tracker = BudgetTracker(budget, fitness)
    start = perf_counter()
    if strategy.ask_size is not None:
        ask_size = strategy.ask_size
    if on_progress:
        on_progress(Progress(stage, 0, budget.total))
    try:
        while not result.end_reason:
            ask_deadline = inf
            if budget.seconds is not None and limit_sampling_time is not None:
                now = perf_counter()
                ask_seconds = MAX_ASK_SHARE * max(0.0, budget.seconds - (now - start))
                ask_deadline = now + ask_seconds
                limit_sampling_time(ask_seconds)
            try:
                archs = strategy.ask(tracker.choose_ask_size(ask_size))
            except SamplingTimeError:
                archs = []
            if not archs:
                is_time_over = ask_deadline < inf and perf_counter() >= ask_deadline
                result.end_reason = "time" if is_time_over else "exhausted"
                break
            asked_records: list[Record] = []
            # Closing the evaluator cancels what the workers have not finished.
            with closing(evaluate(archs)) as evaluations:
                for arch_records in evaluations:
                    asked_records += arch_records
                    result.records += arch_records
                    result.end_reason = tracker.add(arch_records, perf_counter() - start)
                    if on_progress:
                        on_progress(
                            Progress(stage, tracker.done, budget.total, records=arch_records)
                        )
                    if result.end_reason:
                        break
            # A spent budget may cut the last request short. The strategy learns from it too.
            strategy.tell(asked_records)
    except KeyboardInterrupt:
        result.end_reason = "interrupted"
    result.seconds = perf_counter() - start
    is_cut_short = budget.total is None or tracker.done < budget.total
    # After Ctrl-C the command ends anyway.
    if on_progress and is_cut_short and result.end_reason != "interrupted":
        on_progress(Progress(stage, tracker.done, budget.total, end_reason=result.end_reason))
    return result

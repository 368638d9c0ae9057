"""The loop of a search: ask the strategy, evaluate, tell the strategy, until the budget is spent.

It knows strategies and evaluators, nothing of networks, run folders or terminals.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter

from untrained.engine import Evaluator
from untrained.strategies.base import Fitness, Strategy
from untrained.strategies.budget import Budget, BudgetTracker
from untrained.types import Record

# Architectures to ask for at a time.
DEFAULT_ASK = 256
# Called with the number of architectures done so far and the records of the last one.
RecordCallback = Callable[[int, Sequence[Record]], None]


@dataclass
class DriverResult:
    """What a search did.

    Attributes:
        records: All records, in the order in which their architectures were proposed.
        ended: Why it ended: "budget", "time", "stable", "exhausted" or "interrupted".
        seconds: How long it took.
        batched: Number of networks that were measured together with others.
    """

    records: list[Record] = field(default_factory=list)
    ended: str = ""
    seconds: float = 0.0
    batched: int = 0


def run_strategy(
    strategy: Strategy,
    evaluate: Evaluator,
    budget: Budget,
    fitness: Fitness,
    on_records: RecordCallback,
    max_ask: int = DEFAULT_ASK,
) -> DriverResult:
    """Run a strategy until its budget is spent, the space is exhausted, or Ctrl-C.

    Records arrive in the order in which their architectures were proposed, so that a search with
    many workers takes the same path as a search with one. Ctrl-C keeps all records so far.

    Args:
        strategy: Proposes architectures.
        evaluate: Scores them.
        budget: When to stop.
        fitness: Reads the score of an architecture.
        on_records: Called after each architecture, and once before the first.
        max_ask: How many architectures to ask for at a time; a strategy may want fewer.
    """
    result = DriverResult()
    tracker = BudgetTracker(budget, fitness)
    start = perf_counter()
    if strategy.max_ask is not None:
        max_ask = strategy.max_ask
    on_records(0, ())
    try:
        while not result.ended:
            archs = strategy.ask(tracker.limit_ask(max_ask))
            if not archs:
                result.ended = "exhausted"
                break
            batch_records: list[Record] = []
            # Closing the evaluator cancels what the workers have not finished.
            with closing(evaluate(archs)) as evaluations:
                for arch_records in evaluations:
                    batch_records += arch_records
                    result.records += arch_records
                    result.ended = tracker.add(arch_records, perf_counter() - start)
                    on_records(tracker.done, arch_records)
                    if result.ended:
                        break
            # Also after a spent budget, which may have cut the batch short.
            strategy.tell(batch_records)
    except KeyboardInterrupt:
        result.ended = "interrupted"
    result.seconds = perf_counter() - start
    return result

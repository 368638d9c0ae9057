"""Ask and tell until enough is done. Knows strategies and evaluators, nothing of networks, folders or terminals."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter

from untrained.engine import Evaluator
from untrained.strategies._strategy import Fitness, Strategy
from untrained.strategies.budget import Budget, Tally
from untrained.types import Record

CHUNK = 256
Listener = Callable[[int, Sequence[Record]], None]  # architectures done so far, the records of the last one


@dataclass
class Drive:
    """What came of it: all records, and why it ended (`budget`, `time`, `stable`, `exhausted` or `interrupted`)."""

    records: list[Record] = field(default_factory=list)
    ended: str = ""
    seconds: float = 0.0
    batched: int = 0  # networks that were looked at together with others


def drive(
    strategy: Strategy, evaluate: Evaluator, budget: Budget, fitness: Fitness, tell: Listener, chunk: int = CHUNK
) -> Drive:
    """Records come, and are told, in the order in which their architectures were asked for, so that a search with many
    workers takes the same way as a search with one. At most `chunk` are asked for at a time, by some strategies fewer.
    Ctrl-C ends it and keeps what was found."""
    out, tally, start = Drive(), Tally(budget, fitness), perf_counter()
    portion: int = getattr(strategy, "portion", chunk)
    tell(0, ())
    try:
        while not out.ended and (archs := strategy.ask(tally.left(portion))):
            told: list[Record] = []
            with closing(evaluate(archs)) as answers:
                for found in answers:
                    told += found
                    out.records += found
                    out.ended = tally.ended(found, perf_counter() - start)
                    tell(tally.done, found)
                    if out.ended:
                        break
            strategy.tell(told)
        out.ended = out.ended or "exhausted"
    except KeyboardInterrupt:
        out.ended = "interrupted"
    out.seconds = perf_counter() - start
    return out

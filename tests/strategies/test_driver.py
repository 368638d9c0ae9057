"""The loop of a search: `run_strategy` asks a strategy, evaluates, and tells it the records."""

from typing import Any

import numpy as np
import pytest

from tests.records import make_record
from tests.strategies.helpers import TASK, four, search_tiny, tiny
from untrained import Arch
from untrained.strategies import STRATEGIES
from untrained.strategies.budget import Budget
from untrained.strategies.driver import run_strategy
from untrained.strategies.random import RandomSearch


@pytest.mark.parametrize(("space", "size"), [(tiny, 16), (four, 4)])  # of known and of unknown size
def test_random_search_finds_every_architecture_once(space, size):
    strategy = RandomSearch(space, np.random.default_rng(0))
    proposed = [arch for _ in range(size // 3 + 1) for arch in strategy.ask(3)]
    assert len(proposed) == len(set(proposed)) == size
    assert set(proposed) == set(space)
    assert strategy.ask(5) == []


def test_random_search_is_uniform():
    first = [
        RandomSearch(four, np.random.default_rng(seed)).ask(1)[0]["width"] for seed in range(400)
    ]
    for width in (1, 2, 3, 4):
        assert 60 <= first.count(width) <= 140  # 100 +- 8.7, so more than four standard deviations


def test_an_exhausted_space_ends_the_search(run_folder):
    done_counts: list[int] = []
    result = search_tiny(
        run_folder,
        "params",
        budget=10,
        space=four,
        on_progress=lambda at: done_counts.append(at.done),
    )
    assert sorted(s.score for s in result.ranking.standings) == [193, 386, 579, 772]
    # The last event says that the stage has ended before its total.
    assert done_counts == [0, 1, 2, 3, 4, 4]
    assert result.run.end_reason == "exhausted"


def test_a_strategy_receives_the_records_of_its_proposals_only(monkeypatch, run_folder):
    log: list[tuple[str, Any]] = []

    class LoggingSearch(RandomSearch):
        def ask(self, n: int) -> list[Arch]:
            log.append(("ask", archs := super().ask(min(n, 4))))
            return archs

        def tell(self, records: Any) -> None:
            log.append(("tell", {r.arch for r in records}))

    monkeypatch.setitem(STRATEGIES._members, "logging", LoggingSearch)
    search_tiny(run_folder, budget=6, strategy="logging")
    proposed = [set(archs) for what, archs in log if what == "ask"]
    assert [len(archs) for archs in proposed] == [4, 2]
    assert [what for what, _ in log] == ["ask", "tell"] * 2
    assert [archs for what, archs in log if what == "tell"] == proposed


def test_ctrl_c_keeps_the_records_so_far():
    def evaluate(archs: Any) -> Any:
        for arch in archs:
            if arch == stop:
                raise KeyboardInterrupt
            yield [make_record(arch, "m@1", TASK, 0, 1.0)]

    *before, stop = RandomSearch(tiny, np.random.default_rng(0)).ask(5)
    done_counts: list[int] = []
    again = RandomSearch(tiny, np.random.default_rng(0))
    result = run_strategy(
        again,
        evaluate,
        Budget(16),
        lambda records: None,
        lambda event: done_counts.append(event.done),
    )
    assert [r.arch for r in result.records] == before
    assert result.end_reason == "interrupted"
    assert result.seconds >= 0
    assert done_counts == [0, 1, 2, 3, 4]

"""Strategies ask and are told; `drive` goes between them and whoever answers."""

from typing import Any

import numpy as np
import pytest

from tests.records import make_record
from tests.strategies.helpers import TASK, find, four, tiny
from untrained import Arch
from untrained.strategies import STRATEGIES
from untrained.strategies.budget import Budget
from untrained.strategies.drive import drive
from untrained.strategies.random import RandomSearch


@pytest.mark.parametrize(("space", "size"), [(tiny, 16), (four, 4)])  # one knows its size, the other does not
def test_random_search_never_repeats_and_ends_with_the_space(space, size):
    strategy = RandomSearch(space, np.random.default_rng(0))
    asked = [arch for _ in range(size // 3 + 1) for arch in strategy.ask(3)]
    assert len(asked) == len(set(asked)) == size
    assert set(asked) == set(space)
    assert strategy.ask(5) == []


def test_random_search_is_uniform():
    first = [RandomSearch(four, np.random.default_rng(seed)).ask(1)[0]["width"] for seed in range(400)]
    for width in (1, 2, 3, 4):
        assert 60 <= first.count(width) <= 140  # 100 +- 8.7, so more than four standard deviations


def test_an_exhausted_space_ends_the_search(run_folder):
    seen: list[int] = []
    found = find(run_folder, "params", budget=10, space=four, watch=lambda at: seen.append(at.done))
    assert sorted(s.score for s in found.ranking.standings) == [193, 386, 579, 772]
    assert seen == [0, 1, 2, 3, 4]
    assert found.run.ended == "exhausted"


def test_a_strategy_hears_of_what_it_asked_and_of_nothing_else(monkeypatch, run_folder):
    log: list[tuple[str, Any]] = []

    class Listening(RandomSearch):
        def ask(self, n: int) -> list[Arch]:
            log.append(("ask", found := super().ask(min(n, 4))))
            return found

        def tell(self, records: Any) -> None:
            log.append(("tell", {r.arch for r in records}))

    monkeypatch.setitem(STRATEGIES._members, "listening", Listening)
    find(run_folder, budget=6, strategy="listening")
    asked = [set(archs) for what, archs in log if what == "ask"]
    assert [len(archs) for archs in asked] == [4, 2]
    assert [what for what, _ in log] == ["ask", "tell"] * 2
    assert [archs for what, archs in log if what == "tell"] == asked


def test_ctrl_c_keeps_what_was_found():
    def evaluate(archs: Any) -> Any:
        for arch in archs:
            if arch == stop:
                raise KeyboardInterrupt
            yield [make_record(arch, "m@1", TASK, 0, 1.0)]

    *before, stop = RandomSearch(tiny, np.random.default_rng(0)).ask(5)
    told: list[int] = []
    again = RandomSearch(tiny, np.random.default_rng(0))
    out = drive(again, evaluate, Budget(16), lambda records: None, lambda done, records: told.append(done))
    assert [r.arch for r in out.records] == before
    assert out.ended == "interrupted"
    assert out.seconds >= 0
    assert told == [0, 1, 2, 3, 4]

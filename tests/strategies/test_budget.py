"""When a search stops: after a number of architectures, after a time, or with a stable ranking."""

from itertools import count
from typing import Any

import pytest

from tests.strategies.helpers import four, make_weight_proxy, read_values, search_tiny, tiny
from untrained import search
from untrained.config import DEFAULT_BUDGET
from untrained.errors import UsageError
from untrained.strategies import driver as drive_
from untrained.strategies.budget import Budget, BudgetTracker
from untrained.workflows import time_plan


def count_until_stop(
    budget: Budget, scores: list[float | None], seconds: float = 0.0
) -> tuple[int, str]:
    """Return after how many architectures with these scores a search stops, and why."""
    tracker = BudgetTracker(budget, lambda records: scores[tracker.done - 1])
    for _ in scores:
        if reason := tracker.add([], seconds * (tracker.done + 1)):
            return tracker.done, reason
    return tracker.done, ""


def test_stops_after_the_number_of_architectures():
    assert count_until_stop(Budget(3), [1.0] * 5) == (3, "budget")
    assert count_until_stop(Budget(9), [1.0] * 5) == (5, "")
    assert Budget().total == DEFAULT_BUDGET == 100
    assert count_until_stop(Budget(), [1.0] * 200) == (100, "budget")


def test_stops_after_the_time():
    """Each takes half a second: after the seventh, 3.5 s have passed, which is more than 3.25 s."""
    assert count_until_stop(Budget(seconds=3.25), [1.0] * 20, seconds=0.5) == (7, "time")
    # Exactly 3 s is not over.
    assert count_until_stop(Budget(seconds=3.0), [1.0] * 20, seconds=0.5) == (
        7,
        "time",
    )
    assert Budget(seconds=3.0).total is None


def test_a_time_that_is_used_up_is_no_missing_limit():
    used_up = Budget(seconds=0.0)
    assert used_up.total is None
    assert count_until_stop(used_up, [1.0] * 200, seconds=0.5) == (1, "time")


STABLE: dict[str, tuple[int, int, list[float | None], tuple[int, str]]] = {
    # top, stable, scores, (number of architectures, reason)
    "the best one is found first": (1, 3, [9, 1, 2, 3, 4], (4, "stable")),
    "a better one restarts the count": (1, 3, [1, 0, 0, 2, 0, 0, 0, 0], (7, "stable")),
    "the second best is among the best two": (2, 3, [9, 1, 0, 5, 0, 0, 4, 0], (7, "stable")),
    "as long as there are fewer than top, all are among the best": (
        4,
        2,
        [4, 3, 2, 1, 0, 0],
        (6, "stable"),
    ),
    "an equal one does not change the best": (1, 3, [5, 5, 5, 5, 5], (4, "stable")),
    "an equal one fills an empty place": (2, 3, [5, 5, 5, 5, 5, 5], (5, "stable")),
    "a failure does not change the best": (1, 3, [5, None, None, None, 9], (4, "stable")),
    "all have failed": (1, 3, [None] * 5, (3, "stable")),
    "every one is better": (1, 2, [1, 2, 3, 4, 5], (5, "")),
    "an architecture that left the best stays out": (2, 2, [1, 2, 3, 1.5, 1.7], (5, "stable")),
}


@pytest.mark.parametrize("case", STABLE)
def test_stops_when_the_best_have_not_changed(case):
    top, stable, scores, expected = STABLE[case]
    assert count_until_stop(Budget(stable=stable, top=top), scores) == expected


def test_the_first_reason_counts():
    rising_scores = [float(i) for i in range(20)]
    flat_scores = [1.0] * 20
    budget = Budget(6, 4.0, 3, 1)
    assert count_until_stop(budget, rising_scores) == (6, "budget")
    assert count_until_stop(budget, rising_scores, seconds=1.0) == (5, "time")
    assert count_until_stop(budget, flat_scores) == (4, "stable")
    assert budget.total == 6


def test_never_asks_for_more_than_the_budget():
    tracker = BudgetTracker(Budget(300), lambda records: None)
    assert tracker.choose_ask_size(256) == 256
    tracker.done = 256
    assert tracker.choose_ask_size(256) == 44
    assert BudgetTracker(Budget(stable=5), lambda records: None).choose_ask_size(256) == 256


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": -1}, {"stable": 0}, {"top": 0}])
def test_a_budget_is_at_least_one(wrong):
    with pytest.raises(UsageError, match="write a whole number from 1 to"):
        Budget(**wrong)


# ----------------------------------------------------------------------------------- in a search


def test_a_search_with_a_time_limit_stops_and_the_same_call_resumes(run_folder, monkeypatch):
    """The clock is read once per architecture and moves by one second each time."""
    ticks = count()
    monkeypatch.setattr(drive_, "perf_counter", lambda: float(next(ticks)))
    # The time before the first architecture counts too, and is 0 here.
    monkeypatch.setattr(time_plan, "perf_counter", lambda: 0.0)
    first = search_tiny(run_folder, budget=None, time="3s")
    assert (first.run.end_reason, len(first.ranking.standings)) == ("time", 4)
    assert first.run.config.time == "3s"
    again = search_tiny(run_folder, budget=None, time="3s")
    assert again.records == first.records  # architectures from the store take their second too
    longer = search_tiny(run_folder, budget=None, time="6s")
    assert len(longer.ranking.standings) == 7
    assert len(read_values(run_folder)) == 7 * 2
    assert longer.records[: len(first.records)] == first.records


def test_a_search_whose_time_was_used_up_before_scoring_scores_one_architecture(
    run_folder, monkeypatch
):
    ticks = count()
    monkeypatch.setattr(drive_, "perf_counter", lambda: float(next(ticks)))
    # The plan is made at 0 s. When it is asked for the time of scoring, 10 s have passed.
    plan_ticks = count(0, 10)
    monkeypatch.setattr(time_plan, "perf_counter", lambda: float(next(plan_ticks)))
    result = search_tiny(run_folder, budget=None, time="3s")
    assert (result.run.end_reason, len(result.ranking.standings)) == ("time", 1)


def test_a_search_until_stable_is_the_start_of_the_whole_search(tmp_path):
    whole = search_tiny(tmp_path / "whole", make_weight_proxy(), budget=16)
    scores = [r.value for r in whole.records if r.proxy == "weight"]
    for stable, top in ((3, 1), (4, 2), (2, 3)):
        for done in range(1, 17):  # count by hand since when the best are the same
            entered = [
                i for i in range(done) if i in sorted(range(i + 1), key=lambda j: -scores[j])[:top]
            ]
            if done - 1 - entered[-1] >= stable:
                break
        result = search_tiny(
            tmp_path / f"{stable}-{top}", make_weight_proxy(), budget=None, stable=stable, top=top
        )
        assert len(result.ranking.standings) == done
        assert result.run.end_reason == ("stable" if done < 16 else "exhausted")
        assert (result.run.config.stable, result.run.config.top, result.run.config.budget) == (
            stable,
            top,
            None,
        )


def test_stability_respects_the_direction_of_the_proxy(tmp_path):
    """Lower is better here: the smallest score is the last change before the search stops."""
    result = search_tiny(
        tmp_path, make_weight_proxy(higher_is_better=False), budget=None, stable=2, top=1
    )
    scores = [r.value for r in result.records if r.proxy == "weight"]
    assert min(scores[:-2]) == min(scores)
    assert scores[-3] == min(scores)


def test_a_small_space_is_exhausted_before_the_budget(run_folder):
    result = search_tiny(run_folder, space=four, budget=None, time="1h", stable=50)
    assert (result.run.end_reason, len(result.ranking.standings)) == ("exhausted", 4)


def test_a_budget_of_the_size_of_the_space_counts_as_budget(run_folder):
    assert search_tiny(run_folder, space=four, budget=4).run.end_reason == "budget"


WRONG: dict[str, dict[str, Any]] = {
    "stable is 0; write a whole number from 1 to": {"stable": 0},
    "invalid duration 'soon'; write 90s, 10m or 1h30m": {"time": "soon"},
    "no unit of time is called 'y'": {"time": "1y"},
    "a duration must be more than 0 seconds": {"time": "0s"},
    "invalid duration '-5s'": {"time_limit": "-5s"},
    "--workers must be a whole number of at least 1, not 0": {"workers": 0},
    "--workers 100000 is too many for this machine": {"workers": 100_000},
    "compares all candidates, so its ranking never becomes stable; use --budget": {
        "stable": 3,
        "proxy": "te_nas",
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_budget_is_refused_in_one_line_before_anything_is_written(run_folder, message):
    options: dict[str, Any] = {
        "space": tiny,
        "proxy": "params",
        "data": "noise",
        "run": run_folder,
    } | WRONG[message]
    with pytest.raises(UsageError) as caught:
        search(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not run_folder.exists()

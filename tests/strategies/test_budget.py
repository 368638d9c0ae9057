"""When a search has done enough: by count, by the clock, or because the best no longer change."""

from itertools import count
from typing import Any

import pytest

from tests.strategies.helpers import contents, find, four, proxy, tiny
from untrained import search
from untrained.errors import UsageError
from untrained.strategies import drive as drive_
from untrained.strategies.budget import USUAL, Budget, Tally


def enough(budget: Budget, scores: list[float | None], seconds: float = 0.0) -> tuple[int, str]:
    """After how many architectures with these scores a search is over, and why."""
    tally = Tally(budget, lambda records: scores[tally.done - 1])
    for _ in scores:
        if why := tally.ended([], seconds * (tally.done + 1)):
            return tally.done, why
    return tally.done, ""


def test_so_many_architectures():
    assert enough(Budget(3), [1.0] * 5) == (3, "budget")
    assert enough(Budget(9), [1.0] * 5) == (5, "")
    assert Budget().total == USUAL == 100
    assert enough(Budget(), [1.0] * 200) == (100, "budget")


def test_so_much_time():
    """Each takes half a second: after the seventh it is 3.5 s, which is more than three and a quarter."""
    assert enough(Budget(seconds=3.25), [1.0] * 20, seconds=0.5) == (7, "time")
    assert enough(Budget(seconds=3.0), [1.0] * 20, seconds=0.5) == (7, "time")  # three seconds are not more than three
    assert Budget(seconds=3.0).total is None


STABLE: dict[str, tuple[int, int, list[float | None], tuple[int, str]]] = {
    # top, stable, scores, (after how many, why)
    "the best one is found first": (1, 3, [9, 1, 2, 3, 4], (4, "stable")),
    "a better one begins the count anew": (1, 3, [1, 0, 0, 2, 0, 0, 0, 0], (7, "stable")),
    "the second best is among the best two": (2, 3, [9, 1, 0, 5, 0, 0, 4, 0], (7, "stable")),
    "until there are so many, everybody is among them": (4, 2, [4, 3, 2, 1, 0, 0], (6, "stable")),
    "an equal one changes nothing": (1, 3, [5, 5, 5, 5, 5], (4, "stable")),
    "an equal one fills an empty place": (2, 3, [5, 5, 5, 5, 5, 5], (5, "stable")),
    "who has no score changes nothing": (1, 3, [5, None, None, None, 9], (4, "stable")),
    "nobody has a score": (1, 3, [None] * 5, (3, "stable")),
    "it keeps getting better": (1, 2, [1, 2, 3, 4, 5], (5, "")),
    "who was pushed out of the best stays out": (2, 2, [1, 2, 3, 1.5, 1.7], (5, "stable")),
}


@pytest.mark.parametrize("story", STABLE)
def test_until_the_best_have_not_changed_for_so_many(story):
    top, stable, scores, expected = STABLE[story]
    assert enough(Budget(stable=stable, top=top), scores) == expected


def test_whatever_comes_first():
    rising, flat = [float(i) for i in range(20)], [1.0] * 20
    every = Budget(6, 4.0, 3, 1)
    assert enough(every, rising) == (6, "budget")
    assert enough(every, rising, seconds=1.0) == (5, "time")
    assert enough(every, flat) == (4, "stable")
    assert every.total == 6


def test_no_more_is_asked_for_than_may_be_judged():
    tally = Tally(Budget(300), lambda records: None)
    assert tally.left(256) == 256
    tally.done = 256
    assert tally.left(256) == 44
    assert Tally(Budget(stable=5), lambda records: None).left(256) == 256


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": -1}, {"stable": 0}, {"top": 0}])
def test_less_than_one_is_no_budget(wrong):
    with pytest.raises(UsageError, match="write a whole number from 1 to"):
        Budget(**wrong)


# ------------------------------------------------------------------------------------------------------- in a search


def test_a_search_by_the_clock_stops_and_the_same_call_goes_on(run_folder, monkeypatch):
    """A clock that is looked at once an architecture and moves a second each time."""
    ticks = count()
    monkeypatch.setattr(drive_, "perf_counter", lambda: float(next(ticks)))
    first = find(run_folder, budget=None, time="3s")
    assert (first.run.ended, len(first.ranking.standings)) == ("time", 4)
    assert first.run.time == "3s"
    again = find(run_folder, budget=None, time="3s")
    assert again.records == first.records  # known ones take their second too
    longer = find(run_folder, budget=None, time="6s")
    assert len(longer.ranking.standings) == 7
    assert len(contents(run_folder)) == 7 * 2
    assert longer.records[: len(first.records)] == first.records


def test_a_search_until_nothing_changes_is_the_beginning_of_the_whole_search(tmp_path):
    whole = find(tmp_path / "whole", proxy(), budget=16)
    scores = [r.value for r in whole.records if r.proxy == "weight"]
    for stable, top in ((3, 1), (4, 2), (2, 3)):
        for done in range(1, 17):  # by hand: how long ago the last of the best was found
            entered = [i for i in range(done) if i in sorted(range(i + 1), key=lambda j: -scores[j])[:top]]
            if done - 1 - entered[-1] >= stable:
                break
        found = find(tmp_path / f"{stable}-{top}", proxy(), budget=None, stable=stable, top=top)
        assert len(found.ranking.standings) == done
        assert found.run.ended == ("stable" if done < 16 else "exhausted")
        assert (found.run.stable, found.run.top, found.run.budget) == (stable, top, None)


def test_lower_is_better_is_stable_in_its_own_direction(tmp_path):
    """Parameters of the four: 193, 386, 579, 772. Whatever comes first, the smallest ends the changes."""
    found = find(tmp_path, proxy(higher_is_better=False), budget=None, stable=2, top=1)
    scores = [r.value for r in found.records if r.proxy == "weight"]
    assert min(scores[:-2]) == min(scores)
    assert scores[-3] == min(scores)


def test_the_end_of_a_small_space_comes_before_any_budget(run_folder):
    found = find(run_folder, space=four, budget=None, time="1h", stable=50)
    assert (found.run.ended, len(found.ranking.standings)) == ("exhausted", 4)


def test_a_budget_that_ends_with_the_space_is_a_budget(run_folder):
    assert find(run_folder, space=four, budget=4).run.ended == "budget"


WRONG: dict[str, dict[str, Any]] = {
    "stable is 0; write a whole number from 1 to": {"stable": 0},
    "impossible duration 'soon'; write 90s, 10m or 1h30m": {"time": "soon"},
    "no unit of time is called 'y'": {"time": "1y"},
    "a duration must be more than nothing": {"time": "0s"},
    "impossible duration '-5s'": {"time_limit": "-5s"},
    "--workers must be a whole number of at least 1, not 0": {"workers": 0},
    "--workers 100000 is too many for this machine": {"workers": 100_000},
    "compares all candidates, so its ranking never settles; give a --budget": {"stable": 3, "proxy": "te_nas"},
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_budget_is_refused_in_one_line_and_nothing_is_begun(run_folder, said):
    options: dict[str, Any] = {"space": tiny, "proxy": "params", "data": "noise", "run": run_folder} | WRONG[said]
    with pytest.raises(UsageError) as caught:
        search(**options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not run_folder.exists()

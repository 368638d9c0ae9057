"""The division of the time of a command among its phases."""

import pytest

from untrained.workflows import time_plan
from untrained.workflows.time_plan import CONTEST, SCORING, TRAINING, TimePlan


@pytest.fixture
def clock(monkeypatch):
    """A clock whose time the test sets: `clock["now"] = 10.0`."""
    state = {"now": 100.0}
    monkeypatch.setattr(time_plan, "perf_counter", lambda: state["now"])
    return state


def test_the_phases_share_the_time(clock):
    plan = TimePlan.begin(900.0, has_contest=True, has_training=True)
    scoring = plan.allot_seconds(SCORING)
    assert scoring == pytest.approx(180.0)
    clock["now"] += scoring
    contest = plan.allot_seconds(CONTEST)
    assert contest == pytest.approx(315.0)
    clock["now"] += contest
    training = plan.allot_seconds(TRAINING)
    assert training == pytest.approx(360.0)
    # The rest is for the export and the report.
    assert scoring + contest + training == pytest.approx(0.95 * 900)
    expected = "at most 15 min: about 3 min scoring, 5 min 15 s contest, 6 min training"
    assert plan.describe() == expected


def test_a_phase_that_ends_early_leaves_its_time_to_the_others(clock):
    plan = TimePlan.begin(900.0, has_contest=True, has_training=True)
    clock["now"] += 80.0
    assert plan.allot_seconds(CONTEST) == pytest.approx(820 * 0.35 / 0.8)
    clock["now"] += 10_000.0
    assert plan.allot_seconds(TRAINING) == 0.0


def test_a_single_phase_gets_all_the_time(clock):
    plan = TimePlan.begin(60.0, has_contest=False, has_training=False)
    assert plan.allot_seconds(SCORING) == pytest.approx(60.0)
    assert plan.describe() == ""


def test_without_a_limit_no_phase_has_one(clock):
    plan = TimePlan.begin(None, has_contest=True, has_training=True)
    assert plan.allot_seconds(SCORING) is None
    assert plan.allot_seconds(TRAINING) is None
    assert plan.describe() == ""

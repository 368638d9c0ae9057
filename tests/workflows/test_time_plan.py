"""The division of the time of a command among its phases."""

import pytest

from untrained.workflows import time_plan
from untrained.workflows.time_plan import CONTEST_PHASE, SCORING, TRAINING, TimePlan


@pytest.fixture
def clock(monkeypatch):
    """A clock whose time the test sets: `clock["now"] = 10.0`."""
    state = {"now": 100.0}
    monkeypatch.setattr(time_plan, "perf_counter", lambda: state["now"])
    return state


def test_the_phases_share_the_time(clock):
    plan = TimePlan.begin(309.0, has_contest=True, has_training=True)
    # 300 seconds remain, because the test, the report and the export take 9 seconds.
    scoring = plan.allot_seconds(SCORING)
    assert scoring == pytest.approx(300 * 0.1 / 0.95)
    clock["now"] += scoring
    contest = plan.allot_seconds(CONTEST_PHASE)
    assert contest == pytest.approx(300 * 0.25 / 0.95)
    clock["now"] += contest
    training = plan.allot_seconds(TRAINING)
    assert training == pytest.approx(300 * 0.6 / 0.95)
    assert plan.estimate_training_seconds() == pytest.approx(training)
    # Of a longer time, one per cent remains, which is more than 9 seconds.
    hour = TimePlan.begin(3600.0, has_contest=True, has_training=True)
    assert hour.estimate_training_seconds() == pytest.approx(0.99 * 3600 * 0.6 / 0.95)
    # In a short time, the phases get at least 70 %.
    short = TimePlan.begin(10.0, has_contest=True, has_training=True)
    assert short.estimate_training_seconds() == pytest.approx(7 * 0.6 / 0.95)


def test_a_phase_that_ends_early_leaves_its_time_to_the_others(clock):
    plan = TimePlan.begin(309.0, has_contest=True, has_training=True)
    clock["now"] += 60.0
    assert plan.allot_seconds(CONTEST_PHASE) == pytest.approx(240 * 0.25 / 0.85)
    clock["now"] += 10_000.0
    assert plan.allot_seconds(TRAINING) == 0.0


def test_the_time_may_have_begun_before_the_plan(clock):
    plan = TimePlan.begin(109.0, has_contest=True, has_training=True, start=clock["now"] - 20.0)
    assert plan.allot_seconds(TRAINING) == pytest.approx(80.0)


def test_a_single_phase_gets_all_the_time(clock):
    plan = TimePlan.begin(60.0, has_contest=False, has_training=False)
    assert plan.allot_seconds(SCORING) == pytest.approx(60.0)
    assert plan.describe() == ""


def test_without_a_limit_no_phase_has_one(clock):
    plan = TimePlan.begin(None, has_contest=True, has_training=True)
    assert plan.allot_seconds(SCORING) is None
    assert plan.allot_seconds(TRAINING) is None
    assert plan.describe() == ""

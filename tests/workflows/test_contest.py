"""The contest: which network trains how long, the winner, and what a stopped contest keeps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from untrained import Arch
from untrained.config import ComputeConfig, SearchConfig
from untrained.data import DataSource, load_data
from untrained.data.parts import TRAIN, VAL
from untrained.errors import Interrupted, Unscorable
from untrained.reports.contest_result import NO_TIME, TOO_SLOW, Contest, ContestEntry, RoundResult
from untrained.runs.folder import RunFolder
from untrained.runs.winner import read_winner_of_short_trainings
from untrained.spaces import load_space
from untrained.training import loop as training_loop
from untrained.training.checkpoint import load_tensors
from untrained.training.loop import Training
from untrained.training.recipes import load_recipe
from untrained.workflows import contest as contest_module
from untrained.workflows import contest_entrants, contest_state
from untrained.workflows.contest import RunningContest, run_contest
from untrained.workflows.contest_entrants import MIN_ENTRIES, Substitutes
from untrained.workflows.contest_rounds import ENOUGH_STEPS, plan_rounds
from untrained.workflows.contest_state import get_weights_path
from untrained.workflows.contest_training import ContestSettings, split_for_contest
from untrained.workflows.final_training import estimate_epoch_seconds, plan_final_training

KEY = "0123456789abcdef"


@pytest.fixture
def source(tmp_path: Path) -> DataSource:
    """Three classes of bright, grey and dark images, which every network learns at once."""
    generator = np.random.default_rng(0)
    labels = np.arange(240) % 3
    images = (60 + 70 * labels)[:, None, None, None] + generator.integers(-30, 30, (240, 8, 8, 3))
    path = tmp_path / "images.npz"
    np.savez(path, x=images.astype(np.uint8), y=labels)
    return load_data(f"npz:{path}", load_space("mlp").task, tmp_path)


def make_settings(source: DataSource, folder: Path, seconds: float | None = None):
    """Return settings with as much time for the winner as for the contest."""
    return ContestSettings(
        space="mlp",
        data="images",
        source=source,
        recipe=load_recipe("quick(batch=32)"),
        seconds=seconds,
        seed=0,
        compute=ComputeConfig(),
        folder=folder,
        search_key=KEY,
        final_seconds=seconds,
    )


def make_entries(count: int) -> tuple[list[ContestEntry], dict[str, Arch]]:
    space = load_space("mlp")
    archs: dict[str, Arch] = {}
    seed = 0
    while len(archs) < count:
        arch = space.sample(seed=seed)
        archs[str(arch)] = arch
        seed += 1
    entries = []
    for number, text in enumerate(archs, 1):
        entries.append(ContestEntry(number, text, ("random",), 0.1, params=1000 + number))
    return entries, archs


def fake_trainings(monkeypatch, accuracies: dict[int, float], interrupt_after: int | None = None):
    """Replace trainings by known accuracies, and return the list of trainings that are made.

    The first samples of the validation part are classified correctly.
    """
    trainings: list[tuple[int, int]] = []

    def train_and_compare(
        contest: RunningContest,
        number: int,
        round_index: int,
        epochs: int,
        samples: int,
        seconds: float,
    ) -> RoundResult:
        if interrupt_after is not None and len(trainings) == interrupt_after:
            raise KeyboardInterrupt
        trainings.append((round_index, number))
        accuracy = accuracies[number]
        if accuracy < 0:
            raise Unscorable("nan", "the training diverged")
        count = len(contest._parts[VAL])
        correct = np.arange(count) < round(accuracy * count)
        bits = np.packbits(correct).tobytes().hex()
        return RoundResult(epochs, samples, 1.0, float(correct.mean()), bits)

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", lambda *arguments: 0.01)
    monkeypatch.setattr(RunningContest, "_train_and_compare", train_and_compare)
    return trainings


def test_about_a_third_of_the_entries_goes_on_and_two_meet_in_the_last_round():
    assert plan_rounds(14) == [14, 5, 2]
    assert plan_rounds(9) == [9, 3, 2]
    assert plan_rounds(3) == [3, 2]
    assert plan_rounds(2) == [2]
    assert plan_rounds(1) == [1]


def test_the_best_entries_go_on_and_the_best_wins(source, tmp_path, monkeypatch):
    accuracies = {number: 0.1 * number for number in range(1, 10)} | {10: 0.2, 11: 0.3}
    trainings = fake_trainings(monkeypatch, accuracies)
    entries, archs = make_entries(9)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    # All nine, then the best of them with two other learning rates.
    assert trainings[:11] == [(0, number) for number in range(1, 12)]
    assert trainings[11:14] == [(1, 9), (1, 8), (1, 7)]
    assert trainings[14:] == [(2, 9), (2, 8)]
    assert contest.winner == entries[8].arch
    # An epoch of 162 samples is 5 steps of 32, so it takes 20, 60 and 180 epochs to have 100, 300
    # and 900 steps.
    assert [result.epochs for result in contest.winning_entry.rounds] == [20, 60, 180]
    rates = {entry.number: entry.rate for entry in contest.entries}
    assert rates[10] == pytest.approx(0.1 / 3, rel=0.02)
    assert rates[11] == pytest.approx(0.3)
    assert {entry.arch for entry in contest.entries if entry.number > 9} == {entries[8].arch}


def test_a_better_learning_rate_goes_on(source, tmp_path, monkeypatch):
    fake_trainings(monkeypatch, {1: 0.5, 2: 0.4, 3: 0.3, 4: 0.9, 5: 0.1})
    entries, archs = make_entries(3)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    assert contest.winner_number == 4
    assert contest.winner == entries[0].arch
    assert contest.winning_entry.rate < entries[0].rate


def test_of_entries_within_one_standard_error_the_smallest_wins(source, tmp_path, monkeypatch):
    # One of 51 validation samples differs: the difference and its standard error are about 1/51.
    val_samples = len(split_for_contest(source, 0)[VAL])
    close = 0.8 + 1 / val_samples
    fake_trainings(monkeypatch, {1: 0.8, 2: close, 3: 0.1, 4: 0.1})
    entries, archs = make_entries(2)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    difference = 1 / val_samples
    standard_error = np.sqrt(difference * (1 - difference) / val_samples)
    assert (difference <= standard_error) == (set(contest.tied) == {1, 2})
    expected = 1 if difference <= standard_error else 2
    assert contest.winner_number == expected


def test_of_one_network_with_two_learning_rates_the_better_wins(source, tmp_path, monkeypatch):
    # Entry 3 is entry 1 with another rate. The two finalists count as tied.
    monkeypatch.setattr(RunningContest, "_find_ties", lambda contest, ranked: list(ranked[:2]))
    fake_trainings(monkeypatch, {1: 0.8, 2: 0.1, 3: 0.9, 4: 0.1})
    entries, archs = make_entries(2)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    assert contest.winner_number == 3
    assert contest.winner == entries[0].arch


def test_latency_decides_a_tie_before_size(source, tmp_path, monkeypatch):
    fake_trainings(monkeypatch, {1: 0.8, 2: 0.8, 3: 0.1, 4: 0.1})
    entries, archs = make_entries(2)
    entries = [replace(entries[0], latency=2e-3), replace(entries[1], latency=1e-3)]
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    assert contest.winner_number == 2


def test_a_training_that_diverges_leaves_the_contest(source, tmp_path, monkeypatch):
    fake_trainings(monkeypatch, {1: -1.0, 2: 0.4, 3: 0.3, 4: 0.1, 5: 0.1})
    entries, archs = make_entries(3)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    assert contest.winner == entries[1].arch
    errors = {entry.number: entry.error for entry in contest.entries}
    assert "diverged" in errors[1]
    assert not errors[2]


def test_if_all_trainings_fail_there_is_no_winner(source, tmp_path, monkeypatch):
    fake_trainings(monkeypatch, {1: -1.0, 2: -1.0})
    entries, archs = make_entries(2)
    assert run_contest(entries, archs, make_settings(source, tmp_path)) is None


def test_ctrl_c_keeps_the_best_so_far_and_the_same_call_resumes(source, tmp_path, monkeypatch):
    accuracies = {1: 0.2, 2: 0.9, 3: 0.3, 4: 0.1, 5: 0.1}
    entries, archs = make_entries(3)
    settings = make_settings(source, tmp_path)
    first = fake_trainings(monkeypatch, accuracies, interrupt_after=2)
    stopped = run_contest(entries, archs, settings)
    assert stopped is not None
    assert stopped.end_reason == "interrupted"
    assert stopped.winner == entries[1].arch
    second = fake_trainings(monkeypatch, accuracies)
    finished = run_contest(entries, archs, settings)
    uninterrupted = fake_trainings(monkeypatch, accuracies)
    expected = run_contest(entries, archs, make_settings(source, tmp_path / "other"))
    assert first + second == uninterrupted
    assert finished == expected


def test_results_of_another_search_are_not_used(source, tmp_path, monkeypatch):
    accuracies = {1: 0.2, 2: 0.9, 3: 0.1, 4: 0.1}
    entries, archs = make_entries(2)
    fake_trainings(monkeypatch, accuracies)
    run_contest(entries, archs, make_settings(source, tmp_path))
    again = fake_trainings(monkeypatch, accuracies)
    other = replace(make_settings(source, tmp_path), search_key="another")
    run_contest(entries, archs, other)
    assert len(again) == 4


def test_validation_samples_are_a_quarter_of_each_class_and_no_training_samples(source):
    parts = split_for_contest(source, 0)
    samples = len(source.parts[TRAIN]) + len(source.parts[VAL])
    labels = torch.cat([source.parts[TRAIN].labels, source.parts[VAL].labels])
    assert parts[VAL].labels.bincount().tolist() == [
        round(0.25 * int(count)) for count in labels.bincount()
    ]
    # The first samples are of all classes, because a round may train on them only.
    assert set(parts[TRAIN].labels[:20].tolist()) == {0, 1, 2}
    assert len(parts[TRAIN]) + len(parts[VAL]) == samples
    train_rows = {image.numpy().tobytes() for image in parts[TRAIN].images}
    val_rows = {image.numpy().tobytes() for image in parts[VAL].images}
    assert not train_rows & val_rows


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets: `clock["now"] += 10.0`."""
    state = {"now": 100.0}
    for module in (contest_module, contest_state):
        monkeypatch.setattr(module, "perf_counter", lambda: state["now"])
    return state


def test_every_entry_of_a_round_has_the_same_time(source, tmp_path, clock):
    entries, archs = make_entries(9)
    settings = make_settings(source, tmp_path, seconds=330.0)
    parts = split_for_contest(source, 0)
    contest = RunningContest(entries, archs, settings, parts, None)
    # Three rounds of 110 seconds: 9 entries and 2 other rates, then 3 entries, then 2.
    assert contest._choose_seconds(0, 9) == pytest.approx(10.0)
    # The entries with other rates are trained later, but as long as the others.
    clock["now"] += 120.0
    assert contest._choose_seconds(0, 2) == pytest.approx(10.0)
    # The first round has taken 150 seconds instead of 110, so that 90 are left for each other one.
    clock["now"] += 30.0
    assert contest._choose_seconds(1, 3) == pytest.approx(30.0)
    clock["now"] += 60.0
    assert contest._choose_seconds(2, 2) == pytest.approx(60.0)
    contest._state.step_seconds = {1: 1.0, 2: 4.0}
    # 96 samples are 3 steps of 32: 10 seconds are 3 epochs of one entry, but not one of the other.
    assert contest._choose_epochs(1, 0, 96, 10.0) == 3
    assert contest._choose_epochs(2, 0, 96, 10.0) == 1
    # With enough time, 100 steps are enough in the first round: 34 epochs.
    assert contest._choose_epochs(1, 0, 96, 1e9) == 34
    # Of many samples, a few epochs are enough: 100 steps per epoch.
    assert contest._choose_epochs(1, 0, 3200, 1e9) == 4


def run_on_clock(monkeypatch, clock, accuracies: dict[int, float], seconds_each: float):
    """Replace trainings, each of which takes some seconds of the clock; return the list of them."""
    trainings = fake_trainings(monkeypatch, accuracies)
    train_at_once = RunningContest._train_and_compare

    def train_and_compare(*arguments) -> RoundResult:
        clock["now"] += seconds_each
        return train_at_once(*arguments)

    monkeypatch.setattr(RunningContest, "_train_and_compare", train_and_compare)
    return trainings


def test_a_contest_ends_when_its_time_is_over(source, tmp_path, monkeypatch, clock):
    entries, archs = make_entries(5)
    accuracies = {number: 0.1 * number for number in range(1, 8)}
    settings = replace(make_settings(source, tmp_path, seconds=60.0), final_seconds=1e6)
    # Every training takes far longer than expected.
    trainings = run_on_clock(monkeypatch, clock, accuracies, 25.0)
    contest = run_contest(entries, archs, settings)
    assert contest is not None
    assert contest.end_reason == "time"
    # The third one begins before the end of the 60 seconds, the fourth does not.
    assert trainings == [(0, 1), (0, 2), (0, 3)]
    assert contest.winner == entries[2].arch
    errors = {entry.number: entry.error for entry in contest.entries}
    assert errors == {1: "", 2: "", 3: "", 4: NO_TIME, 5: NO_TIME}
    # The same call reads the result, and trains nothing more.
    again = run_contest(entries, archs, settings)
    assert again == contest
    assert len(trainings) == 3


def test_timing_the_entries_leaves_time_to_train_them(source, tmp_path, monkeypatch, clock):
    entries, archs = make_entries(9)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))

    def measure_step_seconds(setup, settings, part):
        clock["now"] += 5.0
        return 1e-4

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", measure_step_seconds)
    settings = replace(make_settings(source, tmp_path, seconds=60.0), final_seconds=1e6)
    contest = run_contest(entries, archs, settings)
    assert contest is not None
    # A tenth of the time is 6 seconds, but at least four entries are timed.
    assert len(list_entrants(contest)) == MIN_ENTRIES


def test_entries_that_are_too_slow_for_the_time_are_left_out(source, tmp_path, monkeypatch):
    accuracies = dict.fromkeys(range(1, 9), 0.1)
    trainings = fake_trainings(monkeypatch, accuracies)
    entries, archs = make_entries(6)
    slow = entries[1].arch

    def measure_step_seconds(setup, settings, part):
        return 100.0 if setup.arch == slow else 0.01

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", measure_step_seconds)
    contest = run_contest(entries, archs, make_settings(source, tmp_path, seconds=60.0))
    assert contest is not None
    errors = {entry.number: entry.error for entry in contest.entries}
    assert errors[2] == TOO_SLOW
    assert set(errors.values()) == {TOO_SLOW, ""}
    assert all(number != 2 for _, number in trainings)


SLOW = 100.0
BY_SCORE = "best by params"


def make_ranked(count: int) -> tuple[list[ContestEntry], dict[str, Arch]]:
    """Return networks selected by score, best first."""
    entries, archs = make_entries(count)
    return [replace(entry, selections=(BY_SCORE,)) for entry in entries], archs


def fake_step_seconds(monkeypatch, slow: set[str]) -> list[str]:
    """Make some architectures too slow, and return the list of architectures that are timed."""
    timed: list[str] = []

    def measure_step_seconds(setup, settings, part):
        timed.append(setup.arch)
        return SLOW if setup.arch in slow else 0.01

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", measure_step_seconds)
    return timed


def make_substitutes(candidates: list[ContestEntry]) -> Substitutes:
    return Substitutes([replace(entry, number=0) for entry in candidates], lambda entry: entry)


def list_entrants(contest: Contest) -> list[str]:
    """Return the architectures that were trained, in the order of their numbers, each once."""
    entries = sorted(contest.entries, key=lambda entry: entry.number)
    return [entry.arch for entry in entries if entry.rounds and not entry.is_copy]


def test_the_next_networks_by_score_replace_those_that_are_too_slow(source, tmp_path, monkeypatch):
    ranked, archs = make_ranked(13)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    # Of the best seven, the first three are too slow; so is the first of the next ones.
    slow = {ranked[i].arch for i in (0, 1, 2, 7)}
    timed = fake_step_seconds(monkeypatch, slow)
    contest = run_contest(
        ranked[:7],
        archs,
        make_settings(source, tmp_path, seconds=60.0),
        substitutes=make_substitutes(ranked[7:]),
    )
    assert contest is not None
    assert list_entrants(contest) == [ranked[i].arch for i in (3, 4, 5, 6, 8, 9, 10)]
    # Timing ends with the seventh that is fast enough; copies are timed later.
    assert timed[:11] == [entry.arch for entry in ranked[:11]]
    assert ranked[11].arch not in timed
    assert contest.passed_over == 4
    assert contest.replacements == 3
    left_out = {entry.arch for entry in contest.entries if entry.error == TOO_SLOW}
    assert left_out == {ranked[i].arch for i in (0, 1, 2)}
    numbers = [entry.number for entry in contest.entries]
    assert sorted(numbers) == list(range(1, 13))


def test_without_slow_networks_by_score_nothing_else_is_timed(source, tmp_path, monkeypatch):
    ranked, archs = make_ranked(9)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    entries = [*ranked[:5], replace(ranked[5], selections=("largest",))]
    timed = fake_step_seconds(monkeypatch, {ranked[5].arch})
    contest = run_contest(
        entries,
        archs,
        make_settings(source, tmp_path, seconds=60.0),
        substitutes=make_substitutes(ranked[6:]),
    )
    assert contest is not None
    # The largest one is left out and not replaced.
    assert list_entrants(contest) == [entry.arch for entry in ranked[:5]]
    assert set(timed) == {entry.arch for entry in entries}
    assert (contest.passed_over, contest.replacements) == (0, 0)
    assert contest.passed_over_text == ""


def test_at_most_four_times_as_many_networks_are_timed_as_are_missing(
    source, tmp_path, monkeypatch
):
    ranked, archs = make_ranked(24)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    # Four fast known designs, two slow networks by score, and only slow ones after them.
    designs = [replace(entry, selections=("known design x",)) for entry in ranked[:4]]
    slow = {entry.arch for entry in ranked[4:]}
    timed = fake_step_seconds(monkeypatch, slow)
    contest = run_contest(
        [*designs, *ranked[4:6]],
        archs,
        make_settings(source, tmp_path, seconds=60.0),
        substitutes=make_substitutes(ranked[6:]),
    )
    assert contest is not None
    assert [arch for arch in timed if arch in slow] == [entry.arch for entry in ranked[4:14]]
    assert list_entrants(contest) == [entry.arch for entry in designs]
    assert contest.passed_over == 10
    assert contest.replacements == 0


def test_the_search_for_fast_networks_ends_after_a_tenth_of_the_time(
    source, tmp_path, monkeypatch, clock
):
    ranked, archs = make_ranked(24)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    slow = {entry.arch for entry in ranked[4:]}
    timed: list[str] = []

    def measure_step_seconds(setup, settings, part):
        timed.append(setup.arch)
        clock["now"] += 1.0
        return SLOW if setup.arch in slow else 0.01

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", measure_step_seconds)
    run_contest(
        ranked[:6],
        archs,
        make_settings(source, tmp_path, seconds=60.0),
        substitutes=make_substitutes(ranked[6:]),
    )
    # A tenth of the time is 6 seconds, after which one more has begun.
    assert [arch for arch in timed if arch in slow] == [entry.arch for entry in ranked[4:13]]


def test_a_substitute_that_takes_part_for_another_reason_enters_once(source, tmp_path, monkeypatch):
    ranked, archs = make_ranked(8)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    random_entry = replace(ranked[6], selections=("random",))
    fake_step_seconds(monkeypatch, {ranked[0].arch})
    contest = run_contest(
        [*ranked[:5], replace(random_entry, number=6)],
        archs,
        make_settings(source, tmp_path, seconds=60.0),
        substitutes=make_substitutes(ranked[6:]),
    )
    assert contest is not None
    assert list_entrants(contest) == [ranked[i].arch for i in (1, 2, 3, 4, 6)]
    selections = {entry.arch: entry.selections for entry in contest.entries}
    assert selections[random_entry.arch] == ("random", BY_SCORE)
    assert (contest.passed_over, contest.replacements) == (1, 1)


def test_a_substitute_above_the_latency_limit_does_not_enter(source, tmp_path, monkeypatch):
    ranked, archs = make_ranked(8)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    fake_step_seconds(monkeypatch, {ranked[0].arch})

    def add_latency(entry: ContestEntry) -> ContestEntry | None:
        return None if entry.arch == ranked[5].arch else replace(entry, latency=1e-3)

    contest = run_contest(
        ranked[:5],
        archs,
        make_settings(source, tmp_path, seconds=60.0),
        substitutes=Substitutes(ranked[5:], add_latency),
    )
    assert contest is not None
    assert list_entrants(contest) == [ranked[i].arch for i in (1, 2, 3, 4, 6)]
    latencies = {entry.arch: entry.latency for entry in contest.entries}
    assert latencies[ranked[6].arch] == 1e-3
    # It is not too slow to train.
    assert contest.passed_over == 1


def test_as_many_entries_take_part_as_the_time_suffices_for(source, tmp_path, monkeypatch):
    entries, archs = make_entries(12)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    count = 7
    # Seven trainings and two with other learning rates, in the first of the rounds.
    seconds = (count + 2) * ENOUGH_STEPS[0] * 0.01 * len(plan_rounds(count)) * 1.001
    settings = replace(make_settings(source, tmp_path, seconds=seconds), final_seconds=1e6)
    contest = run_contest(entries, archs, settings)
    assert contest is not None
    assert list_entrants(contest) == [entry.arch for entry in entries[:count]]
    errors = {entry.number: entry.error for entry in contest.entries}
    assert [errors[number] for number in range(count + 1, 13)] == [NO_TIME] * (12 - count)


def test_the_fastest_networks_compete_if_all_are_too_slow(source, tmp_path, monkeypatch):
    entries, archs = make_entries(6)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    speeds = {entry.arch: SLOW + entry.number for entry in entries}
    speeds[entries[5].arch] = SLOW
    monkeypatch.setattr(
        contest_entrants,
        "measure_step_seconds",
        lambda setup, settings, part: speeds[setup.arch],
    )
    contest = run_contest(entries, archs, make_settings(source, tmp_path, seconds=60.0))
    assert contest is not None
    assert len(list_entrants(contest)) == MIN_ENTRIES
    assert list_entrants(contest) == [entries[i].arch for i in (0, 1, 2, 5)]


def test_a_choice_of_entries_that_was_stopped_begins_again(source, tmp_path, monkeypatch):
    """The first session leaves entry 1 out; it saves that with the error of entry 2, and stops."""
    entries, archs = make_entries(6)
    fake_trainings(monkeypatch, dict.fromkeys(range(1, 20), 0.5))
    timed: list[str] = []

    def measure_step_seconds(setup, settings, part):
        timed.append(setup.arch)
        if setup.arch == entries[1].arch:
            raise RuntimeError("no kernel")
        if len(timed) == 3:
            raise KeyboardInterrupt
        return SLOW if len(timed) == 1 else 0.01

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", measure_step_seconds)
    settings = make_settings(source, tmp_path, seconds=60.0)
    with pytest.raises(Interrupted, match="before the first training"):
        run_contest(entries, archs, settings)
    resumed = run_contest(entries, archs, settings)
    assert resumed is not None
    # All others are fast now, and the one that failed is not timed again.
    assert list_entrants(resumed) == [entries[i].arch for i in (0, 2, 3, 4, 5)]
    assert timed[3:8] == list_entrants(resumed)
    assert resumed.passed_over == 0


@pytest.mark.parametrize("interrupt_after", [0, 1, 4])
def test_a_resumed_contest_keeps_its_substitutes(source, tmp_path, monkeypatch, interrupt_after):
    accuracies = {number: 0.05 * number for number in range(1, 20)}
    ranked, archs = make_ranked(9)
    settings = make_settings(source, tmp_path, seconds=60.0)
    substitutes = make_substitutes(ranked[5:])
    first = fake_trainings(monkeypatch, accuracies, interrupt_after=interrupt_after)
    fake_step_seconds(monkeypatch, {ranked[0].arch, ranked[5].arch})
    if interrupt_after == 0:
        with pytest.raises(Interrupted, match="before the first training"):
            run_contest(ranked[:5], archs, settings, substitutes=substitutes)
    else:
        run_contest(ranked[:5], archs, settings, substitutes=substitutes)
    second = fake_trainings(monkeypatch, accuracies)
    # Speeds are different now, as on a busy machine: this changes no entrant.
    timed = fake_step_seconds(monkeypatch, {ranked[1].arch})
    resumed = run_contest(ranked[:5], archs, settings, substitutes=substitutes)
    assert resumed is not None
    assert ranked[5].arch not in timed
    uninterrupted = fake_trainings(monkeypatch, accuracies)
    fake_step_seconds(monkeypatch, {ranked[0].arch, ranked[5].arch})
    other = replace(settings, folder=tmp_path / "other")
    expected = run_contest(ranked[:5], archs, other, substitutes=substitutes)
    assert expected is not None
    assert list_entrants(resumed) == [ranked[i].arch for i in (1, 2, 3, 4, 6)]
    assert list_entrants(resumed) == list_entrants(expected)
    assert first + second == uninterrupted
    assert (resumed.passed_over, resumed.replacements) == (2, 1)


def test_all_entries_of_a_round_have_the_same_samples(source, tmp_path, monkeypatch):
    fake_trainings(monkeypatch, {number: 0.1 * number for number in range(1, 8)})
    entries, archs = make_entries(5)
    contest = run_contest(entries, archs, make_settings(source, tmp_path, seconds=60.0))
    assert contest is not None
    assert len({entry.rounds[0].samples for entry in contest.entries}) == 1


def test_networks_learn_continue_and_are_saved(source, tmp_path):
    entries, archs = make_entries(3)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    winner = contest.winning_entry
    assert [result.epochs for result in winner.rounds] == [20, 60]
    assert winner.accuracy is not None
    assert winner.accuracy > 0.9
    # The saved weights are those that were evaluated: evaluate them here, without the package.
    network = load_space("mlp").build(archs[winner.arch], source.task)
    path = get_weights_path(tmp_path, contest.winner_number)
    network.load_state_dict(load_tensors(path))
    part = split_for_contest(source, 0)[VAL]
    with torch.no_grad():
        predicted = network.eval()(part.normalise(part.images)).argmax(1)
    assert float((predicted == part.labels).double().mean()) == winner.accuracy
    # The weights of the others are deleted.
    assert [file.name for file in path.parent.glob("*.pt")] == [path.name]


def test_a_training_that_is_stopped_within_its_cycle_counts_the_epochs_it_had(
    source, tmp_path, monkeypatch, clock
):
    """Each step takes 1 s of the clock, an epoch is 3 steps, and the entry has 2 s."""
    monkeypatch.setattr(training_loop, "perf_counter", lambda: clock["now"])
    train_step = Training.train_step

    def train_slowly(training, batch):
        clock["now"] += 1.0
        train_step(training, batch)

    monkeypatch.setattr(Training, "train_step", train_slowly)
    entries, archs = make_entries(2)
    parts = split_for_contest(source, 0)
    contest = RunningContest(entries, archs, make_settings(source, tmp_path), parts, None)
    # After the first epoch it is shortened to two. At 5 s it has taken more than twice its time.
    result = contest._train_and_compare(1, 0, 4, 96, 2.0)
    assert result.epochs == pytest.approx(5 / 3)
    assert result.seconds == pytest.approx(5.0)
    # With enough time, the cycle is complete.
    complete = contest._train_and_compare(2, 0, 4, 96, 100.0)
    assert complete.epochs == 4
    entry = replace(entries[0], rounds=(result, RoundResult(4, 96, 12.0, 0.5)))
    assert entry.epochs_text == "5.7"


def test_the_winner_is_read_from_the_run_folder(source, tmp_path, monkeypatch):
    fake_trainings(monkeypatch, {1: 0.2, 2: 0.9, 3: 0.1, 4: 0.1})
    entries, archs = make_entries(2)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    run = RunFolder(tmp_path, SearchConfig("mlp"), "params@1", True, "", search_key=KEY)
    assert Contest.read(run) == contest
    assert read_winner_of_short_trainings(run) == entries[1].arch
    # The contest of an earlier ranking does not count.
    changed = replace(run, search_key="another")
    assert Contest.read(changed) is None
    assert read_winner_of_short_trainings(changed) is None


def test_the_seconds_of_an_epoch_on_all_samples_follow_from_the_last_round():
    rounds = (RoundResult(4, 100, 99.0, 0.5), RoundResult(5, 200, 10.0, 0.6))
    entry = ContestEntry(1, "a", ("random",), 0.1, rounds=rounds)
    contest = Contest("a", 1, (entry,), (1,), 2, 300, 100, "quick", "images", 109.0)
    # 10 s for 5 x 200 samples is 10 ms per sample; 400 samples take 4 s.
    assert estimate_epoch_seconds(contest) == pytest.approx(4.0)


# ------------------------------------------------- the winner is never one that another had beaten


def fake_random_trainings(monkeypatch, seed: int, interrupt_after: int | None) -> None:
    """Replace trainings by random results per entry and round, which do not depend on the order."""
    count = 0

    def train_and_compare(
        contest: RunningContest,
        number: int,
        round_index: int,
        epochs: int,
        samples: int,
        seconds: float,
    ) -> RoundResult:
        nonlocal count
        if count == interrupt_after:
            raise KeyboardInterrupt
        count += 1
        rng = np.random.default_rng((seed, number, round_index))
        if rng.random() < 0.1:
            raise Unscorable("nan", "the training diverged")
        # Few different accuracies, so that ties are frequent.
        correct = rng.random(len(contest._parts[VAL])) < rng.choice([0.5, 0.6, 0.7, 0.9])
        bits = np.packbits(correct).tobytes().hex()
        return RoundResult(epochs, samples, 1.0, float(correct.mean()), bits)

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", lambda *arguments: 0.01)
    monkeypatch.setattr(RunningContest, "_train_and_compare", train_and_compare)


def list_better_entries(contest: Contest) -> list[int]:
    """Return the entries that beat the winner by more than one standard error.

    They are compared in the last round that both finished, sample by sample.
    """
    winner = contest.winning_entry
    better = []
    for entry in contest.entries:
        if not entry.rounds or entry.error:
            continue
        last = min(len(entry.rounds), len(winner.rounds)) - 1
        samples = []
        for one in (entry, winner):
            bits = bin(int("1" + one.rounds[last].correct, 16))[3:]
            samples.append([int(bit) for bit in bits[: contest.val_samples]])
        differences = [own - others for own, others in zip(*samples, strict=True)]
        if np.mean(differences) > np.std(differences) / np.sqrt(len(differences)):
            better.append(entry.number)
    return better


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("interrupt_after", [None, 1, 4, 9, 12])
def test_no_entry_had_beaten_the_winner(source, tmp_path, monkeypatch, seed, interrupt_after):
    """With ties, failures, latencies, Ctrl-C and a resumed contest."""
    entries, archs = make_entries(8)
    rng = np.random.default_rng(seed)
    if seed % 2:
        entries = [replace(entry, latency=float(rng.random())) for entry in entries]
    settings = make_settings(source, tmp_path)
    fake_random_trainings(monkeypatch, seed, interrupt_after)
    try:
        contest = run_contest(entries, archs, settings)
    except Interrupted:
        contest = None
    if contest is not None:
        assert list_better_entries(contest) == []
        assert contest.winner_number in contest.tied
    if interrupt_after is None:
        return
    fake_random_trainings(monkeypatch, seed, None)
    resumed = run_contest(entries, archs, settings)
    assert resumed is not None
    assert list_better_entries(resumed) == []
    whole = run_contest(entries, archs, make_settings(source, tmp_path / "whole"))
    assert whole is not None
    assert resumed.winner_number == whole.winner_number


def test_a_training_with_little_time_reduces_pictures_and_has_more_epochs(
    source, tmp_path, monkeypatch
):
    """Six tenths of the steps take 25/64 of the time, so an epoch takes 0.634 of it."""
    fake_trainings(monkeypatch, {1: 0.5, 2: 0.4, 3: 0.3, 4: 0.9, 5: 0.1})
    entries, archs = make_entries(3)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    assert contest.small_share == 0.6
    RunFolder(tmp_path, SearchConfig("mlp"), "params@1", True, "", search_key=KEY).save()
    epoch_seconds = estimate_epoch_seconds(contest)
    short = plan_final_training(tmp_path, 50.5 * epoch_seconds)
    long = plan_final_training(tmp_path, 110.5 * epoch_seconds)
    assert short is not None
    assert long is not None
    short_recipe = load_recipe(short.recipe)
    assert short_recipe.small_share == 0.6
    assert short_recipe.epochs == int(50.5 / (0.4 + 0.6 * 25 / 64))
    assert load_recipe(long.recipe).small_share == 0
    assert load_recipe(long.recipe).epochs == 110


def test_the_training_of_the_winner_begins_with_its_weights_and_its_rate(
    source, tmp_path, monkeypatch
):
    """The refit trains the winner of the contest, also if another entry of it came first before."""
    fake_trainings(monkeypatch, {1: 0.5, 2: 0.4, 3: 0.3, 4: 0.9, 5: 0.1})
    entries, archs = make_entries(3)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    assert contest.winner_number == 4
    RunFolder(tmp_path, SearchConfig("mlp"), "params@1", True, "", search_key=KEY).save()
    for refit in (None, True, "all"):
        plan = plan_final_training(tmp_path, 30.0, refit)
        assert plan is not None
        assert load_recipe(plan.recipe).rate == contest.winning_entry.rate
        assert plan.refit == (refit or True)
        # The file of the weights was not written by the fake trainings.
        assert plan.start is None
    # 1 s per 20 + 60 epochs of 162 samples: 216 samples need the time of 4/3 epochs.
    replace(contest, small_share=0.0).save(tmp_path)
    epoch_seconds = estimate_epoch_seconds(contest)
    half = plan_final_training(tmp_path, 50.5 * epoch_seconds, "all")
    whole = plan_final_training(tmp_path, 50.5 * epoch_seconds)
    assert half is not None
    assert whole is not None
    assert load_recipe(whole.recipe).epochs == 50
    # Training on all samples comes after an equally long training without the test part.
    assert load_recipe(half.recipe).epochs == 25
    # In a short training, the rate rises for a tenth of it only.
    short = plan_final_training(tmp_path, 2.5 * epoch_seconds)
    assert short is not None
    assert load_recipe(short.recipe).warm_up == pytest.approx(0.2)

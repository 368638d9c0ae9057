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
from untrained.errors import Unscorable
from untrained.reports.contest_result import TOO_SLOW, Contest, ContestEntry, RoundResult
from untrained.runs.folder import RunFolder
from untrained.runs.winner import read_confirmed_name
from untrained.spaces import load_space
from untrained.training.checkpoint import load_tensors
from untrained.training.recipes import load_recipe
from untrained.workflows import contest as contest_module
from untrained.workflows.contest import (
    MAX_EPOCHS,
    MIN_FINAL_EPOCHS,
    ContestSettings,
    RunningContest,
    estimate_max_flops,
    get_weights_path,
    plan_rounds,
    run_contest,
    split_for_contest,
)
from untrained.workflows.final_training import estimate_epoch_seconds

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

    monkeypatch.setattr(contest_module, "measure_step_seconds", lambda *arguments: 0.01)
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
    assert contest.winning_entry.epochs == sum(MAX_EPOCHS)
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
    val_samples = len(split_for_contest(source.parts, 0)[VAL])
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
    assert stopped.ended == "interrupted"
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


def test_validation_samples_are_a_quarter_and_no_training_samples(source):
    parts = split_for_contest(source.parts, 0)
    samples = len(source.parts[TRAIN]) + len(source.parts[VAL])
    assert len(parts[VAL]) == round(0.25 * samples)
    assert len(parts[TRAIN]) + len(parts[VAL]) == samples
    train_rows = {image.numpy().tobytes() for image in parts[TRAIN].images}
    val_rows = {image.numpy().tobytes() for image in parts[VAL].images}
    assert not train_rows & val_rows


def test_every_entry_of_a_round_has_the_same_time(source, tmp_path):
    entries, archs = make_entries(9)
    settings = make_settings(source, tmp_path, seconds=330.0)
    parts = split_for_contest(source.parts, 0)
    contest = RunningContest(entries, archs, settings, parts, None)
    # Three rounds of 110 seconds: 9 entries and 2 other rates, then 3 entries, then 2.
    assert contest._choose_seconds(0) == pytest.approx(10.0)
    assert contest._choose_seconds(1) == pytest.approx(110 / 3)
    assert contest._choose_seconds(2) == pytest.approx(55.0)
    contest._step_seconds = {1: 1.0, 2: 4.0}
    # 96 samples are 3 steps of 32: 10 seconds are 3 epochs of one entry, but not one of the other.
    assert contest._choose_epochs(1, 0, 96, 10.0) == 3
    assert contest._choose_epochs(2, 0, 96, 10.0) == 1
    assert contest._choose_epochs(1, 0, 96, 1e9) == MAX_EPOCHS[0]


def test_entries_that_are_too_slow_for_the_time_are_left_out(source, tmp_path, monkeypatch):
    accuracies = dict.fromkeys(range(1, 9), 0.1)
    trainings = fake_trainings(monkeypatch, accuracies)
    entries, archs = make_entries(6)
    slow = entries[1].arch

    def measure_step_seconds(subject, settings, part):
        return 100.0 if subject.arch == slow else 0.01

    monkeypatch.setattr(contest_module, "measure_step_seconds", measure_step_seconds)
    contest = run_contest(entries, archs, make_settings(source, tmp_path, seconds=60.0))
    assert contest is not None
    errors = {entry.number: entry.error for entry in contest.entries}
    assert errors[2] == TOO_SLOW
    assert set(errors.values()) == {TOO_SLOW, ""}
    assert all(number != 2 for _, number in trainings)


def test_all_entries_of_a_round_have_the_same_samples(source, tmp_path, monkeypatch):
    fake_trainings(monkeypatch, {number: 0.1 * number for number in range(1, 8)})
    entries, archs = make_entries(5)
    contest = run_contest(entries, archs, make_settings(source, tmp_path, seconds=60.0))
    assert contest is not None
    assert len({entry.rounds[0].samples for entry in contest.entries}) == 1


def test_networks_are_as_large_as_the_final_training_allows(source, tmp_path, monkeypatch):
    monkeypatch.setattr(contest_module, "measure_step_seconds", lambda *arguments: 0.5)
    entries, archs = make_entries(1)
    settings = make_settings(source, tmp_path, seconds=60.0)
    # 32 samples of 1,000 multiply-adds in half a second are 64,000 multiply-adds per second.
    samples = len(source.parts[TRAIN]) + len(source.parts[VAL])
    expected = 64_000 * 100.0 / (MIN_FINAL_EPOCHS * samples)
    max_flops = estimate_max_flops({entries[0].arch: 1000.0}, archs, settings, 100.0)
    assert max_flops == pytest.approx(expected)


def test_networks_learn_continue_and_are_saved(source, tmp_path):
    entries, archs = make_entries(3)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    winner = contest.winning_entry
    assert [result.epochs for result in winner.rounds] == list(MAX_EPOCHS[:2])
    assert winner.accuracy is not None
    assert winner.accuracy > 0.9
    # The saved weights are those that were evaluated: evaluate them here, without the package.
    network = load_space("mlp").build(archs[winner.arch], source.task)
    path = get_weights_path(tmp_path, contest.winner_number)
    network.load_state_dict(load_tensors(path))
    part = split_for_contest(source.parts, 0)[VAL]
    with torch.no_grad():
        predicted = network.eval()(part.normalise(part.images)).argmax(1)
    assert float((predicted == part.labels).double().mean()) == winner.accuracy
    # The weights of the others are deleted.
    assert [file.name for file in path.parent.glob("*.pt")] == [path.name]


def test_the_winner_is_read_from_the_run_folder(source, tmp_path, monkeypatch):
    fake_trainings(monkeypatch, {1: 0.2, 2: 0.9, 3: 0.1, 4: 0.1})
    entries, archs = make_entries(2)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    run = RunFolder(tmp_path, SearchConfig("mlp"), "params@1", True, "", search_key=KEY)
    assert Contest.read(run) == contest
    assert read_confirmed_name(run) == entries[1].arch
    # The contest of an earlier ranking does not count.
    changed = replace(run, search_key="another")
    assert Contest.read(changed) is None
    assert read_confirmed_name(changed) is None


def test_the_seconds_of_an_epoch_on_all_samples_follow_from_the_last_round():
    rounds = (RoundResult(4, 100, 99.0, 0.5), RoundResult(5, 200, 10.0, 0.6))
    entry = ContestEntry(1, "a", ("random",), 0.1, rounds=rounds)
    contest = Contest("a", 1, (entry,), (1,), 2, 300, 100, "quick", "images", 109.0)
    # 10 s for 5 x 200 samples is 10 ms per sample; 400 samples take 4 s.
    assert estimate_epoch_seconds(contest) == pytest.approx(4.0)

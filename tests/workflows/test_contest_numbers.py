"""A contest on pictures whose labels are numbers: RMSE, ties and the constant prediction."""

import json
import re
from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score, root_mean_squared_error

from tests.reports.examples import CONTEST_SELECTIONS
from tests.reports.test_contest_page import make_run
from tests.workflows.test_contest import make_entries, make_settings
from untrained.cli.terminal.contest import show_contest
from untrained.data import DataSource, load_data
from untrained.data.parts import TRAIN, VAL
from untrained.errors import UsageError
from untrained.reports.contest_result import TOO_SLOW, Contest, ContestEntry, RoundResult
from untrained.reports.live_summary import LiveSummary
from untrained.reports.pages.live_page import render_live_page
from untrained.reports.svg.contest_charts import draw_result_by_size, draw_result_over_time
from untrained.spaces import load_space
from untrained.training.checkpoint import load_tensors
from untrained.workflows import contest_entrants
from untrained.workflows.contest import RunningContest, run_contest
from untrained.workflows.contest_state import get_weights_path, read_contest_entries
from untrained.workflows.contest_training import split_for_contest


@pytest.fixture
def source(tmp_path: Path) -> DataSource:
    """Pictures whose label is their brightness plus 500."""
    generator = np.random.default_rng(0)
    brightness = generator.uniform(40, 210, 240)
    images = brightness[:, None, None, None] + generator.integers(-30, 30, (240, 8, 8, 3))
    np.savez(tmp_path / "bright.npz", x=images.astype(np.uint8), y=500 + brightness)
    return load_data(f"npz:{tmp_path}/bright.npz", load_space("mlp").task, tmp_path)


def read_unit_labels(source: DataSource) -> np.ndarray:
    """Return the labels of the samples that entries are compared on, in their unit."""
    labels = split_for_contest(source, 0)[VAL].labels.double().numpy()
    unit_labels: np.ndarray = labels * source.task.target_std + source.task.target_mean
    return unit_labels


def fake_trainings(monkeypatch, squared_errors: dict[int, np.ndarray]) -> None:
    """Replace trainings by known squared errors of the validation samples."""

    def train_and_compare(
        contest: RunningContest,
        number: int,
        round_index: int,
        epochs: int,
        samples: int,
        seconds: float,
    ) -> RoundResult:
        errors = squared_errors[number]
        return RoundResult(
            epochs=epochs,
            samples=samples,
            seconds=1.0,
            rmse=sqrt(errors.mean()),
            rmse_margin=0.1,
            r2=0.5,
            squared_errors=errors.tobytes().hex(),
        )

    monkeypatch.setattr(contest_entrants, "measure_step_seconds", lambda *arguments: 0.01)
    monkeypatch.setattr(RunningContest, "_train_and_compare", train_and_compare)


def test_the_split_of_the_contest_keeps_every_sample_once(source):
    parts = split_for_contest(source, 0)
    labels = torch.cat([parts[TRAIN].labels, parts[VAL].labels])
    expected = torch.cat([source.parts[TRAIN].labels, source.parts[VAL].labels])
    assert torch.equal(labels.sort().values, expected.sort().values)
    assert len(parts[VAL]) == round(0.25 * len(expected))


def test_networks_are_compared_by_the_rmse_of_their_saved_weights(source, tmp_path):
    entries, archs = make_entries(2)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    assert (contest.task, contest.label, contest.result_title) == ("regression", "y", "RMSE")
    winner = contest.winning_entry
    network = load_space("mlp").build(archs[winner.arch], source.task)
    network.load_state_dict(load_tensors(get_weights_path(tmp_path, winner.number)))
    part = split_for_contest(source, 0)[VAL]
    with torch.no_grad():
        outputs = network.eval()(part.normalise(part.images)).double().flatten().numpy()
    predicted = outputs * source.task.target_std + source.task.target_mean
    labels = read_unit_labels(source)
    assert winner.last_round is not None
    assert winner.accuracy is None
    assert winner.last_round.rmse == pytest.approx(root_mean_squared_error(labels, predicted))
    assert winner.last_round.r2 == pytest.approx(r2_score(labels, predicted))
    assert winner.last_round.r2 > 0.8
    # Half the width of the interval of a mean, divided by the derivative of a square.
    errors = (labels - predicted) ** 2
    margin = 1.96 * errors.std() / sqrt(len(errors)) / (2 * winner.last_round.rmse)
    assert winner.last_round.rmse_margin == pytest.approx(margin, rel=1e-4)
    ranked = [entry.last_round.rmse for entry in contest.entries if entry.last_round]
    assert winner.number in contest.tied
    assert ranked[0] == min(ranked)


def test_the_constant_prediction_is_the_mean_of_the_training_part(source, tmp_path, monkeypatch):
    labels = read_unit_labels(source)
    constant = np.full_like(labels, source.task.target_mean)
    expected = root_mean_squared_error(labels, constant)
    entries, archs = make_entries(2)
    for rmse, text in (
        (0.5 * expected, f"an RMSE of {expected:.4g} on these samples."),
        (1.1 * expected, "so the winner has not learned to predict the label yet."),
    ):
        errors = np.full(len(labels), rmse**2)
        fake_trainings(monkeypatch, dict.fromkeys(range(1, 5), errors))
        folder = tmp_path / f"{rmse}"
        folder.mkdir()
        contest = run_contest(entries, archs, make_settings(source, folder))
        assert contest is not None
        assert contest.constant_rmse == pytest.approx(expected, rel=1e-5)
        assert contest.constant_text.endswith(text)
        assert (
            f"Its RMSE on {len(labels)} validation samples is {rmse:.4g} \u00b1 0.1, in the unit of y"
            in contest.verdict
        )


def test_the_smallest_of_the_tied_networks_wins(source, tmp_path, monkeypatch):
    """Entry 2 is best. The mean difference of entry 1 is below its standard error, that of 3 not.

    The squared errors of entry 1 differ from those of entry 2 by -9 and +10.5 in turn. Those of
    entries 3 and 4 are larger by 1 for every sample.
    """
    count = len(read_unit_labels(source))
    best = np.full(count, 9.0)
    noisy = best + np.where(np.arange(count) % 2, 10.5, -9.0)
    worse = best + 1.0
    # Mean 0.75 and deviation 9.75, so the standard error is above 1.2.
    assert 9.75 / sqrt(count) >= 0.75
    fake_trainings(monkeypatch, {1: noisy, 2: best, 3: worse, 4: worse})
    entries, archs = make_entries(2)
    contest = run_contest(entries, archs, make_settings(source, tmp_path))
    assert contest is not None
    assert [entry.number for entry in contest.entries][:2] == [2, 1]
    assert contest.tied == (2, 1)
    # Entry 1 has fewer parameters.
    assert contest.winner_number == 1
    fake_trainings(monkeypatch, {1: worse, 2: best, 3: worse, 4: worse})
    folder = tmp_path / "again"
    folder.mkdir()
    contest = run_contest(entries, archs, make_settings(source, folder))
    assert contest is not None
    assert (contest.tied, contest.winner_number) == ((2,), 2)
    saved = read_contest_entries(folder)
    assert {entry.number for entry in saved} == {1, 2, 3, 4}


# ------------------------------------------------------------------------------ presentation


def make_number_contest() -> Contest:
    """Make a contest of eight networks; entry i has an RMSE of 10 + i and an R2 of 0.9 - 0.05 i."""
    entries = []
    for i, selections in enumerate(CONTEST_SELECTIONS, 1):
        result = RoundResult(
            4, 100, 10.0, rmse=10.0 + i, rmse_margin=1.25, r2=0.9 - 0.05 * i, squared_errors="00"
        )
        entries.append(
            ContestEntry(i, f"width={i}", selections, 0.1, params=1000 * i, rounds=(result,))
        )
    return Contest(
        winner="width=1",
        winner_number=1,
        entries=tuple(entries),
        tied=(1,),
        rounds=1,
        train_samples=100,
        val_samples=50,
        recipe="photos",
        data="images:ages.csv",
        seconds=80.0,
        task="regression",
        label="age",
        constant_rmse=40.0,
    )


def test_the_terminal_and_the_charts_show_the_rmse(capsys):
    contest = make_number_contest()
    show_contest(contest)
    text = " ".join(capsys.readouterr().out.split())
    assert "val. RMSE" in text
    assert "11 \u00b1 1.2" in text
    assert "accuracy" not in text
    assert "accurate" not in text
    assert "Always predicting the mean has an RMSE of 40 on these samples." in text
    # R2 is a number, and not per cent.
    size = r"their R2 is on average 0\.\d{3} (higher|lower)"
    interval = r"\(95 % interval [-\u2212]?\d\.\d{3} to [-\u2212]?\d\.\d{3}\)"
    assert re.search(size, text)
    assert re.search(interval, text)
    assert " points " not in text
    for sentence in contest.sentences:
        assert sentence in text
    for svg in (draw_result_over_time(contest), draw_result_by_size(contest)):
        assert "validation RMSE" in svg
        assert ": 11, " in svg
        assert "accuracy" not in svg
    summary = contest.to_summary()
    assert summary["entries"][0]["rounds"][0]["rmse"] == 11.0
    assert "squared_errors" not in summary["entries"][0]["rounds"][0]


def test_a_contest_of_numbers_is_read_as_it_was_saved(tmp_path):
    contest = replace(make_number_contest(), search_key="key").save(tmp_path)
    assert Contest.read(make_run(tmp_path)) == contest


def test_the_text_of_earlier_versions_for_slow_networks_is_read(tmp_path):
    contest = make_number_contest()
    slow = replace(contest.entries[-1], rounds=(), error=TOO_SLOW)
    contest = replace(contest, entries=(*contest.entries[:-1], slow), search_key="key")
    contest.save(tmp_path)
    path = tmp_path / "contest.json"
    text = path.read_text()
    assert TOO_SLOW in text
    path.write_text(text.replace(TOO_SLOW, "too slow to train in the time"))
    assert Contest.read(make_run(tmp_path)) == contest


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rmse", None),
        ("rmse", -1.0),
        ("rmse", float("nan")),
        ("rmse_margin", None),
        ("rmse_margin", float("inf")),
        ("r2", 1.5),
        ("accuracy", 0.5),
    ],
)
def test_impossible_numbers_in_the_file_are_an_error_of_one_line(name, value, tmp_path):
    replace(make_number_contest(), search_key="key").save(tmp_path)
    path = tmp_path / "contest.json"
    facts = json.loads(path.read_text())
    facts["entries"][0]["rounds"][0][name] = value
    path.write_text(json.dumps(facts))
    with pytest.raises(UsageError, match=r"contest\.json cannot be read: ") as error:
        Contest.read(make_run(tmp_path))
    assert "\n" not in str(error.value)


def test_the_page_of_a_running_search_shows_the_rmse():
    contest = make_number_contest()
    summary = LiveSummary("ages", "untrained search", "convnet", "consensus", True, ())
    page = render_live_page(replace(summary, entries=contest.entries))
    assert "Validation RMSE" in page
    assert page.index(">11<") < page.index(">18<")
    waiting = tuple(replace(entry, rounds=()) for entry in contest.entries)
    assert "Validation result" in render_live_page(replace(summary, entries=waiting))

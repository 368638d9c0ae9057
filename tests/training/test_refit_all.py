"""A refit on all samples follows one without the test part, which estimates how good it is."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.toys import get_weights, states_equal, train_toy, write_archive
from untrained.data import load_data
from untrained.data.parts import TEST, TRAIN, VAL, join_parts
from untrained.errors import Interrupted, UsageError
from untrained.training import loop as loop_module
from untrained.training.loop import Training
from untrained.training.result import TrainingResult
from untrained.types import Task
from untrained.workflows.report import report

RECIPE = "quick(epochs=2,batch=10,average=0.9,crop=1)"


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_archive(tmp_path)


def test_the_result_is_trained_on_everything_and_tested_before(tmp_path, data, monkeypatch):
    """The delivered weights are those of a refit whose validation part holds the test part too."""
    estimate = train_toy(tmp_path / "estimate", data, RECIPE, refit=True)
    result = train_toy(tmp_path / "all", data, RECIPE, refit="all")
    assert (result.accuracy, result.loss) == (estimate.accuracy, estimate.loss)
    assert result.confusion == estimate.confusion
    assert result.samples == {"train": 60, "test": estimate.samples["test"]}
    assert not states_equal(get_weights(result), get_weights(estimate))
    source = load_data(data, Task("any", (1, 6, 6), 3), None)
    parts = source.parts
    everything = {
        TRAIN: join_parts(parts[TRAIN], parts[VAL]),
        VAL: parts[TEST],
        TEST: parts[TEST],
    }
    monkeypatch.setattr("untrained.workflows.train._load_parts", lambda setup: everything)
    expected = train_toy(tmp_path / "expected", data, RECIPE, refit=True)
    assert states_equal(get_weights(result), get_weights(expected))


def test_files_report_and_repeated_calls_say_the_same(tmp_path, data):
    result = train_toy(tmp_path / "all", data, RECIPE, refit="all")
    again = train_toy(tmp_path / "all", data, RECIPE, refit="all")
    assert again.made_on == result.made_on
    read = TrainingResult.read(tmp_path / "all")
    assert read.estimated_by == str(tmp_path / "all" / "estimate")
    estimate = TrainingResult.read(tmp_path / "all" / "estimate")
    assert (estimate.key.refit, read.key.refit) == (True, "all")
    assert estimate.estimated_by == ""
    assert read.accuracy == estimate.accuracy
    text = " ".join(report(tmp_path / "all").read_text().split())
    assert "the test result is that of the same training without the test part" in text
    assert "trained on all 60 samples" in text
    # Another recipe in the same folder is refused, and in another folder makes its own estimate.
    other = train_toy(tmp_path / "other", data, RECIPE.replace("=2", "=1"), refit="all")
    assert len(other.curve) == 1


def test_an_estimate_with_other_settings_is_moved_aside(tmp_path, data):
    train_toy(tmp_path / "all" / "estimate", data, RECIPE.replace("=2", "=1"), refit=True)
    train_toy(tmp_path / "all", data, RECIPE, refit="all")
    assert len(TrainingResult.read(tmp_path / "all" / "estimate").curve) == 2
    assert len(TrainingResult.read(tmp_path / "all" / "estimate" / "former-1").curve) == 1


def test_test_data_of_the_user_are_trained_on_too(tmp_path):
    data = write_archive(tmp_path)
    with np.load(tmp_path / "stripes.npz") as arrays:
        np.savez(tmp_path / "held.npz", x=arrays["x"][:9], y=arrays["y"][:9])
    result = train_toy(
        tmp_path / "all", f"{data}?test={tmp_path / 'held.npz'}", RECIPE, refit="all"
    )
    assert result.samples == {"train": 69, "test": 9}


def test_other_values_and_a_time_limit_are_refused(tmp_path, data):
    with pytest.raises(UsageError, match="--refit test is unknown: write --refit validation"):
        train_toy(tmp_path / "a", data, RECIPE, refit="test")
    with pytest.raises(UsageError, match="--refit all trains twice"):
        train_toy(tmp_path / "a", data, RECIPE, refit="all", time="1m")


# ------------------------------------------------------------------------ trainings in a given time


@pytest.fixture
def slow_steps(monkeypatch):
    """A clock on which every step takes `seconds["step"]`, and nothing else takes any time.

    `seconds["step 3"]` is the time of step 3, counted from 0, if it differs.
    """
    seconds = {"now": 0.0, "step": 1.0}
    train_step = Training.train_step

    def train_slowly(training, batch) -> None:
        seconds["now"] += seconds.get(f"step {training.step}", seconds["step"])
        train_step(training, batch)

    monkeypatch.setattr(Training, "train_step", train_slowly)
    monkeypatch.setattr(loop_module, "perf_counter", lambda: seconds["now"])
    return seconds


def test_a_training_that_is_too_slow_is_shortened_and_ends_with_a_rate_of_zero(
    tmp_path, data, slow_steps
):
    recipe = "quick(epochs=20,batch=10,warm_up=1.0,average=0.0)"
    whole = train_toy(tmp_path / "whole", data, recipe, refit=True, finish_in=1000.0)
    assert len(whole.curve) == 20
    assert not any("there was time" in note for note in whole.notes)
    # An epoch of 54 samples is 5 steps.
    short = train_toy(tmp_path / "short", data, recipe, refit=True, finish_in=42.0)
    assert len(short.curve) == 8
    assert slow_steps["now"] == 100 + 40
    assert "there was time for 8 of 20 epochs" in short.notes
    # The rate falls to its end: the last step is that of a cosine over 8 epochs.
    expected = 0.1 * (1 + np.cos(np.pi * 34 / 35)) / 2
    assert short.curve[-1]["rate"] == pytest.approx(expected)
    assert short.end_reason == "epochs"
    again = train_toy(tmp_path / "short", data, recipe, refit=True, finish_in=1.0)
    assert again.made_on == short.made_on


def test_a_training_gets_back_epochs_that_a_slow_start_has_cost(tmp_path, data, slow_steps):
    recipe = "quick(epochs=20,batch=10,warm_up=1.0,average=0.0)"
    for step in range(5):
        slow_steps[f"step {step}"] = 2.0
    result = train_toy(tmp_path / "slow", data, recipe, refit=True, finish_in=100.0)
    # After the first epoch (5 steps of 2 s), there is time for 9 more at this speed, 10 in all. After
    # the eighth (45 s in all, 5.6 s per epoch on average), there is time for 9 more, 17 in all. Later
    # the number is not raised any more, although 19 epochs would end in time.
    assert len(result.curve) == 17
    assert slow_steps["now"] == 5 * 2 + 16 * 5
    # The rate still falls to its end: a warm-up of 5 steps, then a cosine over 80 steps.
    assert result.curve[-1]["rate"] == pytest.approx(0.1 * (1 + np.cos(np.pi * 79 / 80)) / 2)


def test_a_shortened_training_resumes_with_the_same_number_of_epochs(tmp_path, data, slow_steps):
    recipe = "quick(epochs=20,batch=10,average=0.0)"
    whole = train_toy(tmp_path / "whole", data, recipe, refit=True, finish_in=42.0)

    def stop(progress) -> None:
        if progress.done == 17:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        train_toy(
            tmp_path / "b",
            data,
            recipe,
            refit=True,
            finish_in=42.0,
            on_progress=stop,
            checkpoint_every=1,
        )
    resumed = train_toy(tmp_path / "b", data, recipe, refit=True)
    assert len(resumed.curve) == 8
    assert states_equal(get_weights(resumed), get_weights(whole))


def test_a_refit_on_everything_divides_its_time_and_has_equally_many_epochs(
    tmp_path, data, slow_steps, monkeypatch
):
    monkeypatch.setattr("untrained.workflows.train.perf_counter", lambda: slow_steps["now"])
    recipe = "quick(epochs=20,batch=10,average=0.0)"
    result = train_toy(tmp_path / "a", data, recipe, refit="all", finish_in=100.0)
    estimate = TrainingResult.read(tmp_path / "a" / "estimate")
    # 54 of 114 samples: 47 seconds are 9 epochs of 5 steps; of 60 samples they have 6 steps.
    assert len(estimate.curve) == 9
    assert len(result.curve) == 9
    assert slow_steps["now"] == 9 * 5 + 9 * 6


def test_seeds_of_torch_do_not_matter(tmp_path, data):
    torch.manual_seed(1)
    first = train_toy(tmp_path / "a", data, RECIPE, refit="all")
    torch.manual_seed(2)
    second = train_toy(tmp_path / "b", data, RECIPE, refit="all")
    assert states_equal(get_weights(first), get_weights(second))

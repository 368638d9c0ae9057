"""A killed training resumes to the same weights, bit for bit."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.training.toys import (
    RECIPE,
    SHAPE,
    fake_accelerate,
    get_weights,
    states_equal,
    train_toy,
    write_archive,
)
from untrained.errors import Interrupted, UsageError
from untrained.progress import Progress
from untrained.training import checkpoint as checkpoint_module
from untrained.training.loop import Training
from untrained.workflows.train import train

SLOW = """
import os, time
from torch import nn

class Slow(nn.Sequential):
    def forward(self, x):
        time.sleep(float(os.environ.get("SLOW", 0)))
        return super().forward(x)

def make():
    return Slow(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(48, 3))
"""
CHILD = "import sys; from untrained.workflows.train import train; train('./slow.py:make', sys.argv[1], sys.argv[2], run='killed', checkpoint_every=1, input_shape=(1, 6, 6))"  # noqa: E501 - a program in a line


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_archive(tmp_path)


def test_every_checkpoint_resumes_to_the_same_weights(tmp_path, data, monkeypatch):
    checkpoints = []
    write = checkpoint_module.save_tensors

    def save_and_copy(path: Path, content: object) -> None:
        write(path, content)
        if path.name == "checkpoint.pt":
            checkpoints.append(shutil.copy(path, tmp_path / f"{len(checkpoints)}.pt"))

    monkeypatch.setattr(checkpoint_module, "save_tensors", save_and_copy)
    whole = train_toy(tmp_path / "whole", data, checkpoint_every=1)
    steps = 3 * 4  # three epochs of 45 images in batches of 10
    checkpoint_steps = [torch.load(path, weights_only=True)["step"] for path in checkpoints]
    assert checkpoint_steps == list(range(1, steps + 1))
    for path in checkpoints[:steps]:
        folder = tmp_path / f"from-{path.name}"
        folder.mkdir()
        shutil.copy(path, folder / "checkpoint.pt")
        again = train_toy(folder, data, checkpoint_every=5)
        assert states_equal(get_weights(again), get_weights(whole))
        assert (again.curve, again.best, again.accuracy) == (
            whole.curve,
            whole.best,
            whole.accuracy,
        )
        assert not (folder / "checkpoint.pt").exists()


def test_a_training_killed_at_a_random_step_resumes_to_the_same_weights(
    tmp_path, data, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    recipe = RECIPE.replace("epochs=3", "epochs=10")
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, data, recipe],
        env=os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads()), "SLOW": "0.03"},
        stderr=subprocess.PIPE,
        text=True,
    )
    checkpoint = tmp_path / "killed" / "checkpoint.pt"
    deadline = time.monotonic() + 60
    while not checkpoint.exists():
        assert child.poll() is None, child.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(random.random() * 0.5)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    step = torch.load(checkpoint, weights_only=True)["step"]
    assert 0 < step < 40
    assert not (tmp_path / "killed" / "train.json").exists()
    resumed = train("./slow.py:make", data, recipe, run="killed", input_shape=SHAPE)
    whole = train("./slow.py:make", data, recipe, run="whole", input_shape=SHAPE)
    assert states_equal(get_weights(resumed), get_weights(whole)), f"killed after step {step}"
    assert resumed.curve == whole.curve


def test_ctrl_c_keeps_the_checkpoint_and_says_how_to_resume(tmp_path, data):
    def stop(at: Progress) -> None:
        if at.done == 6:
            raise KeyboardInterrupt

    with pytest.raises(
        Interrupted, match=r"stopped by Ctrl-C in epoch 2 of 3; the last checkpoint is in .*resume"
    ):
        train_toy(tmp_path / "a", data, checkpoint_every=2, on_progress=stop)
    assert torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)["step"] == 6
    assert states_equal(
        get_weights(train_toy(tmp_path / "a", data)), get_weights(train_toy(tmp_path / "b", data))
    )


def test_ctrl_c_before_the_first_checkpoint_says_that_nothing_was_saved(tmp_path, data):
    def stop(at: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(
        Interrupted, match=r"stopped by Ctrl-C in epoch 1 of 3; nothing was saved yet$"
    ):
        train_toy(tmp_path / "a", data, on_progress=stop)
    assert not (tmp_path / "a").exists()


def list_checkpoint_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that the steps of all checkpoints are added to."""
    steps: list[int] = []
    write = checkpoint_module.save_tensors

    def save_and_note(path: Path, content: dict[str, int]) -> None:
        write(path, content)
        if path.name == "checkpoint.pt":
            steps.append(content["step"])

    monkeypatch.setattr(checkpoint_module, "save_tensors", save_and_note)
    return steps


def test_a_checkpoint_is_saved_when_30_seconds_have_passed(tmp_path, data, monkeypatch):
    """An epoch has four steps. A step takes 20 seconds, so 40 have passed after two more steps."""
    clock = [0.0]

    def advance(_: Progress) -> None:
        clock[0] += 20

    monkeypatch.setattr("untrained.training.loop.perf_counter", lambda: clock[0])
    steps = list_checkpoint_steps(monkeypatch)
    train_toy(tmp_path / "a", data, on_progress=advance)
    # The clock is at 0 in the first step, so 40 seconds have passed in the third one.
    assert steps == [3, 4, 6, 8, 10, 12]


def test_several_processes_save_at_the_same_steps_whatever_their_clocks_say(
    tmp_path, data, monkeypatch
):
    fake_accelerate(monkeypatch, place=0, processes=2)
    monkeypatch.setattr("untrained.workflows.train.CHECKPOINT_SECONDS", 0.0)
    steps = list_checkpoint_steps(monkeypatch)
    train_toy(tmp_path / "a", data, device="accelerate", checkpoint_every=3)
    assert steps == [3, 4, 6, 8, 9, 12]


def test_a_resumed_training_runs_out_of_patience_at_the_same_epoch(tmp_path, data):
    """The learning rate is almost zero, so no epoch is better than the first."""
    options = {"recipe": "quick(epochs=9,batch=10,rate=1e-12,average=0.0,crop=0)", "patience": 2}
    whole = train_toy(tmp_path / "whole", data, **options)
    assert (whole.end_reason, len(whole.curve)) == ("patience", 3)

    def interrupt(at: Progress) -> None:
        if at.done == 3 * at.total // 9:
            # After the checkpoint of the third epoch, before its validation.
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="stopped by Ctrl-C"):
        train_toy(tmp_path / "killed", data, **options, on_progress=interrupt)
    resumed = train_toy(tmp_path / "killed", data, **options)
    assert (resumed.end_reason, resumed.curve) == ("patience", whole.curve)
    assert states_equal(get_weights(resumed), get_weights(whole))


def test_another_patience_is_another_training(tmp_path, data):
    recipe = "quick(epochs=3,batch=10,rate=1e-12,average=0.0,crop=0)"
    assert train_toy(tmp_path / "a", data, recipe, patience=1).end_reason == "patience"
    with pytest.raises(UsageError, match=r"holds another training, with patience 1 \(now None\);"):
        train_toy(tmp_path / "a", data, recipe)


def test_a_time_limit_ends_the_training_and_the_same_call_resumes(tmp_path, data):
    short = train_toy(tmp_path / "a", data, time="1ms")
    assert (short.end_reason, short.curve) == ("time", ())
    assert (short.best["epoch"], 0 <= short.accuracy <= 1) == (1, True)
    assert (tmp_path / "a" / "model.pt").exists()
    assert torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)["step"] == 1
    longer = train_toy(tmp_path / "a", data)
    whole = train_toy(tmp_path / "b", data)
    assert longer.end_reason == "epochs"
    assert states_equal(get_weights(longer), get_weights(whole))
    assert longer.curve == whole.curve


def test_another_training_in_the_same_folder_is_refused_with_the_differences(tmp_path, data):
    train_toy(tmp_path / "a", data, time="1ms")
    train_toy(tmp_path / "b", data)
    for folder in ("a", "b"):
        with pytest.raises(
            UsageError,
            match=r"holds another training, with seed 0 \(now 1\), rate 0.1 \(now 0.5\);",
        ):
            train_toy(tmp_path / folder, data, RECIPE.replace("mixup", "rate=0.5,mixup"), seed=1)


def test_a_finished_training_is_returned_and_not_repeated(tmp_path, data, monkeypatch):
    first = train_toy(tmp_path / "a", data)
    monkeypatch.setattr(Training, "train_step", None)
    again = train_toy(tmp_path / "a", data)
    assert states_equal(get_weights(again), get_weights(first))
    assert (again.accuracy, again.curve, again.confusion) == (
        first.accuracy,
        first.curve,
        first.confusion,
    )
    assert again.model is not None
    assert not again.model.training
    assert (first.was_finished, again.was_finished) == (False, True)
    assert "was_finished" not in again.to_document()


def test_leftover_checkpoints_of_a_finished_training_are_deleted(tmp_path, data):
    train_toy(tmp_path / "a", data)
    files = sorted(tmp_path.joinpath("a").iterdir())
    for name in ("checkpoint.pt", "checkpoint.pt.4711-1.part", "model.pt.4711-1.part"):
        (tmp_path / "a" / name).write_bytes(b"left")
    train_toy(tmp_path / "a", data)
    assert sorted(tmp_path.joinpath("a").iterdir()) == files


def test_damaged_and_foreign_files_are_refused(tmp_path, data):
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(UsageError, match="damaged or was not written by untrained"):
        train_toy(folder, data)
    # Unpickling a function could run code.
    torch.save({"step": print}, folder / "checkpoint.pt")
    with pytest.raises(UsageError, match="damaged or was not written by untrained"):
        train_toy(folder, data)
    for first in range(256):  # every first byte means something else to a reader of checkpoints
        (folder / "checkpoint.pt").write_bytes(bytes([first]) + b"ser,price\n1,2.5\n")
        with pytest.raises(UsageError, match="damaged or was not written by untrained"):
            checkpoint_module.load_tensors(folder / "checkpoint.pt")
    train_toy(tmp_path / "b", data)
    torch.save({"other": torch.zeros(1)}, tmp_path / "b" / "model.pt")
    with pytest.raises(UsageError, match="the weights of another network"):
        train_toy(tmp_path / "b", data)

"""A training that was killed goes on to the same weights, bit for bit."""

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

from tests.training.toys import RECIPE, SHAPE, archive, same, trained, weights
from untrained.errors import UsageError
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
    return archive(tmp_path)


def test_from_every_checkpoint_the_same_weights_are_reached(tmp_path, data, monkeypatch):
    kept = []
    write = checkpoint_module.save_tensors

    def save(path: Path, content: object) -> None:
        write(path, content)
        if path.name == "checkpoint.pt":
            kept.append(shutil.copy(path, tmp_path / f"{len(kept)}.pt"))

    monkeypatch.setattr(checkpoint_module, "save_tensors", save)
    whole = trained(tmp_path / "whole", data, checkpoint_every=1)
    checkpoints, steps = list(kept), 3 * 4  # 42 pictures to learn in batches of 10
    assert [torch.load(path, weights_only=True)["step"] for path in checkpoints] == list(
        range(1, steps + 1)
    )
    for path in checkpoints:
        folder = tmp_path / f"from-{path.name}"
        folder.mkdir()
        shutil.copy(path, folder / "checkpoint.pt")
        again = trained(folder, data, checkpoint_every=5)
        assert same(weights(again), weights(whole))
        assert (again.curve, again.best, again.accuracy) == (
            whole.curve,
            whole.best,
            whole.accuracy,
        )
        assert not (folder / "checkpoint.pt").exists()


def test_kill_9_at_a_random_step(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    recipe = RECIPE.replace("epochs=3", "epochs=10")
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, data, recipe],
        env=os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads()), "SLOW": "0.03"},
        stderr=subprocess.PIPE,
        text=True,
    )
    checkpoint, deadline = tmp_path / "killed" / "checkpoint.pt", time.monotonic() + 60
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
    assert same(weights(resumed), weights(whole)), f"killed after step {step}"
    assert resumed.curve == whole.curve


def test_ctrl_c_keeps_the_checkpoint_and_says_how_to_go_on(tmp_path, data):
    def stop(at: Progress) -> None:
        if at.done == 6:
            raise KeyboardInterrupt

    with pytest.raises(
        UsageError, match=r"stopped by Ctrl-C in epoch 2 of 3; the last checkpoint is in .*resume"
    ):
        trained(tmp_path / "a", data, checkpoint_every=2, on_progress=stop)
    assert torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)["step"] == 6
    assert same(weights(trained(tmp_path / "a", data)), weights(trained(tmp_path / "b", data)))


def test_ctrl_c_before_the_first_checkpoint_promises_nothing(tmp_path, data):
    def stop(at: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(
        UsageError, match=r"stopped by Ctrl-C in epoch 1 of 3; nothing was saved yet$"
    ):
        trained(tmp_path / "a", data, on_progress=stop)
    assert not (tmp_path / "a").exists()


def test_who_was_killed_while_losing_patience_loses_it_at_the_same_epoch(tmp_path, data):
    """At a rate of nearly nothing no epoch is better than the first."""
    still = {"recipe": "quick(epochs=9,batch=10,rate=1e-12,average=0.0,crop=0)", "patience": 2}
    whole = trained(tmp_path / "whole", data, **still)
    assert (whole.ended, len(whole.curve)) == ("patience", 3)

    def pull(at: Progress) -> None:
        if at.done == 3 * at.total // 9:
            raise KeyboardInterrupt  # after the checkpoint of the third epoch, before it is looked at

    with pytest.raises(UsageError, match="stopped by Ctrl-C"):
        trained(tmp_path / "killed", data, **still, on_progress=pull)
    resumed = trained(tmp_path / "killed", data, **still)
    assert (resumed.ended, resumed.curve) == ("patience", whole.curve)
    assert same(weights(resumed), weights(whole))


def test_another_patience_is_another_training(tmp_path, data):
    still = "quick(epochs=3,batch=10,rate=1e-12,average=0.0,crop=0)"
    assert trained(tmp_path / "a", data, still, patience=1).ended == "patience"
    with pytest.raises(UsageError, match=r"holds another training, with patience 1 \(now None\);"):
        trained(tmp_path / "a", data, still)


def test_time_that_is_up_ends_it_cleanly_and_the_same_call_goes_on(tmp_path, data):
    short = trained(tmp_path / "a", data, time="1ms")
    assert (short.ended, short.curve) == ("time", ())
    assert (short.best["epoch"], 0 <= short.accuracy <= 1) == (1, True)
    assert (tmp_path / "a" / "model.pt").exists()
    assert torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)["step"] == 1
    longer = trained(tmp_path / "a", data)
    whole = trained(tmp_path / "b", data)
    assert longer.ended == "epochs"
    assert same(weights(longer), weights(whole))
    assert longer.curve == whole.curve


def test_another_training_in_the_same_folder_is_refused_by_name(tmp_path, data):
    trained(tmp_path / "a", data, time="1ms")
    trained(tmp_path / "b", data)
    for folder in ("a", "b"):
        with pytest.raises(
            UsageError,
            match=r"holds another training, with seed 0 \(now 1\), rate 0.1 \(now 0.5\);",
        ):
            trained(tmp_path / folder, data, RECIPE.replace("mixup", "rate=0.5,mixup"), seed=1)


def test_a_finished_training_is_given_again_and_not_done_again(tmp_path, data, monkeypatch):
    first = trained(tmp_path / "a", data)
    monkeypatch.setattr(Training, "train_step", None)
    again = trained(tmp_path / "a", data)
    assert same(weights(again), weights(first))
    assert (again.accuracy, again.curve, again.confusion) == (
        first.accuracy,
        first.curve,
        first.confusion,
    )
    assert again.model is not None
    assert not again.model.training


def test_a_finished_training_keeps_no_checkpoint_of_a_process_that_was_killed_at_its_end(
    tmp_path, data
):
    trained(tmp_path / "a", data)
    files = sorted(tmp_path.joinpath("a").iterdir())
    for name in ("checkpoint.pt", "checkpoint.pt.4711-1.part", "model.pt.4711-1.part"):
        (tmp_path / "a" / name).write_bytes(b"left")
    trained(tmp_path / "a", data)
    assert sorted(tmp_path.joinpath("a").iterdir()) == files


def test_files_that_are_damaged_or_of_strangers_are_refused(tmp_path, data):
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(UsageError, match="damaged or not a file of untrained"):
        trained(folder, data)
    torch.save(
        {"step": print}, folder / "checkpoint.pt"
    )  # a function: unpickling it could run code
    with pytest.raises(UsageError, match="damaged or not a file of untrained"):
        trained(folder, data)
    for first in range(256):  # each means something else to whoever takes the text for a checkpoint
        (folder / "checkpoint.pt").write_bytes(bytes([first]) + b"ser,price\n1,2.5\n")
        with pytest.raises(UsageError, match="damaged or not a file of untrained"):
            checkpoint_module.load_tensors(folder / "checkpoint.pt")
    trained(tmp_path / "b", data)
    torch.save({"other": torch.zeros(1)}, tmp_path / "b" / "model.pt")
    with pytest.raises(UsageError, match="the weights of another network"):
        trained(tmp_path / "b", data)

"""Training in two real processes on the CPU, which accelerate connects through gloo."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.training.toys import write_archive
from untrained.training.result import TrainingResult
from untrained.workflows.train import train

pytestmark = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed"
    ),
]

# Neither batch norm nor dropout, which depend on the number of processes. Each process writes its
# process id, so that a test can kill it.
NETWORK = """
import os, time
from pathlib import Path
from torch import nn

class Slow(nn.Sequential):
    def forward(self, x):
        if self.training:
            time.sleep(float(os.environ.get("SLOW", 0)))
        return super().forward(x)

def make_net():
    Path("pid-" + os.environ.get("RANK", "single")).write_text(str(os.getpid()))
    return Slow(nn.Conv2d(1, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(64, 3))
"""
PROGRAM = """
import sys
from untrained.workflows.train import train

options = {"run": "two", "input_shape": (1, 6, 6), "device": "accelerate"}
train("./net.py:make_net", sys.argv[1], sys.argv[2], checkpoint_every=2, **options)
"""
# 45 training images. The two processes get 5 and 4 samples of each batch.
RECIPE = "quick(epochs=4,batch=9,crop=1,flip=True,mixup=0.4,average=0.9)"
STEPS = 4 * 5
SHAPE = (1, 6, 6)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NETWORK)
    (tmp_path / "program.py").write_text(PROGRAM)
    return write_archive(tmp_path)


def start_two_processes(*program: str, slow: float = 0.0) -> "subprocess.Popen[str]":
    """Start a Python program or module in two processes."""
    launch = "-m torch.distributed.run --standalone --nproc-per-node 2".split()
    return subprocess.Popen(
        [sys.executable, *launch, *program],
        env=os.environ | {"OMP_NUM_THREADS": "1", "SLOW": str(slow)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def assert_equal_within_rounding(first: str, second: str) -> None:
    """Compare the weights and the learning curves of two trainings."""
    weights = torch.load(Path(first, "model.pt"), weights_only=True)
    other_weights = torch.load(Path(second, "model.pt"), weights_only=True)
    assert weights.keys() == other_weights.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, other_weights[name], rtol=1e-4, atol=1e-6)
    result = TrainingResult.read(Path(first))
    other_result = TrainingResult.read(Path(second))
    assert len(result.curve) == len(other_result.curve) == 4
    for row, other_row in zip(result.curve, other_result.curve, strict=True):
        assert row == pytest.approx(other_row, rel=1e-4)
    assert result.accuracy == other_result.accuracy


def test_two_processes_train_like_one_with_the_whole_batch(data):
    train("./net.py:make_net", data, RECIPE, run="one", input_shape=SHAPE)
    command = ["-m", "--", "untrained", "train", "./net.py:make_net", "--device", "accelerate"]
    options = ["--data", data, "--recipe", RECIPE, "--input-shape", "1x6x6", "--run", "two"]
    process = start_two_processes(*command, *options)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert Path("pid-0").read_text() != Path("pid-1").read_text()
    assert_equal_within_rounding("two", "one")


@pytest.mark.parametrize("killed", [0, 1])
def test_a_training_resumes_after_one_of_its_processes_was_killed(data, killed):
    process = start_two_processes("program.py", data, RECIPE, slow=0.2)
    checkpoint = Path("two/checkpoint.pt")
    deadline = time.monotonic() + 90
    while not checkpoint.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(int(Path(f"pid-{killed}").read_text()), signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert 0 < torch.load(checkpoint, weights_only=True)["step"] < STEPS
    assert not Path("two/train.json").exists()
    resumed = start_two_processes("program.py", data, RECIPE)
    output, _ = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, output
    train("./net.py:make_net", data, RECIPE, run="one", input_shape=SHAPE)
    assert_equal_within_rounding("two", "one")

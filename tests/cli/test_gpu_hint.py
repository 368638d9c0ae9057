"""If several workers use one GPU, a hint is printed once on how to share it better."""

from pathlib import Path

import pytest
import torch

from untrained.cli.terminal import gpu_hint
from untrained.config import ComputeConfig

HINT = (
    "several workers share a GPU; they run faster if you start `nvidia-cuda-mps-control -d` first\n"
)


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """A machine with one GPU, on which the MPS daemon is installed but does not run."""
    tools = tmp_path / "tools"
    tools.mkdir()
    daemon = tools / "nvidia-cuda-mps-control"
    daemon.write_text("#!/bin/sh\n")
    daemon.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(gpu_hint, "MPS_PIPE_DIRECTORY", str(tmp_path / "pipes"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    return tmp_path


def capture_hint(
    capsys: pytest.CaptureFixture[str],
    device: str,
    workers: int | None,
    as_json: bool = False,
) -> str:
    """Return what the hint prints on the error stream."""
    gpu_hint.print_gpu_hint(ComputeConfig(device, workers), as_json)
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    ("device", "gpus"), [("cuda", 1), ("cuda", 3), ("cuda:0", 1), ("cuda:1", 8)]
)
def test_more_workers_than_gpus_give_the_hint(machine, monkeypatch, capsys, device, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert capture_hint(capsys, device, 4) == HINT


NOT_SHARED = [
    ("cuda", 1, 1),
    ("cuda", None, 1),
    ("cuda", 3, 3),
    ("cuda:1", 1, 3),
    ("cpu", 4, 1),
    ("cuda", 4, 0),
]


@pytest.mark.parametrize(("device", "workers", "gpus"), NOT_SHARED)
def test_there_is_no_hint_if_no_gpu_is_shared(machine, monkeypatch, capsys, device, workers, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert capture_hint(capsys, device, workers) == ""


def test_there_is_no_hint_if_the_daemon_runs_or_is_not_installed(machine, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(machine))
        assert capture_hint(capsys, "cuda", 4) == ""
        patch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(machine / "stopped"))
        assert capture_hint(capsys, "cuda", 4) == HINT
    assert capture_hint(capsys, "cuda", 4, as_json=True) == ""
    (machine / "pipes").mkdir()
    assert capture_hint(capsys, "cuda", 4) == ""
    (machine / "pipes").rmdir()
    monkeypatch.setenv("PATH", str(machine))
    assert capture_hint(capsys, "cuda", 4) == ""


COMMANDS = [
    ("search", "--budget", "1"),
    ("bench", "--samples", "3"),
    ("calibrate",),
    ("reproduce", "dextr-table-4"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_with_workers_prints_the_hint_before_it_starts(
    machine, run_cli, tmp_path, command
):
    arguments = (*command, "--device", "cuda:77", "--workers", "2", "--data-root", str(tmp_path))
    code, _, err = run_cli(*arguments)
    assert code == 2
    assert err.startswith(HINT)
    assert err.count(HINT) == 1
    assert HINT not in run_cli(*arguments, "--json")[2]
    assert HINT not in run_cli(*arguments, "--ray", "local")[2]

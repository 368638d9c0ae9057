"""Several workers on one GPU: the terminal says once how they can share it, where that would help."""

from pathlib import Path

import pytest
import torch

from untrained import _cli

HINT = "several workers on one GPU: start `nvidia-cuda-mps-control -d` first, and they share it\n"


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """One GPU, whose daemon is installed and does not run."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-cuda-mps-control").write_text("#!/bin/sh\n")
    (tools / "nvidia-cuda-mps-control").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(_cli, "PIPES", str(tmp_path / "pipes"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], device: str, workers: int | None, quiet: bool = False) -> str:
    _cli.mind_the_gpu(device, workers, quiet)
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(("device", "gpus"), [("cuda", 1), ("cuda", 3), ("cuda:0", 1), ("cuda:1", 8)])
def test_more_workers_than_gpus_are_told_how_to_share(machine, monkeypatch, capsys, device, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert said(capsys, device, 4) == HINT


QUIET = [("cuda", 1, 1), ("cuda", None, 1), ("cuda", 3, 3), ("cuda:1", 1, 3), ("cpu", 4, 1), ("cuda", 4, 0)]


@pytest.mark.parametrize(("device", "workers", "gpus"), QUIET)
def test_nothing_is_said_where_nobody_takes_turns(machine, monkeypatch, capsys, device, workers, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert said(capsys, device, workers) == ""


def test_nothing_is_said_where_the_daemon_runs_or_is_not_there(machine, monkeypatch, capsys):
    with monkeypatch.context() as there:
        there.setenv("CUDA_MPS_PIPE_DIRECTORY", str(machine))
        assert said(capsys, "cuda", 4) == ""
        there.setenv("CUDA_MPS_PIPE_DIRECTORY", str(machine / "stopped"))
        assert said(capsys, "cuda", 4) == HINT
    assert said(capsys, "cuda", 4, quiet=True) == ""
    (machine / "pipes").mkdir()
    assert said(capsys, "cuda", 4) == ""
    (machine / "pipes").rmdir()
    monkeypatch.setenv("PATH", str(machine))
    assert said(capsys, "cuda", 4) == ""


COMMANDS = [("search", "--budget", "1"), ("bench", "--samples", "3"), ("calibrate",), ("reproduce", "dextr-table-4")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_that_hires_says_so_before_it_begins(machine, untrained_, tmp_path, command):
    asked = (*command, "--device", "cuda:77", "--workers", "2", "--data-root", str(tmp_path))
    code, _, err = untrained_(*asked)
    assert (code, err.startswith(HINT), err.count(HINT)) == (2, True, 1)
    assert HINT not in untrained_(*asked, "--json")[2]
    assert HINT not in untrained_(*asked, "--ray", "local")[2]

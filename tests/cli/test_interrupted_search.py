"""Ctrl-C in every phase of `search --export`: one line, exit code 130, and the best is kept."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from untrained.strategies.driver import DriverResult
from untrained.workflows import contest_rounds
from untrained.workflows.contest import RunningContest

COMMAND = (
    "search --data npz:images.npz --proxy flops --max-params 20k --input-size 16 --budget 3 "
    "--confirm 1 --workers 1 --time 20s --run run --export model"
)


@pytest.fixture
def images(project: Path, monkeypatch) -> None:
    """Bright, grey and dark images; trainings of the contest are short."""
    monkeypatch.setattr(contest_rounds, "ENOUGH_STEPS", (2, 2, 2))
    monkeypatch.setattr(contest_rounds, "MAX_EPOCHS", (1, 1, 1))
    monkeypatch.setattr("untrained.workflows.final_training.MAX_EPOCHS", 1)
    monkeypatch.setattr("untrained.workflows.final_training.MAX_SMALL_DATA_EPOCHS", 1)
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 3
    noise = generator.integers(-30, 30, (60, 16, 16, 3))
    pixels = (60 + 70 * labels)[:, None, None, None] + noise
    np.savez(project / "images.npz", x=pixels.astype(np.uint8), y=labels)


def press_ctrl_c(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


def test_every_phase_ends_with_one_line_and_the_best_can_be_exported(
    images, project, run_cli, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr("untrained.workflows.search.measure_trainable_size", press_ctrl_c)
        code, _, err = run_cli(*COMMAND.split())
    assert code == 130
    assert "stopped by Ctrl-C before the ranking was finished" in " ".join(err.split())

    with monkeypatch.context() as patch:
        stopped = DriverResult(end_reason="interrupted")
        patch.setattr("untrained.workflows.search_stages.run_strategy", lambda *_, **__: stopped)
        code, out, _ = run_cli(*COMMAND.split())
    assert code == 130
    assert "nothing was scored" in out
    assert "Stopped by Ctrl-C: what was measured is kept, and the same command resumes." in out
    assert "to export" not in out

    with monkeypatch.context() as patch:
        patch.setattr(RunningContest, "_train_and_compare", press_ctrl_c)
        code, out, _ = run_cli(*COMMAND.split())
    assert code == 130
    assert "Stopped by Ctrl-C: the best so far is kept, and the same command resumes." in out
    assert (
        "to export the best so far: untrained train run && untrained export run --out model" in out
    )

    with monkeypatch.context() as patch:
        patch.setattr("untrained.workflows.train.evaluate_training", press_ctrl_c)
        code, _, err = run_cli(*COMMAND.split())
    assert code == 130
    text = " ".join(err.split())
    assert "stopped by Ctrl-C in epoch" in text
    _, _, command = text.partition("to export the weights of the contest instead: untrained ")
    words = shlex.split(command)
    assert run_cli(*words[:4], "--out", "contest-model")[0] == 0
    assert (project / "contest-model" / "model.onnx").is_file()

    with monkeypatch.context() as patch:
        patch.setattr("untrained.workflows.export._write_files", press_ctrl_c)
        code, _, err = run_cli(*COMMAND.split())
    assert code == 130
    text = " ".join(err.split())
    assert (
        "during the export; the network has been trained; to export it: untrained export run "
        "--out model"
    ) in text
    assert not (project / "model").exists()
    assert run_cli("export", "run", "--out", "model")[0] == 0

    # Nothing is left to do.
    code, out, _ = run_cli(*COMMAND.split())
    assert code == 0
    assert "exported: " in out

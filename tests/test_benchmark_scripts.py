"""The scripts of benchmarks/ still run, although they are not run every day and the package may change.

Each script prints its help, and scripts with a small case run it; their results are not checked.
tests/training/test_benchmark.py runs `training.py`.
"""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if "__main__" in path.read_text())
# The command, and the beginning of a line that only a complete run prints.
SMALL = {
    "dextr.py --repeats 1 --archs 1": "milliseconds: three",
    "engine.py --part store --records 20000": "a look-up:",
    "exports.py mlp": "mlp  ",
    "nasbench101_count.py --max-vertices 4": "4 vertices:        97 labelled      91 unique",
    "population.py --part time --population 1 2 --networks 2 --size 8": "| 2 | 2 |",
    "scores.py - --archs random:2 --data noise --proxy params,naswot --threads 1": "|",
    "strategies.py --space nasbench201 --networks 20 --scored 1": "largest share:",
}


def run_script(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `python benchmarks/COMMAND` in this process, because starting Python with torch would take longer."""
    name, *words = command.split()
    monkeypatch.setattr(sys, "argv", [name, *words])
    monkeypatch.syspath_prepend(FOLDER)  # scripts import those beside them
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    except SystemExit as exit_:
        if exit_.code:
            raise
    finally:
        # Some scripts set their own number, which later tests must not inherit.
        torch.set_num_threads(threads)


def test_the_one_command_is_compared_planned_resumed_and_reported(tmp_path, monkeypatch, capsys):
    """A dry run on tiny pictures: one case with one reference and one variant."""
    pytest.importorskip("onnxruntime", reason="the command exports, which needs the extra `export`")
    common = f"--work {tmp_path} --sets toy --limits 50k --seeds 1 --time 4s --jobs 0"
    common += " --references ResNet-12 --variants contest --variant-sets toy --minutes 10"
    run_script(f"one_command.py prepare {common}", monkeypatch)
    run_script(f"one_command.py plan {common}", monkeypatch)
    shown = capsys.readouterr().out
    assert "toy, 50k, seed 0, 4s: command" in shown
    assert "3 of 3 tasks fit into 10 minutes with 1 jobs" in shown
    run_script(f"one_command.py run {common}", monkeypatch)
    results = json.loads((tmp_path / "results.json").read_text())
    case = "toy, 50k, seed 0, 4s"
    assert set(results) == {
        f"{case}: {name}" for name in ("command", "ResNet-12", "without contest")
    }
    for row in results.values():
        assert 0 <= row["accuracy"] <= 1
        # The test pictures are those of the test file.
        assert row["test_samples"] == 60
        assert row["params"] <= 50_000
    assert results[f"{case}: command"]["is_tied"]
    assert results[f"{case}: command"]["train_samples"] == 180
    assert results[f"{case}: ResNet-12"]["train_samples"] == 180
    # Nothing is repeated.
    run_script(f"one_command.py run {common}", monkeypatch)
    assert json.loads((tmp_path / "results.json").read_text()) == results
    out = tmp_path / "docs"
    run_script(f"one_command.py report {common} --out {out}", monkeypatch)
    page = (out / "one-command.md").read_text()
    ours = 100 * results[f"{case}: command"]["accuracy"]
    reference = 100 * results[f"{case}: ResNet-12"]["accuracy"]
    assert f"ResNet-12 {reference:.1f} | {ours - reference:+.1f} |" in page
    assert "| contest | " in page
    numbers = json.loads((out / "one-command.json").read_text())
    assert numbers["runs"][0]["lines"][0]["ours"] == pytest.approx(ours - reference)
    # Written again, the page has the numbers once.
    run_script(f"one_command.py report {common} --out {out}", monkeypatch)
    assert (out / "one-command.md").read_text() == page


def test_the_report_of_the_one_command_says_which_goals_are_met(tmp_path, monkeypatch, capsys):
    rows = {}
    accuracies = {("a", "command"): 0.75, ("a", "ResNet-18"): 0.70, ("a", "MobileNetV2"): 0.72,
                  ("b", "command"): 0.60, ("b", "ResNet-18"): 0.65}  # fmt: skip
    for (data, network), accuracy in accuracies.items():
        rows[f"{data}, 1M, seed 0, 5m: {network}"] = {
            "accuracy": accuracy, "test_samples": 1000, "date": "2026-01-01", "cores": 16,
            "is_tied": data == "a", "selections": ["x"], "commit": f"{data}bc", "seconds": 300.0,
        }  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(rows))
    run_script(f"one_command.py report --work {tmp_path} --out {tmp_path}", monkeypatch)
    shown = capsys.readouterr().out
    # Standard error of a difference: sqrt(0.75 x 0.25 / 1000 + 0.72 x 0.28 / 1000) = 1.97 points.
    assert "| a, 1M, seed 0, 5m | 75.0 | x | MobileNetV2 72.0 | +3.0 | 2.0 |" in shown
    assert "1 of 2 cases (50 %; the goal is 95 %)" in shown
    # The mean of +3 and -5; Student's interval of two values is 12.7 x 4.
    assert "mean difference on pictures: -1.0 points (95 % interval -51.8 to +49.8" in shown
    assert "by more than one standard error: 1 (the goal is 0)" in shown
    numbers = json.loads((tmp_path / "one-command.json").read_text())["runs"][0]
    assert numbers["commit"] == "abc, bbc"
    assert numbers["seconds"] == 1500.0
    mean = numbers["lines"][-1]
    assert mean["what"] == "mean difference on pictures"
    assert mean["ours"] == pytest.approx(-1.0)
    # A new work folder continues from the rows beside the page.
    assert json.loads((tmp_path / "data" / "one-command.json").read_text()) == rows


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_benchmark_prints_its_help(name, monkeypatch, capsys):
    run_script(f"{name} --help", monkeypatch)
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: {name}")
    assert f"python benchmarks/{name}" in shown


@pytest.mark.parametrize("command", SMALL)
def test_a_small_benchmark_runs_to_its_end(command, monkeypatch, capsys):
    if command.startswith("exports.py"):
        pytest.importorskip("onnxruntime", reason="exports need the extra `export`")
    run_script(command, monkeypatch)
    assert any(line.startswith(SMALL[command]) for line in capsys.readouterr().out.splitlines())

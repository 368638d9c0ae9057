"""The scripts of benchmarks/ still run, although they are not run every day and the package may change.

Each script prints its help, and scripts with a small case run it; their results are not checked.
tests/training/test_benchmark.py runs `training.py`.
"""

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

"""`untrained latency bundle`: the folder, its script, and the table that comes back."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.strategies.toys import TASK, ten, twelve
from untrained import search
from untrained.errors import UsageError
from untrained.onnx_files import measure_disagreement, open_onnx
from untrained.probe.guard import random_state
from untrained.seeds import derive_seed
from untrained.strategies.latency_table import read_latency_table
from untrained.strategies.limits import NetworkSize
from untrained.workflows.latency_bundle import write_run_bundle, write_sample_bundle

pytest.importorskip("onnxruntime")


def read_rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def run_script(folder: Path, *options: str) -> str:
    command = [sys.executable, "measure.py", *options]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return result.stdout


def test_the_script_measures_every_network_and_the_table_can_be_read(tmp_path):
    bundle = write_sample_bundle(tmp_path / "bundle", ten, count=9, limits={"params": "5k"})
    assert len({*bundle.archs}) == 9
    for arch in bundle.archs:
        assert NetworkSize(ten, arch, TASK).params <= 5000
    output = run_script(bundle.folder, "--runs", "3", "--machine", "my board")
    assert "9/9: " in output
    rows = read_rows(bundle.folder / "latencies.csv")
    assert [row["machine"] for row in rows] == ["my board"] * 9
    table = read_latency_table(bundle.folder / "latencies.csv", ten, TASK)
    assert list(table) == list(bundle.archs)
    for row, seconds in zip(rows, table.values(), strict=True):
        assert seconds == pytest.approx(float(row["milliseconds"]) / 1e3)
        assert 0 < seconds < 0.1
    assert not (bundle.folder / "latencies.csv.part").exists()


def test_the_script_imports_only_numpy_and_onnxruntime(tmp_path):
    bundle = write_sample_bundle(tmp_path / "bundle", ten, count=1)
    code = (
        "import sys, runpy; sys.argv = ['measure.py', '--runs', '1']; "
        "runpy.run_path('measure.py', run_name='__main__'); "
        "sys.exit('torch' in sys.modules or 'untrained' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=bundle.folder)
    assert process.returncode == 0


def test_the_files_compute_what_the_networks_compute(tmp_path):
    bundle = write_sample_bundle(tmp_path / "bundle", ten, count=3)
    inputs = torch.rand(1, *TASK.input_shape, generator=torch.Generator().manual_seed(0))
    for row, arch in zip(read_rows(bundle.folder / "archs.csv"), bundle.archs, strict=True):
        assert row["arch"] == str(arch)
        assert row["input"] == "3x8x8"
        with random_state(derive_seed("weights", arch.space, arch, 0)):
            network = ten.build(arch, TASK)
        run_onnx = open_onnx(bundle.folder / row["file"], threads=1)
        assert measure_disagreement(network, run_onnx, inputs) < 1e-5


def test_the_input_size_is_that_of_the_search(tmp_path):
    space = "nasbench201(channels=2,cells=1)"
    bundle = write_sample_bundle(tmp_path / "bundle", space, count=1, input_size=16)
    assert bundle.input_shape == (3, 16, 16)


def test_a_small_space_is_written_as_a_whole(tmp_path):
    assert len(write_sample_bundle(tmp_path / "bundle", twelve, count=30).archs) == 12


def test_the_bundle_of_a_run_has_the_best_first(tmp_path):
    space = "nasbench201(channels=2,cells=1)"
    run = tmp_path / "run"
    result = search(space, "params", data="noise", budget=6, run=run, workers=1)
    bundle = write_run_bundle(tmp_path / "bundle", run, count=4)
    ranked = [standing.arch for standing in result.ranking.standings]
    assert list(bundle.archs) == ranked[:4]
    assert len(list((bundle.folder / "networks").iterdir())) == 4


def test_a_folder_with_files_is_refused_and_kept(tmp_path):
    (tmp_path / "mine.txt").write_text("text")
    with pytest.raises(UsageError, match="is not empty; choose another --out"):
        write_sample_bundle(tmp_path, ten)
    assert (tmp_path / "mine.txt").read_text() == "text"
    with pytest.raises(UsageError, match="is not a folder"):
        write_sample_bundle(tmp_path / "mine.txt", ten)


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    def fail(network, samples, path):
        raise KeyboardInterrupt

    monkeypatch.setattr("untrained.workflows.latency_bundle.write_traced_onnx", fail)
    with pytest.raises(KeyboardInterrupt):
        write_sample_bundle(tmp_path / "bundle", ten)
    assert list(tmp_path.iterdir()) == []


def test_limits_are_read_as_in_a_search(tmp_path):
    with pytest.raises(UsageError, match="no limit is called 'parms'; did you mean params"):
        write_sample_bundle(tmp_path / "wrong", ten, limits={"parms": "5k"})
    limits = {"params": "5k", "flops": None}
    bundle = write_sample_bundle(tmp_path / "bundle", ten, count=3, limits=limits)
    assert all(NetworkSize(ten, arch, TASK).params <= 5000 for arch in bundle.archs)


@pytest.mark.parametrize("count", [0, 10_001, 2.5])
def test_a_wrong_count_is_refused(tmp_path, count):
    with pytest.raises(UsageError, match="count is"):
        write_sample_bundle(tmp_path / "bundle", ten, count=count)

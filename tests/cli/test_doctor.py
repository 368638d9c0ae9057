"""`untrained doctor` shows versions, devices, extras and data, also if something is missing or damaged."""

import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from untrained.benchmarks import BENCHMARKS
from untrained.cli import installation
from untrained.data import SOURCES, load_data
from untrained.errors import UsageError
from untrained.types import Task
from untrained.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# In the order of pyproject.toml; the extra `dev` is for contributors.
FOR_CONTRIBUTORS = ("dev", "docs")
EXTRAS = [name for name in PROJECT["optional-dependencies"] if name not in FOR_CONTRIBUTORS]


@pytest.fixture
def data_root(tmp_path, monkeypatch) -> Path:
    """An empty data root."""
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setenv("UNTRAINED_DATA", str(root))
    return root


def read_document(run_cli, *arguments: str) -> dict:
    code, out, err = run_cli("doctor", "--json", *arguments)
    assert (code, err) == (0, "")
    return json.loads(out)


def find_entry(entries: list[dict], name: str) -> dict:
    (entry,) = [entry for entry in entries if entry["name"] == name]
    return entry


def fake_packages(monkeypatch, versions: dict[str, str]) -> None:
    """Let these packages have these versions; one with an empty version is not installed."""
    original = metadata.version

    def version(name: str) -> str:
        if versions.get(name, "?") == "":
            raise metadata.PackageNotFoundError(name)
        return versions.get(name) or original(name)

    monkeypatch.setattr(metadata, "version", version)


def test_versions_are_those_that_python_imports(run_cli, data_root):
    document = read_document(run_cli)
    assert document["untrained"] == __version__
    assert document["folder"] == str(Path(installation.__file__).parents[1])
    assert document["python"] == ".".join(map(str, sys.version_info[:3]))
    assert document["executable"] == sys.executable
    assert find_entry(document["dependencies"], "torch")["version"] == torch.__version__
    assert find_entry(document["dependencies"], "numpy")["version"] == np.__version__
    requirements = [package["name"] + package["required"] for package in document["dependencies"]]
    assert requirements == PROJECT["dependencies"]
    assert document["problems"] == []


def test_devices_are_those_of_torch(run_cli, data_root, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    devices = read_document(run_cli)["devices"]
    assert devices["cores"] == len(os.sched_getaffinity(0))
    assert devices["threads"] == torch.get_num_threads()
    assert devices["gpus"] == []
    assert "this torch is built for the CPU only" in run_cli("doctor")[1]
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert "built for CUDA 13.0, and finds no GPU" in run_cli("doctor")[1]


def test_gpus_are_listed_with_their_memory(run_cli, data_root, monkeypatch):
    properties = SimpleNamespace(name="NVIDIA H200", total_memory=150_000_000_000)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    gpus = read_document(run_cli)["devices"]["gpus"]
    assert [gpu["device"] for gpu in gpus] == ["cuda:0", "cuda:1"]
    assert gpus[1]["memory_bytes"] == 150_000_000_000
    lines = [" ".join(line.split()) for line in run_cli("doctor")[1].splitlines()]
    assert "cuda:1 NVIDIA H200, 150 GB" in lines


def test_every_extra_is_described(run_cli, data_root):
    extras = read_document(run_cli)["extras"]
    assert [extra["name"] for extra in extras] == EXTRAS
    for extra in extras:
        requirements = [package["name"] + package["required"] for package in extra["packages"]]
        assert requirements == PROJECT["optional-dependencies"][extra["name"]]
        assert extra["enables"]
        assert extra["install"] == f"pip install '.[{extra['name']}]'"


@pytest.mark.parametrize(
    ("onnx_version", "onnxscript_version", "state"),
    [
        ("1.17", "0.4.1", "installed: onnx 1.17, onnxscript 0.4.1, "),
        ("1.17", "", "incomplete: pip install '.[export]'"),
        ("1.9.0", "0.4.1", "incomplete: pip install '.[export]'"),
    ],
)
def test_an_extra_needs_all_its_packages_in_their_versions(
    run_cli, data_root, monkeypatch, onnx_version, onnxscript_version, state
):
    packages = {"onnx": onnx_version, "onnxscript": onnxscript_version}
    fake_packages(monkeypatch, packages | {"onnxruntime": "1.20", "safetensors": "0.4"})
    extra = find_entry(read_document(run_cli)["extras"], "export")
    assert extra["installed"] == state.startswith("installed")
    assert state in run_cli("doctor")[1]


def test_a_missing_extra_shows_the_command_that_adds_it(run_cli, data_root, monkeypatch):
    fake_packages(monkeypatch, {"ray": ""})
    document = read_document(run_cli)
    assert not find_entry(document["extras"], "ray")["installed"]
    assert document["problems"] == []  # untrained works without it
    _, out, _ = run_cli("doctor")
    assert "not installed: pip install '.[ray]'" in out
    assert "workers on a Ray cluster" in out


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("", "scipy is not installed: pip install 'scipy>=1.11'"),
        ("1.9.3", "scipy 1.9.3 is too old: pip install 'scipy>=1.11'"),
    ],
)
def test_a_missing_or_old_dependency_is_a_problem(
    run_cli, data_root, monkeypatch, version, problem
):
    fake_packages(monkeypatch, {"scipy": version})
    assert read_document(run_cli)["problems"] == [problem]
    code, out, _ = run_cli("doctor")
    assert code == 0
    assert out.endswith(f"problems\n  {problem}\n")


@pytest.mark.parametrize(
    ("version", "required", "is_too_old"),
    [
        ("2.8", ">=2.8.0", False),
        ("2.13.0+cpu", ">=2.8", False),
        ("2.7.9", ">=2.8", True),
        ("3.0rc1", ">=3", False),
        ("10", ">=9.9", False),
        ("1.0", "", False),
    ],
)
def test_versions_are_compared_as_numbers(version, required, is_too_old):
    assert installation._is_too_old(version, required) == is_too_old


def test_it_runs_if_torch_cannot_be_imported(tmp_path):
    """The damaged installation is the reason to type this command."""
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so: cannot open')\n")
    search_path = os.pathsep.join([str(tmp_path), str(Path(installation.__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-m", "untrained", "doctor", "--json"],
        env=os.environ | {"PYTHONPATH": search_path, "UNTRAINED_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["devices"]["threads"] is None
    assert "torch cannot be imported: libtorch_cpu.so: cannot open" in document["problems"]
    assert document["datasets"] == []


def test_it_runs_without_the_metadata_of_the_package(run_cli, data_root, monkeypatch):
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    (problem,) = read_document(run_cli)["problems"]
    assert problem.startswith("untrained is not installed as a package")


def test_an_empty_data_root_has_only_the_tables_of_the_package(run_cli, data_root):
    document = read_document(run_cli)
    assert document["data_root"] == {
        "path": str(data_root),
        "source": "$UNTRAINED_DATA",
        "exists": True,
    }
    datasets = {"cifar10", "cifar100", "mnist", "fashion_mnist"}
    assert {entry["name"] for entry in document["datasets"]} == datasets
    assert not any(entry["found"] for entry in document["datasets"])
    found = {table["name"] for table in document["tables"] if table["found"]}
    assert found == {"convnet", "vit"}
    assert {table["name"] for table in document["tables"]} == set(BENCHMARKS)
    _, out, _ = run_cli("doctor")
    assert "not found: `untrained data import darts1000 PATH` makes it from " in out
    assert "not found: `untrained search --data cifar10` says which files it needs" in out


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "mnist", "fashion_mnist"])
def test_the_command_that_it_suggests_for_a_data_set_names_the_files(run_cli, data_root, name):
    code, _, err = run_cli("search", "--data", name)
    assert code == 2
    assert "looked for" in err


def test_data_sets_that_need_files_are_those_that_cannot_be_opened_without(data_root):
    """No other source is missing in the list: each opens without files or takes the path of a user."""
    for name, kind in SOURCES.items():
        if kind.takes_argument:
            assert kind.find_files is None, name
            continue
        task = Task(name, (3, 32, 32), 10)
        if kind.find_files is None:
            load_data(name, task)
        else:
            with pytest.raises(UsageError, match="looked for"):
                load_data(name, task)


def test_data_under_the_data_root_are_found(run_cli, tmp_path):
    """Also if they are only in the folder of --data-root."""
    root = tmp_path / "other"
    cifar_files = [
        root / "cifar-10-batches-bin" / f"data_batch_{number}.bin" for number in range(1, 6)
    ]
    for file in [*cifar_files, root / "mnist" / "mnist.npz"]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "transnas.parquet").write_text("damaged")
    document = read_document(run_cli, "--data-root", str(root))
    assert document["data_root"]["source"] == "--data-root"
    files = {entry["name"]: entry["files"] for entry in document["datasets"] if entry["found"]}
    assert files == {
        "cifar10": [str(file) for file in cifar_files],
        "mnist": [str(root / "mnist" / "mnist.npz")],
    }
    table = find_entry(document["tables"], "transnas")
    assert not table["found"]
    assert str(root / "benchmarks" / "transnas.parquet") in table["problem"]

    cifar_files[2].unlink()
    datasets = read_document(run_cli, "--data-root", str(root))["datasets"]
    assert not find_entry(datasets, "cifar10")["found"]


def test_a_missing_data_root_is_said(run_cli):
    _, out, _ = run_cli("doctor", "--data-root", "absent")
    assert "  absent, which does not exist (--data-root)\n" in out

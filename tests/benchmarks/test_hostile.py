"""Files that would run code are refused in one line, and do not run it."""

import os
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import untrained
from tests.benchmarks import publishers
from untrained.benchmarks import import_benchmark
from untrained.errors import UsageError
from untrained.readers.torch_file import read_torch
from untrained.spaces.nasbench201 import make_arch_from_index

ARCHS = [str(make_arch_from_index(index)) for index in range(3)]


class Hostile:
    """Runs `function(*arguments)` when it is unpickled without restrictions."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def make_hostile_object(marker: Path) -> Hostile:
    """Return an object that creates the file `marker` when it is unpickled."""
    return Hostile(os.system, f"touch {marker}")


def write_pickle(folder: Path, hostile: object) -> Path:
    path = folder / "HW-NAS-Bench-v1_0.pickle"
    path.write_bytes(pickle.dumps({"nasbench201": hostile}))
    return path


def write_nats_meta(folder: Path, hostile: object) -> Path:
    nats = publishers.write_nats(folder / "simple", ARCHS, only=(0,))
    publishers.write_pbz2(nats / "meta.pickle.pbz2", {"meta_archs": ARCHS, "more": hostile})
    return nats


def write_nats_results(folder: Path, hostile: object) -> Path:
    nats = publishers.write_nats(folder / "simple", ARCHS, only=(0,))
    publishers.write_pbz2(nats / "000000.pickle.pbz2", {"12": hostile})
    return nats


def write_torch_zip(folder: Path, hostile: object) -> Path:
    torch.save({"data": {"micro": hostile}}, folder / "a.pth")
    return folder / "a.pth"


def write_old_torch(folder: Path, hostile: object) -> Path:
    torch.save({"data": {"micro": hostile}}, folder / "a.pth", _use_new_zipfile_serialization=False)
    return folder / "a.pth"


def write_first_pickle(folder: Path, hostile: object) -> Path:
    """Write a single pickle, where old files of torch have their magic number."""
    (folder / "a.pth").write_bytes(pickle.dumps(hostile))
    return folder / "a.pth"


PLACES = {
    write_pickle: "nasbench201",
    write_nats_meta: "nasbench201",
    write_nats_results: "nasbench201",
}
PLACES |= {write_torch_zip: "transnas", write_old_torch: "transnas", write_first_pickle: "transnas"}


@pytest.mark.parametrize(("write", "name"), PLACES.items())
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path, write, name):
    marker = tmp_path / "it_ran"
    path = write(tmp_path, make_hostile_object(marker))
    with pytest.raises(
        UsageError, match=r"was refused: it asks for posix.system, which plain data"
    ) as error:
        import_benchmark(name, path, tmp_path / "root")
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    assert not marker.exists()
    assert not (tmp_path / "root").exists()


def test_the_files_of_these_tests_are_dangerous(tmp_path):
    """Otherwise the test above would prove nothing."""
    marker = tmp_path / "it_ran"
    pickle.loads(pickle.dumps(make_hostile_object(marker)))
    assert marker.exists()


def test_a_zip_archive_of_something_else_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pth", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(UsageError, match=r"without data.pkl, so torch.save did not write it"):
        read_torch(tmp_path / "a.pth")
    with pytest.raises(UsageError, match="there is no file"):
        read_torch(tmp_path / "absent.pth")


def test_pickles_are_read_in_one_place():
    """Foreign pickles are read in `readers/` alone, by a reader that constructs no foreign objects.

    Four other files are allowed: two exchange messages between our own processes, the checkpoints
    contain weights only, and an export runs the source that it has just written.
    """
    package = Path(untrained.__file__).parent
    unsafe = re.compile(
        r"\bpickle\.(loads?|Unpickler)\b|torch\.load\(|allow_pickle=True|(?<![._\w])eval\(|\bexec\("
    )
    users = set()
    for file in package.rglob("*.py"):
        if unsafe.search(file.read_text()):
            users.add(str(file.relative_to(package)))
    assert users == {
        "engine/executors/processes.py",
        "engine/worker_process.py",
        "training/checkpoint.py",
        "exports/source.py",
    }
    checkpoint_source = (package / "training/checkpoint.py").read_text()
    assert re.findall(r"torch\.load\(.*", checkpoint_source) == [
        'torch.load(path, map_location="cpu", weights_only=True)'
    ]

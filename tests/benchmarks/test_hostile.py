"""Files that would run code are refused in one line, and do not run it."""

import bz2
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import untrained
from tests.benchmarks import publishers
from untrained._unpickle import _Rebuild, read_pickle, read_torch
from untrained.benchmarks import import_benchmark
from untrained.errors import UsageError
from untrained.spaces.nasbench201 import from_index

ARCHS = [str(from_index(index)) for index in range(3)]


class Hostile:
    """Runs `function(*arguments)` where it is unpickled freely."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def touch(marker: Path) -> Hostile:
    return Hostile(os.system, f"touch {marker}")


def in_pickle(folder: Path, evil: object) -> Path:
    path = folder / "HW-NAS-Bench-v1_0.pickle"
    path.write_bytes(pickle.dumps({"nasbench201": evil}))
    return path


def in_meta(folder: Path, evil: object) -> Path:
    nats = publishers.nats(folder / "simple", ARCHS, only=(0,))
    publishers.pbz2(nats / "meta.pickle.pbz2", {"meta_archs": ARCHS, "more": evil})
    return nats


def in_results(folder: Path, evil: object) -> Path:
    nats = publishers.nats(folder / "simple", ARCHS, only=(0,))
    publishers.pbz2(nats / "000000.pickle.pbz2", {"12": evil})
    return nats


def in_zip(folder: Path, evil: object) -> Path:
    torch.save({"data": {"micro": evil}}, folder / "a.pth")
    return folder / "a.pth"


def in_old_torch(folder: Path, evil: object) -> Path:
    torch.save({"data": {"micro": evil}}, folder / "a.pth", _use_new_zipfile_serialization=False)
    return folder / "a.pth"


def in_first_pickle(folder: Path, evil: object) -> Path:
    """Where old files of torch have their magic number."""
    (folder / "a.pth").write_bytes(pickle.dumps(evil))
    return folder / "a.pth"


PLACES = {in_pickle: "nasbench201", in_meta: "nasbench201", in_results: "nasbench201"}
PLACES |= {in_zip: "transnas", in_old_torch: "transnas", in_first_pickle: "transnas"}


@pytest.mark.parametrize(("write", "name"), PLACES.items())
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path, write, name):
    marker = tmp_path / "it_ran"
    path = write(tmp_path, touch(marker))
    with pytest.raises(UsageError, match=r"was refused: it asks for posix.system, which plain data") as error:
        import_benchmark(name, path, tmp_path / "root")
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    assert not marker.exists()
    assert not (tmp_path / "root").exists()


def test_the_files_of_these_tests_are_dangerous(tmp_path):
    """Otherwise the test above would show nothing."""
    marker = tmp_path / "it_ran"
    pickle.loads(pickle.dumps(touch(marker)))
    assert marker.exists()


@pytest.mark.parametrize(
    "evil",
    [
        Hostile(eval, "1"),
        Hostile(getattr, "a", "upper"),
        Hostile(torch.load, "x"),
        Hostile(np.load, "x"),
        Hostile(open, "x"),
        Hostile(np.frombuffer, b"1"),
        Path("a"),
    ],
    ids="eval getattr torch.load numpy.load open frombuffer a_path".split(),
)
@pytest.mark.parametrize("protocol", range(6))
def test_only_what_plain_data_need_may_be_named(tmp_path, evil, protocol):
    (tmp_path / "a.pickle").write_bytes(pickle.dumps([evil], protocol=protocol))
    with pytest.raises(UsageError, match="was refused: it asks for"):
        read_pickle(tmp_path / "a.pickle")


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_are_read(tmp_path, protocol):
    plain = {"a": [1, 2.5, None, True], "b": ({3}, frozenset({4})), "c": OrderedDict(x=b"1", y=bytearray(b"2"))}
    content = {**plain, "d": np.float64(1.5), "e": np.arange(6).reshape(2, 3), "f": np.array(["a", "b"])}
    packed = pickle.dumps(content, protocol=protocol)
    (tmp_path / "a.pickle").write_bytes(packed)
    (tmp_path / "a.pickle.pbz2").write_bytes(bz2.compress(packed))
    for path in (tmp_path / "a.pickle", tmp_path / "a.pickle.pbz2"):
        found = read_pickle(path)
        assert {name: found[name] for name in plain} == plain
        assert type(found["c"]) is OrderedDict
        assert found["d"] == 1.5
        assert np.array_equal(found["e"], content["e"])
        assert np.array_equal(found["f"], content["f"])


def test_a_tensor_that_reaches_outside_its_storage_is_refused():
    rebuild, storage = _Rebuild(), np.arange(6.0)
    assert rebuild(storage, 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    for offset, size, stride in [(0, (7,), (1,)), (3, (2, 2), (2, 2)), (-1, (2,), (1,)), (0, (2,), (-1,)), (6, (), ())]:
        with pytest.raises(pickle.UnpicklingError, match="reaches outside its 6 numbers"):
            rebuild(storage, offset, size, stride)


def test_a_pickle_cannot_write_into_what_it_may_name(tmp_path):
    """BUILD, which sets attributes, on the one thing of ours that it can name."""
    packed = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb."
    (tmp_path / "a.pickle").write_bytes(packed)
    with pytest.raises(UsageError, match="is damaged"):
        read_pickle(tmp_path / "a.pickle")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04", pickle.dumps([1] * 50)[:-20], b"PK\x03\x04junk"])
@pytest.mark.parametrize("read", [read_pickle, read_torch])
def test_what_is_no_pickle_is_said_in_one_line(tmp_path, content, read):
    (tmp_path / "a.pth").write_bytes(content)
    with pytest.raises(UsageError, match=r"a.pth (is damaged|was refused): ") as error:
        read(tmp_path / "a.pth")
    assert "\n" not in str(error.value)


def test_a_zip_archive_of_something_else_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pth", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(UsageError, match=r"without data.pkl, so torch.save did not write it"):
        read_torch(tmp_path / "a.pth")
    with pytest.raises(UsageError, match="there is no file"):
        read_torch(tmp_path / "absent.pth")


def test_pickles_are_read_in_one_place():
    """No other file of the package unpickles files, nor lets torch or numpy do it; only our own processes talk so. Our
    checkpoints hold weights only, and an export runs the source that it has just written."""
    package = Path(untrained.__file__).parent
    doors = re.compile(r"\bpickle\.(loads?|Unpickler)\b|torch\.load\(|allow_pickle=True|(?<![._\w])eval\(|\bexec\(")
    found = {file.name for file in package.rglob("*.py") if doors.search(file.read_text())}
    assert found == {"_unpickle.py", "processes.py", "_worker.py", "_checkpoint.py", "source.py"}
    assert re.findall(r"torch\.load\(.*", (package / "training/_checkpoint.py").read_text()) == [
        'torch.load(path, map_location="cpu", weights_only=True)'
    ]

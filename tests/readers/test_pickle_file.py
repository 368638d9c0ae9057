"""Plain data in pickles of all protocols are read; everything else is refused."""

import bz2
import pickle
import tracemalloc
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.benchmarks.test_hostile import Hostile
from untrained.errors import UsageError
from untrained.readers.limits import DamagedFileError, MemoryAllowance, RefusedFileError
from untrained.readers.pickle_file import read_pickle
from untrained.readers.plain_arrays import make_strided_array
from untrained.readers.torch_file import read_torch

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def read_back(folder: Path, value: object, protocol: int) -> object:
    (folder / "a.pickle").write_bytes(pickle.dumps(value, protocol=protocol))
    return read_pickle(folder / "a.pickle")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        [0, 1, -1, 255, 256, 65536, 2**31, -(2**31), 2**63, -(2**63), 2**64 - 1],
        [0.0, -1.5, 1e300, float("inf")],
        ["", "a", "é", "漢字", "\U0001f600", "a\nb\\c'\"", "x" * 300, "\udc80"],
        [b"", b"a", bytes(range(256)), b"x" * 300],
        [bytearray(), bytearray(b"abc")],
        [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        [[], [[]], list(range(3000))],
        {"a": 1, 2: "b", ("cifar10", 777): {"x": None}, 1.5: (), b"k": b"v", None: 0, True: 1},
        {i: i / 7 for i in range(2500)},
        [set(), {1, 2}, frozenset(), frozenset({"a", "b"})],
        OrderedDict(x=1, y=OrderedDict()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_data_are_read(tmp_path, value, protocol):
    assert read_back(tmp_path, value, protocol) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(4, dtype=">f4"),
        np.array([1, 2], np.float16),
        np.array([[True], [False]]),
        np.zeros((0, 3)),
        np.array(2.5),
        np.arange(3, dtype=np.uint64),
        np.arange(3, dtype=np.int8),
        np.array(["a", "bcd"]),
        np.array([b"a", b"bc"]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_are_read(tmp_path, array, protocol):
    arrays = read_back(tmp_path, [array, array], protocol)
    for read_array in arrays:
        assert np.array_equal(read_array, array)
        assert read_array.shape == array.shape
        assert read_array.dtype == array.dtype.newbyteorder("=")
    arrays[0][...] = 0  # a writable copy


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "value", [np.float64(1.5), np.float32(0.25), np.int64(-3), np.bool_(True), np.str_("ab")]
)
def test_scalars_of_numpy_become_plain_values(tmp_path, value, protocol):
    scalar = read_back(tmp_path, value, protocol)
    assert scalar == value
    assert type(scalar) in (float, int, bool, str)


def test_packed_pickles_are_read(tmp_path):
    (tmp_path / "a.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps({"a": [1]})))
    assert read_pickle(tmp_path / "a.pickle.pbz2") == {"a": [1]}


def test_strings_of_python_2_are_bytes(tmp_path):
    (tmp_path / "a.pickle").write_bytes(
        b"(lp0\nS'data'\np1\naS'it\\'s\\x00'\np2\naI5\naL7L\naI01\na."
    )
    assert read_pickle(tmp_path / "a.pickle") == [b"data", b"it's\0", 5, 7, True]


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
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_only_names_of_plain_data_are_allowed(tmp_path, evil, protocol):
    with pytest.raises(UsageError, match="was refused: it asks for"):
        read_back(tmp_path, [evil], protocol)


@pytest.mark.parametrize(
    "value", [np.array([None]), np.array([(1, 2.0)], "i4,f4"), np.array(["2020"], "M8[D]")]
)
def test_arrays_of_other_kinds_are_refused_by_name(tmp_path, value):
    with pytest.raises(UsageError, match="was refused: it has an array of type"):
        read_back(tmp_path, value, 4)


def test_shared_objects_are_read(tmp_path):
    shared = ["x-valid", "x-test"]
    assert read_back(tmp_path, [shared] * 1000, 4) == [shared] * 1000


def test_every_opcode_of_pickle_is_handled():
    import pickletools

    from untrained.readers import pickle_file

    opcodes = {ord(opcode.code) for opcode in pickletools.opcodes}
    assert opcodes == set(pickle_file._OPERATIONS) | {ord(".")}


def test_the_memory_allowance_follows_the_real_memory(tmp_path):
    """The allowance counts the memory of CPython: at least half and at most four times the measured peak."""
    value = {f"key{i}": [i / 3, {"a": i}, (i, "text"), {i}] for i in range(20_000)}
    data = pickle.dumps(value)
    from untrained.readers.pickle_file import interpret_pickle

    allowance = MemoryAllowance(len(data))
    tracemalloc.start()
    read_value, _ = interpret_pickle(data, allowance)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read_value == value
    assert peak / 2 < allowance.used < 4 * peak


def test_a_tensor_that_reaches_outside_its_storage_is_refused():
    storage = np.arange(6.0)
    allowance = MemoryAllowance(1000)
    assert make_strided_array(storage, 1, (2, 2), (2, 1), allowance).tolist() == [[1, 2], [3, 4]]
    assert make_strided_array(storage, 5, (1, 1), (99, 2**40), allowance).tolist() == [[5]]
    for offset, size, stride in [(0, (7,), (1,)), (3, (2, 2), (2, 2)), (6, (), ())]:
        with pytest.raises(RefusedFileError, match="reaches outside its 6 numbers"):
            make_strided_array(storage, offset, size, stride, allowance)
    for offset, size, stride in [
        (-1, (2,), (1,)),
        (0, (2,), (-1,)),
        (0, (np.int64(2),), (1,)),
        (0, (True,), (1,)),
    ]:
        with pytest.raises(DamagedFileError):
            make_strided_array(storage, offset, size, stride, allowance)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x80\x04", pickle.dumps([1] * 50)[:-20], b"PK\x03\x04junk"]
)
@pytest.mark.parametrize("read", [read_pickle, read_torch])
def test_a_file_that_is_not_a_pickle_is_refused_in_one_line(tmp_path, content, read):
    (tmp_path / "a.pth").write_bytes(content)
    with pytest.raises(UsageError, match=r"a.pth (is damaged|was refused): ") as error:
        read(tmp_path / "a.pth")
    assert "\n" not in str(error.value)

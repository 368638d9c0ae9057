"""Hostile files are refused in one line: no crash, no foreign code, no memory beyond their size.

Each file is read in a child process by the function behind `untrained data import`, so that a
crash is the failure of one test.
"""

import gzip
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import publishers
from tests.fuzz.guard import GuardedReader, Reading
from tests.readers.hostile_files import (
    HOSTILE_PICKLES,
    HOSTILE_TENSORS,
    dump_pickle,
    encrypt_flags,
    make_tensor,
    wrap_in_table,
    wrap_in_transnas,
    write_npz,
    write_torch_zip,
)
from untrained.runs.store import Store

FOUR_NUMBERS = struct.pack("<4d", 1, 2, 3, 4)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedReader]:
    with GuardedReader(tmp_path_factory.mktemp("scratch")) as guarded:
        yield guarded


def check_refused(reading: Reading) -> str:
    assert reading.outcome == "refused", reading.message
    assert reading.defects == []
    return reading.message


def test_the_reader_reads_a_valid_tensor(reader, tmp_path):
    """Otherwise the tests below would prove nothing."""
    tensor = make_tensor(b"K\x01", b"K\x03\x85", b"K\x01\x85")
    path = write_torch_zip(tmp_path / "a.pth", wrap_in_transnas(tensor), {"0": FOUR_NUMBERS})
    assert reader.read("transnas.pth", path).outcome == "read"
    publishers.write_hwnas(
        tmp_path / "a.pickle", ["|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"]
    )
    assert reader.read("hwnas.pickle", tmp_path / "a.pickle").outcome == "read"


@pytest.mark.parametrize("name", HOSTILE_PICKLES)
def test_a_hostile_pickle_is_refused(reader, tmp_path, name):
    path = tmp_path / "HW-NAS-Bench-v1_0.pickle"
    path.write_bytes(HOSTILE_PICKLES[name])
    check_refused(reader.read("hwnas.pickle", path))
    assert not (Path.cwd() / "it_ran").exists()


@pytest.mark.parametrize("name", HOSTILE_TENSORS)
def test_a_hostile_tensor_is_refused(reader, tmp_path, name):
    pickled = wrap_in_transnas(HOSTILE_TENSORS[name])
    path = write_torch_zip(tmp_path / "a.pth", pickled, {"0": FOUR_NUMBERS})
    check_refused(reader.read("transnas.pth", path))


def test_a_torch_file_that_unpacks_to_gigabytes_is_refused(reader, tmp_path):
    tensor = make_tensor(b"K\x00", b"K\x01\x85", b"K\x01\x85")
    bomb = bytes(300 * 2**20)
    path = write_torch_zip(
        tmp_path / "a.pth", wrap_in_transnas(tensor), {"0": bomb}, zipfile.ZIP_DEFLATED
    )
    assert path.stat().st_size < 2**20
    assert "takes more than" in check_refused(reader.read("transnas.pth", path))


def test_a_pickle_of_many_empty_containers_is_refused(reader, tmp_path):
    """Ten million sets in a list are 2 GB of memory from 10 MB of file."""
    path = tmp_path / "a.pickle"
    path.write_bytes(wrap_in_table(b"](" + b"\x8f" * 10_000_000 + b"e"))
    assert "takes more than" in check_refused(reader.read("hwnas.pickle", path))


def test_a_packed_pickle_that_unpacks_to_gigabytes_is_refused(reader, tmp_path):
    folder = publishers.write_nats(tmp_path / "nats", ["a"], only=())
    publishers.write_pbz2(folder / "000000.pickle.pbz2", {"12": bytes(400 * 2**20)})
    assert "takes more than" in check_refused(
        reader.read("nats.pbz2", folder / "000000.pickle.pbz2")
    )


def test_the_error_for_an_unprintable_key_is_short_and_printable(reader, tmp_path):
    path = tmp_path / "a.pickle"
    path.write_bytes(
        dump_pickle(
            {"nasbench201": {"\x1b[31m" * 5000: {"config": [{"arch_str": "\x1b\n" * 9999}]}}}
        )
    )
    message = check_refused(reader.read("hwnas.pickle", path))
    assert message.isprintable()
    assert len(message) < 1000


# -------------------------------------------------------------------------------------- numpy archives


HEADER = "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (
            HEADER % "(3, 1125899906842624)",
            "states 3,377,699,720,527,872 bytes of numbers, but there are 64",
        ),
        (HEADER % "(4, 4611686018427387904, 8)", "but there are"),
        (HEADER % "(4, -4)", "unsupported type, order or shape"),
        (HEADER % ("(" + "1, " * 33 + ")"), "33 axes"),
        (HEADER.replace("|u1", "|O") % "(4, 4, 4)", "it holds Python objects"),
        (HEADER.replace("'|u1'", "[('a', '|O')]") % "(4, 4, 4)", "it holds Python objects"),
        (HEADER.replace("|u1", "<M8[ns]") % "(2, 2, 2)", "unsupported type, order or shape"),
        ("-" * 100, "unsupported type, order or shape"),
    ],
)
def test_an_npz_with_a_hostile_header_is_refused(reader, tmp_path, header, reason):
    path = write_npz(tmp_path / "a.npz", header, bytes(64))
    message = check_refused(reader.read("images.npz", path))
    assert "is not a readable numpy archive" in message
    assert reason in message
    assert "allow_pickle" not in message


def test_an_npz_that_unpacks_to_gigabytes_is_refused(reader, tmp_path):
    header = HEADER % "(4, 8192, 16384)"
    path = write_npz(tmp_path / "a.npz", header, bytes(2**29), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**20
    assert "takes more than" in check_refused(reader.read("images.npz", path))


def test_an_encrypted_npz_says_so(reader, tmp_path):
    path = encrypt_flags(write_npz(tmp_path / "a.npz", HEADER % "(4, 4, 4)", bytes(64)))
    assert "it is encrypted; unpack it" in check_refused(reader.read("images.npz", path))


def test_a_csv_file_as_npz_advises_csv(reader, tmp_path):
    (tmp_path / "ok.csv").write_text("a,b\n1,2\n")
    message = check_refused(reader.read("images.npz", tmp_path / "ok.csv"))
    assert "type csv:" in message
    assert "pickle" not in message


def test_an_npz_label_of_two_billion_is_refused(reader, tmp_path):
    np.savez(
        tmp_path / "a.npz", x=np.zeros((4, 4, 4), np.uint8), y=np.array([0, 1, 2, 2_000_000_000])
    )
    message = check_refused(reader.read("images.npz", tmp_path / "a.npz"))
    assert "y has the label 2000000000; number the classes 0, 1, 2" in message


def test_an_npz_whose_name_is_not_utf8_is_refused(reader, tmp_path):
    path = Path(f"{tmp_path}/\udcff.npz")
    np.savez(path, x=np.zeros((40, 4, 4), np.uint8), y=np.arange(40) % 2)
    assert "UTF-8" in check_refused(reader.read("images.npz", path))


# ------------------------------------------------------------------------------------------- others


def test_a_tfrecord_that_claims_64_gb_is_refused(reader, tmp_path):
    length = struct.pack("<Q", 2**36)
    checksum = publishers.frame_record(length)[20:24]
    path = tmp_path / "a.tfrecord"
    path.write_bytes(length + checksum + b"{}")
    assert "is not a complete TFRecord file" in check_refused(
        reader.read("nasbench101.tfrecord", path)
    )


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("kind", ["suite_zero.json", "run.json"])
def test_deeply_nested_json_is_refused(reader, tmp_path, kind, opening):
    path = tmp_path / ("run.json" if kind == "run.json" else "zc.json")
    path.write_text(opening * 100_000)
    assert "nested deeper than 64 levels" in check_refused(reader.read(kind, path))


def test_json_of_many_brackets_is_refused(reader, tmp_path):
    """Ten million empty lists are 700 MB."""
    path = tmp_path / "zc.json"
    path.write_text("[" + "[]," * 10_000_000 + "[]]")
    assert "takes more than" in check_refused(reader.read("suite_zero.json", path))


@pytest.mark.parametrize(
    "key", ["(" * 5000, "-" * 200_000 + "1", "9" * 5000, "(1, 2", "__import__('os')"]
)
def test_an_architecture_that_is_not_a_tuple_of_numbers_is_refused(reader, tmp_path, key):
    path = tmp_path / "zc.json"
    path.write_text(json.dumps({"cifar10": {key: {"val_accuracy": 1}}, "cifar100": {}}))
    check_refused(reader.read("suite_zero.json", path))


def test_a_csv_table_that_unpacks_to_gigabytes_is_refused(reader, tmp_path):
    path = tmp_path / "darts1000_cifar10.csv.gz"
    path.write_bytes(gzip.compress(b"genotype,val_acc\n" + b"a,1\n" * 100_000_000, compresslevel=1))
    assert "takes more than" in check_refused(reader.read("table.csv.gz", path))


def test_a_suite_zero_file_without_architectures_is_refused(reader, tmp_path):
    path = tmp_path / "zc.json"
    path.write_text('{"cifar10": {}}')
    check_refused(reader.read("suite_zero.json", path))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"tablesettingssettings", b"tableset\x1b\ningssettings"),
        (b"tablesettingssettings", b"tab\nesettingssettings"),
        (b"CREATE TABLE settings", b"CREATE TABLE\nse\x1btings"),
        (b"PRIMARY KEY,\n    measure", b'PRIMARY KEY\n\n   "measure'),
    ],
)
def test_a_store_with_a_damaged_schema_is_refused_in_one_line(reader, tmp_path, old, new):
    path = tmp_path / "records.sqlite"
    Store(path).close()
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    message = check_refused(reader.read("store.sqlite", path))
    assert message.isprintable()

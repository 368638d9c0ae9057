"""Mutated files of every kind are read or refused in one line. `python -m tests.fuzz` reads many more."""

from pathlib import Path

import pytest

from tests.fuzz.__main__ import format_table, read_mutated_files
from tests.fuzz.examples import make_examples
from tests.fuzz.guard import GuardedReader
from tests.fuzz.mutate import MUTATIONS, mutate

SHORT_COUNT = 130


@pytest.mark.slow
def test_mutated_files_are_read_or_refused_in_one_line(tmp_path):
    examples = make_examples(tmp_path / "examples")
    assert {example.kind for example in examples} == set(MUTATIONS)
    readings = []
    for number, reading in read_mutated_files(examples, SHORT_COUNT, seed=1, folder=tmp_path):
        assert reading.defects == [], f"{reading.kind} {number}"
        readings.append(reading)
    outcomes = {reading.outcome for reading in readings}
    assert outcomes == {"read", "refused"}  # mutations are neither all harmless nor all fatal
    assert f"| all | {SHORT_COUNT} |" in format_table(readings)


def test_the_same_seed_gives_the_same_file():
    content = bytes(range(256)) * 4
    assert mutate("store.sqlite", content, 0, 1) == mutate("store.sqlite", content, 0, 1)
    assert mutate("store.sqlite", content, 0, 1) != mutate("store.sqlite", content, 0, 2)
    assert mutate("store.sqlite", content, 0, 1) != mutate("store.sqlite", content, 1, 1)


@pytest.mark.parametrize(
    ("kind", "defect"),
    [
        ("bad: crash", "crash: killed by SIGSEGV"),
        ("bad: memory", "MB for 1 bytes"),
        ("bad: command", "os.system"),
        ("bad: source", "exec of foreign.py"),
        ("bad: outside", "for writing"),
        ("bad: lines", "not one line"),
        ("bad: error", "exception: KeyError"),
    ],
)
def test_the_watch_notices_forbidden_actions(reader, tmp_path, kind, defect):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    reading = reader.read(kind, path)
    assert any(defect in each for each in reading.defects), reading


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    scratch = Path(tmp_path_factory.mktemp("fuzz")) / "scratch"
    scratch.mkdir()
    with GuardedReader(scratch) as guarded:
        yield guarded

"""Free run folders, and files that are always written completely."""

import os
from pathlib import Path
from threading import Thread

import pytest

from untrained.files import find_free_folder, format_csv, replace_atomically, write_atomically
from untrained.training.checkpoint import load_tensors, save_tensors


def test_a_free_folder_has_the_first_unused_number(tmp_path):
    (tmp_path / "run-2").mkdir()
    assert find_free_folder(tmp_path / "run") == tmp_path / "run-3"


@pytest.mark.parametrize(
    ("write", "read"), [(write_atomically, Path.read_text), (save_tensors, load_tensors)]
)
def test_the_last_of_two_concurrent_writers_wins(tmp_path, monkeypatch, write, read):
    path = tmp_path / "file"
    replace = os.replace

    def write_other_first(part, target):
        monkeypatch.setattr(os, "replace", replace)
        other = Thread(target=write, args=(path, "second"))
        other.start()
        other.join()
        assert read(path) == "second"
        replace(part, target)

    monkeypatch.setattr(os, "replace", write_other_first)
    write(path, "first")
    assert read(path) == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_of_killed_writers_are_removed_and_those_of_living_writers_stay(
    tmp_path,
):
    path = tmp_path / "run[1].json"
    dead = tmp_path / "run[1].json.4711-1.part"
    others = tmp_path / "run1.json.4711-1.part"
    dead.write_text("half a fi")
    others.write_text("of another file")
    with replace_atomically(path) as part:
        assert not dead.exists()
        other = Thread(target=write_atomically, args=(path, "another writer"))
        other.start()
        other.join()
        assert path.read_text() == "another writer"
        assert part.exists()
        part.write_text("whole")
    assert path.read_text() == "whole"
    assert sorted(tmp_path.iterdir()) == sorted([path, others])


def test_a_csv_file_holds_no_formulas_for_a_spreadsheet():
    rows = [
        {"proxy": "=cmd()", "value": -1.5, "@name": "'x"},
        {"proxy": "plain", "value": None, "@name": 2},
    ]
    assert format_csv(rows) == "proxy,value,'@name\r\n'=cmd(),-1.5,''x\r\nplain,,2\r\n"
    assert format_csv([]) == ""

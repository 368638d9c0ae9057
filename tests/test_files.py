"""Folders of runs, and files that are whole."""

import os
from pathlib import Path
from threading import Thread

import pytest

from untrained.files import format_csv, find_free_folder, replace_atomically, write_atomically
from untrained.training.checkpoint import load_tensors, save_tensors


def test_a_free_folder_is_the_first_number_that_nobody_has(tmp_path):
    (tmp_path / "run-2").mkdir()
    assert find_free_folder(tmp_path / "run") == tmp_path / "run-3"


@pytest.mark.parametrize(
    ("write", "read"), [(write_atomically, Path.read_text), (save_tensors, load_tensors)]
)
def test_of_two_writers_at_once_the_last_to_finish_wins(tmp_path, monkeypatch, write, read):
    path, replace = tmp_path / "file", os.replace

    def overtaken(part, target):
        monkeypatch.setattr(os, "replace", replace)
        other = Thread(target=write, args=(path, "second"))
        other.start(), other.join()
        assert read(path) == "second"
        replace(part, target)

    monkeypatch.setattr(os, "replace", overtaken)
    write(path, "first")
    assert read(path) == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_removed_by_the_next_one_and_that_of_a_living_one_stays(
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
        other.start(), other.join()
        assert path.read_text() == "another writer"
        assert part.exists()
        part.write_text("whole")
    assert path.read_text() == "whole"
    assert sorted(tmp_path.iterdir()) == sorted([path, others])


def test_a_spreadsheet_finds_no_formula_in_the_rows_of_a_study():
    rows = [
        {"proxy": "=cmd()", "value": -1.5, "@name": "'x"},
        {"proxy": "plain", "value": None, "@name": 2},
    ]
    assert format_csv(rows) == "proxy,value,'@name\r\n'=cmd(),-1.5,''x\r\nplain,,2\r\n"

"""Folders of runs, and files that are whole."""

import os
from pathlib import Path
from threading import Thread

import pytest

from untrained._files import free, write_whole
from untrained.training import _checkpoint


def test_a_free_folder_is_the_first_number_that_nobody_has(tmp_path):
    (tmp_path / "run-2").mkdir()
    assert free(tmp_path / "run") == tmp_path / "run-3"


@pytest.mark.parametrize(("write", "read"), [(write_whole, Path.read_text), (_checkpoint.save, _checkpoint.load)])
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

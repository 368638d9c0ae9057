"""Folders of runs."""

from untrained._files import free


def test_a_free_folder_is_the_first_number_that_nobody_has(tmp_path):
    (tmp_path / "run-2").mkdir()
    assert free(tmp_path / "run") == tmp_path / "run-3"

"""The default space of a search depends on the data, and the run folder holds its name."""

import pytest

from untrained import search
from untrained.cli.app import main
from untrained.config import SearchConfig
from untrained.data import SOURCES
from untrained.runs.folder import RunFolder
from untrained.workflows.search_setup import choose_space, prepare_search


@pytest.mark.parametrize(
    ("data", "space"),
    [
        ("digits", "nasbench201"),
        ("cifar10", "nasbench201"),
        ("folder:./photos", "convnet"),
        ("images:photos.csv", "convnet"),
        ("npz:mine.npz", "convnet"),
        ("csv:log.csv:label=click", "nasrec_small"),
        ("criteo:train.txt", "nasrec_small"),
        ("clicks", "nasrec_small"),
        ("clicks:rows=100", "nasrec_small"),
        ("no such data", "nasbench201"),
    ],
)
def test_the_default_space_suits_the_data(data, space):
    assert choose_space(data) == space


def test_all_data_of_the_user_have_a_space_of_their_own():
    for name, kind in SOURCES.items():
        assert (choose_space(f"{name}:./mine") != "nasbench201") == (
            kind.belongs_to_user or name == "clicks"
        )


def test_the_run_folder_holds_the_name_of_the_space(tmp_path):
    result = search(proxy="params", budget=1, workers=1, data="clicks:rows=200", run=tmp_path)
    assert result.run.config.space == "nasrec_small"
    assert RunFolder.read(tmp_path).config.space == "nasrec_small"
    assert "--space nasrec_small" in result.run.to_command()
    assert result.best.space == "nasrec_small"


def test_a_space_that_the_user_names_is_kept():
    config = SearchConfig("nasrec_small(blocks=1)", "params", data="clicks:rows=200")
    assert prepare_search(config).config.space == "nasrec_small(blocks=1)"


def test_the_help_names_the_default_spaces(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["untrained", "search", "--help"])
    with pytest.raises(SystemExit):
        main()
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "convnet on your own pictures, nasrec_small on tables" in text

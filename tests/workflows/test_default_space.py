"""The default space of a search depends on the data, and the run folder holds its name."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from untrained import search
from untrained.cli.app import main
from untrained.cli.terminal.data_card import show_card_summary
from untrained.config import SearchConfig
from untrained.data import SOURCES
from untrained.data.pictures.card import limit_input_size
from untrained.errors import UsageError
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


def write_numbers(folder: Path) -> str:
    """Write a table without identifiers, and return the data's name."""
    rows = [f"{i % 2},{i % 7}.5,{i % 5}.25" for i in range(100)]
    (folder / "numbers.csv").write_text("\n".join(["label,x,y", *rows]) + "\n")
    return f"csv:{folder / 'numbers.csv'}"


def test_auto_and_a_validation_are_about_the_space_of_a_table_of_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"data": write_numbers(tmp_path), "data_root": tmp_path}
    assert prepare_search(SearchConfig(proxy="params", **options)).config.space == "mlp"
    with pytest.raises(UsageError, match="untrained calibrate --space mlp "):
        prepare_search(SearchConfig(proxy="auto", **options))
    validated = SearchConfig(
        proxy="params", strategy="best_of_pool", validate="table:accuracy", **options
    )
    with pytest.raises(UsageError, match="there is no table of known results for mlp"):
        prepare_search(validated)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "annealing"}, "no strategy is called 'annealing'"),
        ({"proxy": "parms"}, "no proxy is called 'parms'"),
        ({"strategy": "random", "validate": "table:x"}, "--validate is for the strategies"),
    ],
)
def test_wrong_names_are_refused_before_a_table_is_read(tmp_path, options, message):
    config = SearchConfig(data=f"csv:{tmp_path / 'absent.csv'}", **options)
    with pytest.raises(UsageError, match=message):
        prepare_search(config)


def test_the_help_names_the_default_spaces(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["untrained", "search", "--help"])
    with pytest.raises(SystemExit):
        main()
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert (
        "convnet on your own pictures, mlp on tables without categorical columns, nasrec_small on"
        in text
    )


# ----------------------------------------------------------------------------------- input size


def write_pictures(folder: Path, side: int) -> str:
    """Write twelve pictures of two classes, twice as wide as high, and return the data's name."""
    for label in ("cat", "dog"):
        (folder / label).mkdir(parents=True)
        for number in range(6):
            image = Image.new("RGB", (2 * side, side), (number, 0, 0))
            image.save(folder / label / f"{number}.png")
    (folder / "cat" / "broken.png").write_bytes(b"no picture")
    return f"folder:{folder}"


def write_npz(path: Path, side: int) -> str:
    images = np.zeros((12, side, side, 3), dtype=np.uint8)
    np.savez(path, x=images, y=np.arange(12) % 2)
    return f"npz:{path}"


@pytest.mark.parametrize(("side", "input_size"), [(16, 32), (30, 32), (64, 64), (100, 96)])
def test_networks_of_the_default_space_see_the_proposed_size(tmp_path, side, input_size):
    names = [write_pictures(tmp_path / "mine", side), write_npz(tmp_path / "mine.npz", side)]
    for name in names:
        setup = prepare_search(SearchConfig(proxy="params", data=name, data_root=tmp_path))
        assert setup.source.task.input_shape == (3, input_size, input_size)
        # The default size of the space is not a setting of the run.
        assert setup.config.input_size == (None if input_size == 32 else input_size)


def test_a_size_or_a_space_of_the_user_decides(tmp_path):
    name = write_pictures(tmp_path / "mine", 64)
    own_size = prepare_search(SearchConfig(proxy="params", data=name, input_size=48))
    assert own_size.source.task.input_shape == (3, 48, 48)
    own_space = prepare_search(SearchConfig("convnet", "params", data=name))
    assert own_space.source.task.input_shape == (3, 32, 32)


def test_many_large_pictures_are_proposed_smaller():
    """3 x 224^2 bytes each: 28,532 pictures fit into 4 GiB, 28,533 do not."""
    most = 2**32 // (3 * 224**2)
    assert limit_input_size(224, most) == 224
    assert limit_input_size(224, most + 1) == 192
    assert limit_input_size(224, 10**9) == 32
    assert limit_input_size(48, 100) == 48


def test_the_size_of_arrays_is_said_in_one_line(tmp_path, capsys):
    source = prepare_search(
        SearchConfig(proxy="params", data=write_npz(tmp_path / "mine.npz", 64))
    ).source
    show_card_summary(source)
    assert capsys.readouterr().err == "network input 64x64; --input-size changes it\n"

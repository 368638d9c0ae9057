"""`untrained data card` for images, and a search on images of the user."""

import json

import pytest

from tests.data.pictures import write_bad_files, write_good_images
from untrained.config import SearchConfig
from untrained.runs.folder import choose_default_folder

SEARCH = "search --space ./mine.py:mynet --proxy params --data folder:photos --data-root root --budget 2 --run run".split()


@pytest.fixture
def photos(project):
    """Two classes of images, and files with defects; returns the expected problem of each file."""
    write_good_images(project / "photos", {"cats": 10, "dogs": 10})
    return write_bad_files(project / "photos" / "dogs")


def test_the_card_lists_every_problem(run_cli, photos):
    code, out, err = run_cli("data", "card", "folder:photos", "--data-root", "root")
    assert code == 0
    assert out.startswith("folder:photos: 24 pictures in 2 classes: ")
    assert "--input-size 32 (the median shorter side is 32 pixels)" in out
    for name, reason in photos.items():
        assert f"  dogs/{name}: {reason}" in out or name == "whole.png"
    assert f"{out.count('  dogs/')} problems:" in out
    assert "reading pictures" in err


def test_the_card_as_json(run_cli, photos):
    code, out, err = run_cli(
        "data", "card", "folder:photos", "--input-size", "48", "--data-root", "root", "--json"
    )
    card = json.loads(out)
    assert (code, err) == (0, "")
    assert (card["classes"], card["network_size"]) == ({"cats": 10, "dogs": 14}, [48, 48])
    assert ["dogs/zero.png", "zero bytes"] in card["problems"]


def test_a_search_prints_a_summary_of_the_card(run_cli, project, photos):
    code, out, err = run_cli(*SEARCH)
    assert code == 0
    assert "folder:photos: 24 pictures in 2 classes" in err
    assert err.count("  dogs/") == 3
    assert "more: `untrained data card DATA` shows them all" in err
    assert "24 pictures" not in out
    assert json.loads((project / "run" / "run.json").read_text())["config"]["input_size"] is None


def test_the_name_of_a_run_folder_contains_the_input_size():
    folders = {
        choose_default_folder(SearchConfig("s", "p", "r", "d", input_size=size)).name
        for size in (None, 64)
    }
    assert folders == {"s-p-r-d", "s-p-r-d-input64"}


def test_the_input_size_identifies_a_run(run_cli, project, photos):
    # A convolution with a kernel of 3 maps 12 x 12 pixels to 10 x 10.
    source = (project / "mine.py").read_text()
    (project / "mine.py").write_text(source.replace("width * 36", "width * 100"))
    code, out, err = run_cli(*SEARCH, "--input-size", "12", "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "")
    assert {row["task"] for row in rows} == {"folder:photos:3x12x12:2:cross_entropy"}
    page = (project / "run" / "report.html").read_text()
    assert "--input-size 12" in page
    assert "input size" in page
    code, _, err = run_cli(*SEARCH)
    assert code == 2
    assert "holds another run, with input_size 12 (now None)" in err

"""`untrained data card`, and a search on pictures of one's own."""

import json

import pytest

from tests.data.pictures import write_bad, write_good
from untrained.strategies._run import Settings

SEARCH = (
    "search --space ./mine.py:mynet --proxy params --data folder:photos --data-root root --budget 2 --run run".split()
)


@pytest.fixture
def photos(project):
    write_good(project / "photos", {"cats": 10, "dogs": 10})
    return write_bad(project / "photos" / "dogs")


def test_the_card_is_printed_with_every_problem(untrained_, photos):
    code, out, err = untrained_("data", "card", "folder:photos", "--data-root", "root")
    assert code == 0
    assert out.startswith("folder:photos: 24 pictures in 2 classes: ")
    assert "--input-size 32 (shorter sides have 32 pixels in the middle)" in out
    for name, reason in photos.items():
        assert f"  dogs/{name}: {reason}" in out or name == "whole.png"
    assert f"{out.count('  dogs/')} to look at:" in out
    assert "reading pictures" in err


def test_the_card_as_a_document(untrained_, photos):
    code, out, err = untrained_("data", "card", "folder:photos", "--input-size", "48", "--data-root", "root", "--json")
    card = json.loads(out)
    assert (code, err) == (0, "")
    assert (card["classes"], card["shown"]) == ({"cats": 10, "dogs": 14}, [48, 48])
    assert ["dogs/zero.png", "zero bytes"] in card["problems"]


def test_a_search_shows_the_card_shortly_and_looks_at_the_wanted_size(untrained_, project, photos):
    code, out, err = untrained_(*SEARCH)
    assert code == 0
    assert "folder:photos: 24 pictures in 2 classes" in err
    assert err.count("  dogs/") == 3
    assert "more: `untrained data card DATA` shows them all" in err
    assert "24 pictures" not in out
    assert json.loads((project / "run" / "run.json").read_text())["settings"]["input_size"] is None


def test_the_input_size_is_part_of_the_name_of_a_run():
    folders = {Settings("s", "p", "r", "d", 0, 1, "cpu", input_size=size).default_folder().name for size in (None, 64)}
    assert folders == {"s-p-r-d", "s-p-r-d-input64"}


def test_the_input_size_is_part_of_what_is_asked(untrained_, project, photos):
    (project / "mine.py").write_text((project / "mine.py").read_text().replace("width * 36", "width * 100"))
    code, out, err = untrained_(*SEARCH, "--input-size", "12", "--json")  # a kernel of 3 leaves 10 x 10
    rows = json.loads(out)
    assert (code, err) == (0, "")
    assert {row["task"] for row in rows} == {"folder:photos:3x12x12:2:cross_entropy"}
    page = (project / "run" / "report.html").read_text()
    assert "--input-size 12" in page
    assert "input size" in page
    code, _, err = untrained_(*SEARCH)
    assert code == 2
    assert "holds another run, with input_size 12 (now None)" in err

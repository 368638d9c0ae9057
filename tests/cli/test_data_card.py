"""`untrained data card`, and tables on the command line: the page on them works as written."""

import json
import re
import shlex
from dataclasses import asdict

import pytest

from tests.cli.helpers import wrong
from tests.test_documents import blocks
from untrained.data import load
from untrained.types import Task

NET = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))\n"


@pytest.fixture
def table(project, monkeypatch):
    """The file of the page: click, user, item, price, shown and hour; line 4 is bad."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    rows = [f"{i % 3 // 2},u{i % 9},{i % 50},{i / 7:.2f},{i * i % 97},{i // 10}" for i in range(300)]
    rows[2] = "1,u1"
    (project / "clicks.csv").write_text("\n".join(["click,user,item,price,shown,hour", *rows]))
    (project / "my_net.py").write_text(NET)
    return project


def test_the_page_on_tables_works_as_written(untrained_, table):
    commands = blocks("tables.md", "")[0].splitlines()
    assert {command.split()[1] for command in commands} == {"data", "search", "score", "train"}
    for command in commands:
        code, out, err = untrained_(*shlex.split(command)[1:])
        assert code == 0, err
        assert out


def test_the_python_of_the_page_works_as_written(untrained_, table, capsys):
    exec(blocks("tables.md", "python")[0], {})
    assert "planted" in capsys.readouterr().out


def test_the_options_of_the_page_are_those_there_are(table):
    from dataclasses import fields

    from tests.test_documents import DOCS
    from untrained.data._options import Options

    page = (DOCS / "tables.md").read_text()
    assert {field.name for field in fields(Options)} == set(re.findall(r"^\| `(\w+)=", page, flags=re.MULTILINE))


def test_the_card_says_what_was_found(untrained_, table):
    code, out, err = untrained_("data", "card", "csv:clicks.csv", "--label", "click")
    assert (code, err) == (0, "")
    for line in ("csv:clicks.csv", "bad rows: 1, left out", "line 4: 2 fields where 6 are wanted: '1,u1'"):
        assert line in out
    document = json.loads(untrained_("data", "card", "csv:clicks.csv", "--label", "click", "--json")[1])
    card = load("csv:clicks.csv?label=click", Task("any", (1,), 1)).card()
    assert document == json.loads(json.dumps(asdict(card)))
    assert document["rows"][0].keys() == {"column", "kind", "distinct", "missing", "treatment"}


def test_a_label_is_added_to_what_is_said(untrained_, table):
    said = json.loads(untrained_("data", "card", "csv:clicks.csv?drop=user,item", "--label", "click", "--json")[1])
    assert {row["column"] for row in said["rows"]} == {"price", "shown", "hour"}


def test_a_table_is_calibrated_on_by_its_label_and_the_search_that_follows_finds_it(untrained_, table):
    effort = "--proxy params --trainings 4 --epochs 1 --samples 60 --workers 1 --data csv:clicks.csv --label click"
    code, out, err = untrained_("calibrate", "--space", "nasrec_small(blocks=1)", *effort.split())
    assert code == 0, err
    following = shlex.split(" ".join(out.split()).partition(" untrained search ")[2].partition(" report: ")[0])
    assert "--space 'nasrec_small(blocks=1)'" in out
    assert following[following.index("--data") + 1] == "csv:clicks.csv?label=click"
    code, _, err = untrained_("search", *following, "--budget", "1", "--no-confirm", "--workers", "1")
    assert code == 0, err


WRONG = {
    "data card csv:clicks.csv --label clack": "no column is called 'clack'; did you mean click?",
    "data card clicks --label click": "names a column of a table, csv:PATH or parquet:PATH, and clicks is none",
    "data card clicks.csv --label click": "clicks.csv is a path; say what lies there: csv:clicks.csv",
    "search --data clicks.csv --label click": "clicks.csv is a path; say what lies there: csv:clicks.csv",
    "search --data digits --label click": "--label click names a column of a table",
    "score my_net.py:make --label click": "--label click names a column of a table",
    "train my_net.py:make --label click": "--label click names a column of a table",
    "calibrate --label click": "--label click names a column of a table",
    "calibrate --data csv:clicks.csv --label clack": "no column is called 'clack'; did you mean click?",
    "export my_net.py:make --out out --label click": "--label click names a column of a table",
    "search --space nasrec_small --data csv:clicks.csv --label click --max-params 2X": "'2X' is not a max params",
    "data card noise": "noise has no card",
    "data card csv:none.csv": "there is no file none.csv",
    "data card csv:.": "is a folder",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_request_is_answered_in_one_line(untrained_, table, line):
    assert WRONG[line] in wrong(untrained_(*line.split()))

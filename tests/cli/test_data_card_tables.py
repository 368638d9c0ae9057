"""`untrained data card` for tables; the commands and the code of docs/how-to/tables.md work."""

import json
import re
import shlex
from dataclasses import asdict

import pytest

from tests.cli.helpers import read_usage_error
from tests.test_documents import read_code_blocks
from untrained.data import load_data
from untrained.types import Task

NET = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))\n"


@pytest.fixture
def table(project, monkeypatch):
    """The table of docs/how-to/tables.md: click, user, item, price, shown and hour; line 4 is broken."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    rows = [
        f"{i % 3 // 2},u{i % 9},{i % 50},{i / 7:.2f},{i * i % 97},{i // 10}" for i in range(300)
    ]
    rows[2] = "1,u1"
    (project / "clicks.csv").write_text("\n".join(["click,user,item,price,shown,hour", *rows]))
    (project / "my_net.py").write_text(NET)
    return project


def test_the_commands_of_the_page_on_tables_work(run_cli, table):
    commands = read_code_blocks("how-to/tables.md", "")[1].splitlines()
    assert {command.split()[1] for command in commands} == {"data", "search", "score", "train"}
    for command in commands:
        code, out, err = run_cli(*shlex.split(command)[1:])
        assert code == 0, err
        assert out


def test_the_python_code_of_the_page_on_tables_works(run_cli, table, capsys):
    exec(read_code_blocks("how-to/tables.md", "python")[0], {})
    assert "planted" in capsys.readouterr().out


def test_the_page_on_tables_documents_all_options(table):
    from dataclasses import fields

    from tests.test_documents import DOCS
    from untrained.data.tables.options import TableOptions

    page = (DOCS / "how-to/tables.md").read_text()
    assert {field.name for field in fields(TableOptions)} == set(
        re.findall(r"^\| `(\w+)=", page, flags=re.MULTILINE)
    )


def test_the_card_describes_the_table(run_cli, table):
    code, out, err = run_cli("data", "card", "csv:clicks.csv", "--label", "click")
    assert (code, err) == (0, "")
    for line in (
        "csv:clicks.csv",
        "bad rows: 1, left out",
        "line 4: 2 fields where 6 are expected: '1,u1'",
    ):
        assert line in out
    document = json.loads(
        run_cli("data", "card", "csv:clicks.csv", "--label", "click", "--json")[1]
    )
    card = load_data("csv:clicks.csv?label=click", Task("any", (1,), 1)).card()
    assert document == json.loads(json.dumps(asdict(card)))
    assert document["rows"][0].keys() == {"column", "kind", "distinct", "missing", "treatment"}


def test_the_label_is_added_to_other_options_of_a_table(run_cli, table):
    card = json.loads(
        run_cli("data", "card", "csv:clicks.csv?drop=user,item", "--label", "click", "--json")[1]
    )
    assert {row["column"] for row in card["rows"]} == {"price", "shown", "hour"}


def test_a_calibration_on_a_table_recommends_a_search_that_works(run_cli, table):
    effort = "--proxy params --trainings 4 --epochs 1 --samples 60 --workers 1 --data csv:clicks.csv --label click"
    code, out, err = run_cli("calibrate", "--space", "nasrec_small(blocks=1)", *effort.split())
    assert code == 0, err
    recommended = shlex.split(
        " ".join(out.split()).partition(" untrained search ")[2].partition(" report: ")[0]
    )
    assert "--space 'nasrec_small(blocks=1)'" in out
    assert recommended[recommended.index("--data") + 1] == "csv:clicks.csv?label=click"
    code, _, err = run_cli(
        "search", *recommended, "--budget", "1", "--no-confirm", "--workers", "1"
    )
    assert code == 0, err


WRONG = {
    "data card csv:clicks.csv --label clack": "no column is called 'clack'; did you mean click?",
    "data card clicks --label click": "and clicks is not a table; write csv:PATH, parquet:PATH or images:PATH.csv",
    "data card clicks.csv --label click": "clicks.csv is a path; write its kind before it: csv:clicks.csv",
    "search --data clicks.csv --label click": "clicks.csv is a path; write its kind before it: csv:clicks.csv",
    "search --data digits --label click": "--label click names a column of a table",
    "score my_net.py:make --label click": "--label click names a column of a table",
    "train my_net.py:make --label click": "--label click names a column of a table",
    "calibrate --label click": "--label click names a column of a table",
    "calibrate --data csv:clicks.csv --label clack": "no column is called 'clack'; did you mean click?",
    "export my_net.py:make --out out --label click": "--label click names a column of a table",
    "search --space nasrec_small --data csv:clicks.csv --label click --max-params 2X": "--max-params cannot be '2X'",
    "data card noise": "noise has no card",
    "data card csv:none.csv": "there is no file none.csv",
    "data card csv:.": "is a folder",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_is_refused_in_one_line(run_cli, table, line):
    assert WRONG[line] in read_usage_error(run_cli(*line.split()))

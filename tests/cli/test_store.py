"""`untrained store`: info, export, merge."""

import json

import pandas as pd
import pytest

from tests.cli.helpers import SEARCH, read_usage_error
from untrained.runs.store import Store

SMALLER_SEARCH = (
    "search --space ./mine.py:mynet --data noise --proxy params --run less --budget 2".split()
)


@pytest.fixture
def runs(run_cli):
    """Two runs of one space: with three architectures, and with the first two of them."""
    assert run_cli(*SEARCH, "--proxy", "params")[0] == 0
    assert run_cli(*SMALLER_SEARCH)[0] == 0
    return run_cli


def test_info_prints_what_a_store_contains(runs, project):
    code, out, err = runs("store", "info", "run")
    assert (code, err) == (0, "")
    for line in (
        "architectures  3",
        "records  6",
        "measures  params@1 3, flops@1 3",
        "failures  none",
    ):
        assert f"{line}\n" in out
    facts = json.loads(runs("store", "info", "run/records.sqlite", "--json")[1])
    assert facts["store"] == "run/records.sqlite"
    assert facts["bytes"] == (project / "run" / "records.sqlite").stat().st_size
    assert (facts["measures"], facts["failures"]) == ({"params@1": 3, "flops@1": 3}, {})


@pytest.mark.parametrize("name", ["all.csv", "all.parquet"])
def test_export_writes_a_table(runs, project, name):
    assert runs("store", "export", "run", name) == (0, f"6 records: {name}\n", "")
    frame = pd.read_csv(name) if name.endswith("csv") else pd.read_parquet(name)
    with Store(project / "run" / "records.sqlite") as store:
        assert [*zip(frame.arch, frame.proxy, frame.value, strict=True)] == [
            (str(r.arch), r.proxy, r.value) for r in store
        ]
    assert json.loads(runs("store", "export", "run", name, "--json")[1]) == {
        "rows": 6,
        "file": name,
    }


def test_merge_adds_missing_records(runs):
    assert runs("store", "merge", "less", "run")[:2] == (0, "2 records added to less\n")
    assert runs("store", "merge", "less", "run")[:2] == (0, "0 records added to less\n")
    assert json.loads(runs("store", "merge", "run", "less", "--json")[1]) == {
        "added": 0,
        "store": "run",
    }
    assert json.loads(runs("store", "info", "less", "--json")[1])["records"] == 6


def test_a_search_resumes_from_a_merged_store(runs):
    """Architectures of the other run are not measured again."""
    runs("store", "merge", "less", "run")
    rows = json.loads(runs(*SMALLER_SEARCH[:-1], "3", "--json")[1])
    others = json.loads(runs(*SEARCH, "--proxy", "params", "--json")[1])
    assert [row["measure_seconds"] for row in rows[4:]] == [
        row["measure_seconds"] for row in others[4:]
    ]


WRONG = {
    "store info absent": "there is no store at absent; a run folder holds one called records.sqlite",
    "store info .": "there is no store at records.sqlite",
    "store info mine.py": "mine.py cannot be used as a store: file is not a database",
    "store export absent out.csv": "there is no store at absent",
    "store export run out.txt": "out.txt has an unknown format; use a name that ends in .parquet or .csv",
    "store export run mine.py/out.csv": "mine.py/out.csv cannot be written",
    "store merge run run": "run is the store to merge into; name a different one",
    "store merge run absent": "there is no store at absent",
    "store merge absent run": "there is no store at absent",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_is_refused_in_one_line(runs, project, line):
    before = {path.name for path in project.iterdir()}
    assert WRONG[line] in read_usage_error(runs(*line.split()))
    assert {path.name for path in project.iterdir()} == before


@pytest.mark.parametrize(
    "line", ["store", "store info", "store export run", "store merge run", "store inf run"]
)
def test_an_incomplete_command_exits_with_2(run_cli, line):
    code, _, err = run_cli(*line.split())
    assert code == 2
    assert "Traceback" not in err

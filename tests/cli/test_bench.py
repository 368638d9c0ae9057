"""`untrained bench` with a table of the user: the file, the terminal and JSON."""

import csv
import json
from pathlib import Path

import pytest

COMMAND = ("bench", "--space", "./mine.py:mynet", "--table", "results.csv", "--run", "run")
OPTIONS = ("--proxy", "naswot,./mine.py:spread", "--data", "noise", "--workers", "1")
RESULTS = """arch,accuracy,latency_ms
width=2,71.5,1.0
width=3,73.0,1.5
width=4,76.5,2.0
width=2,72.5,1.1
width=3,74.0,1.4
width=4,74.5,2.1
"""


@pytest.fixture
def results(project: Path) -> Path:
    path = project / "results.csv"
    path.write_text(RESULTS)
    return path


def test_a_table_of_the_user_is_compared_and_reported(run_cli, project, results):
    code, out, _ = run_cli(*COMMAND, *OPTIONS)
    assert code == 0
    assert "Rank correlation with accuracy, results.csv (3 architectures)" in out
    (heading,) = [line for line in out.splitlines() if "Spearman" in line]
    columns = [
        "proxy",
        "Spearman",
        "95 %",
        "equal size",
        "top 5 %",
        "regret",
        "n",
        "failed",
        "cost",
    ]
    assert [word.strip() for word in heading.split("  ") if word.strip()] == columns
    assert "two trainings of the same 3 networks have a rank correlation of 1.000" in out
    assert "The table contains 3 architectures and 2 metrics." in out
    page = (project / "run" / "report.html").read_text()
    assert "Noise ceiling: two trainings of the same 3 networks" in page
    facts = json.loads((project / "run" / "benchmark.json").read_text())
    assert facts["truth"] == [72, 73.5, 75.5]
    assert "--table results.csv" in facts["command"]


def test_a_narrow_terminal_shows_fewer_columns(run_cli, results, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run_cli(*COMMAND, *OPTIONS)
    (heading,) = [line for line in out.splitlines() if "Spearman" in line]
    columns = ["proxy", "Spearman", "95 %", "equal size", "regret", "failed"]
    assert [word.strip() for word in heading.split("  ") if word.strip()] == columns
    assert "\u2026" not in out


def test_json_and_csv_contain_all_statistics(run_cli, project, results):
    code, out, _ = run_cli(*COMMAND, *OPTIONS, "--metric", "latency_ms", "--json")
    assert code == 0
    rows = json.loads(out)
    names = {"ndcg", "top_5_overlap", "regret_at_10", "size_controlled", "size_controlled_low"}
    assert all(names <= set(row) for row in rows)
    by_proxy = {row["proxy"]: row for row in rows}
    # Lower latency is better, and larger networks are slower.
    assert by_proxy["params"]["spearman"] == pytest.approx(-1)
    # Three architectures are too few to hold two sizes fixed.
    assert by_proxy["spread"]["size_controlled"] is None
    with (project / "run" / "benchmark.csv").open() as file:
        assert names <= set(next(csv.reader(file)))

"""`untrained bench` with a table of the user and with our own: the file, the terminal and JSON."""

import csv
import json
import socket
from pathlib import Path

import pytest

from untrained.proxies.consensus import MEMBERS
from untrained.runs.store import Store

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


def test_without_options_our_own_table_is_used_offline(run_cli, project, monkeypatch):
    """On a machine without tables, data and network."""

    def refuse_connection(*args: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse_connection)
    monkeypatch.setenv("UNTRAINED_DATA", str(project / "nothing"))
    code, out, _ = run_cli("bench", "--samples", "12", "--workers", "1", "--json")
    assert code == 0
    rows = {row["proxy"]: row for row in json.loads(out)}
    assert {"consensus", "dextr", *MEMBERS, "random"} <= set(rows)
    assert all(row["n"] == 12 for row in rows.values())
    facts = json.loads(next(project.glob("runs/*/benchmark.json")).read_text())
    assert facts["space"] == "convnet"
    assert facts["settings"]["data"] == "digits"
    notes = " ".join(facts["notes"])
    assert "It comes with untrained: 10 epochs of SGD on 4,000 pictures of CIFAR-10" in notes
    assert "Networks see digits, since cifar10 is not under the data root." in notes
    with Store(next(project.glob("runs/*/records.sqlite"))) as store:
        assert {record.task.input_shape for record in store} == {(3, 16, 16)}


def test_the_table_of_transformers_is_in_the_package_too(run_cli, project, monkeypatch):
    monkeypatch.setenv("UNTRAINED_DATA", str(project / "nothing"))
    options = ("--space", "vit", "--samples", "5", "--proxy", "naswot", "--workers", "1")
    code, out, _ = run_cli("bench", *options)
    assert code == 0
    words = " ".join(out.split())
    assert "validation accuracy on cifar10 after 10 epochs, vit (5 architectures)" in words
    assert "10 epochs of AdamW on 4,000 pictures of CIFAR-10 at 16 pixels" in words

"""`reproduce`: what it saves and lists, and how it answers wrong arguments."""

import json
import sys
from dataclasses import replace

import pytest
import torch

from tests.conftest import find_shared
from tests.docstring_examples import run_examples
from untrained.benchmarks import import_benchmark
from untrained.cli.app import app, main
from untrained.data import TRAIN, DataSource, ImagePart
from untrained.errors import UsageError
from untrained.papers import (
    EXPERIMENTS,
    ReproductionResult,
    list_experiments,
    reproduce,
    sigeo_warmup,
)
from untrained.reports.reproduction_result import Curve, Plot, TableLine
from untrained.training.warm_up import WarmUp
from untrained.types import Task

RESULT = ReproductionResult(
    experiment="dextr-table-4",
    paper="Dextr (Asthana et al.)",
    title="Two rows",
    about="Table 4: two rows.",
    unit="Spearman",
    lines=(
        TableLine("NB201-cf10, dextr", 0.90, 0.915, 0.90, 0.93, 0.004),
        TableLine("NB201-cf10, zen", 0.33, 0.21, 0.15, 0.27, note="3 disconnected"),
        TableLine("NB201-cf10, zico", 0.76, None, note="not defined on this sample"),
        TableLine("NB201-cf10, mine", None, 0.5),
    ),
    deviations=("Ours is a sample.",),
    plots=(Plot("A picture", "x", "y", (Curve("a", (1.0, 2.0), (3.0, 4.0)),)),),
    command="untrained reproduce dextr-table-4",
    settings={"samples": "12"},
    seconds=3.5,
    made_on="2026-01-02 03:04 UTC",
)


def test_result_is_read_as_it_was_saved(run_folder):
    result = replace(RESULT, folder=str(run_folder)).save()
    assert ReproductionResult.read(run_folder) == result
    head, *rows = (run_folder / "reproduction.csv").read_text().splitlines()
    assert head == "what,published,ours,low,high,spread,note,difference,verdict"
    assert rows[1].startswith('"NB201-cf10, zen",0.33,0.21,0.15,0.27,,3 disconnected,-0.12')
    assert rows[1].endswith(",below")
    assert not list(run_folder.glob("*.part"))


@pytest.mark.parametrize(
    ("published", "ours", "interval", "better", "verdict"),
    [
        (None, 0.9, (0.8, 1.0), "higher", None),
        (0.9, None, (None, None), "higher", "no value"),
        (0.9, 0.9, (None, None), "higher", "at or above"),
        (0.9, 0.95, (0.94, 0.96), "higher", "at or above"),
        (0.9, 0.85, (0.8, 0.91), "higher", "within"),
        (0.9, 0.85, (0.8, 0.89), "higher", "below"),
        (0.9, 0.85, (None, None), None, "below"),
        # A lower error is better.
        (7.0, 6.5, (6.4, 6.6), "lower", "at or above"),
        (7.0, 7.5, (6.9, 8.1), "lower", "within"),
        (7.0, 7.5, (7.1, 7.9), "lower", "below"),
        # A number of parameters has no better side.
        (6.6, 6.3, (None, None), "", "outside"),
        (6.6, 6.6, (None, None), "", "within"),
        (6.6, 6.3, (6.0, 6.7), "", "within"),
    ],
)
def test_verdict_compares_our_number_with_the_published_one(
    published, ours, interval, better, verdict
):
    line = TableLine("a number", published, ours, *interval, better=better)
    assert line.verdict == verdict


def test_worst_line_differs_most():
    assert RESULT.worst_line == RESULT.lines[1]
    assert replace(RESULT, lines=RESULT.lines[2:]).worst_line is None


def test_format_lines():
    assert RESULT.format_lines() == [
        ("NB201-cf10, dextr", "0.900", "0.915", "0.900 to 0.930", "0.004", "+0.015", ""),
        (
            "NB201-cf10, zen",
            "0.330",
            "0.210",
            "0.150 to 0.270",
            "",
            "\u22120.120",
            "3 disconnected",
        ),
        ("NB201-cf10, zico", "0.760", "", "", "", "", "not defined on this sample"),
        ("NB201-cf10, mine", "", "0.500", "", "", "", ""),
    ]


def test_markdown_table(run_folder):
    """Empty columns are left out, and a cell of NAS-Bench-201 does not break its row."""
    replace(RESULT, folder=str(run_folder)).save()
    whole = (run_folder / "reproduction.md").read_text()
    assert whole.startswith(
        "# Dextr (Asthana et al.): Two rows\n\n```\nuntrained reproduce dextr-table-4\n```\n"
    )
    assert "\n| what | paper | ours | 95 % | \u00b1 seeds | difference | note |\n|" in whole
    assert (
        "\n| NB201-cf10, zen | 0.330 | 0.210 | 0.150 to 0.270 |  | \u22120.120 | 3 disconnected |\n"
        in whole
    )
    assert whole.endswith("\n\n- Ours is a sample.\n")
    few = replace(RESULT, lines=(TableLine("mine", None, 0.5, note="|none~0|"),)).to_markdown()
    assert "| what | ours | note |\n| --- | --- | --- |\n| mine | 0.500 | \\|none~0\\| |\n" in few


def test_damaged_result_file_is_refused_in_one_line(run_folder):
    replace(RESULT, folder=str(run_folder)).save()
    (run_folder / "reproduction.json").write_text('{"lines": [{"nonsense": 1}]}')
    with pytest.raises(
        UsageError, match=r"reproduction.json cannot be read: .*repeat the command that wrote it"
    ) as refused:
        ReproductionResult.read(run_folder)
    assert "\n" not in str(refused.value)


def test_list_experiments_shows_last_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {row["state"] for row in list_experiments()} == {"never run"}
    names = [row["name"] for row in list_experiments()]
    assert sorted(names) == sorted(EXPERIMENTS)
    assert names.index("hnas-table-2") < names.index("hnas-table-10")
    replace(RESULT, folder="runs/reproduce-dextr-table-4").save()
    row = next(row for row in list_experiments() if row["name"] == "dextr-table-4")
    assert row["state"] == "largest difference: -0.12 (NB201-cf10, zen)"
    assert (row["made_on"], row["largest_difference"]) == (RESULT.made_on, pytest.approx(-0.12))
    (tmp_path / "runs/reproduce-dextr-table-4/reproduction.json").write_text("{")
    assert "cannot be read" in next(
        row["state"] for row in list_experiments() if row["name"] == "dextr-table-4"
    )


def test_missing_table_is_reported_before_anything_is_measured(tmp_path, run_folder):
    with pytest.raises(UsageError, match="untrained data import nasbench201 PATH"):
        reproduce("dextr-table-4", data_root=tmp_path, run=run_folder)
    assert not run_folder.exists()


@pytest.mark.data
def test_all_tables_are_checked_first(small, tmp_path, run_folder):
    """The second of two tables is missing: nothing is measured on the first."""
    import_benchmark("nasbench1shot1_s1", find_shared("data"), tmp_path)
    with pytest.raises(UsageError, match="the table of nasbench1shot1_s2 is not at"):
        reproduce("nasi-figure-3", samples=3, batch=2, data_root=tmp_path, run=run_folder)
    assert not run_folder.exists()


@pytest.mark.data
def test_the_example_in_the_docstring_is_right(small, data_root, monkeypatch):
    monkeypatch.setenv("UNTRAINED_DATA", str(data_root))
    run_examples(reproduce)


def test_unknown_experiment_lists_similar_names():
    with pytest.raises(
        UsageError, match="no table or figure is called 'dextr-tabel-4'; did you mean dextr-table-4"
    ):
        reproduce("dextr-tabel-4")


@pytest.mark.parametrize("arguments", [{"samples": 2}, {"seeds": 0}, {"batch": 0}])
def test_impossible_counts_are_refused(arguments):
    with pytest.raises(
        UsageError, match=f"{next(iter(arguments))} is .*; write a whole number from"
    ):
        reproduce("dextr-table-4", **arguments)


# --- the commands ---


def run_command(*words):
    with pytest.raises(SystemExit) as left:
        app(list(words))
    return left.value.code


def test_command_without_name_lists_experiments(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command("reproduce") == 0
    shown = capsys.readouterr().out
    assert "dextr-table-1" in shown
    assert "never run" in shown
    assert run_command("list", "papers", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"name", "paper", "title", "about", "needs", "state"} <= rows[0].keys()
    assert run_command("list", "papers") == 0
    assert "needs: nasbench201" in capsys.readouterr().out


@pytest.mark.data
def test_command_prints_table_page_and_json(small, data_root, run_folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    options = [
        "--samples",
        "4",
        "--batch",
        "2",
        "--run",
        str(run_folder),
        "--data-root",
        str(data_root),
    ]
    assert run_command("reproduce", "dextr-table-5", *options) == 0
    shown = capsys.readouterr().out
    assert "99.18" in shown
    assert "NB101: our table contains 5,621 of 423,624 architectures." in shown
    assert {path.name for path in run_folder.iterdir()} >= {
        "report.html",
        "reproduction.csv",
        "reproduction.json",
    }
    assert run_command("reproduce", "dextr-table-5", *options, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["lines"][0].keys() >= {
        "what",
        "published",
        "ours",
        "low",
        "high",
        "spread",
        "difference",
    }
    assert document["deviations"]
    assert run_command("report", str(run_folder)) == 0


def test_wrong_name_is_reported_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["untrained", "reproduce", "dextr"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capsys.readouterr().err.strip().count("\n") == 0


@pytest.mark.parametrize(
    ("images", "steps", "sentence"),
    [
        # Shares of 45,000 images in batches of 128.
        (45_000, (35, 70, 140), ""),
        # The same numbers of images, if there are fewer.
        (30_000, (35, 70, 140), "30,000 images"),
        # 40 % of 45,000 are more than there are, so the shares are 100, 200 and 400 images.
        (1_000, (1, 1, 3), "1,000 images"),
    ],
)
def test_warm_up_levels_are_shares_of_the_whole_data_set_if_possible(images, steps, sentence):
    picture = torch.zeros(1, 2, 2, 3, dtype=torch.uint8).expand(images, -1, -1, -1)
    part = ImagePart(picture, torch.zeros(images, dtype=torch.long), torch.zeros(3), torch.ones(3))
    source = DataSource(
        Task("cifar10", (3, 2, 2), 10), lambda n, rng: next(part.batches(n)), lambda: {TRAIN: part}
    )
    arguments = [
        WarmUp.parse(sigeo_warmup.format_warm_up(level, images, None), source)
        for level in sigeo_warmup.LEVELS[1:]
    ]
    assert [warm_up.steps for warm_up in arguments] == list(steps)
    assert sentence in sigeo_warmup.describe_levels(images)
    trial = WarmUp.parse(sigeo_warmup.format_warm_up(40, images, 16), source)
    assert (trial.batch_size, trial.steps) == (16, steps[-1])

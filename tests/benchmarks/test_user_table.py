"""Tables of the user: CSV, parquet and DataFrames, seeds, metrics, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from untrained.benchmarks.user_table import read_user_table
from untrained.errors import UsageError

SPACE = "nats_size"
ROWS = [
    ("8:8:8:8:8", 70.0, 1.5, "first"),
    ("16:8:8:8:8", 72.0, 1.25, ""),
    ("8:8:8:8:8", 71.0, 1.0, "again"),
    ("64:64:64:64:64", 80.0, 0.5, ""),
]


@pytest.fixture(autouse=True)
def _work_in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make_frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["arch", "accuracy", "loss", "remark"])


def write_csv(text: str) -> str:
    Path("results.csv").write_text(text)
    return "results.csv"


def write_table(kind: str) -> object:
    """Write the example as a file of this kind, or return it as a DataFrame."""
    frame = make_frame()
    if kind == "frame":
        return frame
    path = Path(f"results.{kind}")
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "frame"])
def test_all_kinds_of_tables_have_the_same_content(kind):
    table, metric = read_user_table(write_table(kind), SPACE)
    assert metric.name == "accuracy"
    assert metric.higher_is_better
    assert metric.unit == "%"
    assert table.list_archs() == ("8:8:8:8:8", "16:8:8:8:8", "64:64:64:64:64")
    assert table.read_column("accuracy").tolist() == [70.5, 72.0, 80.0]
    assert table.read_column("loss").tolist() == [1.25, 1.25, 0.5]
    assert table.read_value("16:8:8:8:8", "accuracy") == 72
    assert table.read_values(["64:64:64:64:64", "8:16:8:8:8"], metric)[0] == 80
    assert np.isnan(table.read_values(["8:16:8:8:8"], metric)).all()
    assert table.about == "3 architectures and 2 metrics"
    names = [metric.name for metric in table.list_seed_metrics(metric)]
    assert names == ["accuracy_seed0", "accuracy_seed1"]
    assert table.read_column("accuracy_seed1")[0] == 71
    assert np.isnan(table.read_column("accuracy_seed1")[1:]).all()


def test_a_table_without_repeated_architectures_has_no_seeds():
    table, metric = read_user_table(make_frame()[1:], SPACE)
    assert table.list_seed_metrics(metric) == []
    assert [metric.name for metric in table.metrics] == ["accuracy", "loss"]


def test_another_metric_can_be_chosen_and_lower_losses_are_better():
    _, metric = read_user_table(make_frame(), SPACE, "loss")
    assert (metric.name, metric.higher_is_better, metric.unit) == ("loss", False, "")
    renamed = make_frame().rename(columns={"accuracy": "map_50"}).drop(columns="loss")
    _, metric = read_user_table(renamed, SPACE)
    assert (metric.name, metric.higher_is_better) == ("map_50", True)


def test_accuracies_up_to_one_have_no_unit():
    frame = make_frame()
    frame["accuracy"] /= 100
    _, metric = read_user_table(frame, SPACE)
    assert metric.unit == ""


def test_different_spellings_are_the_same_architecture():
    text = 'arch,accuracy\n"depth=1, width=4",1\n"width=4,depth=1",2\n'
    Path("mine.py").write_text(
        "import untrained\nfrom torch import nn\n\n"
        "@untrained.space\n"
        "def net(choose, task):\n"
        "    width = choose('depth', (1, 2)) * choose('width', (4, 8))\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(3072, width), nn.Linear(width, 10))\n"
    )
    text += '"depth=1,width=8",3\n"depth=2,width=8",4\n'
    table, metric = read_user_table(write_csv(text), "./mine.py:net")
    assert table.list_archs() == ("depth=1,width=4", "depth=1,width=8", "depth=2,width=8")
    assert table.read_column(metric).tolist() == [1.5, 3, 4]


def test_missing_values_of_other_metrics_are_left_out_of_their_means():
    frame = make_frame()
    frame.loc[0, "loss"] = np.nan
    frame.loc[3, "loss"] = np.inf
    table, _ = read_user_table(frame, SPACE)
    assert table.read_column("loss")[:2].tolist() == [1.0, 1.25]
    assert np.isnan(table.read_column("loss")[2])


GOOD = "8:8:8:8:8,1\n16:8:8:8:8,2\n64:64:64:64:64,3\n"
WRONG = {
    "network,accuracy\n" + GOOD: "results.csv has no column 'arch' with architectures; its columns are network, accuracy",
    "arch,remark\n8:8:8:8:8,good\n": "results.csv has no column of numbers; add one with results, such as accuracy",
    "arch,a,b\n8:8:8:8:8,1,2\n": "results.csv has no column 'accuracy'; choose a metric with --metric: a, b",
    "arch,accuracy\n" + GOOD + "8:8:8:8:9,4\n": "line 5 of results.csv: 8:8:8:8:9 is not in nats_size: ",
    "arch,accuracy\n" + GOOD + "hello,4\n": "line 5 of results.csv: hello is not in nats_size: ",
    "arch,accuracy\n" + GOOD + ",4\n": "line 5 of results.csv: arch is missing; add it, or remove the row",
    "arch,accuracy\n" + GOOD + "8:8:8:8:8,\n": "line 5 of results.csv: accuracy is missing or NaN; add it, or remove",
    "arch,accuracy\n" + GOOD + "8:8:8:8:8,nan\n": "line 5 of results.csv: accuracy is missing or NaN",
    "arch,accuracy\n" + GOOD + "8:8:8:8:8,-inf\n": "line 5 of results.csv: accuracy is infinite; correct it, or remove",
    "arch,accuracy\n" + GOOD + "8:8:8:8:8,good\n": "line 5 of results.csv: accuracy is 'good'; write a number",
    "arch,accuracy\n8:8:8:8:8,1\n8:8:8:8:8,2\n16:8:8:8:8,2\n": "results.csv has 2 architectures; a comparison needs at "
    "least 3",
    "arch,accuracy\n": "results.csv has 0 architectures; a comparison needs at least 3",
    "arch,accuracy\na=1,b=2,4\n": "results.csv, line 2: 3 fields where 2 are expected: 'a=1,b=2,4'; write architectures "
    "that contain commas in quotation marks",
    "arch,accuracy,accuracy\n": "results.csv has more than one column called accuracy; rename them",
    "arch,accuracy,accuracy_seed0\n8:8:8:8:8,1,1\n8:8:8:8:8,2,1\n16:8:8:8:8,1,1\n64:8:8:8:8,2,2\n": "results.csv has a "
    "column accuracy_seed0, which is reserved for the results of one seed; rename it",
    "": "results.csv is empty",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_wrong_tables_are_refused_in_one_line(text, message):
    with pytest.raises(UsageError) as caught:
        read_user_table(write_csv(text), SPACE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("los", "no metric of results.csv is called 'los'; did you mean loss?"),
        ("arch", "no metric of results.csv is called 'arch'"),
        ("remark", "line 2 of results.csv: remark is 'first'; write a number"),
    ],
)
def test_wrong_metrics_are_refused(metric, message):
    with pytest.raises(UsageError) as caught:
        read_user_table(write_table("csv"), SPACE, metric)
    assert message in str(caught.value)


def test_wrong_values_in_python_are_refused():
    with pytest.raises(UsageError, match=r"^table is \[1, 2\]; give a CSV or parquet file, or a"):
        read_user_table([1, 2], SPACE)
    frame = make_frame()
    frame.loc[2, "accuracy"] = np.nan
    with pytest.raises(UsageError, match=r"^row 3 of DataFrame: accuracy is missing or NaN"):
        read_user_table(frame, SPACE)
    frame["accuracy"] = [True, False, True, True]
    with pytest.raises(UsageError, match=r"^row 1 of DataFrame: accuracy is True; write a number"):
        read_user_table(frame, SPACE)
    twice = pd.concat([make_frame(), make_frame()], axis=1)
    with pytest.raises(
        UsageError, match=r"^DataFrame has more than one column called accuracy, ar"
    ):
        read_user_table(twice, SPACE)
    with pytest.raises(UsageError, match=r"^there is no file absent.csv"):
        read_user_table("absent.csv", SPACE)


def test_a_file_that_is_much_larger_in_memory_is_refused(monkeypatch):
    write_table("csv.gz")
    monkeypatch.setattr("untrained.readers.limits.BASE_ALLOWANCE_BYTES", 0)
    monkeypatch.setattr("untrained.benchmarks.user_table._CELL_BYTES", 10_000)
    with pytest.raises(UsageError, match=r"results.csv.gz was refused: its content takes more"):
        read_user_table("results.csv.gz", SPACE)


def test_a_damaged_parquet_file_is_refused():
    Path("results.parquet").write_bytes(b"PAR1" + b"\0" * 50)
    with pytest.raises(UsageError, match=r"results.parquet cannot be read: "):
        read_user_table("results.parquet", SPACE)

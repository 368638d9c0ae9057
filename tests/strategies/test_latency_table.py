"""`--latency-table`: reading the table, predicting from it, and a search with it."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.strategies.toys import TASK, ten
from untrained import search
from untrained.config import LatencyLimit
from untrained.errors import UsageError
from untrained.strategies.latency_table import TableLatency, read_latency_table
from untrained.types import Arch, Task

HEADER = ["arch", "milliseconds", "input_values", "machine"]
INPUT_VALUES = 3 * 8 * 8


def compute_milliseconds(arch: Arch) -> float:
    """Return 1 ms and 0.05 ms per unit of the hidden layer of `ten`."""
    width = 1 + sum(int(value) for _, value in arch.genes)
    return 1 + 0.05 * width


def sample_archs(count: int, seed: int = 0) -> list[Arch]:
    rng = np.random.default_rng(seed)
    archs: dict[Arch, None] = {}
    while len(archs) < count:
        archs[ten.sample(rng)] = None
    return list(archs)


def write_table(path: Path, rows: list[list[object]], header: list[str] = HEADER) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def make_rows(archs: list[Arch], factor: float = 1.0) -> list[list[object]]:
    rows: list[list[object]] = []
    for arch in archs:
        rows.append([str(arch), factor * compute_milliseconds(arch), INPUT_VALUES, "pi"])
    return rows


def test_latencies_are_read_in_seconds_and_averaged_over_rows(tmp_path):
    archs = sample_archs(8)
    rows = make_rows(archs)
    rows.append([str(archs[0]), 3 * compute_milliseconds(archs[0]), INPUT_VALUES, "pi"])
    table = read_latency_table(write_table(tmp_path / "pi.csv", rows), ten, TASK)
    assert list(table) == archs
    assert table[archs[0]] == pytest.approx(2 * compute_milliseconds(archs[0]) / 1e3)
    assert table[archs[1]] == pytest.approx(compute_milliseconds(archs[1]) / 1e3)


def test_a_table_needs_only_architectures_and_latencies(tmp_path):
    archs = sample_archs(8)
    rows = [row[:2] for row in make_rows(archs)]
    path = write_table(tmp_path / "pi.csv", rows, HEADER[:2])
    assert len(read_latency_table(path, ten, TASK)) == 8


GOOD = make_rows(sample_archs(9))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["c0=9", 1, INPUT_VALUES, "pi"], "line 11 of pi.csv: the architecture is not in ten"),
        (["", 1, INPUT_VALUES, "pi"], "line 11 of pi.csv: the architecture is not in ten"),
        ([GOOD[0][0], "nan", INPUT_VALUES, "pi"], "milliseconds is missing or NaN"),
        ([GOOD[0][0], "", INPUT_VALUES, "pi"], "milliseconds is missing or NaN"),
        ([GOOD[0][0], "inf", INPUT_VALUES, "pi"], "milliseconds is infinite"),
        ([GOOD[0][0], "fast", INPUT_VALUES, "pi"], "milliseconds is 'fast'; write a number"),
        ([GOOD[0][0], -1, INPUT_VALUES, "pi"], "milliseconds is -1; it must be above 0"),
        ([GOOD[0][0], 0, INPUT_VALUES, "pi"], "milliseconds is 0; it must be above 0"),
        ([GOOD[0][0], 1, 3072, "pi"], "an input of 3,072 values, but the networks of this search"),
        ([GOOD[0][0], 1], "line 11"),
    ],
)
def test_a_wrong_row_is_refused_in_one_line(tmp_path, row, message):
    path = write_table(tmp_path / "pi.csv", [*GOOD, row])
    with pytest.raises(UsageError) as caught:
        read_latency_table(path, ten, TASK)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["arch", "milliseconds"])
def test_a_missing_column_is_named_with_the_existing_ones(tmp_path, column):
    header = [name.replace(column, "other") for name in HEADER]
    path = write_table(tmp_path / "pi.csv", GOOD, header)
    with pytest.raises(UsageError, match=f"pi.csv has no column '{column}'; its columns are"):
        read_latency_table(path, ten, TASK)


def test_a_small_table_is_refused(tmp_path):
    path = write_table(tmp_path / "pi.csv", GOOD[:7])
    with pytest.raises(UsageError, match=r"pi.csv has 7 architectures; .* at least 8"):
        read_latency_table(path, ten, TASK)


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"none\.csv"):
        read_latency_table(tmp_path / "none.csv", ten, TASK)
    (tmp_path / "binary.csv").write_bytes(b"arch,milliseconds\n\0\0")
    with pytest.raises(UsageError, match="not a text file"):
        read_latency_table(tmp_path / "binary.csv", ten, TASK)


def test_a_measured_latency_is_exact_and_others_are_predicted(tmp_path):
    """The latency is linear in the width, and so is one of the features."""
    archs = sample_archs(20)
    path = write_table(tmp_path / "pi.csv", make_rows(archs))
    latency = TableLatency(ten, TASK, LatencyLimit(0.002), path)
    for arch in archs:
        assert latency.estimate_seconds(arch) == compute_milliseconds(arch) / 1e3
        assert not latency.is_predicted(arch)
    new_archs = [arch for arch in sample_archs(30, seed=1) if arch not in archs]
    for arch in new_archs:
        assert latency.is_predicted(arch)
        expected = compute_milliseconds(arch) / 1e3
        assert latency.estimate_seconds(arch) == pytest.approx(expected, rel=1e-3)
    assert latency.fit.rank_correlation > 0.99
    assert latency.fit.median_error < 0.001
    assert latency.describe_source(new_archs[0]) == (
        "predicted from pi.csv: median error 0 %, rank correlation 1.00, "
        "each of 20 networks left out in turn"
    )
    assert latency.describe_source(archs[0]) == "taken from the measurements in pi.csv"


def test_the_fit_is_that_of_networks_that_were_left_out(tmp_path):
    """Latencies are noise, so predictions of networks that were left out do not correlate."""
    rng = np.random.default_rng(0)
    rows: list[list[object]] = []
    for arch in sample_archs(200):
        rows.append([str(arch), float(np.exp(rng.normal())), INPUT_VALUES, "pi"])
    latency = TableLatency(ten, TASK, LatencyLimit(0.002), write_table(tmp_path / "pi.csv", rows))
    assert abs(latency.fit.rank_correlation) < 0.25
    assert latency.fit.median_error > 0.2
    # Refit without one network, and compare.
    without_last = TableLatency(
        ten, TASK, LatencyLimit(0.002), write_table(tmp_path / "part.csv", rows[:-1])
    )
    last = ten.parse(str(rows[-1][0]))
    refitted = without_last.estimate_seconds(last)
    left_out = latency._model.left_out_predictions[last]
    # Both choose their own penalty.
    assert left_out == pytest.approx(refitted, rel=0.25)


def test_the_rank_correlation_is_spearmans(tmp_path):
    rng = np.random.default_rng(1)
    rows = make_rows(sample_archs(30))
    for row in rows:
        row[1] *= 1 + 0.2 * rng.random()
    latency = TableLatency(ten, TASK, LatencyLimit(0.002), write_table(tmp_path / "pi.csv", rows))
    measured = [row[1] for row in rows]
    predictions = [latency._model.left_out_predictions[ten.parse(str(row[0]))] for row in rows]
    expected = spearmanr(predictions, measured).statistic
    assert latency.fit.rank_correlation == pytest.approx(expected)
    errors = np.abs(np.array(predictions) * 1e3 / np.array(measured) - 1)
    assert latency.fit.median_error == pytest.approx(np.median(errors))


def test_a_limit_with_a_device_contradicts_a_table(tmp_path):
    path = write_table(tmp_path / "pi.csv", GOOD)
    with pytest.raises(UsageError, match="leave out @cuda"):
        TableLatency(ten, TASK, LatencyLimit(0.002, "cuda"), path)


def search_with_table(folder: Path, table: Path, limit: str = "1.7ms"):
    options = {"data": "noise", "budget": 15, "run": folder, "workers": 1}
    return search(ten, "params", limits={"latency": limit}, latency_table=table, **options)


def test_a_search_keeps_the_limit_of_the_table_and_measures_nothing(tmp_path, monkeypatch):
    """Widths of 1 to 31 take 1.05 to 2.55 ms, and parameters decide."""
    monkeypatch.setattr(
        "untrained.strategies.latency.LatencyTimer.time_function",
        lambda *_: pytest.fail("measured on this machine"),
    )
    path = write_table(tmp_path / "pi.csv", make_rows(sample_archs(20)))
    result = search_with_table(tmp_path / "run", path)
    assert len(result.ranking.standings) == 15
    for standing in result.ranking.standings:
        assert compute_milliseconds(standing.arch) <= 1.7 * 1.01
    (row,) = result.run.limit_results
    assert row["rejected"] > 0
    assert row["value"] == pytest.approx(compute_milliseconds(result.best) / 1e3, rel=0.01)
    assert row["predicted"] == ("predicted from pi.csv" in row["source"])
    assert f"--latency-table {path}" in result.run.to_command()
    page = result.report().read_text()
    assert f"The latency of the best architecture was {row['source']}." in page


def test_a_changed_table_starts_another_search_in_the_same_folder(tmp_path):
    archs = sample_archs(20)
    path = write_table(tmp_path / "pi.csv", make_rows(archs))
    first = search_with_table(tmp_path / "run", path)
    write_table(path, make_rows(archs, factor=1.2))
    second = search_with_table(tmp_path / "run", path)
    assert first.run.search_key != second.run.search_key
    for standing in second.ranking.standings:
        assert 1.2 * compute_milliseconds(standing.arch) <= 1.7 * 1.01


def test_a_table_without_a_limit_is_refused(tmp_path):
    path = write_table(tmp_path / "pi.csv", GOOD)
    with pytest.raises(UsageError, match="a latency table needs a latency limit"):
        search(ten, "params", data="noise", run=tmp_path / "run", latency_table=path)


def test_a_table_of_another_input_size_is_refused_before_anything_is_written(tmp_path):
    path = write_table(tmp_path / "pi.csv", GOOD)
    with pytest.raises(UsageError, match="the same --data and --input-size"):
        read_latency_table(path, ten, Task("noise", (3, 16, 16), 4))

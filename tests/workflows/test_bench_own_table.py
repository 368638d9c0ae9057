"""`bench` with a table of the user."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import untrained as ut
from untrained.benchmarks.result import BenchmarkResult
from untrained.errors import UsageError
from untrained.spaces import load_space

RESULTS = {
    "depth=1,width0=4": 0.80,
    "depth=1,width0=16": 0.84,
    "depth=1,width0=64": 0.86,
    "depth=2,width0=4,width1=64": 0.79,
    "depth=2,width0=64,width1=16": 0.88,
    "depth=3,width0=64,width1=64,width2=4": 0.85,
}


def make_frame(seeds: int = 1) -> pd.DataFrame:
    rows = []
    for seed in range(seeds):
        for number, (arch, accuracy) in enumerate(RESULTS.items()):
            noise = 0.01 * seed * (-1) ** number
            rows.append({"arch": arch, "accuracy": accuracy + noise, "val_loss": -accuracy})
    return pd.DataFrame(rows)


def get_statistic(result: BenchmarkResult, proxy: str, name: str = "spearman") -> float:
    (row,) = [row for row in result.rows() if row["proxy"] == proxy]
    return row[name]


def run_bench(space: str, table: object, **options: object) -> BenchmarkResult:
    return ut.bench(space, "depth", table=table, data="noise", workers=1, **options)


def test_proxies_are_compared_with_the_results_of_the_user(own_space):
    make_frame().to_csv("results.csv", index=False)
    result = run_bench(own_space, "results.csv")
    assert result.space == own_space
    assert result.truth_about == "accuracy, results.csv"
    assert dict(zip(result.archs, result.truth, strict=True)) == RESULTS
    (params,) = [row for row in result.proxy_results if row.proxy == "params"]
    expected = stats.spearmanr(params.scores, result.truth).statistic
    assert get_statistic(result, "params") == pytest.approx(expected)
    assert result.notes == ("The table contains 6 architectures and 2 metrics.",)
    assert result.folder == "runs/bench-mine.py_mynet-results.csv-accuracy-noise"
    assert "--table results.csv" in result.command
    assert BenchmarkResult.read(result.folder) == result


def test_a_printed_result_is_one_line_with_the_best_proxies(own_space):
    result = run_bench(own_space, make_frame())
    best = result.proxy_results[0]
    start = "<BenchmarkResult DataFrame: accuracy; 6 architectures; best rank correlations: "
    assert repr(result).startswith(f"{start}{best.proxy} {best.statistics['spearman'].value:.3f}, ")
    assert repr(result).count(",") == 2
    assert len(str(result)) < 200
    failed = replace(result, proxy_results=(replace(best, statistics={"spearman": None}),))
    assert repr(failed) == "<BenchmarkResult DataFrame: accuracy; 6 architectures>"


def test_a_dataframe_is_saved_so_that_the_command_can_be_repeated(own_space):
    result = run_bench(own_space, make_frame(), run="run")
    assert "--table run/table.csv" in result.command
    again = run_bench(own_space, "run/table.csv", run="again")
    assert again.truth == result.truth
    assert again.rows() == result.rows()


def test_rows_of_the_same_architecture_are_seeds(own_space):
    frame = make_frame(seeds=2)
    result = run_bench(own_space, frame)
    means = frame.groupby("arch")["accuracy"].mean()
    assert result.truth == pytest.approx([means[arch] for arch in result.archs])
    seeds = [frame["accuracy"][:6], frame["accuracy"][6:]]
    expected = stats.spearmanr(*seeds).statistic
    assert result.notes[0] == (
        "The table has 12 rows; 6 architectures have several rows, whose mean is their known "
        "result."
    )
    assert result.notes[1] == (
        f"Noise ceiling: two trainings of the same 6 networks have a rank correlation of "
        f"{expected:.3f}. Against one training, a perfect proxy could reach about "
        f"{expected**0.5:.2f}, because only one side of that comparison is noisy."
    )


def test_identical_rows_of_an_architecture_are_reported_as_copies(own_space):
    frame = make_frame()
    one_copy = run_bench(own_space, pd.concat([frame, frame[:1]]), run="one")
    copies = (
        " The rows of an architecture are identical, so they are probably copies and not several "
        "trainings: no noise ceiling is shown."
    )
    assert one_copy.notes[0] == (
        "The table has 7 rows; 1 architecture has several rows, whose mean is its known result."
        + copies
    )
    all_twice = run_bench(own_space, pd.concat([frame, frame]), run="all")
    assert all_twice.notes[0].startswith("The table has 12 rows; 6 architectures have several")
    assert all_twice.notes[0].endswith(copies)
    assert not any("Noise ceiling" in note for note in all_twice.notes)


def test_the_direction_of_another_metric_is_reported(own_space):
    by_loss = run_bench(own_space, make_frame(), metric="val_loss")
    assert "Lower values of val_loss count as better." in by_loss.notes
    assert by_loss.truth == tuple(RESULTS.values())
    by_accuracy = run_bench(own_space, make_frame())
    assert get_statistic(by_loss, "params") == get_statistic(by_accuracy, "params")


def test_a_sample_of_a_large_table_is_drawn(own_space):
    result = run_bench(own_space, make_frame(), samples=4)
    assert len(result.archs) == 4
    assert set(result.archs) < set(RESULTS)


def test_embedded_data_are_used_with_a_note(own_space):
    result = ut.bench(own_space, "params", table=make_frame(), workers=1)
    assert result.notes[-1] == (
        "Networks see digits. Use --data to name the data that your networks were trained on."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"benchmark": "nasbench201"}, "--table and --benchmark exclude each other"),
        ({"dataset": "cifar10"}, "--table and --dataset exclude each other"),
        ({"scores": "table:synflow"}, "--table and --scores exclude each other"),
        ({"metric": "los"}, "no metric of DataFrame is called 'los'; did you mean val_loss"),
        ({"table": 5}, "table is 5; give a CSV or parquet file, or a pandas DataFrame"),
        ({"table": "absent.csv"}, "there is no file absent.csv"),
        ({"space": "nasbench201"}, "row 1 of DataFrame: depth=1,width0=4 is not in nasbench201"),
        ({"table": make_frame()[:2]}, "DataFrame has 2 architectures; a comparison needs at least"),
    ],
)
def test_wrong_options_are_refused_in_one_line(own_space, options, message):
    defaults = {"space": own_space, "proxy": "params", "table": make_frame(), "data": "noise"}
    with pytest.raises(UsageError) as caught:
        ut.bench(**defaults | options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("depth=9", "depth=9 is not in SPACE: 'depth' is 9, but it can only be one of "),
        ("depth=1", "depth=1 is not in SPACE: it has no value for 'width0'; it can be "),
        ("depth=9," + 50 * "width0=4,", "... is not in SPACE: "),
    ],
)
def test_an_unknown_architecture_of_a_space_object_is_named_once_with_the_reason(
    own_space, arch, message
):
    space = load_space(own_space)
    frame = make_frame()
    frame.loc[1, "arch"] = arch
    with pytest.raises(UsageError) as caught:
        ut.bench(space, "params", table=frame, data="noise")
    assert str(caught.value).startswith("row 2 of DataFrame: depth=")
    assert message.replace("SPACE", space.name) in str(caught.value)
    assert str(caught.value).count("depth=") == 1
    assert len(str(caught.value)) < 300
    assert repr(space) == f"<Space {space.name}>"


def test_a_space_without_a_table_says_how_to_give_one(own_space):
    with pytest.raises(UsageError, match="--table reads your own"):
        ut.bench(own_space, "params")


def test_equal_truths_have_no_statistics(own_space):
    frame = make_frame()
    frame["accuracy"] = 0.5
    result = run_bench(own_space, frame)
    assert all(row["spearman"] is None for row in result.rows())
    assert np.ptp(result.truth) == 0

"""The file of a table: queries, missing values, and damaged files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from untrained.benchmarks import (
    BENCHMARKS,
    BenchmarkTable,
    Metric,
    PublishedScore,
    import_benchmark,
    open_table,
)
from untrained.benchmarks.table_builder import TableBuilder
from untrained.errors import UsageError
from untrained.spaces import load_space

CELLS = ("64-41414-0_12_301", "64-41414-3_33_333", "64-41414-1_11_111")
ROWS = {
    "(0, 1, 2, 3, 0, 1)": {"zen": {"score": 1.5, "time": 1}, "val_accuracy": 51.0},
    "(3, 3, 3, 3, 3, 3)": {"zen": {"score": -1e8, "time": 1}, "val_accuracy": 52.0},
    "(1, 1, 1, 1, 1, 1)": {"zen": {"score": float("nan"), "time": 1}, "val_accuracy": 53.0},
}


@pytest.fixture
def table(tmp_path) -> BenchmarkTable:
    """A table of two tasks, imported from two equal files."""
    for file in ("first.json", "second.json"):
        row = {"(1, 1, 1, 1, 1, 1)": {"zen": 2.5, "val_accuracy": 90.0}}
        (tmp_path / file).write_text(json.dumps({"class_scene": ROWS, "jigsaw": row}))
        table = import_benchmark("transnas", tmp_path / file, tmp_path)
    return table


def read_contents(table: BenchmarkTable) -> bytes:
    """Return the text of all architectures and all columns."""
    columns = [table.read_column(column).tolist() for column in table.columns]
    return repr([table.list_archs(), *columns]).encode()


def read_refusal(
    root: Path, name: str = "transnas", advice: str = "recreates the table of transnas"
) -> str:
    """Check that the table is refused in one line that names the file and the command; return it."""
    with pytest.raises(UsageError) as error:
        read_contents(open_table(name, root))
    message = str(error.value)
    assert "\n" not in message
    assert str(root / "benchmarks" / f"{name}.parquet") in message
    assert f"`untrained data import {name} PATH` {advice}" in message
    return message


# ----------------------------------------------------------------------------------------------------------- queries


def test_a_table_describes_its_content(table):
    assert (table.name, table.space, len(table)) == ("transnas", "transnas_micro", 3)
    assert table.about == "3 of 4,096 architectures, 2 metrics, 4 scores published for proxies"
    assert table.list_archs() == CELLS
    assert [source.file for source in table.sources] == ["second.json", "first.json"]
    assert all(len(source.sha256) == 64 for source in table.sources)


def test_values_are_found_by_architecture(table):
    metric = table.find_metric(dataset="class_scene", split="val")
    arch = load_space("transnas_micro").parse(CELLS[1])
    assert (
        table.read_value(arch, metric)
        == table.read_value(CELLS[1], "class_scene_val_suite_zero")
        == 52
    )
    assert table.read_value("64-41414-0_00_000", metric) is None
    assert table.read_value(CELLS[0], "jigsaw_val_suite_zero") is None
    assert table.count_values(metric) == 3
    assert table.count_values("jigsaw_val_suite_zero") == 1
    values = table.read_values([CELLS[2], "unknown", arch], metric)
    assert values.tolist()[::2] == [53, 52]
    assert np.isnan(values[1])
    assert table.read_values([], metric).shape == (0,)
    with pytest.raises(ValueError, match="read-only"):
        table.read_column(metric)[0] = 99


def test_sentinels_are_missing_values_and_each_file_is_a_run(table):
    """-1e8 and NaN are not scores."""
    score = table.find_score("zen", dataset="class_scene", run="first")
    assert table.read_values(CELLS, score).tolist()[0] == 1.5
    assert table.count_values(score) == 1
    assert table.read_value(CELLS[1], score) is None
    assert table.read_value(CELLS[2], score) is None
    assert table.find_score("zen/class_scene/first") == score
    assert {s.run for s in table.scores} == {"first", "second"}
    assert not {s.name for s in table.scores} & {m.name for m in table.metrics}


def test_a_metric_precedes_its_variants_and_the_split_must_be_named():
    def accuracy(split: str, variant: str = "") -> Metric:
        return Metric("accuracy", "%", True, "cifar10", split, 200, variant)

    metrics = (
        accuracy("val", "seed0"),
        accuracy("test", "seed0"),
        accuracy("test"),
        Metric("latency", "ms", False),
    )
    counts = {metric.name: 1 for metric in metrics}
    table = BenchmarkTable(
        "some",
        "nasbench201",
        Path(),
        1,
        2,
        metrics,
        (PublishedScore("zen", "cifar10", "a"),),
        counts,
        (),
    )
    assert table.find_metric(dataset="cifar10", split="test", epochs=200).name == "cifar10_test_200"
    assert table.find_metric(split="val").name == "cifar10_val_200_seed0"  # the only one
    assert table.find_metric("cifar10_test_200_seed0").variant == "seed0"
    with pytest.raises(
        UsageError, match=r"choose an accuracy of some: split='val' or split='test', or a full name"
    ):
        table.find_metric(dataset="cifar10", epochs=200)
    with pytest.raises(
        UsageError, match=r"no columns with dataset='cifar10', split='test', epochs=12; name one:"
    ):
        table.find_metric(dataset="cifar10", split="test", epochs=12)
    with pytest.raises(
        UsageError,
        match="no metric of some is called 'cifar10_tset_200'; did you mean cifar10_test",
    ):
        table.find_metric("cifar10_tset_200")
    with pytest.raises(UsageError, match="no score in some is called 'zem'; did you mean zen"):
        table.find_score("zem")
    with pytest.raises(
        UsageError, match="no column of some is called 'latency_x'; did you mean latency"
    ):
        table.read_value("a", "latency_x")
    with pytest.raises(TypeError):
        table.find_metric("cifar10", "test", 200)


def test_one_of_several_runs_must_be_named(table):
    with pytest.raises(
        UsageError,
        match=r"4 columns with proxy='zen'; name one: zen/class_scene/second, zen/jigsaw",
    ):
        table.find_score("zen")
    with pytest.raises(
        UsageError, match=r"no columns with proxy='zen', dataset='mars'; name one: zen/class_scene"
    ):
        table.find_score("zen", dataset="mars")


def test_contradicting_rows_are_refused():
    rows = TableBuilder()
    metric = Metric("accuracy", "%", True, "cifar10", "test")
    rows.add_value("a", metric, 93.123456)
    rows.add_value("a", metric, 93.1235)  # the same, with fewer digits
    with pytest.raises(
        UsageError, match=r"two rows of a disagree on cifar10_test: 93\.1235 and 92"
    ):
        rows.add_value("a", metric, 92.0)
    score = PublishedScore("zen", "cifar10", "run")
    rows.add_value("a", score, 1.0)
    rows.add_value("a", score, 2.0)
    rows.add_value("b", score, None)
    assert rows.make_columns()[score].tolist()[0] == 1.0
    assert np.isnan(rows.make_columns()[score][1])


def test_every_benchmark_names_its_space_and_its_size():
    for benchmark in BENCHMARKS.values():
        space = load_space(benchmark.space)
        # A table of the package is a sample of its space.
        assert benchmark.size == (None if benchmark.is_packaged else space.size)
        assert benchmark.about.endswith(".")


# ----------------------------------------------------------------------------------------------------- refused files


def test_the_error_for_a_missing_table_lists_the_files_to_import(tmp_path):
    message = read_refusal(tmp_path, advice="makes it from ")
    assert (
        "a folder with tnb101_micro_full.csv.gz or transnas-bench_v10141024.pth or zc_transbench101"
        in message
    )
    with pytest.raises(
        UsageError, match="no benchmark is called 'nasbench202'; did you mean nasbench201"
    ):
        open_table("nasbench202", tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PAR1", b"PAR1" + b"x" * 50 + b"PAR1"])
def test_a_file_of_another_format_is_refused(tmp_path, table, content):
    table.path.write_bytes(content)
    assert "is not a readable parquet file" in read_refusal(tmp_path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_table_is_refused(tmp_path, table, share):
    whole = table.path.read_bytes()
    table.path.write_bytes(whole[: int(share * len(whole))])
    assert "is not a readable parquet file" in read_refusal(tmp_path)


def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path, table):
    """Pages have checksums. Some bits of their headers and of the footer are never read."""
    whole = table.path.read_bytes()
    expected = read_contents(table)
    footer_start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    messages = []
    for position in [*range(4, footer_start, 5), *range(footer_start, len(whole), 41)]:
        flipped = bytes([whole[position] ^ 16])
        table.path.write_bytes(whole[:position] + flipped + whole[position + 1 :])
        try:
            assert read_contents(open_table("transnas", tmp_path)) == expected, position
        except UsageError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert not any("\n" in message for message in messages)


def test_a_table_of_another_benchmark_is_refused(tmp_path, table):
    shutil.copy(table.path, table.path.with_name("nasbench201.parquet"))
    message = read_refusal(tmp_path, "nasbench201", "recreates the table of nasbench201")
    assert "is the table of transnas, not of nasbench201; rename the file" in message


def rewrite_header(table: BenchmarkTable, **changes: object) -> None:
    """Change the header of a file."""
    content = pq.read_table(table.path)
    header = json.loads(content.schema.metadata[b"untrained"]) | changes
    pq.write_table(content.replace_schema_metadata({b"untrained": json.dumps(header)}), table.path)


def test_a_table_of_a_newer_version_is_refused(tmp_path, table):
    rewrite_header(table, schema=2)
    assert (
        "newer version of untrained (schema 2, this one reads 1); update untrained"
        in read_refusal(tmp_path)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 4}, "has 3 rows where its header says 4"),
        ({"metrics": [{"name": "x"}]}, "has a header that cannot be read"),
        ({"scores": None}, "has a header that cannot be read"),
        ({"schema": "new"}, "not a benchmark table"),
        ({"counts": {"gone": 3}, "metrics": []}, "no column of transnas is called"),
    ],
)
def test_a_header_that_contradicts_the_file_is_refused(tmp_path, table, changes, message):
    rewrite_header(table, **changes)
    if "counts" in changes:
        with pytest.raises(UsageError, match="is damaged"):
            open_table("transnas", tmp_path).read_column("gone")
    else:
        assert message in read_refusal(tmp_path)


def test_a_foreign_parquet_file_is_refused(tmp_path, table):
    pq.write_table(pa.table({"arch": ["a"], "x": [1.0]}), table.path)
    assert "is a parquet file, but not a benchmark table" in read_refusal(tmp_path)


def test_importing_replaces_a_damaged_table(tmp_path, table):
    table.path.write_bytes(b"hello")
    again = import_benchmark("transnas", tmp_path / "first.json", tmp_path)
    assert len(again) == 3
    assert [path.name for path in table.path.parent.iterdir()] == ["transnas.parquet"]

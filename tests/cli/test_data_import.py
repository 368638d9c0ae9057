"""`untrained data import` and `untrained list benchmarks`."""

import json

import pytest

from tests.benchmarks import publishers
from tests.cli.helpers import read_usage_error
from untrained.benchmarks import BENCHMARKS, open_table


@pytest.fixture
def publisher_file(project):
    """A file as the authors of TransNAS-Bench publish it, with one architecture."""
    return publishers.write_transnas(
        project / "transnas-bench_v10141024.pth", ["64-41414-3_33_333"]
    )


def test_import_makes_a_table_and_describes_it(run_cli, project, publisher_file):
    code, out, err = run_cli(
        "data", "import", "transnas", str(publisher_file), "--data-root", "root"
    )
    assert (code, err) == (0, "")
    about = "1 of 4,096 architectures, 28 metrics, 0 scores published for proxies"
    assert out == f"root/benchmarks/transnas.parquet: {about}\n"
    assert open_table("transnas", "root").read_value("64-41414-3_33_333", "class_scene_test") == 20
    _, out, _ = run_cli(
        "data", "import", "transnas", str(publisher_file), "--data-root", "root", "--json"
    )
    row = json.loads(out)
    assert (row["name"], row["rows"], row["file"]) == (
        "transnas",
        1,
        "root/benchmarks/transnas.parquet",
    )


def test_list_shows_imported_tables_and_how_to_import_the_others(
    run_cli, project, publisher_file, monkeypatch
):
    monkeypatch.setenv("UNTRAINED_DATA", str(project))
    run_cli("data", "import", "transnas", str(publisher_file))
    rows = {row["name"]: row for row in json.loads(run_cli("list", "benchmarks", "--json")[1])}
    assert list(rows) == list(BENCHMARKS)
    imported = rows["transnas"]
    assert (imported["rows"], imported["size"], imported["space"]) == (1, 4096, "transnas_micro")
    assert "jigsaw_test" in imported["metrics"]
    assert imported["missing"] == ""
    missing = rows["nasbench101"]
    assert (missing["rows"], missing["metrics"], missing["file"]) == (None, [], "")
    assert "`untrained data import nasbench101 PATH` makes it from" in missing["missing"]
    assert "nasbench_only108.tfrecord" in missing["missing"]
    (project / "benchmarks" / "transnas.parquet").write_bytes(b"hello")
    code, out, _ = run_cli("list", "benchmarks")
    assert code == 0
    assert "is not a readable parquet file" in " ".join(out.split())


WRONG = {
    "data import nasbench202 FILE": "no benchmark is called 'nasbench202'; did you mean nasbench201",
    "data import transnas absent": "there is no absent; transnas can be made from a folder with",
    "data import nasbench201 FILE": "has another format; nasbench201 can be made from",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_import_is_refused_in_one_line(run_cli, project, publisher_file, line):
    words = line.replace("FILE", str(publisher_file)).split()
    assert WRONG[line] in read_usage_error(run_cli(*words, "--data-root", "root"))
    assert not (project / "root").exists()

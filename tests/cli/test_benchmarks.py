"""`untrained data import` and `untrained list benchmarks`."""

import json

import pytest

from tests.benchmarks import publishers
from tests.cli.helpers import wrong
from untrained.benchmarks import BENCHMARKS, open_table


@pytest.fixture
def file(project):
    return publishers.transnas(project / "transnas-bench_v10141024.pth", ["64-41414-3_33_333"])


def test_import_makes_a_table_and_says_what_it_holds(untrained_, project, file):
    code, out, err = untrained_("data", "import", "transnas", str(file), "--data-root", "root")
    assert (code, err) == (0, "")
    held = "1 of 4,096 architectures, 28 metrics, 0 scores by proxies of others"
    assert out == f"root/benchmarks/transnas.parquet: {held}\n"
    assert open_table("transnas", "root").value("64-41414-3_33_333", "class_scene_test") == 20
    _, out, _ = untrained_("data", "import", "transnas", str(file), "--data-root", "root", "--json")
    row = json.loads(out)
    assert (row["name"], row["rows"], row["file"]) == ("transnas", 1, "root/benchmarks/transnas.parquet")


def test_list_says_what_is_there_and_how_to_get_the_rest(untrained_, project, file, monkeypatch):
    monkeypatch.setenv("UNTRAINED_DATA", str(project))
    untrained_("data", "import", "transnas", str(file))
    rows = {row["name"]: row for row in json.loads(untrained_("list", "benchmarks", "--json")[1])}
    assert list(rows) == list(BENCHMARKS)
    there = rows["transnas"]
    assert (there["rows"], there["size"], there["space"]) == (1, 4096, "transnas_micro")
    assert "jigsaw_test" in there["metrics"]
    assert there["missing"] == ""
    absent = rows["nasbench101"]
    assert (absent["rows"], absent["metrics"], absent["file"]) == (None, [], "")
    assert "`untrained data import nasbench101 PATH` makes it from" in absent["missing"]
    assert "nasbench_only108.tfrecord" in absent["missing"]
    (project / "benchmarks" / "transnas.parquet").write_bytes(b"hello")
    code, out, _ = untrained_("list", "benchmarks")
    assert code == 0
    assert "is no readable parquet file" in " ".join(out.split())


WRONG = {
    "data import nasbench202 FILE": "no benchmark is called 'nasbench202'; did you mean nasbench201",
    "data import transnas absent": "there is no absent; transnas can be made from a folder with",
    "data import nasbench201 FILE": "is nothing that nasbench201 can be made from",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_import_is_answered_in_one_line(untrained_, project, file, line):
    words = line.replace("FILE", str(file)).split()
    assert WRONG[line] in wrong(untrained_(*words, "--data-root", "root"))
    assert not (project / "root").exists()

"""Importers of the publishers' own files, on small files of the same format."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.benchmarks import publishers
from untrained.benchmarks import BenchmarkTable, import_benchmark
from untrained.errors import UsageError
from untrained.readers.torch_file import read_torch
from untrained.spaces import load_space
from untrained.spaces.nasbench201 import from_index
from untrained.types import Task

ARCHS = [str(from_index(index)) for index in range(5)]
DATASETS = ("cifar10", "cifar100", "ImageNet16-120")
INPUT_CONV_OUTPUT = "010001000", "input,conv3x3-bn-relu,output"


def refused(name: str, path: Path, root: Path) -> str:
    with pytest.raises(UsageError) as error:
        import_benchmark(name, path, root)
    assert "\n" not in str(error.value)
    return str(error.value)


# --------------------------------------------------------------------------------------------------------- NATS-Bench


@pytest.fixture
def nats(tmp_path) -> BenchmarkTable:
    folder = publishers.nats(tmp_path / "NATS-tss-v1_0-3ffb9-simple", ARCHS, only=(0, 2, 3))
    return import_benchmark("nasbench201", folder, tmp_path / "root")


def test_nats_accuracies_are_those_of_their_sets_at_the_last_epoch(nats):
    assert nats.archs() == (ARCHS[0], ARCHS[2], ARCHS[3])
    theirs = {
        ("cifar10", "val"): ("cifar10-valid", "x-valid"),
        ("cifar10", "test"): ("cifar10", "ori-test"),
        ("cifar100", "val"): ("cifar100", "x-valid"),
        ("cifar100", "test"): ("cifar100", "x-test"),
        ("ImageNet16-120", "val"): ("ImageNet16-120", "x-valid"),
        ("ImageNet16-120", "test"): ("ImageNet16-120", "x-test"),
        ("cifar10", "train"): ("cifar10", "train"),
        ("cifar100", "train"): ("cifar100", "train"),
    }
    seen = set()
    for (dataset, split), (name, judged) in theirs.items():
        for epochs, seeds in ((12, (777,)), (200, (777, 888))):
            metric = nats.metric(dataset=dataset, split=split, epochs=epochs)
            expected = np.mean(
                [publishers.accuracy(name, judged, epochs, seed, 2) for seed in seeds]
            )
            assert nats.value(ARCHS[2], metric) == pytest.approx(expected)
            seen.add(expected)
    assert len(seen) == 16  # all different: nothing was taken for another
    half = publishers.accuracy("cifar10-valid", "ori-test", 12, 777, 0)
    assert nats.value(ARCHS[0], "cifar10_test_12_half") == pytest.approx(half)


def test_nats_costs(nats):
    assert nats.value(ARCHS[3], "cifar10_params") == 3.5
    assert nats.value(ARCHS[3], "ImageNet16-120_flops") == 83
    assert nats.value(ARCHS[3], "cifar10_seconds_12") == 24
    assert nats.value(ARCHS[3], "cifar10_seconds_200_whole") == 400
    assert "cifar100_seconds_12_whole" not in nats.counts  # it has no times
    assert not nats.metric("cifar10_seconds_12").higher_is_better


def test_a_nats_file_of_another_architecture_is_refused(tmp_path):
    folder = publishers.nats(tmp_path / "simple", ARCHS, only=(0, 1))
    (folder / "000001.pickle.pbz2").write_bytes((folder / "000000.pickle.pbz2").read_bytes())
    assert f"holds {ARCHS[0]}, but meta.pickle.pbz2 says {ARCHS[1]}" in refused(
        "nasbench201", folder, tmp_path
    )


@pytest.mark.parametrize(
    "content", [{}, {"12": 5}, {"12": {"arch_str": ARCHS[0], "all_results": {"a": 1}}}, [1, 2]]
)
def test_a_nats_file_with_another_layout_is_refused(tmp_path, content):
    folder = publishers.nats(tmp_path / "simple", ARCHS, only=(0,))
    publishers.pbz2(folder / "000000.pickle.pbz2", content)
    said = refused("nasbench201", folder, tmp_path)
    assert "is not laid out as a file of NATS-Bench" in said or "holds no numbers" in said


def test_a_truncated_nats_file_is_refused(tmp_path):
    folder = publishers.nats(tmp_path / "simple", ARCHS, only=(0,))
    file = folder / "000000.pickle.pbz2"
    file.write_bytes(file.read_bytes()[:-30])
    assert f"{file} is damaged" in refused("nasbench201", folder, tmp_path)


# ------------------------------------------------------------------------------------------------------ NAS-Bench-101


def evaluations(val: float, test: float) -> list[tuple[float, ...]]:
    """At the start, halfway, at the end: epoch, seconds, accuracies of train, validation, test."""
    return [(0, 0, 0.1, 0.1, 0.1), (54, 500, 0.5, 0.5, 0.5), (108, 1000, 0.99, val, test)]


def test_the_checksum_is_castagnolis():
    assert publishers.crc32c(b"123456789") == 0xE3069283  # the check value of its definition


def test_records_of_nasbench101_are_read_without_tensorflow(tmp_path):
    """Three trainings of a cell, once written with a vertex on no path, and one of another cell."""
    rows = [
        (
            108,
            "0100000100000100000100000",
            "input,conv3x3-bn-relu,maxpool3x3,conv1x1-bn-relu,output",
            0.9,
            0.8,
        ),
        (108, *INPUT_CONV_OUTPUT, 0.91, 0.85),
        (108, *INPUT_CONV_OUTPUT, 0.93, 0.86),
        (36, *INPUT_CONV_OUTPUT, 0.5, 0.4),
        (
            108,
            "0010000000010000",
            "input,maxpool3x3,conv3x3-bn-relu,output",
            0.95,
            0.87,
        ),  # a vertex on no path
    ]
    path = tmp_path / "nasbench_only108.tfrecord"
    publishers.tfrecord(
        path, [(e, m, ops, evaluations(v, t), 2_500_000) for e, m, ops, v, t in rows]
    )
    table = import_benchmark("nasbench101", path, tmp_path)
    assert len(table) == 2
    arch = load_space("nasbench101").parse("010/001/000+input,conv3x3-bn-relu,output")
    assert table.value(arch, table.metric(split="val", epochs=108)) == pytest.approx(
        100 * (0.91 + 0.93 + 0.95) / 3
    )
    assert table.value(arch, table.metric(split="test", epochs=108)) == pytest.approx(
        100 * (0.85 + 0.86 + 0.87) / 3
    )
    assert table.value(arch, table.metric(split="val", epochs=36)) == pytest.approx(50)
    assert [table.value(arch, f"cifar10_val_108_seed{k}") for k in range(3)] == pytest.approx(
        [91, 93, 95]
    )
    assert table.value(arch, "cifar10_train_108") == pytest.approx(99)
    assert table.value(arch, "params") == 2.5
    assert table.value(arch, "cifar10_seconds_108") == 1000
    other = next(text for text in table.archs() if text != str(arch))
    assert table.value(other, "cifar10_test_108") == pytest.approx(80)
    assert table.value(other, "cifar10_test_36") is None
    assert table.value(other, "cifar10_test_108_seed1") is None


@pytest.mark.parametrize("damage", ["cut", "head", "length", "data", "text"])
def test_a_damaged_tfrecord_is_refused(tmp_path, damage):
    path = publishers.tfrecord(
        tmp_path / "a.tfrecord", [(108, *INPUT_CONV_OUTPUT, evaluations(0.9, 0.8), 1)] * 2
    )
    content = bytearray(path.read_bytes())
    if damage == "text":
        content = bytearray(publishers.framed(b'["hash", 108]'))
    elif damage in ("cut", "head"):
        del content[-5 if damage == "cut" else len(content) // 2 + 6 :]
    else:
        content[{"length": 0, "data": 40}[damage]] ^= 1
    path.write_bytes(content)
    said = refused("nasbench101", path, tmp_path)
    assert ("not laid out" if damage == "text" else "is no whole TFRecord file") in said


# --------------------------------------------------------------------------------------------------------- TransNAS

CELLS = ["64-41414-3_33_333", "64-41414-0_12_301"]


@pytest.mark.parametrize(("as_tensor", "old"), [(False, False), (True, False), (False, True)])
def test_transnas_pth(tmp_path, as_tensor, old):
    path = publishers.transnas(
        tmp_path / "transnas-bench_v10141024.pth", CELLS, as_tensor=as_tensor, old=old
    )
    table = import_benchmark("transnas", path, tmp_path)
    assert table.archs() == tuple(CELLS)
    for t, task in enumerate(publishers.TASKS):
        assert table.value(CELLS[1], table.metric(dataset=task, split="val")) == 100 * t + 10 + 1
        assert table.value(CELLS[1], table.metric(dataset=task, split="test")) == 100 * t + 20 + 1
        assert table.value(CELLS[1], f"{task}_val_best") == 100 * t + 10 + 1 + 0.5
    assert table.metric("room_layout_test").kind == "negative loss"
    assert table.metric("normal_val").unit == ""


def test_tensors_become_the_same_arrays(tmp_path):
    whole = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    content = {
        "a": whole[1:3, ::2].T,
        "b": torch.tensor(3),
        "c": torch.zeros(0, 2),
        "d": whole > 4,
        "e": [1.5, "x"],
    }
    torch.save(content, tmp_path / "some.pth")
    found = read_torch(tmp_path / "some.pth")
    for name in "abcd":
        assert np.array_equal(found[name], content[name].numpy())
        assert found[name].dtype == content[name].numpy().dtype
    assert found["e"] == [1.5, "x"]


def test_tensors_of_old_files_are_refused_by_name(tmp_path):
    path = publishers.transnas(tmp_path / "old.pth", CELLS, as_tensor=True, old=True)
    assert "points to tensors that are not in the file" in refused("transnas", path, tmp_path)


# ------------------------------------------------------------------------------------------- Suite-Zero, HW-NAS-Bench


def suite_zero(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_suite_zero_of_nasbench201_has_an_order_and_numbering_of_its_own(tmp_path):
    """The cell and its numbers are in the published file. Its parameters say which operation is which."""
    row = {
        "params": 0.434196,
        "synflow": 68.21482965949316,
        "jacov": -1e8,
        "val_accuracy": 68.33999986572266,
    }
    path = suite_zero(
        tmp_path / "zc_nasbench201.json", {"nasbench201": {"cifar100": {"(4, 3, 3, 3, 2, 3)": row}}}
    )
    table = import_benchmark("nasbench201", path, tmp_path)
    (arch,) = table.archs()
    assert (
        arch
        == "|avg_pool_3x3~0|+|nor_conv_1x1~0|nor_conv_1x1~1|+|nor_conv_1x1~0|nor_conv_3x3~1|nor_conv_1x1~2|"
    )
    assert (
        table.value(arch, table.metric(dataset="cifar100", split="val", epochs=200))
        == row["val_accuracy"]
    )
    assert table.value(arch, table.score("synflow")) == row["synflow"]
    network = load_space("nasbench201").build(
        load_space("nasbench201").parse(arch), Task("cifar100", (3, 32, 32), 100)
    )
    assert sum(p.numel() for p in network.parameters()) == row["params"] * 1e6
    assert "jacov/cifar100/zc_nasbench201" not in table.counts  # -1e8 is no score
    assert all(metric.kind == "accuracy" for metric in table.metrics)  # scores are kept apart


def test_suite_zero_with_scores_and_seconds(tmp_path):
    def row(number: float) -> dict[str, object]:
        zen = {"score": number, "time": 1.0}
        return {
            "idx": "1",
            "arch": "()",
            "zen": zen,
            "snip": {"score": -1e8, "time": 1},
            "val_accuracy": 50 + number,
        }

    tasks = {
        task: {"(0, 1, 2, 3, 0, 1)": row(1), "(3, 3, 3, 3, 3, 3)": row(2)}
        for task in ("class_scene", "jigsaw")
    }
    table = import_benchmark(
        "transnas", suite_zero(tmp_path / "zc_transbench101_micro.json", tasks), tmp_path
    )
    assert table.archs() == ("64-41414-0_12_301", "64-41414-3_33_333")
    assert table.value("64-41414-3_33_333", table.metric(dataset="jigsaw", split="val")) == 52
    assert [score.name for score in table.scores] == [
        f"zen/{t}/zc_transbench101_micro" for t in tasks
    ]


def test_suite_zero_of_one_data_set(tmp_path):
    """The name of a data set around everything is not taken for the name of a space."""
    tasks = {
        "cifar10": {"(0, 1, 2, 3, 4, 0)": {"zen": {"score": 3.0, "time": 1}, "val_accuracy": 90.0}}
    }
    table = import_benchmark("nasbench201", suite_zero(tmp_path / "zc.json", tasks), tmp_path)
    assert table.value(table.archs()[0], "cifar10_val_200_suite_zero") == 90


def test_suite_zero_of_nasbench101_and_301(tmp_path):
    chain = (0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 4, 1)
    loose = (
        0,
        1,
        1,
        0,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        4,
        2,
        1,
    )  # the same with a vertex on no path
    rows = {
        str(chain): {"zen": 1.0, "val_accuracy": 90.0},
        str(loose): {"zen": 2.0, "val_accuracy": 91.0},
    }
    table = import_benchmark(
        "nasbench101", suite_zero(tmp_path / "zc1.json", {"cifar10": rows}), tmp_path
    )
    (arch,) = table.archs()
    assert arch == "010/001/000+input,conv3x3-bn-relu,output"
    assert table.value(arch, table.metric(split="val")) == pytest.approx(
        90.5
    )  # one of three seeds each time
    assert table.value(arch, table.score("zen")) == 1
    cell = [(0, 4), (1, 3), (0, 2), (2, 3), (2, 3), (0, 3), (2, 6), (3, 5)]
    rows = {str([cell, cell]): {"zen": 1.0, "val_accuracy": 93.9}}
    path = suite_zero(tmp_path / "zc3.json", {"nasbench301": {"cifar10": rows}})
    table = import_benchmark("nasbench301", path, tmp_path)
    assert (
        "('sep_conv_5x5', 0), ('sep_conv_3x3', 1), ('skip_connect', 0), ('sep_conv_3x3', 2)"
        in table.archs()[0]
    )
    assert table.value(table.archs()[0], table.metric(split="val")) == 93.9


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"a": 1}',
        '{"a": {"(0, 1)": {"val_accuracy": 1}}}',
        '{"a": {"__import__": {}}, "b": {}}',
    ],
)
def test_a_json_file_with_another_layout_is_refused(tmp_path, text):
    (tmp_path / "zc.json").write_text(text)
    assert "is not laid out as a file of NAS-Bench-Suite-Zero" in refused(
        "nasbench201", tmp_path / "zc.json", tmp_path
    )


def test_hwnas_adds_latencies_to_what_is_there(tmp_path, nats):
    path = publishers.hwnas(tmp_path / "HW-NAS-Bench-v1_0.pickle", ARCHS)
    table = import_benchmark("nasbench201", path, tmp_path / "root")
    assert len(table) == len(ARCHS)
    for d, dataset in enumerate(DATASETS, start=1):
        assert table.value(ARCHS[4], f"{dataset}_latency_raspi4") == d + 4
        assert table.value(ARCHS[4], f"{dataset}_energy_eyeriss") == 4 + d / 2
        assert table.metric(f"{dataset}_energy_eyeriss").unit == "mJ"
    assert not any("intensity" in metric.name for metric in table.metrics)
    test = table.metric(dataset="cifar10", split="test", epochs=200)
    assert table.value(ARCHS[2], test) == nats.value(ARCHS[2], test)
    assert table.value(ARCHS[4], test) is None
    assert {source.file for source in table.sources} == {path.name, "NATS-tss-v1_0-3ffb9-simple"}


def test_what_is_imported_again_is_replaced(tmp_path):
    first = suite_zero(
        tmp_path / "zc.json",
        {"cifar10": {"(0, 1, 2, 3, 4, 0)": {"zen": 3.0, "val_accuracy": 90.0}}},
    )
    import_benchmark("nasbench201", first, tmp_path)
    suite_zero(first, {"cifar10": {"(1, 1, 2, 3, 4, 0)": {"zen": 3.0, "val_accuracy": 80.0}}})
    table = import_benchmark("nasbench201", first, tmp_path)
    assert [table.value(arch, "cifar10_val_200_suite_zero") for arch in table.archs()] == [80]


@pytest.mark.parametrize(
    "name", ["nasbench201", "nasbench101", "nasbench301", "darts1000", "transnas"]
)
def test_a_path_that_is_something_else_lists_what_is_wanted(tmp_path, name):
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        assert f"is nothing that {name} can be made from: a folder with " in refused(
            name, path, tmp_path
        )
    assert f"there is no {tmp_path / 'absent'}; {name} can be made from" in refused(
        name, tmp_path / "absent", tmp_path
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (
            "nasbench201",
            lambda f: publishers.nats(f / "simple", ["|none~0|", *ARCHS[1:]], only=(0,)),
        ),
        ("nasbench201", lambda f: publishers.hwnas(f / "hw.pickle", ["|none~0|"])),
        (
            "nasbench101",
            lambda f: publishers.tfrecord(f / "a.tfrecord", [(108, "0010", "input,output", [], 1)]),
        ),
        ("transnas", lambda f: publishers.transnas(f / "a.pth", ["64-41414-9_33_333"])),
    ],
)
def test_an_architecture_that_is_not_in_the_space_is_named_in_one_line(tmp_path, name, path):
    said = refused(name, path(tmp_path), tmp_path)
    assert "is not laid out as a file of" in said
    assert f"is not in {'transnas_micro' if name == 'transnas' else name}: " in said

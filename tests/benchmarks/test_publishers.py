"""Importers of the published files, on small files of the same formats."""

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
from untrained.spaces.nasbench201 import make_arch_from_index
from untrained.types import Task

ARCHS = [str(make_arch_from_index(index)) for index in range(5)]
DATASETS = ("cifar10", "cifar100", "ImageNet16-120")
INPUT_CONV_OUTPUT = "010001000", "input,conv3x3-bn-relu,output"


def read_refusal(name: str, path: Path, root: Path) -> str:
    """Check that an import is refused in one line, and return that line."""
    with pytest.raises(UsageError) as error:
        import_benchmark(name, path, root)
    assert "\n" not in str(error.value)
    return str(error.value)


# --------------------------------------------------------------------------------------------------------- NATS-Bench


@pytest.fixture
def nats(tmp_path) -> BenchmarkTable:
    folder = publishers.write_nats(tmp_path / "NATS-tss-v1_0-3ffb9-simple", ARCHS, only=(0, 2, 3))
    return import_benchmark("nasbench201", folder, tmp_path / "root")


def test_nats_accuracies_are_those_of_each_split_at_the_last_epoch(nats):
    assert nats.list_archs() == (ARCHS[0], ARCHS[2], ARCHS[3])
    published_names = {
        ("cifar10", "val"): ("cifar10-valid", "x-valid"),
        ("cifar10", "test"): ("cifar10", "ori-test"),
        ("cifar100", "val"): ("cifar100", "x-valid"),
        ("cifar100", "test"): ("cifar100", "x-test"),
        ("ImageNet16-120", "val"): ("ImageNet16-120", "x-valid"),
        ("ImageNet16-120", "test"): ("ImageNet16-120", "x-test"),
        ("cifar10", "train"): ("cifar10", "train"),
        ("cifar100", "train"): ("cifar100", "train"),
    }
    accuracies = set()
    for (dataset, split), (name, published_split) in published_names.items():
        for epochs, seeds in ((12, (777,)), (200, (777, 888))):
            metric = nats.find_metric(dataset=dataset, split=split, epochs=epochs)
            expected = np.mean(
                [publishers.make_accuracy(name, published_split, epochs, seed, 2) for seed in seeds]
            )
            assert nats.read_value(ARCHS[2], metric) == pytest.approx(expected)
            accuracies.add(expected)
    assert len(accuracies) == 16  # all different, so none can be mistaken for another
    half = publishers.make_accuracy("cifar10-valid", "ori-test", 12, 777, 0)
    assert nats.read_value(ARCHS[0], "cifar10_test_12_half") == pytest.approx(half)


def test_nats_parameters_flops_and_seconds_are_imported(nats):
    assert nats.read_value(ARCHS[3], "cifar10_params") == 3.5
    assert nats.read_value(ARCHS[3], "ImageNet16-120_flops") == 83
    assert nats.read_value(ARCHS[3], "cifar10_seconds_12") == 24
    assert nats.read_value(ARCHS[3], "cifar10_seconds_200_whole") == 400
    assert "cifar100_seconds_12_whole" not in nats.counts  # it has no times
    assert not nats.find_metric("cifar10_seconds_12").higher_is_better


def test_a_nats_file_of_another_architecture_is_refused(tmp_path):
    folder = publishers.write_nats(tmp_path / "simple", ARCHS, only=(0, 1))
    (folder / "000001.pickle.pbz2").write_bytes((folder / "000000.pickle.pbz2").read_bytes())
    assert f"holds {ARCHS[0]}, but meta.pickle.pbz2 says {ARCHS[1]}" in read_refusal(
        "nasbench201", folder, tmp_path
    )


@pytest.mark.parametrize(
    "content", [{}, {"12": 5}, {"12": {"arch_str": ARCHS[0], "all_results": {"a": 1}}}, [1, 2]]
)
def test_a_nats_file_with_another_layout_is_refused(tmp_path, content):
    folder = publishers.write_nats(tmp_path / "simple", ARCHS, only=(0,))
    publishers.write_pbz2(folder / "000000.pickle.pbz2", content)
    message = read_refusal("nasbench201", folder, tmp_path)
    assert "is not laid out as a file of NATS-Bench" in message or "holds no numbers" in message


def test_a_truncated_nats_file_is_refused(tmp_path):
    folder = publishers.write_nats(tmp_path / "simple", ARCHS, only=(0,))
    file = folder / "000000.pickle.pbz2"
    file.write_bytes(file.read_bytes()[:-30])
    assert f"{file} is damaged" in read_refusal("nasbench201", folder, tmp_path)


# ------------------------------------------------------------------------------------------------------ NAS-Bench-101


def make_evaluations(val: float, test: float) -> list[tuple[float, ...]]:
    """Return evaluations at the start, halfway and at the end of a training.

    Each has epoch, seconds, and the accuracies on the train, validation and test parts.
    """
    return [(0, 0, 0.1, 0.1, 0.1), (54, 500, 0.5, 0.5, 0.5), (108, 1000, 0.99, val, test)]


def test_the_checksum_has_the_check_value_of_its_definition():
    assert publishers.compute_crc32c(b"123456789") == 0xE3069283


def test_records_of_nasbench101_are_read_without_tensorflow(tmp_path):
    """Three trainings of a cell and one of another; one row has a vertex that is on no path."""
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
    publishers.write_tfrecord(
        path, [(e, m, ops, make_evaluations(v, t), 2_500_000) for e, m, ops, v, t in rows]
    )
    table = import_benchmark("nasbench101", path, tmp_path)
    assert len(table) == 2
    arch = load_space("nasbench101").parse("010/001/000+input,conv3x3-bn-relu,output")
    assert table.read_value(arch, table.find_metric(split="val", epochs=108)) == pytest.approx(
        100 * (0.91 + 0.93 + 0.95) / 3
    )
    assert table.read_value(arch, table.find_metric(split="test", epochs=108)) == pytest.approx(
        100 * (0.85 + 0.86 + 0.87) / 3
    )
    assert table.read_value(arch, table.find_metric(split="val", epochs=36)) == pytest.approx(50)
    assert [table.read_value(arch, f"cifar10_val_108_seed{k}") for k in range(3)] == pytest.approx(
        [91, 93, 95]
    )
    assert table.read_value(arch, "cifar10_train_108") == pytest.approx(99)
    assert table.read_value(arch, "params") == 2.5
    assert table.read_value(arch, "cifar10_seconds_108") == 1000
    other = next(text for text in table.list_archs() if text != str(arch))
    assert table.read_value(other, "cifar10_test_108") == pytest.approx(80)
    assert table.read_value(other, "cifar10_test_36") is None
    assert table.read_value(other, "cifar10_test_108_seed1") is None


@pytest.mark.parametrize("damage", ["cut", "head", "length", "data", "text"])
def test_a_damaged_tfrecord_is_refused(tmp_path, damage):
    path = publishers.write_tfrecord(
        tmp_path / "a.tfrecord", [(108, *INPUT_CONV_OUTPUT, make_evaluations(0.9, 0.8), 1)] * 2
    )
    content = bytearray(path.read_bytes())
    if damage == "text":
        content = bytearray(publishers.frame_record(b'["hash", 108]'))
    elif damage in ("cut", "head"):
        del content[-5 if damage == "cut" else len(content) // 2 + 6 :]
    else:
        content[{"length": 0, "data": 40}[damage]] ^= 1
    path.write_bytes(content)
    message = read_refusal("nasbench101", path, tmp_path)
    assert ("not laid out" if damage == "text" else "is not a complete TFRecord file") in message


# --------------------------------------------------------------------------------------------------------- TransNAS

CELLS = ["64-41414-3_33_333", "64-41414-0_12_301"]


@pytest.mark.parametrize(("as_tensor", "old"), [(False, False), (True, False), (False, True)])
def test_a_pth_file_of_transnas_is_imported(tmp_path, as_tensor, old):
    path = publishers.write_transnas(
        tmp_path / "transnas-bench_v10141024.pth", CELLS, as_tensor=as_tensor, old=old
    )
    table = import_benchmark("transnas", path, tmp_path)
    assert table.list_archs() == tuple(CELLS)
    for t, task in enumerate(publishers.TASKS):
        assert (
            table.read_value(CELLS[1], table.find_metric(dataset=task, split="val"))
            == 100 * t + 10 + 1
        )
        assert (
            table.read_value(CELLS[1], table.find_metric(dataset=task, split="test"))
            == 100 * t + 20 + 1
        )
        assert table.read_value(CELLS[1], f"{task}_val_best") == 100 * t + 10 + 1 + 0.5
    assert table.find_metric("room_layout_test").kind == "negative loss"
    assert table.find_metric("normal_val").unit == ""


def test_tensors_of_a_torch_file_are_read_as_equal_arrays(tmp_path):
    whole = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    content = {
        "a": whole[1:3, ::2].T,
        "b": torch.tensor(3),
        "c": torch.zeros(0, 2),
        "d": whole > 4,
        "e": [1.5, "x"],
    }
    torch.save(content, tmp_path / "some.pth")
    arrays = read_torch(tmp_path / "some.pth")
    for name in "abcd":
        assert np.array_equal(arrays[name], content[name].numpy())
        assert arrays[name].dtype == content[name].numpy().dtype
    assert arrays["e"] == [1.5, "x"]


def test_a_file_of_old_torch_with_tensors_is_refused(tmp_path):
    path = publishers.write_transnas(tmp_path / "old.pth", CELLS, as_tensor=True, old=True)
    refusal = read_refusal("transnas", path, tmp_path)
    assert "torch before 1.6 wrote it" in refusal
    assert "save it again" in refusal


# ------------------------------------------------------------------------------------------- Suite-Zero, HW-NAS-Bench


def write_suite_zero(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_cells_of_nasbench201_in_suite_zero_are_decoded(tmp_path):
    """The order of edges and the numbers of operations differ from those of NAS-Bench-201.

    The row is from the published file. Its number of parameters confirms the decoded cell.
    """
    row = {
        "params": 0.434196,
        "synflow": 68.21482965949316,
        "jacov": -1e8,
        "val_accuracy": 68.33999986572266,
    }
    path = write_suite_zero(
        tmp_path / "zc_nasbench201.json", {"nasbench201": {"cifar100": {"(4, 3, 3, 3, 2, 3)": row}}}
    )
    table = import_benchmark("nasbench201", path, tmp_path)
    (arch,) = table.list_archs()
    assert (
        arch
        == "|avg_pool_3x3~0|+|nor_conv_1x1~0|nor_conv_1x1~1|+|nor_conv_1x1~0|nor_conv_3x3~1|nor_conv_1x1~2|"
    )
    assert (
        table.read_value(arch, table.find_metric(dataset="cifar100", split="val", epochs=200))
        == row["val_accuracy"]
    )
    assert table.read_value(arch, table.find_score("synflow")) == row["synflow"]
    network = load_space("nasbench201").build(
        load_space("nasbench201").parse(arch), Task("cifar100", (3, 32, 32), 100)
    )
    assert sum(p.numel() for p in network.parameters()) == row["params"] * 1e6
    assert "jacov/cifar100/zc_nasbench201" not in table.counts  # -1e8 is not a score
    assert all(metric.kind == "accuracy" for metric in table.metrics)  # scores are not metrics


def test_rows_of_suite_zero_may_contain_seconds(tmp_path):
    def make_row(number: float) -> dict[str, object]:
        zen = {"score": number, "time": 1.0}
        return {
            "idx": "1",
            "arch": "()",
            "zen": zen,
            "snip": {"score": -1e8, "time": 1},
            "val_accuracy": 50 + number,
        }

    tasks = {
        task: {"(0, 1, 2, 3, 0, 1)": make_row(1), "(3, 3, 3, 3, 3, 3)": make_row(2)}
        for task in ("class_scene", "jigsaw")
    }
    table = import_benchmark(
        "transnas", write_suite_zero(tmp_path / "zc_transbench101_micro.json", tasks), tmp_path
    )
    assert table.list_archs() == ("64-41414-0_12_301", "64-41414-3_33_333")
    assert (
        table.read_value("64-41414-3_33_333", table.find_metric(dataset="jigsaw", split="val"))
        == 52
    )
    assert [score.name for score in table.scores] == [
        f"zen/{t}/zc_transbench101_micro" for t in tasks
    ]


def test_a_file_of_suite_zero_with_one_data_set_is_imported(tmp_path):
    """The name of the data set is not taken for the name of a space."""
    tasks = {
        "cifar10": {"(0, 1, 2, 3, 4, 0)": {"zen": {"score": 3.0, "time": 1}, "val_accuracy": 90.0}}
    }
    table = import_benchmark("nasbench201", write_suite_zero(tmp_path / "zc.json", tasks), tmp_path)
    assert table.read_value(table.list_archs()[0], "cifar10_val_200_suite_zero") == 90


def test_cells_of_nasbench101_and_301_in_suite_zero_are_decoded(tmp_path):
    chain = (0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 4, 1)
    # The same cell with a vertex that is on no path.
    loose = (0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 2, 1)  # fmt: skip
    rows = {
        str(chain): {"zen": 1.0, "val_accuracy": 90.0},
        str(loose): {"zen": 2.0, "val_accuracy": 91.0},
    }
    table = import_benchmark(
        "nasbench101", write_suite_zero(tmp_path / "zc1.json", {"cifar10": rows}), tmp_path
    )
    (arch,) = table.list_archs()
    assert arch == "010/001/000+input,conv3x3-bn-relu,output"
    # Each row is the accuracy of one of three seeds.
    assert table.read_value(arch, table.find_metric(split="val")) == pytest.approx(90.5)
    assert table.read_value(arch, table.find_score("zen")) == 1
    cell = [(0, 4), (1, 3), (0, 2), (2, 3), (2, 3), (0, 3), (2, 6), (3, 5)]
    rows = {str([cell, cell]): {"zen": 1.0, "val_accuracy": 93.9}}
    path = write_suite_zero(tmp_path / "zc3.json", {"nasbench301": {"cifar10": rows}})
    table = import_benchmark("nasbench301", path, tmp_path)
    assert (
        "('sep_conv_5x5', 0), ('sep_conv_3x3', 1), ('skip_connect', 0), ('sep_conv_3x3', 2)"
        in table.list_archs()[0]
    )
    assert table.read_value(table.list_archs()[0], table.find_metric(split="val")) == 93.9


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
    assert "is not laid out as a file of NAS-Bench-Suite-Zero" in read_refusal(
        "nasbench201", tmp_path / "zc.json", tmp_path
    )


def test_hwnas_adds_latencies_to_an_existing_table(tmp_path, nats):
    path = publishers.write_hwnas(tmp_path / "HW-NAS-Bench-v1_0.pickle", ARCHS)
    table = import_benchmark("nasbench201", path, tmp_path / "root")
    assert len(table) == len(ARCHS)
    for d, dataset in enumerate(DATASETS, start=1):
        assert table.read_value(ARCHS[4], f"{dataset}_latency_raspi4") == d + 4
        assert table.read_value(ARCHS[4], f"{dataset}_energy_eyeriss") == 4 + d / 2
        assert table.find_metric(f"{dataset}_energy_eyeriss").unit == "mJ"
    assert not any("intensity" in metric.name for metric in table.metrics)
    test = table.find_metric(dataset="cifar10", split="test", epochs=200)
    assert table.read_value(ARCHS[2], test) == nats.read_value(ARCHS[2], test)
    assert table.read_value(ARCHS[4], test) is None
    assert {source.file for source in table.sources} == {path.name, "NATS-tss-v1_0-3ffb9-simple"}


def test_importing_a_file_again_replaces_its_rows(tmp_path):
    first = write_suite_zero(
        tmp_path / "zc.json",
        {"cifar10": {"(0, 1, 2, 3, 4, 0)": {"zen": 3.0, "val_accuracy": 90.0}}},
    )
    import_benchmark("nasbench201", first, tmp_path)
    write_suite_zero(first, {"cifar10": {"(1, 1, 2, 3, 4, 0)": {"zen": 3.0, "val_accuracy": 80.0}}})
    table = import_benchmark("nasbench201", first, tmp_path)
    assert [
        table.read_value(arch, "cifar10_val_200_suite_zero") for arch in table.list_archs()
    ] == [80]


@pytest.mark.parametrize(
    "name", ["nasbench201", "nasbench101", "nasbench301", "darts1000", "transnas"]
)
def test_the_error_for_a_wrong_path_lists_the_files_to_import(tmp_path, name):
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        assert f"has another format; {name} can be made from a folder with " in read_refusal(
            name, path, tmp_path
        )
    assert f"there is no {tmp_path / 'absent'}; {name} can be made from" in read_refusal(
        name, tmp_path / "absent", tmp_path
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (
            "nasbench201",
            lambda f: publishers.write_nats(f / "simple", ["|none~0|", *ARCHS[1:]], only=(0,)),
        ),
        ("nasbench201", lambda f: publishers.write_hwnas(f / "hw.pickle", ["|none~0|"])),
        (
            "nasbench101",
            lambda f: publishers.write_tfrecord(
                f / "a.tfrecord", [(108, "0010", "input,output", [], 1)]
            ),
        ),
        ("transnas", lambda f: publishers.write_transnas(f / "a.pth", ["64-41414-9_33_333"])),
    ],
)
def test_an_architecture_that_is_not_in_the_space_is_named_in_one_line(tmp_path, name, path):
    message = read_refusal(name, path(tmp_path), tmp_path)
    assert "is not laid out as a file of" in message
    assert f"is not in {'transnas_micro' if name == 'transnas' else name}: " in message

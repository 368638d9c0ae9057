"""The imported tables: row counts, published optima, validation and test columns, valid keys."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from torch import nn

from tests.conftest import find_shared
from untrained.benchmarks import BENCHMARKS, BenchmarkTable
from untrained.benchmarks.importers.suite_zero import ARCH_FORMATS
from untrained.spaces import load_space
from untrained.spaces.nasbench201 import find_official_index, make_arch_from_index

pytestmark = pytest.mark.data
ROWS = {
    "nasbench201": 15_625,
    "nasbench101": 5_385 + 236,  # the cells of 1Shot1, and other cells of the sample of 500
    "nasbench1shot1_s1": 2_487,
    "nasbench1shot1_s2": 3_609,
    "nasbench301": 1_218,
    "darts1000": 1_000,
    "transnas": 4_096,
    "accel_nasbench": 5_125,  # 13 of the 5,138 rows are second trainings
}
DIGITS = {"ops": str, "arch": str, "matrix": str}


def read_csv(*parts: str) -> pd.DataFrame:
    """Read a file of the shared data folder."""
    return pd.read_csv(find_shared("data", *parts), dtype=DIGITS)


def find_best(table: BenchmarkTable, **metric: object) -> tuple[float, str]:
    """Return the best value of a metric and its architecture."""
    values = table.read_column(table.find_metric(**metric))
    return float(np.nanmax(values)), table.list_archs()[int(np.nanargmax(values))]


# ---------------------------------------------------------------------------------------------- all tables


def test_every_table_that_is_imported_has_an_expected_number_of_rows():
    imported = [name for name, benchmark in BENCHMARKS.items() if not benchmark.is_packaged]
    assert list(ROWS) == imported


@pytest.mark.parametrize("name", ROWS)
def test_a_table_has_the_expected_number_of_architectures(load_table, name):
    table = load_table(name)
    assert len(table) == len(table.list_archs()) == len(set(table.list_archs())) == ROWS[name]
    assert table.about.startswith(f"{ROWS[name]:,} of ")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_key_is_the_string_of_an_architecture_of_its_space(load_table, name):
    """All keys of a small table, 300 of a large one."""
    table = load_table(name)
    space = load_space(table.space)
    archs = table.list_archs()
    rows = np.random.default_rng(0).choice(len(archs), min(300, len(archs)), replace=False)
    for row in rows:
        arch = space.parse(archs[row])
        assert str(arch) == archs[row]
        assert table.read_value(arch, table.metrics[0]) == table.read_column(table.metrics[0])[row]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_metric_is_described_and_has_values(load_table, name):
    table = load_table(name)
    for metric in table.metrics:
        assert metric.source, metric.name
        # Sizes and speeds belong to no part of the data. All of them are costs but the throughput.
        if metric.kind == "throughput":
            assert metric.split is None
            assert metric.higher_is_better
        else:
            assert (metric.split is None) == (not metric.higher_is_better), metric.name
        assert table.count_values(metric) == np.isfinite(table.read_column(metric)).sum() > 0
    for score in table.scores:
        assert score.source, score.name
        # Sentinels such as -1e8 are missing values.
        assert table.read_column(score)[np.isfinite(table.read_column(score))].min() > -1e7, (
            score.name
        )
    assert len({column.name for column in table.columns}) == len(table.columns)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_sources_are_listed_with_their_digests(load_table, name):
    for source in load_table(name).sources:
        (file,) = find_shared("data").rglob(source.file)
        assert sha256(file.read_bytes()).hexdigest() == source.sha256


# --------------------------------------------------------------------------------------------------- NAS-Bench-201


@pytest.mark.parametrize(
    ("dataset", "optimum", "index"),
    [("cifar10", 94.37, 6111), ("cifar100", 73.51, 9930), ("ImageNet16-120", 47.31, 857)],
)
def test_nasbench201_has_its_published_optima(load_table, dataset, optimum, index):
    value, arch = find_best(load_table("nasbench201"), dataset=dataset, split="test", epochs=200)
    assert round(value, 2) == optimum
    assert arch == str(make_arch_from_index(index))
    other, _ = find_best(load_table("nasbench201"), dataset=dataset, split="val", epochs=200)
    assert abs(other - optimum) > 0.01


def test_accuracies_of_nasbench201_come_from_the_right_columns(load_table):
    """The best mean validation accuracy on CIFAR-10 is published as 91.61."""
    table = load_table("nasbench201")
    source = read_csv("nasbench201", "nb201_full.csv.gz").set_index("arch_str")
    assert find_best(table, dataset="cifar10", split="val", epochs=200) == (
        pytest.approx(91.61, abs=0.005),
        str(make_arch_from_index(6111)),
    )
    columns = {
        ("cifar10", "val", 200): "c10_val_200_mean", ("cifar10", "test", 200): "c10_test_200",
        ("cifar100", "val", 200): "c100_val_200", ("cifar100", "test", 200): "c100_test_200",
        ("ImageNet16-120", "val", 200): "in16_val_200", ("ImageNet16-120", "test", 200): "in16_test_200",
        ("cifar10", "val", 12): "c10_val_12", ("cifar10", "test", 12): "c10_test_12",
        ("cifar100", "val", 12): "c100_val_12", ("cifar100", "test", 12): "c100_test_12",
        ("ImageNet16-120", "val", 12): "in16_val_12", ("ImageNet16-120", "test", 12): "in16_test_12",
    }  # fmt: skip
    for (dataset, split, epochs), column in columns.items():
        metric = table.find_metric(dataset=dataset, split=split, epochs=epochs)
        assert (metric.dataset, metric.split, metric.epochs, metric.kind) == (
            dataset,
            split,
            epochs,
            "accuracy",
        )
        assert np.array_equal(table.read_values(source.index, metric), source[column])


def test_nasbench201_has_costs_latencies_and_partial_metrics(load_table):
    table = load_table("nasbench201")
    arch = make_arch_from_index(1)
    assert find_official_index(arch) == 1
    assert table.read_value(arch, "cifar10_params") == pytest.approx(0.802426)
    assert table.read_value(arch, "cifar10_flops") == pytest.approx(116.692672)
    assert table.read_value(arch, "cifar10_seconds_12") == pytest.approx(130.178483)
    devices = [metric for metric in table.metrics if metric.kind == "latency"]
    assert len(devices) == 27
    assert {(m.unit, m.higher_is_better, table.count_values(m)) for m in devices} == {
        ("ms", False, 15_625)
    }
    assert table.read_value(arch, "latency_raspi4") == pytest.approx(54.777)
    assert table.read_value(
        arch, table.find_metric(dataset="cifar10", split="train", epochs=12)
    ) == pytest.approx(91.694)
    assert table.read_value(make_arch_from_index(1000), "cifar10_train_12") is None
    assert table.read_value(arch, "cifar10_seconds_200_whole") == pytest.approx(4339.282751)
    assert table.read_value(arch, "cifar10_test_200_seed1") == pytest.approx(93.62)


def test_published_scores_of_nasbench201_are_kept_per_run(load_table):
    table = load_table("nasbench201")
    source = read_csv("nasbench201", "nb201_zc12_subset.csv.gz")
    rows = source[(source["task"] == "cifar100") & (source["run"] == "json_725")]
    score = table.find_score("synflow", dataset="cifar100", run="json_725")
    archs = [make_arch_from_index(index) for index in rows["index"]]
    assert np.allclose(table.read_values(archs, score), rows["synflow"], equal_nan=True)
    assert table.count_values(score) == rows["synflow"].notna().sum() == 725
    assert len({s.run for s in table.scores if s.proxy == "synflow"}) == 10
    assert (source["jacov"] == -1e8).sum() > 0
    assert table.find_score("epsinas", dataset="ImageNet16-120").run == "authors"


# ------------------------------------------------------------------------------------------ NAS-Bench-101 and 1Shot1


def list_seed_columns(split: str) -> list[str]:
    """Return the columns of the three seeds."""
    return [f"{split}_acc_{k}" for k in range(3)]


@pytest.mark.parametrize("number", [1, 2])
def test_1shot1_has_the_means_over_its_seeds(load_table, number):
    table = load_table(f"nasbench1shot1_s{number}")
    source = read_csv("nasbench101", "nb101_1shot1_spaces12.csv.gz")
    source = source[source["space"] == number]
    space = load_space(table.space)
    archs = [
        space.parse(f"{matrix}+{ops}")
        for matrix, ops in zip(source["matrix"], source["ops"], strict=True)
    ]
    for split in ("val", "test"):
        metric = table.find_metric(dataset="cifar10", split=split, epochs=108)
        assert np.allclose(
            table.read_values(archs, metric), source[list_seed_columns(split)].mean(axis=1)
        )
        assert find_best(table, split=split, epochs=108)[0] == pytest.approx(
            source[list_seed_columns(split)].mean(axis=1).max()
        )
        assert np.array_equal(
            table.read_values(archs, f"cifar10_{split}_108_seed2"), source[f"{split}_acc_2"]
        )
    assert find_best(table, split="val")[0] > find_best(table, split="test")[0] + 0.3


def test_nasbench101_joins_two_sources(load_table):
    table = load_table("nasbench101")
    source = read_csv("nasbench101", "nb101_1shot1_spaces12.csv.gz")
    assert (table.count_values("cifar10_val_108"), table.count_values("cifar10_test_108")) == (
        5_621,
        5_385,
    )
    for split in ("val", "test"):
        assert find_best(table, split=split)[0] == pytest.approx(
            source[list_seed_columns(split)].mean(axis=1).max()
        )
    space = load_space("nasbench101")
    suite = read_csv("nasbench101", "nb101_zc11_acc_500.csv.gz")
    archs = [
        space.parse(f"{matrix}+{ops}")
        for matrix, ops in zip(suite["matrix"], suite["ops"], strict=True)
    ]
    of_seeds = np.stack([table.read_values(archs, f"cifar10_val_108_seed{k}") for k in range(3)])
    shared_cells = np.isfinite(of_seeds[0])
    assert shared_cells.sum() == 125
    accuracies = suite["val_accuracy"].to_numpy()
    # The sample has the accuracy of one of the three seeds.
    assert np.isclose(of_seeds, accuracies, atol=2e-5).any(0)[shared_cells].all()
    suite = suite.assign(
        arch=[str(arch) for arch in archs], imported=table.read_values(archs, "cifar10_val_108")
    )
    for _, rows in suite[~shared_cells].groupby("arch"):
        assert rows["imported"].iloc[0] == pytest.approx(np.mean(rows["val_accuracy"].unique()))
    synflow = table.find_score("synflow")
    assert table.count_values(synflow) == len({str(arch) for arch in archs}) == 292
    assert table.read_value(archs[0], synflow) == pytest.approx(88.08498)


# --------------------------------------------------------------------------------------------------- DARTS, TransNAS


def test_darts1000_and_nasbench301_equal_their_sources(load_table):
    trained = load_table("darts1000")
    source = read_csv("darts", "darts1000_cifar10.csv.gz")
    space = load_space("darts")
    metric = trained.find_metric(dataset="cifar10", split="val", epochs=200)
    archs = [space.parse(genotype) for genotype in source["genotype"]]
    assert np.array_equal(trained.read_values(archs, metric), source["val_acc"])
    surrogate = load_table("nasbench301")
    source = read_csv("nasbench301", "nb301_zc12_acc.csv.gz")
    assert find_best(surrogate, split="val")[0] == source["val_accuracy"].max()
    means = source.groupby("arch")["val_accuracy"].mean()
    assert sorted(surrogate.read_column(surrogate.find_metric(split="val"))) == pytest.approx(
        sorted(means)
    )
    # The first row, decoded: in the data folder 4 is sep_conv_5x5, 6 is dil_conv_5x5, and so on.
    first = (
        "Genotype(normal=[('sep_conv_5x5', 0), ('sep_conv_3x3', 1), ('skip_connect', 0), ('sep_conv_3x3', 2), "
        "('sep_conv_3x3', 2), ('sep_conv_3x3', 0), ('dil_conv_5x5', 2), ('dil_conv_3x3', 3)], "
        "normal_concat=range(2, 6), reduce=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('avg_pool_3x3', 1), "
        "('dil_conv_3x3', 0), ('sep_conv_3x3', 2), ('skip_connect', 0), ('sep_conv_5x5', 4), ('avg_pool_3x3', 3)], "
        "reduce_concat=range(2, 6))"
    )
    runs = [surrogate.find_score("synflow", run=run) for run in ("json_500", "json_725")]
    assert [surrogate.read_value(space.parse(first), run) for run in runs] == pytest.approx(
        [95.08836, 95.33777]
    )


def test_networks_of_nasbench301_have_the_published_numbers_of_parameters(load_table):
    """The published numbers are of networks of NASLib with 32 channels.

    Their norms inside operations have no parameters, so only convolutions and linear layers are
    compared.
    """
    table = load_table("nasbench301")
    space = load_space("darts(channels=32,cells=8)")
    score = table.find_score("params", run="json_725")
    archs = [arch for arch in table.list_archs() if table.read_value(arch, score) is not None][::25]
    differences = set()
    for arch in archs:
        modules = space.build(space.parse(arch), device="meta").modules()
        params = 0
        for module in modules:
            if isinstance(module, nn.Conv2d | nn.Linear):
                params += sum(weight.numel() for weight in module.parameters())
        differences.add(round(1e6 * table.read_value(arch, score)) - params)
    assert len(archs) == 29
    assert len(differences) == 1  # the norms outside operations


def test_transnas_has_its_published_best_values(load_table):
    table = load_table("transnas")
    for task, value in {"class_scene": 54.94, "class_object": 45.59, "jigsaw": 95.37}.items():
        assert round(find_best(table, dataset=task, split="val")[0], 2) == value
    assert len({metric.dataset for metric in table.metrics}) == 7
    assert table.find_metric(dataset="room_layout", split="val").kind == "negative loss"
    assert all(metric.higher_is_better for metric in table.metrics)


def test_disconnected_cells_of_transnas_are_the_worst(load_table):
    """The 169 disconnected cells have the lowest accuracies in scene classification."""
    table = load_table("transnas")
    metric = table.find_metric(dataset="class_scene", split="val")
    order = np.argsort(table.read_column(metric))
    worst = order[:169]
    rest = order[169:]
    assert table.read_column(metric)[worst].max() < 7.5
    assert table.read_column(metric)[rest].min() > 17.4
    for row in worst:
        digits = table.list_archs()[row].removeprefix("64-41414-").replace("_", "")
        a, b, c, d, e, f = (digit != "0" for digit in digits)
        # The paths from node 0 to node 3: direct, over node 1, over node 2, over both.
        assert not any((d, a and e, b and f, a and c and f))
    zen = table.find_score("zen", dataset="class_scene", run="zip")
    assert np.isnan(table.read_column(zen)[worst]).all()  # the source has -1e8
    assert table.count_values(zen) == 4096 - 169


# ------------------------------------------------------------------------------------------------------- publishers

PUBLISHED = [  # rows of the published zc_nasbench201.json (cifar100) and zc_transbench101_micro.json (class_scene)
    ("nasbench201", "cifar100_val_200_suite_zero", (4, 2, 3, 2, 0, 1), 63.73999999389648),
    ("nasbench201", "cifar100_val_200_suite_zero", (2, 0, 1, 1, 3, 1), 64.81999997558594),
    ("nasbench201", "cifar100_val_200_suite_zero", (1, 4, 1, 3, 4, 4), 38.380000003051755),
    ("nasbench201", "cifar100_val_200_suite_zero", (0, 3, 1, 2, 1, 0), 67.92000004882813),
    ("transnas", "class_scene_val_earlier", (1, 0, 0, 2, 2, 3), 35.04180145263672),
    ("transnas", "class_scene_val_earlier", (2, 1, 3, 1, 2, 1), 51.22909927368164),
]


@pytest.mark.parametrize(("name", "metric", "code", "value"), PUBLISHED)
def test_the_code_of_a_published_cell_is_decoded(load_table, name, metric, code, value):
    space, decode = ARCH_FORMATS[name]
    arch = load_space(space).parse(decode(code))
    assert load_table(name).read_value(arch, metric) == pytest.approx(value, abs=1e-5)


# ---------------------------------------------------------------------------------------------------- time and memory

MEASURE = """
import sys, time
start = time.process_time()
from untrained.benchmarks import open_table
table = open_table("nasbench201", sys.argv[1])
arch = table.list_archs()[6111]
values = [table.read_value(arch, metric) for metric in table.metrics]
seconds = time.process_time() - start
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, peak, *sys.modules)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_the_largest_table_opens_in_a_second_and_300_mb(load_table, data_root):
    """All metrics of an architecture are read in a new process; the time is processor time."""
    assert len(load_table("nasbench201").metrics) == 63
    command = [sys.executable, "-c", MEASURE, str(data_root)]
    for _ in range(3):
        seconds, peak, *loaded = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.split()
        assert int(peak) < 300_000  # kB
        assert not {"torch", "pandas", "scipy", "sklearn"} & set(loaded)
        if float(seconds) < 1:
            return
    pytest.fail(f"{seconds} seconds")

"""NAS-Bench-101 and NAS-Bench-1Shot1 from our CSV files, with a part of the 423,624 cells.

One file has the three seeds of every 1Shot1 cell. The other has one seed of 500 random cells, in
which isomorphic cells occur several times. `cifar10_val_108` is the mean over the available seeds.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from untrained.benchmarks.importers.csv_files import (
    add_suite_zero_scores,
    find_files,
    make_builder,
    read_csv,
)
from untrained.benchmarks.importers.csv_nasbench201 import make_accuracy_metric
from untrained.benchmarks.table import Metric, Split
from untrained.benchmarks.table_builder import TableBuilder, make_arch_reader

_SPACES_FILE = "nb101_1shot1_spaces12.csv.gz"
_SUITE_ZERO_FILE = "nb101_zc11_acc_500.csv.gz"
SEEDS = (0, 1, 2)


def make_cifar10_accuracy(
    split: Split, variant: str = "", about: str = "mean over three seeds"
) -> Metric:
    """Return the metric of accuracy on CIFAR-10 after 108 epochs."""
    return make_accuracy_metric("cifar10", split, 108, variant, about, "NAS-Bench-101")


def read_nasbench101(path: Path) -> TableBuilder | None:
    """Read all cells that have an accuracy."""
    files = find_files(path, "nasbench101", _SPACES_FILE, _SUITE_ZERO_FILE)
    if files is None:
        return None
    builder = make_builder(files)
    cells = read_csv(files[0], "matrix", "ops")
    archs = _read_archs(cells, "nasbench101")
    mean_accuracy = make_cifar10_accuracy(
        "val",
        about="mean over the available seeds: three for 1Shot1 cells, at least one for the others",
    )
    _add_seeds(builder, cells, archs, mean_accuracy)
    for file in files[1:]:
        random_cells = read_csv(file, "matrix", "ops", "val_accuracy")
        random_cells["key"] = _read_archs(random_cells, "nasbench101")
        # Cells of the first file have three seeds there, so only new cells are taken.
        is_new = ~random_cells["key"].isin(set(archs))
        new_cells = random_cells[is_new].drop_duplicates(["key", "val_accuracy"])
        accuracies = new_cells.groupby("key", sort=False)["val_accuracy"].mean()
        builder.add_values(accuracies.index, mean_accuracy, accuracies)
        keys = list(random_cells["key"])
        add_suite_zero_scores(builder, random_cells, keys, "cifar10", "json_500")
    return builder


def read_1shot1(number: int, path: Path) -> TableBuilder | None:
    """Read the cells of one of the spaces of NAS-Bench-1Shot1."""
    files = find_files(path, "nasbench101", _SPACES_FILE)
    if files is None:
        return None
    builder = make_builder(files)
    cells = read_csv(files[0], "space", "matrix", "ops")
    cells = cells[cells["space"] == number]
    archs = _read_archs(cells, f"nasbench1shot1_s{number}")
    _add_seeds(builder, cells, archs, make_cifar10_accuracy("val"))
    return builder


def _read_archs(cells: pd.DataFrame, space: str) -> list[str]:
    read_arch = make_arch_reader(space)
    pairs = zip(cells["matrix"], cells["ops"], strict=True)
    return [read_arch(f"{matrix}+{operations}") for matrix, operations in pairs]


def _add_seeds(
    builder: TableBuilder, cells: pd.DataFrame, archs: list[str], mean_val_metric: Metric
) -> None:
    """Add validation and test accuracy of each seed, and their means."""
    mean_metrics: tuple[tuple[Split, Metric], ...] = (
        ("val", mean_val_metric),
        ("test", make_cifar10_accuracy("test")),
    )
    for split, mean_metric in mean_metrics:
        names = [f"{split}_acc_{seed}" for seed in SEEDS]
        accuracies: np.ndarray[Any, Any] = cells[names].to_numpy()
        builder.add_values(archs, mean_metric, accuracies.mean(1))
        for seed in SEEDS:
            metric = make_cifar10_accuracy(split, f"seed{seed}", "one seed")
            builder.add_values(archs, metric, accuracies[:, seed])

"""NAS-Bench-101 and 1Shot1 from the CSV files of our data folder: part of the 423,624 cells.

Two tables know cells: one the three seeds of every 1Shot1 cell, the other one seed of 500 cells, drawn at random, in
which isomorphic cells come several times. `cifar10_val_108` is the mean over the seeds that are known.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from untrained.benchmarks._rows import Rows, canonical
from untrained.benchmarks._table import Metric, Split
from untrained.benchmarks.importers._csv import files, frame, put_scores, rows_of
from untrained.benchmarks.importers.csv_nasbench201 import accuracy

_SPACES = "nb101_1shot1_spaces12.csv.gz"
_SUITE = "nb101_zc11_acc_500.csv.gz"
SEEDS = (0, 1, 2)


def cifar10(split: Split, variant: str = "", about: str = "mean over three seeds") -> Metric:
    return accuracy("cifar10", split, 108, variant, about, "NAS-Bench-101")


def read(path: Path) -> Rows | None:
    """All cells whose accuracy is known."""
    found = files(path, "nasbench101", _SPACES, _SUITE)
    if found is None:
        return None
    rows, cells = rows_of(found), frame(found[0], "matrix", "ops")
    archs = _archs(cells, "nasbench101")
    mean = cifar10("val", about="mean over the seeds known: three of 1Shot1 cells, at least one of the others")
    _put_seeds(rows, cells, archs, mean)
    for file in found[1:]:
        suite = frame(file, "matrix", "ops", "val_accuracy")
        suite["key"] = _archs(suite, "nasbench101")
        new = suite[~suite["key"].isin(set(archs))].drop_duplicates(["key", "val_accuracy"])
        known = new.groupby("key", sort=False)["val_accuracy"].mean()
        rows.put_all(known.index, mean, known)
        put_scores(rows, suite, list(suite["key"]), "cifar10", "json_500")
    return rows


def read_1shot1(number: int, path: Path) -> Rows | None:
    """The cells of one of the spaces of NAS-Bench-1Shot1."""
    found = files(path, "nasbench101", _SPACES)
    if found is None:
        return None
    cells = frame(found[0], "space", "matrix", "ops")
    cells, rows = cells[cells["space"] == number], rows_of(found)
    _put_seeds(rows, cells, _archs(cells, f"nasbench1shot1_s{number}"), cifar10("val"))
    return rows


def _archs(cells: pd.DataFrame, space: str) -> list[str]:
    key = canonical(space)
    return [key(f"{matrix}+{ops}") for matrix, ops in zip(cells["matrix"], cells["ops"], strict=True)]


def _put_seeds(rows: Rows, cells: pd.DataFrame, archs: list[str], val: Metric) -> None:
    splits: tuple[tuple[Split, Metric], ...] = (("val", val), ("test", cifar10("test")))
    for split, mean in splits:
        seeds: np.ndarray[Any, Any] = cells[[f"{split}_acc_{k}" for k in SEEDS]].to_numpy()
        rows.put_all(archs, mean, seeds.mean(1))
        for k in SEEDS:
            rows.put_all(archs, cifar10(split, f"seed{k}", "one seed"), seeds[:, k])

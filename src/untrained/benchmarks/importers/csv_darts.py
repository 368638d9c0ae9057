"""Cells of the DARTS space from the CSV files of our data folder: NAS-Bench-301 (a surrogate's answers) and 1,000 cells
that were trained."""

from pathlib import Path
from typing import Any

from untrained.benchmarks._rows import Rows, canonical
from untrained.benchmarks._table import Metric
from untrained.benchmarks.importers._csv import files, frame, put_scores, rows_of
from untrained.benchmarks.importers._numbers import parse_numbers

OPS = "max_pool_3x3 avg_pool_3x3 skip_connect sep_conv_3x3 sep_conv_5x5 dil_conv_3x3 dil_conv_5x5".split()
SURROGATE = Metric(
    "accuracy",
    "%",
    True,
    "cifar10",
    "val",
    about="a surrogate's answer (XGB), which has noise of its own: mean where it was asked twice",
    source="NAS-Bench-301",
)
TRAINED = Metric("accuracy", "%", True, "cifar10", "val", 200, about="one training", source="SWAP")


def genotype(cells: Any) -> str:
    """NASLib writes a cell as pairs (source, operation); two of them make an architecture."""
    normal, reduce = (f"[{', '.join(f'({OPS[op]!r}, {node})' for node, op in cell)}]" for cell in cells)
    return f"Genotype(normal={normal}, normal_concat=range(2, 6), reduce={reduce}, reduce_concat=range(2, 6))"


def read_nasbench301(path: Path) -> Rows | None:
    found = files(path, "nasbench301", "nb301_zc12_acc.csv.gz")
    if found is None:
        return None
    rows, key, table = rows_of(found), canonical("darts"), frame(found[0], "run", "arch", "val_accuracy")
    table["key"] = [key(genotype(parse_numbers(arch))) for arch in table["arch"]]
    asked = table.groupby("key", sort=False)["val_accuracy"].mean()
    rows.put_all(asked.index, SURROGATE, asked)
    for run, part in table.groupby("run"):
        put_scores(rows, part, list(part["key"]), "cifar10", str(run))
    return rows


def read_darts1000(path: Path) -> Rows | None:
    found = files(path, "darts", "darts1000_cifar10.csv.gz")
    if found is None:
        return None
    rows, table = rows_of(found), frame(found[0], "genotype", "val_acc")
    rows.put_all(map(canonical("darts"), table["genotype"]), TRAINED, table["val_acc"])
    return rows
